"""The replay of any well-formed records ends with a report, or with one clear error."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

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
from highwater.traces.metadata.follow import _HANDLERS
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
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
