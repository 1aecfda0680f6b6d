"""The default run: each standard scenario ends as expected, and together they exercise everything."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.engines import reference
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model import registry
from highwater.model.language import Model
from tests.command import highwater
from tests.slow import largest, slow

ROOT = Path(__file__).resolve().parents[2]


BASELINE = tomllib.loads((ROOT / ".highwater/gate.toml").read_text())["scenarios"]
"""Scenario → `highwater gate`'s latest results."""
STANDARD = [s.name for s in scenario_files.standard()]
DEFECT = "replication/defect-"
"""Scenarios of defects; the gate searches them."""


def smallest(protocol: str, count: int = 2) -> list[str]:
    """The smallest standard scenarios of a protocol; `.ci/run` checks all of them."""
    of = [n for n in STANDARD if n.rpartition("/")[0] == protocol and not n.startswith(DEFECT)]
    return sorted(of, key=lambda n: BASELINE[n]["distinct_states"])[:count]


TRUNCATION = [n for n in STANDARD if n.startswith("truncation/")]
SMALL = sorted({*TRUNCATION, *(n for p in registry.NAMES for n in smallest(p))}, key=STANDARD.index)
ALL = largest("32 million states: `.ci/run` explores them by the gate, and fails if one is not as expected")


@cache
def checked(*names: str) -> list[dict[str, Any]]:
    """Results of ``highwater check``; without names, of all standard scenarios on all cores."""
    if names:
        here = highwater("check", *names, "--workers", 1, "--quiet", "--json", "-")
        assert here.status == 0, here
        return list(here.results)
    command = [sys.executable, "-m", "highwater", "check", "--quiet", "--json", "-"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: list[dict[str, Any]] = json.loads(run.stdout)
    return found


@pytest.fixture(params=["the baseline", pytest.param("the searches", marks=ALL)])
def results(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """All standard scenarios: committed results, or new ones."""
    if request.param == "the searches":
        return checked()
    return [committed(name) for name in STANDARD]


def committed(name: str) -> dict[str, Any]:
    """The baseline's result of a scenario. A violated property has no premise count, so its depth is used."""
    facts = BASELINE[name]
    premises = {**facts.get("premises", {}), **facts.get("violated", {})}
    told = {"scenario": name, "protocol": scenario_files.find(name).definition.name, "premises": premises}
    return {"actions": {}, "cut": {}, **facts, **told}


@pytest.mark.parametrize("names", [tuple(SMALL), pytest.param((), marks=ALL)], ids=["small", "all"])
def test_standard_scenarios_give_the_expected_results(names: tuple[str, ...]) -> None:
    found = checked(*names)
    assert [r["scenario"] for r in found] == list(names or STANDARD)
    assert {r["scenario"]: r["promised"] for r in found} == {r["scenario"]: True for r in found}
    assert {r["scenario"]: r["warnings"] for r in found} == {r["scenario"]: [] for r in found}
    counts = {r["scenario"]: r["distinct_states"] for r in found}
    assert counts == {name: BASELINE[name]["distinct_states"] for name in counts}


@pytest.mark.parametrize(("protocol", "least"), [("replication", 12), ("zookeeper", 10)])
def test_searches_of_scenarios_that_hold_are_complete(
    results: list[dict[str, Any]], protocol: str, least: int
) -> None:
    held = [r for r in results if r["protocol"] == protocol and r["verdict"] == "holds"]
    assert len(held) >= least
    assert all(r["complete"] for r in held)
    # Scenarios of reachability have few epochs, so they are pruned.
    pruned = [r["scenario"] for r in held if any(r["cut"].values()) and "/reach" not in r["scenario"]]
    assert protocol == "replication" or not pruned


protocols = pytest.mark.parametrize("protocol", ["replication", "quorum", "zookeeper"])


NOT_STANDARD = {"replication": {"start_broker_in_part", "read_late"}}
"""Actions of Kafka 4.2.1 alone; the findings and test_followers_4_2.py take them."""


@protocols
def test_every_action_is_taken_somewhere(results: list[dict[str, Any]], protocol: str) -> None:
    taken = {a for r in results if r["protocol"] == protocol for a, n in r["actions"].items() if n}
    missing = {a.name for a in catalogue.load(protocol).protocol.actions()} - taken
    assert missing == NOT_STANDARD.get(protocol, set())


UNASKED = {
    "replication": {
        p.name for p in catalogue.load("replication").liveness
    },  # the liveness page checks all of them
    "quorum": {"fetches_come_to_rest"},  # checked only without the timer
    "zookeeper": set(),
}


@protocols
def test_no_property_is_vacuous_in_all_standard_scenarios(
    results: list[dict[str, Any]], protocol: str
) -> None:
    definition = catalogue.load(protocol)
    met = {p for r in results if r["protocol"] == protocol for p, n in r["premises"].items() if n}
    asked = {i.name for i in definition.invariants} | {p.name for p in definition.liveness}
    assert asked - met <= UNASKED[protocol]


def test_no_scenario_is_trivial(results: list[dict[str, Any]]) -> None:
    for r in results:
        if r["verdict"] == "holds" and r["protocol"] != "promise":  # the abstract protocol, which is small
            # Sanity and reach scenarios check one property or condition.
            kind = r["scenario"].rpartition("/")[2].partition("-")[0]
            least = {"small": 500, "sanity": 50, "reach": 50}.get(kind, 5_000)
            assert r["distinct_states"] > least, r["scenario"]


# --- the controller's scenarios -----------------------------------------------------------------------


SCENARIOS = [
    scenario_files.find(name)
    for name in scenario_files.titles()
    if name.startswith("replication/controller/")
]
COMPLETE = [s for s in SCENARIOS if s.expectation.distinct_states is not None]
INTERPRETED = "complete searches by the interpreter; `highwater check` uses the native engine"


def whole(scenario: Scenario) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a complete interpreter search; the largest ones run only on request."""
    return (
        largest(INTERPRETED) if (scenario.expectation.distinct_states or 0) > 60_000 else (slow(INTERPRETED),)
    )


def violated(result: SearchResult) -> set[str]:
    return {v.property for v in result.violations}


def model_of(scenario: Scenario) -> Model:
    return Request.of(scenario, Overrides()).model()


@pytest.mark.parametrize("scenario", [pytest.param(s, marks=whole(s), id=s.name) for s in COMPLETE])
def test_a_complete_search_has_the_expected_counts(scenario: Scenario) -> None:
    result, expectation = reference.search(model_of(scenario), SearchOptions()), scenario.expectation
    assert result.complete
    assert violated(result) == expectation.violated
    assert (result.distinct_states, result.depth) == (expectation.distinct_states, expectation.depth)
