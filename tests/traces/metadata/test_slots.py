"""A partition in slots and with its brokers' numbers is the same partition, before a record and after it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from highwater.traces.metadata.beliefs.belief_states import (
    FIELDS,
    CannotFollow,
    candidate,
    in_slots,
    merged,
    named,
    with_brokers,
)
from highwater.traces.metadata.beliefs.evidence import MAX_BROKERS, Hypothesis, NearMiss, Observed
from highwater.traces.reports.observed import PartitionState

SETS = ("isr", "elr", "last_known_elr", "adding", "removing")
RECORDED = {
    "isr": "isr",
    "eligibleLeaderReplicas": "elr",
    "lastKnownElr": "last_known_elr",
    "addingReplicas": "adding",
    "removingReplicas": "removing",
}
"""A record's field, and what holds it here."""


def some(rng: Random, brokers: list[int], least: int = 0) -> tuple[int, ...]:
    return tuple(rng.sample(brokers, rng.randint(least, len(brokers))))


def a_partition(rng: Random, brokers: list[int]) -> PartitionState:
    """Whatever a log could say: members in any order, a leader that is no replica, what is moved to or from."""
    return PartitionState(
        some(rng, brokers, 1),
        **dict[str, Any]((name, some(rng, brokers)) for name in SETS),
        leader=rng.choice([None, *brokers]),
        leader_recovery_state=rng.choice(["RECOVERED", "RECOVERING"]),
    )


def plainly(state: PartitionState) -> dict[str, Any]:
    """As far as slots say it: sets have no order, replicas have one."""
    return {
        "replicas": state.replicas,
        "leader": state.leader,
        "recovery": state.leader_recovery_state,
        **{name: frozenset(getattr(state, name)) for name in SETS},
    }


def numbers(rng: Random) -> list[int]:
    """Brokers' numbers that are no slots."""
    return rng.sample(range(100, 1000), rng.randint(1, MAX_BROKERS))


def test_there_and_back() -> None:
    for seed in range(300):
        rng = Random(seed)
        state = a_partition(rng, numbers(rng))
        observed, brokers = in_slots(state)
        assert plainly(with_brokers(observed, brokers)) == plainly(state)
        assert observed.replicas == tuple(range(len(state.replicas)))
        assert brokers[: len(state.replicas)] == state.replicas
        others = brokers[len(state.replicas) :]
        assert list(others) == sorted(others), "two partitions that differ in numbers alone are one in slots"
        assert observed.used() == tuple(range(len(brokers)))
        for name in SETS:
            assert list(getattr(observed, name)) == sorted(getattr(observed, name))
        assert not observed.bumped
        assert observed.repeated == ()


def a_record(rng: Random, brokers: list[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Some fields of a record of a change; and what the partition has after it."""
    record: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for name, field in RECORDED.items():
        if rng.random() < 0.5:
            after[field] = some(rng, brokers)
            record[name] = list(after[field])
    if rng.random() < 0.5:
        after["replicas"] = some(rng, brokers, 1)
        record["replicas"] = list(after["replicas"])
    if rng.random() < 0.5:
        after["leader"] = rng.choice([None, *brokers])
        record["leader"] = -1 if after["leader"] is None else after["leader"]
    if rng.random() < 0.5:
        record["leaderRecoveryState"] = rng.randint(0, 1)
        after["leader_recovery_state"] = ("RECOVERED", "RECOVERING")[record["leaderRecoveryState"]]
    return record, after


def test_a_record_in_slots_is_the_record_with_brokers() -> None:
    repeated = set()
    for seed in range(600):
        rng = Random(seed)
        numbered = numbers(rng)
        before = a_partition(rng, numbered)
        record, changes = a_record(rng, numbered)
        observed, brokers = in_slots(before)
        known = (*brokers, *sorted(set(numbered) - set(brokers)))
        found = merged(observed, record, {broker: slot for slot, broker in enumerate(known)})
        after = replace(before, **changes)
        assert plainly(with_brokers(found, known)) == plainly(after)
        for name in SETS:
            assert list(getattr(found, name)) == sorted(getattr(found, name))
        assert found.bumped == ("leader" in record)
        assert set(found.repeated) == {
            name
            for name in record
            if name != "leader"
            if plainly(before)[_part(name)] == plainly(after)[_part(name)]
            if name in ("replicas", "leaderRecoveryState") or len(record[name]) < 2
        }
        repeated |= set(found.repeated)
        assert set(named(record)) == {b for name in FIELDS for b in record.get(name, ())} | {
            b for b in [record.get("leader", -1)] if b >= 0
        }
    assert repeated == {*FIELDS, "leaderRecoveryState"}


def _part(name: str) -> str:
    return {"leaderRecoveryState": "recovery", "replicas": "replicas", **RECORDED}[name]


THREE = PartitionState((7, 5, 9), (5, 7), leader=7)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"replicas": ()}, "it has no replica"),
        ({"replicas": (7, 7)}, "replicas has a broker twice"),
        ({"isr": (5, 5)}, "isr has a broker twice"),
        ({"elr": (9, 9)}, "eligibleLeaderReplicas has a broker twice"),
        ({"isr": (5, -1)}, "isr has a broker that cannot be one"),
        ({"last_known_elr": (5, -1)}, "lastKnownElr has a broker that cannot be one"),
        ({"isr": (5, -2)}, "a broker with a negative number"),
        ({"adding": tuple(range(10, 8 + MAX_BROKERS))}, f"more than {MAX_BROKERS} brokers are concerned"),
    ],
)
def test_what_is_no_partition_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(CannotFollow, match=why):
        in_slots(replace(THREE, **changes))


def test_the_last_known_leader_may_be_nobody() -> None:
    observed, _ = in_slots(replace(THREE, last_known_elr=(-1,)))
    assert observed.last_known_elr == (-1,)


def test_as_many_brokers_as_there_are_slots_can_be_concerned() -> None:
    _, brokers = in_slots(replace(THREE, adding=tuple(range(10, 7 + MAX_BROKERS))))
    assert len(brokers) == MAX_BROKERS


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"replicas": []}, "it has no replica"),
        ({"isr": [5, 5]}, "isr has a broker twice"),
        ({"isr": [5, 6]}, "isr has a broker that cannot be one"),
        ({"leaderRecoveryState": 2}, "leaderRecoveryState 2"),
    ],
)
def test_a_record_that_leaves_no_partition_is_refused(record: dict[str, Any], why: str) -> None:
    observed, brokers = in_slots(THREE)
    with pytest.raises(CannotFollow, match=why):
        merged(observed, record, {broker: slot for slot, broker in enumerate(brokers)})


def test_what_came_near_is_told_with_brokers() -> None:
    near = NearMiss(
        Hypothesis("elect", (1, True, (0, 2), 1)),
        ("broker", "clean", "members", "value"),
        ("refused",),
        ("passed",),
        {
            "elr": ((1,), ()),
            "leader": (0, 2),
            "bumped": (True, False),
            "leader_recovery_state": ("RECOVERED", "RECOVERING"),
        },
    )
    found = candidate(near, (7, 5, 9))
    assert found.parameters == {"broker": 5, "clean": True, "members": [7, 9], "value": 1}
    assert type(found.parameters["clean"]) is bool
    assert found.differences == {
        "eligibleLeaderReplicas": ([5], []),
        "leader": (7, 9),
        "leader epoch grows": (True, False),
        "leaderRecoveryState": ("RECOVERED", "RECOVERING"),
    }
    assert all(type(v) is bool for v in found.differences["leader epoch grows"])
    assert (found.action, found.refused_by, found.passed) == ("elect", ("refused",), ("passed",))


def test_slots_can_be_named_anew() -> None:
    """What stands for the same partition with its slots in another order."""
    observed = Observed(
        (0, 1, 2), (0, 2), (1,), (2,), 2, leader_recovery_state="RECOVERING", adding=(0,), removing=(1, 2)
    )
    new = {0: 2, 1: 0, 2: 1}
    after = Observed(
        (2, 0, 1), (1, 2), (0,), (1,), 1, leader_recovery_state="RECOVERING", adding=(2,), removing=(0, 1)
    )
    assert observed.renamed(new) == after
    assert observed.renamed(new).renamed({v: k for k, v in new.items()}) == observed
    assert replace(observed, leader=None, last_known_elr=(-1,)).renamed(new).leader is None
