"""Encoding and decoding of every record type and version; unknown types and tags; damage."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import ValidationError

from highwater.traces.kafka.schemas import CONTROL, METADATA, Schema
from highwater.traces.kafka.values import (
    LATEST,
    TYPES,
    DamagedRecord,
    MetadataRecord,
    UnknownRecord,
    api_key,
    control_key,
    control_type,
    decode,
    encode,
    encode_control,
    encode_unknown,
)
from tests.generation.batches import decode_control
from tests.traces.kafka.made import TOPIC_ID, change, ids, structure, versions


def test_the_tables_name_each_type_once() -> None:
    assert len(TYPES) == len(METADATA) == 27
    assert len({s.name for s in (*METADATA, *CONTROL)}) == len(METADATA) + len(CONTROL)
    assert [s.key for s in METADATA] == sorted(TYPES)
    for schema in METADATA:
        tags = [f.tag for f in schema.fields if f.tag is not None]
        assert sorted(tags) == list(range(len(tags)))


EVERY = (*METADATA, *CONTROL)


@pytest.mark.parametrize(("schema", "version"), versions(EVERY), ids=ids(EVERY))
def test_a_record_comes_back_as_it_was(schema: Schema, version: int) -> None:
    @settings(max_examples=4, deadline=None)
    @given(structure(schema.fields, version))
    def check(data: dict[str, object]) -> None:
        read: Callable[[bytes], MetadataRecord] = decode
        if schema in METADATA:
            value = encode(schema.name, version, data)
            assert api_key(value) == (schema.key, version)
            with pytest.raises(DamagedRecord):
                decode(value + b"\0")
        else:
            data["version"] = version
            key, value = encode_control(schema.name, data)
            assert (key, control_type(key)) == (control_key(schema.key), schema.key)
            read = partial(decode_control, key)
        record = read(value)
        assert record[:2] == (schema.name, version)
        # Comparing text also compares the field order.
        assert json.dumps(record.data) == json.dumps(data)
        for end in range(len(value)):
            with pytest.raises(DamagedRecord):
                read(value[:end])

    check()


def test_the_bytes_of_a_partition_change() -> None:
    """Bytes written by hand, so that encoder and decoder cannot share an error."""
    value = bytes.fromhex(
        "01 05 02"  # frame, API key, version
        "00000007 000102030405060708090a0b0c0d0e0f"  # partition, topic
        "04"  # tagged fields
        "00 09 03 00000001 00000002"  # isr
        "01 04 ffffffff"  # leader
        "06 01 01"  # eligible leader replicas, empty
        "08 11 02 000102030405060708090a0b0c0d0e0f"  # directories
    )
    record = decode(value)
    assert record.type == "PARTITION_CHANGE_RECORD"
    assert json.dumps(record.data) == json.dumps(
        {
            "partitionId": 7,
            "topicId": TOPIC_ID,
            "isr": [1, 2],
            "leader": -1,
            "directories": [TOPIC_ID],
            "eligibleLeaderReplicas": [],
        }
    )
    assert encode(*record) == value


def test_a_default_that_is_written_all_the_same_is_left_out() -> None:
    value = encode("PARTITION_CHANGE_RECORD", 2, {"partitionId": 7, "topicId": TOPIC_ID})
    written = value[:-1] + bytes.fromhex("02 00 01 00 01 04 fffffffe")
    assert decode(written) == decode(value)


@pytest.mark.parametrize("tag", [bytes((100,)), b"\x80\x01"])
def test_unknown_tags_are_skipped(tag: bytes) -> None:
    value = encode("NO_OP_RECORD", 0, {})
    assert value[-1] == 0
    assert decode(value[:-1] + b"\x01" + tag + b"\x03abc") == decode(value)
    with pytest.raises(DamagedRecord):
        decode(value[:-1] + b"\x01" + tag + b"\x04abc")


@pytest.mark.parametrize(
    "tags",
    [
        "02 01 04 00000001 00 01 00",
        "01 01 05 00000001 00",
        "01 01 03 00000001",
        "02 05 01 01 05 01 01",
        "ffffffff0f",
    ],
    ids=["descending", "too long", "too short", "twice", "very many"],
)
def test_damaged_tags(tags: str) -> None:
    value = encode("PARTITION_CHANGE_RECORD", 2, {"partitionId": 7, "topicId": TOPIC_ID})
    with pytest.raises(DamagedRecord):
        decode(value[:-1] + bytes.fromhex(tags))


def test_unknown_types_and_versions() -> None:
    for value, key, version, name in (
        (b"\x01\x06\x00\x00", 6, 0, None),
        (b"\x01\x05\x09\x00", 5, 9, "PARTITION_CHANGE_RECORD"),
        (b"\x01\xac\x02\x00\x00", 300, 0, None),
        (encode_unknown(None, 3, "COMING_RECORD"), None, 3, "COMING_RECORD"),
        (encode_unknown(5, 9, "PARTITION_CHANGE_RECORD"), 5, 9, "PARTITION_CHANGE_RECORD"),
    ):
        with pytest.raises(UnknownRecord) as caught:
            decode(value)
        assert (caught.value.key, caught.value.version, caught.value.type) == (key, version, name)
    with pytest.raises(UnknownRecord):
        encode("COMING_RECORD", 0, {})
    with pytest.raises(UnknownRecord):
        encode("TOPIC_RECORD", 1, {})
    with pytest.raises(UnknownRecord):
        decode_control(b"\0\0\0\x01", b"\0\0\0\0\0\0")


@pytest.mark.parametrize("value", [b"", b"\x00\x05\x02", b"\x02\x05\x02", b"\x01", b"\x01\x80", b"\xff" * 12])
def test_values_without_a_frame_are_damaged_records(value: bytes) -> None:
    with pytest.raises(DamagedRecord):
        api_key(value)
    with pytest.raises(DamagedRecord):
        decode(value)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\x7f"])
@pytest.mark.parametrize(
    "start",
    [
        bytes.fromhex("010302 00000007 000102030405060708090a0b0c0d0e0f"),  # a list of brokers
        bytes.fromhex("010502 00000007 000102030405060708090a0b0c0d0e0f 01 08 20"),  # a list of directories
        bytes.fromhex("010e00"),  # a list of structures
        bytes.fromhex("010a00 01 01"),  # a list of strings
        bytes.fromhex("010200"),  # a string
        bytes.fromhex("010b00 01 00"),  # bytes
    ],
    ids=["brokers", "directories", "structures", "strings", "string", "bytes"],
)
def test_a_length_is_compared_with_what_is_left(start: bytes, length: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DamagedRecord):
            decode(start + length + bytes(50))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(versions(METADATA)).flatmap(
        lambda sv: st.tuples(st.just(sv), structure(sv[0].fields, sv[1]))
    ),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_a_changed_value_is_a_record_or_one_of_two_errors(
    made: tuple[tuple[Schema, int], dict[str, object]], changes: list[tuple[int, int]]
) -> None:
    (schema, version), data = made
    value = bytearray(encode(schema.name, version, data))
    for at, byte in changes:
        value[at % len(value)] = byte
    try:
        record = decode(bytes(value))
    except (UnknownRecord, DamagedRecord):
        return
    assert decode(encode(*record, lenient=True)) == record


GOOD = decode(change(3)).data


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("partitionId", None),
        ("partitionId", True),
        ("partitionId", 1 << 31),
        ("topicId", "short"),
        ("isr", 5),
        ("isr", [1, "2"]),
        ("added", 1),
    ],
)
def test_data_that_does_not_fit_names_the_field(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        encode("PARTITION_CHANGE_RECORD", 2, {**GOOD, field: value})


def test_a_field_within_others_is_named_and_a_missing_one_too() -> None:
    data = {
        "controllerId": 1,
        "incarnationId": TOPIC_ID,
        "zkMigrationReady": False,
        "endPoints": [{"name": "a", "host": "b", "port": 70000, "securityProtocol": 0}],
        "features": [],
    }
    with pytest.raises(ValidationError, match=r"65535 - at `\$\.endPoints\[0\]\.port`"):
        encode("REGISTER_CONTROLLER_RECORD", 0, data)
    with pytest.raises(ValidationError, match="missing required field `topicId`"):
        encode("TOPIC_RECORD", 0, {"name": "t"})
    with pytest.raises(ValidationError, match=r"at `\$\.name`"):
        encode("TOPIC_RECORD", 0, {"name": "\ud800", "topicId": TOPIC_ID})
    for wrong in ({"name": "t", "topicId": TOPIC_ID, "\ud800": 1}, {"name": "t", "topicId": "\ud800"}):
        for lenient in (True, False):
            with pytest.raises(ValidationError):
                encode("TOPIC_RECORD", 0, wrong, lenient=lenient)
    quota = {"entity": [], "key": "k", "value": 10**310, "remove": False}
    with pytest.raises(ValidationError):
        encode("CLIENT_QUOTA_RECORD", 0, quota)
    assert encode("CLIENT_QUOTA_RECORD", 0, {**quota, "value": 7}) == encode(
        "CLIENT_QUOTA_RECORD", 0, {**quota, "value": 7.0}
    )
    assert encode("NO_OP_RECORD", 0, {"later": 1}, lenient=True) == encode("NO_OP_RECORD", 0, {})


def test_the_newest_versions_are_kafka_s() -> None:
    """The versions of Apache Kafka 4.4.0; all other records have only version 0."""
    assert {name: version for name, version in LATEST.items() if version} == {
        "REGISTER_BROKER_RECORD": 4,
        "PARTITION_RECORD": 2,
        "PARTITION_CHANGE_RECORD": 2,
        "BROKER_REGISTRATION_CHANGE_RECORD": 3,
    }
