"""The default run: every standard scenario keeps its promise, and between them they leave nothing untried."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from highwater.checker import catalogue, scenarios
from highwater.model.replication import Replication

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def results() -> list[dict[str, Any]]:
    """What ``highwater check`` without arguments says."""
    command = [sys.executable, "-m", "highwater", "check", "--quiet", "--json", "-"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: list[dict[str, Any]] = json.loads(run.stdout)
    return found


def test_every_promise_is_kept(results: list[dict[str, Any]]) -> None:
    assert [r["scenario"] for r in results] == [s.name for s in scenarios.standard()]
    assert {r["scenario"] for r in results} >= {
        "truncation/kip-101",
        "truncation/kip-279",
        "truncation/kip-320",
        "truncation/kip-320-first-try",
        "truncation/truncate-to-hwm",
    }
    assert len(results) > 20
    assert {r["scenario"]: r["promised"] for r in results} == {r["scenario"]: True for r in results}


def test_what_holds_under_kip_966_was_searched_to_its_end(results: list[dict[str, Any]]) -> None:
    held = [r for r in results if r["protocol"] == "replication" and r["verdict"] == "holds"]
    assert len(held) >= 12
    assert all(r["complete"] for r in held)


def test_what_holds_in_zookeeper_mode_was_searched_to_its_end_and_not_cut(
    results: list[dict[str, Any]],
) -> None:
    held = [r for r in results if r["protocol"] == "zookeeper" and r["verdict"] == "holds"]
    assert len(held) >= 10
    assert all(r["complete"] and not any(r["cut"].values()) for r in held)


protocols = pytest.mark.parametrize("protocol", ["replication", "quorum", "zookeeper"])


NOT_STANDARD = {"replication": {"upgrade", "start_broker_in_part", "read_late"}}
"""Steps of Kafka 4.2.1 alone: its scenarios are not standard ones; the findings and test_followers_4_2.py take them."""


@protocols
def test_every_action_is_taken_somewhere(results: list[dict[str, Any]], protocol: str) -> None:
    taken = {a for r in results if r["protocol"] == protocol for a, n in r["actions"].items() if n}
    missing = {a.name for a in catalogue.load(protocol).protocol.actions()} - taken
    assert missing == NOT_STANDARD.get(protocol, set())


UNASKED = {
    "replication": {
        p.name for p in catalogue.load("replication").liveness
    },  # the page of liveness asks them all
    "quorum": {"fetches_come_to_rest"},  # it is asked without the timer
    "zookeeper": set(),
}


@protocols
def test_every_property_has_something_to_say_somewhere(results: list[dict[str, Any]], protocol: str) -> None:
    definition = catalogue.load(protocol)
    met = {p for r in results if r["protocol"] == protocol for p, n in r["premises"].items() if n}
    assert {p.name for p in (*definition.invariants, *definition.liveness)} - met <= UNASKED[protocol]


def test_the_rate_is_told_and_no_scenario_is_trivial(results: list[dict[str, Any]]) -> None:
    for r in results:
        if r["verdict"] == "holds":
            assert r["distinct_states"] > 10_000, r["scenario"]
            assert r["seconds"] > 0


@pytest.mark.parametrize("gap", ["gap-min-isr-raised", "gap-second-copy"])
def test_open_gaps_of_the_proposals_are_shown(gap: str) -> None:
    """Of a raised min.insync.replicas the leader has not heard; a second copy is accepted. No rule closes them."""
    command = [
        sys.executable,
        "-m",
        "highwater",
        "check",
        f"replication/{gap}",
        "--quiet",
        "--json",
        "-",
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    (result,) = json.loads(run.stdout)
    assert all(result["rules"][rule] for rule in Replication.profiles["kip_966"].rules)
    assert [(v["property"], v["depth"]) for v in result["violations"]] == [("electable_completeness", 15)]
