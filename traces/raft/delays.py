"""P2 measured: how long a record's way is from the leader's append until members know the HWM past it.

In messages between the leader and the member, from the append on: one that is on its way at the append counts as well.
In milliseconds between two lines, of two nodes' clocks. It is also counted for how many a park timer was part of it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from highwater.traces.raft import events as e
from highwater.traces.raft.order import Exchange

MAX_OPEN = 200
"""Appends that are followed at a time; older ones are given up."""


@dataclass
class _Append:
    """Records up to ``end``, and the messages between leader and each member since."""

    leader: int
    epoch: int
    end: int
    time_ms: int
    messages: Counter[int] = field(default_factory=Counter)
    timers: Counter[int] = field(default_factory=Counter)
    known: set[int] = field(default_factory=set)
    committed: bool = False


@dataclass
class Measured:
    """Delays of one kind: how often so many messages, and milliseconds in order of time."""

    messages: Counter[int] = field(default_factory=Counter)
    ms: list[int] = field(default_factory=list)
    with_timer: int = 0

    def add(self, messages: int, ms: int, timers: int) -> None:
        """One more."""
        self.messages[messages] += 1
        self.ms.append(ms)
        self.with_timer += timers > 0

    def quantile(self, share: float) -> int:
        """The delay that so many have at most, in ms."""
        return sorted(self.ms)[min(len(self.ms) - 1, int(share * len(self.ms)))] if self.ms else 0


class Delays:
    """Fed with events in order. ``committed`` is of the leader's own HWM, ``members`` of each other one's."""

    def __init__(self) -> None:
        self.committed = Measured()
        self.members: dict[int, Measured] = {}
        self._open: deque[_Append] = deque()
        self._last_fetch: dict[int, int] = {}
        self._fetching: set[int] = set()

    def take(self, event: e.Event, exchange: Exchange | None, timed_out: bool) -> None:
        """The next event; ``timed_out`` says that it is an answer that a park timer gave."""
        what = event.what
        if isinstance(what, e.Appended):
            while self._open and self._open[0].leader != event.node:
                self._open.popleft()
            self._open.append(_Append(event.node, what.epoch, what.end, event.time_ms))
            if len(self._open) > MAX_OPEN:
                self._open.popleft()
        elif isinstance(what, e.Started):
            # What was appended while its process was down is no delay of the protocol's.
            for append in self._open:
                append.known.add(event.node)
        elif isinstance(what, e.Received) and isinstance(what.message, e.Fetch):
            self._message(event.node, what.message.sender, False)
            self._last_fetch[event.node] = what.message.sender
            self._fetching.add(what.message.sender)
        elif isinstance(what, e.Answered) and isinstance(what.request, e.Fetch):
            self._message(event.node, what.request.sender, timed_out)
        elif isinstance(what, e.Hwm) and what.final:
            self._moved(event, what)

    def _message(self, leader: int, member: int, timed_out: bool) -> None:
        for append in self._open:
            if append.leader == leader and member not in append.known:
                append.messages[member] += 1
                append.timers[member] += timed_out

    def _moved(self, event: e.Event, what: e.Hwm) -> None:
        for append in self._open:
            if what.offset < append.end:
                continue
            ms = event.time_ms - append.time_ms
            if what.leads and append.leader == event.node and not append.committed:
                append.committed = True
                by = self._last_fetch.get(event.node, event.node)
                self.committed.add(append.messages[by], ms, append.timers[by])
            elif not what.leads and append.leader != event.node and event.node not in append.known:
                append.known.add(event.node)
                found = self.members.setdefault(event.node, Measured())
                found.add(append.messages[event.node], ms, append.timers[event.node])
        while self._open and self._open[0].committed:
            # Who is slow is waited for as well, as soon as it has fetched once.
            everybody = (self._fetching | self.members.keys()) - {self._open[0].leader}
            if not everybody <= self._open[0].known:
                break
            self._open.popleft()

    def figures(self) -> dict[str, int]:
        """As totals for a report."""
        found: dict[str, int] = {}
        kinds = [("commit", self.committed)] if self.committed.ms else []
        everybody = Measured()
        for one in self.members.values():
            everybody.messages += one.messages
            everybody.ms += one.ms
            everybody.with_timer += one.with_timer
        if everybody.ms:
            kinds.append(("hwm at members", everybody))
        for name, measured in kinds:
            found |= {f"{name}, median ms": measured.quantile(0.5), f"{name}, 90 % ms": measured.quantile(0.9),
                      f"{name}, longest ms": max(measured.ms)}  # fmt: skip
            found |= {f"{name}, in {n} messages": count for n, count in sorted(measured.messages.items())}
            found[f"{name}, with a park timer"] = measured.with_timer
        return found
