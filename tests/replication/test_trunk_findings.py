"""What the checker finds in Kafka trunk of 2024-10, and which rules close it."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.search import SearchResult
from tests import recordings
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

RECORDED = recordings.folder("traces/kafka/controller")

LONG = slow("its searches are large; those of the other findings are fast")
CASES = [pytest.param(f, id=f.name, marks=[LONG] if f.name in LARGE else []) for f in FINDINGS]


def violated(result: SearchResult) -> set[str]:
    return {v.property for v in result.violations}


def test_every_scenario_of_trunk_is_a_finding() -> None:
    names = {n.removeprefix(PLACE) for n in scenario_files.titles() if n.startswith(PLACE)}
    assert names == {f.name for f in FINDINGS}


@pytest.mark.parametrize("finding", CASES)
def test_the_finding_is_found(finding: Finding) -> None:
    assert scenario(finding.name).expectation.violated
    assert violated(found(finding.name).result) == scenario(finding.name).expectation.violated


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
    assert violated(without) == scenario(finding.name).expectation.violated


@pytest.mark.parametrize("finding", CASES)
def test_the_proposal_in_full_does_not_show_it(finding: Finding) -> None:
    result = proposed(finding.name, "kip_966")
    assert result.complete
    assert not result.violations


def _breaches(before: Any, partition: dict[str, Any], brokers: list[dict[str, Any]]) -> list[str]:
    """The promises that a recorded state of a partition does not keep; none where the state is as before."""
    if before == partition:
        return []
    active = {b["id"] for b in brokers if not b["fenced"] and not b["inControlledShutdown"]}
    isr, elr = set(partition["isr"]), set(partition["elr"] or ())
    checks = {
        "elr_within_replicas": elr <= set(partition["replicas"]),
        "elr_only_under_min_isr": not elr or len(isr) < partition["effectiveMinIsr"],
        "leader_is_active": partition["leader"] < 0 or partition["leader"] in active,
        "last_known_leader_is_a_broker": partition["lastKnownElr"] != [-1],
    }
    return [name for name, holds in checks.items() if not holds]


@slow("all recorded operations of a real controller, which are figures of the page")
@pytest.mark.skipif(
    not RECORDED.is_dir(), reason="shared/traces/kafka/controller is not beside the repository"
)
@pytest.mark.parametrize(
    ("mode", "counts"),
    [
        (
            "elr-on",
            {
                "elr_within_replicas": (43, 16),
                "elr_only_under_min_isr": (56, 36),
                "leader_is_active": (224, 73),
                "last_known_leader_is_a_broker": (7, 3),
            },
        ),
        (
            "elr-on-cleanaware",
            {
                "elr_within_replicas": (16, 5),
                "elr_only_under_min_isr": (25, 17),
                "leader_is_active": (61, 27),
                "last_known_leader_is_a_broker": (6, 1),
            },
        ),
        ("elr-off", {}),
    ],
)
def test_what_a_real_controller_was_recorded_doing(mode: str, counts: dict[str, tuple[int, int]]) -> None:
    """States of partitions, and files with one, in which a promise is not kept: the figures of the page."""
    states: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in sorted((RECORDED / mode).glob("*.ndjson.gz")):
        last: dict[tuple[str, int], Any] = {}
        seen: set[str] = set()
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            next(lines)
            for line in lines:
                operation = json.loads(line)
                for partition in operation["partitions"]:
                    key = (partition["topic"], partition["partition"])
                    broken = _breaches(last.get(key), partition, operation["brokers"])
                    last[key] = partition
                    states.update(broken)
                    seen.update(broken)
        files.update(seen)
    assert {name: (states[name], files[name]) for name in states} == counts
