"""Registrations of brokers: the epoch of a new incarnation, and what the model stores of one that registers again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.model.language import where
from highwater.model.replication.controller import registrations
from highwater.traces.kafka.values import encode
from highwater.traces.rules.decisions import decisions
from tests.generation import records
from tests.traces.metadata.made_logs import (
    TOPICS,
    change,
    partition,
    registration,
    registration_change,
    replayed,
)

ANOTHER = "AAAAAAAAAAAAAAAAAAAABA"
NO_OP = encode("NO_OP_RECORD", 0, {})
REGISTERED, UNFENCED = registration(0, 0), registration_change(0, 0, fenced=-1)


def nonconforming(folder: Path, *values: bytes) -> list[tuple[int, str, dict[str, Any]]]:
    """The offset of each entry, the action that comes nearest, and the fields in which it differs."""
    return [
        (entry.position["offset"], near.action, dict(near.differences))
        for entry in replayed(folder, *values, start=[]).unexplained
        for near in entry.candidates[:1]
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((NO_OP, registration(0, 1)), None),
        *(((NO_OP, registration(0, epoch)), ("register", ("1", epoch))) for epoch in (0, 2, -1)),
        ((REGISTERED, registration(0, 1, incarnationId=ANOTHER)), None),
        ((REGISTERED, registration(0, 0, incarnationId=ANOTHER)), ("register", ("1, and above 0", 0))),
        ((REGISTERED, UNFENCED), None),
        ((REGISTERED, registration_change(0, 3, fenced=-1)), ("change a registration", (0, 3))),
    ],
)
def test_a_broker_epoch_is_the_offset_of_its_registration(
    tmp_path: Path, values: tuple[bytes, bytes], expected: tuple[str, Any] | None
) -> None:
    """Another incarnation gets a larger epoch, and a change of a registration repeats the epoch."""
    found = [] if expected is None else [(1, expected[0], {"brokerEpoch": expected[1]})]
    assert nonconforming(tmp_path, *values) == found


def test_the_same_incarnation_keeps_its_registration(tmp_path: Path) -> None:
    assert nonconforming(tmp_path, REGISTERED, REGISTERED, UNFENCED, registration(0, 0, fenced=False)) == []


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        ({"brokerEpoch": 1}, {"brokerEpoch": (0, 1)}),
        ({"fenced": False}, {"registration.fenced": (True, False)}),
        ({"inControlledShutdown": True}, {"registration.in_controlled_shutdown": (False, True)}),
    ],
)
def test_another_registration_of_the_same_incarnation_is_reported_once(
    tmp_path: Path, changed: dict[str, Any], differences: dict[str, Any]
) -> None:
    again = registration(0, 0, **changed)
    assert nonconforming(tmp_path, REGISTERED, again, again) == [
        (1, "register the same incarnation", differences)
    ]


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
def test_the_model_decides_what_the_same_incarnation_keeps(tmp_path: Path) -> None:
    ((offset, _, differences),) = nonconforming(tmp_path, REGISTERED, REGISTERED)
    assert (offset, list(differences)) == (1, ["brokerEpoch"])


@pytest.mark.parametrize("moved", [True, False], ids=["the leader moves", "the leader stays"])
def test_a_removed_broker_is_fenced_first_before_4_2(tmp_path: Path, moved: bool) -> None:
    brokers = [
        made
        for b in (0, 1)
        for made in (registration(b, 1 + 2 * b), registration_change(b, 1 + 2 * b, fenced=-1))
    ]
    topic, removed = records.topic("t", TOPICS["t"]), records.unregistration(0, 1)
    last = [*[change(0, isr=[1], leader=1)] * moved, removed]
    created = partition(0, replicas=[0, 1], isr=[0, 1])
    report = replayed(tmp_path, *brokers, topic, created, last, start=[records.feature(records.METADATA, 22)])
    found = [(entry.partition, entry.candidates[0].action) for entry in report.unexplained]
    assert found == ([] if moved else [("t-0", "fence")])
