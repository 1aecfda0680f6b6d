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
from tests.slow import slow, whole_only

if TYPE_CHECKING:
    from tests.live.run import LiveRun

pytestmark = slow("starts three nodes of Kafka and ends them again, two to four minutes")
MEDIAN, LONGEST = 2.0, 10.0
"""Limits in seconds from a record to its event. The longest delay allows for a busy machine."""


RUNS = (
    pytest.param((None, True), id="newest"),
    *(
        pytest.param((version, has_elr), id=f"{version}{'' if has_elr else ' without ELR'}", marks=whole_only)
        for version, has_elr in (("4.0.2", True), ("4.0.2", False), ("4.1.2", True), ("4.3.1", True))
    ),
)
"""A version of Kafka, None for ``pytest --kafka`` or the newest one, and whether ELR is on."""


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LiveRun:
    version, has_elr = request.param
    named = version or request.config.getoption("--kafka") or kafka_release.NEWEST
    kafka = kafka_release.kafka(named)
    kafka_release.require("java", ["kafka"])
    from tests.live.run import live_run

    # In another process: kafka-python leaves sockets open when a broker refuses a connection.
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:
        folder = tmp_path_factory.mktemp("live") / "run"
        return apart.submit(live_run, kafka, folder, has_elr=has_elr).result()


def test_the_reported_losses_are_the_records_that_a_consumer_misses(run: LiveRun) -> None:
    from tests.live.run import LOSSY, SINGLE

    for topic in (LOSSY, SINGLE):
        told = [e["incident"] for e in run.events if e["incident"]["partition"] == f"{topic}-0"]
        reported = [incident for incident in told if incident["lost"] is not None][-1]
        assert (reported["severity"], reported["certain"]) == ("lost", True)
        offsets = range(reported["first_lost"], reported["first_lost"] + reported["lost"])
        assert offsets
        assert sorted(record.offset for record in run.lost(topic)) == list(offsets)


def test_no_other_partition_has_an_incident(run: LiveRun) -> None:
    from tests.live.run import LOSSY, SINGLE

    assert {e["incident"]["partition"] for e in run.events} == {f"{LOSSY}-0", f"{SINGLE}-0"}
    assert {line["event"] for _, line in run.lines} <= {"begun", "opened", "changed", "closed", "caveat"}
    caveats = {line["text"].split(":")[0] for _, line in run.lines if line["event"] == "caveat"}
    assert caveats <= {"newer version"}


def test_a_consumer_reads_every_acknowledged_record_of_the_other_topics(run: LiveRun) -> None:
    from tests.live.run import KEPT, MOVED

    assert sum(record.topic == KEPT for record in run.acknowledged) > 500
    assert run.lost(KEPT) == []
    assert run.lost(MOVED) == []


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

    alone = int(run.has_elr)
    assert counted(f"under_min_isr {3 + alone}", "elr") == 4 * alone
    assert counted(f"under_min_isr {alone}", "elr") == alone
    assert counted("offline 1", "elr") == 2 * alone
    assert [counted("end", state) for state in ("all", "offline", "under_min_isr")] == [6, 0, 0]
    # The last known leader of the partition with one replica was elected uncleanly.
    assert counted("end", "at_risk") == alone
    assert run.metrics["end"]["highwater_nonconforming_records"] == 0


def test_a_replay_of_the_finished_logs_finds_the_same_losses(run: LiveRun) -> None:
    (found,) = inputs([run.metadata, *run.broker_logs]).found
    report = replay_input(found)
    reported = {e["incident"]["id"]: e["incident"] for e in run.events}
    losses = [(i["id"], i["lost"], i["first_lost"]) for i in reported.values() if i["lost"] is not None]
    assert sorted((i.id, i.lost, i.first_lost) for i in report.incidents if i.lost is not None) == sorted(
        losses
    )
    assert (report.unexplained_count, report.damage) == (0, [])
    assert {doubt.kind for doubt in report.doubts} <= {"newer version"}, "each line of the logs is read"


def test_a_run_that_ends_with_an_exception_leaves_no_process(run: LiveRun) -> None:
    assert len(run.processes) == 3
    for id in run.processes:
        with pytest.raises(ProcessLookupError):
            os.kill(id, 0)
