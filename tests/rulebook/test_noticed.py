"""A scenario that the audit names notices a mistake: ``check`` fails there, not only a count of states."""

from __future__ import annotations

import pytest

from highwater.checker.scenarios import scenario_files
from highwater.model.language.rulebook import AuditedSentence
from highwater.model.rulebook import AUDIT
from tests.rulebook.noticed import functions, killed
from tests.slow import slow

Claim = tuple[tuple[str, tuple[str, ...]], AuditedSentence]

CLAIMS: list[Claim] = sorted(
    {
        (name, sentence.at): sentence
        for sentence in AUDIT
        for name in sentence.noticed
        if "/" in name and not scenario_files.find(name).expectation.violated
    }.items(),
    key=lambda claim: claim[0],
)
"""The scenarios that expect no violation, with a sentence whose mistakes each of them notices."""


def test_a_named_scenario_can_fail() -> None:
    for (name, _), sentence in CLAIMS:
        scenario = scenario_files.find(name)
        assert scenario.expectation.reachable or scenario.properties != (), f"{sentence.rule}: {name}"


@pytest.mark.parametrize(
    "claim",
    [pytest.param(claim, marks=slow("one search for each mutant"), id=claim[0][0]) for claim in CLAIMS],
)
def test_check_fails_for_a_mistake_in_the_sentence(claim: Claim) -> None:
    (name, _), sentence = claim
    assert killed(scenario_files.find(name), functions(sentence)), f"{sentence.says}: {name} notices nothing"
