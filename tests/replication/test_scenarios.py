"""The controller's scenarios end as expected."""

from __future__ import annotations

import pytest

from highwater.checker.engines import native, reference
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.invariants.replication.controller import INVARIANTS
from highwater.model.language import Model
from tests.slow import all_but, largest, slow

SCENARIOS = [
    scenario_files.find(name)
    for name in scenario_files.titles()
    if name.startswith("replication/controller/")
]
COMPLETE = [s for s in SCENARIOS if s.expectation.distinct_states is not None]
NAMES = {i.name for i in INVARIANTS}
INTERPRETED = "complete searches by the interpreter; `highwater check` uses the native engine"
VIOLATED = [s for s in SCENARIOS if s not in COMPLETE and (s.properties is None or NAMES & set(s.properties))]


def whole(scenario: Scenario) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a complete interpreter search; the largest ones run only on request."""
    return (
        largest(INTERPRETED) if (scenario.expectation.distinct_states or 0) > 60_000 else (slow(INTERPRETED),)
    )


def violated(result: SearchResult) -> set[str]:
    return {v.property for v in result.violations}


def model_of(scenario: Scenario) -> Model:
    return Request.of(scenario, Overrides()).model()


@pytest.mark.parametrize(
    "name",
    all_but(
        [s.name for s in VIOLATED[::5]],
        [s.name for s in VIOLATED],
        "the gate searches most of them, too; fast for one in five",
    ),
)
def test_a_scenario_violates_the_expected_properties(name: str) -> None:
    scenario = scenario_files.find(name)
    expected = Request.of(scenario, Overrides()).expected
    assert expected
    found = native.search(model_of(scenario), SearchOptions(workers=1))
    assert violated(found) == expected


@pytest.mark.parametrize("scenario", [pytest.param(s, marks=whole(s), id=s.name) for s in COMPLETE])
def test_a_complete_search_has_the_expected_counts(scenario: Scenario) -> None:
    result, expectation = reference.search(model_of(scenario), SearchOptions()), scenario.expectation
    assert result.complete
    assert violated(result) == expectation.violated
    assert (result.distinct_states, result.depth) == (expectation.distinct_states, expectation.depth)
