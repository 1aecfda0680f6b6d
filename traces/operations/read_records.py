"""The records that an operation appended to the metadata log."""

from __future__ import annotations

from typing import Any

from highwater.traces.operations.format import OUTSIDE, Record
from highwater.traces.reading.fields import INT32, INT64, Fields, Place

_IDS = ("isr", "replicas", "addingReplicas", "removingReplicas", "eligibleLeaderReplicas", "lastKnownElr")
_RECORDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "PARTITION_CHANGE_RECORD": (
        ("partitionId", "topicId"), (*_IDS, "leader", "leaderRecoveryState", "directories")
    ),
    "PARTITION_RECORD": (
        ("partitionId", "topicId", "replicas", "isr", "removingReplicas", "addingReplicas", "leader", "leaderEpoch",
         "partitionEpoch", "directories"), ()
    ),
    "REGISTER_BROKER_RECORD": (
        ("brokerId", "isMigratingZkBroker", "incarnationId", "brokerEpoch", "endPoints", "features", "rack", "fenced",
         "inControlledShutdown", "logDirs"), ()
    ),
    "BROKER_REGISTRATION_CHANGE_RECORD": (("brokerId", "brokerEpoch"), ("fenced", "inControlledShutdown", "logDirs")),
    "UNREGISTER_BROKER_RECORD": (("brokerId", "brokerEpoch"), ()),
    "CLEAR_ELR_RECORD": (("topicName",), ()),
    "FEATURE_LEVEL_RECORD": (("name", "featureLevel"), ()),
    "BEGIN_TRANSACTION_RECORD": ((), ("name",)),
    "END_TRANSACTION_RECORD": ((), ()),
    "CONFIG_RECORD": (("resourceType", "resourceName", "name", "value"), ()),
    "TOPIC_RECORD": (("name", "topicId"), ()),
}  # fmt: skip
_NUMBERS = (
    "partitionId", "leader", "leaderEpoch", "partitionEpoch", "leaderRecoveryState", "brokerId", "brokerEpoch",
    "resourceType", "featureLevel",
)  # fmt: skip


def read_record(place: Place, value: Any) -> Record:
    """A record, without the fields that are not compared. Raises TraceError.

    The members of an ISR are sorted: their order says nothing.
    """
    f = Fields(place, value, ("type", "version", "data"))
    kind = f.choice("type", tuple(_RECORDS))
    needed, optional = _RECORDS[kind]
    data = Fields(place.at("data"), f.raw("data"), needed, optional)
    found: dict[str, Any] = {}
    for name in f.raw("data"):
        if f"records[].data.{name}" in OUTSIDE:
            continue
        if name == "isr":
            found[name] = sorted(data.numbers(name, -1))
        elif name in _IDS:
            found[name] = data.numbers(name, -1)
        elif name in _NUMBERS:
            found[name] = data.number(name, -1, INT64)
        elif name in ("fenced", "inControlledShutdown"):
            whole = kind == "BROKER_REGISTRATION_CHANGE_RECORD"
            found[name] = data.number(name, -1, 1) if whole else data.flag(name)
        elif name == "value" or (name == "name" and kind == "BEGIN_TRANSACTION_RECORD"):
            found[name] = data.text_or_null(name)
        else:
            found[name] = data.text(name)
    return kind, f.number("version", 0, INT32), found


__all__ = ["read_record"]
