"""Registrations of brokers: the epoch of a new incarnation, and what the model stores of one that registers again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.model.language import where
from highwater.model.replication.controller import registrations
from highwater.traces.kafka.values import encode
from highwater.traces.replay import replay
from highwater.traces.reports.report import Report
from highwater.traces.rules.decisions import decisions
from tests.generation.batches import encode_batch

INCARNATION, ANOTHER = "AAAAAAAAAAAAAAAAAAAAAw", "AAAAAAAAAAAAAAAAAAAABA"


def registration(**changed: Any) -> bytes:
    data = {
        "brokerId": 0, "isMigratingZkBroker": False, "incarnationId": INCARNATION, "brokerEpoch": 0, "endPoints": [],
        "features": [], "rack": None, "fenced": True, "inControlledShutdown": False, "logDirs": [], **changed,
    }  # fmt: skip
    return encode("REGISTER_BROKER_RECORD", 3, data)


def replayed(folder: Path, *values: bytes) -> Report:
    """The report on a log in which each record is a batch."""
    batches = [encode_batch(offset, 1, 1000, [value]) for offset, value in enumerate(values)]
    path = folder / f"{0:020}.log"
    path.write_bytes(b"".join(batches))
    return replay(path)


def unfenced() -> bytes:
    return encode(
        "BROKER_REGISTRATION_CHANGE_RECORD", 0, {"brokerId": 0, "brokerEpoch": 0, "fenced": -1}, lenient=True
    )


def told(report: Report) -> list[tuple[int, str, dict[str, Any]]]:
    """The offset of each entry, the action that comes nearest, and the fields in which it differs."""
    return [
        (entry.position["offset"], near.action, dict(near.differences))
        for entry in report.unexplained
        for near in entry.candidates[:1]
    ]


NO_OP = encode("NO_OP_RECORD", 0, {})


@pytest.mark.parametrize("epoch", [0, 2, -1])
def test_the_epoch_is_where_the_decision_begins(tmp_path: Path, epoch: int) -> None:
    assert told(replayed(tmp_path, NO_OP, registration(brokerEpoch=1))) == []
    found = told(replayed(tmp_path, NO_OP, registration(brokerEpoch=epoch)))
    assert found == [(1, "register", {"brokerEpoch": ("1", epoch)})]


def test_the_epoch_of_another_incarnation_grows(tmp_path: Path) -> None:
    another = registration(brokerEpoch=1, incarnationId=ANOTHER)
    assert told(replayed(tmp_path, registration(), another)) == []
    another = registration(brokerEpoch=0, incarnationId=ANOTHER)
    found = told(replayed(tmp_path, registration(), another))
    assert found == [(1, "register", {"brokerEpoch": ("1, and above 0", 0)})]


def test_a_change_names_the_registered_epoch(tmp_path: Path) -> None:
    changes = {"brokerId": 0, "brokerEpoch": 3, "fenced": -1}
    change = encode("BROKER_REGISTRATION_CHANGE_RECORD", 0, changes, lenient=True)
    assert told(replayed(tmp_path, registration(), unfenced())) == []
    found = told(replayed(tmp_path, registration(), change))
    assert found == [(1, "change a registration", {"brokerEpoch": (0, 3)})]


def test_what_the_broker_had_is_explained(tmp_path: Path) -> None:
    again = registration(fenced=False)
    assert told(replayed(tmp_path, registration(), registration(), unfenced(), again)) == []


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        ({"brokerEpoch": 1}, {"brokerEpoch": (0, 1)}),
        ({"fenced": False}, {"registration.fenced": (True, False)}),
        ({"inControlledShutdown": True}, {"registration.in_controlled_shutdown": (False, True)}),
    ],
)
def test_anything_else_is_not(tmp_path: Path, changed: dict[str, Any], differences: dict[str, Any]) -> None:
    report = replayed(tmp_path, registration(), registration(**changed), registration(**changed))
    # And from what was recorded the replay goes on: it is told once.
    assert told(report) == [(1, "register the same incarnation", differences)]


@pytest.fixture
def other_rule(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model in which a broker that registers again begins anew, fenced and with another epoch."""

    def register(t: Any, registration: Any, same_incarnation: Any, new_epoch: Any) -> Any:
        new = t.registration(registered=True, epoch=new_epoch, fenced=True, in_controlled_shutdown=False)
        return where(same_incarnation, new, registration)

    monkeypatch.setattr(registrations, "registration_after", register)
    decisions.cache_clear()
    yield
    decisions.cache_clear()


@pytest.mark.usefixtures("other_rule")
def test_the_rule_is_the_models(tmp_path: Path) -> None:
    ((offset, _, differences),) = told(replayed(tmp_path, registration(), registration()))
    assert (offset, list(differences)) == (1, ["brokerEpoch"])


TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize("moved", [True, False], ids=["the leader moves", "the leader stays"])
def test_a_broker_that_is_removed_is_fenced_first(tmp_path: Path, moved: bool) -> None:
    """Its partitions change as by a fencing; that they stay as they are is not explained."""
    brokers = []
    for broker in (0, 1):
        names = {"brokerId": broker, "brokerEpoch": 2 * broker}
        brokers += [
            registration(**names, incarnationId=(INCARNATION, ANOTHER)[broker]),
            encode("BROKER_REGISTRATION_CHANGE_RECORD", 0, names | {"fenced": -1}, lenient=True),
        ]
    created = {
        "partitionId": 0, "topicId": TOPIC, "replicas": [0, 1], "isr": [0, 1], "removingReplicas": [],
        "addingReplicas": [], "leader": 0, "leaderEpoch": 0, "partitionEpoch": 0,
    }  # fmt: skip
    topic = [
        encode("TOPIC_RECORD", 0, {"name": "t", "topicId": TOPIC}),
        encode("PARTITION_RECORD", 0, created),
    ]
    change = {"partitionId": 0, "topicId": TOPIC, "isr": [1], "leader": 1}
    removed = encode("UNREGISTER_BROKER_RECORD", 0, {"brokerId": 0, "brokerEpoch": 0})
    last = [encode("PARTITION_CHANGE_RECORD", 0, change, lenient=True)] * moved + [removed]
    data = b"".join(encode_batch(offset, 1, 1000, [value]) for offset, value in enumerate((*brokers, *topic)))
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(data + encode_batch(len(brokers) + len(topic), 1, 1000, last))
    report = replay(path)
    assert [(entry.partition, entry.candidates[0].action) for entry in report.unexplained] == (
        [] if moved else [("t-0", "fence")]
    )
