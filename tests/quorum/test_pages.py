"""The quorum pages match the model and the engines, and state the expected results."""

from __future__ import annotations

import re

import pytest

from docs.pages import galleries, kept, quorum
from docs.pages.galleries import QUORUM as GALLERY
from highwater.invariants.quorum import INVARIANTS, LIVENESS
from highwater.model.quorum import Quorum
from tests.docs.generated import generated
from tests.slow import slow

NAMES = galleries.names(GALLERY.place)
PROFILE = Quorum.profiles[quorum.PROFILE]
SOME = ("before-kip-1166", "growth-completes-nothing", "busy-loop")
"""A slow test of tests/docs searches for every defect."""
TABLES = "builds the page's tables from cached results; the gate and the defect scenarios check the searches"


@pytest.mark.parametrize("name", SOME)
def test_a_defect_is_found_and_shown_as_committed(name: str) -> None:
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        before = list(GALLERY.run(name))
    with kept.in_mode(kept.Mode.AFRESH):
        assert list(GALLERY.run(name)) == before


@slow(TABLES)
def test_the_tables_have_every_rule_with_its_effect() -> None:
    text = generated("quorum-rules.md")
    table = text.split("| rule off | budgets of |")[1].split("\nThe rules:")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == [r for r in Quorum.rules if r in PROFILE.rules]
    assert set(re.findall(r"quorum-gallery\.md#([\w-]+)\)", table)) <= set(NAMES)
    assert all(f"`{p.name}`" in text for p in INVARIANTS)
    assert all(f"`{p.name}`" in text for p in LIVENESS)
    safety = {row.split("`")[1]: row.split("|")[3:-2] for row in table.splitlines() if row.startswith("| `")}
    silent = {rule for rule, cells in safety.items() if not any(cell.strip() for cell in cells)}
    assert silent == {"timer_answers_as_parked", "leader_change_record"}
    live = text.split("| rule off | budgets |")[1].split("\n## ")[0]
    rows = [line.split("|") for line in live.splitlines() if line.startswith("| ") and "---" not in line]
    effects = {title.strip(" `"): cells for _, title, _, *cells, _ in rows}
    assert any("fails" in cell for cell in effects["leader_change_record"])
    for rule in (name for name, rule in Quorum.rules.items() if rule.source.startswith("1166")):
        assert "fails" in effects[rule][0] or "fails" in effects[rule][4], rule


@slow(TABLES)
def test_the_proposal_takes_three_delays_and_before_it_a_timer_ran() -> None:
    """The committed table has 3 and 5 voters, with and without the proposal."""
    rows = re.findall(
        r"^\| (\d) voters \| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|",
        generated("quorum-rules.md"),
        re.M,
    )
    assert rows == [
        ("3", "kip_1166", "2", "3", "3", "3"),
        ("3", "before_kip_1166", "2", "T + 3", "T + 3", "T + 3"),
        ("5", "kip_1166", "2", "3", "3", "3"),
        ("5", "before_kip_1166", "2", "T + 3", "2T + 5", "2T + 5"),
    ]
