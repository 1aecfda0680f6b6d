"""Losses found in dumps of data segments, and in logs that a broker has set aside, without broker logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.brokers.losses import joined_ends
from highwater.traces.inputs import DATA_DUMP, inputs, kind_of
from highwater.traces.kafka.data_logs import read_data_dump
from highwater.traces.kafka.log_lines import broker_of
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from highwater.traces.reports import advice
from highwater.traces.reports.advice import Holder
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.incidents import Incident
from highwater.traces.reports.observed import LogTruncation, PartitionState, ReplicaEnd
from highwater.traces.reports.report import Report
from tests.generation import broker_lines as lines
from tests.generation.batches import encode_batch
from tests.slow import all_but
from tests.traces.broker_lines import stamp
from tests.traces.data_dumps import Replicas, dump
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2
from tests.traces.metadata.made_logs import (
    TOPICS,
    beginning,
    change,
    registration_change,
    setting,
    unreadable,
    write,
)
from tests.traces.test_inputs import run

LOST = {
    "down-elr-unclean-210": {78: 54},
    "mixed-requests-elr-6": {235: 24},
    # Broker logs show one less each: the leader died before it learned that all members had its last record.
    "unclean-requests-elr": {65: 68, 139: 55},
}
"""By scenario: election offset, and the number of offsets that the ISR had and the new leader lacks."""
PATH = "/var/lib/kafka/t-0/00000000000000000000.log"
ON = (("metadata.version", 29), ("eligible.leader.replicas.version", 1))


def from_dumps(report: Report) -> list[Finding]:
    return [f for f in report.findings if f.at_risk.startswith("up to ")]


QUICK = (*LOST, "down-elr-hard-021", "down-noelr-210", "minisr-loss-elr", "reassigns-elr")
SCENARIOS = all_but(QUICK, NAMES_4_2, "clusters without a loss; the fast test has some")


@needs_clusters_4_2
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_losses_of_recorded_clusters(scenario: str, tmp_path: Path) -> None:
    """Dumps from before each truncation show exactly the real losses."""
    cluster = CLUSTERS_4_2 / scenario
    replicas = Replicas.read(sorted(cluster.glob("logs/node[0-9]/s*.log.gz")))
    found: dict[int, int] = {}
    for epoch in replicas.written:
        dumps = replicas.write(tmp_path / str(epoch), epoch)
        report = replay(cluster / "__cluster_metadata-0", broker_logs=dumps)
        assert report.figures["dumps of data segments"] == len(dumps)
        for finding in from_dumps(report):
            assert (finding.property, finding.partition) == ("leader_completeness", "t1-0")
            found[int(finding.position["offset"])] = int(finding.at_risk.split()[2])
    assert found == LOST.get(scenario, {})


# --- a made cluster ------------------------------------------------------------------------------------------

UNCLEAN = (
    setting("unclean.leader.election.enable", "true"),
    change(0, isr=[0, 1]),
    [
        change(0, isr=[0], eligibleLeaderReplicas=[1]),
        change(0, "u", isr=[0, 2]),
        registration_change(1, 4, fenced=1),
    ],
    [
        change(0, isr=[2], leader=2, leaderRecoveryState=1, eligibleLeaderReplicas=[]),
        change(0, "u", isr=[2], leader=2, eligibleLeaderReplicas=[0]),
        registration_change(0, 2, fenced=1),
    ],
)
"""Broker 2 leaves the ISR of t-0 first and is elected in leader epoch 1."""


def made(
    folder: Path, logs: dict[int, tuple[tuple[tuple[int, int], ...], int]], *more: list[bytes]
) -> list[Finding]:
    write(folder / "__cluster_metadata-0", [*beginning(*ON), *UNCLEAN, *more])
    for broker, (log, end) in logs.items():
        (folder / f"data-node{broker}.txt").write_text(dump(PATH, log, end))
    return from_dumps(replay(folder))


OLD = ((0, 0),)


@pytest.mark.parametrize(
    ("logs", "lost"),
    [
        ({0: (OLD, 20), 1: (OLD, 20), 2: (OLD, 12)}, 8),
        # A record that an ISR member lacks is not committed.
        ({0: (OLD, 25), 1: (OLD, 20), 2: (OLD, 12)}, 8),
        ({0: (OLD, 20), 1: (OLD, 15), 2: (OLD, 12)}, 3),
        ({0: (OLD, 20), 1: (OLD, 20), 2: (OLD, 20)}, 0),
        # The new leader's log is longer, but diverges where its epoch starts.
        ({0: (OLD, 20), 1: (OLD, 20), 2: (((0, 0), (1, 12)), 40)}, 8),
        # Broker 0 has truncated to the new leader's log, so its dump no longer shows the loss.
        ({0: (((0, 0), (1, 12)), 40), 1: (OLD, 20), 2: (((0, 0), (1, 12)), 40)}, 0),
        # The dump of an ISR member, or of the new leader, is missing.
        ({0: (OLD, 20), 2: (OLD, 12)}, 0),
        ({0: (OLD, 20), 1: (OLD, 20)}, 0),
        ({0: (OLD, 20), 1: (OLD, 20), 2: ((), 0)}, 20),
    ],
)
def test_records_of_the_whole_isr_count_as_committed(
    tmp_path: Path, logs: dict[int, tuple[tuple[tuple[int, int], ...], int]], lost: int
) -> None:
    found = made(tmp_path, logs)
    assert [int(f.at_risk.split()[2]) for f in found] == [lost] * bool(lost)
    if lost == 20:
        assert "broker 0 has 20 of them; broker 1 has 20 of them" in found[0].at_risk


@pytest.mark.parametrize(("min_isr", "lost"), [("1", [8]), (None, [])])
def test_an_unknown_min_isr_makes_no_small_isr_commit(
    tmp_path: Path, min_isr: str | None, lost: list[int]
) -> None:
    """Broker 0 alone in the ISR wrote 8 records: whether they were committed depends on a setting."""
    settings = (setting("min.insync.replicas", min_isr), UNCLEAN[0])
    changes = (change(0, isr=[0]), change(0, isr=[2], leader=2, leaderRecoveryState=1))
    write(tmp_path / "__cluster_metadata-0", [*beginning(*ON[:1]), *settings, *changes])
    for broker, end in enumerate((20, 12, 12)):
        (tmp_path / f"data-node{broker}.txt").write_text(dump(PATH, OLD, end))
    assert [int(f.at_risk.split()[2]) for f in from_dumps(replay(tmp_path))] == lost


def test_a_loss_is_reported_once(tmp_path: Path) -> None:
    """The leader that lacks the records stops and is elected again, which loses nothing more."""
    logs: dict[int, Any] = {0: (OLD, 20), 1: (OLD, 20), 2: (OLD, 12)}
    again = (
        [
            change(0, isr=[], leader=-1, eligibleLeaderReplicas=[2], lastKnownElr=[2]),
            change(0, "u", isr=[], leader=-1, eligibleLeaderReplicas=[0, 2], lastKnownElr=[2]),
            registration_change(2, 6, fenced=1),
        ],
        [
            registration_change(2, 6, fenced=-1),
            change(0, isr=[2], leader=2, eligibleLeaderReplicas=[], lastKnownElr=[]),
            change(0, "u", isr=[2], leader=2, eligibleLeaderReplicas=[0], lastKnownElr=[]),
        ],
    )
    found = made(tmp_path, logs, *again)
    assert [f.summary.split(",")[0] for f in found] == ["broker 2"]
    assert "leader epoch 1" in found[0].summary


def replica(leo: int, epoch: int | None, at_least: bool = False, *cuts: LogTruncation) -> ReplicaEnd:
    return ReplicaEnd(0, leo, at_least, epoch, 1, 2, cuts)


CUT = LogTruncation(50, 1, 2)


@pytest.mark.parametrize(
    ("logged", "is_used"),
    [
        (replica(80, 1), False),
        (replica(80, 1, True), True),
        (replica(80, None), True),
        # The dump is older than the broker's log.
        (replica(91, 1, True), False),
        (replica(70, 2, True), False),
        # The broker truncated after the dump.
        (replica(50, None, True, CUT), False),
        (replica(50, None, True, LogTruncation(90, 1, 2)), True),
    ],
)
def test_a_dump_shows_the_end_that_a_brokers_log_does_not_show(logged: ReplicaEnd, is_used: bool) -> None:
    dumped = ReplicaEnd(0, 90, False, 1, None, 1)
    ((found,),) = joined_ends({"t-0": [logged]}, {"t-0": [dumped]}).values()
    expected = replace(dumped, leader_epoch=2, truncations=logged.truncations) if is_used else logged
    assert found == expected


@needs_clusters_4_2
def test_dumps_answer_what_the_brokers_logs_leave_open(tmp_path: Path) -> None:
    """The report of reassigns-elr asks for dumps of two replicas. With them it names the replica to start."""
    cluster, text = (
        CLUSTERS_4_2 / "reassigns-elr",
        "The input does not show where the logs of brokers 0 and 1 end.",
    )
    log: Any = ((0, 0), (1, 100), (2, 222), (3, 510))
    dumps = [tmp_path / f"data-node{broker}.txt" for broker in (0, 1)]
    for path, end in zip(dumps, (545, 540), strict=True):
        path.write_text(dump(PATH.replace("t-0", "t1-1"), log, end))
    before, after = (replay(cluster, broker_logs=logs).incidents[0].steps for logs in ((), dumps))
    assert any(step.text.startswith(text) for step in before)
    assert any(step.text.startswith("Start broker 0 first") for step in after)


def test_a_loss_fails_although_the_input_is_incomplete(tmp_path: Path) -> None:
    """The record that cannot be read may concern any partition."""
    unread = unreadable(setting("min.insync.replicas", "1"), 9)
    write(tmp_path / "__cluster_metadata-0", [*beginning(*ON), unread, *UNCLEAN])
    for broker, end in enumerate((20, 20, 12)):
        (tmp_path / f"data-node{broker}.txt").write_text(dump(PATH, OLD, end))
    assert [found.reliable for found in from_dumps(replay(tmp_path))] == [False]
    for options in ((), ("--fail-on", "lost")):
        result = run(tmp_path, *options)
        assert result.status == 1
        assert result.output.startswith("DATA LOSS: t-0 lost up to 8 committed records (offsets 12–19) at ")


# --- reading -------------------------------------------------------------------------------------------------


def test_a_dump_of_everything_in_a_directory(tmp_path: Path) -> None:
    """One dump holds segments of several partitions, indexes, the metadata log, and batches without record lines."""
    shallow = dump("/d/node3/a-b-12/00000000000000000000.log", ((4, 0),), 5)
    second = dump("/d/node3/t-0/00000000000000000014.log", ((2, 14), (3, 20)), 30, base=14)
    text = (
        "Dumping /d/node3/t-0/00000000000000000000.index\noffset: 7 position: 200\n"
        + second
        + dump("/d/node3/__cluster_metadata-0/00000000000000000000.log", ((1, 0),), 3)
        + dump("/d/node3/t-0/00000000000000000000.log", ((0, 0), (2, 9)), 14)
        + "Dumping /d/node3/t-0.0123-delete/00000000000000000000.log\nLog starting offset: 0\n"
        + "\n".join(line for line in shallow.split("\n") if line[:1] != "|")
    )
    path = tmp_path / "all.txt"
    path.write_text(text)
    assert kind_of(path) == DATA_DUMP
    found = [(log.broker, log.name, log.epochs, log.end) for log in read_data_dump(path)]
    assert found == [(3, "a-b-12", [(4, 0)], 5), (3, "t-0", [(0, 0), (2, 9), (3, 20)], 30)]


@pytest.mark.parametrize(
    ("name", "broker"),
    [
        ("data-node0.txt", 0),
        ("node-12.dump", 12),
        ("Broker3/dump.txt", 3),
        ("node1/data-node2.txt", 2),
        ("d.txt", None),
    ],
)
def test_the_broker_is_in_the_name(name: str, broker: int | None) -> None:
    assert broker_of(Path("/") / name) == broker


def test_an_invalid_batch_ends_the_log(tmp_path: Path) -> None:
    lines = dump(PATH, OLD, 21).split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("baseOffset: 7 "))
    lines[at] = lines[at].replace("isvalid: true", "isvalid: false")
    notes: list[str] = []
    path = tmp_path / "data-node0.txt"
    path.write_text("\n".join(lines))
    (log,) = read_data_dump(path, notes)
    assert (log.end, notes) == (7, [f"{path}:{at + 1}: the batch is not valid: the log of t-0 ends there"])


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "baseOffset: 7 ",
            "baseOffset: 5 ",
            ":11: baseOffset: 5 of leader epoch 0 does not go on from before",
        ),
        ("baseOffset: 7 ", "baseOffset: x ", ":11: not a line of a batch"),
        ("baseOffset: 7 lastOffset: 13", "baseOffset: 7 lastOffset: 3", "does not go on from before"),
        ("/var/lib", "/var/lib", "which broker's is this? Name the file data-node0.txt"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, before: str, after: str, message: str) -> None:
    name = "dump.txt" if before == after else "data-node0.txt"
    (tmp_path / name).write_text(dump(PATH, OLD, 21).replace(before, after))
    write(tmp_path / "__cluster_metadata-0", [*beginning(*ON), *UNCLEAN])
    with pytest.raises(TraceError) as caught:
        replay(tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert run(tmp_path).status == 2


# --- logs that are set aside (-stray, -delete) --------------------------------------------------------


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


AFTER = PartitionState((0, 1, 2), (2,), leader=2, leader_epoch=1, partition_epoch=2)
"""The partition after the loss."""


def loss(folder: Path, *of_broker_0: str) -> Incident:
    """The incident of a loss of the offsets 20 to 49, with these lines at the end of broker 0's log."""
    write(folder / "__cluster_metadata-0", [*beginning(min_isr="1"), *LOSS])
    alone = PartitionState((0, 1, 2), (0,), leader=0, partition_epoch=1)
    logs = {
        (0, "state-change"): [lines.leads(0, "t-0", TOPICS["t"], alone, 0, 0)],
        (0, "server"): [lines.hwm_moved(0, "t-0", 0, 50)],
        (2, "state-change"): [lines.leads(2, "t-0", TOPICS["t"], AFTER, 20, 20)],
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


FOLLOWED, GREW, NEW = (
    lines.follows(0, "t-0", AFTER, leo, hwm).message for leo, hwm in ((50, 20), (20, 20), (0, 0))
)


@pytest.mark.parametrize(
    ("said", "state", "records", "directory", "standing"),
    [
        ((LOADED, FOUND), "has", 30, STRAY, "exact"),
        ((LOADED, MARKED), "has", 30, STRAY, "exact"),
        ((LOADED, RENAMED), "has", 30, DELETED, "exact"),
        ((FOUND,), "has", 30, STRAY, "at_least"),
        # A replica may have a log again, which the input does not show.
        ((LOADED, RENAMED, GONE), "unknown", 30, None, "exact"),
        ((LOADED, RENAMED, GONE.replace("5ead", "beef")), "has", 30, DELETED, "exact"),
        # A log that followed the new leader may be truncated, and one that grew under it was shorter before.
        ((LOADED, FOLLOWED, FOUND), "unknown", 30, STRAY, "exact"),
        ((GREW, LOADED, FOUND), "unknown", 0, STRAY, "at_least"),
        # Broker 0 is a replica again, with a new log. The old one still has the records.
        ((LOADED, MARKED, NEW), "has", 30, STRAY, "exact"),
    ],
)
def test_the_lost_records_in_a_log_that_is_set_aside(
    tmp_path: Path, said: tuple[str, ...], state: str, records: int, directory: str | None, standing: str
) -> None:
    its = holder(loss(tmp_path, *said))
    assert (its.state, its.records, its.directory, its.standing) == (state, records, directory, standing)


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
