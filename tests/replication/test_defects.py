"""With every rule on, the budgets of a defect find nothing. The gate searches each defect's scenario."""

from __future__ import annotations

import pytest

from docs.pages import galleries
from docs.pages.galleries import REPLICATION as GALLERY
from highwater.checker.engines.native import search
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from tests.replication.test_standard_scenarios import BASELINE
from tests.slow import slow

NAMES = galleries.names()


BOUNDED = {
    "last-replica-standing",
    "maximal-isr-gate",
    "reassignment-under-min-isr",
    "elr-outlives-replica",
    "unfenced-fetch",
    "join-by-old-fetch",
}
"""With every rule on, a complete search of these takes too long."""


@slow("complete searches of the proposal with each defect's budgets; standard scenarios have others")
@pytest.mark.parametrize("name", [n for n in NAMES if n not in BOUNDED])
def test_the_proposal_violates_nothing_under_the_budgets_of_a_defect(name: str) -> None:
    result = search(every_rule_on(name), SearchOptions())
    assert result.complete
    assert not result.violations


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
