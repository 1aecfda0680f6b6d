"""The follower reads brokers' logs and reports the losses they show, also after rotation and restarts."""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from highwater.traces.follow.session import IncidentChange
from highwater.traces.follow.tail import BrokerTails
from tests.recordings import folder, needs
from tests.slow import slow
from tests.traces.follow.clusters import Cluster, ends, short

RECORDED = folder("traces/kafka-4.2/clusters")
HEAD = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
LOST = [("down-elr-unclean-210", "t1-0@78", 54), ("mixed-requests-elr-6", "t1-0@235", 24)]
LINE = (
    "[2026-11-20 11:55:{:02},000] DEBUG [Partition v-0 broker=1] High watermark updated from"
    " (offset=1, segment=[0:1]) to (offset=2, segment=[0:2]) (kafka.cluster.Partition)\n"
)
"""A line of a broker, written at a second."""

REQUEST = (
    "[2026-11-20 11:55:00,000] DEBUG Completed request:"
    '{"requestHeader":{"requestApiKey":1,"requestApiVersion":17}} (kafka.request.logger)\n'
)

Piece = tuple[int, Path, bytes]
"""A time (ms since the epoch), a file, and the bytes that are appended to it at that time."""


def batches(recording: Path, to: Path) -> Iterator[Piece]:
    log = (recording / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
    before = 0
    for end in ends(log):
        yield struct.unpack_from(">q", log, before + 35)[0], to, log[before:end]
        before = end


def lines(recording: Path, to: Path) -> Iterator[Piece]:
    for packed in sorted((recording / "logs").rglob("*.log.gz")):
        if not packed.name.startswith(("server.", "state-change.")):
            continue
        path, time = to / packed.parent.name / packed.name[:-3], 0
        for line in gzip.decompress(packed.read_bytes()).splitlines(keepends=True):
            if head := HEAD.match(line):
                at = datetime.strptime(head[1].decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
                time = int(at.timestamp()) * 1000 + int(head[2])
            yield time, path, line


def seconds(name: str, cluster: Cluster) -> Iterator[int]:
    """Write the files of a recorded cluster in order of time; yields the number of each second of that time."""
    pieces = [*batches(RECORDED / name, cluster.segment()), *lines(RECORDED / name, logs_of(cluster))]
    pieces.sort(key=lambda piece: piece[0])
    cluster.start(logs=[logs_of(cluster)])
    bound, second = pieces[0][0], 0
    for time, path, data in pieces:
        if time > bound:
            bound, second = time + 1000, second + 1
            yield second
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as growing:
            growing.write(data)


def logs_of(cluster: Cluster) -> Path:
    return cluster.folder / "logs"


def rotate(cluster: Cluster, second: int) -> None:
    for file in logs_of(cluster).rglob("*.log"):
        file.rename(file.with_name(f"{file.name}.{second}"))


def play(name: str, cluster: Cluster, way: str = "") -> None:
    """Poll the follower once a second of a recorded cluster's time.

    ``way``: the brokers' logs are rotated, the follower restarts, or a copy of the segment replaces it.
    """
    for second in seconds(name, cluster):
        cluster.follow()
        if way == "rotates" and second % 5 == 0:
            rotate(cluster, second)
        if way == "restarts" and second % 9 == 0:
            cluster.restart(logs=[logs_of(cluster)])
        if way == "rewrites" and second % 9 == 0:
            copy = cluster.folder / "copy"
            copy.write_bytes(cluster.segment().read_bytes())
            copy.replace(cluster.segment())
    cluster.follow()
    cluster.follow()


@needs("traces/kafka-4.2/clusters")
@pytest.mark.parametrize("way", ["", "rotates", "restarts", "rewrites"])
@pytest.mark.parametrize(
    ("name", "incident", "lost"),
    [
        LOST[0],
        pytest.param(*LOST[1], marks=slow("a longer log; the shorter one is followed in the same ways")),
    ],
)
def test_a_loss_is_reported_once_with_the_number_of_records(
    name: str, incident: str, lost: int, way: str, cluster: Cluster
) -> None:
    play(name, cluster, way)
    found = [e["incident"] for e in cluster.events if e["incident"]["id"] == incident]
    assert (found[-1]["severity"], found[-1]["lost"]) == ("lost", lost)
    events = [e["event"] for e in cluster.events if e["incident"]["id"] == incident]
    assert (events[0], events.count("opened"), events.count("closed")) == ("opened", 1, 1)
    assert [one["severity"] for one in found] == sorted(
        one["severity"] for one in found
    )  # never back to at_risk
    assert ("read again" in [notice.kind for notice in cluster.notices]) == (way == "rewrites")


@needs("traces/kafka-4.2/clusters")
def test_an_unclean_election_without_a_loss_gets_its_severity_from_the_logs(cluster: Cluster) -> None:
    play("deadleader-elr", cluster)
    found = [(event, severity) for event, id, severity in short(cluster.events) if id == "t1-0@116"]
    assert found == [("opened", "at_risk"), ("changed", "unclean"), ("closed", "unclean")]


@needs("traces/kafka-4.2/clusters")
def test_a_loss_that_late_logs_show_is_closed_if_the_partition_was_whole_since(cluster: Cluster) -> None:
    """At the end of the log, the partition is not whole: a broker is down."""
    name, incident, lost = LOST[0]
    logs = cluster.folder / "logs"
    cluster.start(logs=[logs])
    for pieces in (batches(RECORDED / name, cluster.segment()), lines(RECORDED / name, logs)):
        for _, path, data in pieces:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "ab") as growing:
                growing.write(data)
        cluster.follow()
    for _ in range(11):
        cluster.follow()
    assert cluster.follower.reported == {}
    assert short(cluster.events)[-2:] == [("opened", incident, "lost"), ("closed", incident, "lost")]
    assert cluster.events[-1]["incident"]["lost"] == lost


def test_a_restarted_follower_reports_events_while_the_brokers_keep_writing(
    log: bytes, cluster: Cluster
) -> None:
    """The controller and the brokers write between any two polls, as in a live cluster."""
    offsets = ends(log)
    file = cluster.folder / "logs" / "server.log"
    file.parent.mkdir(parents=True)
    before, seconds = offsets[-6], iter(range(60))

    def busy() -> None:
        with open(file, "a") as growing:
            growing.write(LINE.format(next(seconds)))

    busy()
    cluster.grow(log[:before])
    cluster.start(logs=[file.parent])
    assert short(cluster.follow())[-1][0] == "opened"
    cluster.restart(logs=[file.parent])
    events: list[IncidentChange] = []
    for end in offsets[-5:]:
        busy()
        cluster.grow(log[before:end])
        before = end
        events += [one for one in cluster.follower.poll() if isinstance(one, IncidentChange)]
    assert [one.event for one in events][-1:] == ["closed"]


@needs("traces/kafka-4.2/clusters")
def test_a_restart_after_the_logs_were_rotated_keeps_the_number_of_lost_records(cluster: Cluster) -> None:
    name, incident, lost = LOST[0]
    for _ in seconds(name, cluster):
        if ("changed", incident, "lost") in short(cluster.follow()):
            break
    logs = logs_of(cluster)
    rotate(cluster, 1)
    for file in logs.rglob("*.log.1"):
        file.with_suffix("").write_text("")
    cluster.restart([logs])
    assert cluster.follow() == []
    assert cluster.follower.reported[incident]["lost"] == lost


@pytest.mark.parametrize("size", [20, 1 << 17])
def test_a_file_that_is_no_log_of_a_broker_is_named_until_it_is_replaced(tmp_path: Path, size: int) -> None:
    file = tmp_path / "other.log"
    file.write_bytes(b"a line\n" + b"x" * size)
    (tmp_path / "new.log").write_bytes(b"half a li")
    for name in ("kafkaServer-gc.log", "kafka-authorizer.log", "other.txt", f"{0:020}.log"):
        (tmp_path / name).write_text("a line\n")
    (tmp_path / "kafka-request.log").write_text(REQUEST)
    with closing(BrokerTails([tmp_path])) as tails:
        for _ in range(2):
            tails.look()
            assert list(tails.unreadable) == [file]
            assert "not read: begins with 'a line'; a line of a log has a date" in tails.unreadable[file]
            assert tails.number == 0
        (tmp_path / "beside").write_text(LINE.format(0))
        (tmp_path / "beside").replace(file)
        tails.look()
        assert (tails.number, tails.unreadable) == (1, {})


def test_events_of_two_files_come_in_order_of_time(tmp_path: Path) -> None:
    times = []
    with closing(BrokerTails([tmp_path])) as tails:
        for name, second in (("server.log", 2), ("state-change.log", 1)):
            (tmp_path / name).write_text(LINE.format(second))
            tails.look()
            times += [event.time_ms % 60_000 for event in tails.poll()]
    assert times == [1_000, 2_000]


def test_a_bad_line_is_reported_and_only_that_line_is_left_out(tmp_path: Path) -> None:
    bad = LINE.format(2).replace("offset=1", f"offset={'9' * 25}")
    (tmp_path / "server.log").write_text(LINE.format(1) + bad + LINE.format(3))
    with closing(BrokerTails([tmp_path])) as tails:
        tails.look()
        times = [event.time_ms % 60_000 for event in tails.poll()]
        assert ":2: before: " in tails.unreadable[tmp_path / "server.log"]
        times += [event.time_ms % 60_000 for event in tails.poll()]
    assert times == [1_000, 3_000]


def test_lines_that_cannot_be_read_are_a_caveat(log: bytes, cluster: Cluster) -> None:
    logs = cluster.folder / "logs"
    logs.mkdir(parents=True)
    (logs / "server.log").write_text(LINE.format(1).replace("[2026", "[26"))
    cluster.grow(log)
    cluster.start(logs=[logs])
    for _ in range(3):
        cluster.follow()
    (notice,) = [n.text for n in cluster.notices if n.kind == "unreadable"]
    assert notice.startswith(f"{logs / 'server.log'}: a line cannot be read: 1: [26")
    assert (cluster.follower.counts.unreadable, cluster.follower.counts.broker_logs) == (1, 1)
