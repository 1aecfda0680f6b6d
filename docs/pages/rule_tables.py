"""For each protocol, a table of properties that fail without a rule; and runs that violate ``keeps_the_promise``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from docs.pages import galleries
from docs.pages.kept import in_order, once, search
from docs.pages.markdown import DOCS, Block, properties, row, rules, table
from highwater.checker.base.text import settings
from highwater.checker.comparing.gate import baseline
from highwater.checker.report.counterexample import Counterexample, abstract_step, no_abstract_step
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.search import SearchOptions
from highwater.invariants import replication, truncation, zookeeper
from highwater.model.language.model import Model
from highwater.model.replication.protocol import Replication
from highwater.model.truncation import Truncation
from highwater.model.zookeeper import ZooKeeperMode
from highwater.model.zookeeper.cluster import PROFILES, RULES

_BOUNDS = {"replicas": 3, "log_size": 3, "max_records": 3, "max_leader_epoch": 2}


def _bounds() -> str:
    return ", ".join(f"{name} = {value}" for name, value in _BOUNDS.items())


def _profiles() -> Iterator[str]:
    """A table for each profile: the depth at which each property fails without a rule."""
    columns = ("rules", "what is missing", *(f"{i.name}:" for i in truncation.INVARIANTS), "states:")
    for name, profile in Truncation.profiles.items():
        yield from (f"## `{name}`: {profile.meaning}", "", *table(columns, []), *truncation_rows(name), "")


def truncation_rows(profile: str) -> Iterator[str]:
    """The rows of a profile's table: with all its rules on, and with each rule off."""
    on = Truncation.profiles[profile].rules
    yield _truncation_row("all on", "nothing", on)
    for name, rule in Truncation.rules.items():
        if name in on:
            yield _truncation_row(f"`{name}` off", f"{rule.source}: {rule.sentence}", on - {name})


def _truncation_row(title: str, missing: str, rules: frozenset[str]) -> str:
    found = search(
        Model(Truncation(_BOUNDS, rules), truncation.INVARIANTS), SearchOptions(workers=1, symmetry=True)
    )
    depths = {v.property: str(v.depth) for v in found.violations}
    cells = [depths.get(i.name, "–") for i in truncation.INVARIANTS]
    return row((title, missing, *cells, f"{found.distinct_states:,}"))


TRUNCATION: dict[str, Block] = {"bounds": _bounds, "profiles": _profiles}


Subject = tuple[tuple[str, ...], str]
"""The rules that are off, and the defect scenario whose budgets apply; "" if there is none."""
Parameters = tuple[tuple[str, int], ...]

LIMIT = 1_500_000
"""The most states of a search for the table of replication."""

_PROFILE = "kip_966"
_OTHERWISE = {
    "brokers": 2,
    "replication_factor": 2,
    "initial_isr": 2,
    "fencings": 1,
    "crashes": 1,
    "lossy_crashes": 1,
    "shrinks": 1,
}
"""The budgets for a rule that no defect scenario switches off alone."""

_REASSIGNING = {"replication_factor": 2, "initial_isr": 2, "reassignments": 2, "fencings": 1}
"""The budgets for a rule of ``_OF_REASSIGNMENT`` that no defect scenario switches off alone."""

_OF_REASSIGNMENT = (
    "valid_isr_check", "elr_within_replicas", "reassignment_bumps_leader_epoch", "cancellation_is_whole",
)  # fmt: skip


def _on() -> frozenset[str]:
    return Replication.profiles[_PROFILE].rules


def _replication_table() -> Iterator[str]:
    columns = (f"{n}:" for n in range(1, len(replication.INVARIANTS) + 1))
    yield from table(("rules off", "budgets of", *columns, "states:"), [])
    yield from replication_rows(list(subjects()))


def replication_rows(chosen: Sequence[Subject]) -> list[str]:
    """The table rows of some subjects, in their order."""
    alike: dict[Parameters, list[Subject]] = {}
    for subject in chosen:
        alike.setdefault(_parameters(*subject), []).append(subject)
    # The search with every rule on is shared by all subjects with the same budgets.
    parts = [tuple(subjects) for subjects in sorted(alike.values(), key=len, reverse=True)]
    told = {row: text for part in in_order(parts, _replication_part) for row, text in part}
    return [told[subject] for subject in chosen]


def _replication_part(part: tuple[Subject, ...]) -> list[tuple[Subject, str]]:
    return [(subject, _replication_row(*subject)) for subject in part]


def subjects() -> Iterator[Subject]:
    """The rows to compute: each rule of the profile off, then each combination of rules that a defect switches off.

    A row is the rules and a defect's name. If several defects switch off the same single rule, each has a row. The
    name is "" if no defect switches off this rule alone.
    """
    known = {n: scenario_files.find(galleries.PLACE + n) for n in galleries.names()}
    off = {
        n: tuple(sorted(rule for rule, on in s.rules.items() if not on))
        for n, s in known.items()
        if s.profile == _PROFILE
    }
    for rule in Replication.rules:
        if rule in _on():
            alone = [n for n, rules in off.items() if rules == (rule,)]
            yield from (((rule,), n) for n in alone or [""])
    yield from ((rules, n) for n, rules in sorted(off.items()) if len(rules) > 1)


def _parameters(off: tuple[str, ...], scenario: str) -> Parameters:
    """The budgets for the search with the rules ``off`` switched off: those of ``scenario``, if it is not empty.

    Otherwise they depend on whether the first rule is in ``_OF_REASSIGNMENT``.
    """
    chosen: Mapping[str, int] = _REASSIGNING if off[0] in _OF_REASSIGNMENT else _OTHERWISE
    if scenario:
        chosen = scenario_files.find(galleries.PLACE + scenario).parameters
    return tuple(sorted(chosen.items()))


def _replication_row(off: tuple[str, ...], scenario: str) -> str:
    parameters = _parameters(off, scenario)
    depths, states, complete = _explore(off, parameters)
    always, _, _ = _explore((), parameters)
    depths = {name: depth for name, depth in depths.items() if name not in always}
    if scenario:
        known = galleries.find(scenario)
        for example in known.examples:
            depths.setdefault(example.name, example.depth)
        states = max(states, known.result.distinct_states)
    cells = ["·" if i.name in always else str(depths.get(i.name, "")) for i in replication.INVARIANTS]
    link = f"[{scenario}](gallery.md#{scenario})" if scenario else ""
    searched = f"{states:,}, all" if complete else f"{states:,}+"
    return row((" ".join(f"`{r}`" for r in off), link, *cells, searched))


@once
def _explore(off: tuple[str, ...], parameters: Parameters) -> tuple[Mapping[str, int], int, bool]:
    """With these rules off: the depth of each violated property, the number of states, True if complete.

    A search that reached the limit has a few more states, whose number depends on the engine.
    """
    model = Model(Replication(dict(parameters), _on() - set(off)), replication.INVARIANTS)
    found = search(model, SearchOptions(workers=1, limit_states=LIMIT))
    return {v.property: v.depth for v in found.violations}, min(found.distinct_states, LIMIT), found.complete


REPLICATION: dict[str, Block] = {
    "otherwise": lambda: settings(_OTHERWISE),
    "of_reassignment": lambda: ", ".join(f"`{rule}`" for rule in _OF_REASSIGNMENT),
    "reassigning": lambda: settings(_REASSIGNING),
    "limit": lambda: f"{LIMIT:,}",
    "properties": lambda: properties(replication.INVARIANTS),
    "table": _replication_table,
    "rules": lambda: rules({name: rule for name, rule in Replication.rules.items() if name in _on()}),
}


BUDGETS: tuple[Mapping[str, int], ...] = (
    {"bounces": 1, "controlled_shutdowns": 1, "reconnects": 1, "metadata": 0},
    {"bounces": 1, "expirations": 1},
    {"bounces": 1, "failovers": 1},
    {"bounces": 3, "metadata": 0},
    {"bounces": 1, "controlled_shutdowns": 1, "partitions": 2, "metadata": 0},
    {"bounces": 1, "removals": 1, "metadata": 0},
    {"bounces": 1, "older_controllers": 1, "metadata": 0},
)
"""The budgets of the searches. For each row of ZooKeeper's table, one search runs with each of these budgets."""


def _zookeeper_table() -> Iterator[str]:
    """The table of failing properties: with all rules on, with each rule off, and before KIP-380."""
    asked = len(zookeeper.INVARIANTS) + len(zookeeper.LIVENESS)
    yield from table(("rules", *(f"{n}:" for n in range(1, asked + 1))), [])
    yield _zookeeper_row("all on", frozenset(RULES))
    yield from (_zookeeper_row(f"`{rule}` off", frozenset(RULES) - {rule}) for rule in RULES)
    yield _zookeeper_row("profile `before_kip_380`", PROFILES["before_kip_380"].rules)


def _zookeeper_row(title: str, on: frozenset[str]) -> str:
    found = failing(on)
    cells = [str(found.get(i.name, "")) for i in zookeeper.INVARIANTS]
    return row((title, *cells, *("fails" if p.name in found else "" for p in zookeeper.LIVENESS)))


def failing(on: frozenset[str]) -> dict[str, int]:
    """The least depth of each property that fails under the rules ``on``, over all ``BUDGETS``.

    With given budgets, a property that also fails with all rules on does not count.
    """
    found: dict[str, int] = {}
    for number in range(len(BUDGETS)):
        gaps = failing_under(frozenset(RULES), number)
        for name, depth in failing_under(on, number).items():
            if name not in gaps:
                found[name] = min(depth, found.get(name, depth))
    return found


@once
def failing_under(on: frozenset[str], number: int) -> Mapping[str, int]:
    """The depth of each property that fails under the rules ``on`` and ``BUDGETS[number]``.

    Raises RuntimeError if the search is incomplete or prunes at a bound.
    """
    model = Model(ZooKeeperMode(BUDGETS[number], on), zookeeper.INVARIANTS, zookeeper.LIVENESS)
    result = search(model, SearchOptions(workers=1))
    if not result.complete or any(result.cut.values()):
        raise RuntimeError(
            f"a search of docs/zookeeper.md did not come to its end: {settings(BUDGETS[number])}"
        )
    return {v.property: v.depth for v in result.violations}


ZOOKEEPER: dict[str, Block] = {
    "searches": lambda: str(len(BUDGETS)),
    "budgets": lambda: "; ".join(map(settings, BUDGETS)),
    "properties": lambda: properties((*zookeeper.INVARIANTS, *zookeeper.LIVENESS)),
    "table": _zookeeper_table,
    "rules": lambda: rules(RULES),
}


PROPERTY = "keeps_the_promise"


def _standard() -> Iterator[str]:
    """The table of the scenarios in which the promise holds, according to the committed baseline."""
    kept = baseline.read(DOCS.parent / baseline.DEFAULT).facts
    yield from table(("scenario", "states:", "depth:", "steps that clients see:"), [])
    for (_, name), facts in kept.items():
        steps = facts.get("premises", {}).get(PROPERTY)
        if steps is not None or facts.get("properties", {}).get(PROPERTY) == "holds":
            seen = "" if steps is None else f"{steps:,}"
            yield row((f"`{name}`", f"{facts['distinct_states']:,}", facts["depth"], seen))


def _broken(name: str) -> Iterator[str]:
    """The number of states of a scenario with a rule off, and the run that violates the promise."""
    place, _, own = name.rpartition("/")
    found = galleries.find(own, f"{place}/")
    (example,) = found.examples
    yield f"`highwater check {name}`: {found.result.distinct_states:,} states until it is found."
    yield ""
    yield "```"
    yield from map(click.unstyle, _promise_run(example))
    yield "```"


def _promise_run(example: Counterexample) -> Iterator[str]:
    """The steps of a run that violates the promise, each with its abstract step.

    The last lines explain that no abstract step allows the run's last step.
    """
    run = example.abstract
    assert run is not None
    for number, step in enumerate(example.steps, 1):
        yield f"{number:4}  {step.sentence}"
        if number > 1:
            yield from abstract_step(run, number - 2, None)
    yield ""
    yield from list(no_abstract_step(run, None))[:-1]


PROMISE: dict[str, Block] = {"standard": _standard, "broken": _broken}
