"""Any well-formed records end with a report or one clear error; partitions in slots and with brokers' ids."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.replication.controller import Controller
from highwater.traces.kafka.schemas import METADATA, ArrayOf, Field, Schema
from highwater.traces.kafka.values import (
    CHANGE,
    KEYS,
    TYPES,
    DamagedRecord,
    UnknownRecord,
    api_key,
    decode,
    encode,
    encode_unknown,
)
from highwater.traces.metadata.beliefs.belief_states import (
    CannotFollow,
    in_slots,
    merged,
    with_brokers,
)
from highwater.traces.metadata.beliefs.controller_stepper import MAX_BROKERS, ControllerStepper, Hypothesis
from highwater.traces.metadata.beliefs.evidence import SETS
from highwater.traces.metadata.follow import _HANDLERS
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from highwater.traces.reports.observed import PartitionState
from tests.generation.batches import control_batch, encode_batch

FOLLOWED = {*_HANDLERS, CHANGE}
"""API keys of records that are never skipped in silence."""
TOPIC_IDS = ["AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"]
INCARNATIONS = ["AAAAAAAAAAAAAAAAAAAAAw", "AAAAAAAAAAAAAAAAAAAABA"]

brokers = st.integers(0, 3) | st.sampled_from([-1, 7, 2**31 - 1])
members = st.lists(brokers, max_size=4) | st.lists(st.integers(0, 20), min_size=10, max_size=14, unique=True)
names = st.sampled_from(["a", "b", ""])
features = st.sampled_from(["metadata.version", "eligible.leader.replicas.version", "other"])
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    "bool": st.booleans(), "int8": st.integers(-2, 5), "int64": st.integers(-1, 30), "string": st.none(),
    "int32": st.integers(-2, 4) | st.sampled_from([2**31 - 1, -(2**31)]), ArrayOf("int32"): members,
}  # fmt: skip
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "partitionId": st.integers(0, 1), "topicId": st.sampled_from(TOPIC_IDS), "topicName": names,
    "resourceType": st.sampled_from([2, 4, 0, -1]), "resourceName": names, "featureLevel": st.integers(-2, 31),
    "value": st.sampled_from(["1", "2", "99999999999", "-1", "true", "FALSE", "", "٣", "x", None]),
    "incarnationId": st.sampled_from(INCARNATIONS), "minSupportedVersion": st.just(0),
    "maxSupportedVersion": st.integers(-1, 31),
    **dict.fromkeys(("leader", "brokerId", "id", "controllerId"), brokers),
    **dict.fromkeys(("endPoints", "directories", "logDirs", "cordonedLogDirs"), st.just([])),
    "TOPIC_RECORD": names, "FEATURE_LEVEL_RECORD": features, "features": features,
    "CONFIG_RECORD": st.sampled_from(["min.insync.replicas", "unclean.leader.election.enable", "other"]),
}  # fmt: skip
"""The values of fields, by field name; those of the field ``name`` by the record's type, or by the list it is in."""


def is_known(value: bytes) -> bool:
    """True if the record's type and version are known, even if the record is damaged."""
    try:
        decode(value)
    except UnknownRecord:
        return False
    except DamagedRecord:
        pass
    return True


def structure(fields: tuple[Field, ...], of: str) -> st.SearchStrategy[dict[str, Any]]:
    """Data of a structure; tagged fields may be missing."""
    found: dict[str, st.SearchStrategy[Any]] = {}
    for f in fields:
        if f.name == "features" and isinstance(f.type, ArrayOf) and isinstance(f.type.of, tuple):
            found[f.name] = st.lists(structure(f.type.of, f.name), max_size=2)
        else:
            name = of if f.name == "name" else f.name
            found[f.name] = BY_NAME[name] if name in BY_NAME else BY_TYPE[f.type]
    optional = {f.name: found.pop(f.name) for f in fields if f.tag is not None}
    return st.fixed_dictionaries(found, optional=optional)


def record(schema: Schema) -> st.SearchStrategy[tuple[str, int, dict[str, Any]]]:
    """Records of a type with any values."""
    return structure(schema.fields, schema.name).map(lambda data: (schema.name, schema.latest, data))


records = st.one_of([record(s) for s in METADATA if s.key in FOLLOWED or s.name == "NO_OP_RECORD"])

_BEGINNING: list[tuple[str, int, dict[str, Any]]] = [
    ("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 25}),
    ("TOPIC_RECORD", 0, {"name": "a", "topicId": TOPIC_IDS[0]}),
]


def whole(kind: str, version: int, data: dict[str, Any]) -> bytes:
    return encode(kind, version, data, lenient=True)


def as_version(value: bytes, version: int | None) -> bytes:
    """A record that says to be of another version, one that cannot be read, perhaps."""
    return value if version is None else value[:2] + bytes((version,)) + value[3:]


versions = st.none() | st.none() | st.none() | st.integers(0, 9)
unknown_records = st.builds(lambda key: encode_unknown(key, 0, "X"), st.sampled_from([None, 6, 99, 3000]))


any_values = st.builds(lambda r, v: as_version(whole(*r), v), records, versions) | unknown_records


@settings(max_examples=80)
@given(st.lists(st.lists(any_values, min_size=1, max_size=6), max_size=8), st.booleans())
def test_any_records_end_in_a_report_or_one_error(batches: list[list[bytes]], timelines: bool) -> None:
    content = control_batch(0, 1, 1000, "LEADER_CHANGE", leaderId=1, voters=[], grantingVoters=[])
    offset = 1
    for batch in ([[whole(*r) for r in _BEGINNING]] if timelines else []) + batches:
        content += encode_batch(offset, 1, 1000 + offset, batch)
        offset += len(batch)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "00000000000000000000.log"
        path.write_bytes(content)
        with contextlib.suppress(TraceError):
            report = replay(path, timelines=timelines)
            assert report.damage or report.records == offset
            assert pickle.loads(pickle.dumps(report)).to_json() == report.to_json()
            keys = {api_key(v)[0] for batch in batches for v in batch if not is_known(v)}
            silent = all(key in TYPES and key not in FOLLOWED for key in keys)
            # What a transaction holds back is not followed.
            held = any(v[1] == KEYS["BEGIN_TRANSACTION_RECORD"] for batch in batches for v in batch)
            assert report.doubts or report.damage or silent or held


# --- a partition in slots -----------------------------------------------------------------------------


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
