"""Rules of KIP-966 against properties: the blocks of docs/replication-rules.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from docs.analyses import defects
from docs.analyses.kept import once, search
from docs.analyses.side_by_side import in_order
from docs.pages.blocks import Block, row, table
from docs.pages.stated import properties
from docs.pages.stated import rules as stated
from highwater.checker.asking import scenarios
from highwater.checker.asking.search import SearchOptions
from highwater.checker.base.words import settings
from highwater.invariants.replication import INVARIANTS
from highwater.model.language.model import Model
from highwater.model.replication import Replication

Subject = tuple[tuple[str, ...], str]
"""Rules that are off, and the defect whose budgets apply; "" where there is none."""
Parameters = tuple[tuple[str, int], ...]

LIMIT = 1_500_000
"""States of a search of this page that does not come to its end."""

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
"""The budgets for a rule that no defect scenario takes off alone."""

_REASSIGNING = {"replication_factor": 2, "initial_isr": 2, "reassignments": 2, "fencings": 1}
"""And for one of these."""

_OF_REASSIGNMENT = (
    "valid_isr_check", "elr_within_replicas", "reassignment_bumps_leader_epoch", "cancellation_is_whole",
)  # fmt: skip


def _on() -> frozenset[str]:
    return Replication.profiles[_PROFILE].rules


def _table() -> Iterator[str]:
    columns = (f"{n}:" for n in range(1, len(INVARIANTS) + 1))
    yield from table(("rules off", "budgets of", *columns, "states:"), [])
    yield from rows(list(subjects()))


def rows(chosen: Sequence[Subject]) -> list[str]:
    """The table's rows of some subjects, in their order."""
    alike: dict[Parameters, list[Subject]] = {}
    for subject in chosen:
        alike.setdefault(_parameters(*subject), []).append(subject)
    # What fails with every rule on is found once for all that have the same budgets.
    parts = [tuple(subjects) for subjects in sorted(alike.values(), key=len, reverse=True)]
    told = {row: text for part in in_order(parts, _rows) for row, text in part}
    return [told[subject] for subject in chosen]


def _rows(part: tuple[Subject, ...]) -> list[tuple[Subject, str]]:
    return [(subject, _row(*subject)) for subject in part]


def subjects() -> Iterator[Subject]:
    """Every rule alone, then every combination that a defect takes off."""
    known = {n: scenarios.find(defects.PLACE + n) for n in defects.names()}
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
    """The budgets under which these rules are looked at."""
    chosen: Mapping[str, int] = _REASSIGNING if off[0] in _OF_REASSIGNMENT else _OTHERWISE
    if scenario:
        chosen = scenarios.find(defects.PLACE + scenario).parameters
    return tuple(sorted(chosen.items()))


def _row(off: tuple[str, ...], scenario: str) -> str:
    parameters = _parameters(off, scenario)
    depths, states, complete = _explore(off, parameters)
    always, _, _ = _explore((), parameters)
    depths = {name: depth for name, depth in depths.items() if name not in always}
    if scenario:
        known = defects.find(scenario)
        for example in known.examples:
            depths.setdefault(example.name, example.depth)
        states = max(states, known.result.distinct_states)
    cells = ["·" if i.name in always else str(depths.get(i.name, "")) for i in INVARIANTS]
    link = f"[{scenario}](gallery.md#{scenario})" if scenario else ""
    searched = f"{states:,}, all" if complete else f"{states:,}+"
    return row((" ".join(f"`{r}`" for r in off), link, *cells, searched))


@once
def _explore(off: tuple[str, ...], parameters: Parameters) -> tuple[Mapping[str, int], int, bool]:
    """Property to depth, states, and whether those are all, with these rules off."""
    model = Model(Replication(dict(parameters), _on() - set(off)), INVARIANTS)
    found = search(model, SearchOptions(workers=1, limit_states=LIMIT))
    return {v.property: v.depth for v in found.violations}, found.distinct_states, found.complete


BLOCKS: dict[str, Block] = {
    "otherwise": lambda: settings(_OTHERWISE),
    "of_reassignment": lambda: ", ".join(f"`{rule}`" for rule in _OF_REASSIGNMENT),
    "reassigning": lambda: settings(_REASSIGNING),
    "limit": lambda: f"{LIMIT:,}",
    "properties": lambda: properties(INVARIANTS),
    "table": _table,
    "rules": lambda: stated({name: rule for name, rule in Replication.rules.items() if name in _on()}),
}
