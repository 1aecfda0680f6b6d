"""`highwater list` and `highwater show`: everything that has a name is listed and can be shown."""

from __future__ import annotations

import re
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


def test_standard_scenarios_are_marked() -> None:
    lines = highwater("list").out.splitlines()
    assert any(line.startswith("* kip-320 ") and "KIP-320" in line for line in lines)


def test_a_scenario() -> None:
    out = highwater("show", "truncation/kip-320").out
    assert "expected: every property holds, 39,619 states, 22 levels" in out
    assert "max_leader_epoch  1  0 to 6: the last leader epoch that the controller gives out" in out
    assert "leader_epoch_lookup    off" in out
    assert "fenced_fetch           on" in out
    assert re.search(r"strong_isr +For each replica that believes it leads", out)


def test_an_action_with_its_guards() -> None:
    (entry,) = highwater("show", "follower_fetch", "--json", "-").results
    guards = {g["name"]: g["profiles"] for g in entry["guards"]}
    assert guards["both are in the same leader epoch"] == ["kip_320"]
    assert guards["the follower's last record matches"] == ["kip_320_first_try"]
    assert len(guards["the leader has a record there"]) == 5
    text = highwater("show", "follower_fetch").out
    lines = [line.split("  only in ") for line in text.splitlines()]
    assert [line[1] for line in lines if line[0].strip() == "both are in the same leader epoch"] == [
        "kip_320"
    ]


def test_a_rule_and_where_it_is_on() -> None:
    (entry,) = highwater("show", "matching_tail", "--json", "-").results
    assert entry["profiles"] == ["kip_279", "kip_320_first_try", "kip_320"]


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


def test_a_name_with_its_protocol() -> None:
    (entry,) = highwater("show", "truncation:strong_isr", "--json", "-").results
    assert (entry["kind"], entry["protocol"]) == ("invariant", "truncation")
    assert highwater("show", "elsewhere:strong_isr").status == 2


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
