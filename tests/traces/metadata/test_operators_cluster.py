"""What an operator's cluster does, beside elections: topics come and go, brokers are removed, features change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.kafka.values import encode
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.reports.report import Report
from tests.traces.metadata.made_logs import (
    BROKERS,
    TOPICS,
    beginning,
    change,
    default,
    feature,
    registration,
    registration_change,
    setting,
    write,
)
from tests.traces.metadata.test_kafka_4_2 import MIN_ISR, OFF, ON, SHRUNK, clear

NEW, MIGRATING = "AAAAAAAAAAAAAAAAAAAAEA", "AAAAAAAAAAAAAAAAAAAAAA"
ELR = "eligible.leader.replicas.version"


def replayed(
    folder: Path, *values: bytes | Sequence[bytes], start: Sequence[bytes] | None = None
) -> tuple[list[tuple[int, str | None]], list[str], str]:
    """What is not explained (offsets from the beginning's end on), the kinds of doubts, and the profile."""
    begun = beginning(*ON) if start is None else start
    report = Report("", "", "")
    log = open_metadata_log(write(folder / str(len(list(folder.iterdir()))), [*begun, *values]))
    replay_metadata(log, report)
    wrong = [(int(u.position["offset"]) - len(begun), u.partition) for u in report.unexplained]
    return wrong, [doubt.kind for doubt in report.doubts], report.profile


def wrong(folder: Path, *values: bytes | Sequence[bytes], **start: Any) -> list[tuple[int, str | None]]:
    found, doubts, _ = replayed(folder, *values, **start)
    assert doubts == []
    return found


# --- topics --------------------------------------------------------------------------------------------------


def topic(name: str, identity: str) -> bytes:
    return encode("TOPIC_RECORD", 0, {"name": name, "topicId": identity})


def removed(identity: str) -> bytes:
    return encode("REMOVE_TOPIC_RECORD", 0, {"topicId": identity})


def partition(identity: str, **changed: Any) -> bytes:
    data = {
        "partitionId": 0, "topicId": identity, "replicas": BROKERS, "isr": BROKERS, "removingReplicas": [],
        "addingReplicas": [], "leader": 0, "leaderEpoch": 0, "partitionEpoch": 0, "directories": [MIGRATING] * 3,
        **changed,
    }  # fmt: skip
    return encode("PARTITION_RECORD", 2, data, lenient=True)


def changed(identity: str, **fields: Any) -> bytes:
    return encode(
        "PARTITION_CHANGE_RECORD", 2, {"partitionId": 0, "topicId": identity, **fields}, lenient=True
    )


@pytest.mark.parametrize("together", [False, True])
def test_a_topic_is_deleted_and_another_has_its_name(tmp_path: Path, together: bool) -> None:
    """The new one has no ELR and no setting of the old one; its min ISR comes with a record that clears nothing."""
    again = [topic("t", NEW), setting(MIN_ISR, "3"), clear(), partition(NEW)]
    batches = [[removed(TOPICS["t"]), *again]] if together else [[removed(TOPICS["t"])], again]
    below = changed(NEW, isr=[0, 1], eligibleLeaderReplicas=[2])
    assert wrong(tmp_path, *SHRUNK, *batches, below) == []
    assert wrong(tmp_path, *SHRUNK, *batches, changed(NEW, isr=[0, 1])) == [(7, "t-0")]
    assert wrong(tmp_path, *SHRUNK, *batches, change(0, isr=[0, 1])) == [(7, None)]
    assert wrong(tmp_path, *SHRUNK, *batches, setting(MIN_ISR, "1"), below) != []
    assert wrong(tmp_path, *SHRUNK, again) != []


def test_a_topic_is_deleted_behind_a_decision_about_it(tmp_path: Path) -> None:
    fenced = [change(0, isr=[0, 1]), change(0, "u", isr=[0, 1]), registration_change(2, 6, fenced=1)]
    gone, later = removed(TOPICS["t"]), change(0, "u", isr=[0], eligibleLeaderReplicas=[1])
    assert wrong(tmp_path, [*fenced, gone], later) == []
    assert wrong(tmp_path, [gone, *fenced[1:]], later) == []
    assert wrong(tmp_path, [gone, *fenced], later) != []


# --- brokers -------------------------------------------------------------------------------------------------

GONE = [
    change(0, isr=[0, 1]),
    change(0, "u", isr=[0, 1]),
    encode("UNREGISTER_BROKER_RECORD", 0, {"brokerId": 2, "brokerEpoch": 6}),
]


def test_a_removed_broker_comes_back(tmp_path: Path) -> None:
    """Under a new epoch, as any that registers for the first time; until then it is in no ISR, and in no new one."""
    epoch = len(beginning(*ON)) + 3
    back = (registration(2, epoch, incarnationId=NEW), registration_change(2, epoch, fenced=-1))
    assert wrong(tmp_path, GONE, *back, change(0, isr=BROKERS)) == []
    assert wrong(tmp_path, GONE, change(0, isr=BROKERS)) == [(3, "t-0")]
    assert wrong(tmp_path, GONE, registration_change(2, 6, fenced=-1)) == [(3, None)]
    assert wrong(tmp_path, GONE, registration_change(2, 6, fenced=1)) == [(3, None)]
    few = partition(NEW, replicas=[0, 1], isr=[0, 1], directories=[MIGRATING] * 2)
    assert wrong(tmp_path, GONE, [topic("v", NEW), few]) == []
    assert wrong(tmp_path, GONE, [topic("v", NEW), partition(NEW)]) == [(4, "v-0")]


# --- features ------------------------------------------------------------------------------------------------


def of_node(value: str | None, name: str = MIN_ISR, node: str = "1") -> bytes:
    return encode("CONFIG_RECORD", 0, {"resourceType": 4, "resourceName": node, "name": name, "value": value})


def test_elr_is_turned_on_in_mid_log(tmp_path: Path) -> None:
    """With what makes it safe in the same batch: the cluster's min ISR is written, a broker's is removed."""
    up = [default("3"), of_node(None), feature(ELR, 1)]
    no_own = [setting(MIN_ISR, None), setting(MIN_ISR, None, "u")]
    shrinks = change(0, isr=[0, 1], eligibleLeaderReplicas=[2])
    start = beginning(*OFF)
    assert replayed(tmp_path, *no_own, up, shrinks, start=start) == ([], [], "kafka_4_2")
    assert wrong(tmp_path, *no_own, up, change(0, isr=[0, 1]), start=start) == [(5, "t-0")]
    assert wrong(tmp_path, *no_own, shrinks, up, start=start) == [(2, "t-0")]


def test_elr_goes_down_and_up_again(tmp_path: Path) -> None:
    """What is left of it goes with the next change, under whichever level that is."""
    down, up = feature(ELR, 0), feature(ELR, 1)
    emptied = change(0, isr=[0, 2], eligibleLeaderReplicas=[])
    alone = change(0, isr=[0], eligibleLeaderReplicas=[2])
    assert replayed(tmp_path, *SHRUNK, down, emptied, up, alone) == ([], [], "kafka_4_2")
    assert replayed(tmp_path, *SHRUNK, down, emptied)[2] == "kafka_4_2_elr_off"
    assert wrong(tmp_path, *SHRUNK, down, change(0, isr=[0, 2], eligibleLeaderReplicas=[1])) == [(3, "t-0")]
    assert wrong(tmp_path, *SHRUNK, down, emptied, alone) == [(4, "t-0")]


@pytest.mark.parametrize(("node", "allowed"), [(None, False), ("true", True), ("false", False)])
def test_what_is_set_for_a_node_can_be_in_force(tmp_path: Path, node: str | None, allowed: bool) -> None:
    """The active controller's own setting goes over the cluster's, and any node can be the controller."""
    name = "unclean.leader.election.enable"
    cluster = of_node("false", name, "")
    of_own = [] if node is None else [of_node(node, name, "3000")]
    fenced = [
        [change(0, isr=[0, 1]), change(0, "u", isr=[0, 1])],
        [change(0, isr=[0], eligibleLeaderReplicas=[1]), change(0, "u", isr=[0], eligibleLeaderReplicas=[1])],
        [
            change(0, isr=[2], leader=2, leaderRecoveryState=1, eligibleLeaderReplicas=[]),
            change(0, "u", isr=[2], leader=2, leaderRecoveryState=1, eligibleLeaderReplicas=[]),
            registration_change(0, 2, fenced=1),
        ],
    ]
    down_1 = [*fenced[1], registration_change(1, 4, fenced=1)]
    found = wrong(tmp_path, cluster, *of_own, fenced[0], down_1, fenced[2])
    assert (found == []) == allowed


# --- the code that decides -----------------------------------------------------------------------------------


def controller(number: int, metadata: int, elr: int) -> bytes:
    levels = (("metadata.version", metadata), (ELR, elr))
    data = {
        "controllerId": number, "incarnationId": NEW, "zkMigrationReady": False, "endPoints": [],
        "features": [{"name": n, "minSupportedVersion": 0, "maxSupportedVersion": at} for n, at in levels],
    }  # fmt: skip
    return encode("REGISTER_CONTROLLER_RECORD", 0, data)


NEW_CODE = (controller(100, 29, 1), controller(101, 29, 1))
FENCED_TWICE = (
    [change(0, isr=[0, 1]), change(0, "u", isr=[0, 1]), registration_change(2, 6, fenced=1)],
    registration_change(2, 6, fenced=1),
)


@pytest.mark.parametrize(
    ("features", "profile"),
    [
        (((ELR, 0), ("metadata.version", 22)), "kafka_4_2_elr_off"),
        ((("metadata.version", 25), (ELR, 0)), "kafka_4_2_elr_off"),
        ((("metadata.version", 25), (ELR, 1)), "kafka_4_2"),
        ((("metadata.version", 28), (ELR, 1)), "kafka_4_2"),
    ],
)
def test_the_code_of_4_2_under_older_features(tmp_path: Path, features: Any, profile: str) -> None:
    """Before an upgrade is finalized, or after a downgrade: all controllers say that they are of 4.2.1."""
    lowered = [feature(name, level) for name, level in features]
    start = beginning(*ON)
    assert replayed(tmp_path, *NEW_CODE, lowered, *FENCED_TWICE, start=start) == ([], [], profile)
    older = (NEW_CODE[0], controller(101, 25, 0))
    found, doubts, other = replayed(tmp_path, *older, lowered, *FENCED_TWICE, start=start)
    assert doubts == ["newer version"]
    assert found or other == profile


def test_an_upgrade_of_the_code_and_then_of_the_features(tmp_path: Path) -> None:
    start = beginning(("metadata.version", 22), ("kraft.version", 0))
    upgrade = [feature("metadata.version", 29), default("2"), feature(ELR, 1)]
    last = change(0, isr=[0], eligibleLeaderReplicas=[1])
    values = (controller(100, 29, 1), *FENCED_TWICE, upgrade, last)
    assert replayed(tmp_path, *values, start=start) == ([], [], "kafka_4_2")
    later = (*FENCED_TWICE, controller(100, 29, 1))
    assert replayed(tmp_path, *later, start=start)[0] != []


def test_newer_code_is_not_known(tmp_path: Path) -> None:
    start = [*beginning(("metadata.version", 25), (ELR, 1)), controller(100, 30, 1)]
    assert replayed(tmp_path, start=start)[1] == ["newer version"]
    start = [*beginning(("metadata.version", 11)), *NEW_CODE]
    assert replayed(tmp_path, start=start)[1] == ["newer version"]
