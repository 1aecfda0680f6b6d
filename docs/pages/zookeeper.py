"""The control plane in ZooKeeper mode: the blocks of docs/zookeeper.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from docs.analyses.kept import once, search
from docs.pages.blocks import Block, row, table
from docs.pages.stated import properties, rules
from highwater.checker.asking.search import SearchOptions
from highwater.checker.base.words import settings
from highwater.invariants.zookeeper import INVARIANTS, LIVENESS
from highwater.model.language.model import Model
from highwater.model.zookeeper import ZooKeeperMode
from highwater.model.zookeeper.rules import PROFILES, RULES

BUDGETS: tuple[Mapping[str, int], ...] = (
    {"bounces": 1, "controlled_shutdowns": 1, "reconnects": 1, "metadata": 0},
    {"bounces": 1, "expirations": 1},
    {"bounces": 1, "failovers": 1},
    {"bounces": 3, "metadata": 0},
    {"bounces": 1, "controlled_shutdowns": 1, "partitions": 2, "metadata": 0},
    {"bounces": 1, "removals": 1, "metadata": 0},
    {"bounces": 1, "older_controllers": 1, "metadata": 0},
)
"""The searches of each row of the table."""


def _table() -> Iterator[str]:
    """Rules against properties: with all of them, with each of them off, and before the proposal."""
    asked = len(INVARIANTS) + len(LIVENESS)
    yield from table(("rules", *(f"{n}:" for n in range(1, asked + 1))), [])
    yield _row("all on", frozenset(RULES))
    yield from (_row(f"`{rule}` off", frozenset(RULES) - {rule}) for rule in RULES)
    yield _row("profile `before_kip_380`", PROFILES["before_kip_380"].rules)


def _row(title: str, on: frozenset[str]) -> str:
    found = failing(on)
    cells = [str(found.get(i.name, "")) for i in INVARIANTS]
    return row((title, *cells, *("fails" if p.name in found else "" for p in LIVENESS)))


def failing(on: frozenset[str]) -> dict[str, int]:
    """Property to least depth, of those that fail under these rules and not with all of them on."""
    found: dict[str, int] = {}
    for number in range(len(BUDGETS)):
        gaps = failing_under(frozenset(RULES), number)
        for name, depth in failing_under(on, number).items():
            if name not in gaps:
                found[name] = min(depth, found.get(name, depth))
    return found


@once
def failing_under(on: frozenset[str], number: int) -> Mapping[str, int]:
    """Property to depth, of those that fail under these rules within one of the budgets."""
    model = Model(ZooKeeperMode(BUDGETS[number], on), INVARIANTS, LIVENESS)
    result = search(model, SearchOptions(workers=1))
    if not result.complete or any(result.cut.values()):
        raise RuntimeError(
            f"a search of docs/zookeeper.md did not come to its end: {settings(BUDGETS[number])}"
        )
    return {v.property: v.depth for v in result.violations}


BLOCKS: dict[str, Block] = {
    "searches": lambda: str(len(BUDGETS)),
    "budgets": lambda: "; ".join(map(settings, BUDGETS)),
    "properties": lambda: properties((*INVARIANTS, *LIVENESS)),
    "table": _table,
    "rules": lambda: rules(RULES),
}
