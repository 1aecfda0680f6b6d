"""Lines of a request log: when a request came, how long each part of it took, and its JSON.

A line is log4j's head, ``Completed request:``, one JSON object, and the logger's name in parentheses. It is written
when the response has been sent, so its time is the end of the request; the durations in it say when the rest was. A
process that is killed leaves a line that is cut off; the next process goes on in the same line of the file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from highwater.traces.reading.errors import TraceError, printable
from highwater.traces.reading.lines import MAX_VALUES, Source, split

PRODUCE, FETCH, ALTER_PARTITION, REGISTRATION, HEARTBEAT = 0, 1, 56, 62, 63
"""Kafka's numbers of the requests that are read; others are counted by name."""
READ = frozenset({PRODUCE, FETCH, ALTER_PARTITION, REGISTRATION, HEARTBEAT})

_HEAD = re.compile(rb"\[(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d)[,.](\d{3})\] [A-Z]+ $")
_HEAD_SIZE = 40
_START, _END = b"Completed request:", b" (kafka.request.logger)"
_KEY = re.compile(rb'"requestApiKey":(\d{1,4}),')
_NAME = re.compile(rb'"requestApiKeyName":"([A-Z_]{1,60})"')
_BEGINNING = 1 << 16
_KEY_WITHIN = 300
"""The key stands in the header, which comes first."""
_decode = json.JSONDecoder().raw_decode
_DAY_MS = 86_400_000
MAX_MS = 86_400_000.0
"""A request that took longer than a day is refused."""


class RequestLine(NamedTuple):
    """A request that was answered. Times are in ms of the node's own clock, counted as if it were UTC.

    ``arrived``, ``taken`` (by a handler), ``answered`` (the response was complete) and ``ended`` (it was sent, and the
    line was written). ``listener`` is the address and port that the request came to.
    """

    path: Path
    line: int
    api: int
    arrived: float
    taken: float
    answered: float
    ended: float
    waited: bool
    """Whether the answer was made some time after the request was handled."""
    listener: str
    connection: str
    header: dict[str, Any]
    request: dict[str, Any]
    response: dict[str, Any]
    """Empty where there is none: a write with acks 0."""


@dataclass
class Counted:
    """What was in the logs besides: requests of other kinds by name, and lines that are cut off."""

    others: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    first_cut: tuple[Path, int] | None = None
    lines: int = 0

    def cut_off(self, path: Path, line: int) -> None:
        """A line that breaks off."""
        self.cut += 1
        self.first_cut = self.first_cut or (path, line)


def is_request_log(head: bytes) -> bool:
    """Whether a file that begins like this, decompressed, is a request log."""
    for line in head.split(b"\n")[:100]:
        at = line.find(_START)
        if at > 0 and _HEAD.search(line, max(0, at - _HEAD_SIZE), at) and _KEY.search(line):
            return True
    return False


def begins(path: Path) -> bytes:
    """When a request log begins, as it is written: the order of a node's files. Raises TraceError."""
    with Source(path) as source:
        for line in source.read(_BEGINNING).split(b"\n"):
            at = line.find(_START)
            head = _HEAD.search(line, max(0, at - _HEAD_SIZE), at) if at > 0 else None
            if head is not None:
                return head[0]
    return b""


def read_request_log(
    path: Path, counted: Counted, wanted: frozenset[int] = READ, utc_offset_ms: float = 0
) -> Iterator[RequestLine]:
    """The requests of these kinds in the order of the file; the others are counted.

    Their times are UTC where ``utc_offset_ms`` says how far the node's local time is ahead.

    Raises TraceError where the file cannot be read, or a line that is whole is no request.
    """
    days: dict[bytes, int] = {}
    with Source(path) as source:
        for number, line in enumerate(split(source), start=1):
            at = line.rfind(_START)
            if at < 0:
                if b"Completed r" in line[-len(_START) - 1 :] or line.startswith(b"["):
                    counted.cut_off(path, number)
                continue
            counted.lines += 1
            if at > _HEAD_SIZE and line.find(_START) != at:
                # What is before it was cut off when its process died.
                counted.cut_off(path, number)
            end = line.rfind(_END)
            if end < at:
                counted.cut_off(path, number)
                continue
            key = _KEY.search(line, at, at + _KEY_WITHIN)
            if key is not None and int(key[1]) not in wanted:
                name = _NAME.search(line, at)
                counted.others[name[1].decode() if name else f"request {int(key[1])}"] += 1
                continue
            found = _parsed(path, number, line, at, end, days, utc_offset_ms)
            if found.api in wanted:
                yield found


def _parsed(
    path: Path, number: int, line: bytes, at: int, end: int, days: dict[bytes, int], utc_offset_ms: float
) -> RequestLine:
    head = _HEAD.search(line, max(0, at - _HEAD_SIZE), at)
    if head is None:
        raise TraceError(path, number, None, "no date and time before the request")
    if end - at > MAX_VALUES and sum(line.count(mark, at, end) for mark in (b"{", b"[", b",")) > MAX_VALUES:
        raise TraceError(path, number, None, f"more than {MAX_VALUES:,} values")
    try:
        found, _ = _decode(line[at + len(_START) : end].decode())
    except (ValueError, RecursionError) as wrong:
        raise TraceError(path, number, None, f"not JSON: {printable(wrong)}") from None
    try:
        header, request, response = found["requestHeader"], found["request"], found["response"]
        if response == "":
            response = {}
        api, connection = header["requestApiKey"], found["connection"]
        total, queued = found["totalTimeMs"], found["requestQueueTimeMs"]
        sent = found["sendTimeMs"] + found["responseQueueTimeMs"] + found["throttleTimeMs"]
        well_typed = (
            0 <= queued <= total <= MAX_MS
            and 0 <= sent <= MAX_MS
            and response.__class__ is dict
            and request.__class__ is dict
            and api.__class__ is int
            and connection.__class__ is str
        )
    except (KeyError, TypeError, AttributeError):
        well_typed = False
    if not well_typed:
        raise _wrong(path, number, found)
    ended = _time(path, number, head, days) - utc_offset_ms
    arrived = ended - total
    answered = max(arrived + queued, ended - sent)
    listener = connection.partition("-")[0]
    return RequestLine(
        path, number, api, arrived, arrived + queued, answered, ended, found.get("remoteTimeMs", 0) > 0, listener,
        connection, header, request, response,
    )  # fmt: skip


_TIMES = ("totalTimeMs", "requestQueueTimeMs", "responseQueueTimeMs", "sendTimeMs", "throttleTimeMs")


def _wrong(path: Path, number: int, found: Any) -> TraceError:
    """What is wrong with a request, field by field."""
    if not isinstance(found, dict):
        return TraceError(path, number, None, "not a JSON object")
    for name in ("requestHeader", "request", "response"):
        if not isinstance(found.get(name), dict) and not (name == "response" and found.get(name) == ""):
            return TraceError(path, number, name, "expected an object" if name in found else "missing")
    if not isinstance(found["requestHeader"].get("requestApiKey"), int):
        return TraceError(path, number, "requestHeader.requestApiKey", "expected a whole number")
    if not isinstance(found.get("connection"), str):
        return TraceError(path, number, "connection", "expected a string")
    for name in _TIMES:
        value = found.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_MS:
            return TraceError(path, number, name, f"expected a number of ms in 0..{MAX_MS:.0f}")
    return TraceError(path, number, "requestQueueTimeMs", "longer than totalTimeMs")


def _time(path: Path, number: int, head: re.Match[bytes], days: dict[bytes, int]) -> int:
    day, hour, minute, second, ms = head.groups()
    start = days.get(day)
    if start is None:
        try:
            ordinal = date.fromisoformat(day.decode()).toordinal()
        except ValueError:
            raise TraceError(path, number, None, f"no such day: {printable(day.decode())}") from None
        days.clear()
        start = days[day] = (ordinal - date(1970, 1, 1).toordinal()) * _DAY_MS
    return start + int(hour) * 3_600_000 + int(minute) * 60_000 + int(second) * 1000 + int(ms)
