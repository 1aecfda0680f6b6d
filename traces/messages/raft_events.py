"""The events of raft logs, and their order over all nodes.

Offsets are one past a record, like a LEO; an epoch or an offset of −1 means none. Within a node the lines are in
order. Between nodes the clocks order the lines, except for messages: a request or an answer comes after the line that
sent it. A received message waits up to ``SLACK_MS`` for the sender's line; after that, it counts as never sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from highwater.traces.reading import Place

# --- events ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fetch:
    """A fetch request. ``hwm`` is the sender's HWM: −1 if unknown, None if the sender does not support the field."""

    sender: int
    epoch: int
    offset: int
    last_epoch: int
    hwm: int | None
    wait_ms: int = 500


@dataclass(frozen=True)
class FetchAnswer:
    """The answer to a fetch. If ``error`` is not 0, at most the epoch and the leader are meaningful.

    ``size`` is the size of the records in bytes. ``diverging`` has an epoch and its end offset; ``snapshot`` has the
    epoch and the end offset of the snapshot to fetch instead.
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
    """A vote or pre-vote request from ``sender`` to ``voter``."""

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
    """A BeginQuorumEpoch request: ``sender`` informs ``voter`` that it leads."""

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
    """A message that no rule of the model covers; ``api`` is its name."""

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
    """A request that this node received; ``version`` is the version of the API."""

    message: Message
    correlation: int
    version: int


@dataclass(frozen=True)
class Answered:
    """An answer that this node sent, with the request that it answers."""

    message: Message
    correlation: int
    request: Message


@dataclass(frozen=True)
class GotAnswer:
    """An answer that this node received.

    ``failed``: its own client made the answer, because the other node was unreachable.
    """

    message: Message
    correlation: int
    source: int
    failed: bool


@dataclass(frozen=True)
class Ignored:
    """The node ignores the last answer, which belongs to no pending request."""

    correlation: int


@dataclass(frozen=True)
class Judged:
    """The node granted or rejected a vote request."""

    message: Vote
    granted: bool


@dataclass(frozen=True)
class Role:
    """The role of a node from this line on: Unattached, Prospective, Candidate, Leader, Follower, Resigned.

    ``hwm`` is None if the node knows none. ``granted`` are the voters whose votes it has, None if it needs no votes.
    ``first`` is set if the process starts in this role. ``start`` is the start offset of a leader's epoch.
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
    """A leader appended the records with offsets from ``base`` to ``end`` (exclusive)."""

    base: int
    end: int
    epoch: int


@dataclass(frozen=True)
class FollowerEnd:
    """A follower has appended the records of an answer. ``end`` is its LEO, ``epoch`` its last epoch."""

    end: int
    epoch: int


@dataclass(frozen=True)
class Truncated:
    """A follower truncated its log to the offset ``end``."""

    end: int


@dataclass(frozen=True)
class Hwm:
    """A node's HWM moved to ``offset``. ``leads``: the node is the leader. ``ends`` are pairs of a voter and its LEO.

    ``before`` and ``ends`` are None if the line lacks them. Some nodes write two lines for a move: in the first one,
    ``final`` is false.
    """

    offset: int
    leads: bool
    before: int | None = None
    ends: tuple[tuple[int, int], ...] | None = None
    final: bool = True


@dataclass(frozen=True)
class Completing:
    """The node answers a parked fetch before its wait time is over."""

    sender: int
    offset: int


@dataclass(frozen=True)
class Started:
    """The process of this node starts. ``voters`` are those of its log and its configuration."""

    voters: tuple[int, ...]


What = (
    Sent | Received | Answered | GotAnswer | Ignored | Judged | Role | Appended | FollowerEnd | Truncated | Hwm
    | Completing | Started
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """An event from a line of a node's log. ``time_ms`` is the node's clock time, counted as UTC."""

    node: int
    time_ms: int
    place: Place = field(repr=False)
    what: What


# --- order -----------------------------------------------------------------------------------------------

SLACK_MS = 2_000
MAX_OPEN = 1_000
"""The most unanswered requests stored per node; older ones count as given up."""


@dataclass(eq=False)
class Exchange:
    """A request and its answer between two nodes.

    Each time is by the clock of the node that wrote the line, and None if no log has the line. ``is_lost``: the client
    has given the request up.
    """

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
    """The remaining lines of a node, and its unanswered requests."""

    events: Iterator[Event]
    head: Event | None = None
    sent: dict[int, Exchange] = field(default_factory=dict)
    """Requests that the node sent, by correlation id."""
    taken: deque[tuple[int, Exchange]] = field(default_factory=deque)
    """Requests of others that the node has not answered, with the correlation ids of their connections."""

    def advance(self) -> None:
        self.head = next(self.events, None)


Ordered = tuple[Event, Exchange | None]


class Order:
    """Merges the events of all nodes in order. Each event comes with the exchange of its message (None: no message)."""

    def __init__(self, logs: Iterable[tuple[int, Iterable[Event]]]) -> None:
        self._nodes = {node: _Node(iter(events)) for node, events in logs}
        self._ways: dict[tuple[int, int], deque[Exchange]] = {}
        """Requests in flight, by sender and receiver."""
        for node in self._nodes.values():
            node.advance()

    def __iter__(self) -> Iterator[Ordered]:
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
        """True if the input has lines that this node wrote."""
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
        """True if no line that the node ``other`` has left can be the sending of the message of ``event``.

        The node's next line is later than ``event`` by more than ``SLACK_MS``, or there is none.
        """
        head = self._nodes[other].head
        return head is None or head.time_ms > event.time_ms + SLACK_MS

    def _is_silent(self, node: int) -> bool:
        """True if no lines of a node's current process are left. The process may live on without writing lines."""
        head = self._nodes[node].head
        return head is None or isinstance(head.what, Started)

    def _on_way(self, sender: int, receiver: int, message: Message) -> Exchange | None:
        way = self._ways.get((sender, receiver), ())
        equal = [exchange for exchange in way if exchange.request == message]
        # A request that its sender has given up can still arrive, but an equal later request is more likely.
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
            # Earlier requests that did not arrive were lost with the previous connection.
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
        """Forget the requests that a restarted process had received or sent; the sent ones count as given up."""
        node = self._nodes[number]
        for exchange in node.sent.values():
            exchange.is_lost = True
        node.sent.clear()
        node.taken.clear()


def sender_of(message: Message) -> int | None:
    """The sender of a request; None if the message does not name one."""
    return message.sender if isinstance(message, Fetch | Vote | Begin) and message.sender >= 0 else None
