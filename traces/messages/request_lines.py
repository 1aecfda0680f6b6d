"""Request logs, line by line: the times of a request, the data of request and answer, and the fetch sessions.

A line is log4j's prefix (time and level), ``Completed request:``, one JSON object, and the logger's name in
parentheses. Kafka writes the line after it has sent the response, so the line's time is the end of the request; the
durations in the JSON give the other times. A killed process leaves a torn line, and the next process continues in the
same line of the file.

msgspec decodes a line into the used fields and checks their types. Older versions have a topic's name where newer ones
have its id, and have a fetch's sender in another field; both forms are read. A topic stays as the line has it: a name
or an id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from msgspec import DecodeError, Meta, Struct, ValidationError
from msgspec.json import Decoder
from msgspec.structs import replace

from highwater.traces.reading import (
    INT32,
    INT64,
    MAX_VALUES,
    Source,
    TraceError,
    epoch_ms,
    mismatch,
    printable,
    split,
)

# --- forms of the JSON -----------------------------------------------------------------------------------

MAX_PARTITIONS = 100_000
"""A longer list of partitions is refused."""
MAX_MS = 86_400_000.0
"""A duration of more than a day is refused."""
NO_EPOCH = -1
PRODUCE, FETCH, ALTER_PARTITION, REGISTRATION, HEARTBEAT = 0, 1, 56, 62, 63
"""Kafka's API keys of the requests that are read; others are counted by name."""
_T = TypeVar("_T")
_Q = TypeVar("_Q")
_A = TypeVar("_A")
Number = Annotated[int, Meta(ge=-1, le=INT32)]
Long = Annotated[int, Meta(ge=-1, le=INT64)]
Ms = Annotated[float, Meta(ge=0, le=MAX_MS)]


class _Form(Struct, rename="camel", gc=False, frozen=True):
    """The base of the JSON objects in a line. Unknown fields are skipped."""


class Header(_Form, rename="camel", gc=False, frozen=True):
    """The API key and the version of a request."""

    request_api_key: int
    request_api_version: int


class Exchanged(_Form, Generic[_Q, _A], rename="camel", gc=False, frozen=True, kw_only=True):
    """A request and its response in a line of JSON. Durations are in ms."""

    request_header: Header
    connection: str
    total_time_ms: Ms
    request_queue_time_ms: Ms
    response_queue_time_ms: Ms
    send_time_ms: Ms
    throttle_time_ms: Ms
    request: _Q
    response: _A


class _Topic(_Form, Generic[_T], rename="camel", gc=False, frozen=True):
    partitions: Annotated[list[_T], Meta(max_length=MAX_PARTITIONS)]
    topic_id: str | None = None
    topic: str | None = None


class RequestedPartition(
    Struct,
    rename={"leader_epoch": "currentLeaderEpoch", "offset": "fetchOffset", "last_epoch": "lastFetchedEpoch"},
    gc=False,
    frozen=True,
):
    """A partition in a fetch: fetch offset, leader epoch, and the leader epoch of the last record before the offset."""

    partition: Number
    leader_epoch: Number
    offset: Long
    last_epoch: Number = NO_EPOCH


class Diverging(_Form, rename="camel", gc=False, frozen=True):
    """The last leader epoch that the leader's and the follower's logs can share, and its end in the leader's log."""

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
    """A partition in the answer to a fetch; ``size`` is the size of its records in bytes."""

    partition: Number
    error: Number
    hwm: Long
    size: Number
    diverging: Diverging | None = None


class _Sender(_Form, rename="camel", gc=False, frozen=True):
    replica_id: Number
    replica_epoch: Long


class _FetchRequest(_Form, rename="camel", gc=False, frozen=True):
    session_id: Number
    session_epoch: Number
    topics: list[_Topic[RequestedPartition]]
    replica_state: _Sender | None = None
    replica_id: Number | None = None
    forgotten_topics_data: list[_Topic[Number]] | None = None


class _FetchResponse(_Form, rename="camel", gc=False, frozen=True):
    error_code: Number
    session_id: Number
    responses: list[_Topic[Answer]]


class _Written(_Form, rename="camel", gc=False, frozen=True):
    index: Number
    error_code: Number = 0
    base_offset: Long = -1


class _WrittenTopic(_Form, rename="camel", gc=False, frozen=True):
    topic_id: str | None = None
    name: str | None = None
    partition_data: list[_Written] = []
    partition_responses: list[_Written] = []


class _ProduceRequest(_Form, rename="camel", gc=False, frozen=True):
    acks: Number
    topic_data: list[_WrittenTopic] = []


class _ProduceResponse(_Form, rename="camel", gc=False, frozen=True):
    responses: list[_WrittenTopic]


class _Member(_Form, rename="camel", gc=False, frozen=True):
    broker_id: Number
    broker_epoch: Long


class _Proposed(_Form, rename="camel", gc=False, frozen=True):
    partition_index: Number
    leader_epoch: Number
    partition_epoch: Number
    new_isr_with_epochs: list[_Member] | None = None
    new_isr: list[Number] | None = None
    leader_recovery_state: Number = 0


class _Decided(_Form, rename="camel", gc=False, frozen=True):
    partition_index: Number
    error_code: Number
    leader_id: Number
    leader_epoch: Number
    isr: list[Number]
    partition_epoch: Number


class _AlterRequest(_Form, rename="camel", gc=False, frozen=True):
    broker_id: Number
    broker_epoch: Long
    topics: list[_Topic[_Proposed]]


class _AlterResponse(_Form, rename="camel", gc=False, frozen=True):
    error_code: Number
    topics: list[_Topic[_Decided]]


class _Registration(_Form, rename="camel", gc=False, frozen=True):
    broker_id: Number


class _HeartbeatRequest(_Form, rename="camel", gc=False, frozen=True):
    broker_id: Number
    broker_epoch: Long
    current_metadata_offset: Long


class _HeartbeatResponse(_Form, rename="camel", gc=False, frozen=True):
    error_code: Number


class _RegistrationResponse(_Form, rename="camel", gc=False, frozen=True):
    error_code: Number
    broker_epoch: Long


_DECODERS: dict[int, Decoder[Exchanged[Any, Any]]] = {
    FETCH: Decoder(Exchanged[_FetchRequest, _FetchResponse]),
    # With acks 0 the response is an empty text.
    PRODUCE: Decoder(Exchanged[_ProduceRequest, _ProduceResponse | Literal[""]]),
    ALTER_PARTITION: Decoder(Exchanged[_AlterRequest, _AlterResponse]),
    REGISTRATION: Decoder(Exchanged[_Registration, _RegistrationResponse]),
    HEARTBEAT: Decoder(Exchanged[_HeartbeatRequest, _HeartbeatResponse]),
}
READ = frozenset(_DECODERS)

# --- lines -----------------------------------------------------------------------------------------------

_HEAD = re.compile(rb"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)[,.](\d{3})\] [A-Z]+ $")
_HEAD_SIZE = 40
_START, _END = b"Completed request:", b" (kafka.request.logger)"
_KEY = re.compile(rb'"requestApiKey":(\d{1,4}),')
_NAME = re.compile(rb'"requestApiKeyName":"([A-Z_]{1,60})"')
_BEGINNING = 1 << 16
_KEY_WITHIN = 300
"""The API key is searched for in this many bytes from the request's start: the header, which has it, comes first."""


class RequestLine(Struct, array_like=True, gc=False, frozen=True):
    """An answered request. Times are in ms since the epoch, by the node's clock minus the reader's ``utc_offset_ms``.

    The times are ``arrived``, ``taken`` (a handler read the request), ``answered`` (the response was complete) and
    ``ended`` (the response was sent, and the line was written). ``listener`` is the address and port to which the
    request came.
    """

    path: Path
    line: int
    api: int
    arrived: float
    taken: float
    answered: float
    ended: float
    listener: str
    connection: str
    exchange: Any
    """The decoded request and response, an ``Exchanged``; None once they are no longer needed."""

    def wrong(self, field: str | None, message: str) -> TraceError:
        """A TraceError about this line, for the caller to raise."""
        return TraceError(self.path, self.line, field, message)

    def earlier(self, by_ms: float) -> RequestLine:
        """This line with ``by_ms`` subtracted from its times."""
        times = {name: getattr(self, name) - by_ms for name in ("arrived", "taken", "answered", "ended")}
        return replace(self, **times)


@dataclass
class Counted:
    """Counts of lines: unwanted requests by API name, torn lines, and all requests."""

    others: Counter[str] = field(default_factory=Counter)
    cut: int = 0
    first_cut: tuple[Path, int] | None = None
    lines: int = 0

    def cut_off(self, path: Path, line: int) -> None:
        """Count a torn line."""
        self.cut += 1
        self.first_cut = self.first_cut or (path, line)


def is_request_log(head: bytes) -> bool:
    """True if a file with these first bytes, decompressed, is a request log."""
    for line in head.split(b"\n")[:100]:
        at = line.find(_START)
        if at > 0 and _HEAD.search(line, max(0, at - _HEAD_SIZE), at) and _KEY.search(line):
            return True
    return False


def begins(path: Path) -> bytes:
    """Time and level of a file's first request line, for sorting files by time; empty if the first 64 KiB have none.

    Raises TraceError if the file cannot be read.
    """
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
    """Read the requests of the APIs ``wanted`` in the order of the file; requests of other APIs are counted.

    ``utc_offset_ms`` is the lead of the node's local time over UTC; it is subtracted from all times. Other lines are
    skipped, and torn lines counted. Raises TraceError if the file cannot be read, or a request line is malformed.
    """
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
                # The text before this request was cut off when its process died.
                counted.cut_off(path, number)
            end = line.rfind(_END)
            if end < at:
                counted.cut_off(path, number)
                continue
            key = _KEY.search(line, at, at + _KEY_WITHIN)
            if key is None:
                raise TraceError(
                    path, number, "requestHeader.requestApiKey", "no number where the request begins"
                )
            api = int(key[1])
            if api not in wanted:
                if api not in names:
                    name = _NAME.search(line, at)
                    names[api] = name[1].decode() if name else f"request {api}"
                counted.others[names[api]] += 1
                continue
            ended = _time(path, number, line, at) - utc_offset_ms
            yield _parsed(path, number, line[at + len(_START) : end], api, ended)


def _parsed(path: Path, number: int, text: bytes, api: int, ended: float) -> RequestLine:
    """Parse the request in a text. Raises TraceError if it is malformed."""
    if len(text) > MAX_VALUES and sum(map(text.count, (b"{", b"[", b","))) > MAX_VALUES:
        raise TraceError(path, number, None, f"more than {MAX_VALUES:,} values")
    try:
        if not text.isascii():
            text.decode()  # msgspec does not check the bytes of skipped texts
        exchange = _DECODERS[api].decode(text)
    except RecursionError:
        raise TraceError(path, number, None, "JSON nested too deeply") from None
    except ValidationError as wrong:
        raise TraceError(path, number, *mismatch(wrong)) from None
    except (DecodeError, UnicodeDecodeError) as wrong:
        raise TraceError(path, number, None, f"not JSON: {printable(wrong)}") from None
    total, queued = exchange.total_time_ms, exchange.request_queue_time_ms
    if exchange.request_header.request_api_key != api:
        raise TraceError(path, number, "requestHeader.requestApiKey", "stands twice")
    if queued > total:
        raise TraceError(path, number, "requestQueueTimeMs", "longer than totalTimeMs")
    taken, connection = ended - total + queued, exchange.connection
    sent = exchange.send_time_ms + exchange.response_queue_time_ms + exchange.throttle_time_ms
    return RequestLine(
        path, number, api, ended - total, taken, max(taken, ended - sent), ended,
        connection.partition("-")[0], connection, exchange,
    )  # fmt: skip


def _time(path: Path, number: int, line: bytes, at: int) -> float:
    """The time of a line in ms; ``at`` is the position of the request. Raises TraceError if it has no time."""
    head = _HEAD.search(line, max(0, at - _HEAD_SIZE), at)
    if head is None:
        raise TraceError(path, number, None, "no date and time before the request")
    found = epoch_ms(*map(int, head.groups()))
    if found is None:
        raise TraceError(path, number, None, f"no such time: {printable(head[0][1:24].decode())}")
    return found


# --- messages --------------------------------------------------------------------------------------------

Key = tuple[str, int]
"""A partition: its topic, by id or name, and its number."""
CONSUMER = -1
"""The replica id of a client that is not a replica."""


class Fetch(Struct, gc=False, frozen=True):
    """A fetch and its answer. ``replica`` is a broker or CONSUMER; ``epoch`` is the broker epoch, −1 for none.

    ``continued_session`` is the session in the fetch; ``session`` is the one in the answer.
    """

    line: RequestLine
    replica: int
    epoch: int
    continued_session: int
    session_epoch: int
    requested: dict[Key, RequestedPartition]
    forgotten: tuple[Key, ...]
    error: int
    session: int
    answers: dict[Key, Answer]


class Produced(NamedTuple):
    """A partition of a produce request and its answer.

    ``offset`` is the batch's start offset in the answer, −1 for none. ``answered`` is false with acks 0.
    """

    acks: int
    key: Key
    error: int
    offset: int
    answered: bool = True


class Proposal(Struct, array_like=True, gc=False, frozen=True):
    """A partition of an AlterPartition request and its answer.

    ``members`` are pairs of broker and broker epoch; the broker epoch is −1 if the request has none.
    """

    line: RequestLine
    broker: int
    broker_epoch: int
    key: Key
    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int], ...]
    recovering: bool
    version: int
    error: int
    answer_leader: int
    answer_leader_epoch: int
    answer_isr: tuple[int, ...]
    answer_partition_epoch: int


def _by_key(line: RequestLine, place: str, topics: Sequence[_Topic[_T]]) -> Iterator[tuple[str, _T]]:
    """The partitions of topics, each with its topic's id or name. Raises TraceError if a topic has neither."""
    for topic in topics:
        name = topic.topic if topic.topic_id is None else topic.topic_id
        if name is None:
            raise line.wrong(f"{place}.topicId", "missing")
        for partition in topic.partitions:
            yield name, partition


def read_fetch(line: RequestLine) -> Fetch:
    """Read a fetch and its answer from a line. Raises TraceError if a field is missing."""
    exchange = line.exchange
    request: _FetchRequest = exchange.request
    response: _FetchResponse = exchange.response
    sender = request.replica_state
    replica = request.replica_id if sender is None else sender.replica_id
    if replica is None:
        raise line.wrong("request.replicaState", "missing")
    gone = request.forgotten_topics_data
    return Fetch(
        line, replica, NO_EPOCH if sender is None else sender.replica_epoch, request.session_id, request.session_epoch,
        {(name, p.partition): p for name, p in _by_key(line, "request.topics", request.topics)},
        tuple(_by_key(line, "request.forgottenTopicsData", gone)) if gone else (),
        response.error_code, response.session_id,
        {(name, p.partition): p for name, p in _by_key(line, "response.responses", response.responses)},
    )  # fmt: skip


def read_produce(line: RequestLine) -> list[Produced]:
    """Read a produce request and its answer, partition by partition. Raises TraceError if a topic has no name or id."""
    exchange = line.exchange
    request: _ProduceRequest = exchange.request
    is_answered = exchange.response != ""
    topics: list[_WrittenTopic] = exchange.response.responses if is_answered else request.topic_data
    found = []
    for topic in topics:
        name = topic.name if topic.topic_id is None else topic.topic_id
        if name is None:
            raise line.wrong("response.responses.topicId", "missing")
        for p in topic.partition_responses if is_answered else topic.partition_data:
            found.append(Produced(request.acks, (name, p.index), p.error_code, p.base_offset, is_answered))
    return found


def read_alter(line: RequestLine) -> list[Proposal]:
    """Read the proposals in an AlterPartition request and their answers. Raises TraceError if one is incomplete."""
    exchange = line.exchange
    request: _AlterRequest = exchange.request
    response: _AlterResponse = exchange.response
    answers = {(name, p.partition_index): p for name, p in _by_key(line, "response.topics", response.topics)}
    found = []
    for name, p in _by_key(line, "request.topics", request.topics):
        key = name, p.partition_index
        if p.new_isr_with_epochs is not None:
            members = tuple((m.broker_id, m.broker_epoch) for m in p.new_isr_with_epochs)
        elif p.new_isr is not None:
            members = tuple((member, NO_EPOCH) for member in p.new_isr)
        else:
            raise line.wrong("request.topics.partitions.newIsrWithEpochs", "missing")
        answer = answers.get(key)
        if response.error_code:
            answer = _Decided(p.partition_index, response.error_code, -1, -1, [], -1)
        if answer is None:
            raise line.wrong("response.topics", f"no answer for partition {p.partition_index}")
        proposal = Proposal(
            line, request.broker_id, request.broker_epoch, key, p.leader_epoch, p.partition_epoch, members,
            p.leader_recovery_state == 1, exchange.request_header.request_api_version, answer.error_code,
            answer.leader_id, answer.leader_epoch, tuple(answer.isr), answer.partition_epoch,
        )  # fmt: skip
        found.append(proposal)
    return found


# --- sessions --------------------------------------------------------------------------------------------

# KIP-227: a fetch lists the changes since the previous fetch of its session, and an answer lists the partitions with
# new data. A partition in neither list is fetched again as before. After a missing line, only the partitions that later
# fetches list are known.

MAX_SESSIONS, MAX_REQUESTED = 2_000, 100_000
"""The most sessions of followers that are stored (the last used ones), and the most partitions of each."""
FULL, CLOSING = 0, -1
"""The session epochs of a fetch that lists all partitions, and of a fetch that ends its session."""


@dataclass(slots=True)
class Session:
    """A fetch session: the session epoch of its last fetch, and its partitions as last requested."""

    epoch: int
    requested: dict[Key, RequestedPartition] = field(default_factory=dict)


class Sessions:
    """The fetch sessions of one node. ``gaps`` counts the fetches that continue a session after missing lines."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}
        """The sessions by number, the last used one last."""
        self.gaps = 0

    def take(self, fetch: Fetch) -> Mapping[Key, RequestedPartition]:
        """Update the sessions with a fetch, and return the partitions that the fetch requests.

        The result is valid until the next fetch.
        """
        if fetch.session_epoch <= FULL:
            self._sessions.pop(fetch.continued_session, None)
            if fetch.session_epoch == FULL and fetch.session and not fetch.error:
                self._keep(fetch.session, Session(0, dict(fetch.requested)))
            return fetch.requested
        session = self._sessions.pop(fetch.continued_session, None)
        if session is None or session.epoch + 1 != fetch.session_epoch:
            self.gaps += 1
            session = Session(fetch.session_epoch)
        session.epoch = fetch.session_epoch
        if len(session.requested) > MAX_REQUESTED:
            session.requested.clear()
        session.requested.update(fetch.requested)
        for key in fetch.forgotten:
            session.requested.pop(key, None)
        if fetch.session == fetch.continued_session:
            self._keep(fetch.session, session)
        return session.requested

    def _keep(self, number: int, session: Session) -> None:
        self._sessions.pop(number, None)
        self._sessions[number] = session
        if len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
