"""A leader of one partition in one leader epoch, as its request log shows it, and the checks of its acknowledgements.

Kafka writes a request's line when the request ends, so the lines of earlier fetches can follow an acknowledgement or a
proposal. Both wait until the node has been active for LINES_MS.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from highwater.invariants import statements
from highwater.traces.messages.context import ACKNOWLEDGED, CLOCKS_MS, OWN_MS, Context
from highwater.traces.messages.metadata_index import NEVER, History
from highwater.traces.messages.request_lines import Asked, Fetch, Proposal, RequestLine
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.rules import profiles

LINES_MS = 3000.0
"""After this much active time of a node, the lines of all requests that were in flight have been written."""
INCARNATIONS = 8
"""The most broker epochs of a follower that are stored."""
RETURNED = 1024
"""The most returned HWMs that are stored."""


@dataclass(slots=True)
class Follower:
    """A follower, by its fetches in the leader epoch."""

    offset: int
    """The greatest fetch offset: the leader knows that the follower holds the records below it."""
    epochs: list[tuple[float, int]] = field(default_factory=list)
    """The latest broker epochs of the fetches, each with the time of the first fetch that had it."""
    eligible: float = NEVER
    """The time of the first fetch that made the follower eligible for the ISR (B5)."""
    lagging: tuple[int, int, int] | None = None
    """The last fetch before it: the fetch offset, and lower bounds of the HWM and of the epoch's start offset."""


@dataclass(slots=True)
class Acknowledged:
    """An acknowledged write (acks=all) that more ISR members must hold than the lines read so far show."""

    line: RequestLine
    offset: int
    since: float
    """How long the node had been active at the line, in ms."""
    holders: set[int]
    """The followers that had fetched past the offset when the leader acknowledged it."""


@dataclass(slots=True)
class Leadership:
    """A broker's leadership of a partition in one leader epoch."""

    broker: int
    history: History
    epoch: int
    versions: list[PartitionChange]
    """The versions of the partition in the leader epoch, in log order."""
    is_whole: bool
    """True if the broker's request log covers the start of the leader epoch."""
    proposals: deque[Proposal]
    """The leader's proposals that its log has not reached yet, in the order of their arrival."""
    reached: deque[tuple[float, Proposal]] = field(default_factory=deque)
    """The proposals that wait for lines, each with how long the node had been active when its log reached it, in ms."""
    acknowledged: list[Acknowledged] = field(default_factory=list)
    followers: dict[int, Follower] = field(default_factory=dict)
    returned: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RETURNED))
    """Ascending HWMs in answers, each with the time of the answer."""
    leso: int = 0
    """A lower bound of the start offset of the leader epoch."""
    last_answered: float = 0.0

    @property
    def name(self) -> str:
        """The name of the partition."""
        return self.history.name

    def had_answered(self, by: float) -> bool:
        """True if the broker had certainly acted as leader in this epoch before the time ``by``."""
        return 0 < self.last_answered <= by - OWN_MS

    def views(self, context: Context, start: float, end: float) -> Iterator[PartitionChange]:
        """The versions that the leader can have known between two times of its clock, the latest first."""
        for version in reversed(self.versions):
            if version.time <= end + CLOCKS_MS:
                yield version
                if context.asked.had_replayed(self.broker, version.position, start - CLOCKS_MS):
                    return

    # --- fetches --------------------------------------------------------------------------------------

    def fetched(self, fetch: Fetch, asked: Asked) -> None:
        """Record a fetch that the leader used."""
        taken, offset = fetch.line.taken, asked.offset
        if asked.last_epoch < self.epoch:
            self.leso = max(self.leso, offset)
        known = self.holds(fetch.replica, offset, taken)
        if fetch.epoch >= 0 and (not known.epochs or known.epochs[-1][1] != fetch.epoch):
            known.epochs.append((taken, fetch.epoch))
            del known.epochs[:-INCARNATIONS]
        if taken < known.eligible:
            hwm = self._returned_by(taken - OWN_MS)
            if profiles.isr_joined_caught_up(leo=offset, hwm=hwm, epoch_start=self.leso):
                known.eligible = taken
            elif known.eligible == NEVER:
                known.lagging = offset, hwm, self.leso

    def holds(self, follower: int, offset: int, taken: float) -> Follower:
        """Record that a follower held the records below an offset when the leader read its fetch, and return it."""
        known = self.followers.get(follower)
        if known is None:
            known = self.followers[follower] = Follower(offset)
        known.offset = max(known.offset, offset)
        for one in self.acknowledged:
            if offset > one.offset and taken <= one.line.answered + OWN_MS:
                one.holders.add(follower)
        return known

    def answered(self, line: RequestLine, hwm: int) -> None:
        """Record the HWM in an answer to a fetch."""
        self.last_answered = max(self.last_answered, line.answered)
        if not self.returned or hwm > self.returned[-1][1]:
            self.returned.append((max(line.answered, self.returned[-1][0] if self.returned else 0.0), hwm))

    def _returned_by(self, time: float) -> int:
        """The greatest HWM that the leader had returned by a time: a lower bound of its HWM."""
        place = bisect_right(self.returned, (time, NEVER))
        return self.returned[place - 1][1] if place else 0

    # --- acknowledgements -----------------------------------------------------------------------------

    def acknowledge(self, context: Context, line: RequestLine, offset: int, active: float) -> None:
        """Check the acknowledgement of a write with acks=all, or store it until more lines are read (B6)."""
        holders = {f for f, known in self.followers.items() if known.offset > offset}
        self.acknowledged.append(Acknowledged(line, offset, active, holders))
        self.last_answered = max(self.last_answered, line.answered)
        self.judge_acknowledged(context, active)

    def judge_acknowledged(self, context: Context, active: float, ends: bool = False) -> None:
        """Check the stored acknowledgements, and report those that more lines cannot justify.

        ``ends``: the log or the process of the leader ends. Requests in flight may have no line, so an acknowledgement
        that still lacks lines counts as guessed.
        """
        waiting, verdicts = [], context.verdicts
        for one in self.acknowledged:
            if any(self._allows(version, one) for version in self._known_at(context, one)):
                verdicts.explained[ACKNOWLEDGED] += 1
            elif one.since + LINES_MS >= active and not ends:
                waiting.append(one)
            elif one.since + LINES_MS >= active:
                verdicts.guessed["a fetch that was under way where the log ends"] += 1
            elif one.offset < self.leso:
                verdicts.guessed["that an earlier leader appended what is acknowledged"] += 1
            else:
                self._too_early(context, one)
        self.acknowledged = waiting

    def _known_at(self, context: Context, one: Acknowledged) -> Iterator[PartitionChange]:
        return self.views(context, one.line.taken, one.line.answered)

    def _allows(self, version: PartitionChange, one: Acknowledged) -> bool:
        """True if the ISR of a version, with enough members, held the record."""
        members, held = self._members(version, one)
        hwm = one.offset + (held == members)
        return profiles.acknowledged_has_copies(
            hwm=hwm, offset=one.offset, copies=len(held), min_isr=version.min_isr or 1
        )

    def _members(self, version: PartitionChange, one: Acknowledged) -> tuple[set[int], set[int]]:
        """The members of the ISR of a version, and those of them that can have held the record."""
        members = set(version.state.isr) | {self.broker}
        held = {f for f in members if f in one.holders or not (self.is_whole or f in self.followers)}
        return members, held | {self.broker}

    def _too_early(self, context: Context, one: Acknowledged) -> None:
        version = next(self._known_at(context, one), self.versions[0])
        members, held = self._members(version, one)
        missing = f"broker {', '.join(map(str, sorted(members - held)))} had not fetched it"
        why = missing if members > held else f"min ISR is {version.min_isr}"
        context.finding(
            statements.acknowledged_has_copies, "B6", one.line, self.name,
            f"leader {self.broker} acknowledged offset {one.offset} in leader epoch {self.epoch}, and "
            f"{len(held)} of the {len(members)} members of its ISR had it: {why}",
            f"offset {one.offset} is on fewer replicas than an election relies on",
            facts={"leader_epoch": self.epoch, "offset": one.offset, "copies": len(held), "min_isr": version.min_isr},
        )  # fmt: skip
