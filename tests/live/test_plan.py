"""Before each kill and each restart of a live broker, `plan` names what then happens to the partitions."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest

from highwater.traces.kafka.metadata_log import PARTITION, open_metadata_log
from highwater.traces.metadata.image import Image
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.reporting import Watch
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.report import Report
from tests import kafka_release
from tests.slow import largest

pytestmark = [*largest("starts three nodes of Kafka, kills each of them once, and rolls them: two minutes")]
TOPICS = {"kept": ([1, 2, 3], 2), "pair": ([1, 2], 2), "single": ([2], 1)}
"""By topic: the replicas of its partition, and min.insync.replicas."""
OUTCOMES = ("offline", "min-isr")


class Moment(NamedTuple):
    """An action with what `plan` named before it, and what followed: pairs of outcome and partition."""

    action: str
    foreseen: set[tuple[str, str]]
    followed: set[tuple[str, str]]


def _asked(data: Path, *action: str) -> set[tuple[str, str]]:
    command = [
        sys.executable,
        "-m",
        "highwater",
        "plan",
        str(data),
        *action,
        "--faults",
        "0",
        "--quiet",
        "--json",
    ]
    run = subprocess.run([*command, "-"], capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1, 3), run.stderr
    answer = json.loads(run.stdout)
    return {(f["outcome"], name) for f in answer["findings"] for name in f["partitions"]}


def _followed(data: Path, since_ms: float) -> set[tuple[str, str]]:
    """The outcomes that partitions came to since a time."""
    found: set[tuple[str, str]] = set()

    def change(one: PartitionChange) -> None:
        if one.after is None or one.time < since_ms or one.topic not in TOPICS:
            return
        if one.after.leader is None:
            found.add(("offline", one.name))
        elif len(one.after.isr) < TOPICS[one.topic][1]:
            found.add(("min-isr", one.name))

    report = Report("", "log", "")
    replay_metadata(open_metadata_log(data / PARTITION), report, watch=Watch(on_change=[change]))
    return found


def live_moments(kafka: Path, folder: Path) -> list[Moment]:
    """Kill each node in turn, then restart all of them one after the other."""
    from tests.live.cluster import NODES, Cluster, until

    moments: list[Moment] = []
    with Cluster(kafka, folder) as cluster:

        def image(beside: int) -> Image:
            data = cluster.nodes[beside % len(NODES) + 1].data
            return replay_metadata(open_metadata_log(data / PARTITION), Report("", "log", "")).image

        def is_healthy(beside: int) -> bool:
            isrs = {p.name: set(p.observed.isr) for p in image(beside).of_topics()}
            return isrs == {f"{topic}-0": set(replicas) for topic, (replicas, _) in TOPICS.items()}

        def bounce(id: int, end: Callable[[], None]) -> None:
            end()
            until(f"broker {id} is fenced", lambda: image(id).flags(id).fenced)
            cluster.nodes[id].start()
            until("all replicas are in the ISR", lambda: is_healthy(id))

        for topic, (replicas, min_isr) in TOPICS.items():
            cluster.create(topic, [replicas], min_isr)
        until("all replicas are in the ISR", lambda: is_healthy(1))
        for id in NODES:
            data = cluster.nodes[id % len(NODES) + 1].data
            time.sleep(1)
            since, foreseen = time.time() * 1000, _asked(data, "--kill", str(id))
            bounce(id, cluster.nodes[id].kill)
            time.sleep(1)
            moments.append(Moment(f"kill {id}", foreseen, _followed(data, since)))
        data = cluster.nodes[1].data
        since, foreseen = time.time() * 1000, _asked(data, "--roll", "1,2,3")
        for id in NODES:
            bounce(id, cluster.nodes[id].stop)
        time.sleep(1)
        moments.append(Moment("roll", foreseen, _followed(data, since)))
    return moments


def test_what_follows_each_action_was_foreseen(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    kafka = kafka_release.kafka(request.config.getoption("--kafka") or kafka_release.NEWEST)
    kafka_release.require("java", ["kafka"])
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:
        moments = apart.submit(live_moments, kafka, tmp_path / "live").result()
    print(moments)
    assert [moment.action for moment in moments] == ["kill 1", "kill 2", "kill 3", "roll"]
    for moment in moments:
        assert moment.followed <= moment.foreseen, moment
    # The broker of a partition with one replica takes it offline, and no other broker does.
    assert [("offline", "single-0") in moment.foreseen for moment in moments] == [False, True, False, True]
    assert [("offline", "single-0") in moment.followed for moment in moments] == [False, True, False, True]
