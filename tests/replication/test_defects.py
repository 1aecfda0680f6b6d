"""Each defect's scenario finds what it expects; with every rule on, the same budgets find nothing."""

from __future__ import annotations

import inspect

import pytest

from docs.pages import galleries, kept
from docs.pages.galleries import REPLICATION as GALLERY
from highwater.checker.engines.native import search
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model
from tests.replication.test_standard_scenarios import BASELINE
from tests.slow import all_but, largest, slow

NAMES = galleries.names()
SOME = sorted(set(NAMES) - galleries.LARGE)[::5]

BOUNDED = {
    "last-replica-standing",
    "maximal-isr-gate",
    "reassignment-under-min-isr",
    "elr-outlives-replica",
    "unfenced-fetch",
    "join-by-old-fetch",
}
"""With every rule on, these are searched only to two levels below the defect's depth."""
LONG = {"unfenced-fetch", "join-by-old-fetch"}


@pytest.mark.parametrize(
    "name",
    [
        *all_but(
            SOME, sorted(set(NAMES) - LONG), "the gate searches every defect, too; fast for one in five"
        ),
        *(pytest.param(name, marks=largest("searches for half a minute")) for name in sorted(LONG)),
    ],
)
def test_a_scenario_violates_the_expected_properties(name: str) -> None:
    scenario, model, options = galleries.asked(name)
    result = kept.searched(model, options)
    assert {v.property for v in result.violations} == scenario.expectation.violated
    assert result.complete or scenario.expectation.violated  # a search with liveness visits all states
    if name not in galleries.LARGE:
        assert result.distinct_states == BASELINE[scenario.name]["distinct_states"]
    assert result.premises.keys() == set(scenario.properties or ())
    if result.complete:
        assert all(result.premises.values()), "what holds had something to say"


@slow("complete searches of the proposal with each defect's budgets; standard scenarios have others")
@pytest.mark.parametrize("name", [n for n in NAMES if n not in BOUNDED])
def test_the_proposal_violates_nothing_under_the_budgets_of_a_defect(name: str) -> None:
    result = search(every_rule_on(name), SearchOptions())
    assert result.complete
    assert not result.violations


@slow("searches of the proposal to two levels below the defect's depth")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=largest("more than a minute") if name in LONG else ())
        for name in sorted(BOUNDED)
    ],
)
def test_the_proposal_violates_nothing_up_to_the_depth_of_the_defect(name: str) -> None:
    found = galleries.find(name)
    model = every_rule_on(name)
    wanted = max(violation.depth for violation in found.result.violations) + 2
    reached = 0
    states = max(1_000_000, 2 * found.result.distinct_states)
    while reached < wanted:
        result = search(model, SearchOptions(limit_states=states))
        assert not result.violations
        reached, states = (wanted if result.complete else result.depth - 1), 2 * states


def every_rule_on(name: str) -> Model:
    """The scenario's budgets and properties under the complete proposal."""
    scenario = scenario_files.find(galleries.PLACE + name)
    on = dict.fromkeys(scenario.rules, True)
    return Request.of(scenario, Overrides(profile="kip_966", rules=on)).model()


@pytest.mark.parametrize("gallery", [GALLERY, galleries.QUORUM], ids=lambda g: g.place)
def test_a_gallery_has_every_defect_once_each_with_rules_of_its_profile_off(
    gallery: galleries.Gallery,
) -> None:
    names = galleries.names(gallery.place)
    assert sorted(gallery.names) == sorted(names)
    for name in names:
        scenario = scenario_files.find(gallery.place + name)
        assert not any(scenario.rules.values())
        assert set(scenario.rules) <= scenario.protocol.profiles[scenario.profile or ""].rules
        if scenario.standard:  # keeps the default run short
            assert BASELINE[scenario.name]["distinct_states"] < 350_000


def test_a_defect_that_is_not_found_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(model: Model, options: SearchOptions) -> SearchResult:
        result = search(model, options)
        result.violations.clear()
        return result

    monkeypatch.setattr(galleries, "search", blind)
    with pytest.raises(ValueError, match="defect-min-isr-copies: nothing is violated, as not promised"):
        inspect.unwrap(galleries.find)("min-isr-copies")
