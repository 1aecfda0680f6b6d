"""The bounded check finds each known defect within 12 states like the explorer; with all rules on, none."""

from __future__ import annotations

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines import native
from highwater.checker.engines.solver import bounded
from highwater.checker.report.counterexample import follow_all
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from tests.slow import all_but, largest, often
from tests.solver.test_bounded import explored

WITHIN = 12

QUIET = 8
"""The depth for models without defects: each level costs more than all before."""

WHOLE = {
    "replication/defect-": "kip_966",
    "replication/controller/": "kip_966_first_phase",
    "truncation/": "kip_320",
}
"""Place of the defects → the profile with every rule that closes them."""

GALLERY = [
    name
    for name in scenario_files.titles()
    if name.startswith(tuple(WHOLE))
    and not any(place in name for place in ("/gap-", "/reach", "/small-", "/sanity-"))  # no rule closes these
    if scenario_files.find(name).expectation.violated or "/defect-" in name
]
QUICK = {"replication/controller/defect-elr-not-emptied"}
DEEP = {
    "replication/controller/kafka-4.2-shut-out",
    "replication/defect-reassignment-under-min-isr",
    "truncation/kip-101",
    "truncation/kip-279",
}
ASKED = sorted({*QUICK, *sorted(set(GALLERY) - DEEP)[:: often(6, 1)]})
"""Every sixth scenario, or all."""


def every_rule_on(scenario: Scenario) -> Model:
    """The scenario's budgets and properties with every rule that could close its defect."""
    profile = next(p for place, p in WHOLE.items() if scenario.name.startswith(place))
    whole = scenario.protocol.profiles[profile].rules
    on = {rule: rule in whole for rule in scenario.rules}
    return Request.of(scenario, Overrides(rules=on, profile=profile)).model()


def solved(model: Model, depth: int) -> dict[str, int]:
    """Property → depth of its violation, by the bounded check and confirmed by the interpreter."""
    result = bounded.check(model, depth)
    assert result.stopped_by in ("depth", "violation", None)
    assert result.depth == depth or result.stopped_by != "depth"
    return {e.name: e.depth for e in follow_all(model, result.violations)}


@pytest.mark.parametrize(
    "name",
    [
        *all_but(QUICK, ASKED, "two bounded checks of each defect; fast for one defect"),
        *(
            pytest.param(name, marks=largest("the last one or two states take a minute"))
            for name in sorted(DEEP)
        ),
    ],
)
def test_defects_are_found_where_the_explorer_finds_them(name: str) -> None:
    scenario = scenario_files.find(name)
    model = Request.of(scenario, Overrides()).model()
    expected = explored(model, WITHIN)
    depth = max(expected.values(), default=QUIET)
    assert solved(model, depth) == expected
    if expected:
        try:
            whole = every_rule_on(scenario)
        except InputError as wrong:  # the property concerns a rule of Kafka's that the proposal lacks
            if "does not exist while the rule" not in str(wrong):
                raise
            return
        assert solved(whole, min(depth, QUIET)) == {}


@pytest.mark.parametrize(
    ("name", "closed"),
    [
        ("replication/gap-recovery-quorum", Overrides(rules={"fenced_before_registration": True})),
        ("replication/controller/gap-resumed-shutdown", Overrides({"resumed_shutdowns": 0})),
    ],
)
def test_gaps_of_the_proposal_are_found_and_closed_by_further_rules(name: str, closed: Overrides) -> None:
    scenario = scenario_files.find(name)
    assert explored(Request.of(scenario, Overrides()).model(), WITHIN) == dict.fromkeys(
        scenario.expectation.violated, 6
    )
    result = native.search(Request.of(scenario, closed).model(), SearchOptions(workers=1))
    assert result.complete
    assert not result.violations


def test_all_kinds_of_defects_are_in_the_gallery() -> None:
    for place in WHOLE:
        assert sum(name.startswith(place) for name in GALLERY) >= 3
