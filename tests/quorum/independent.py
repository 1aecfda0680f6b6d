"""The quorum without elections and faults a second time, in plain Python: its states counted independently.

Written from KIP-1166 and the facts of Kafka trunk, not from the model; all it shares with it is what a state tells
apart. One leader (member 0), one epoch, no loss. A member is (LEO, HWM); its exchange with the leader is nothing, a
fetch under way, a fetch that is parked, or an answer under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

DEFAULT = 2**63 - 1


@dataclass(frozen=True)
class State:
    """``exchange``: None, ("fetch", offset, field), ("parked", HWM then), or ("answer", record, HWM, timer)."""

    leo: tuple[int, ...]
    hwm: tuple[int, ...]
    fetched: tuple[int, ...]
    exchange: tuple[tuple[object, ...] | None, ...]
    appends: int


def _put(values: tuple, index: int, value: object) -> tuple:
    return (*values[:index], value, *values[index + 1 :])


@dataclass(frozen=True)
class Quorum:
    """``new``: those with version 18."""

    voters: int
    members: int
    appends: int
    new: frozenset[int]

    def start(self) -> State:
        n = self.members
        return State((1,) + (0,) * (n - 1), (-1,) * n, (-1,) * n, (None,) * n, self.appends)

    def following(self, s: State) -> Iterator[State]:
        if s.appends:
            grown = replace(s, leo=_put(s.leo, 0, s.leo[0] + 1), appends=s.appends - 1)
            yield self._complete(grown, s.leo[0])
        for m in range(1, self.members):
            exchange = s.exchange[m]
            if exchange is None:
                field = s.hwm[m] if m in self.new else DEFAULT
                yield replace(s, exchange=_put(s.exchange, m, ("fetch", s.leo[m], field)))
            elif exchange[0] == "fetch":
                yield self._arrive(s, m, *exchange[1:])
            elif exchange[0] == "parked":
                yield replace(s, exchange=_put(s.exchange, m, ("answer", False, exchange[1], True)))
            else:
                _, record, hwm, _ = exchange
                leo = s.leo[m] + bool(record)
                known = s.hwm[m] if hwm == -1 else min(hwm, leo)
                yield State(
                    _put(s.leo, m, leo),
                    _put(s.hwm, m, known),
                    s.fetched,
                    _put(s.exchange, m, None),
                    s.appends,
                )

    def _arrive(self, s: State, m: int, offset: int, field: int) -> State:
        before = s.hwm[0]
        if m < self.voters:
            s = replace(s, fetched=_put(s.fetched, m, offset))
            ends = sorted([s.leo[0], *s.fetched[1 : self.voters]], reverse=True)
            commit = ends[self.voters // 2]
            if commit > max(0, before):
                s = replace(s, hwm=_put(s.hwm, 0, commit))
        record = s.leo[0] > offset
        behind = 0 in self.new and field < s.hwm[0]
        if record or behind:
            s = replace(s, exchange=_put(s.exchange, m, ("answer", record, s.hwm[0], False)))
        else:
            s = replace(s, exchange=_put(s.exchange, m, ("parked", s.hwm[0])))
        if s.hwm[0] > before and 0 in self.new:
            own = s.exchange[m]
            s = self._complete(s, s.leo[0])
            s = replace(s, exchange=_put(s.exchange, m, own))
        return s

    def _complete(self, s: State, parked_at: int) -> State:
        answer = ("answer", s.leo[0] > parked_at, s.hwm[0], False)
        return replace(s, exchange=tuple(answer if e and e[0] == "parked" else e for e in s.exchange))

    def count(self) -> tuple[int, int]:
        """Reachable states, and levels."""
        seen, level, depth = {self.start()}, {self.start()}, 0
        while level:
            level = {after for s in level for after in self.following(s)} - seen
            seen |= level
            depth += 1
        return len(seen), depth
