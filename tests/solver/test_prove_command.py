"""`highwater prove`: its verdicts, exit statuses and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwater import checker
from tests.checker.schema import problems
from tests.command import highwater

SCHEMA = json.loads((Path(checker.__file__).parent / "report/proof.schema.json").read_text())
DEFECT = "replication/defect-fenced-both"
CONTROLLER = "replication/controller/large-unclean-recovery"
TWO = ("--set", "brokers=2", "--set", "replication_factor=2")


def test_a_promised_violation_is_found_at_the_explorers_depth(tmp_path: Path) -> None:
    explored = highwater("check", DEFECT, "--json", "-")
    target = tmp_path / "result.json"
    run = highwater("prove", DEFECT, "--depth", 8, "--json", target)
    results = json.loads(target.read_text())
    (expected,), (result,) = explored.results, results
    assert run.status == 0
    assert problems(results, SCHEMA) == []
    assert (result["verdict"], result["promised"], result["complete"]) == ("violated", True, False)
    assert result["engine"] == "z3"
    assert [v["depth"] for v in result["violations"]] == [v["depth"] for v in expected["violations"]]
    assert [d["depth"] for d in result["depths"]] == list(range(1, result["depth"] + 1))
    assert result["depths"][-1]["violated"] == ["isr_members_are_eligible"]
    assert "isr_members_are_eligible (841.2, 903.4) is violated at depth 6, after 5 steps." in run.out
    assert "depth 5: 1 hold" in run.err


def test_a_promise_beyond_the_depth_stays_open() -> None:
    run = highwater("prove", DEFECT, "--depth", 3, "--quiet")
    assert run.status == 0
    assert "The state that violates" not in run.out
    assert "expected to be violated, but not within this depth: isr_members_are_eligible" in run.out


def test_an_unpromised_violation_a_deadlock_and_the_end(counter: Callable[..., Path]) -> None:
    path = counter()
    assert "as no run is longer than 6 states" in highwater("prove", path, "--depth", 9).out
    run = highwater("prove", path, "--depth", 9, "--deadlock", "--json", "-")
    assert run.status == 1
    assert run.results[0]["violations"][0]["depth"] == 6
    run = highwater("prove", path, "--set", "top=9", "--depth", 12, "--json", "-")
    assert run.status == 1
    assert run.results[0]["violations"][0]["property"] == "below_seven"
    assert run.results[0]["violations"][0]["depth"] == 8


def test_limits_are_inconclusive() -> None:
    for limit in (("--limit-seconds", 0.2), ("--memory", 0.01)):
        run = highwater("prove", "truncation/kip-101", "--depth", 90, *limit, "--json", "-")
        (result,) = run.results
        assert run.status == 3
        assert result["verdict"] == "inconclusive"
        assert result["stopped_by"] == limit[0].removeprefix("--limit-").removeprefix("--")
        assert result["depth"] < 90
        assert problems(run.results, SCHEMA) == []
    run = highwater("prove", CONTROLLER, "--induction", *TWO, "--limit-seconds", 0.02, "--json", "-")
    assert run.status == 3
    assert run.results[0]["verdict"] == "inconclusive"
    run = highwater("prove", "truncation/kip-101", "--depth", 90, "--memory", 0.01)
    assert "of 90: inconclusive" in run.out


def test_induction_for_all_epochs() -> None:
    run = highwater("prove", CONTROLLER, "--induction", "--epochs", "unbounded", *TWO, "--json", "-")
    (result,) = run.results
    assert run.status == 0
    assert problems(run.results, SCHEMA) == []
    assert (result["verdict"], result["complete"], result["question"]) == ("holds", True, "induction")
    assert result["parameters"]["max_leader_epoch"] > 2**63
    assert all(v["kept"] for v in result["verdicts"])
    names = {v["property"] for v in result["verdicts"]}
    assert names >= {
        "isr_and_elr_are_disjoint",
        "brokers_are_registered",
        "leader_epoch_never_falls",
        "within_types",
    }


def test_a_failure_of_induction_is_reported(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    options = ("--induction", "--no-helpers", "--epochs", "unbounded", *TWO)
    run = highwater("prove", CONTROLLER, *options, "--json", target)
    assert run.status == 1
    assert "State before, in which all invariants hold:" in run.out
    assert "registered false" in run.out
    assert "Excluded by what was not assumed: brokers_are_registered" in run.out
    told = run.out.split("  Step: ")[1].splitlines()
    assert re.fullmatch(r"broker \d is unfenced", told[0])
    assert re.match(r" +registrations\[\d\]\.fenced true → false", told[1])
    results = json.loads(target.read_text())
    assert problems(results, SCHEMA) == []
    assert results[0]["verdict"] == "not_inductive"
    failures = [v for v in results[0]["verdicts"] if not v["kept"]]
    assert {v["action"] for v in failures} == {"unfence"}
    assert all(v["failure"]["after"] for v in failures)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--depth", 3, "--induction"), "--depth and --induction exclude each other"),
        (("--induction", "--first"), "--first needs --depth"),
        (("--induction", "--deadlock"), "--deadlock needs --depth"),
        (("--induction", "--property", "deadlock"), "--property deadlock needs --depth"),
        (("--no-helpers",), "--no-helpers needs --induction"),
        (("--depth", 0), "0 is not in the range"),
        (("--rule", "nonsense=on"), "nonsense"),
    ],
)
def test_bad_requests_are_one_line(arguments: Any, message: str) -> None:
    run = highwater("prove", CONTROLLER, *arguments)
    assert run.status == 2
    assert message in run.err
    assert run.err.count("\n") == 1


def test_epochs_that_end_nowhere_within_a_depth() -> None:
    scenario = "replication/controller/defect-elr-not-emptied"
    run = highwater("prove", scenario, "--epochs", "unbounded", "--depth", 3, "--json", "-")
    (result,) = run.results
    assert run.status == 1  # overridden bounds turn expectations off
    assert {v["property"]: v["depth"] for v in result["violations"]} == {
        "elr_only_under_min_isr": 3,
        "electable_completeness": 3,
    }
