"""What requests and responses say, as plain values. Fields that are not needed are not looked at.

The names are those of Kafka's JSON converters. Older versions name a topic where newer ones have its id, and a fetch's
sender beside the request's other fields; both are read. A topic is kept as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from highwater.traces.reading.errors import TraceError
from highwater.traces.reading.fields import INT32, INT64
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.shapes import MAX_PARTITIONS, SHAPES, check

Key = tuple[str, int]
"""A topic, by its id or its name, and the number of a partition."""
CONSUMER = -1
"""The replica id of who is no replica."""
NO_EPOCH = -1


class Asked(NamedTuple):
    """A partition in a fetch: from where, in which leader epoch, and the epoch of the last record before it."""

    leader_epoch: int
    offset: int
    last_epoch: int


class Answer(NamedTuple):
    """A partition in the answer to a fetch: ``size`` are bytes; ``diverging`` an epoch and its end offset."""

    error: int
    hwm: int
    size: int
    diverging: tuple[int, int] | None


class Fetch(NamedTuple):
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


class Produced(NamedTuple):
    """A partition of a produce request: ``acks`` as asked for, and what was answered; without an answer offset −1.

    ``transactional``: the end of its transaction is written to the log by a request of another kind.
    """

    acks: int
    key: Key
    error: int
    offset: int
    transactional: bool


class Proposal(NamedTuple):
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


def _fetch(line: RequestLine) -> Fetch:
    request, response = line.request, line.response
    state = request.get("replicaState")
    replica, epoch = (
        (request["replicaId"], NO_EPOCH) if state is None else (state["replicaId"], state["replicaEpoch"])
    )
    asked = {}
    topics, answered = request["topics"], response["responses"]
    if topics.__class__ is not list or answered.__class__ is not list:
        raise TypeError
    for topic in topics:
        name = _topic(topic)
        for p in topic["partitions"]:
            asked[(name, p["partition"])] = Asked(
                p["currentLeaderEpoch"], p["fetchOffset"], p.get("lastFetchedEpoch", NO_EPOCH)
            )
    answers = {}
    for topic in answered:
        name = _topic(topic)
        for p in topic["partitions"]:
            diverging = p.get("divergingEpoch")
            parted = None if diverging is None else (diverging["epoch"], diverging["endOffset"])
            answers[(name, p["partitionIndex"])] = Answer(
                p["errorCode"], p["highWatermark"], p["recordsSizeInBytes"], parted
            )
    gone = request.get("forgottenTopicsData")
    forgotten = tuple((_topic(t), p) for t in gone for p in t["partitions"]) if gone else ()
    if len(asked) > MAX_PARTITIONS or len(answers) > MAX_PARTITIONS or len(forgotten) > MAX_PARTITIONS:
        raise TypeError
    return Fetch(
        line, replica, epoch, request["sessionId"], request["sessionEpoch"], asked, forgotten,
        response["errorCode"], response["sessionId"], answers,
    )  # fmt: skip


def _produce(line: RequestLine) -> list[Produced]:
    request = line.request
    acks, transactional = request["acks"], request.get("transactionalId") is not None
    if not line.response:
        return [
            Produced(acks, (_topic(topic, "name"), p["index"]), 0, -1, transactional)
            for topic in request["topicData"]
            for p in topic["partitionData"]
        ]
    return [
        Produced(acks, (_topic(topic, "name"), p["index"]), p["errorCode"], p["baseOffset"], transactional)
        for topic in line.response["responses"]
        for p in topic["partitionResponses"]
    ]


def _alter(line: RequestLine) -> list[Proposal]:
    answers = {
        (_topic(topic), p["partitionIndex"]): p
        for topic in line.response["topics"]
        for p in topic["partitions"]
    }
    whole, found, request = line.response["errorCode"], [], line.request
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
                    line.header["requestApiVersion"],
                    answer["errorCode"],
                    answer["leaderId"],
                    answer["leaderEpoch"],
                    tuple(answer["isr"]),
                    answer["partitionEpoch"],
                )
            )
    return found


def _registered(line: RequestLine) -> Registered:
    return Registered(
        line, line.request["brokerId"], line.response["errorCode"], line.response["brokerEpoch"]
    )


def _heartbeat(line: RequestLine) -> Heartbeat:
    request, response = line.request, line.response
    return Heartbeat(
        line, request["brokerId"], request["brokerEpoch"], request["currentMetadataOffset"],
        response["errorCode"], response["isFenced"], response["shouldShutDown"],
    )  # fmt: skip


_T = TypeVar("_T")


def _reader(read: Callable[[RequestLine], _T], *, checked: bool = True) -> Callable[[RequestLine], _T]:
    """A reader whose errors say file, line and field. ``checked`` are the shapes of each line, not only then."""
    shapes = SHAPES[read.__name__]

    def reading(line: RequestLine) -> _T:
        if checked:
            check(line, shapes)
        try:
            return read(line)
        except (KeyError, TypeError, AttributeError):
            check(line, shapes)
            raise TraceError(line.path, line.line, None, "no request of a version that is known") from None

    reading.__doc__ = f"{read.__name__.strip('_')}: raises TraceError where the line does not say it."
    return reading


def _well_typed(found: Fetch) -> bool:
    """Whether the numbers of a fetch are numbers: looked at by themselves, as there are so many fetches."""
    if not (
        found.replica.__class__ is found.epoch.__class__ is found.asked_session.__class__ is int
        and found.session_epoch.__class__ is found.error.__class__ is found.session.__class__ is int
        and -1 <= found.epoch <= INT64
    ):
        return False
    for key, (leader_epoch, offset, last_epoch) in found.asked.items():
        if not (
            key[1].__class__ is leader_epoch.__class__ is offset.__class__ is last_epoch.__class__ is int
            and -1 <= leader_epoch <= INT32
            and -1 <= offset <= INT64
            and -1 <= last_epoch <= INT32
        ):
            return False
    for key, (error, hwm, size, diverging) in found.answers.items():
        if not (
            key[1].__class__ is error.__class__ is hwm.__class__ is size.__class__ is int
            and -1 <= hwm <= INT64
        ):
            return False
        if diverging is not None and not all(n.__class__ is int and -1 <= n <= INT64 for n in diverging):
            return False
    return True


_read_fetch = _reader(_fetch, checked=False)


def read_fetch(line: RequestLine) -> Fetch:
    """A fetch and its answer. Raises TraceError where the line does not say it."""
    found = _read_fetch(line)
    if not _well_typed(found):
        check(line, SHAPES["_fetch"])
        raise TraceError(line.path, line.line, None, "a number is missing or out of range")
    return found


_read_produce = _reader(_produce, checked=False)


def read_produce(line: RequestLine) -> list[Produced]:
    """A write and its answer, partition by partition. Raises TraceError where the line does not say it."""
    found = _read_produce(line)
    for one in found:
        for n in (one.acks, one.key[1], one.error, one.offset):
            if n.__class__ is not int or not -1 <= n <= INT64:
                check(line, SHAPES["_produce"])
                raise TraceError(line.path, line.line, None, "a number is missing or out of range")
    return found


read_alter = _reader(_alter)
read_registered = _reader(_registered)
read_heartbeat = _reader(_heartbeat)
