"""`highwater show` knows every name that a check or a replay can print."""

from __future__ import annotations

from functools import cache

import pytest

from highwater.checker.scenarios import catalogue as files
from highwater.checker.scenarios import listing, scenario_files
from highwater.checker.scenarios.listing import Entry
from highwater.checker.scenarios.request import Overrides, Request
from highwater.invariants.catalogue import catalogue
from tests.command import highwater


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


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "a_pre_vote_is_won",
            ["reachability goal, of steps, of quorum, source 996.1", "A voter that requests"],
        ),
        ("registrations_are_the_brokers", ["invariant of replication, source B8, 966.12", "a helper: "]),
        ("has_min_isr", ["asked by replay of the metadata log (source 966.19)"]),
        ("deadlock", ["a property of every protocol", "In every state some step can be taken."]),
    ],
)
def test_show_prints_the_kind_of_a_property(name: str, says: list[str]) -> None:
    lines = highwater("show", name).out.splitlines()
    assert lines[0] == name
    for text in says:
        assert any(line.strip().startswith(text) for line in lines), text


def test_show_lists_the_scenarios_of_a_property() -> None:
    out = highwater("show", "a_pre_vote_is_won").out
    assert "quorum/reach-votes" in out[out.index("expected to be reached in") :]
    out = highwater("show", "quorum/reach-votes").out
    assert "every goal is reached" in out
    assert "a_pre_vote_is_won" in out[out.index("\ngoals\n") :]
    out = highwater("show", "quorum:hwm_is_committed").out
    assert "quorum/small-elections" in out[out.index("checked in") :]


def test_show_lists_helpers_and_goals_of_a_protocol() -> None:
    for protocol, title, name in (
        ("replication", "helper properties", "registrations_are_the_brokers"),
        ("quorum", "reachability goals", "a_pre_vote_is_won"),
    ):
        out = highwater("show", protocol).out
        section = out[out.index(f"\n{title}\n") :]
        assert name in section.split("\n\n")[0]
