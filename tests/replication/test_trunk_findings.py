"""The findings in Kafka trunk of 2024-10, and the rules that close them (docs/kafka-4.2.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest

from highwater.checker.engines.native import search
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from tests.slow import largest, slow

PLACE = "replication/trunk-"


@dataclass(frozen=True)
class Finding:
    """A finding: its scenario, the kind of gap, and the rules that close it.

    ``closes`` lists minimal sets: no proper subset of one closes the finding. With the rules ``off`` switched
    off, the profile kip_966_first_phase shows the finding within the same budgets. With all its rules it
    shows the finding only if ``off`` is empty.
    """

    name: str
    kind: str
    closes: tuple[tuple[str, ...], ...]
    off: tuple[str, ...] = ()


_MIN_ISR = "min_isr_change_empties_elr"
_REASSIGNMENT = ("elr_within_replicas", "reassignment_needs_min_isr")

FINDINGS = (
    Finding("min-isr", "code", ((_MIN_ISR,),), (_MIN_ISR,)),
    Finding("min-isr-loss", "code", ((_MIN_ISR,),), (_MIN_ISR,)),
    Finding("min-isr-election", "code", (("elr_follows_election",),), ("elr_follows_election",)),
    Finding("reassignment", "code", tuple((rule,) for rule in _REASSIGNMENT), _REASSIGNMENT),
    Finding("reassignment-loss", "code", tuple((rule,) for rule in _REASSIGNMENT), _REASSIGNMENT),
    Finding("clean-restart", "code", (("clean_registration",),), ("clean_registration",)),
    Finding(
        "clean-restart-loss",
        "code",
        (("clean_registration",), ("unclean_recovery", "last_known_elr")),
        ("clean_registration",),
    ),
    Finding(
        "fenced-leader",
        "code",
        (("last_known_leader_unfenced",), ("unclean_recovery",)),
        ("last_known_leader_unfenced",),
    ),
    Finding(
        "forgotten-proposal",
        "implementation",
        (("proposal_outlives_known_metadata",),),
        ("proposal_outlives_known_metadata",),
    ),
    Finding(
        "re-elected-leader",
        "implementation",
        (("re_election_forgets_fetches",),),
        ("re_election_forgets_fetches",),
    ),
    Finding(
        "two-crashes", "proposal", (("unclean_recovery", "last_known_elr", "fenced_before_registration"),)
    ),
)
"""The findings in the page's order."""

QUICK = ("min-isr", "clean-restart-loss", "two-crashes")
"""A finding of each kind of closing sets."""
LONG = slow("many searches of each finding; fast for other findings")
LONGEST = largest("more than a minute")
CASES = [
    pytest.param(
        f, id=f.name, marks=LONGEST if f.name == "re-elected-leader" else () if f.name in QUICK else LONG
    )
    for f in FINDINGS
]


@cache
def searched(
    name: str, on: tuple[str, ...] = (), off: tuple[str, ...] = (), profile: str | None = None
) -> SearchResult:
    """The search of a finding's scenario with these rules; includes unclean recovery if that is on."""
    recovery = {"recovery": 1} if "unclean_recovery" in on or profile == "kip_966" else {}
    rules = {**dict.fromkeys(on, True), **dict.fromkeys(off, False)}
    request = Request.of(scenario_files.find(PLACE + name), Overrides(recovery, rules, profile))
    return search(request.model(), SearchOptions(workers=1))


def violated(result: SearchResult) -> frozenset[str]:
    return frozenset(v.property for v in result.violations)


def expected(finding: Finding) -> frozenset[str]:
    return scenario_files.find(PLACE + finding.name).expectation.violated


def test_every_scenario_of_trunk_is_a_finding() -> None:
    names = {n.removeprefix(PLACE) for n in scenario_files.titles() if n.startswith(PLACE)}
    assert names == {f.name for f in FINDINGS}


@pytest.mark.parametrize("finding", CASES)
def test_the_finding_is_found(finding: Finding) -> None:
    assert expected(finding)
    assert violated(searched(finding.name)) == expected(finding)


@pytest.mark.parametrize("finding", CASES)
def test_each_closing_set_closes_it_and_no_part_of_one_does(finding: Finding) -> None:
    for rules in finding.closes:
        result = searched(finding.name, rules)
        assert result.complete
        assert not result.violations
        for rule in rules if len(rules) > 1 else ():
            part = tuple(r for r in rules if r != rule)
            assert violated(searched(finding.name, part)), f"{part} alone does not close it"


@pytest.mark.parametrize("finding", CASES)
def test_the_proposal_shows_it_only_without_the_rules(finding: Finding) -> None:
    first_phase = searched(finding.name, profile="kip_966_first_phase")
    if not finding.off:
        assert violated(first_phase)
        return
    assert first_phase.complete
    assert not first_phase.violations
    without = searched(finding.name, off=finding.off, profile="kip_966_first_phase")
    assert violated(without) == expected(finding)


@pytest.mark.parametrize("finding", CASES)
def test_the_proposal_in_full_does_not_show_it(finding: Finding) -> None:
    result = searched(finding.name, profile="kip_966")
    assert result.complete
    assert not result.violations
