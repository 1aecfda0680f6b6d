from __future__ import annotations

import gc
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from highwater.traces.messages import leaders, nodes
from highwater.traces.messages.context import Context
from highwater.traces.messages.metadata_index import History
from highwater.traces.messages.request_lines import RequestLine
from highwater.traces.messages.request_replay import Requests
from highwater.traces.replay import replay
from highwater.traces.reports.observed import PartitionChange
from tests.generation.laps import Laps, laps, write_runs
from tests.generation.requests import FIRST, RequestLogs


@cache
def runs() -> Laps:
    """A few runs of the model; half of them have faults."""
    return replace(laps(3, 4), share=0.5)


LEFT_OUT = (type, ModuleType, FunctionType, Context, History, PartitionChange, RequestLine)
"""Types that are not counted: the model's results, the metadata log, and requests to controllers."""


def reachable(root: object) -> int:
    """The number of objects reachable from ``root``, without those of LEFT_OUT."""
    seen, waiting = set[int](), [root]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen and not isinstance(one, LEFT_OUT):
            seen.add(id(one))
            waiting += gc.get_referents(one)
    return len(seen)


def test_kept_objects_do_not_grow_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Consecutive runs of the model conform, with several partitions, leader epochs and multi-record batches.

    Memory depends on the current leaderships, not on the log's length; it is measured when a leadership begins.
    """
    monkeypatch.setattr(leaders, "RETURNED", 32)
    kept: list[int] = []
    read: list[Requests] = []
    begin, replay_all = nodes.Node._begin, Requests.replay

    def replayed(requests: Requests) -> None:
        read.append(requests)
        replay_all(requests)

    def counted(
        node: nodes.Node, history: History, epoch: int, former: leaders.Leadership | None
    ) -> leaders.Leadership:
        led = begin(node, history, epoch, former)
        kept.append(reachable(read[-1]))
        return led

    monkeypatch.setattr(Requests, "replay", replayed)
    monkeypatch.setattr(nodes.Node, "_begin", counted)
    found = []
    for fetches in (800, 3200):
        write_runs(tmp_path / str(fetches), fetches, partitions=2, known=runs())
        kept.clear()
        report = replay(tmp_path / str(fetches))
        assert (report.unexplained_count, report.findings_count) == (0, {})
        assert report.figures["messages explained: send_fetch"] > 0.9 * fetches
        assert report.figures["messages explained: handle_alter_partition"] > 0
        found.append((report.changes, max(kept)))
    (few, most_of_few), (many, most_of_many) = found
    assert many - few > 300
    assert most_of_many < most_of_few + 200


def test_leaderships_of_deleted_partitions_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a log with many short-lived topics would need ever more memory."""
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
