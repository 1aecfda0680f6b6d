"""The controller's scenarios end as expected, and each rule that is off shows its defect."""

from __future__ import annotations

import pytest

from highwater.checker.engines import native, reference
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.invariants.replication.controller import INVARIANTS
from highwater.model.language import Model
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.rules import PROFILES
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
SMALL = {"max_partition_epoch": 3, "max_leader_epoch": 3}
MIN_ISR, REASSIGN = SMALL | {"max_min_isr": 2}, SMALL | {"reassignments": 1, "replication_factor": 2}


def whole(scenario: Scenario) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a complete interpreter search; the largest ones run only on request."""
    return (
        largest(INTERPRETED) if (scenario.expectation.distinct_states or 0) > 60_000 else (slow(INTERPRETED),)
    )


def run(
    profile: str, parameters: dict[str, int], off: str = "", properties: set[str] | None = None
) -> SearchResult:
    chosen = [i for i in INVARIANTS if properties is None or i.name in properties]
    model = Model(Controller(parameters, PROFILES[profile].rules - set(off.split())), chosen)
    return native.search(model, SearchOptions(workers=1, limit_states=60_000))


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


@pytest.mark.parametrize("profile", ["kip_966", "kip_966_first_phase"])
@pytest.mark.parametrize("parameters", [MIN_ISR, REASSIGN], ids=["min_isr", "reassign"])
def test_the_proposal_violates_no_property(profile: str, parameters: dict[str, int]) -> None:
    result = run(profile, parameters)
    assert result.complete
    assert not violated(result)
    silent = {name for name, count in result.premises.items() if not count}
    assert silent <= {"reassignment_within_replicas"}, (
        "every property but that of reassignments had something to say"
    )


@pytest.mark.parametrize(
    ("rule", "parameters", "property"),
    [
        ("unclean_registration", SMALL, "electable_completeness"),
        ("elr_follows_election", MIN_ISR, "electable_completeness"),
        ("last_known_leader_unfenced", REASSIGN, "leader_is_active"),
    ],
)
def test_a_rule_that_is_off_shows_its_defect(rule: str, parameters: dict[str, int], property: str) -> None:
    """With the rule on, the same budgets show no violation. A defect's scenario has each rule of ``replication``."""
    assert violated(run("kip_966_first_phase", parameters, rule, {property})) == {property}
