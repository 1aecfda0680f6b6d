"""Decoder for control records; replays only need a control record's type."""

from __future__ import annotations

import struct

from highwater.traces.kafka.schemas import CONTROL
from highwater.traces.kafka.values import (
    DamagedRecord,
    MetadataRecord,
    UnknownRecord,
    _by_version,
    _read,
    control_type,
)

_READERS = {(s.key, v): (name, v, read) for s in CONTROL for name, v, read in _by_version(s)}
_NAMES = {schema.key: schema.name for schema in CONTROL}
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
