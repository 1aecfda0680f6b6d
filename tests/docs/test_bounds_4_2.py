"""The committed table of Kafka 4.2.1 searches is reproducible, and the searches detect a planted defect."""

from __future__ import annotations

from typing import Any

import pytest

from docs.pages import kafka_4_2 as bounds
from docs.pages.markdown import DOCS
from tests.slow import often, slow

CELLS = {(c.protocol, c.size, c.steps): c for c in bounds.cells()}
COMMITTED = {(r["protocol"], tuple(r["size"]), tuple(r["steps"])): r for r in bounds.results()}
QUICK = [
    ("replication.controller", (2, 1, 1), ()),
    ("replication.controller", (2, 1, 1), ("min_isr_changes",)),
]


def test_every_cell_is_committed() -> None:
    assert list(COMMITTED) == list(CELLS)


@pytest.mark.parametrize("key", QUICK)
def test_a_cell_matches_the_committed_result(key: Any) -> None:
    assert bounds.examined(CELLS[key]) == COMMITTED[key]


@slow("searches each cell of the grid; fast for some cells")
@pytest.mark.parametrize("key", list(CELLS)[:: often(3, 1)])
def test_each_cell_matches_the_committed_result(key: Any) -> None:
    assert bounds.examined(CELLS[key]) == COMMITTED[key]


def test_everything_that_is_violated_is_closed_by_something_that_is_named() -> None:
    unexplained = [
        (key, name) for key, r in COMMITTED.items() for name, v in r["violated"].items() if not v["closed_by"]
    ]
    assert not unexplained


def test_a_planted_defect_is_found() -> None:
    """Planted: a broker that lost its log stays in ISR and ELR."""
    cell = CELLS["replication.controller", (2, 2, 2), ()]
    assert not bounds.searched(cell).violated
    planted = {"of": "", "rules": {"unclean_registration": False, "registration_leaves_isr": False}}
    bounds.GRID["closings"]["planted"] = planted
    try:
        assert "electable_completeness" in bounds.searched(cell, ["planted"]).violated
    finally:
        del bounds.GRID["closings"]["planted"]


def test_the_page_has_the_committed_searches() -> None:
    page = (DOCS / "kafka-4.2.md").read_text(encoding="utf-8")
    of = {(r["protocol"], *r["size"], *r["epochs"]) for r in COMMITTED.values()}
    for key in of:
        those = [r for r in COMMITTED.values() if (r["protocol"], *r["size"], *r["epochs"]) == key]
        states = [r["states"] for r in those]
        size, epochs = ", ".join(map(str, key[1:4])), ", ".join(map(str, key[4:]))
        row = f"| `{key[0]}` | {size} | {epochs} | {len(those)} | {min(states):,} to {max(states):,} |"
        assert row in page
    kinds = {r["steps"][0] for r in COMMITTED.values() if r["violated"]}
    assert kinds == {"reassignments", "elr_level", "min_isr_changes", "directories"}
