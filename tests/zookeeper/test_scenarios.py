"""Each ZooKeeper scenario finds what it expects; with every rule on, the same budgets find nothing."""

from __future__ import annotations

from functools import cache

import pytest

from docs.pages.galleries import ZOOKEEPER as GALLERY
from highwater.checker.engines.liveness import search_with_liveness
from highwater.checker.engines.native import search
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.invariants.zookeeper import INVARIANTS, LIVENESS
from highwater.model.language import Model
from highwater.model.zookeeper import ZooKeeperMode
from highwater.model.zookeeper.cluster import PROFILES, RULES
from tests.slow import all_but

NAMES = [name for name in scenario_files.titles() if name.startswith("zookeeper/")]
SHOWN = [GALLERY.place + name for name in GALLERY.names]
GAPS = ("zookeeper/gap-failover", "zookeeper/gap-late-metadata", "zookeeper/gap-late-deletion")
SOME = ("zookeeper/before-kip-380", "zookeeper/defect-stop-replica", "zookeeper/defect-unseen-bounce")
"""The other standard scenarios are searched elsewhere; the gallery's page has the rest."""
QUICK = {"zookeeper/defect-stop-replica", "zookeeper/defect-unseen-bounce"}


def found_by(model: Model) -> SearchResult:
    return search_with_liveness(model, search, explore, SearchOptions(workers=1))


@cache
def with_every_rule_on(parameters: tuple[tuple[str, int], ...]) -> SearchResult:
    """All properties under these budgets and the complete proposal."""
    return found_by(Model(ZooKeeperMode(dict(parameters), RULES), INVARIANTS, LIVENESS))


@pytest.mark.parametrize("name", SOME)
def test_a_scenario_violates_the_expected_properties(name: str) -> None:
    scenario = scenario_files.find(name)
    result = found_by(Request.of(scenario, Overrides()).model())
    assert {v.property for v in result.violations} == scenario.expectation.violated


def test_a_scenario_without_violation_is_standard() -> None:
    """So ``highwater check`` explores it completely by default."""
    assert all(
        scenario_files.find(name).standard
        for name in NAMES
        if not scenario_files.find(name).expectation.violated
    )


@pytest.mark.parametrize(
    "name",
    all_but(QUICK, [n for n in SHOWN if n not in GAPS], "a complete search for each defect; fast for two"),
)
def test_the_proposal_violates_nothing_under_the_same_budgets(name: str) -> None:
    scenario = scenario_files.find(name)
    result = with_every_rule_on(tuple(sorted(scenario.parameters.items())))
    assert result.complete
    assert not any(result.cut.values())
    assert not scenario.expectation.violated & {v.property for v in result.violations}


def test_the_gaps_are_there_with_every_rule_on() -> None:
    for name in GAPS:
        scenario = scenario_files.find(name)
        assert PROFILES[scenario.profile or ""].rules == set(RULES)
        assert not scenario.rules
        assert len(scenario.expectation.violated) == 1


def test_each_rule_has_a_defect_of_its_own_and_each_defect_its_place_in_the_gallery() -> None:
    off = [
        tuple(rule for rule, on in scenario_files.find(name).rules.items() if not on)
        for name in NAMES
        if name.startswith("zookeeper/defect-")
    ]
    assert {rules for rules in off if len(rules) == 1} == set(off) == {(rule,) for rule in RULES}
    violated = [name for name in NAMES if scenario_files.find(name).expectation.violated]
    # These scenarios violate a property for a test; the page omits them.
    violated = [name for name in violated if not name.startswith(("zookeeper/sanity-", "zookeeper/reach"))]
    assert sorted(SHOWN) == sorted(violated)
