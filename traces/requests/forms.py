"""Fetches, writes and heartbeats as present versions of Kafka write them, decoded straight into types.

Other fields are passed over. A line that is not of these forms is no error yet: it can be of an older version.
``lines.py`` then decodes it without them, and ``messages.py`` says what it is, or what is wrong with it.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder

from highwater.traces.reading.fields import INT32, INT64

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
