"""The pages on the quorum are what the model and the engines say today, and what they say is what they should."""

from __future__ import annotations

import re

import pytest

from docs.pages import galleries, kept, quorum
from docs.pages.galleries import QUORUM as GALLERY
from highwater.invariants.quorum import INVARIANTS, LIVENESS
from highwater.model.quorum import Quorum
from tests.docs.generated import generated

NAMES = galleries.names(GALLERY.place)
PROFILE = Quorum.profiles[quorum.PROFILE]
SOME = ("before-kip-1166", "growth-completes-nothing", "busy-loop")
"""A slow test of tests/docs finds each defect afresh."""


@pytest.mark.parametrize("name", SOME)
def test_a_defect_is_found_as_promised_and_told_as_committed(name: str) -> None:
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        before = list(GALLERY.run(name))
    with kept.in_mode(kept.Mode.AFRESH):
        assert list(GALLERY.run(name)) == before


def test_the_tables_have_every_rule_and_link_to_defects() -> None:
    text = generated("quorum-rules.md")
    table = text.split("| rule off | budgets of |")[1].split("\nThe rules:")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == [r for r in Quorum.rules if r in PROFILE.rules]
    assert set(re.findall(r"quorum-gallery\.md#([\w-]+)\)", table)) <= set(NAMES)
    assert all(f"`{p.name}`" in text for p in (*INVARIANTS, *LIVENESS))


def test_every_rule_but_two_has_an_effect_on_safety_and_one_of_these_on_what_must_happen() -> None:
    """Read off the committed tables: a rule without effect would be a switch that does nothing."""
    text = generated("quorum-rules.md")
    table = text.split("| rule off | budgets of |")[1].split("\nThe rules:")[0]
    rows = {row.split("`")[1]: row.split("|")[3:-2] for row in table.splitlines() if row.startswith("| `")}
    silent = {rule for rule, cells in rows.items() if not any(cell.strip() for cell in cells)}
    assert silent == {"timer_answers_as_parked", "leader_change_record"}
    live = text.split("| rule off | budgets |")[1].split("\n## ")[0]
    by_rule = {row.split("`")[1]: row for row in live.splitlines() if row.startswith("| `")}
    assert "fails" in by_rule["leader_change_record"]
    assert "fails" not in rows["timer_answers_as_parked"]


def test_a_rule_of_the_proposal_that_is_off_makes_replicas_wait_or_fetches_busy() -> None:
    live = generated("quorum-rules.md").split("| rule off | budgets |")[1].split("\n## ")[0]
    rows = [line.split("|") for line in live.splitlines() if line.startswith("| ") and "---" not in line]
    cells = {title.strip(" `"): told for _, title, _, *told, _ in rows}
    proposal = {name for name, rule in Quorum.rules.items() if rule.source.startswith("1166")}
    for rule in proposal:
        assert "fails" in cells[rule][0] or "fails" in cells[rule][4], rule


def test_the_proposal_takes_three_delays_and_before_it_a_timer_ran() -> None:
    """Read off the committed table: for 3 and 5 voters, with and without."""
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
