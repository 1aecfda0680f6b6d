"""Records that only Kafka 4.2 writes: they are explained, and reported with one field wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.values import decode, encode
from highwater.traces.metadata.reporting import Watch
from tests.generation.records import UNCLEAN, removed_topic, topic, unregistration
from tests.traces.kafka.made import snapshot
from tests.traces.metadata.made_logs import (
    BROKERS,
    FENCED,
    MIN_ISR,
    OFF,
    ON,
    SHRUNK,
    TOPICS,
    beginning,
    change,
    clear,
    default,
    feature,
    image,
    partition,
    registration,
    registration_change,
    replayed,
    report_on,
    setting,
    write,
    wrong,
)

START, START_OFF = len(beginning(*ON)), len(beginning(*OFF))
DIRECTORY, NEW = "AAAAAAAAAAAAAAAAAAAACw", "AAAAAAAAAAAAAAAAAAAAEA"


_IN_ELR: dict[str, Any] = {"isr": [0], "eligibleLeaderReplicas": [1]}
_GONE: dict[str, Any] = {"isr": [], "leader": -1, "eligibleLeaderReplicas": [0, 1], "lastKnownElr": [0]}
LEADERLESS = (
    FENCED,
    [change(0, **_IN_ELR), change(0, "u", **_IN_ELR), registration_change(1, 4, fenced=1)],
    [change(0, **_GONE), change(0, "u", **_GONE), registration_change(0, 2, fenced=1)],
)
"""All brokers are fenced, and both partitions have no leader, the ELR [0, 1] and the last known leader 0."""


# --- a change of min.insync.replicas -----------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1", "2", "3", None])
def test_a_change_of_min_isr_clears_the_elr(tmp_path: Path, value: str | None) -> None:
    """The next change of the partition starts from an empty ELR, also if a watch gets the settings."""
    for watch in (Watch(), Watch(on_setting=[lambda *_: None])):
        values = (*SHRUNK, [setting(MIN_ISR, value), clear()], change(0, isr=[0, 1]))
        report = replayed(tmp_path, *values, watch=watch)
        assert (report.doubts, report.unexplained, report.findings) == ([], [], [])
    assert wrong(tmp_path, *SHRUNK, [setting(MIN_ISR, value)]) == [(2, None)]


def test_a_change_of_min_isr_writes_clear_elr_also_without_an_elr(tmp_path: Path) -> None:
    """Without the record, another version of the controller has written the log (K7)."""
    assert wrong(tmp_path, [setting(MIN_ISR, "1"), clear()]) == []
    assert wrong(tmp_path, [setting(MIN_ISR, "1")]) == [(0, None)]
    assert wrong(tmp_path, [default("1")], clear("")) == [(0, None), (1, None)]
    twice = [setting(MIN_ISR, "1"), setting(MIN_ISR, "2", "u"), clear()]
    assert wrong(tmp_path, twice) == [(1, None)]
    assert wrong(tmp_path, setting(MIN_ISR, "1"), start=beginning(*OFF)) == []


def test_a_change_of_min_isr_clears_the_last_known_leader(tmp_path: Path) -> None:
    """Without ELR and last known leader no broker can be elected cleanly."""
    report = replayed(tmp_path, *LEADERLESS, [setting(MIN_ISR, "1"), clear()])
    assert report.unexplained == []
    assert [(f.position["offset"] - START, f.property) for f in report.findings] == [
        (10, "somebody_is_electable")
    ]
    elected: dict[str, Any] = {"isr": [0], "leader": 0, "eligibleLeaderReplicas": [1], "lastKnownElr": []}
    unfenced, of_u = registration_change(0, 2, fenced=-1), change(0, "u", **elected)
    assert wrong(tmp_path, *LEADERLESS, [unfenced, change(0, **elected), of_u]) == []
    cleared = (*LEADERLESS, [setting(MIN_ISR, "1"), clear()])
    assert wrong(tmp_path, *cleared, [unfenced, of_u]) == []
    assert wrong(tmp_path, *cleared, [unfenced, change(0, **elected), of_u])[0] == (12, "t-0")


def test_only_a_min_isr_of_the_same_topic_clears_elrs(tmp_path: Path) -> None:
    emptied = change(0, isr=[0, 1], eligibleLeaderReplicas=[])
    assert wrong(tmp_path, *SHRUNK, setting(UNCLEAN, "true"), emptied) == []
    assert wrong(tmp_path, *SHRUNK, clear()) == [(2, None)]
    assert wrong(tmp_path, *SHRUNK, [setting(MIN_ISR, "1"), clear("u")])[0] == (2, None)
    assert wrong(tmp_path, *SHRUNK, [setting(UNCLEAN, "true"), clear()]) == [(3, None)]
    assert wrong(tmp_path, clear()) == [(0, None)]
    assert wrong(tmp_path, [setting(MIN_ISR, "1"), clear(), clear()]) == [(2, None)]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_request_writes_all_settings_before_the_cleared_elrs(tmp_path: Path, swapped: bool) -> None:
    """A second request follows in the same batch."""
    settings = [setting(MIN_ISR, "3"), setting(UNCLEAN, "true"), setting(MIN_ISR, "3", "u")]
    batch = [*(settings[::-1] if swapped else settings), clear(), clear("u"), setting(MIN_ISR, "2"), clear()]
    assert wrong(tmp_path, *SHRUNK, batch, change(0, isr=[0, 1])) == []


def test_a_min_isr_of_all_topics_clears_every_elr(tmp_path: Path) -> None:
    """The rule also applies if the topic has its own setting, and if the value does not change."""
    more = (change(0, "u", isr=[0, 1]), change(0, "u", isr=[0], eligibleLeaderReplicas=[1]))
    again = change(0, "u", isr=[0, 1])
    whole = [default("1"), clear("")]
    assert wrong(tmp_path, *SHRUNK, *more, whole, again, whole) == []
    missing = wrong(tmp_path, *SHRUNK, *more, [default("1"), clear("t")], again)
    assert missing[:2] == [(4, None), (5, None)]


# --- brokers -------------------------------------------------------------------------------------------------


def test_a_fenced_broker_can_be_fenced_again_since_4_2(tmp_path: Path) -> None:
    assert wrong(tmp_path, FENCED, FENCED[-1]) == []
    older = replayed(tmp_path, FENCED, FENCED[-1], start=beginning(("metadata.version", 22)))
    places = [u.position["offset"] for u in older.unexplained]
    assert len(places) == len({*places}) == 2, (
        "a record is one line, whatever number of partitions it concerns"
    )


def test_nothing_else_is_written_within_a_decision_about_a_broker(tmp_path: Path) -> None:
    on_12: dict[str, Any] = {"replicas": [1, 2], "isr": [1, 2], "leader": 1}
    start = [*beginning(*ON), partition(1, **on_12)]
    of_t, of_u = (change(0, topic, isr=[1, 2], leader=1) for topic in "tu")
    fenced = registration_change(0, 2, fenced=1)
    no_op = encode("NO_OP_RECORD", 0, {})
    for other in (change(1, isr=[1], eligibleLeaderReplicas=[2]), partition(2, **on_12), no_op):
        assert wrong(tmp_path, [other, of_t, of_u, fenced], start=start) == []
        assert wrong(tmp_path, [of_t, of_u, fenced, other], start=start) == []
        assert wrong(tmp_path, [of_t, other, of_u, fenced], start=start) == [(0, "t-0")]
    # The changes by a controlled shutdown follow the record of the broker.
    leaves, other = (
        registration_change(0, 2, inControlledShutdown=1),
        change(1, isr=[1], eligibleLeaderReplicas=[2]),
    )
    assert wrong(tmp_path, [leaves, of_t, of_u, other], start=start) == []
    assert wrong(tmp_path, [leaves, of_t, other, of_u], start=start) == [(3, "u-0")]


def test_a_removed_broker_leaves_the_isr_without_a_fencing(tmp_path: Path) -> None:
    """A removed broker stays in the ELR."""
    removed = unregistration(1, 4)
    leaves = [change(0, "u", isr=[0, 2])]
    shrunk = (change(0, isr=[0, 1]),)
    assert wrong(tmp_path, *shrunk, [change(0, isr=[0], eligibleLeaderReplicas=[1]), *leaves, removed]) == []
    assert wrong(tmp_path, *shrunk, [*leaves, removed]) == [(2, "t-0")]


def test_an_assignment_to_a_directory_empties_the_elr(tmp_path: Path) -> None:
    directories = [DIRECTORY] * 3
    assigned = change(0, directories=directories, eligibleLeaderReplicas=[])
    assert wrong(tmp_path, *SHRUNK, assigned) == []
    assert wrong(tmp_path, *SHRUNK, change(0, eligibleLeaderReplicas=[])) == [(2, "t-0")]
    assert wrong(tmp_path, *SHRUNK, change(0, directories=directories)) == [(2, "t-0")]
    assert wrong(tmp_path, change(0, directories=directories)) == []


# --- partitions ----------------------------------------------------------------------------------------------


def test_a_partition_is_created_on_registered_brokers_with_an_active_one(tmp_path: Path) -> None:
    """B8. An unregistered broker is refused also if it would not be in the ISR."""
    assert wrong(tmp_path, partition(1)) == []
    assert wrong(tmp_path, partition(1, replicas=[0, 1, 2, 3])) == [(0, "t-1")]
    alone: dict[str, Any] = {"replicas": [2], "isr": [], "leader": -1}
    assert wrong(tmp_path, FENCED, partition(1, replicas=[2, 0], isr=[0])) == []
    assert wrong(tmp_path, FENCED, partition(1, **alone)) == [(3, "t-1")]


def test_a_change_of_a_registration_has_flags_or_fewer_directories(tmp_path: Path) -> None:
    data = {"brokerId": 1, "brokerEpoch": 4}
    assert wrong(tmp_path, encode("BROKER_REGISTRATION_CHANGE_RECORD", 2, data)) == [(0, None)]
    some = encode("BROKER_REGISTRATION_CHANGE_RECORD", 2, data | {"logDirs": [DIRECTORY]})
    both = registration(1, 4, logDirs=[DIRECTORY, DIRECTORY.replace("C", "D")])
    listing = [both if value == registration(1, 4) else value for value in beginning(*ON)]
    assert both in listing
    assert wrong(tmp_path, some, start=listing) == []
    assert wrong(tmp_path, some) == [(0, None)]


def test_losing_the_leader_again_is_no_second_unclean_election(tmp_path: Path) -> None:
    """One replica is killed, comes back as last known leader, and is killed again."""
    begun = [*beginning(*ON)[:-1], partition(0, "u", replicas=[0], isr=[0])]
    epoch = len(begun) + 3
    leaderless = change(0, "u", isr=[], leader=-1, eligibleLeaderReplicas=[0], lastKnownElr=[0])
    elected = change(0, "u", isr=[0], leader=0, leaderRecoveryState=1, lastKnownElr=[])
    report = replayed(
        tmp_path,
        [change(0, isr=[1, 2], leader=1), leaderless, registration_change(0, 2, fenced=1)],
        [
            change(0, "u", eligibleLeaderReplicas=[]),
            registration(0, epoch, incarnationId="AAAAAAAAAAAAAAAAAAAAXw"),
        ],
        [registration_change(0, epoch, fenced=-1), elected],
        [leaderless, registration_change(0, epoch, fenced=1)],
        start=begun,
    )
    assert report.unexplained == []
    said = [(f.position["offset"] - epoch, f.property, f.facts["after"]["leader"]) for f in report.findings]
    assert said == [(0, "somebody_is_electable", None), (3, "leader_elected_cleanly", 0)]


def test_an_elr_member_that_is_no_replica_is_not_electable(tmp_path: Path) -> None:
    """After a reassignment to broker 0, which comes back uncleanly, the ELR has only other brokers."""
    few = change(0, isr=[0], replicas=[0], leader=0, eligibleLeaderReplicas=[1, 2])
    leaderless = change(0, isr=[], leader=-1, eligibleLeaderReplicas=[0, 1, 2], lastKnownElr=[0])
    fenced = [leaderless, change(0, "u", isr=[1, 2], leader=1), registration_change(0, 2, fenced=1)]
    again = registration(0, START + 4, incarnationId="AAAAAAAAAAAAAAAAAAAAXw")
    report = replayed(tmp_path, few, fenced, [change(0, eligibleLeaderReplicas=[1, 2]), again])
    assert report.unexplained == []
    found = [f.position["offset"] - START for f in report.findings if f.property == "somebody_is_electable"]
    assert found == [4]


def test_min_isr_goes_by_the_replicas_of_the_first_partition(tmp_path: Path) -> None:
    """The partition keeps its slots, as its ELR has the brokers that become replicas again."""
    few = change(0, isr=[0], replicas=[0], leader=0, eligibleLeaderReplicas=[1, 2])
    many = change(0, replicas=[0, 1, 2], addingReplicas=[1, 2], eligibleLeaderReplicas=[])
    shrunk = change(1, isr=[0, 1])
    start = [*beginning(*ON), partition(1)]
    below = change(1, isr=[0], eligibleLeaderReplicas=[1])
    assert wrong(tmp_path, few, many, shrunk, below, start=start) == []
    assert wrong(tmp_path, few, shrunk, change(1, isr=[0]), start=start) == []
    assert wrong(tmp_path, few, shrunk, below, start=start) == [(2, "t-1")]
    assert wrong(tmp_path, shrunk, change(1, isr=[0]), start=start) == [(1, "t-1")]


# --- topics --------------------------------------------------------------------------------------------------


def created(identity: str, **changed: Any) -> bytes:
    return partition(0, **{"topicId": identity, **changed})


@pytest.mark.parametrize("together", [False, True])
def test_a_new_topic_has_nothing_of_a_deleted_one_with_its_name(tmp_path: Path, together: bool) -> None:
    """The new topic has neither the ELR nor the settings; the record with its min ISR clears no ELR."""
    again = [topic("t", NEW), setting(MIN_ISR, "3"), clear(), created(NEW)]
    batches = [[removed_topic(TOPICS["t"]), *again]] if together else [[removed_topic(TOPICS["t"])], again]
    below = change(0, topicId=NEW, isr=[0, 1], eligibleLeaderReplicas=[2])
    assert wrong(tmp_path, *SHRUNK, *batches, below) == []
    assert wrong(tmp_path, *SHRUNK, *batches, change(0, topicId=NEW, isr=[0, 1])) == [(7, "t-0")]
    assert wrong(tmp_path, *SHRUNK, *batches, change(0, isr=[0, 1])) == [(7, None)]
    assert wrong(tmp_path, *SHRUNK, *batches, setting(MIN_ISR, "1"), below) != []
    assert wrong(tmp_path, *SHRUNK, again) != []


def test_a_deleted_topic_is_in_no_later_decision(tmp_path: Path) -> None:
    gone, later = removed_topic(TOPICS["t"]), change(0, "u", isr=[0], eligibleLeaderReplicas=[1])
    assert wrong(tmp_path, [*FENCED, gone], later) == []
    assert wrong(tmp_path, [gone, *FENCED[1:]], later) == []
    assert wrong(tmp_path, [gone, *FENCED], later) != []


# --- removed brokers -----------------------------------------------------------------------------------------

GONE = [
    change(0, isr=[0, 1]),
    change(0, "u", isr=[0, 1]),
    unregistration(2, 6),
]


def test_a_removed_broker_returns_only_by_a_new_registration(tmp_path: Path) -> None:
    """Before that, the broker can be in no ISR, and no partition can be created on it."""
    epoch = len(beginning(*ON)) + 3
    back = (registration(2, epoch, incarnationId=NEW), registration_change(2, epoch, fenced=-1))
    assert wrong(tmp_path, GONE, *back, change(0, isr=BROKERS)) == []
    assert wrong(tmp_path, GONE, change(0, isr=BROKERS)) == [(3, "t-0")]
    assert wrong(tmp_path, GONE, registration_change(2, 6, fenced=-1)) == [(3, None)]
    assert wrong(tmp_path, GONE, registration_change(2, 6, fenced=1)) == [(3, None)]
    few = created(NEW, replicas=[0, 1], isr=[0, 1])
    assert wrong(tmp_path, GONE, [topic("v", NEW), few]) == []
    assert wrong(tmp_path, GONE, [topic("v", NEW), created(NEW)]) == [(4, "v-0")]


# --- snapshots -----------------------------------------------------------------------------------------------


def test_a_snapshot_has_an_elr_if_elr_is_on(tmp_path: Path) -> None:
    """With ELR off the controller keeps left-over ELRs (K9), but its snapshot may lack them."""

    def compared(levels: list[tuple[str, int]], *down: bytes, **elr: list[int]) -> list[set[str]]:
        begun = beginning(*ON)
        log = [*begun, *SHRUNK, *down]
        found = decode(partition(0, isr=[0], partitionEpoch=2)).data | {"directories": [DIRECTORY] * 3} | elr
        changed = {partition(0): encode("PARTITION_RECORD", 2, found)}
        left_out = () if ON[1] in levels else (feature(*ON[1]),)
        held = snapshot([changed.get(value, value) for value in image(begun) if value not in left_out])
        folder = write(tmp_path / str(len(list(tmp_path.iterdir()))), log)
        (folder / f"{len(log):020}-{1:010}.checkpoint").write_bytes(held)
        report = report_on(folder)
        assert report.figures["snapshots compared"] == 1
        return [set(candidate.differences) for u in report.unexplained for candidate in u.candidates]

    down, off = feature(*OFF[1]), [ON[0]]
    assert compared(off, down) == []
    for levels, records in ((off, [down]), (list(ON), [])):
        assert compared(levels, *records, eligibleLeaderReplicas=[1]) == []
        assert compared(levels, *records, eligibleLeaderReplicas=[2]) == [{"elr"}]
    assert compared(list(ON)) == [{"elr"}]
