"""The replay of any well-formed records ends with a report, or with one clear error."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.traces.kafka.values import (
    CHANGE,
    KEYS,
    TYPES,
    api_key,
    encode,
    encode_unknown,
    is_known,
)
from highwater.traces.metadata.follow import _HANDLERS
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from highwater.traces.reports.report import Report
from tests.generation.batches import control_batch, encode_batch

FOLLOWED = {*_HANDLERS, CHANGE}
"""API keys of records that are never skipped in silence."""
TOPIC_IDS = ["AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"]
INCARNATIONS = ["AAAAAAAAAAAAAAAAAAAAAw", "AAAAAAAAAAAAAAAAAAAABA"]

numbers = st.integers(-2, 4) | st.sampled_from([2**31 - 1, -(2**31)])
brokers = st.integers(0, 3) | st.sampled_from([-1, 7, 2**31 - 1])
members = st.lists(brokers, max_size=4) | st.lists(st.integers(0, 20), min_size=10, max_size=14, unique=True)
topic_ids = st.sampled_from(TOPIC_IDS)


def record(kind: str, version: int, optional: dict[str, Any] | None = None, **needed: Any) -> Any:
    """Records with any values of these fields; a field that is no strategy is constant."""
    fields = {n: v if isinstance(v, st.SearchStrategy) else st.just(v) for n, v in needed.items()}
    return st.fixed_dictionaries(fields, optional=optional or {}).map(lambda data: (kind, version, data))


FEATURES = st.sampled_from(["metadata.version", "eligible.leader.replicas.version", "other"])
SETTINGS = st.sampled_from(["min.insync.replicas", "unclean.leader.election.enable", "other"])
_partition: dict[str, Any] = {"partitionId": st.integers(0, 1), "topicId": topic_ids}
_sets = ("isr", "replicas", "removingReplicas", "addingReplicas")
_of_members = dict.fromkeys(_sets, members) | {"leader": brokers}
_of_elr: dict[str, Any] = {
    "leaderRecoveryState": st.integers(0, 3),
    "eligibleLeaderReplicas": members,
    "lastKnownElr": members,
}
_incarnation: dict[str, Any] = {"incarnationId": st.sampled_from(INCARNATIONS), "endPoints": []}
_epoch = st.integers(-1, 30)
_flag = st.integers(-2, 5)


def supported(name: str, level: int) -> dict[str, Any]:
    return {"name": name, "minSupportedVersion": 0, "maxSupportedVersion": level}


records = st.one_of(
    record("PARTITION_CHANGE_RECORD", 2, _of_members | _of_elr, **_partition),
    record(
        "PARTITION_RECORD", 2, _of_elr, **_partition, **_of_members,
        leaderEpoch=numbers, partitionEpoch=numbers, directories=[],
    ),
    record("TOPIC_RECORD", 0, name=st.sampled_from(["a", "b", ""]), topicId=topic_ids),
    record("REMOVE_TOPIC_RECORD", 0, topicId=topic_ids),
    record(
        "REGISTER_BROKER_RECORD", 3, brokerId=brokers, isMigratingZkBroker=False, **_incarnation, brokerEpoch=_epoch,
        features=[], rack=None, fenced=st.booleans(), inControlledShutdown=st.booleans(), logDirs=[],
    ),
    record(
        "BROKER_REGISTRATION_CHANGE_RECORD", 1, {"fenced": _flag, "inControlledShutdown": _flag},
        brokerId=brokers, brokerEpoch=_epoch,
    ),
    record("FENCE_BROKER_RECORD", 0, id=brokers, epoch=_epoch),
    record("UNFENCE_BROKER_RECORD", 0, id=brokers, epoch=_epoch),
    record("UNREGISTER_BROKER_RECORD", 0, brokerId=brokers, brokerEpoch=_epoch),
    record(
        "CONFIG_RECORD", 0, resourceType=st.sampled_from([2, 4, 0, -1]),
        resourceName=st.sampled_from(["a", "b", ""]), name=SETTINGS,
        value=st.sampled_from(["1", "2", "99999999999", "-1", "true", "FALSE", "", "٣", "x", None]),
    ),
    record("FEATURE_LEVEL_RECORD", 0, name=FEATURES, featureLevel=st.integers(-2, 31)),
    record("CLEAR_ELR_RECORD", 0, topicName=st.sampled_from(["a", "b", ""])),
    record(
        "REGISTER_CONTROLLER_RECORD", 0, controllerId=brokers, **_incarnation, zkMigrationReady=st.booleans(),
        features=st.lists(st.builds(supported, FEATURES, st.integers(-1, 31)), max_size=2),
    ),
    record("NO_OP_RECORD", 0),
    record("BEGIN_TRANSACTION_RECORD", 0, name=None),
    record("END_TRANSACTION_RECORD", 0),
    record("ABORT_TRANSACTION_RECORD", 0, reason=None),
)  # fmt: skip

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


@settings(max_examples=80, deadline=None)
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
            assert Report.from_json(report.to_json()).to_json() == report.to_json()
            keys = {api_key(v)[0] for batch in batches for v in batch if not is_known(v)}
            silent = all(key in TYPES and key not in FOLLOWED for key in keys)
            # What a transaction holds back is not followed.
            held = any(v[1] == KEYS["BEGIN_TRANSACTION_RECORD"] for batch in batches for v in batch)
            assert report.doubts or report.damage or silent or held
