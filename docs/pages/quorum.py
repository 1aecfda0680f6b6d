"""The blocks of the pages about the metadata quorum: tables of rules, liveness and votes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from docs.pages.galleries import QUORUM as GALLERY
from docs.pages.galleries import find
from docs.pages.kept import once, search
from docs.pages.markdown import Block, properties, row, rules, table
from highwater.checker.base.text import settings
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.search import SearchOptions
from highwater.invariants.quorum import INVARIANTS, LIVENESS
from highwater.model.language.model import Model
from highwater.model.quorum import Quorum

PROFILE = "kip_1166"

LIMIT = 1_000_000
"""The most states of a search for the table of invariants."""

OTHERWISE = {"settled": 1, "observers": 1, "appends": 1, "restarts": 1}
"""The budgets for a rule that no defect scenario switches off alone."""

FULL = tuple(p for p in LIVENESS if p.name != "fetches_come_to_rest")
_REST = tuple(p for p in LIVENESS if p.name == "fetches_come_to_rest")

_OBSERVED, _CONSUMED, _OLDER, _ELECTED = (
    {"observers": 1, "appends": 1},
    {"observers": 1, "consumers": 1, "appends": 1},
    {"older": 4, "appends": 1},
    {"elections": 1, "appends": 1},
)
LIVE: tuple[tuple[tuple[str, ...], Mapping[str, int]], ...] = (
    ((), _OBSERVED),
    (("fetch_carries_hwm",), _OBSERVED),
    (("unknown_hwm_is_told",), _OBSERVED),
    (("behind_is_answered",), _OBSERVED),
    (("equal_hwm_parks",), _OBSERVED),
    (("hwm_growth_completes",), _OBSERVED),
    (("growth_completes_all",), _OBSERVED),
    (("records_complete",), _OBSERVED),
    ((), _CONSUMED),
    (("consumers_leave_it_out",), _CONSUMED),
    ((), _OLDER),
    (("missing_hwm_is_greatest",), _OLDER),
    ((), _ELECTED),
    (("leader_change_record",), _ELECTED),
    (("diverging_is_answered",), _ELECTED),
    (("new_leader_forgets_hwm",), _ELECTED),
    (("timer_answers_as_parked",), _ELECTED),
)
"""The rows of the table of liveness: the rules that are off, and the budgets."""

VOTES = (
    "large-votes", "small-votes-restarts", "small-votes-losses", "small-votes-one-returns", "defect-no-pre-vote",
    "defect-pre-vote-for-all", "defect-two-votes", "defect-vote-forgotten", "gap-restarted-follower", "gap-empty-drain",
)  # fmt: skip
"""The scenarios in the table of votes."""

RULES = {name: rule for name, rule in Quorum.rules.items() if name in Quorum.profiles[PROFILE].rules}
OTHER_RULES = {name: rule for name, rule in Quorum.rules.items() if name not in RULES}


def _table() -> Iterator[str]:
    columns = (f"{n}:" for n in range(1, len(INVARIANTS) + 1))
    yield from table(("rule off", "budgets of", *columns, "states:"), [])
    yield from map(rule_row, RULES)


def _live() -> Iterator[str]:
    yield from table(("rule off", "budgets", *(f"`{p.name}`" for p in LIVENESS)), [])
    yield from (live_row(off, parameters) for off, parameters in LIVE)


def _votes() -> Iterator[str]:
    columns = ("scenario", "rules off", "what fails, and at which depth", "states:", "depth:")
    return table(columns, map(_vote_row, VOTES))


def _vote_row(name: str) -> Iterator[str]:
    found = find(name, "quorum/")
    fails = ", ".join(f"`{v.property}` {v.depth}" for v in found.result.violations) or "nothing"
    off = ", ".join(f"`{rule}`" for rule in found.off)
    text = (
        f"[{name}](quorum-gallery.md#{name.removeprefix('defect-')})" if name.startswith("defect-") else name
    )
    yield from (text, off, fails, f"{found.result.distinct_states:,}", str(found.result.depth))


def scenario_of(rule: str) -> str:
    """The first defect that switches off only this rule and checks no property of liveness; "" if there is none."""
    for name in GALLERY.names:
        found = scenario_files.find(GALLERY.place + name)
        off = [r for r, on in found.rules.items() if not on]
        if off == [rule] and not {p.name for p in LIVENESS} & set(found.properties or ()):
            return name
    return ""


def budgets_of(rule: str) -> dict[str, int]:
    """The budgets for a search with this rule off: those of ``scenario_of(rule)``, or else ``OTHERWISE``."""
    name = scenario_of(rule)
    return dict(scenario_files.find(GALLERY.place + name).parameters) if name else OTHERWISE


def rule_row(rule: str) -> str:
    """The table row of a rule: the depths at which invariants are violated without the rule."""
    name = scenario_of(rule)
    depths, states, complete = failing((rule,), tuple(budgets_of(rule).items()))
    cells = [str(depths.get(i.name, "")) for i in INVARIANTS]
    link = f"[{name}](quorum-gallery.md#{name})" if name else ""
    return row((f"`{rule}`", link, *cells, f"{states:,}{'' if complete else '+'}"))


def live_row(off: tuple[str, ...], parameters: Mapping[str, int]) -> str:
    """The table row for these rules off: whether each liveness property fails or holds."""
    failed = never(off, tuple(parameters.items()))
    cells = ["fails" if p.name in failed else "holds" for p in LIVENESS]
    title = " ".join(f"`{rule}`" for rule in off) or "all on"
    return row((title, settings(parameters), *cells))


@once
def failing(
    off: tuple[str, ...], parameters: tuple[tuple[str, int], ...]
) -> tuple[Mapping[str, int], int, bool]:
    """Check the invariants with the rules ``off`` switched off.

    Returns the depth of each violated invariant, the number of states, and True if the search is complete.
    """
    model = Model(Quorum(dict(parameters), _rules(off)), INVARIANTS)
    found = search(model, SearchOptions(workers=1, limit_states=LIMIT))
    return {v.property: v.depth for v in found.violations}, found.distinct_states, found.complete


@once
def never(off: tuple[str, ...], parameters: tuple[tuple[str, int], ...]) -> frozenset[str]:
    """The liveness properties that fail with these rules off.

    The property ``fetches_come_to_rest`` is checked without the park timer.
    """
    failed: set[str] = set()
    for asked, timer in ((FULL, 1), (_REST, 0)):
        model = Model(Quorum({**dict(parameters), "timer": timer}, _rules(off)), (), liveness=asked)
        result = search(model, SearchOptions(workers=1))
        failed |= {v.property for v in result.violations}
    return frozenset(failed)


def _rules(off: tuple[str, ...]) -> frozenset[str]:
    return Quorum.profiles[PROFILE].rules - set(off)


BLOCKS: dict[str, Block] = {
    "otherwise": lambda: settings(OTHERWISE),
    "limit": lambda: f"{LIMIT:,}",
    "properties": lambda: properties(INVARIANTS),
    "table": _table,
    "rules": lambda: rules(RULES),
    "liveness": lambda: (f"- `{p.name}` ({p.source}): {p.meaning}" for p in LIVENESS),
    "live": _live,
    "other_rules": lambda: rules(OTHER_RULES),
    "votes": _votes,
}
