"""`highwater list` and `highwater show`: everything that has a name is listed and can be shown."""

from __future__ import annotations

import re
from typing import Any

import pytest

from highwater.checker.base import text as terminal
from highwater.checker.scenarios import listing
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
