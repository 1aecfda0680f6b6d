"""Records about a partition, taken apart without being decoded: which partition it is, and what is written of it.

Behind the usual frame (frame version, API key and version, a byte each) such a record begins with its partition: the
number in four bytes, and the topic id in sixteen. These twenty bytes are the partition's key here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from highwater.traces.kafka.codec import uuid_text
from highwater.traces.kafka.values import KEYS, LATEST, MetadataRecord, decode, encode, is_known

CHANGE, NO_OP = KEYS["PARTITION_CHANGE_RECORD"], KEYS["NO_OP_RECORD"]
NO_KIND = -1
"""The kind of what has no API key: of a record without a value."""
_CREATION = KEYS["PARTITION_RECORD"]
_NUMBER, _TOPIC, _REST = 3, 7, 23
"""Where the number, the topic id, and what is written of the partition begin."""
_NOBODY = bytes(_REST - _NUMBER)


def kind(value: bytes) -> int:
    """The API key of a record in the usual frame. Raises IndexError where there is none."""
    return value[1]


def kinds(values: Iterable[bytes | None]) -> set[int]:
    """The API keys of records in the usual frame, NO_KIND among them where one has none."""
    try:
        return {value[1] if value else NO_KIND for value in values}
    except IndexError:
        return {NO_KIND}


def is_creation(value: bytes) -> bool:
    """Whether a record creates a partition; of a version that is known."""
    return value[1:2] == bytes((_CREATION,)) and is_known(value)


def partition_key(value: bytes) -> bytes:
    """The key of the partition that a record is about; shorter where the record ends before."""
    return value[_NUMBER:_REST]


def topic_id(value: bytes) -> bytes:
    """The topic id of the partition that a record is about."""
    return value[_TOPIC:_REST]


def number_and_topic(key: bytes) -> tuple[int, str] | None:
    """The number and the topic id, as text, of a partition's key; None where it is none."""
    if len(key) < len(_NOBODY):
        return None
    return int.from_bytes(key[: _TOPIC - _NUMBER], signed=True), uuid_text(key[_TOPIC - _NUMBER :])


def change_of(value: bytes) -> tuple[bytes, bytes] | None:
    """The key of the partition that a change is of, and the change without it; None where it is no change."""
    if value[1] != CHANGE:
        return None
    return value[_NUMBER:_REST], value[:_NUMBER] + value[_REST:]


def decode_change(change: bytes) -> MetadataRecord:
    """A change without its partition, in the JSON form; of no partition. Raises UnknownRecord or DamagedRecord."""
    return decode(change[:_NUMBER] + _NOBODY + change[_NUMBER:])


def encode_change(fields: Mapping[str, Any]) -> bytes:
    """A change with these fields, without its partition, in the newest version that is known."""
    whole = {"partitionId": 0, "topicId": uuid_text(bytes(16)), **fields}
    value = encode("PARTITION_CHANGE_RECORD", LATEST["PARTITION_CHANGE_RECORD"], whole)
    return value[:_NUMBER] + value[_REST:]
