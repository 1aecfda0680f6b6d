"""Made records, logs and dumps, and the paths of recorded clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from highwater.traces.kafka.batches import HEADER, RecordBatch, read_batches
from highwater.traces.kafka.schemas import ArrayOf, Field, Schema, Type
from highwater.traces.kafka.values import UnknownRecord, control_type, decode, encode
from tests import recordings
from tests.generation.batches import control_batch, decode_control, encode_batch

CLUSTERS_4_2 = recordings.folder("traces/kafka-4.2/clusters")
NAMES_4_2 = sorted(p.name for p in CLUSTERS_4_2.iterdir()) if CLUSTERS_4_2.is_dir() else []

needs_clusters_4_2 = recordings.needs("traces/kafka-4.2/clusters")

TIME = 1_700_000_000_000


def whole(low: int, high: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, max(low, 0)]))


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
# The last of the 22 base64 characters holds only two bits.
IDS = st.builds(
    lambda chars, end: "".join(chars) + end,
    st.lists(st.sampled_from(ALPHABET), min_size=21, max_size=21),
    st.sampled_from("AQgw"),
)
SIMPLE: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": whole(-(1 << 7), (1 << 7) - 1),
    "int16": whole(-(1 << 15), (1 << 15) - 1),
    "uint16": whole(0, (1 << 16) - 1),
    "int32": whole(-(1 << 31), (1 << 31) - 1),
    "int64": whole(-(1 << 63), (1 << 63) - 1),
    "float64": st.one_of(
        st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["NaN", "Infinity", "-Infinity"])
    ),
    "uuid": IDS,
    "string": st.one_of(st.text(st.characters(codec="utf-8"), max_size=6), st.just("x" * 200)),
    "bytes": st.sampled_from(["", "AA==", "AAA=", "+/+/"]),
}


def of_type(kind: Type, version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, tuple):
        return structure(kind, version)
    if isinstance(kind, ArrayOf):
        return st.lists(of_type(kind.of, version), max_size=3)
    return SIMPLE[kind]


@st.composite
def structure(draw: st.DrawFn, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    """Random data of a structure, in the form that the decoder returns."""
    data = {}
    for f in fields:
        if f.since > version:
            continue
        values = of_type(f.type, version)
        if f.tag is not None:
            value = draw(st.one_of(st.just(f.default), values))
            if value != f.default:
                data[f.name] = value
        else:
            data[f.name] = draw(st.one_of(st.none(), values) if f.nullable else values)
    return data


def versions(schemas: tuple[Schema, ...]) -> list[tuple[Schema, int]]:
    return [(s, v) for s in schemas for v in range(s.latest + 1)]


def ids(schemas: tuple[Schema, ...]) -> list[str]:
    return [f"{s.name}-{v}" for s, v in versions(schemas)]


def batches_of(content: bytes, notes: list[str] | None = None, *, last: bool = True) -> list[RecordBatch]:
    return list(read_batches(Path("made.log"), BytesIO(content), notes, last=last))


TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


def leader_change(offset: int = 0, epoch: int = 1) -> bytes:
    voters = [{"voterId": 1}]
    return control_batch(
        offset, epoch, TIME, "LEADER_CHANGE", leaderId=1, voters=voters, grantingVoters=voters
    )


def change(i: int) -> bytes:
    data = {"partitionId": i, "topicId": TOPIC_ID, "isr": [1, 2, 3][: 1 + i % 3], "leader": 1 + i % 3}
    return encode("PARTITION_CHANGE_RECORD", 2, data)


def segment(
    sizes: Sequence[int] = (1, 3, 1, 2), *, base: int = 0, epoch: int = 1, compression: str = "none"
) -> list[bytes]:
    """The batches of a made segment; the first one is a leader change."""
    found, offset = [leader_change(base, epoch)], base + 1
    for size in sizes:
        values = [change(offset + i) for i in range(size)]
        found.append(encode_batch(offset, epoch, TIME + offset, values, compression=compression))
        offset += size
    return found


def snapshot(values: Sequence[bytes], epoch: int = 1) -> bytes:
    parts = [control_batch(0, epoch, TIME, "SNAPSHOT_HEADER", lastContainedLogTimestamp=TIME)]
    if values:
        parts.append(encode_batch(1, epoch, TIME, values))
    parts.append(control_batch(1 + len(values), epoch, TIME, "SNAPSHOT_FOOTER"))
    return b"".join(parts)


SHOWN_CONTROL = {3: "SnapshotHeader", 4: "SnapshotFooter", 5: "KRaftVersion", 6: "KRaftVoters"}


def dump_of(
    content: bytes,
    head: str = "Log starting offset: 0",
    name: str = "made.log",
    *,
    shows_leader_change: bool = False,
) -> str:
    """The text that Kafka's dump tool prints for ``content``.

    ``shows_leader_change``: print the fields of leader changes, as 4.2 does. Older versions print only the
    type.
    """
    return "\n".join([f"Dumping {name}", head, *_dump_lines(content, shows_leader_change)]) + "\n"


def _dump_lines(content: bytes, shows_leader_change: bool) -> Iterator[str]:
    shown = SHOWN_CONTROL | ({2: "LeaderChange:"} if shows_leader_change else {})
    for b in batches_of(content):
        size, crc = HEADER.unpack_from(content, b.position)[1:5:3]
        yield (
            f"baseOffset: {b.base_offset} lastOffset: {b.last_offset} count: {len(b.values)} baseSequence: -1 "
            f"lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: {b.leader_epoch} "
            f"isTransactional: false isControl: {str(b.control).lower()} deleteHorizonMs: OptionalLong.empty "
            f"position: {b.position} CreateTime: {b.timestamp} size: {size + 12} magic: 2 compresscodec: none "
            f"crc: {crc} isvalid: true"
        )
        for i, value in enumerate(b.values):
            assert value is not None
            start = f"| offset: {b.offsets[i]} CreateTime: {b.timestamp} keySize: {4 if b.control else -1} "
            start += f"valueSize: {len(value)} sequence: -1 headerKeys: [] "
            if b.control:
                kind = control_type(b.keys[i])
                if kind in shown:
                    data = decode_control(b.keys[i], value).data
                    yield start + f"{shown[kind]} {json.dumps(data, separators=(',', ':'))}"
                else:
                    yield start + "controlType: LEADER_CHANGE(2)"
                continue
            try:
                record = decode(value)._asdict()
                yield start + "payload: " + json.dumps(record, separators=(",", ":"))
            except UnknownRecord as wrong:
                yield start + f"payload: Error at {b.offsets[i]}, skipping. {wrong}"
