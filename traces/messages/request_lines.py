"""Request logs, line by line: the forms of lines, when a request was where, and what is wrong with a line.

Fetches, writes and heartbeats as present versions of Kafka write them, decoded straight into types.

Other fields are passed over. A line that is not of these forms is no error yet: it can be of an older version.
It is then decoded without them, and ``request_messages.py`` names it, or its error.

A line is log4j's head, ``Completed request:``, one JSON object, and the logger's name in parentheses. It is written
when the response has been sent, so its time is the end of the request; the durations in it say when the rest was. A
process that is killed leaves a line that is cut off; the next process goes on in the same line of the file.

What a request and its response have to hold, field by field: asked of a line that could not be read, to say why.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from highwater.traces.reading import INT32, INT64, MAX_VALUES, Source, TraceError, printable, split

# --- forms -----------------------------------------------------------------------------------------------

MAX_PARTITIONS = 100_000
"""More partitions than this in one request are refused."""
MAX_MS = 86_400_000.0
"""A request that took longer than a day is refused."""
NO_EPOCH = -1
_T = TypeVar("_T")
Number = Annotated[int, Meta(ge=-1, le=INT32)]
Long = Annotated[int, Meta(ge=-1, le=INT64)]
Ms = Annotated[float, Meta(ge=0, le=MAX_MS)]


class Header(Struct, rename="camel", gc=False, frozen=True):
    """What kind of request it is."""

    request_api_key: int


class Line(Struct, rename="camel", gc=False, frozen=True):
    """What each line has: the durations, in ms, say when a request was where."""

    request_header: Header
    connection: str
    total_time_ms: Ms
    request_queue_time_ms: Ms
    response_queue_time_ms: Ms
    send_time_ms: Ms
    throttle_time_ms: Ms


class Asked(
    Struct,
    rename={"leader_epoch": "currentLeaderEpoch", "offset": "fetchOffset", "last_epoch": "lastFetchedEpoch"},
    gc=False,
    frozen=True,
):
    """A partition in a fetch: from where, in which leader epoch, and the epoch of the last record before it."""

    partition: int
    leader_epoch: Number
    offset: Long
    last_epoch: Number = NO_EPOCH


class Diverging(Struct, rename="camel", gc=False, frozen=True):
    """Where logs part: the last epoch that both can have, and where it ends in the leader's."""

    epoch: Long
    end_offset: Long


class Answer(
    Struct,
    rename={
        "partition": "partitionIndex", "error": "errorCode", "hwm": "highWatermark", "size": "recordsSizeInBytes",
        "diverging": "divergingEpoch",
    },
    gc=False,
    frozen=True,
):  # fmt: skip
    """A partition in the answer to a fetch: ``size`` are bytes."""

    partition: int
    error: int
    hwm: Long
    size: int
    diverging: Diverging | None = None


class _Sender(Struct, rename="camel", gc=False, frozen=True):
    replica_id: int
    replica_epoch: Long


class FetchTopic(Struct, Generic[_T], rename="camel", gc=False, frozen=True):
    """A topic in a fetch or its answer: newer versions have its id, older ones its name."""

    partitions: Annotated[list[_T], Meta(max_length=MAX_PARTITIONS)]
    topic_id: str | None = None
    topic: object = None


class FetchRequest(Struct, rename="camel", gc=False, frozen=True):
    """A fetch; older versions have the sender's id beside the other fields, and no broker epoch."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic[Asked]]
    replica_state: _Sender | None = None
    replica_id: int | None = None
    forgotten_topics_data: list[FetchTopic[int]] | None = None


class FetchResponse(Struct, rename="camel", gc=False, frozen=True):
    """The answer to a fetch."""

    error_code: int
    session_id: int
    responses: list[FetchTopic[Answer]]


class FetchForm(Line, rename="camel", gc=False, frozen=True, kw_only=True):
    """A fetch and its answer."""

    request: FetchRequest
    response: FetchResponse
    remote_time_ms: float = 0


class _Written(Struct, rename="camel", gc=False, frozen=True):
    index: Number
    error_code: Number
    base_offset: Long


class _WrittenTopic(Struct, rename="camel", gc=False, frozen=True):
    partition_responses: list[_Written]
    topic_id: str | None = None
    name: str | None = None


class _Produce(Struct, rename="camel", gc=False, frozen=True):
    acks: Number
    transactional_id: str | None = None


class _ProduceAnswer(Struct, rename="camel", gc=False, frozen=True):
    responses: list[_WrittenTopic]


class ProduceForm(Line, rename="camel", gc=False, frozen=True, kw_only=True):
    """A write and its answer."""

    request: _Produce
    response: _ProduceAnswer
    remote_time_ms: float = 0


class HeartbeatRequest(Struct, rename="camel", gc=False, frozen=True):
    """What a broker tells."""

    broker_id: Number
    broker_epoch: Long
    current_metadata_offset: Long


class HeartbeatResponse(Struct, rename="camel", gc=False, frozen=True):
    """What it is told."""

    error_code: Number
    is_fenced: bool
    should_shut_down: bool


class HeartbeatForm(Line, rename="camel", gc=False, frozen=True, kw_only=True):
    """A broker's heartbeat and its answer."""

    request: HeartbeatRequest
    response: HeartbeatResponse
    remote_time_ms: float = 0


Form = FetchForm | ProduceForm | HeartbeatForm
PRODUCE, FETCH, HEARTBEAT = 0, 1, 63
"""Kafka's numbers of them."""
_DECODERS: dict[int, Decoder[FetchForm] | Decoder[ProduceForm] | Decoder[HeartbeatForm]] = {
    FETCH: Decoder(FetchForm), PRODUCE: Decoder(ProduceForm), HEARTBEAT: Decoder(HeartbeatForm),
}  # fmt: skip


def form_of(api: int, text: bytes) -> Form | None:
    """A request of this kind in its form; None where it has none, or its text is not of that form, or not ASCII.

    msgspec does not look at the bytes of texts that it passes over, so what can be no UTF-8 is not given to it.
    """
    decoder = _DECODERS.get(api)
    if decoder is None or not text.isascii():
        return None
    try:
        found = decoder.decode(text)
    except (DecodeError, RecursionError):
        return None
    return found if found.request_header.request_api_key == api else None


# --- lines -----------------------------------------------------------------------------------------------

PRODUCE, FETCH, ALTER_PARTITION, REGISTRATION, HEARTBEAT = PRODUCE, FETCH, 56, 62, HEARTBEAT
"""Kafka's numbers of the requests that are read; others are counted by name."""
READ = frozenset({PRODUCE, FETCH, ALTER_PARTITION, REGISTRATION, HEARTBEAT})

_HEAD = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d):(\d\d)[,.](\d{3})\] [A-Z]+ $")
_HEAD_SIZE = 40
_START, _END = b"Completed request:", b" (kafka.request.logger)"
_KEY = re.compile(rb'"requestApiKey":(\d{1,4}),')
_NAME = re.compile(rb'"requestApiKeyName":"([A-Z_]{1,60})"')
_BEGINNING = 1 << 16
_KEY_WITHIN = 300
"""The key stands in the header, which comes first."""
_decode = json.JSONDecoder().raw_decode
_DAY_MS = 86_400_000


class Plain(Struct, gc=False, frozen=True):
    """A request as the objects of its JSON: of a kind, or a version, that has no form of its own."""

    header: dict[str, Any]
    request: dict[str, Any]
    response: dict[str, Any]
    """Empty where there is none: a write with acks 0."""


class RequestLine(Struct, array_like=True, gc=False, frozen=True):
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
    said: object
    """The request and its response, a ``Form`` or ``Plain``; None where they were read, and are not needed any more."""


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
    clock = _Clock(path, utc_offset_ms)
    names: dict[int, str] = {}
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
            api = -1 if key is None else int(key[1])
            if key is not None and api not in wanted:
                if api not in names:
                    name = _NAME.search(line, at)
                    names[api] = name[1].decode() if name else f"request {api}"
                counted.others[names[api]] += 1
                continue
            found = _parsed(path, number, line, at, end, api, clock)
            if found.api in wanted:
                yield found


def _parsed(path: Path, number: int, line: bytes, at: int, end: int, api: int, clock: _Clock) -> RequestLine:
    """The request between two places of a line. ``api`` is what its header seems to say, −1 where that is not seen."""
    ended = clock.at(number, line, at)
    text = line[at + len(_START) : end]
    if len(text) > MAX_VALUES and sum(map(text.count, (b"{", b"[", b","))) > MAX_VALUES:
        raise TraceError(path, number, None, f"more than {MAX_VALUES:,} values")
    said = form_of(api, text)
    if said is None:
        return _plain(path, number, text, ended)
    total, queued = said.total_time_ms, said.request_queue_time_ms
    sent = said.send_time_ms + said.response_queue_time_ms + said.throttle_time_ms
    if queued > total or sent > MAX_MS:
        return _plain(path, number, text, ended)
    arrived = ended - total
    taken, connection = arrived + queued, said.connection
    return RequestLine(
        path, number, api, arrived, taken, max(taken, ended - sent), ended, said.remote_time_ms > 0,
        connection.partition("-")[0], connection, said,
    )  # fmt: skip


def _plain(path: Path, number: int, text: bytes, ended: float) -> RequestLine:
    """A request as the objects of its JSON. Raises TraceError where it is none."""
    try:
        found, _ = _decode(text.decode())
    except (ValueError, RecursionError) as wrong:
        raise TraceError(path, number, None, f"not JSON: {printable(wrong)}") from None
    try:
        header, request, response = found["requestHeader"], found["request"], found["response"]
        if response == "":
            response = {}
        api, connection = header["requestApiKey"], found["connection"]
        total, queued = found["totalTimeMs"], found["requestQueueTimeMs"]
        waited = found.get("remoteTimeMs", 0) > 0
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
    arrived = ended - total
    answered = max(arrived + queued, ended - sent)
    return RequestLine(
        path, number, api, arrived, arrived + queued, answered, ended, waited, connection.partition("-")[0],
        connection, Plain(header, request, response),
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
    remote = found.get("remoteTimeMs", 0)
    if not isinstance(remote, (int, float)):
        return TraceError(path, number, "remoteTimeMs", "expected a number of ms")
    return TraceError(path, number, "requestQueueTimeMs", "longer than totalTimeMs")


class _Clock:
    """When the lines of a log were written, in ms: UTC, where the node's local time is ahead by the offset."""

    def __init__(self, path: Path, utc_offset_ms: float) -> None:
        self._path, self._offset = path, utc_offset_ms
        self._minute, self._start = b"", 0

    def at(self, number: int, line: bytes, at: int) -> float:
        """The time of a line whose request begins there. Raises TraceError where it has none."""
        head = _HEAD.search(line, max(0, at - _HEAD_SIZE), at)
        if head is None:
            raise TraceError(self._path, number, None, "no date and time before the request")
        minute, second, ms = head.groups()
        if minute != self._minute:
            self._start, self._minute = self._starts(number, minute), minute
        return self._start + int(second) * 1000 + int(ms) - self._offset

    def _starts(self, number: int, text: bytes) -> int:
        day, hour, minute = text[:10].decode(), text[11:13], text[14:]
        start = start_of_day(day)
        if start is None:
            raise TraceError(self._path, number, None, f"no such day: {printable(day)}")
        return start + int(hour) * 3_600_000 + int(minute) * 60_000


@lru_cache(maxsize=1024)
def start_of_day(day: str) -> int | None:
    """The ms from 1970 to the start of a day, counted as if the log's time were UTC; None if there is no such day."""
    try:
        return (date.fromisoformat(day).toordinal() - date(1970, 1, 1).toordinal()) * _DAY_MS
    except ValueError:
        return None


# --- shapes ----------------------------------------------------------------------------------------------

_ID, _EPOCH, _OFFSET = (-1, INT32), (-1, INT64), (-1, INT64)
_TOPIC = {"topicId": str}
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "_fetch": (
        {
            "replicaState": {"replicaId": _ID, "replicaEpoch": _EPOCH},
            "sessionId": _ID,
            "sessionEpoch": _ID,
            "topics": [
                {
                    **_TOPIC,
                    "partitions": [
                        {
                            "partition": _ID,
                            "currentLeaderEpoch": _ID,
                            "fetchOffset": _OFFSET,
                            "lastFetchedEpoch": _ID,
                        }
                    ],
                }
            ],
            "forgottenTopicsData": [{**_TOPIC, "partitions": [_ID]}],
        },
        {
            "errorCode": _ID,
            "sessionId": _ID,
            "responses": [
                {
                    **_TOPIC,
                    "partitions": [
                        {
                            "partitionIndex": _ID,
                            "errorCode": _ID,
                            "highWatermark": _OFFSET,
                            "recordsSizeInBytes": _ID,
                            "divergingEpoch?": {"epoch": _ID, "endOffset": _OFFSET},
                        }
                    ],
                }
            ],
        },
    ),
    "_produce": (
        {"acks": _ID},
        {
            "responses?": [
                {**_TOPIC, "partitionResponses": [{"index": _ID, "errorCode": _ID, "baseOffset": _OFFSET}]}
            ]
        },
    ),
    "_alter": (
        {
            "brokerId": _ID,
            "brokerEpoch": _EPOCH,
            "topics": [
                {
                    **_TOPIC,
                    "partitions": [
                        {
                            "partitionIndex": _ID,
                            "leaderEpoch": _ID,
                            "partitionEpoch": _ID,
                            "newIsrWithEpochs": [{"brokerId": _ID, "brokerEpoch": _EPOCH}],
                        }
                    ],
                }
            ],
        },
        {
            "errorCode": _ID,
            "topics": [
                {
                    **_TOPIC,
                    "partitions": [
                        {
                            "partitionIndex": _ID,
                            "errorCode": _ID,
                            "leaderId": _ID,
                            "leaderEpoch": _ID,
                            "isr": [_ID],
                            "partitionEpoch": _ID,
                        }
                    ],
                }
            ],
        },
    ),
    "_registered": ({"brokerId": _ID}, {"errorCode": _ID, "brokerEpoch": _EPOCH}),
    "_heartbeat": (
        {"brokerId": _ID, "brokerEpoch": _EPOCH, "currentMetadataOffset": _OFFSET},
        {"errorCode": _ID, "isFenced": bool, "shouldShutDown": bool},
    ),
}  # fmt: skip
"""The fields of the present versions with their types: asked only where a line could not be read, to say why."""


def check(line: RequestLine, said: Plain, shapes: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Raise TraceError where a request or its response is not of these shapes: file, line, field."""
    for name, value, shape in (("request", said.request, shapes[0]), ("response", said.response, shapes[1])):
        wrong = _mismatch(value, shape, name)
        if wrong is not None:
            raise TraceError(line.path, line.line, *wrong)


_OLD = frozenset({"topicId", "replicaState", "newIsrWithEpochs", "lastFetchedEpoch", "forgottenTopicsData"})
"""Fields in whose place older versions have others, or none."""


def _mismatch(value: Any, shape: Any, path: str) -> tuple[str, str] | None:
    """The path of the first field that is not as it has to be, and what is wrong with it."""
    if isinstance(shape, tuple):
        low, high = shape
        if isinstance(value, bool) or not isinstance(value, int):
            return path, f"expected a whole number, not {printable(value, 40)}"
        return None if low <= value <= high else (path, f"{printable(value, 40)} is outside {low}..{high}")
    if isinstance(shape, type):
        return None if isinstance(value, shape) else (path, f"expected {shape.__name__}")
    if isinstance(shape, list):
        if not isinstance(value, list):
            return path, "expected a list"
        if len(value) > MAX_PARTITIONS:
            return path, f"more than {MAX_PARTITIONS} items"
        parts = ((item, shape[0], f"{path}[{i}]") for i, item in enumerate(value))
    else:
        if not isinstance(value, dict):
            return path, "expected an object"
        missing = next((n for n in shape if n not in value and n not in _OLD and not n.endswith("?")), None)
        if missing is not None:
            return f"{path}.{missing}", "missing"
        parts = (
            (value[n.rstrip("?")], inner, f"{path}.{n.rstrip('?')}")
            for n, inner in shape.items()
            if value.get(n.rstrip("?")) is not None or not (n.endswith("?") or n in _OLD)
        )
    return next((wrong for part in parts if (wrong := _mismatch(*part)) is not None), None)
