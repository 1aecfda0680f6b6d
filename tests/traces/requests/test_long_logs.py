"""Long logs that are generated: by runs of the model, and by a recorded cluster again and again."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.requests import nodes
from highwater.traces.requests.replay import Requests
from tests.generation.laps import Laps, laps, write_runs
from tests.generation.repeated import Repeated
from tests.generation.requests import FIRST, RequestLogs
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2


@cache
def runs() -> Laps:
    """A few runs of the model, in half of which something goes wrong."""
    return replace(laps(3, 4), share=0.5)


def test_runs_of_the_model_stand_one_behind_the_other(tmp_path: Path) -> None:
    """Partitions, leader epochs and batches of several records: explained to the last message."""
    lines = write_runs(tmp_path, 600, partitions=2, known=runs())
    report = replay(tmp_path)
    assert (report.unexplained_count, report.findings_count) == (0, {})
    figures = report.figures
    assert figures["request log lines"] == lines
    assert figures["messages explained: send_fetch"] >= 600
    assert figures["messages explained: handle_alter_partition"] > 0
    assert max(state.after.leader_epoch for state in _changes(tmp_path)) > 2


BYTES_A_CHANGE = 1300
"""What is kept of a change of a partition until all logs are read, in bytes of Python's objects; it was 1,600."""


def test_what_is_kept_of_a_change_is_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of two lengths: what is alive when they are read differs by so much for each change more."""
    alive: list[int] = []
    replay_all = Requests.replay

    def measured(requests: Requests) -> None:
        replay_all(requests)
        gc.collect()
        alive.append(tracemalloc.get_traced_memory()[0])

    monkeypatch.setattr(Requests, "replay", measured)
    for name, fetches in (("short", 200), ("long", 1500)):
        write_runs(tmp_path / name, fetches, partitions=2, known=runs())
    replay(tmp_path / "short")  # what the model says is kept from here on
    tracemalloc.start()
    try:
        changes = [replay(tmp_path / name).changes for name in ("short", "long")]
    finally:
        tracemalloc.stop()
    assert changes[1] - changes[0] > 150
    assert (alive[2] - alive[1]) / (changes[1] - changes[0]) < BYTES_A_CHANGE


def _changes(directory: Path):  # type: ignore[no-untyped-def]
    report = replay(directory, timelines=True)
    assert len(report.timelines) == 2
    return [c for t in report.timelines.values() for c in t.changes if c.after is not None]


@needs_clusters_4_2
def test_a_recorded_cluster_again_and_again(tmp_path: Path) -> None:
    """Each lap says what the recording says: nothing is left over, and so many times as much is explained."""
    recording = CLUSTERS_4_2 / "unclean-requests-elr"
    once, laps_written = replay(recording), 3
    lines = Repeated(recording).write(tmp_path, laps_written)
    report = replay(tmp_path)
    assert report.unexplained_count == 0, report.unexplained[:3]
    assert report.figures["request log lines"] == lines == laps_written * once.figures["request log lines"]
    for action in ("answer_fetch", "acknowledge", "handle_alter_partition", "start_broker"):
        name = f"messages explained: {action}"
        assert report.figures[name] == laps_written * once.figures[name], name
    assert [f for f in report.findings if "line" in f.position] == []


def test_leaderships_of_deleted_partitions_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a log of topics that come and go does not take more memory the longer it is."""
    kept: list[int] = []
    monkeypatch.setattr(nodes, "LEADERSHIPS", 4)
    finish = nodes.Node.finish

    def counted(node: nodes.Node) -> None:
        kept.append(len(node.led))
        finish(node)

    monkeypatch.setattr(nodes.Node, "finish", counted)
    with RequestLogs(tmp_path) as made:
        epochs = made.start([0, 1])
        for number in range(20):
            of = FIRST._replace(topic=f"t{number}", topic_id=f"{number:021d}A")
            made.now += 5000
            made.create(of, [0, 1], [0, 1], 1)
            made.now += 1000
            made.fetch(0, 1, epochs[1], 0, 0, -1, 0, of=of)
            made.now += 1000
            made.records(("REMOVE_TOPIC_RECORD", {"topicId": of.topic_id}))
    report = replay(tmp_path)
    assert (report.unexplained_count, report.figures["messages explained: answer_fetch"]) == (0, 20)
    assert max(kept) <= 8
