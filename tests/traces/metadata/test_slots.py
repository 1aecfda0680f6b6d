"""A partition in slots and the same partition with brokers' ids."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.replication.controller import Controller
from highwater.traces.metadata.beliefs.belief_states import (
    CannotFollow,
    candidate,
    in_slots,
    merged,
    with_brokers,
)
from highwater.traces.metadata.beliefs.controller_stepper import MAX_BROKERS, ControllerStepper, Hypothesis
from highwater.traces.metadata.beliefs.evidence import SETS
from highwater.traces.reports.findings import Candidate
from highwater.traces.reports.observed import PartitionState

THREE = PartitionState((7, 5, 9), (5, 7), leader=7)


def without_order(state: PartitionState) -> PartitionState:
    """A state with its sets sorted, as their order has no meaning; replicas keep their order."""
    sets: dict[str, Any] = {name: tuple(sorted(getattr(state, name))) for name in SETS}
    return replace(state, **sets)


def test_a_partition_comes_back_from_slots() -> None:
    for seed in range(100):
        rng = Random(seed)
        ids = rng.sample(range(100, 1000), rng.randint(1, MAX_BROKERS))
        sets: dict[str, Any] = {name: tuple(rng.sample(ids, rng.randint(0, len(ids)))) for name in SETS}
        state = PartitionState(
            tuple(rng.sample(ids, rng.randint(1, len(ids)))),
            **sets,
            leader=rng.choice([None, *ids]),
            leader_recovery_state=rng.choice(["RECOVERED", "RECOVERING"]),
        )
        observed, brokers = in_slots(state)
        assert without_order(with_brokers(observed, brokers)) == without_order(state)
        assert without_order(observed) == observed
        assert observed.replicas == tuple(range(len(state.replicas)))
        assert brokers[: len(state.replicas)] == state.replicas
        others = brokers[len(state.replicas) :]
        assert list(others) == sorted(others), "partitions that differ in ids alone are the same in slots"
        assert observed.used() == tuple(range(len(brokers)))
        assert not observed.bumped
        assert observed.repeated == ()


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
def test_an_impossible_partition_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(CannotFollow, match=why):
        in_slots(replace(THREE, **changes))


def test_the_limits_of_a_partition_are_accepted() -> None:
    assert in_slots(replace(THREE, last_known_elr=(-1,)))[0].last_known_elr == (-1,)
    assert len(in_slots(replace(THREE, adding=tuple(range(10, 7 + MAX_BROKERS))))[1]) == MAX_BROKERS


def test_a_record_that_makes_an_impossible_partition_is_refused() -> None:
    observed, brokers = in_slots(THREE)
    slots = {broker: slot for slot, broker in enumerate(brokers)}
    with pytest.raises(CannotFollow, match="isr has a broker that cannot be one"):
        merged(observed, {"isr": [5, 6]}, slots)
    with pytest.raises(CannotFollow, match="leaderRecoveryState 2"):
        merged(observed, {"leaderRecoveryState": 2}, slots)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"isr": [7, 5]}, {}),
        ({"isr": [7], "leader": 7}, {"isr": (0,), "bumped": True}),
        ({"eligibleLeaderReplicas": []}, {"repeated": ("eligibleLeaderReplicas",)}),
        ({"lastKnownElr": [-1]}, {"last_known_elr": (-1,)}),
        ({"replicas": [7, 5, 9]}, {"repeated": ("replicas",)}),
        ({"addingReplicas": [8], "removingReplicas": [9, 5]}, {"adding": (3,), "removing": (1, 2)}),
        ({"leaderRecoveryState": 0}, {"repeated": ("leaderRecoveryState",)}),
    ],
)
def test_a_record_changes_its_fields_and_shows_the_unchanged_ones(
    record: dict[str, Any], expected: dict[str, Any]
) -> None:
    observed, _ = in_slots(THREE)
    found = merged(observed, record, {7: 0, 5: 1, 9: 2, 8: 3})
    assert found == replace(observed, **{"leader": 0, **expected})


def test_a_near_miss_is_reported_with_brokers() -> None:
    near = Candidate(
        "elect",
        {"broker": 1, "clean": True, "members": (0, 2), "value": 1},
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


# --- ``controllerstepper`` agrees with the interpreter of the same protocol ---------------------------


RULES = Controller.profiles["kafka_4_2"].rules


def hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def test_steps_are_those_of_the_interpreter() -> None:
    stepper = ControllerStepper(2, RULES)
    model = Model(stepper.protocol)
    interpreter, first = Interpreter(model), model.initial[0]
    assert stepper.encode(stepper.decode(first)) == first
    for state in (
        first,
        *interpreter.successors(first)[:2],
    ):  # functions are interpreted first, then compiled
        for number, instance in enumerate(model.instances):
            hypothesis = Hypothesis(instance.action.name, tuple(map(hashable, instance.parameters.values())))
            step = stepper.step(hypothesis)
            assert step is not None
            refused = interpreter.refusals(state, instance)
            assert (list(step.refusals(state)), step.enabled(state)) == (refused, not refused)
            assert stepper.after(hypothesis, state) == (None if refused else step.after(state))
            if not refused:
                left, after = step.result(state)
                assert (None if left else after) == interpreter.step(state, number).state


def test_an_unknown_step_is_none() -> None:
    stepper = ControllerStepper(2, RULES)
    for hypothesis in (Hypothesis("no such action"), Hypothesis("fence", (7,))):
        assert stepper.step(hypothesis) is None
