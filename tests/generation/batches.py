"""Encode record batches as the controller does, and compress them as Kafka's producer does; decode control records."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import cramjam
from crc32c import crc32c

from highwater.traces.kafka.batches import (
    _XERIAL,
    _XERIAL_BLOCK,
    _XERIAL_HEADER,
    CHECKED,
    CODECS,
    CONTROL,
    MAGIC,
    PREFIX,
)
from highwater.traces.kafka.codec import put_varint
from highwater.traces.kafka.schemas import CONTROL as CONTROL_SCHEMAS
from highwater.traces.kafka.values import (
    DamagedRecord,
    MetadataRecord,
    UnknownRecord,
    _by_version,
    _read,
    control_type,
    encode_control,
)


def encode_batch(
    base_offset: int,
    leader_epoch: int,
    timestamp: int,
    values: Sequence[bytes | None],
    *,
    control: bool = False,
    keys: Sequence[bytes | None] | None = None,
    compression: str = "none",
) -> bytes:
    """A record batch in the controller's form: consecutive offsets, one timestamp, no headers."""
    records = bytearray()
    for i, value in enumerate(values):
        record = bytearray(1)
        _put_signed(record, 0)
        _put_signed(record, i)
        _put_bytes(record, None if keys is None else keys[i])
        _put_bytes(record, value)
        _put_signed(record, 0)
        _put_signed(records, len(record))
        records += record
    content = compress(compression, bytes(records)) if compression != "none" else bytes(records)
    attributes = CODECS.index(compression) | (CONTROL if control else 0)
    checked = struct.pack(
        ">hiqqqhii", attributes, len(values) - 1, timestamp, timestamp, -1, -1, -1, len(values)
    )
    checked += content
    length = CHECKED - PREFIX + len(checked)
    return struct.pack(">qiibI", base_offset, length, leader_epoch, MAGIC, crc32c(checked)) + checked


def control_batch(base_offset: int, leader_epoch: int, timestamp: int, name: str, **data: Any) -> bytes:
    """A batch with one control record of version 0."""
    key, value = encode_control(name, {"version": 0, **data})
    return encode_batch(base_offset, leader_epoch, timestamp, [value], control=True, keys=[key])


def _put_signed(out: bytearray, value: int) -> None:
    put_varint(out, (value << 1) ^ (value >> 63))


def _put_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)
        return
    _put_signed(out, len(value))
    out += value


def compress(codec: str, data: bytes) -> bytes:
    """Compress like Kafka's producer: snappy in blocks, other codecs as one stream or frame."""
    if codec == "gzip":
        stream = zlib.compressobj(wbits=31)
        return stream.compress(data) + stream.flush()
    if codec == "snappy":
        blocks = [_XERIAL_HEADER.pack(_XERIAL, 1, 1)]
        for at in range(0, len(data), _XERIAL_BLOCK):
            block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
            blocks += [struct.pack(">i", len(block)), block]
        return b"".join(blocks)
    if codec == "lz4":
        return bytes(cramjam.lz4.compress(data))
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"no compression {codec!r}")


# --- control records ----------------------------------------------------------------------------------


_READERS = {(s.key, v): (name, v, read) for s in CONTROL_SCHEMAS for name, v, read in _by_version(s)}
_NAMES = {schema.key: schema.name for schema in CONTROL_SCHEMAS}
_VERSION = struct.Struct(">h")


def decode_control(key: bytes | None, value: bytes) -> MetadataRecord:
    """Decode a control record; ``type`` is LEADER_CHANGE and so on. Raises like ``decode``."""
    kind = control_type(key)
    if len(value) < _VERSION.size:
        raise DamagedRecord("a control record without a version")
    version: int = _VERSION.unpack_from(value)[0]
    known = _READERS.get((kind, version))
    if known is None:
        raise UnknownRecord(kind, version, _NAMES.get(kind, f"control record {kind}"))
    return _read(known, value, 0)
