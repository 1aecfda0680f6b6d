"""Logs that a broker has set aside (``-stray``, ``-delete``): they can have the records that a partition lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.traces.inputs import inputs
from highwater.traces.kafka.data_logs import read_data_dump
from highwater.traces.replay import replay
from highwater.traces.reports import advice
from highwater.traces.reports.advice import Holder, Replicas
from highwater.traces.reports.incidents import Incident
from highwater.traces.reports.observed import PartitionState, ReplicaEnd
from highwater.traces.reports.report import summary
from tests.generation import broker_lines as lines
from tests.generation.batches import encode_batch
from tests.traces.broker_lines import stamp
from tests.traces.data_dumps import dump
from tests.traces.metadata.made_logs import TOPICS, beginning, change, registration_change, setting, write

DIRECTORY = "t-0.5ead9c6df1a54d5bac44249d4d497cdb"
STRAY, DELETED = f"/data/{DIRECTORY}-stray", f"/data/{DIRECTORY}-delete"
LOADED = "[LogLoader partition=t-0, dir=/data] Loading producer state till offset 50"
FOUND = f"Log in /data/t-0 marked stray and renamed to {STRAY} (kafka.log.LogManager)"
RENAMED = (
    f"Log for partition t-0 is renamed to {DELETED} and is scheduled for deletion (kafka.log.LogManager)"
)
MARKED = f"Log for partition t-0 is marked as stray and renamed to {STRAY} (kafka.log.LogManager)"
GONE = f"Deleted log for partition t-0 in {DELETED}. (kafka.log.LogManager)"
LOSS = (
    setting("unclean.leader.election.enable", "true"),
    change(0, isr=[0]),
    [change(0, "u", isr=[0, 2]), registration_change(1, 3, fenced=1)],
    [
        change(0, isr=[2], leader=2, leaderRecoveryState=1),
        change(0, "u", isr=[2], leader=2),
        registration_change(0, 1, fenced=1),
    ],
)
"""Broker 0 leads alone and fails. Broker 2 is elected with a shorter log."""


def loss(folder: Path, *of_broker_0: str) -> Incident:
    """The incident of a loss of the offsets 20 to 49, with these lines at the end of broker 0's log."""
    write(folder / "__cluster_metadata-0", [*beginning(min_isr="1"), *LOSS])
    alone = PartitionState((0, 1, 2), (0,), leader=0, partition_epoch=1)
    after = PartitionState((0, 1, 2), (2,), leader=2, leader_epoch=1, partition_epoch=2)
    logs = {
        (0, "state-change"): [lines.leads(0, "t-0", TOPICS["t"], alone, 0, 0)],
        (0, "server"): [lines.hwm_moved(0, "t-0", 0, 50)],
        (2, "state-change"): [lines.leads(2, "t-0", TOPICS["t"], after, 20, 20)],
    }
    now = 1014
    for (broker, file), written in logs.items():
        texts = []
        for line in written:
            now += 1
            texts.append(line.text(stamp(now)))
        if (broker, file) == (0, "server"):
            texts += [f"{stamp(now + 5000)} INFO [BrokerServer id=0] starts (kafka.server.BrokerServer)"]
            texts += [f"{stamp(now + 5001)} INFO {text}" for text in of_broker_0]
        (folder / f"node{broker}-{file}.log").write_text("\n".join(texts) + "\n")
    report = replay(folder)
    (found,) = report.incidents
    assert (report.unexplained, found.lost, found.first_lost) == ([], 30, 20)
    return found


def holder(found: Incident, broker: int = 0) -> Holder:
    return next(one for one in found.holders if one.broker == broker)


@pytest.mark.parametrize(
    ("said", "directory", "now"),
    [
        (FOUND, STRAY, "Copy the log that broker 0 has set aside: it had 30 lost records."),
        (MARKED, STRAY, "Copy the log that broker 0 has set aside: it had 30 lost records."),
        (RENAMED, DELETED, "Stop broker 0 (or keep it stopped) and copy the log that it has set aside:"),
    ],
)
def test_a_log_that_is_set_aside_has_the_lost_records(
    tmp_path: Path, said: str, directory: str, now: str
) -> None:
    found = loss(tmp_path, LOADED, said)
    its = holder(found)
    assert (its.state, its.records, its.directory) == (advice.HAS, 30, directory)
    (step, *_) = found.steps
    assert step.text.startswith(now)
    assert step.commands[-1].startswith(f"cp -a {directory} ")
    restore = next(step for step in found.steps if step.when == advice.RESTORE)
    assert ("Start broker 0" in restore.text) == (directory == DELETED)
    assert f"broker 0 has 30 in {directory} (last seen" in "\n".join(summary(replay(tmp_path)))


def test_a_directory_that_was_deleted_has_nothing(tmp_path: Path) -> None:
    """Of a broker that is no replica any more. A replica may have a log again, which the input does not show."""
    assert holder(loss(tmp_path, LOADED, RENAMED, GONE)).state == advice.UNKNOWN
    gone = ReplicaEnd(0, 50, False, None, 1, 0, directory=DELETED, is_deleted=True)
    (other, its) = advice.holders(
        [{"broker": 0, "records": 30}], Replicas("t-0", (2,), (gone,)), 2, 1, 20, 50
    )
    assert (other.broker, its) == (2, Holder(0, advice.LACKS, 0))


def test_another_directory_that_was_deleted_does_not_count(tmp_path: Path) -> None:
    found = loss(tmp_path, LOADED, RENAMED, GONE.replace("5ead", "beef"))
    assert holder(found).state == advice.HAS


def test_a_log_that_followed_the_new_leader_may_be_truncated(tmp_path: Path) -> None:
    after = PartitionState((0, 1, 2), (2,), leader=2, leader_epoch=1, partition_epoch=2)
    line = lines.follows(0, "t-0", after, 50, 20).message
    its = holder(loss(tmp_path, LOADED, line, FOUND))
    assert (its.state, its.directory) == (advice.UNKNOWN, STRAY)


def test_a_log_that_grew_under_the_new_leader_counts_as_it_was_before(tmp_path: Path) -> None:
    after = PartitionState((0, 1, 2), (2,), leader=2, leader_epoch=1, partition_epoch=2)
    line = lines.follows(0, "t-0", after, 20, 20).message
    its = holder(loss(tmp_path, line, LOADED, FOUND))
    assert (its.state, its.records, its.directory) == (advice.UNKNOWN, 0, STRAY)


def test_an_end_that_is_not_exact_stays_a_bound(tmp_path: Path) -> None:
    assert holder(loss(tmp_path, FOUND)).standing == "at_least"


def test_a_log_that_is_set_aside_is_not_the_log_of_a_replica() -> None:
    known = ReplicaEnd(0, 9, False, 1, None, 1)
    r = Replicas("t-0", (0,), (known, replace(known, leo=50, last_epoch=2, directory=STRAY)))
    assert r.known == {0: known}


def test_a_log_of_a_replica_that_returned_is_another_log(tmp_path: Path) -> None:
    """Broker 0 is a replica again, with a new log. The old one still has the records."""
    after = PartitionState((0, 1, 2), (2,), leader=2, leader_epoch=1, partition_epoch=2)
    its = holder(loss(tmp_path, LOADED, MARKED, lines.follows(0, "t-0", after, 0, 0).message))
    assert (its.state, its.records, its.directory) == (advice.HAS, 30, STRAY)


def write_segments(folder: Path, end: int, epoch: int = 0) -> Path:
    """The segments of a set-aside log in a broker's data directory, with batches of ten records and an index."""
    aside = folder / f"{DIRECTORY}-stray"
    aside.mkdir(parents=True)
    for base in range(0, end, 20):
        values = [encode_batch(at, epoch, 1000, [b"x"] * 10, compression="gzip") for at in (base, base + 10)]
        (aside / f"{base:020}.log").write_bytes(b"".join(values))
        (aside / f"{base:020}.index").write_bytes(bytes(10))
    (folder / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=abc\n")
    return aside


def test_a_directory_that_is_given_has_the_lost_records(tmp_path: Path) -> None:
    write_segments(tmp_path / "node0", 60).parent.joinpath("meta.properties").unlink()
    its = holder(loss(tmp_path))
    assert (its.state, its.records, its.offset) == (advice.HAS, 30, 60)
    assert (its.directory or "").endswith("-stray")


def test_the_segments_of_a_directory_are_one_log(tmp_path: Path) -> None:
    aside = write_segments(tmp_path / "node0", 60, 3)
    (log,) = read_data_dump(aside)
    assert (log.broker, log.name, log.epochs, log.end) == (7, "t-0", [(3, 0)], 60), "the file names broker 7"
    last = aside / f"{40:020}.log"
    last.write_bytes(last.read_bytes()[:-1])
    notes: list[str] = []
    (log,) = read_data_dump(aside, notes)
    assert log.end == 50
    assert "the batch is not valid: the log ends there" in notes[0]


def test_a_dump_of_a_directory_that_is_set_aside_counts(tmp_path: Path) -> None:
    """Broker 0's log is a member's log, also under another name. So dumps alone show the loss."""
    write(tmp_path / "__cluster_metadata-0", [*beginning(min_isr="1"), *LOSS])
    for broker, name, end in ((0, f"{DIRECTORY}-stray", 50), (2, "t-0", 20)):
        path = f"/data/{name}/{0:020}.log"
        (tmp_path / f"data-node{broker}.txt").write_text(dump(path, ((0, 0),), end))
    (found,) = [one for one in replay(tmp_path).incidents if one.lost]
    assert (found.lost, found.standing) == (30, "at_most")
    assert (holder(found).state, holder(found).directory) == (advice.HAS, STRAY)


def test_a_log_in_use_is_not_read_from_its_segments(tmp_path: Path) -> None:
    aside = write_segments(tmp_path / "node0", 20)
    aside.rename(aside.parent / "t-0")
    write(tmp_path / "__cluster_metadata-0", beginning())
    assert [one.data_dumps for one in inputs([tmp_path]).found] == [()]
