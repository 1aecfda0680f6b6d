"""A recording from its file: the meta line, then the operations, one at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from highwater.traces.operations.format import (
    FORMAT,
    MAX_BROKERS,
    RESOURCES,
    ControllerTrace,
    Operation,
    RecordingMeta,
    metadata_version,
)
from highwater.traces.operations.read_operations import (
    NEWER,
    OPERATIONS,
    read_brokers,
    read_partitions,
    read_record,
    read_response,
    read_stale_entries,
)
from highwater.traces.operations.state import can_be
from highwater.traces.reading.fields import INT64, Fields, Place
from highwater.traces.reading.lines import read_lines


def read_controller_trace(path: Path) -> ControllerTrace:
    """Open a recording. Raises TraceError, also while the operations are read."""
    lines = read_lines(path)
    line, first = next(lines)
    place = Place(path, line)
    meta = _meta(Fields(place, first, ("meta",)))
    return ControllerTrace(path, meta, (_operation(Place(path, n), value) for n, value in lines))


def _meta(line: Fields) -> RecordingMeta:
    known = (
        "format", "mode", "seed", "elrEnabled", "metadataVersion", "cleanAwareRegistration", "extras", "brokers",
        "topics", "partitionsPerTopic", "replicationFactor", "minIsr", "randomOps", "sessionTimeoutMs", "kafkaCommit",
    )  # fmt: skip
    newer = ("kafkaVersion", "minIsrAt", "staticMinIsr", "controllerId", "bootstrapRecords")
    meta = Fields(line.place.at("meta"), line.raw("meta"), ("format",), (*known, *newer))
    meta.choice("format", (FORMAT,))
    meta = Fields(line.place.at("meta"), line.raw("meta"), known, newer)
    for name in ("seed", "topics", "partitionsPerTopic", "replicationFactor", "minIsr", "randomOps"):
        meta.number(name, -INT64, INT64)
    for name in ("mode", "kafkaCommit"):
        meta.text(name)
    meta.flag("extras")
    version = meta.text("metadataVersion")
    try:
        found = metadata_version(version)
    except ValueError as wrong:
        raise meta.place.at("metadataVersion").wrong(str(wrong)) from None
    if "minIsrAt" in meta:
        meta.choice("minIsrAt", ("topic", "cluster"))
    return RecordingMeta(
        meta.flag("elrEnabled"),
        found,
        meta.flag("cleanAwareRegistration"),
        meta.number("brokers", 1, MAX_BROKERS),
        meta.number("sessionTimeoutMs", 0, INT64),
        meta.text("kafkaVersion") if "kafkaVersion" in meta else None,
        meta.number("controllerId") if "controllerId" in meta else None,
        _broker_configs(meta),
        meta.number("staticMinIsr", 1) if "staticMinIsr" in meta else 1,
    )


def _broker_configs(meta: Fields) -> dict[str, str]:
    """What the controller wrote for all brokers when it became active."""
    found = {}
    if "bootstrapRecords" in meta:
        for place, item in meta.items("bootstrapRecords"):
            kind, _, data = read_record(place, item)
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
    is_known = name in OPERATIONS
    arguments: dict[str, Any] = {}
    if is_known:
        names, read = OPERATIONS[name]
        fields = Fields(at_op, raw, ("name", *names), tuple(NEWER[name]))
        arguments = read(fields) | {
            more: NEWER[name][more](fields, more) for more in NEWER[name] if more in fields
        }
    return Operation(
        place.line,
        place,
        line.number("i", 0, INT64),
        line.number("timeMs", 0, INT64),
        line.number("nextOffset", 0, INT64),
        name,
        arguments,
        line.text("error"),
        read_response(place.at("response"), line.raw("response"))
        if is_known and "response" in line
        else None,
        [read_record(at, item) for at, item in line.items("records")],
        read_partitions(line),
        read_brokers(line),
        is_known,
        line.number("elrVersion") if "elrVersion" in line else None,
        read_stale_entries(line) if "elrIndexExtra" in line else [],
    )
