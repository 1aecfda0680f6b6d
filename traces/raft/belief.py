"""What is believed of a quorum between two lines of its logs: a state of the model, with offsets as they are."""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.traces.raft.events import Fetch, Vote
from highwater.traces.raft.order import Exchange

UNKNOWN = -1


@dataclass
class Log:
    """A log by where its epochs begin: ``cuts`` are (offset, epoch), ascending from 0; ``end`` is its LEO."""

    cuts: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0

    @property
    def last_epoch(self) -> int | None:
        """The epoch of the last record."""
        return self.cuts[-1][1] if self.cuts else None

    def append(self, end: int, epoch: int) -> None:
        """Records of one epoch up to an offset."""
        if end > self.end:
            if self.last_epoch != epoch:
                self.cuts.append((self.end, epoch))
            self.end = end

    def truncate(self, end: int) -> None:
        """Keep what is below an offset."""
        self.end = min(self.end, end)
        while self.cuts and self.cuts[-1][0] >= self.end:
            self.cuts.pop()

    def copy(self) -> Log:
        """A log of its own."""
        return Log(list(self.cuts), self.end)

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at an offset, or of the last one before it."""
        found = 0
        for start, epoch in self.cuts:
            if start > offset:
                break
            found = epoch
        return found


@dataclass
class Node:
    """A member as its own log tells it. ``log`` is None as long as nothing was said of it."""

    id: int
    epoch: int = 0
    leader: int | None = None
    ballot: str = "none"
    granted: frozenset[int] = frozenset()
    voted: int | None = None
    heard: bool = False
    log: Log | None = None
    hwm: int = UNKNOWN
    peak: int = UNKNOWN
    fetched: dict[int, int] = field(default_factory=dict)
    starts: bool = False
    """Whether it has just become leader, and its first record's line is still to come."""
    maybe_more: tuple[int, int] | None = None
    """Up to where, and in which epoch, its log can go further than its lines say: its process died."""

    @property
    def leads(self) -> bool:
        """Whether it takes itself for the leader."""
        return self.leader == self.id


@dataclass
class Parked:
    """A fetch that is parked, and the HWM of when it was."""

    leader: int
    epoch: int
    offset: int
    answer: int
    exchange: Exchange | None


@dataclass
class Response:
    """An answer to a fetch that is under way. ``source`` is the log that its records are of, as it was then."""

    epoch: int
    records: bool
    hwm: int
    diverging: tuple[int, int] | None
    offset: int
    source: Log | None
    timed_out: bool = False
    exchange: Exchange | None = None


@dataclass
class Belief:
    """All of it. Fetches by their sender; votes by who asks and who is asked."""

    voters: tuple[int, ...] = ()
    nodes: dict[int, Node] = field(default_factory=dict)
    requests: dict[int, tuple[int, Fetch]] = field(default_factory=dict)
    parked: dict[int, Parked] = field(default_factory=dict)
    responses: dict[int, Response] = field(default_factory=dict)
    vote_requests: dict[tuple[int, int], Vote] = field(default_factory=dict)
    vote_responses: dict[tuple[int, int], tuple[int, bool, int, bool]] = field(default_factory=dict)
    """(epoch asked in, whether a pre-vote, epoch of who answers, whether granted)."""
    elected: dict[int, int] = field(default_factory=dict)
    committed: Log = field(default_factory=Log)

    def node(self, number: int) -> Node:
        """A member; one that was not heard of before knows nothing."""
        found = self.nodes.get(number)
        if found is None:
            found = self.nodes[number] = Node(number)
        return found

    def drop_parked(self, leader: int) -> None:
        """Fetches that are parked with one who leads no more end."""
        self.parked = {f: p for f, p in self.parked.items() if p.leader != leader}
