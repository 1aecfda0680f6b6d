"""More single changes of a recorded log: values that mean nothing, times, levels of features, cleared ELRs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, groupby
from typing import Any

from highwater.traces.kafka.values import LATEST, MetadataRecord, encode
from tests.generation.records import ELR, METADATA, MIN_ISR, UNCLEAN
from tests.traces.metadata.mutations import (
    CLEAR,
    CREATION,
    FEATURE,
    FOLLOWED,
    Changed,
    Data,
    Log,
    Mutation,
    of_records,
    of_snapshots,
    put,
    with_batches,
    with_value,
)

NO_OP, CONTROLLER = "NO_OP_RECORD", "REGISTER_CONTROLLER_RECORD"
UNDEFINED, UNKNOWN_BROKER, TWICE = "undefined value", "broker that does not exist", "broker twice in a list"
UNKNOWN_RECORD, TIME = "record of an unknown type or version", "time of a batch"
ANOTHER_FEATURE, SUPPORTED = "level of another feature", "level that a broker supports"
CONTROLLERS, LEVEL_SET = "level that a controller supports", "level set in mid-log"
CLEARED, CLEAR_MOVED, CLEAR_GONE = (
    "ELR cleared in mid-log",
    "CLEAR_ELR_RECORD moved",
    "CLEAR_ELR_RECORD replaced",
)
NOBODY, DAY_MS = 77, 86_400_000
MEMBERS = (
    "isr", "replicas", "eligibleLeaderReplicas", "lastKnownElr", "addingReplicas", "removingReplicas",
)  # fmt: skip


def corruptions(log: Log) -> Iterator[Mutation]:
    """All corruptions of a log."""
    return chain(
        of_records(log, _of_record),
        of_snapshots(log, _of_record),
        _unknown_records(log),
        _times(log),
        _in_place(log),
    )


# --- fields -----------------------------------------------------------------------------------------------


def _of_record(record: MetadataRecord) -> Changed:
    data = record.data
    match record.type:
        case "PARTITION_CHANGE_RECORD" | "PARTITION_RECORD":
            yield from _of_partition(record)
        case "REGISTER_BROKER_RECORD":
            yield from _numbers(data, brokerId=(-1,), brokerEpoch=(-1, -(1 << 63)))
            yield from _features(SUPPORTED, data, (METADATA, ELR))
        case "BROKER_REGISTRATION_CHANGE_RECORD":
            yield from _numbers(data, brokerId=(-1,), brokerEpoch=(-1,), fenced=(5, 2, -2))
            if record.version:
                yield from _numbers(data, inControlledShutdown=(9, -1))
            yield put(UNKNOWN_BROKER, data, "brokerId", NOBODY)
        case "CONFIG_RECORD":
            yield from _numbers(data, resourceType=(3, 77, -1))
            wrong = {
                MIN_ISR: ("0", "-1", "two", "2147483648", ""),
                UNCLEAN: ("1", ""),
            }
            for value in wrong.get(data["name"], ()):
                yield put(UNDEFINED, data, "value", value)
        case "FEATURE_LEVEL_RECORD":
            yield from _of_feature(data)
        case "CLEAR_ELR_RECORD":
            yield put("another topic's ELR cleared", data, "topicName", "nobody")
        case "REGISTER_CONTROLLER_RECORD":
            yield from _features(CONTROLLERS, data, (METADATA, ELR))


def _numbers(data: Data, **values: tuple[int, ...]) -> Changed:
    for name, wrong in values.items():
        for value in wrong:
            yield put(UNDEFINED, data, name, value)


def _of_partition(record: MetadataRecord) -> Changed:
    data = record.data
    yield from _numbers(data, leaderRecoveryState=(7, 2, -2), leader=(-3,), partitionId=(-1,))
    if record.type == CREATION:
        yield from _numbers(data, leader=(-2,), leaderEpoch=(-1,), partitionEpoch=(-1,))
    yield put(UNKNOWN_BROKER, data, "leader", NOBODY)
    for name in MEMBERS:
        members = data.get(name)
        if members is None:
            continue
        yield put(UNDEFINED, data, name, [*members, -5])
        yield put(UNKNOWN_BROKER, data, name, [*members, NOBODY])
        if members:
            yield put(TWICE, data, name, [*members, members[0]])


def _of_feature(data: Data) -> Changed:
    level = data["featureLevel"]
    yield put(UNDEFINED, data, "featureLevel", -1)
    yield put("unknown feature", data, "name", "no.such.version")
    if data["name"] == METADATA:
        for value in (26, 27, 28, 29, 30, 999):
            yield put(METADATA, data, "featureLevel", value)
    elif data["name"] == ELR:
        for value in (2, 7):
            yield put(ELR, data, "featureLevel", value)
    else:
        for value in (0, level + 1):
            yield put(ANOTHER_FEATURE, data, "featureLevel", value)


def _features(kind: str, data: Data, names: tuple[str, ...]) -> Changed:
    """The greatest level of a feature one less and one more, and without the feature."""
    for feature in data["features"]:
        if feature["name"] not in names:
            continue
        others = [f for f in data["features"] if f is not feature]
        yield kind, f"{feature} dropped", {**data, "features": others}
        for by in (-1, 1):
            changed = {**feature, "maxSupportedVersion": feature["maxSupportedVersion"] + by}
            yield kind, f"{feature} {by:+}", {**data, "features": [*others, changed]}


# --- whole records and batches ----------------------------------------------------------------------------


def _unknown_records(log: Log) -> Iterator[Mutation]:
    """A record of a type that is not in the tables, or in a version that cannot be read."""
    for number, offset, record in log.records():
        value = encode(*record)
        of_type, of_version = (
            bytes((value[0], 99, *value[2:])),
            bytes((*value[:2], LATEST[record.type] + 1, *value[3:])),
        )
        for what, changed in (("type 99", of_type), ("a newer version", of_version)):
            if what == "type 99" or record.type in FOLLOWED:
                made = with_value(log, number, offset, changed)
                yield Mutation(UNKNOWN_RECORD, record.type, offset, what, made, (record,))


def _times(log: Log) -> Iterator[Mutation]:
    """A batch with followed records that is older than the one before it, or a day younger."""
    before = 0
    for number, offset, record in _first_followed(log):
        batch = log.batches[number]
        for time in (before - 60_000, batch.timestamp + DAY_MS):
            made = _at_time(log, number, time)
            yield Mutation(TIME, record.type, offset, f"{batch.timestamp} -> {time}", made, (record,))
        before = batch.timestamp


def _first_followed(log: Log) -> Iterator[tuple[int, int, MetadataRecord]]:
    """The first followed record of each batch that has one."""
    for _, found in groupby(log.records(), key=lambda r: r[0]):
        for number, offset, record in found:
            if record.type in FOLLOWED:
                yield number, offset, record
                break


def _at_time(log: Log, number: int, time: int) -> Callable[[], Log]:
    def make() -> Log:
        batch = log.batches[number]
        return with_batches(log, number, 1, [batch._replace(timestamp=time)])

    return make


def _in_place(log: Log) -> Iterator[Mutation]:
    """Records in the place of a NO_OP record, so that no offset moves: levels, cleared ELRs, moved records."""
    idle = list(_idle(log))
    levels: dict[str, int] = {}
    at = 0
    for number, offset, record in log.records():
        if record.type == FEATURE:
            levels[record.data["name"]] = record.data["featureLevel"]
        if at < len(idle) and idle[at][1] == offset:
            at += 1
            yield from _instead(log, number, offset, record, levels)
    nothing = encode(NO_OP, 0, {})
    for number, offset, record in log.records():
        if record.type != CLEAR:
            continue
        gone = with_value(log, number, offset, nothing)
        yield Mutation(CLEAR_GONE, CLEAR, offset, "by a NO_OP record", gone, (record,))
        earlier, later = [i for i in idle if i[1] < offset], [i for i in idle if i[1] > offset]
        for to_number, to, _ in (*earlier[-2:], *later[:2]):
            made = _moved(log, (number, offset), (to_number, to), encode(*record), nothing)
            yield Mutation(CLEAR_MOVED, CLEAR, offset, f"to {to}", made, (record,), last=to)


def _idle(log: Log) -> Iterator[tuple[int, int, MetadataRecord]]:
    """The first NO_OP record after each followed record."""
    is_new = True
    for number, offset, record in log.records():
        if record.type == NO_OP and is_new and len(log.batches[number].values) == 1:
            yield number, offset, record
            is_new = False
        is_new = is_new or record.type in FOLLOWED


def _instead(
    log: Log, number: int, offset: int, record: MetadataRecord, levels: dict[str, int]
) -> Iterator[Mutation]:
    def other(kind: str, type_: str, **data: Any) -> Mutation:
        made = with_value(log, number, offset, encode(type_, 0, data))
        return Mutation(kind, type_, offset, str(data), made, (MetadataRecord(type_, 0, data),))

    yield other(CLEARED, CLEAR, topicName="")
    yield other(LEVEL_SET, FEATURE, name=ELR, featureLevel=0 if levels.get(ELR) else 1)
    for by in (-1, 1):
        yield other(LEVEL_SET, FEATURE, name=METADATA, featureLevel=levels.get(METADATA, 1) + by)


def _moved(
    log: Log, one: tuple[int, int], other: tuple[int, int], value: bytes, nothing: bytes
) -> Callable[[], Log]:
    def make() -> Log:
        return with_value(with_value(log, *one, nothing)(), *other, value)()

    return make
