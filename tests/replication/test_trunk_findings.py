"""What the checker finds in Kafka trunk of 2024-10, and which rules close it."""

from __future__ import annotations

import pytest

from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.search import SearchResult
from tests.replication.trunk_findings import (
    FINDINGS,
    LARGE,
    PLACE,
    Finding,
    closed,
    found,
    proposed,
    scenario,
)
from tests.slow import slow

LONG = slow("its searches are large; those of the other findings are fast")
CASES = [pytest.param(f, id=f.name, marks=[LONG] if f.name in LARGE else []) for f in FINDINGS]


def violated(result: SearchResult) -> set[str]:
    return {v.property for v in result.violations}


def test_every_scenario_of_trunk_is_a_finding() -> None:
    names = {n.removeprefix(PLACE) for n in scenario_files.titles() if n.startswith(PLACE)}
    assert names == {f.name for f in FINDINGS}


@pytest.mark.parametrize("finding", CASES)
def test_the_finding_is_found(finding: Finding) -> None:
    assert scenario(finding.name).promise.violated
    assert violated(found(finding.name).result) == scenario(finding.name).promise.violated


@pytest.mark.parametrize("finding", CASES)
def test_each_closing_set_closes_it_and_no_part_of_one_does(finding: Finding) -> None:
    for rules in finding.closes:
        result = closed(finding.name, rules)
        assert result.complete
        assert not result.violations
        for rule in rules if len(rules) > 1 else ():
            part = tuple(r for r in rules if r != rule)
            assert violated(closed(finding.name, part)), f"{part} alone does not close it"


@pytest.mark.parametrize("finding", CASES)
def test_the_proposal_shows_it_only_without_the_rules(finding: Finding) -> None:
    first_phase = proposed(finding.name, "kip_966_first_phase")
    if not finding.off:
        assert violated(first_phase)
        return
    assert first_phase.complete
    assert not first_phase.violations
    without = proposed(finding.name, "kip_966_first_phase", finding.off)
    assert violated(without) == scenario(finding.name).promise.violated


@pytest.mark.parametrize("finding", CASES)
def test_the_proposal_in_full_does_not_show_it(finding: Finding) -> None:
    result = proposed(finding.name, "kip_966")
    assert result.complete
    assert not result.violations
