"""`highwater list` and `highwater show`: everything that has a name is listed and can be shown."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from highwater.checker.base import text as terminal
from highwater.checker.scenarios import catalogue as files
from highwater.checker.scenarios import listing, scenario_files
from highwater.checker.scenarios.listing import Entry
from highwater.checker.scenarios.request import Overrides, Request
from highwater.invariants.catalogue import catalogue
from tests.command import highwater
from tests.slow import slow


@pytest.mark.parametrize(
    "every", [31, pytest.param(1, marks=slow("every action, rule and number; the fast test has one in 31"))]
)
@pytest.mark.parametrize("kind", listing.KINDS)
def test_every_listed_name_can_be_shown(kind: str, every: Any) -> None:
    entries = highwater("list", "--kind", kind, "--json", "-").results
    assert entries
    text = highwater("list", "--kind", kind).out
    assert all(entry["name"].rpartition("/")[2] in text for entry in entries)
    for number, entry in enumerate(entries[::every]):
        run = highwater("show", entry["name"])
        assert run.status == 0
        assert entry["name"] in run.out.splitlines()[0]
        if number % 7 == 0:  # the same entries in another order or notation
            shown = highwater("show", entry["name"], "--json", "-").results
            assert entry["name"] in [s["name"] for s in shown]


def test_nothing_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are folded at the terminal's width; without a terminal they are not."""
    for name in ("partitions_with_active_isr_members_are_led", "replication/small-letter"):
        whole = highwater("show", name).out.splitlines()
        assert max(map(len, whole)) > 80
        with monkeypatch.context() as narrow:
            narrow.setattr(terminal, "width", lambda: 80)
            folded = highwater("show", name).out.splitlines()
        assert max(map(len, folded)) <= 80
        assert " ".join(folded).split() == " ".join(whole).split()
        assert folded.count("") == whole.count("") > 0


def test_a_part_of_a_name_and_a_pattern_choose() -> None:
    def named(*arguments: Any) -> Any:
        return [entry["name"] for entry in highwater("list", *arguments, "--json", "-").results]

    everything = named("--kind", "invariants")
    chosen = named("elr", "--kind", "invariants")
    assert set(chosen) == {name for name in everything if "elr" in name}
    assert 0 < len(chosen) < len(everything)
    assert named("truncation/kip-1*") == ["truncation/kip-101"]
    assert set(named("quorum", "--standard")) < set(named("quorum"))
    assert highwater("list", "nothing-is-called-so").status == 2
    assert highwater("list", "--standard", "--kind", "rules").status == 2


# --- `highwater show` knows every name that a check or a replay can print -----------------------------


@cache
def reported() -> dict[str, dict[str, list[str]]]:
    """Protocol → property or goal → the scenarios that check it."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in files.scenario_files():
        request = Request.of(scenario_files.find(name), Overrides())
        for asked in (*request.properties, *(goal.name for goal in request.goals)):
            found.setdefault(request.scenario.definition.name, {}).setdefault(asked, []).append(name)
    return found


listed = cache(listing.find)


def properties(entries: list[Entry]) -> list[Entry]:
    """The entries that a scenario can check or expect to be reached."""
    return [e for e in entries if "asked_in" in e or "expected_in" in e]


def test_every_property_that_a_scenario_asks_is_known() -> None:
    violated = {name: scenario_files.find(name).expectation.violated for name in files.scenario_files()}
    names = {name for asked in reported().values() for name in asked}
    assert len(names) > 200  # guards against an empty comparison
    assert names <= set(listing.names())
    for protocol, asked in reported().items():
        for name, where in asked.items():
            (entry,) = [e for e in properties(listed(name)) if e["protocol"] in (protocol, None)]
            assert entry["meaning"], name
            if entry["kind"] == "goal":
                assert set(where) == set(entry["expected_in"]), name
                continue
            assert set(where) <= set(entry["asked_in"]), name
            assert {s for s in where if name in violated[s]} == set(entry["violated_in"]) & set(where), name


def test_every_property_that_is_stated_is_known_with_its_numbers() -> None:
    for name, stated in catalogue().items():
        entries = [e for e in listed(name) if e in properties([e]) or "checked_by" in e]
        told = {e["protocol"]: e["source"] for e in entries}
        told |= {of: source for e in entries for of, source in e.get("checked_by", {}).items()}
        assert stated.checked_by.items() <= told.items(), name
        assert {e["meaning"] for e in entries} == {stated.meaning}, name
