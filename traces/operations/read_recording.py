"""A recording from its file: the meta line, then the operations, one at a time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from highwater.traces.fields import INT64, Fields, Place
from highwater.traces.lines import read_lines
from highwater.traces.operations.format import FORMAT, MAX_BROKERS, ControllerTrace, Meta, Operation
from highwater.traces.operations.read_arguments import OPERATIONS
from highwater.traces.operations.read_records import read_record
from highwater.traces.operations.read_response import read_response
from highwater.traces.operations.read_state import read_brokers, read_partitions


def read_controller_trace(path: Path) -> ControllerTrace:
    """Open a recording. Raises TraceError, also while the operations are read."""
    lines = read_lines(path)
    line, first = next(lines)
    place = Place(path, line)
    meta = _meta(Fields(place, first, ("meta",)))
    return ControllerTrace(path, meta, (_operation(Place(path, n), value) for n, value in lines))


_VERSION = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})-IV([0-9]{1,3})")


def _meta(line: Fields) -> Meta:
    known = (
        "format", "mode", "seed", "elrEnabled", "metadataVersion", "cleanAwareRegistration", "extras", "brokers",
        "topics", "partitionsPerTopic", "replicationFactor", "minIsr", "randomOps", "sessionTimeoutMs", "kafkaCommit",
    )  # fmt: skip
    meta = Fields(line.place.at("meta"), line.raw("meta"), ("format",), known)
    meta.choice("format", (FORMAT,))
    meta = Fields(line.place.at("meta"), line.raw("meta"), known)
    for name in ("seed", "topics", "partitionsPerTopic", "replicationFactor", "minIsr", "randomOps"):
        meta.number(name, -INT64, INT64)
    for name in ("mode", "kafkaCommit"):
        meta.text(name)
    meta.flag("extras")
    version = meta.text("metadataVersion")
    match = _VERSION.fullmatch(version)
    if match is None:
        raise meta.place.at("metadataVersion").wrong("not a metadata version such as 4.0-IV3")
    major, minor, internal = (int(part) for part in match.groups())
    return Meta(
        meta.flag("elrEnabled"),
        (major, minor, internal),
        meta.flag("cleanAwareRegistration"),
        meta.number("brokers", 1, MAX_BROKERS),
        meta.number("sessionTimeoutMs", 0, INT64),
    )


def _operation(place: Place, value: dict[str, Any]) -> Operation:
    known = ("i", "op", "timeMs", "nextOffset", "error", "records", "partitions", "brokers")
    line = Fields(place, value, known, ("response",))
    at_op = place.at("op")
    raw = line.raw("op")
    name = Fields(at_op, raw, ("name",), tuple(raw) if isinstance(raw, dict) else ()).text("name")
    if name not in OPERATIONS:
        raise at_op.at("name").wrong(f"an operation that is not known: {name[:60]!r}")
    names, read = OPERATIONS[name]
    arguments = read(Fields(at_op, raw, ("name", *names)))
    return Operation(
        place.line,
        place,
        line.number("i", 0, INT64),
        line.number("timeMs", 0, INT64),
        line.number("nextOffset", 0, INT64),
        name,
        arguments,
        line.text("error"),
        read_response(place.at("response"), line.raw("response")) if "response" in line else None,
        [read_record(at, item) for at, item in line.items("records")],
        read_partitions(line),
        read_brokers(line),
    )


__all__ = ["read_controller_trace"]
