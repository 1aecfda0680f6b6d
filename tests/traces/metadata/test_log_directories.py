"""Failing log directories in made logs: the replay explains the changes that they cause, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.metadata.reporting import Watch
from highwater.traces.reports.observed import PartitionChange
from tests.generation import records
from tests.traces.kafka.made import snapshot
from tests.traces.metadata.made_logs import (
    BROKERS,
    ON,
    TOPICS,
    Records,
    Wrong,
    change,
    count,
    default,
    feature,
    partition,
    registration,
    registration_change,
    replayed,
    report_on,
    setting,
    unexplained,
    write,
)

A, B = ([f"{broker}{letter}AAAAAAAAAAAAAAAAAAAw" for broker in "BCD"] for letter in "ab")
"""The two directories of each broker: t-0 is in the first ones, u-0 in the second ones."""
UNASSIGNED, LOST = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
NEW = "AAAAAAAAAAAAAAAAAAAAEA"
EPOCHS = (3, 5, 7)


def assigned(topic: str, *directories: str, **changed: Any) -> bytes:
    return change(0, topic, directories=list(directories), **changed)


def lists(broker: int, *directories: str, epoch: int | None = None) -> bytes:
    listed = {"logDirs": list(directories)} if directories else {}
    return registration_change(broker, EPOCHS[broker] if epoch is None else epoch, 2, **listed)


def registers(broker: int, epoch: int, *directories: str, **changed: Any) -> bytes:
    return registration(broker, epoch, logDirs=list(directories), **changed)


def beginning() -> list[bytes | Sequence[bytes]]:
    """Three brokers with two directories each, to which their replicas of t-0 and u-0 are assigned."""
    safe = [default("2"), feature(*ON[1])]
    values: list[bytes | Sequence[bytes]] = [feature(*ON[0]), safe]
    for broker in BROKERS:
        values += [
            registers(broker, EPOCHS[broker], A[broker], B[broker]),
            registration_change(broker, EPOCHS[broker], fenced=-1),
        ]
    for topic, where in (("t", A), ("u", B)):
        values.append(records.topic(topic, TOPICS[topic]))
        values.append(partition(0, topic, 2, directories=[UNASSIGNED] * 3))
        values.append(setting("unclean.leader.election.enable", "false", topic))
        values += [assigned(topic, *where[: n + 1], *[UNASSIGNED] * (2 - n)) for n in BROKERS]
    return values


START = count(beginning())
LEADER_FAILS = [change(0, isr=[1, 2], leader=1), lists(0, B[0])]
FOLLOWER_FAILS = [change(0, isr=[0, 2]), lists(1, B[1])]


def explained(
    folder: Path, *values: bytes | Sequence[bytes], start: Records | None = None
) -> tuple[Wrong, dict[int, str | None]]:
    """The records that do not conform, and the causes of the changes: offsets from the beginning's end on."""
    causes: dict[int, str | None] = {}

    def on_change(change: PartitionChange) -> None:
        causes[change.position - START] = change.cause

    begun = beginning() if start is None else start
    report = replayed(folder, *values, start=begun, watch=Watch([on_change]))
    assert report.doubts == []
    assert "BROKER_REGISTRATION_CHANGE_RECORD of log directories" not in report.skipped
    return unexplained(report, count(begun)), causes


def wrong(folder: Path, *values: bytes | Sequence[bytes], start: Records | None = None) -> Wrong:
    return explained(folder, *values, start=start)[0]


# --- a directory fails ---------------------------------------------------------------------------------------


def test_the_failure_of_a_directory_explains_the_change_of_its_replicas(tmp_path: Path) -> None:
    """Another replica of t-0 leads; u-0 is in another directory."""
    not_explained, causes = explained(tmp_path, LEADER_FAILS)
    assert (not_explained, causes[0]) == ([], "lose_directory")
    not_explained, causes = explained(tmp_path, FOLLOWER_FAILS)
    assert not_explained == []
    assert causes[0] == "alter_partition or lose_directory"


@pytest.mark.parametrize(
    ("decided", "where"),
    [
        ([change(0, isr=[1, 2], leader=2), LEADER_FAILS[1]], (0, "t-0")),
        ([change(0, isr=[1], leader=1), LEADER_FAILS[1]], (0, "t-0")),
        ([LEADER_FAILS[1]], (0, "t-0")),
        ([LEADER_FAILS[0]], (0, "t-0")),
        ([LEADER_FAILS[1], LEADER_FAILS[0]], (0, "t-0")),
        # The other directory is gone: of u-0 nothing is written, and t-0 has no reason.
        ([LEADER_FAILS[0], lists(0, A[0])], (0, "t-0")),
        ([LEADER_FAILS[0], lists(1, B[1])], (0, "t-0")),
        ([*LEADER_FAILS[:1], change(0, "u", isr=[1, 2], leader=1), LEADER_FAILS[1]], (1, "u-0")),
        # What it had already, what it never had, and an epoch that is not registered.
        ([LEADER_FAILS[0], lists(0, A[0], B[0])], (0, "t-0")),
        ([LEADER_FAILS[0], lists(0, NEW)], (1, None)),
        ([LEADER_FAILS[0], lists(0, B[0], epoch=9)], (1, None)),
    ],
)
def test_another_change_beside_the_failure_is_reported(
    tmp_path: Path, decided: list[bytes], where: Any
) -> None:
    assert where in wrong(tmp_path, decided)


def test_cordoned_directories_change_nothing(tmp_path: Path) -> None:
    """They get no new replicas. No directory fails, and the one that fails later is still known."""
    for cordoned in ([A[1]], [A[1], B[1]], []):
        record = registration_change(1, EPOCHS[1], 3, cordonedLogDirs=cordoned)
        assert wrong(tmp_path, record) == []
        assert wrong(tmp_path, record, FOLLOWER_FAILS) == []
        assert wrong(tmp_path, [FOLLOWER_FAILS[0], record]) == []
        # Records of directories are judged as before.
        assert (1, "t-0") in wrong(tmp_path, record, FOLLOWER_FAILS[1])


def test_a_failure_and_its_changes_are_one_decision(tmp_path: Path) -> None:
    """Another decision between the two is not possible in one request."""
    between = [
        LEADER_FAILS[0],
        registration_change(2, EPOCHS[2], fenced=1, inControlledShutdown=0),
        LEADER_FAILS[1],
    ]
    assert wrong(tmp_path, between)
    assert wrong(tmp_path, LEADER_FAILS[0], LEADER_FAILS[1])


def test_a_replica_in_a_failed_directory_cannot_lead(tmp_path: Path) -> None:
    """The next leader's broker is fenced: the failed replica is skipped, although its broker is up."""
    fenced = registration_change(1, EPOCHS[1], fenced=1)
    of_u = change(0, "u", isr=[0, 2])
    to_2 = change(0, isr=[2], leader=2, eligibleLeaderReplicas=[1])
    assert wrong(tmp_path, LEADER_FAILS, [to_2, of_u, fenced]) == []
    to_0 = change(0, isr=[0], leader=0, eligibleLeaderReplicas=[1])
    assert (2, "t-0") in wrong(tmp_path, LEADER_FAILS, [to_0, of_u, fenced])
    # Nor as the preferred replica, should it come back into the ISR.
    returns, back = change(0, isr=[0, 1, 2]), change(0, leader=0)
    assert wrong(tmp_path, LEADER_FAILS, returns, back) == [(3, "t-0")]


def test_two_directories_can_fail_in_one_request(tmp_path: Path) -> None:
    """Each with its partition; the broker lists what it has left, which is a third one, or none."""
    both = [change(0, isr=[0, 2]), change(0, "u", isr=[0, 2])]
    third = registers(1, START, A[1], B[1], NEW, incarnationId="AAAAAAAAAAAAAAAAAAAAEg")
    again: Records = [
        [change(0, isr=[0, 2]), change(0, "u", isr=[0, 2]), third],
        registration_change(1, START, fenced=-1),
        change(0, isr=BROKERS),
        change(0, "u", isr=BROKERS),
    ]
    assert wrong(tmp_path, *again, [*both, lists(1, NEW, epoch=START)]) == []
    assert (count(again) + 1, "u-0") in wrong(tmp_path, *again, [both[0], lists(1, NEW, epoch=START)])
    assert wrong(tmp_path, [*both, lists(1)]) == []
    assert (1, "u-0") in wrong(tmp_path, [both[0], lists(1)])


# --- what comes after ----------------------------------------------------------------------------------------


def down(*directories: str) -> Records:
    """All replicas of t-0 go; 0 has lost its directory, is last in the ISR, and restarts with these directories."""
    first: Records = [
        [change(0, isr=[0, 1]), change(0, "u", isr=[0, 1]), registration_change(2, EPOCHS[2], fenced=1)],
        [
            change(0, isr=[0], eligibleLeaderReplicas=[1]),
            change(0, "u", isr=[0], eligibleLeaderReplicas=[1]),
            registration_change(1, EPOCHS[1], fenced=1),
        ],
        [change(0, isr=[], leader=-1, eligibleLeaderReplicas=[0, 1], lastKnownElr=[0]), lists(0, B[0])],
    ]
    epoch = START + count(first)
    restarts = [
        change(0, "u", isr=[], leader=-1, eligibleLeaderReplicas=[0, 1], lastKnownElr=[0]),
        registers(0, epoch, *directories, incarnationId=NEW),
    ]
    return [*first, restarts]


BACK: dict[str, Any] = {"isr": [0], "leader": 0, "eligibleLeaderReplicas": [1], "lastKnownElr": []}


@pytest.mark.parametrize("is_back", [True, False])
def test_a_restart_without_the_directory_leaves_its_replica_ineligible(tmp_path: Path, is_back: bool) -> None:
    """If the broker lists the directory again, its replica can be elected when the broker is unfenced."""
    before = down(A[0], B[0]) if is_back else down(B[0])
    at = count(before)
    epoch = START + at - 2
    unfenced = registration_change(0, epoch, fenced=-1)
    of_t, of_u = change(0, **BACK), change(0, "u", **BACK)
    elected, not_elected = (wrong(tmp_path, *before, [unfenced, of_u, *more]) for more in ([of_t], []))
    assert (elected, not_elected) == (([], [(at, "t-0")]) if is_back else ([(at + 2, "t-0")], []))


def test_a_replica_made_again_in_another_directory_can_lead(tmp_path: Path) -> None:
    """The replica can be elected after the broker has assigned it to the other directory."""
    before = down(B[0])
    at = count(before)
    unfenced = [registration_change(0, START + at - 2, fenced=-1), change(0, "u", **BACK)]
    # K16: the assignment empties the ELR. The last known leader, which that leaves, leads when somebody is unfenced.
    moved = assigned("t", B[0], *A[1:], eligibleLeaderReplicas=[])
    elected = change(0, isr=[0], leader=0, leaderRecoveryState=1, lastKnownElr=[])
    unfenced_2 = registration_change(2, EPOCHS[2], fenced=-1)
    assert wrong(tmp_path, *before, unfenced, change(0, **BACK)) == [(at + 2, "t-0")]
    assert wrong(tmp_path, *before, unfenced, moved, [unfenced_2, elected]) == []
    assert wrong(tmp_path, *before, unfenced, moved, [unfenced_2]) == [(at + 3, "t-0")]
    still_there = assigned("t", NEW, *A[1:], eligibleLeaderReplicas=[])
    assert wrong(tmp_path, *before, unfenced, still_there, [unfenced_2]) == []


def test_an_assignment_to_a_failed_directory_elects_another_leader(tmp_path: Path) -> None:
    """One request writes two changes: the replica's directory, and another leader."""
    said, leaves = assigned("t", LOST, *A[1:]), change(0, isr=[1, 2], leader=1)
    assert wrong(tmp_path, [said, leaves]) == []
    assert wrong(tmp_path, [said]) == [(0, "t-0")]
    assert (0, "t-0") in wrong(tmp_path, [said, change(0, isr=[1, 2], leader=2)])
    online = assigned("t", B[0], *A[1:])
    assert wrong(tmp_path, [online]) == []
    assert wrong(tmp_path, [online, leaves]) == [(1, "t-0")]


@pytest.mark.parametrize(
    ("directories", "is_explained"),
    [((B[0], *A[1:]), True), ((B[0], B[1], A[2]), False), (tuple(A), False), ((B[0],), False)],
)
def test_an_assignment_moves_exactly_one_replica(
    tmp_path: Path, directories: tuple[str, ...], is_explained: bool
) -> None:
    report = replayed(tmp_path, assigned("t", *directories), start=beginning())
    assert unexplained(report, START) == ([] if is_explained else [(0, "t-0")])
    assert [d.kind for d in report.doubts] == (["not followed"] if len(directories) < 3 else [])


@pytest.mark.parametrize("where", [(UNASSIGNED, A[2]), (B[1], A[2]), (A[2], A[2])])
def test_a_reassignment_leaves_replicas_where_they_are(tmp_path: Path, where: tuple[str, str]) -> None:
    """Replica 1 is removed and added again; a reassignment assigns it to no directory."""
    goes = change(0, replicas=[0, 2], isr=[0, 2], directories=[A[0], A[2]], leader=0)
    comes = change(0, replicas=[1, 2, 0], addingReplicas=[1], directories=[where[0], where[1], A[0]])
    expected = [] if where[0] == UNASSIGNED else [(1, "t-0")]
    assert wrong(tmp_path, goes, comes) == expected
    assert wrong(tmp_path, change(0, replicas=[0, 2], isr=[0, 2], directories=A[1:], leader=0)) == [
        (0, "t-0")
    ]
    assert wrong(tmp_path, change(0, replicas=[0, 2], isr=[0, 2], leader=0))[0] == (0, "t-0")


def test_a_new_partition_is_in_the_default_directories_of_its_brokers(tmp_path: Path) -> None:
    """A broker with two directories has no default one."""
    start = beginning()[:-6]
    assert wrong(tmp_path, start=start) == []
    named = [*start, records.topic("v", NEW)]
    fine, placed = (partition(0, "t", 2, topicId=NEW, directories=d) for d in ([UNASSIGNED] * 3, A))
    assert wrong(tmp_path, fine, start=named) == []
    assert [name for _, name in wrong(tmp_path, placed, start=named)] == ["v-0"]


# --- snapshots -----------------------------------------------------------------------------------------------


def of_snapshot(listed: Sequence[str], placed: Sequence[str] = A) -> list[bytes]:
    """A snapshot in which broker 0 lists these directories, and 1 leads t-0, which is in ``placed``."""
    values = [feature(name, level) for name, level in ON]
    for broker in BROKERS:
        directories = listed if broker == 0 else (A[broker], B[broker])
        values.append(registers(broker, EPOCHS[broker], *directories, fenced=False))
    values.append(records.topic("t", TOPICS["t"]))
    values.append(
        partition(0, "t", 2, leader=1, leaderEpoch=1, partitionEpoch=4, isr=[1, 2], directories=list(placed))
    )
    return [*values, default("2")]


@pytest.mark.parametrize("is_online", [True, False])
def test_a_snapshot_at_the_start_gives_the_directories(tmp_path: Path, is_online: bool) -> None:
    listed = (A[0], B[0]) if is_online else (B[0],)
    (tmp_path / f"{START:020}-0000000001.checkpoint").write_bytes(snapshot(of_snapshot(listed)))
    again = change(0, isr=[0, 1, 2])
    write(tmp_path, [again, change(0, leader=0)], START)
    report = report_on(tmp_path)
    assert (report.doubts, unexplained(report, START)) == ([], [] if is_online else [(1, "t-0")])


def test_a_snapshot_in_mid_log_is_compared(tmp_path: Path) -> None:
    write(tmp_path, [*beginning(), LEADER_FAILS])
    at = START + 2
    for listed, placed, expected in (
        ((B[0],), A, set()),
        ((A[0],), A, {"broker 0.logDirs"}),
        ((B[0],), B, {"directories"}),
    ):
        content = snapshot(of_snapshot(listed, placed))
        (tmp_path / f"{at:020}-0000000001.checkpoint").write_bytes(content)
        fields = {d for u in report_on(tmp_path).unexplained for c in u.candidates for d in c.differences}
        assert fields & {"broker 0.logDirs", "directories"} == expected
