"""What Kafka 4.2 writes and earlier versions do not, each explained, and not explained where it is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.kafka.values import decode, encode
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.reporting import Watch
from highwater.traces.reports.report import Report
from tests.traces.kafka.made import snapshot
from tests.traces.metadata.made_logs import (
    TOPICS,
    beginning,
    change,
    default,
    feature,
    partition,
    registration,
    registration_change,
    setting,
    together,
    write,
)

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
ON = (("metadata.version", 29), ("eligible.leader.replicas.version", 1))
OFF = (("metadata.version", 29), ("eligible.leader.replicas.version", 0))
START, START_OFF = len(beginning(*ON)), len(beginning(*OFF))
DIRECTORY = "AAAAAAAAAAAAAAAAAAAACw"
Records = Sequence[bytes | Sequence[bytes]]


def replayed(folder: Path, *values: bytes | Sequence[bytes], start: Records | None = None) -> Report:
    """The report on a log of 4.2 with these batches; ``folder`` is made for it."""
    report = Report("", "", "")
    begun = beginning(*ON) if start is None else start
    log = open_metadata_log(write(folder / str(len(list(folder.iterdir()))), [*begun, *values]))
    replay_metadata(log, report)
    assert report.doubts == []
    watched = Report("", "", "")
    replay_metadata(log, watched, watch=Watch(on_setting=lambda _: None))
    assert wrong(watched) == wrong(report), "that the brokers' logs are read too changes nothing"
    return report


def wrong(report: Report, since: int = START) -> list[tuple[int, str | None]]:
    """What is not explained: offsets from the beginning's end on, and partitions."""
    return [(u.position["offset"] - since, u.partition) for u in report.unexplained]


def clear(topic: str = "t") -> bytes:
    return encode("CLEAR_ELR_RECORD", 0, {"topicName": topic})


SHRUNK = (change(0, isr=[0, 1]), change(0, isr=[0], eligibleLeaderReplicas=[1]))
"""t-0 with the ISR [0] and the ELR [1]."""
LEADERLESS = (
    [change(0, isr=[0, 1]), change(0, "u", isr=[0, 1]), registration_change(2, 6, fenced=1)],
    [
        change(0, isr=[0], eligibleLeaderReplicas=[1]),
        change(0, "u", isr=[0], eligibleLeaderReplicas=[1]),
        registration_change(1, 4, fenced=1),
    ],
    [
        change(0, isr=[], leader=-1, eligibleLeaderReplicas=[0, 1], lastKnownElr=[0]),
        change(0, "u", isr=[], leader=-1, eligibleLeaderReplicas=[0, 1], lastKnownElr=[0]),
        registration_change(0, 2, fenced=1),
    ],
)
"""All brokers are fenced, and both partitions have no leader, the ELR [0, 1] and the last known leader 0."""


# --- a change of min.insync.replicas -----------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1", "2", "3", None])
def test_a_change_of_min_isr_clears_the_elr(tmp_path: Path, value: str | None) -> None:
    """Whatever the value; the next change of the partition goes on from there."""
    report = replayed(tmp_path, *SHRUNK, [setting(MIN_ISR, value), clear()], change(0, isr=[0, 1]))
    assert wrong(report) == []
    assert report.findings == []
    assert wrong(replayed(tmp_path, *SHRUNK, [setting(MIN_ISR, value)])) == [(2, None), (2, "t-0")]


def test_a_change_of_min_isr_clears_also_where_there_is_nothing_to_clear(tmp_path: Path) -> None:
    """The record is written all the same: without it another controller has written the log (K7)."""
    assert wrong(replayed(tmp_path, [setting(MIN_ISR, "1"), clear()])) == []
    assert wrong(replayed(tmp_path, [setting(MIN_ISR, "1")])) == [(0, None)]
    assert wrong(replayed(tmp_path, [default("1")], clear(""))) == [(0, None), (1, None)]
    twice = [setting(MIN_ISR, "1"), setting(MIN_ISR, "2", "u"), clear()]
    assert wrong(replayed(tmp_path, twice)) == [(1, None)]
    assert wrong(replayed(tmp_path, setting(MIN_ISR, "1"), start=beginning(*OFF))) == []


def test_it_clears_the_last_known_leader_too(tmp_path: Path) -> None:
    """And so, with it, all that could be elected cleanly."""
    report = replayed(tmp_path, *LEADERLESS, [setting(MIN_ISR, "1"), clear()])
    assert wrong(report) == []
    assert [(f.position["offset"] - START, f.property) for f in report.findings] == [
        (10, "somebody_is_electable")
    ]
    elected: dict[str, Any] = {"isr": [0], "leader": 0, "eligibleLeaderReplicas": [1], "lastKnownElr": []}
    unfenced, of_u = registration_change(0, 2, fenced=-1), change(0, "u", **elected)
    assert wrong(replayed(tmp_path, *LEADERLESS, [unfenced, change(0, **elected), of_u])) == []
    cleared = (*LEADERLESS, [setting(MIN_ISR, "1"), clear()])
    assert wrong(replayed(tmp_path, *cleared, [unfenced, of_u])) == []
    assert wrong(replayed(tmp_path, *cleared, [unfenced, change(0, **elected), of_u]))[0] == (12, "t-0")


def test_what_nobody_asked_for_is_not_cleared(tmp_path: Path) -> None:
    assert wrong(replayed(tmp_path, *SHRUNK, clear())) == [(2, None), (2, "t-0")]
    assert wrong(replayed(tmp_path, *SHRUNK, [setting(MIN_ISR, "1"), clear("u")]))[:2] == [
        (2, None),
        (2, "t-0"),
    ]
    assert wrong(replayed(tmp_path, *SHRUNK, [setting(UNCLEAN, "true"), clear()])) == [(3, None), (3, "t-0")]
    assert wrong(replayed(tmp_path, clear())) == [(0, None)]
    assert wrong(replayed(tmp_path, [setting(MIN_ISR, "1"), clear(), clear()])) == [(2, None)]


def test_other_settings_clear_nothing(tmp_path: Path) -> None:
    assert (
        wrong(
            replayed(
                tmp_path, *SHRUNK, setting(UNCLEAN, "true"), change(0, isr=[0, 1], eligibleLeaderReplicas=[])
            )
        )
        == []
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_a_request_with_several_settings(tmp_path: Path, swapped: bool) -> None:
    """All its settings stand before what it clears, and a second request follows in the same batch."""
    settings = [setting(MIN_ISR, "3"), setting(UNCLEAN, "true"), setting(MIN_ISR, "3", "u")]
    batch = [*(settings[::-1] if swapped else settings), clear(), clear("u"), setting(MIN_ISR, "2"), clear()]
    report = replayed(tmp_path, *SHRUNK, batch, change(0, isr=[0, 1]))
    assert wrong(report) == []


def test_the_setting_of_all_topics(tmp_path: Path) -> None:
    """It clears every ELR, also where the topic has a setting of its own, and where the value is the same."""
    more = (change(0, "u", isr=[0, 1]), change(0, "u", isr=[0], eligibleLeaderReplicas=[1]))
    again = change(0, "u", isr=[0, 1])
    report = replayed(tmp_path, *SHRUNK, *more, [default("1"), clear("")], again, [default("1"), clear("")])
    assert wrong(report) == []
    missing = replayed(tmp_path, *SHRUNK, *more, [default("1"), clear("t")], again)
    assert wrong(missing)[:2] == [(4, None), (4, "u-0")]


def test_with_elr_off_a_record_that_clears_is_doubted(tmp_path: Path) -> None:
    """Also where there is nothing to clear: no controller writes it (K7)."""
    report = Report("", "", "")
    log = open_metadata_log(write(tmp_path, [*beginning(*OFF), [setting(MIN_ISR, "1"), clear()]]))
    replay_metadata(log, report)
    assert [(d.kind, d.position["offset"], d.partitions) for d in report.doubts] == [
        ("no rule", START_OFF + 1, ())
    ]


def test_with_elr_off_nothing_is_cleared(tmp_path: Path) -> None:
    values = (change(0, isr=[0, 1]), setting(MIN_ISR, "1"), change(0, isr=[0]))
    assert wrong(replayed(tmp_path, *values, start=beginning(*OFF))) == []


# --- brokers -------------------------------------------------------------------------------------------------


def test_a_fenced_broker_is_fenced_again(tmp_path: Path) -> None:
    fenced = [
        change(0, isr=[0, 1]),
        change(0, "u", isr=[0, 1]),
        registration_change(2, 6, fenced=1),
    ]
    again = registration_change(2, 6, fenced=1)
    assert wrong(replayed(tmp_path, fenced, again)) == []
    older = replayed(tmp_path, fenced, again, start=beginning(("metadata.version", 22)))
    assert {u.partition for u in older.unexplained} == {None, "t-0", "u-0"}


def test_a_partition_is_changed_for_each_entry_of_the_index(tmp_path: Path) -> None:
    """The ELR of t-0 is cleared with 1 in it, which comes into it again, dies, and registers uncleanly."""
    values = (
        *SHRUNK,
        [setting(MIN_ISR, "3"), clear()],
        change(0, isr=[0, 1]),
        [
            change(0, isr=[0], eligibleLeaderReplicas=[1]),
            change(0, "u", isr=[0, 2]),
            registration_change(1, 4, fenced=1),
        ],
    )
    count = sum(1 if isinstance(v, bytes) else len(v) for v in values)
    epoch = START + count
    new = registration(1, epoch, incarnationId="AAAAAAAAAAAAAAAAAAAAEA")
    emptied = change(0, eligibleLeaderReplicas=[])
    assert wrong(replayed(tmp_path, *values, [emptied, emptied, new])) == []
    assert wrong(replayed(tmp_path, *values, [emptied, new])) != []
    assert wrong(replayed(tmp_path, *values, [emptied, emptied, emptied, new])) != []


def test_a_broker_is_removed(tmp_path: Path) -> None:
    """It leaves the ISR as it is, not fenced first, and stays in the ELR."""
    data = {"brokerId": 1, "brokerEpoch": 4}
    removed = encode("UNREGISTER_BROKER_RECORD", 0, data)
    leaves = [change(0, "u", isr=[0, 2])]
    shrunk = (change(0, isr=[0, 1]),)
    assert (
        wrong(replayed(tmp_path, *shrunk, [change(0, isr=[0], eligibleLeaderReplicas=[1]), *leaves, removed]))
        == []
    )
    assert wrong(replayed(tmp_path, *shrunk, [*leaves, removed])) == [(2, "t-0")]


def test_an_assignment_to_a_directory_empties_the_elr(tmp_path: Path) -> None:
    directories = [DIRECTORY] * 3
    assigned = change(0, directories=directories, eligibleLeaderReplicas=[])
    assert wrong(replayed(tmp_path, *SHRUNK, assigned)) == []
    assert wrong(replayed(tmp_path, *SHRUNK, change(0, eligibleLeaderReplicas=[]))) == [(2, "t-0")]
    assert wrong(replayed(tmp_path, *SHRUNK, change(0, directories=directories))) == [(2, "t-0")]
    assert wrong(replayed(tmp_path, change(0, directories=directories))) == []


# --- settings and features -----------------------------------------------------------------------------------


def test_the_first_partition_counts_its_replicas_also_where_its_brokers_stay(tmp_path: Path) -> None:
    """Its ELR has the brokers that come back as replicas; min ISR of t-1 goes by how many they are."""
    few = change(0, isr=[0], replicas=[0], leader=0, eligibleLeaderReplicas=[1, 2])
    many = change(0, replicas=[0, 1, 2], addingReplicas=[1, 2], eligibleLeaderReplicas=[])
    shrunk = change(1, isr=[0, 1])
    start = [*beginning(*ON), partition(1)]
    below = change(1, isr=[0], eligibleLeaderReplicas=[1])
    assert wrong(replayed(tmp_path, few, many, shrunk, below, start=start)) == []
    assert wrong(replayed(tmp_path, few, shrunk, change(1, isr=[0]), start=start)) == []
    assert wrong(replayed(tmp_path, few, shrunk, below, start=start)) == [(3, "t-1")]


def test_rules_change_with_the_features_in_mid_log(tmp_path: Path) -> None:
    """ELR goes down and up again: by the rules of each level what is written is explained, and promised."""

    def level(value: int) -> bytes:
        return feature(ON[1][0], value)

    alone: dict[str, Any] = {"isr": [0]}
    emptied = change(0, isr=[0, 1], eligibleLeaderReplicas=[])
    down = (*SHRUNK, level(0), emptied, change(0, **alone))
    report = replayed(tmp_path, *down)
    assert (wrong(report), report.profile, report.findings) == ([], "kafka_4_2_elr_off", [])
    up = replayed(
        tmp_path, *down, change(0, isr=[0, 1]), level(1), change(0, isr=[0], eligibleLeaderReplicas=[1])
    )
    assert (wrong(up), up.profile) == ([], "kafka_4_2")
    assert (
        wrong(replayed(tmp_path, *SHRUNK, level(0), change(0, isr=[0, 1], eligibleLeaderReplicas=[1]))) != []
    )


def test_an_upgrade_in_mid_log(tmp_path: Path) -> None:
    """What is believed under older rules is carried over, though the model's state has more under the newer ones."""
    upgrade = [default("2"), *(feature(name, at) for name, at in ON)]
    values = (change(0, isr=[0, 1]), upgrade, change(0, isr=[0], eligibleLeaderReplicas=[1]))
    report = replayed(tmp_path, *values, start=beginning(("metadata.version", 22)))
    assert (wrong(report), report.profile) == ([], "kafka_4_2")


# --- what the controller would have refused --------------------------------------------------------------------


def test_with_elr_on_min_isr_is_the_clusters(tmp_path: Path) -> None:
    """K15. No broker has one of its own, and the cluster's is not removed; with ELR off both may be."""
    of_broker, removed = default("1", broker="1"), default(None)
    for refused in (of_broker, removed, default(None, broker="1")):
        assert wrong(replayed(tmp_path, [refused, clear("")])) == [(0, None)]
        assert wrong(replayed(tmp_path, refused, start=beginning(*OFF))) == []
    assert wrong(replayed(tmp_path, [of_broker, default("2"), clear(""), clear("")])) == [(0, None)]


def test_what_turns_elr_on_makes_it_safe(tmp_path: Path) -> None:
    """K15. The cluster gets a min ISR, and brokers lose theirs, in the same decision, before or behind the level."""
    on, value, off = feature(*ON[1]), default("2"), beginning(*OFF)
    own, removed = default("1", broker="1"), default(None, broker="1")
    for safe in ([value, on], [on, value], together(on, value)):
        assert wrong(replayed(tmp_path, *([safe] if len(safe) == 2 else safe), start=off)) == []
    assert wrong(replayed(tmp_path, on, start=off), START_OFF) == [(0, None)]
    assert wrong(replayed(tmp_path, value, on, start=off)) == []
    assert wrong(replayed(tmp_path, own, [value, on], start=off), START_OFF) == [(2, None)]
    assert wrong(replayed(tmp_path, own, [value, removed, on], start=off)) == []


LEVELS = {"metadata.version": (7, 29), "eligible.leader.replicas.version": (0, 1)}


def knows(**changed: tuple[int, int]) -> list[dict[str, Any]]:
    """Features that a broker supports; "elr" and "metadata" for short."""
    levels = LEVELS | {
        name: changed[short]
        for name, short in zip(LEVELS, ("metadata", "elr"), strict=True)
        if short in changed
    }
    return [
        {"name": n, "minSupportedVersion": low, "maxSupportedVersion": high}
        for n, (low, high) in levels.items()
    ]


def test_a_broker_supports_the_finalized_features(tmp_path: Path) -> None:
    """584.1. Of a feature that it does not list it supports level 0 alone."""
    identity = "AAAAAAAAAAAAAAAAAAAAEA"

    def registered(features: list[dict[str, Any]]) -> list[tuple[int, str | None]]:
        return wrong(replayed(tmp_path, registration(3, START, incarnationId=identity, features=features)))

    assert registered(knows()) == []
    for features in (
        knows(elr=(0, 0)),
        knows(metadata=(7, 28)),
        knows(metadata=(30, 31)),
        knows()[:1],
        knows()[1:],
    ):
        assert registered(features) == [(0, None)]
    older = registration(3, START_OFF, incarnationId=identity, features=knows(elr=(0, 0)))
    off = beginning(*OFF)
    assert wrong(replayed(tmp_path, older, start=off)) == []
    turned_on = replayed(tmp_path, older, [default("2"), feature(*ON[1])], start=off)
    assert wrong(turned_on, START_OFF) == [(2, None)]


def test_a_partition_is_created_on_brokers_that_are_registered(tmp_path: Path) -> None:
    """B8. Also where the one that is not would be none of the ISR; and one of them has to be active."""
    assert wrong(replayed(tmp_path, partition(1))) == []
    assert wrong(replayed(tmp_path, partition(1, replicas=[0, 1, 2, 3]))) == [(0, "t-1")]
    fenced = [change(0, isr=[0, 1]), change(0, "u", isr=[0, 1]), registration_change(2, 6, fenced=1)]
    alone: dict[str, Any] = {"replicas": [2], "isr": [], "leader": -1}
    assert wrong(replayed(tmp_path, fenced, partition(1, replicas=[2, 0], isr=[0]))) == []
    assert wrong(replayed(tmp_path, fenced, partition(1, **alone))) == [(3, "t-1")]


def test_a_change_of_a_registration_says_something(tmp_path: Path) -> None:
    """Flags, or the directories that are left to the broker."""
    data = {"brokerId": 1, "brokerEpoch": 4}
    assert wrong(replayed(tmp_path, encode("BROKER_REGISTRATION_CHANGE_RECORD", 2, data))) == [(0, None)]
    some = encode("BROKER_REGISTRATION_CHANGE_RECORD", 2, data | {"logDirs": [DIRECTORY]})
    both = registration(1, 4, logDirs=[DIRECTORY, DIRECTORY.replace("C", "D")])
    listing = [both if value == registration(1, 4) else value for value in beginning(*ON)]
    assert both in listing
    assert wrong(replayed(tmp_path, some, start=listing)) == []
    assert wrong(replayed(tmp_path, some)) == [(0, None)]


def test_a_snapshot_that_is_written_with_elr_off_has_no_elr(tmp_path: Path) -> None:
    """The controller keeps what was left over (K9), its snapshot does not; and an ELR that it has must be that one."""
    values = [*SHRUNK, feature(ON[1][0], 0)]
    now: dict[str, Any] = {"isr": [0], "partitionEpoch": 2}

    def compared(level: int, **elr: list[int]) -> list[set[str]]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        log = [*beginning(*ON), *(values if level == 0 else SHRUNK)]
        write(folder, log)
        levels = [feature(name, at) for name, at in (ON[0], (ON[1][0], level)) if at]
        brokers = [registration(b, 2 + 2 * b, fenced=False) for b in range(3)]
        topics = [encode("TOPIC_RECORD", 0, {"name": n, "topicId": i}) for n, i in TOPICS.items()]
        parts = [with_elr(partition(0, **now), elr), partition(0, "u")]
        held = snapshot([*levels, default("2"), *brokers, *topics, *parts])
        (folder / f"{len(log):020}-{1:010}.checkpoint").write_bytes(held)
        report = Report("", "", "")
        replay_metadata(open_metadata_log(folder), report)
        assert report.figures["snapshots compared"] == 1
        return [set(candidate.differences) for u in report.unexplained for candidate in u.candidates]

    assert compared(0) == []
    assert compared(0, eligibleLeaderReplicas=[1]) == []
    assert compared(0, eligibleLeaderReplicas=[2]) == [{"elr"}]
    assert compared(1) == [{"elr"}]
    assert compared(1, eligibleLeaderReplicas=[1]) == []


def test_a_snapshot_is_compared_where_elr_is_on_and_no_feature_says_so(tmp_path: Path) -> None:
    """Older logs may be of clusters with ELR or without: both sets of rules are carried until a record tells."""

    def compared(**elr: list[int]) -> list[set[str]]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        log = [*beginning(), *SHRUNK]
        write(folder, log)
        brokers = [registration(b, 1 + 2 * b, fenced=False) for b in range(3)]
        topics = [encode("TOPIC_RECORD", 0, {"name": n, "topicId": i}) for n, i in TOPICS.items()]
        settings = [setting(MIN_ISR, "2", n) for n in TOPICS]
        parts = [with_elr(partition(0, isr=[0], partitionEpoch=2), elr), partition(0, "u")]
        held = snapshot([feature("metadata.version", 25), *brokers, *topics, *settings, *parts])
        (folder / f"{len(log):020}-{1:010}.checkpoint").write_bytes(held)
        report = Report("", "", "")
        replay_metadata(open_metadata_log(folder), report)
        assert report.figures["snapshots compared"] == 1
        return [set(candidate.differences) for u in report.unexplained for candidate in u.candidates]

    assert compared(eligibleLeaderReplicas=[1]) == []
    assert compared() == [{"elr"}]
    assert compared(eligibleLeaderReplicas=[2]) == [{"elr"}]


def with_elr(record: bytes, elr: dict[str, list[int]]) -> bytes:
    """A record that creates a partition, with its ELR."""
    return encode("PARTITION_RECORD", 2, decode(record).data | {"directories": [DIRECTORY] * 3} | elr)


def test_a_partition_that_loses_its_leader_has_elected_nobody(tmp_path: Path) -> None:
    """One replica is killed, comes back as last known leader and is killed again: one unclean election."""
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
    assert wrong(report) == []
    said = [(f.position["offset"] - epoch, f.property, f.facts["after"]["leader"]) for f in report.findings]
    assert said == [(0, "somebody_is_electable", None), (3, "leader_elected_cleanly", 0)]
