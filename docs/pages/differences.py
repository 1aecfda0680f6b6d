"""Where KIP-966's text and Kafka trunk of 2024-10 decide differently: the blocks of docs/differences.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from docs.analyses import defects, trunk_findings
from docs.analyses.kept import answer, once, search
from docs.analyses.side_by_side import in_order
from docs.analyses.traced import traced
from docs.pages.blocks import Block, code, row, table
from highwater.checker.asking import scenarios
from highwater.checker.asking.catalogue import scenario_files
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.base.words import settings
from highwater.checker.engines.solver.difference import (
    Witness,
    differences,
    only_in_one,
    outcome,
    special,
)
from highwater.checker.engines.solver.helpers import with_helpers
from highwater.checker.telling.counterexample import Counterexample, follow_all
from highwater.model.language.model import Model

TEXT, TRUNK, FIRST_PHASE = "kip_966", "kafka_trunk_2024_10", "kip_966_first_phase"
CONTROLLER = (
    "replication/controller/unclean-recovery",
    {"reassignments": 1, "max_min_isr": 3, "leads_elsewhere": 1},
)
"""Where the controller's rules are compared: whatever an operator can do is in it."""
EXPLORED = {"max_leader_epoch": 3, "max_partition_epoch": 4}
"""Over that where they are explored."""
STATES = 1_000_000
"""How far a scenario of Kafka trunk is searched with a rule of the proposal."""
MESSAGES = ("replication/recovery-balanced", {"fencings": 1, "elections": 1})
"""Where the rules of brokers are compared."""


@dataclass(frozen=True)
class Compared:
    """A rule, taken over alone into a profile: what Z3 says of it. No differences where the states are not alike."""

    rule: str
    base: str
    first: Model
    second: Model
    found: dict[str, Witness | None] | None

    @property
    def witnesses(self) -> dict[str, Witness]:
        """The actions that differ."""
        return {name: w for name, w in self.found.items() if w} if self.found else {}


def _table() -> Iterator[str]:
    yield from table(("rule", "actions that differ", "found by exploring"), [])
    yield from (row for row, _ in _parts())


def _sections() -> Iterator[str]:
    for _, section in _parts():
        yield from section


@once
def _parts() -> list[tuple[str, list[str]]]:
    """Each rule's row, and its section with witnesses and what the explorer finds."""
    _of_trunk()  # of all of them each rule's section tells
    for controllers, base in ((True, TEXT), (True, FIRST_PHASE), (False, TEXT)):
        _base(controllers, base)
    return in_order(rules(), _told)


def _told(rule: str) -> tuple[str, list[str]]:
    """A rule's row and its section."""
    return _row(rule), list(_section(rule))


def rules() -> list[str]:
    """The rules in which the profiles differ: the controller's first."""
    found = [rule for rule, on in _request(CONTROLLER).rules.items() if on != _other(CONTROLLER)[rule]]
    rest = [rule for rule, on in _request(MESSAGES).rules.items() if on != _other(MESSAGES)[rule]]
    return list(dict.fromkeys([*found, *rest]))


def _other(place: tuple[str, dict[str, int]]) -> dict[str, bool]:
    return dict(_request(place, TRUNK).rules)


def _request(place: tuple[str, dict[str, int]], profile: str = TEXT) -> Request:
    name, settings = place
    return Request.of(scenarios.find(name), Overrides(settings, profile=profile))


def _place(rule: str) -> tuple[str, dict[str, int]]:
    return CONTROLLER if rule in _request(CONTROLLER).rules else MESSAGES


@once
def compared(rule: str, base: str = TEXT) -> Compared:
    """Ask Z3 about a rule that is taken over alone."""
    place = _place(rule)
    first = _request(place, base)
    one, two = _base(place is CONTROLLER, base), traced(first.with_rules({rule: not first.rules[rule]}))
    return Compared(rule, base, one, two, None if only_in_one(one, two) else _differences(one, two))


@once
def _base(controllers: bool, base: str) -> Model:
    """The model that a rule is taken over into, with what is proved beside its invariants."""
    return traced(with_helpers(_request(CONTROLLER if controllers else MESSAGES, base)))


def _differences(one: Model, two: Model) -> dict[str, Witness | None]:
    """Action to a witness, or None where it does the same."""
    sentences = [[i.sentence for i in model.instances] for model in (one, two)]
    found = answer("differences", [one, two], sentences, lambda: _asked_z3(one, two))
    return {name: said and _witness_of(said) for name, said in found.items()}


def _asked_z3(one: Model, two: Model) -> dict[str, Any]:
    found = differences(one, two)
    if found.stopped_by:
        raise ValueError(f"Z3 was stopped: {found.stopped_by}")
    return {name: w and [w.sentence, w.before, w.first, w.second] for name, w in found.actions.items()}


def _witness_of(said: list[Any]) -> Witness:
    sentence, *states = said
    before, first, second = (None if state is None else tuple(state) for state in states)
    assert before is not None
    return Witness(sentence, {}, before, first, second)


@once
def explored(rule: str, base: str = TEXT) -> tuple[int, tuple[Counterexample, ...]]:
    """Explore the controller's protocol with a rule taken over alone: states, and a run to each violation."""
    name, settings = CONTROLLER
    changed = {rule: not _request(CONTROLLER, base).rules[rule]}
    overrides = Overrides({**settings, **EXPLORED}, changed, base)
    model = traced(Request.of(scenarios.find(name), overrides))
    result = search(model, SearchOptions(workers=1, stop_at_first=True))
    return result.distinct_states, follow_all(model, result.violations)


def _asked(rule: str) -> list[Compared]:
    """The comparison with the proposal; where that finds nothing also the one with its first phase."""
    whole = compared(rule)
    if whole.witnesses or whole.found is None or _place(rule) is not CONTROLLER:
        return [whole]
    return [whole, compared(rule, FIRST_PHASE)]


def _row(rule: str) -> str:
    asked = _asked(rule)
    if asked[0].found is None:
        differing = "the states are not alike"
    elif asked[-1].witnesses:
        names = ", ".join(f"`{name}`" for name in asked[-1].witnesses)
        differing = names if len(asked) == 1 else f"none; beside the first phase {names}"
    else:
        differing = "none"
    return row((f"[{rule}](#{rule})", differing, "; ".join(_short(rule)) or "nothing"))


def _short(rule: str) -> Iterator[str]:
    if _place(rule) is CONTROLLER:
        for example in explored(rule, _asked(rule)[-1].base)[1]:
            yield f"`{example.name}` {example.depth}"
    yield from (f"`{name}`" for name in _closed(rule))
    yield from (f"[{name}](gallery.md#{name})" for name in _gallery(rule))
    yield from (f"[trunk: {f.name}](kafka-trunk.md#{f.name})" for f in _trunk(rule))


def _gallery(rule: str) -> list[str]:
    """The defects that have the rule off and no other, and that are violated."""
    return [
        name
        for name in defects.names()
        if name not in defects.LARGE
        and [r for r, on in scenarios.find(defects.PLACE + name).rules.items() if not on] == [rule]
        and defects.find(name).examples
    ]


def _trunk(rule: str) -> list[trunk_findings.Finding]:
    """The findings that the rule closes, alone or with others."""
    return [f for f in trunk_findings.FINDINGS if any(rule in closing for closing in f.closes)]


@once
def _of_trunk() -> dict[str, tuple[Counterexample, ...]]:
    """The controller's scenarios in Kafka trunk, with shortest runs to what they promise to be violated."""
    names = [n for n in scenario_files() if n.startswith("replication/controller/")]
    found = {n: _promised(n, {})[1] for n in names if scenarios.find(n).profile == TRUNK}
    return {name: examples for name, examples in found.items() if examples}


def _promised(name: str, changed: dict[str, bool]) -> tuple[int, tuple[Counterexample, ...]]:
    """The depth that was searched, and shortest runs to what a scenario promises to be violated."""
    # In order, as a set has none that is the same in every process.
    overrides = Overrides(rules=changed, properties=tuple(sorted(scenarios.find(name).promise.violated)))
    model = traced(Request.of(scenarios.find(name), overrides))
    result = search(model, SearchOptions(workers=1, stop_at_first=True, limit_states=STATES))
    return result.depth, follow_all(model, result.violations)


@once
def _closed(rule: str) -> tuple[str, ...]:
    """Those that are not violated any more, to that depth and further, with the proposal's rule.

    It is asked where nothing else shows that a rule of the controller matters.
    """
    if _place(rule) is not CONTROLLER or explored(rule, _asked(rule)[-1].base)[1]:
        return ()
    if _gallery(rule) or _trunk(rule):
        return ()
    changed = {rule: _request(CONTROLLER).rules[rule]}
    after = {name: _promised(name, changed) for name in _of_trunk()}
    return tuple(
        name for name, (depth, left) in after.items() if not left and depth > _of_trunk()[name][0].depth + 1
    )


def _section(rule: str) -> Iterator[str]:
    place = _place(rule)
    said = _request(place).scenario.protocol.rules[rule]
    trunk = "on" if _other(place)[rule] else "off"
    yield f"\n## {rule}\n"
    yield f"{said.source}. {said.sentence} In Kafka trunk it is {trunk}."
    for it in _asked(rule):
        beside = "KIP-966" if it.base == TEXT else "KIP-966 without unclean recovery (966.15)"
        if it.found is None:
            fields = ", ".join(f"`{path}`" for path in only_in_one(it.first, it.second))
            yield f"\nThe states are not alike, so they cannot be compared one by one: only one has {fields}."
            continue
        equal = [f"`{name}`" for name, w in it.found.items() if w is None]
        if not it.witnesses:
            yield f"\nBeside {beside} it changes nothing: all {len(equal)} actions are equal in all states."
            continue
        yield f"\nBeside {beside} {len(it.witnesses)} of {len(it.found)} actions differ:\n"
        told = (_witness(it, name, witness) for name, witness in it.witnesses.items())
        yield from table(("what happens", "in the state", *_sides(it)), told)
    yield "\nThe explorer:\n"
    yield from _found(rule)


def _sides(it: Compared) -> Iterator[str]:
    for side, model in (("KIP-966", it.first), ("trunk", it.second)):
        yield f"{side} (rule {'on' if it.rule in model.protocol.rules_on else 'off'})"


def _witness(it: Compared, name: str, witness: Witness) -> Iterator[str]:
    yield f"`{name}`: {witness.sentence}"
    yield code(special(it.first, witness) or ["the initial one"])
    for after in (witness.first, witness.second):
        yield "cannot be taken" if after is None else code(outcome(it.first, witness, after))


def _found(rule: str) -> Iterator[str]:
    if _place(rule) is CONTROLLER:
        base = _asked(rule)[-1].base
        states, examples = explored(rule, base)
        bounds = f"`{CONTROLLER[0]}` with {settings({**CONTROLLER[1], **EXPLORED})}, profile `{base}`"
        if examples:
            for example in examples:
                yield (
                    f"- `{example.name}` ({example.source}) is violated at depth {example.depth}, "
                    f"within {bounds} and this rule taken over. {example.meaning}"
                )
        else:
            yield f"- No property is violated in the {states:,} states within {bounds} and this rule taken over."
    for name in _closed(rule):
        violated = ", ".join(f"`{e.name}` at depth {e.depth}" for e in _of_trunk()[name])
        yield f"- `{name}`, the controller of Kafka trunk as it is: {violated}; not with the proposal's rule."
    for name in _gallery(rule):
        example = defects.find(name).examples[0]
        yield f"- [{name}](gallery.md#{name}): `{example.name}` is violated at depth {example.depth}."
    for finding in _trunk(rule):
        violated = ", ".join(
            f"`{e.name}` at depth {e.depth}" for e in trunk_findings.found(finding.name).examples
        )
        together = " or ".join(
            " + ".join(f"`{r}`" for r in closing) for closing in finding.closes if rule in closing
        )
        yield (
            f"- [{finding.name}](kafka-trunk.md#{finding.name}), Kafka trunk as it is: {violated}; "
            f"closed by {together}."
        )
    if _place(rule) is not CONTROLLER and not _gallery(rule) and not _trunk(rule):
        yield "- No scenario shows that it matters."


BLOCKS: dict[str, Block] = {
    "bounds": lambda: settings(CONTROLLER[1]),
    "message_bounds": lambda: settings(MESSAGES[1]),
    "table": _table,
    "rules": _sections,
}
