from __future__ import annotations

import gc
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from highwater.traces.messages import leaders, nodes, request_lines
from highwater.traces.messages.context import Context
from highwater.traces.messages.metadata_index import History, MetadataIndex, Registration
from highwater.traces.messages.request_lines import RequestLine
from highwater.traces.messages.request_replay import Around, Requests
from highwater.traces.replay import replay
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.report import Report
from tests.generation.laps import Laps, laps, write_runs
from tests.generation.requests import FIRST, RequestLogs, write_fetches


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


# --- limits on what the replay keeps and reports, and interruptions -----------------------------------


@pytest.mark.parametrize("ends", [Requests, Around])
def test_an_interruption_is_reported(ends: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: object) -> None:
        raise KeyboardInterrupt

    write_fetches(tmp_path, 4)
    monkeypatch.setattr(ends, "replay" if ends is Requests else "collect", interrupt)
    report = replay(tmp_path, timelines=True)
    assert report.interrupted
    assert "messages explained" in report.figures


@pytest.mark.parametrize(("kept", "gaps"), [(2, 0), (1, 4)])
def test_the_number_of_kept_sessions_is_bounded(
    kept: int, gaps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_lines, "MAX_SESSIONS", kept)
    write_fetches(tmp_path, 6)
    name = "messages guessed: fetch sessions that go on after lines that are missing"
    assert replay(tmp_path).figures.get(name, 0) == gaps


def test_the_receiver_is_found_by_address_port_or_file() -> None:
    """Brokers 1 and 2 have the same port on two machines; a line may use another host name."""
    index = MetadataIndex()
    index.listeners = {"a:9092": 1, "b:9092": 2, "c:9093": 3}
    index.brokers = dict.fromkeys((1, 2, 3), Registration(0, 0, 0, False, False))
    requests = Requests(Context(index, Report("", "", "kafka_4_2")), [])
    found = {
        (listener, file): requests._found_broker(listener, Path(file))
        for listener in ("a:9092", "b:9092", "x:9093", "x:9092", "x:9094")
        for file in ("node2/kafka-request.log", "node7/kafka-request.log")
    }
    in_2, in_7 = "node2/kafka-request.log", "node7/kafka-request.log"
    assert found == {
        ("a:9092", in_2): 1, ("a:9092", in_7): 1, ("b:9092", in_2): 2, ("b:9092", in_7): 2,
        ("x:9093", in_2): 3, ("x:9093", in_7): 3, ("x:9092", in_2): 2, ("x:9092", in_7): None,
        ("x:9094", in_2): 2, ("x:9094", in_7): None,
    }  # fmt: skip
