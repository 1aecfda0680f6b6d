"""The follower beside a real cluster reports the one loss in time, and no other incident."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from highwater.traces.inputs import inputs
from highwater.traces.replay import replay_input
from tests import kafka_release
from tests.slow import slow

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.run import LiveRun

pytestmark = slow("starts three nodes of Kafka and ends them again, two to four minutes")
MEDIAN, LONGEST = 2.0, 10.0
"""Limits in seconds from a record to its event. The longest delay allows for a busy machine."""


@pytest.fixture(scope="module")
def run(kafka: Path, tmp_path_factory: pytest.TempPathFactory) -> LiveRun:
    kafka_release.require("java", ["kafka"])
    from tests.live.run import live_run

    # In another process: kafka-python leaves sockets open when a broker refuses a connection.
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:
        return apart.submit(live_run, kafka, tmp_path_factory.mktemp("live") / "run").result()


def test_the_reported_loss_is_the_records_that_a_consumer_misses(run: LiveRun) -> None:
    from tests.live.run import LOSSY

    lost = run.lost(LOSSY)
    reported = [e["incident"] for e in run.events if e["incident"]["lost"] is not None][-1]
    assert lost
    assert (reported["severity"], reported["partition"], reported["certain"]) == ("lost", f"{LOSSY}-0", True)
    offsets = range(reported["first_lost"], reported["first_lost"] + reported["lost"])
    assert sorted(record.offset for record in lost) == list(offsets)


def test_no_other_step_opens_an_incident(run: LiveRun) -> None:
    from tests.live.run import LOSSY

    assert {e["incident"]["partition"] for e in run.events} == {f"{LOSSY}-0"}
    assert {line["event"] for _, line in run.lines} <= {"begun", "opened", "changed", "closed"}


def test_a_consumer_reads_every_acknowledged_record_of_the_other_topic(run: LiveRun) -> None:
    from tests.live.run import KEPT

    assert sum(record.topic == KEPT for record in run.acknowledged) > 500
    assert run.lost(KEPT) == []


def test_each_event_is_reported_in_time_although_the_follower_was_killed_twice(run: LiveRun) -> None:
    kinds = [e["event"] for e in run.events]
    assert (kinds[0], kinds[-1]) == ("opened", "closed")
    assert run.delays[len(run.delays) // 2] < MEDIAN
    assert run.delays[-1] < LONGEST
    assert run.status == 0
    assert "Traceback" not in run.output


def test_metrics_count_the_partitions_that_are_under_min_isr_and_offline(run: LiveRun) -> None:
    def counted(step: str, state: str) -> float:
        return run.metrics[step][f'highwater_partitions{{state="{state}"}}']

    assert counted("under_min_isr 3", "elr") == 3
    assert counted("under_min_isr 0", "elr") == 0
    assert counted("offline 1", "elr") == 1
    assert [counted("end", state) for state in ("all", "offline", "under_min_isr", "at_risk")] == [5, 0, 0, 0]
    assert run.metrics["end"]["highwater_nonconforming_records"] == 0


def test_a_replay_of_the_finished_logs_finds_the_same_incident(run: LiveRun) -> None:
    (found,) = inputs([run.metadata, *run.broker_logs]).found
    report = replay_input(found)
    reported = run.events[-1]["incident"]
    assert [(i.id, i.severity, i.lost, i.first_lost) for i in report.incidents] == [
        (reported["id"], reported["severity"], reported["lost"], reported["first_lost"])
    ]
    assert report.unexplained_count == 0


def test_a_run_that_ends_with_an_exception_leaves_no_process(run: LiveRun) -> None:
    assert len(run.processes) == 3
    for id in run.processes:
        with pytest.raises(ProcessLookupError):
            os.kill(id, 0)
