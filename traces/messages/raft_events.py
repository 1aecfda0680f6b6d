"""The events of raft logs, and their order over all nodes.

Offsets are LEO-like: one past a record; an epoch or an offset of −1 is none. Within a node the lines are in order.
Between nodes the clocks order them, except for messages: a request or an answer comes after the line that sent it.
A line waits for another node's lines by up to ``SLACK_MS``; after that it counts as never sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from highwater.traces.reading import Place

# --- events ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fetch:
    """A fetch request of ``sender``. ``hwm`` is the field of version 18, None where it has its default."""

    sender: int
    epoch: int
    offset: int
    last_epoch: int
    hwm: int | None
    wait_ms: int = 500


@dataclass(frozen=True)
class FetchAnswer:
    """The answer to a fetch; ``error`` other than 0 has no more than the epoch and the leader that its sender knows.

    ``size`` is that of its records, in bytes. ``diverging`` is an epoch and its end offset, as ``snapshot`` is that of
    the snapshot to be fetched instead.
    """

    error: int
    leader: int
    epoch: int
    hwm: int
    size: int
    diverging: tuple[int, int] | None
    snapshot: tuple[int, int] | None


@dataclass(frozen=True)
class Vote:
    """A vote request, or one for a pre-vote, of ``sender`` to ``voter``."""

    sender: int
    voter: int
    epoch: int
    last_epoch: int
    offset: int
    pre: bool


@dataclass(frozen=True)
class VoteAnswer:
    """The answer to a vote request."""

    error: int
    leader: int
    epoch: int
    granted: bool


@dataclass(frozen=True)
class Begin:
    """A BeginQuorumEpoch request: ``sender`` says to ``voter`` that it leads."""

    sender: int
    voter: int
    epoch: int


@dataclass(frozen=True)
class BeginAnswer:
    """The answer to a BeginQuorumEpoch request."""

    error: int
    leader: int
    epoch: int


@dataclass(frozen=True)
class Other:
    """A message that no rule here is about: ``api`` is its name."""

    api: str
    error: int = 0


Message = Fetch | FetchAnswer | Vote | VoteAnswer | Begin | BeginAnswer | Other


@dataclass(frozen=True)
class Sent:
    """A request that this node sent."""

    message: Message
    correlation: int
    to: int


@dataclass(frozen=True)
class Received:
    """A request that this node took; ``version`` is that of the API."""

    message: Message
    correlation: int
    version: int


@dataclass(frozen=True)
class Answered:
    """An answer that this node sent, with the request that it is for."""

    message: Message
    correlation: int
    request: Message


@dataclass(frozen=True)
class GotAnswer:
    """An answer that this node took. ``failed``: it comes from its own client, as the other could not be reached."""

    message: Message
    correlation: int
    source: int
    failed: bool


@dataclass(frozen=True)
class Ignored:
    """The answer that came last is not used: nobody waits for it any more."""

    correlation: int


@dataclass(frozen=True)
class Judged:
    """A vote request was granted or rejected."""

    message: Vote
    granted: bool


@dataclass(frozen=True)
class Role:
    """The role of a node from here on: Unattached, Prospective, Candidate, Leader, Follower, Resigned.

    ``hwm`` is None where it knows none, ``granted`` the voters whose votes it has, None where it needs none.
    ``first`` is set where the process begins with it.
    """

    name: str
    epoch: int
    leader: int | None
    voted: int | None
    hwm: int | None
    granted: frozenset[int] | None
    first: bool
    start: int | None = None


@dataclass(frozen=True)
class Appended:
    """A leader appended records [base, end)."""

    base: int
    end: int
    epoch: int


@dataclass(frozen=True)
class FollowerEnd:
    """A follower has appended what an answer brought: its LEO and its last epoch."""

    end: int
    epoch: int


@dataclass(frozen=True)
class Truncated:
    """A follower truncated its log."""

    end: int


@dataclass(frozen=True)
class Hwm:
    """The HWM that a node knows moved. ``leads``: as the leader; ``ends`` are the LEOs that it gives then."""

    offset: int
    leads: bool
    before: int | None = None
    ends: tuple[tuple[int, int], ...] | None = None
    final: bool = True


@dataclass(frozen=True)
class Completing:
    """A parked fetch is answered before its time is over."""

    sender: int
    offset: int


@dataclass(frozen=True)
class Started:
    """The process of this node begins; ``voters`` as its log and its configuration have them."""

    voters: tuple[int, ...]


What = (
    Sent | Received | Answered | GotAnswer | Ignored | Judged | Role | Appended | FollowerEnd | Truncated | Hwm
    | Completing | Started
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """Something that a line of a node's log says. ``time_ms`` is its clock's time, counted as if it were UTC."""

    node: int
    time_ms: int
    place: Place = field(repr=False)
    what: What


# --- order -----------------------------------------------------------------------------------------------

SLACK_MS = 2_000
MAX_OPEN = 1_000
"""So many requests of a node to another one can be without an answer; the oldest are given up."""


@dataclass(eq=False)
class Exchange:
    """A request and its answer. Times are those of the clocks of who wrote the line; None: it is in no log."""

    client: int
    server: int
    request: Message
    correlation: int | None = None
    sent_ms: int | None = None
    received_ms: int | None = None
    answer: Message | None = None
    is_lost: bool = False


@dataclass
class _Node:
    """Lines of a node that are still to come, and its requests."""

    events: Iterator[Event]
    head: Event | None = None
    sent: dict[int, Exchange] = field(default_factory=dict)
    """By its own correlation id."""
    taken: deque[tuple[int, Exchange]] = field(default_factory=deque)
    """Requests of others that it has not answered, with the correlation ids of its connections."""

    def advance(self) -> None:
        """Go to the next line."""
        self.head = next(self.events, None)


Ordered = tuple[Event, Exchange | None]


class Order:
    """Merges the events of nodes. Iterating gives each event with the exchange that its message belongs to."""

    def __init__(self, logs: Iterable[tuple[int, Iterable[Event]]]) -> None:
        self._nodes = {node: _Node(iter(events)) for node, events in logs}
        self._ways: dict[tuple[int, int], deque[Exchange]] = {}
        """Requests on their way, by sender and receiver."""
        for node in self._nodes.values():
            node.advance()

    def __iter__(self) -> Iterator[Ordered]:
        """Events in order."""
        while True:
            heads = sorted(
                (node.head.time_ms, number) for number, node in self._nodes.items() if node.head is not None
            )
            if not heads:
                return
            chosen = next((n for _, n in heads if self._is_ready(n)), heads[0][1])
            node = self._nodes[chosen]
            event = node.head
            assert event is not None
            yield event, self._take(event)
            node.advance()

    def has_log(self, node: int) -> bool:
        """Whether a node's own lines are here."""
        return node in self._nodes

    # --- who waits for whom -------------------------------------------------------------------------------------

    def _is_ready(self, number: int) -> bool:
        event = self._nodes[number].head
        assert event is not None
        what = event.what
        if isinstance(what, Received):
            sender = sender_of(what.message)
            if sender is None or sender not in self._nodes or self._on_way(sender, number, what.message):
                return True
            if self._is_silent(sender):
                return True
            return self._is_past(sender, event)
        if isinstance(what, GotAnswer) and not what.failed and what.source in self._nodes:
            exchange = self._nodes[number].sent.get(what.correlation)
            if exchange is None or exchange.answer is not None:
                return True
            return self._is_past(what.source, event)
        return True

    def _is_past(self, other: int, event: Event) -> bool:
        """Whether a node's lines are so far that what it should have sent by now will not come."""
        head = self._nodes[other].head
        return head is None or head.time_ms > event.time_ms + SLACK_MS

    def _is_silent(self, node: int) -> bool:
        """Whether the lines of a node's process are over: it can live on, and write no more."""
        head = self._nodes[node].head
        return head is None or isinstance(head.what, Started)

    def _on_way(self, sender: int, receiver: int, message: Message) -> Exchange | None:
        way = self._ways.get((sender, receiver), ())
        equal = [exchange for exchange in way if exchange.request == message]
        # One that its sender has given up can come all the same; but rather it is the one that was sent again.
        return next((exchange for exchange in equal if not exchange.is_lost), equal[0] if equal else None)

    # --- what belongs together ----------------------------------------------------------------------------------

    def _take(self, event: Event) -> Exchange | None:
        what, node = event.what, self._nodes[event.node]
        if isinstance(what, Started):
            self._forget(event.node)
        elif isinstance(what, Sent):
            exchange = Exchange(event.node, what.to, what.message, what.correlation, event.time_ms)
            node.sent[what.correlation] = exchange
            if len(node.sent) > MAX_OPEN:
                node.sent.pop(next(iter(node.sent))).is_lost = True
            way = self._ways.setdefault((event.node, what.to), deque(maxlen=MAX_OPEN))
            way.append(exchange)
            return exchange
        elif isinstance(what, Received):
            return self._received(event, what)
        elif isinstance(what, Answered):
            for place, (correlation, exchange) in enumerate(node.taken):
                if correlation == what.correlation and exchange.request == what.request:
                    del node.taken[place]
                    exchange.answer = what.message
                    return exchange
        elif isinstance(what, GotAnswer):
            found = node.sent.pop(what.correlation, None)
            if found is not None and found.server == what.source:
                found.is_lost |= what.failed
                return found
        return None

    def _received(self, event: Event, what: Received) -> Exchange | None:
        sender = sender_of(what.message)
        if sender is None:
            return None
        exchange = self._on_way(sender, event.node, what.message)
        if exchange is not None:
            way = self._ways[sender, event.node]
            # Requests that were sent before and did not come were lost with the connection before.
            place, kind = way.index(exchange), type(exchange.request)
            kept = [other for n, other in enumerate(way) if n > place or not isinstance(other.request, kind)]
            way.clear()
            way.extend(kept)
        elif sender in self._nodes and not self._is_silent(sender):
            return None
        else:
            exchange = Exchange(sender, event.node, what.message)
        exchange.received_ms = event.time_ms
        taken = self._nodes[event.node].taken
        taken.append((what.correlation, exchange))
        if len(taken) > MAX_OPEN:
            taken.popleft()
        return exchange

    def _forget(self, number: int) -> None:
        """A process that starts knows of none of its requests, nor of those that it took."""
        node = self._nodes[number]
        for exchange in node.sent.values():
            exchange.is_lost = True
        node.sent.clear()
        node.taken.clear()


def sender_of(message: Message) -> int | None:
    """The sender of a request, if the request names it."""
    return message.sender if isinstance(message, Fetch | Vote | Begin) and message.sender >= 0 else None
