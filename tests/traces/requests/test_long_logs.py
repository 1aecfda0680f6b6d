from __future__ import annotations

import gc
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace

import pytest

from highwater.traces.messages import context, nodes, request_lines
from highwater.traces.messages.context import Clocks, Context, ControllerRequests
from highwater.traces.messages.metadata_index import History, MetadataIndex, Registration
from highwater.traces.messages.request_lines import HEARTBEAT, RequestLine
from highwater.traces.messages.request_replay import Around, Requests
from highwater.traces.metadata.reporting import Watch
from highwater.traces.replay import replay
from highwater.traces.reports.observed import PartitionChange, PartitionState
from highwater.traces.reports.report import Report
from tests.generation.laps import Laps, laps, write_runs
from tests.generation.requests import FIRST, RequestLogs, registration, write_fetches
from tests.traces.kafka.made import snapshot
from tests.traces.metadata.made_logs import TOPICS, beginning, change, image, report_on, write


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
    monkeypatch.setattr(context, "RETURNED", 32)
    kept: list[int] = []
    read: list[Requests] = []
    begin, replay_all = nodes.Node._begin, Requests.replay

    def replayed(requests: Requests) -> None:
        read.append(requests)
        replay_all(requests)

    def counted(
        node: nodes.Node, history: History, epoch: int, former: context.Leadership | None
    ) -> context.Leadership:
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


# --- the metadata index -------------------------------------------------------------------------------


ID, NEW_ID = "topic-id", "new-topic-id"


def state(epoch: int, partition_epoch: int, leader: int | None = 0) -> PartitionState:
    return PartitionState((0, 1), (0, 1), leader=leader, leader_epoch=epoch, partition_epoch=partition_epoch)


def followed(*changes: tuple[int, PartitionState | None, PartitionState | None]) -> MetadataIndex:
    """An index of changes of t-0: (offset, before, after). The change at offset n has time n s."""
    index = MetadataIndex()
    for position, before, after in changes:
        index.change(PartitionChange(position, 1000 * position, "t", 0, before, after))
    return index


def called(index: MetadataIndex, asked: str, position: int) -> None:
    """Give topic t the id ``asked`` from ``position`` on."""
    index.topics[asked] = "t", position


def places(index: MetadataIndex, asked: str) -> list[int]:
    history = index.history(asked, 0)
    return [] if history is None else [version.position for version in history.versions]


FIRST_STATE, SECOND = state(0, 0), state(0, 1)


def test_a_partition_that_was_there_before_the_log_begins_has_a_history() -> None:
    """The log has no creation record of the partition, so its history starts with the first change."""
    index = followed((5, FIRST_STATE, SECOND), (6, SECOND, state(1, 2)))
    called(index, ID, 0)
    assert places(index, ID) == [5, 6]


def test_a_partition_that_is_created_anew_has_a_history_of_its_own() -> None:
    """With and without its removal in the log, each topic id gets the history after its own creation."""
    for gone in ([(6, SECOND, None)], []):
        index = followed(
            (4, None, FIRST_STATE),
            (5, FIRST_STATE, SECOND),
            *gone,
            (8, None, FIRST_STATE),
            (9, FIRST_STATE, SECOND),
        )
        called(index, ID, 3)
        called(index, NEW_ID, 7)
        assert (places(index, ID), places(index, NEW_ID)) == ([4, 5], [8, 9])
        history = index.history(ID, 0)
        assert history is not None
        assert history.deleted == (6000 if gone else None)
    called(index, "later", 10)
    assert index.history("later", 0) is None


def test_the_topics_and_brokers_of_a_snapshot_are_there_before_the_first_offset(tmp_path: Path) -> None:
    (tmp_path / f"{20:020}-{1:010}.checkpoint").write_bytes(snapshot(image(beginning())))
    index = MetadataIndex()
    report_on(write(tmp_path, [change(0, isr=[0, 1])], 20), Watch([index.change], [], [index.record]))
    assert index.topics["t"] == index.topics[TOPICS["t"]] == ("t", -1)
    found = index.registration(0, 0)
    assert found is not None
    assert (found.position, found.fenced) == (-1, False)
    assert places(index, "t")[-1] == 20


def test_leader_epochs_are_looked_up() -> None:
    index = followed(
        (1, None, state(0, 0)),
        (2, FIRST_STATE, state(0, 1)),
        (3, SECOND, state(2, 2, 1)),
        (4, SECOND, state(3, 3, 0)),
    )
    called(index, ID, 0)
    history = index.history(ID, 0)
    assert history is not None
    assert [history.has_later(2, by) for by in (3999, 4000)] == [False, True]
    assert [history.led_by(0, by) for by in (999, 1000, 3999, 4000)] == [None, 0, 0, 3]
    assert history.led_by(2, 9999) is None
    assert [history.begun(by) for by in (999, 3000)] == [[], [0, 2]]


def test_a_heartbeat_shows_what_a_broker_has_replayed() -> None:
    """The heartbeats come from two logs. One with a lower offset, and one with an error, are ignored."""
    asked = ControllerRequests(MetadataIndex(), Clocks())
    for time, offset, error in ((10, 3, 0), (60, 9, 0), (30, 5, 0), (5, 10, 1), (70, 8, 0)):
        request = SimpleNamespace(broker_id=1, current_metadata_offset=offset)
        said = SimpleNamespace(request=request, response=SimpleNamespace(error_code=error))
        asked.add_heartbeat(RequestLine(Path("a"), 1, HEARTBEAT, time, time, time, time, "", "", said))
    asked.finish()
    assert [asked.had_replayed(1, 5, by) for by in (29, 30)] == [False, True]
    assert asked.had_replayed(1, 9, 70)


def test_broker_epochs_are_looked_up() -> None:
    index = MetadataIndex()
    for position, epoch in ((4, 4), (9, 9)):
        index.record(position, 1000 * position, "REGISTER_BROKER_RECORD", registration(1, epoch))
    assert index.epochs_of(1) == [4, 9]
    assert [index.registered(1, epoch) for epoch in (4, 5, 9)] == [4000, float("inf"), 9000]
    later = [index.registered_later(1, epoch) for epoch in (3, 4, 9)]
    assert [None if found is None else found.position for found in later] == [4, 9, None]
    assert [index.latest_epoch(1, by) for by in (3999, 4000, 9000)] == [-1, 4, 9]
    assert [index.starts_after(1, by) for by in (0, 4000, 9000)] == [4000, 9000, float("inf")]
