"""Kafka's own code executes the findings of docs/kafka-4.2.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages.kafka_4_2 import FINDINGS, full_name
from tests.conform.test_conform import run
from tests.replication.test_kafka_4_2_findings import DEPTHS
from tests.slow import all_but

FAST = ("assignment", "reassignment-loss-records")


@pytest.mark.parametrize("name", all_but(FAST, FINDINGS, "each finding, where the fast tests take two"))
def test_a_finding_is_reproduced_as_on_its_page(kafka: Path, tmp_path: Path, name: str) -> None:
    status, found, output = run(kafka, tmp_path, full_name(name), "--counterexamples")
    assert status == 0, output
    runs = {one["property"]: one for one in found["scenarios"][0]["runs"]}
    assert {prop: len(one["steps"]) + 1 for prop, one in runs.items()} == DEPTHS[name]
    assert all(one["reproduced"] and one["stopped_at"] is None for one in runs.values())
    lost = runs.get("acknowledged_records_survive", {"lost": []})["lost"]
    on_page = FINDINGS[name]["reproduced"]
    if lost:
        assert on_page == "yes: 1 acknowledged record is lost"
    else:
        assert on_page in ("yes", "controller only")
    if name == "shut-out":
        thrown = "IllegalArgumentException: Replica 2 is not assigned to this partition."
        failures = [one for one in runs["every_broker_comes_back"]["fails"] if thrown in one]
        assert any("registerBroker" in failure for failure in failures)


def test_a_run_that_kafka_does_not_allow_is_not_reproduced(kafka: Path, tmp_path: Path) -> None:
    """The model runs without the gate of the HWM: its leader acknowledges records that Kafka's leader does not."""
    rule = ("--rule", "hwm_needs_min_isr=off", "--rule", "acks_all_needs_min_isr=off")
    goal = ("--property", "acknowledged_records_survive")
    scenario = "replication/small-crash"
    status, found, output = run(
        kafka, tmp_path, scenario, "--profile", "kafka_4_2", *rule, *goal, "--counterexamples"
    )
    assert status == 1, output
    assert not any(one["reproduced"] for one in found["scenarios"][0]["runs"])
