"""`highwater show 966.4`: a rule, its reason, its source, and the related parts of the model."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.rulebook import find as found
from highwater.model import registry
from highwater.model.language.rulebook import numbers
from highwater.model.rulebook import RULEBOOK
from tests.command import highwater

ROOT = Path(__file__).parents[2]


@cache
def entry_of(number: str) -> dict[str, Any]:
    """Everything about a rule."""
    entry = found(number)
    assert entry is not None
    return entry


@cache
def lines_of(file: str) -> list[str]:
    return (ROOT / file).read_text().splitlines()


def test_show_prints_a_rule_s_statement_and_reason_first() -> None:
    out = highwater("show", "966.4").out
    rule = RULEBOOK["966.4"]
    flat = " ".join(out.split())
    order = [
        "966.4",
        rule.title,
        rule.states,
        "why: " + rule.why,
        "beyond the proposal's letter:",
        rule.quote,
    ]
    places = [flat.index(text) for text in [*order, "switches", "scenarios", "stated by"]]
    assert places == sorted(places)
    assert "https://cwiki.apache.org/confluence/display/KAFKA/KIP-966%3A+Eligible+Leader+Replicas\n" in out


def test_show_lists_everything_about_a_rule() -> None:
    (entry,) = highwater("show", "966.1", "--json", "-").results
    assert entry["beyond"] is None
    assert [s["name"] for s in entry["switches"]] == ["hwm_needs_min_isr", "hwm_gate_is_committed_isr"]
    assert [f["name"] for f in entry["functions"] if f["states"]] == [
        "commits", "advanced_hwm", "may_advance", "gate_is_open",
    ]  # fmt: skip
    assert "replication_quorum_covers_election_quorum" in [i["name"] for i in entry["invariants"]]
    assert "leaders_wait_for_the_electable" in [h["name"] for h in entry["helpers"]]
    assert "replication/defect-weak-writes" in [s["name"] for s in entry["scenarios"]]
    titles = re.findall(r"(?m)^(\w.*)$", highwater("show", "966.1").out)[1:]
    assert titles == [
        "switches, for --rule NAME=off", "actions", "invariants", "properties of steps", "liveness",
        "in proofs and replay", "scenarios", "stated by", "mentioned by",
    ]  # fmt: skip


def test_every_place_leads_to_its_name() -> None:
    seen = 0
    for number in RULEBOOK:
        entry = entry_of(number)
        for kind in ("switches", "functions", "actions", "invariants", "liveness", "helpers"):
            for part in entry[kind]:
                file, _, line = part["place"].rpartition(":")
                text = "\n".join(lines_of(file)[int(line) - 1 :][:12])
                name = part["name"].rpartition(".")[2]
                if part.get("protocols") == ["replication.topic"]:  # one instance for each partition
                    name = name.removesuffix("_first").removesuffix("_second")
                assert name in text or kind == "switches", part
                assert "Rule(" in text or kind != "switches"
                seen += 1
    assert seen > 300


def test_a_switch_is_with_each_of_its_numbers_and_no_other() -> None:
    with_it = {
        (protocol, switch["name"], number)
        for number in RULEBOOK
        for switch in entry_of(number)["switches"]
        for protocol in switch["protocols"]
    }
    assert with_it == {
        (name, switch, number)
        for name in registry.NAMES
        for switch, rule in catalogue.load(name).protocol.rules.items()
        for number in numbers(rule.source)
    }


def test_show_lists_the_rules_of_a_family_and_of_a_proposal() -> None:
    by_prefix, by_name = highwater("show", "966").out, highwater("show", "kip-966").out
    assert by_prefix == by_name
    assert re.findall(r"^  (966\.\d+) ", by_name, re.M) == [n for n in RULEBOOK if n.startswith("966.")]
    assert "\n  P1 " in by_name
    (entry,) = highwater("show", "KIP-497", "--json", "-").results
    assert [r["name"] for r in entry["numbers"]] == ["B7", "B8"]
    assert "B4  " in highwater("show", "B").out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("966.99", "unknown rule number '966.99'; near it: 966.9, 966.19"),
        ("B9", "unknown rule number 'B9'; near it: "),
        ("KIP-967", "unknown rule number 'KIP-967'; near it: KIP-996, KIP-966"),
        ("12345.6", "unknown rule number '12345.6'; `highwater list --kind numbers` has all"),
        (
            "elegible_leader_replicas",
            "unknown name 'elegible_leader_replicas'; did you mean 'eligible_leader_",
        ),
    ],
)
def test_an_unknown_number_is_one_line(asked: str, said: str) -> None:
    run = highwater("show", asked)
    assert (run.status, run.out) == (2, "")
    assert run.err.startswith(f"highwater: {said}")
    assert run.err.count("\n") == 1
