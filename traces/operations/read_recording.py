"""A recording from its file: the meta line, then the operations, one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from highwater.traces.operations import read_operations
from highwater.traces.operations.format import (
    FORMAT,
    MAX_BROKERS,
    RESOURCES,
    ControllerTrace,
    Operation,
    RecordingMeta,
    metadata_version,
)
from highwater.traces.operations.state import can_be
from highwater.traces.reading.fields import INT64, Fields, Form, Place, choice, read_form, whole
from highwater.traces.reading.lines import read_lines


def read_controller_trace(path: Path) -> ControllerTrace:
    """Open a recording. Raises TraceError, also while the operations are read."""
    lines = read_lines(path)
    line, first = next(lines)
    place = Place(path, line)
    meta = _meta(Fields(place, first, ("meta",)))
    return ControllerTrace(path, meta, (_operation(Place(path, n), value) for n, value in lines))


def _version(f: Fields, name: str) -> tuple[int, int, int]:
    try:
        return metadata_version(f.text(name))
    except ValueError as wrong:
        raise f.place.at(name).wrong(str(wrong)) from None


_META: Form = {
    "elrEnabled": Fields.flag,
    "metadataVersion": _version,
    "cleanAwareRegistration": Fields.flag,
    "brokers": whole(1, MAX_BROKERS),
    "sessionTimeoutMs": whole(0, INT64),
    "extras": Fields.flag,
    **dict.fromkeys(("format", "mode", "kafkaCommit"), Fields.text),
    **dict.fromkeys(
        ("seed", "topics", "partitionsPerTopic", "replicationFactor", "minIsr", "randomOps"),
        whole(-INT64, INT64),
    ),
}


def _meta(line: Fields) -> RecordingMeta:
    place, raw = line.place.at("meta"), line.raw("meta")
    newer: Form = {
        "kafkaVersion": Fields.text,
        "minIsrAt": choice("topic", "cluster"),
        "staticMinIsr": whole(1),
        "controllerId": Fields.number,
        "bootstrapRecords": _broker_configs,
    }
    Fields(place, raw, ("format",), (*_META, *newer)).choice("format", (FORMAT,))
    meta = read_form(place, raw, _META, newer)
    return RecordingMeta(
        meta["elrEnabled"],
        meta["metadataVersion"],
        meta["cleanAwareRegistration"],
        meta["brokers"],
        meta["sessionTimeoutMs"],
        meta.get("kafkaVersion"),
        meta.get("controllerId"),
        meta.get("bootstrapRecords", {}),
        meta.get("staticMinIsr", 1),
    )


def _broker_configs(meta: Fields, name: str) -> dict[str, str]:
    """What the controller wrote for all brokers when it became active."""
    found = {}
    for place, item in meta.items(name):
        kind, _, data = read_operations.read_record(place, item)
        if kind == "CONFIG_RECORD" and data["resourceType"] == RESOURCES["BROKER"]:
            if data["value"] is None or not can_be(data["name"], data["value"]):
                raise place.wrong("a configuration with a value that it cannot have")
            found[data["name"]] = data["value"]
    return found


def _operation(place: Place, value: dict[str, Any]) -> Operation:
    known = ("i", "op", "timeMs", "nextOffset", "error", "records", "partitions", "brokers")
    line = Fields(place, value, known, ("response", "elrVersion", "elrIndexExtra"))
    at_op = place.at("op")
    raw = line.raw("op")
    name = Fields(at_op, raw, ("name",), tuple(raw) if isinstance(raw, dict) else ()).text("name")
    is_known = name in read_operations.OPERATIONS
    arguments: dict[str, Any] = {}
    if is_known:
        arguments = read_operations.read_arguments(at_op, raw, name)
    return Operation(
        place.line,
        place,
        line.number("i", 0, INT64),
        line.number("timeMs", 0, INT64),
        line.number("nextOffset", 0, INT64),
        name,
        arguments,
        line.text("error"),
        read_operations.read_response(place.at("response"), line.raw("response"))
        if is_known and "response" in line
        else None,
        [read_operations.read_record(at, item) for at, item in line.items("records")],
        read_operations.read_partitions(line),
        read_operations.read_brokers(line),
        is_known,
        line.number("elrVersion") if "elrVersion" in line else None,
        read_operations.read_stale_entries(line) if "elrIndexExtra" in line else [],
    )
