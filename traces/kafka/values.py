"""Values of metadata records: conversion between bytes and the JSON form that Kafka's dump prints."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeGuard

from msgspec import ValidationError

from highwater.traces.kafka.codec import (
    DAMAGE,
    StructReader,
    Writer,
    encoder,
    put_varint,
    read_varint,
    struct_reader,
    uuid_text,
)
from highwater.traces.kafka.schemas import CONTROL, METADATA, Field, Schema
from highwater.traces.reading import printable

FRAME = 1
"""The version of the frame around each record; Kafka has no other."""
NAMED = 0x7FFF
"""An API key that no record has. It marks a record whose key is unknown; the record's name follows the frame."""
TYPES: dict[int, str] = {schema.key: schema.name for schema in METADATA}
"""The names of the metadata records by API key."""
CONTROL_KEYS: dict[str, int] = {schema.name: schema.key for schema in CONTROL}
"""The type numbers of KRaft's control records by name."""


class MetadataRecord(NamedTuple):
    """A decoded record: its type as Kafka names it, its version, and its fields as Kafka's dump prints them."""

    type: str
    version: int
    data: dict[str, Any]


class UnknownRecord(Exception):
    """The type or version of a record is not in the schema tables.

    ``key`` is the type's number; None if only its name is known.
    """

    def __init__(self, key: int | None, version: int, type: str | None = None) -> None:
        self.key, self.version = key, version
        self.type = type if type is not None or key is None else TYPES.get(key)
        name = self.type or f"type {key}"
        super().__init__(f"unknown record {name}, version {version}")


class DamagedRecord(ValueError):
    """A value is not a complete metadata record."""


def _by_version(schema: Schema) -> list[tuple[str, int, StructReader]]:
    return [(schema.name, v, struct_reader(schema.fields, v)) for v in range(schema.latest + 1)]


_READERS = {(s.key, v): (name, v, read) for s in METADATA for name, v, read in _by_version(s)}
# In the usual frame, each of the three varints is one byte.
_BY_FRAME = {bytes((FRAME, key, version)): found for (key, version), found in _READERS.items()}
_SCHEMAS = {schema.name: schema for schema in (*METADATA, *CONTROL)}
KEYS: dict[str, int] = {name: key for key, name in TYPES.items()}
"""The API keys of the metadata records by name."""
_CONTROL_KEY = struct.Struct(">hh")


def _frame(value: bytes) -> tuple[int, int, int]:
    """The API key and the version of a record, and the position after its frame."""
    try:
        frame, at = read_varint(value, 0)
        if frame != FRAME:
            raise DamagedRecord(f"frame version {frame}, not {FRAME}")
        key, at = read_varint(value, at)
        version, at = read_varint(value, at)
    except DamagedRecord:
        raise
    except DAMAGE as wrong:
        raise DamagedRecord(f"not a metadata record: {wrong}") from None
    if key > 0x7FFF or version > 0x7FFF:
        raise DamagedRecord("an API key or a version outside int16")
    return key, version, at


def api_key(value: bytes) -> tuple[int, int]:
    """The API key and the version of a record. Raises DamagedRecord if it has no frame."""
    if value[:3] in _BY_FRAME:
        return value[1], value[2]
    return _frame(value)[:2]


def decode(value: bytes) -> MetadataRecord:
    """Decode a record to the JSON form of Kafka's dump. Raises UnknownRecord or DamagedRecord.

    Tagged fields that the tables lack are skipped: newer versions of Kafka may add some. So a version above ``LATEST``
    is read as the newest known one, if its other fields are the same.
    """
    known, at = _BY_FRAME.get(value[:3]), 3
    if known is None:
        key, version, at = _frame(value)
        if key == NAMED:
            raise UnknownRecord(None, version, printable(value[at:].decode("utf-8", "replace")))
        found = _READERS.get((key, version))
        if found is None:
            return _read_newer(key, version, value, at)
        known = found
    return _read(known, value, at)


def _read_newer(key: int, version: int, value: bytes, at: int) -> MetadataRecord:
    found = _READERS.get((key, LATEST.get(TYPES.get(key, ""), -1)))
    if found is not None and at == _NUMBER:
        with contextlib.suppress(DamagedRecord):
            return _read((found[0], version, found[2]), value, at)
    raise UnknownRecord(key, version)


def _read(known: tuple[str, int, StructReader], value: bytes, at: int) -> MetadataRecord:
    name, version, read = known
    data: dict[str, Any] = {}
    try:
        end = read(value, at, data)
    except DAMAGE as wrong:
        raise DamagedRecord(f"{name} version {version}: {wrong}") from None
    if end != len(value):
        raise DamagedRecord(f"{name} version {version}: {len(value) - end} bytes too many")
    # This equals MetadataRecord(...), in half the time.
    return _new(MetadataRecord, (name, version, data))


_new = tuple.__new__


_DEFINED = {
    s.name: tuple((f.name, f.defined) for f in s.fields if f.defined is not None)
    for s in METADATA
    if any(f.defined is not None for f in s.fields)
}
LATEST: dict[str, int] = {schema.name: schema.latest for schema in METADATA}
"""The newest version of each metadata record that the tables have."""


def undefined(type: str, data: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """For each field whose value is invalid, by name: the valid values in words, and the invalid value."""
    found = {}
    for name, defined in _DEFINED.get(type, ()):
        value = data.get(name)
        if value is not None and value not in defined:
            found[name] = (_said(defined), value)
    return found


def _said(defined: Sequence[int]) -> str:
    low, high = defined[0], defined[-1]
    if high - low >= len(defined):
        return f"{', '.join(map(str, defined[:-1]))} or {high}"
    return f"{low} to {high}" if high - low < 100 else f"at least {low}"


@cache
def _encoder(type: str, version: int, lenient: bool) -> Writer:
    return encoder(_SCHEMAS[type].fields, version, lenient)


def encode(type: str, version: int, data: dict[str, Any], *, lenient: bool = False) -> bytes:
    """Encode a record to bytes. ``lenient`` omits fields that the version does not have, and fields of newer versions.

    Raises UnknownRecord, or msgspec's ValidationError (a ValueError) if the data does not fit the type.
    """
    key = KEYS.get(type)
    if key is None or version < 0 or (version > LATEST[type] and not lenient):
        raise UnknownRecord(key, version, type)
    out = bytearray((FRAME,))
    put_varint(out, key)
    put_varint(out, version)
    _encoder(type, min(version, LATEST[type]), lenient)(out, data)
    return bytes(out)


def encode_unknown(key: int | None, version: int, name: str, data: Mapping[str, Any] | None = None) -> bytes:
    """Encode a record whose type or version is unknown: ``decode`` raises UnknownRecord with the same key and version.

    If ``key`` is None, ``name`` follows the frame. Otherwise, if ``data`` has a partition's number and topic id,
    these follow the frame, as in records of known versions.
    """
    out = bytearray((FRAME,))
    put_varint(out, NAMED if key is None else key)
    put_varint(out, version)
    if key is None:
        return bytes(out) + name.encode("utf-8", "replace")
    partition = bytearray()
    with contextlib.suppress(ValidationError):
        _PARTITION(partition, dict(data or {}))
        out += partition
    return bytes(out)


_PARTITION = encoder((Field("partitionId", "int32"), Field("topicId", "uuid")), 0, lenient=True)


def control_type(key: bytes | None) -> int:
    """The type of a control record, from its key. Raises DamagedRecord if the key is missing or too short."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise DamagedRecord("a control record without a key")
    kind: int = _CONTROL_KEY.unpack_from(key)[1]
    return kind


def control_key(kind: int) -> bytes:
    """The key of a control record of this type (2 is LEADER_CHANGE; ``CONTROL_KEYS`` has the types by name)."""
    return _CONTROL_KEY.pack(0, kind)


def encode_control(type: str, data: dict[str, Any], *, lenient: bool = False) -> tuple[bytes, bytes]:
    """The key and the value of a control record. The field ``version`` selects the version.

    Raises the errors of ``encode``.
    """
    version = data.get("version")
    key = CONTROL_KEYS.get(type)
    if key is None or not isinstance(version, int) or not 0 <= version <= _SCHEMAS[type].latest:
        raise UnknownRecord(key, version if isinstance(version, int) else -1, type)
    out = bytearray()
    _encoder(type, version, lenient)(out, data)
    return control_key(key), bytes(out)


# Records about a partition, split without decoding: the partition's key, and the rest.
#
# After the usual frame (frame version, API key and version, a byte each) such a record begins with its partition: the
# number in four bytes, and the topic id in sixteen. These twenty bytes are the partition's key here.

CHANGE, NO_OP = KEYS["PARTITION_CHANGE_RECORD"], KEYS["NO_OP_RECORD"]
_NUMBER, _TOPIC, _REST = 3, 7, 23
"""The positions of the partition number, of the topic id, and of the next field."""
_NOBODY = bytes(_REST - _NUMBER)
_KIND = itemgetter(1)
KEY, BEFORE_KEY, AFTER_KEY = slice(_NUMBER, _REST), slice(_NUMBER), slice(_REST, None)
"""Slices of a record about a partition: the partition's key, the frame before the key, and the fields after the key."""


def kind(value: bytes) -> int:
    """The API key of a record in the usual frame. Raises IndexError if the value is too short."""
    return value[1]


_QUICK = frozenset({CHANGE, NO_OP})


def are_quick(values: list[bytes | None]) -> TypeGuard[list[bytes]]:
    """True if each record is, by its API key, a PARTITION_CHANGE_RECORD or a NO_OP_RECORD."""
    try:
        return _QUICK.issuperset(map(_KIND, values))  # type: ignore[arg-type]
    except (IndexError, TypeError):
        return False


def are_framed(values: list[bytes | None]) -> TypeGuard[list[bytes]]:
    """True if each record is long enough to have an API key."""
    return all(value is not None and len(value) > 1 for value in values)


def partition_key(value: bytes) -> bytes:
    """The partition's key in a record about a partition; shorter if the record is too short."""
    return value[_NUMBER:_REST]


def number_and_topic(key: bytes) -> tuple[int, str] | None:
    """The partition number, and the topic id as text, in a partition's key; None if the key is too short."""
    if len(key) < len(_NOBODY):
        return None
    return int.from_bytes(key[: _TOPIC - _NUMBER], signed=True), uuid_text(key[_TOPIC - _NUMBER :])


def change_of(value: bytes) -> tuple[bytes, bytes] | None:
    """Split a PARTITION_CHANGE_RECORD into its partition's key and the rest; None for other records."""
    if value[1] != CHANGE:
        return None
    return value[KEY], value[BEFORE_KEY] + value[AFTER_KEY]


def decode_change(change: bytes) -> MetadataRecord:
    """Decode a PARTITION_CHANGE_RECORD that lacks its partition's key: the partition number and topic id become zeros.

    Raises UnknownRecord or DamagedRecord.
    """
    return decode(change[:_NUMBER] + _NOBODY + change[_NUMBER:])


def encode_change(fields: Mapping[str, Any]) -> bytes:
    """Encode a PARTITION_CHANGE_RECORD without its partition's key, in the newest known version."""
    whole = {"partitionId": 0, "topicId": uuid_text(bytes(16)), **fields}
    value = encode("PARTITION_CHANGE_RECORD", LATEST["PARTITION_CHANGE_RECORD"], whole)
    return value[:_NUMBER] + value[_REST:]
