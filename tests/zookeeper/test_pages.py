"""The pages on ZooKeeper mode agree with the model's rules and defects."""

from __future__ import annotations

import pytest

from docs.pages import kept
from docs.pages.rule_tables import failing_under
from highwater.invariants.zookeeper import INVARIANTS, LIVENESS
from highwater.model.zookeeper.cluster import PROFILES, RULES
from tests.docs.generated import generated
from tests.slow import slow

pytestmark = slow(
    "builds the page's table from cached results; the gate and the defect scenarios check the searches"
)
SOURCES = {p.name: p.source for p in INVARIANTS} | {p.name: p.source for p in LIVENESS}
COLUMNS = [*SOURCES]
BROKER_EPOCHS = len(RULES) - len(PROFILES["before_kip_380"].rules)


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, str]]:
    """The committed table: row → property → cell, nonempty cells only."""
    found = {}
    for line in generated("zookeeper-rules.md").splitlines():
        title, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if len(cells) == len(COLUMNS) and title not in ("rules", "---"):
            found[title] = {name: cell for name, cell in zip(COLUMNS, cells, strict=True) if cell}
    return found


def test_the_proposal_keeps_every_property_and_each_rule_is_needed_for_one(
    table: dict[str, dict[str, str]],
) -> None:
    assert table["all on"] == {}
    assert set(table) == {"all on", "profile `before_kip_380`", *(f"`{rule}` off" for rule in RULES)}
    assert {title for title, failed in table.items() if not failed} == {"all on"}
    assert {name for failed in table.values() for name in failed} >= set(COLUMNS) - {"sessions_come_back"}


def test_every_property_of_the_proposal_fails_without_it(table: dict[str, dict[str, str]]) -> None:
    promised = {name for name, source in SOURCES.items() if source.startswith("380.")}
    assert promised - set(table["profile `before_kip_380`"]) == {"sessions_come_back"}
    assert BROKER_EPOCHS == 9


def test_a_row_of_the_table_is_up_to_date(table: dict[str, dict[str, str]]) -> None:
    """Searches one row again; a slow test searches all."""
    with kept.in_mode(kept.Mode.AFRESH):
        found = failing_under(frozenset(RULES) - {"bounced_broker_fails_first"}, 3)
    told = table["`bounced_broker_fails_first` off"]
    assert found
    for name, depth in found.items():
        assert told[name] == "fails" or int(told[name]) <= depth
