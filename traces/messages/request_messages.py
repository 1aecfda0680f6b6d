"""The messages of request logs, and the fetch sessions that they belong to.

What requests and responses say, as plain values. Fields that are not needed are not looked at.

The names are those of Kafka's JSON converters. Older versions name a topic where newer ones have its id, and a fetch's
sender beside the request's other fields; both are read. A topic is kept as it is written.

Fetch sessions (KIP-227): which partitions a fetch is about that it does not name.

A fetch names what changed since the one before in its session, an answer what there is to say. What is in neither is
fetched again as before, and has the HWM that was told last. After a line that is missing nothing is known of a session
but what the next fetch names.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct, ValidationError, convert

from highwater.traces.messages.request_lines import (
    MAX_PARTITIONS,
    NO_EPOCH,
    SHAPES,
    Answer,
    Asked,
    FetchForm,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    HeartbeatForm,
    HeartbeatRequest,
    HeartbeatResponse,
    Plain,
    ProduceForm,
    RequestLine,
    check,
)
from highwater.traces.reading import INT64, TraceError

# --- messages --------------------------------------------------------------------------------------------

Key = tuple[str, int]
"""A topic, by its id or its name, and the number of a partition."""
CONSUMER = -1
"""The replica id of who is no replica."""


class Fetch(Struct, gc=False, frozen=True):
    """A fetch of a replica and its answer. ``epoch`` is the sender's broker epoch, ``session`` is in the answer."""

    line: RequestLine
    replica: int
    epoch: int
    asked_session: int
    session_epoch: int
    asked: dict[Key, Asked]
    forgotten: tuple[Key, ...]
    error: int
    session: int
    answers: dict[Key, Answer]


class Produced(Struct, gc=False, frozen=True):
    """A partition of a produce request: ``acks`` as asked for, and what was answered; without an answer offset −1.

    ``transactional``: the end of its transaction is written to the log by a request of another kind. ``answered``:
    with acks 0 nothing is.
    """

    acks: int
    key: Key
    error: int
    offset: int
    transactional: bool
    answered: bool = True


class Proposal(Struct, array_like=True, gc=False, frozen=True):
    """A partition of an AlterPartition and its answer. ``members`` are broker and epoch, −1 where none is given."""

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


class Registered(NamedTuple):
    """A registration of a broker: its epoch where it was accepted."""

    line: RequestLine
    broker: int
    error: int
    broker_epoch: int


class Heartbeat(NamedTuple):
    """A heartbeat: up to where the broker has replayed the metadata log, and what it is told."""

    line: RequestLine
    broker: int
    broker_epoch: int
    metadata_offset: int
    error: int
    is_fenced: bool
    should_shut_down: bool


def _topic(found: Mapping[str, Any], old: str = "topic") -> str:
    name = found.get("topicId")
    if name is None:
        name = found[old]
    if name.__class__ is not str:
        raise TypeError
    return name


def _produce(line: RequestLine, said: Plain) -> list[Produced]:
    request = said.request
    acks, transactional = request["acks"], request.get("transactionalId") is not None
    if not said.response:
        return [
            Produced(acks, (_topic(topic, "name"), p["index"]), 0, -1, transactional, answered=False)
            for topic in request["topicData"]
            for p in topic["partitionData"]
        ]
    return [
        Produced(acks, (_topic(topic, "name"), p["index"]), p["errorCode"], p["baseOffset"], transactional)
        for topic in said.response["responses"]
        for p in topic["partitionResponses"]
    ]


def _alter(line: RequestLine, said: Plain) -> list[Proposal]:
    answers = {
        (_topic(topic), p["partitionIndex"]): p
        for topic in said.response["topics"]
        for p in topic["partitions"]
    }
    whole, found, request = said.response["errorCode"], [], said.request
    nothing = {"errorCode": whole, "leaderId": -1, "leaderEpoch": -1, "isr": [], "partitionEpoch": -1}
    for topic in request["topics"]:
        name = _topic(topic)
        for p in topic["partitions"]:
            key = (name, p["partitionIndex"])
            if "newIsrWithEpochs" in p:
                members = tuple((m["brokerId"], m["brokerEpoch"]) for m in p["newIsrWithEpochs"])
            else:
                members = tuple((m, NO_EPOCH) for m in p["newIsr"])
            answer = nothing if whole else answers[key]
            found.append(
                Proposal(
                    line,
                    request["brokerId"],
                    request["brokerEpoch"],
                    key,
                    p["leaderEpoch"],
                    p["partitionEpoch"],
                    members,
                    p.get("leaderRecoveryState", 0) == 1,
                    said.header["requestApiVersion"],
                    answer["errorCode"],
                    answer["leaderId"],
                    answer["leaderEpoch"],
                    tuple(answer["isr"]),
                    answer["partitionEpoch"],
                )
            )
    return found


def _registered(line: RequestLine, said: Plain) -> Registered:
    return Registered(
        line, said.request["brokerId"], said.response["errorCode"], said.response["brokerEpoch"]
    )


_T = TypeVar("_T")
_U = TypeVar("_U")


def _unknown(line: RequestLine) -> TraceError:
    return TraceError(line.path, line.line, None, "no request of a version that is known")


def _read(
    line: RequestLine, read: Callable[[RequestLine, Plain], _T], *, checked: bool = False
) -> tuple[_T, Plain]:
    """What a request without a form says. ``checked``: its shapes are asked of each line, not only where it is wrong.

    Raises TraceError with file, line and field.
    """
    said, shapes = line.said, SHAPES[read.__name__]
    if not isinstance(said, Plain):
        raise _unknown(line)
    if checked:
        check(line, said, shapes)
    try:
        return read(line, said), said
    except (KeyError, TypeError, AttributeError):
        check(line, said, shapes)
        raise _unknown(line) from None


def _converted(line: RequestLine, request: type[_T], response: type[_U], shapes: str) -> tuple[_T, _U]:
    """What comes as objects in its forms. Raises TraceError with file, line and field."""
    if not isinstance(line.said, Plain):
        raise _unknown(line)
    try:
        return convert(line.said.request, request), convert(line.said.response, response)
    except ValidationError:
        check(line, line.said, SHAPES[shapes])
        raise TraceError(line.path, line.line, None, "a number is missing or out of range") from None


def read_fetch(line: RequestLine) -> Fetch:
    """A fetch and its answer. Raises TraceError where the line does not say it."""
    if isinstance(line.said, FetchForm):
        request, response = line.said.request, line.said.response
    else:
        request, response = _converted(line, FetchRequest, FetchResponse, "_fetch")
    asked, answers = {}, {}
    for topic in request.topics:
        name = _name(line, topic)
        for p in topic.partitions:
            asked[(name, p.partition)] = p
    for found in response.responses:
        name = _name(line, found)
        for answer in found.partitions:
            answers[(name, answer.partition)] = answer
    gone = request.forgotten_topics_data
    forgotten = tuple((_name(line, t), p) for t in gone for p in t.partitions) if gone else ()
    if len(asked) > MAX_PARTITIONS or len(answers) > MAX_PARTITIONS or len(forgotten) > MAX_PARTITIONS:
        raise _unknown(line)
    sender = request.replica_state
    replica = request.replica_id if sender is None else sender.replica_id
    if replica is None:
        raise _unknown(line)
    return Fetch(
        line, replica, NO_EPOCH if sender is None else sender.replica_epoch, request.session_id,
        request.session_epoch, asked, forgotten, response.error_code, response.session_id, answers,
    )  # fmt: skip


def _name(line: RequestLine, topic: FetchTopic[_T]) -> str:
    name = topic.topic if topic.topic_id is None else topic.topic_id
    if not isinstance(name, str):
        raise _unknown(line)
    return name


def read_produce(line: RequestLine) -> list[Produced]:
    """A write and its answer, partition by partition. Raises TraceError where the line does not say it."""
    if isinstance(line.said, ProduceForm):
        return _formed_produce(line, line.said)
    found, said = _read(line, _produce)
    for one in found:
        for n in (one.acks, one.key[1], one.error, one.offset):
            if n.__class__ is not int or not -1 <= n <= INT64:
                check(line, said, SHAPES["_produce"])
                raise TraceError(line.path, line.line, None, "a number is missing or out of range")
    return found


def _formed_produce(line: RequestLine, said: ProduceForm) -> list[Produced]:
    acks, transactional = said.request.acks, said.request.transactional_id is not None
    found = []
    for topic in said.response.responses:
        name = topic.name if topic.topic_id is None else topic.topic_id
        if name is None:
            raise _unknown(line)
        for p in topic.partition_responses:
            found.append(Produced(acks, (name, p.index), p.error_code, p.base_offset, transactional))
    return found


def read_alter(line: RequestLine) -> list[Proposal]:
    """The proposals of an AlterPartition. Raises TraceError where the line does not say them."""
    return _read(line, _alter, checked=True)[0]


def read_registered(line: RequestLine) -> Registered:
    """A registration. Raises TraceError where the line does not say it."""
    return _read(line, _registered, checked=True)[0]


def read_heartbeat(line: RequestLine) -> Heartbeat:
    """A heartbeat. Raises TraceError where the line does not say it."""
    if isinstance(line.said, HeartbeatForm):
        request, response = line.said.request, line.said.response
    else:
        request, response = _converted(line, HeartbeatRequest, HeartbeatResponse, "_heartbeat")
    return Heartbeat(
        line, request.broker_id, request.broker_epoch, request.current_metadata_offset,
        response.error_code, response.is_fenced, response.should_shut_down,
    )  # fmt: skip


# --- sessions --------------------------------------------------------------------------------------------

MAX_SESSIONS, MAX_ASKED = 2_000, 100_000
"""So many sessions of followers are kept, the last ones used, and so many partitions of each."""
FULL, CLOSING = 0, -1
"""Session epochs of a fetch that names everything, and of one that ends its session."""


@dataclass(slots=True)
class Session:
    """A session: the epoch of its last fetch, and the partitions as they were asked for last."""

    epoch: int
    asked: dict[Key, Asked] = field(default_factory=dict)


class Sessions:
    """The sessions of one node. ``gaps`` counts those that went on after lines that are missing."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self.gaps = 0

    def take(self, fetch: Fetch) -> tuple[dict[Key, Asked], bool]:
        """The partitions as this fetch asks for them, and whether its session goes on without a gap.

        Not to be changed, and valid until the next fetch.
        """
        if fetch.session_epoch <= FULL:
            self._sessions.pop(fetch.asked_session, None)
            asked = fetch.asked
            if fetch.session_epoch == FULL and fetch.session and not fetch.error:
                self._keep(fetch.session, Session(0, dict(asked)))
            return asked, False
        session = self._sessions.get(fetch.asked_session)
        goes_on = session is not None and session.epoch + 1 == fetch.session_epoch
        if session is None or not goes_on:
            self.gaps += 1
            session = Session(fetch.session_epoch)
        session.epoch = fetch.session_epoch
        if fetch.asked:
            if len(session.asked) > MAX_ASKED:
                session.asked.clear()
            session.asked.update(fetch.asked)
        for key in fetch.forgotten:
            session.asked.pop(key, None)
        if fetch.session == fetch.asked_session:
            if goes_on:
                self._sessions.move_to_end(fetch.session)
            else:
                self._keep(fetch.session, session)
        else:
            self._sessions.pop(fetch.asked_session, None)
        return session.asked, goes_on

    def _keep(self, number: int, session: Session) -> None:
        self._sessions[number] = session
        self._sessions.move_to_end(number)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
