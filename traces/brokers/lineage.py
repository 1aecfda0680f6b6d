"""Which leader epoch wrote each offset of a replica's log, as far as the logs of brokers tell.

Two replicas whose logs have the same leader epoch at an offset have the same records there and before (KIP-101). So
where a new leader's log has another epoch than the log in which a record was committed, the record is gone, even if
the new leader's log is longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater.traces.brokers.broker_view import BrokerView
from highwater.traces.brokers.stints import Position

MAX_SEGMENTS = 64
"""So many leader epochs of a log are kept: the last ones. Before them, logs are taken to agree."""

Log = tuple[tuple[int, int], ...]
"""Leader epochs with the offset at which each starts, growing; the last one has no end."""


def cut(log: Log, end: int) -> Log:
    """The log up to an offset."""
    return tuple(segment for segment in log if segment[1] < end)


def extend(log: Log, epoch: int, start: int) -> Log:
    """The log of a leader that begins to write in an epoch at an offset."""
    return (*cut(log, start), (epoch, start))[-MAX_SEGMENTS:]


def _epoch_at(log: Log, offset: int) -> int | None:
    return next((epoch for epoch, start in reversed(log) if start <= offset), None)


def first_difference(log: Log | None, other: Log | None, end: int) -> int:
    """The first offset below ``end`` where two logs are known to differ; ``end`` where there is none."""
    if log is None or other is None:
        return end
    for offset in sorted({start for _, start in (*log, *other)}):
        if offset >= end:
            break
        here, there = _epoch_at(log, offset), _epoch_at(other, offset)
        if here is not None and there is not None and here != there:
            return offset
    return end


class Lineage:
    """The logs of one partition's replicas. Ask ``starts`` for the leaders in the order of their epochs.

    A follower that has fetched from a leader has the leader's log up to its own end (B3). One that found no leader,
    or that has neither grown nor truncated, has its own.
    """

    def __init__(self, views: dict[int, BrokerView]) -> None:
        self._views = views
        self._next = dict.fromkeys(views, 0)
        self._own: dict[int, Log | None] = {}
        self._written: dict[int, Log | None] = {}
        self._positions: dict[int, Sequence[Position]] = {b: tuple(v.positions) for b, v in views.items()}

    def starts(self, broker: int, epoch: int, offset: int) -> Log | None:
        """The log with which a broker starts to lead in an epoch, at this offset; None where it is not known."""
        positions = self._positions[broker]
        while self._next[broker] < len(positions):
            at = self._next[broker]
            position = positions[at]
            self._next[broker] += 1
            self._own[broker] = self._reach(broker, positions[at - 1] if at else None, position)
            if position.leads and (position.epoch, position.offset) == (epoch, offset):
                break
        else:
            return None
        log = self._own[broker]
        self._written[epoch] = None if log is None else extend(log, epoch, offset)
        self._own[broker] = self._written[epoch]
        return log

    def last_epoch(self, broker: int, end: int) -> int | None:
        """The leader epoch of the last record of a broker's log that ends here now; None where it is not known.

        Call it when ``starts`` was called for all leaders.
        """
        positions = self._positions[broker]
        for at in range(self._next[broker], len(positions)):
            self._own[broker] = self._reach(broker, positions[at - 1] if at else None, positions[at])
        self._next[broker] = len(positions)
        last = positions[-1] if positions else None
        log = self._own.get(broker)
        if last is not None and not last.leads and last.leader is not None and end > last.offset:
            log = self._written.get(last.epoch)
        return None if log is None else _epoch_at(log, end - 1)

    def written(self, epoch: int) -> Log | None:
        """The log of the leader of an epoch, with what it wrote."""
        return self._written.get(epoch)

    def _reach(self, broker: int, before: Position | None, now: Position) -> Log | None:
        """A broker's log when it begins to lead or to follow, from what it did before."""
        if now.offset == 0:
            return ()
        if before is None:
            return None
        own = self._own.get(broker)
        if not before.leads and before.leader is not None:
            stayed = (
                now.offset == before.offset and not now.truncated and self._views[broker].tells_truncations
            )
            if not stayed:
                own = self._written.get(before.epoch)
        elif not before.leads and now.offset > before.offset:
            own = None
        return None if own is None else cut(own, now.offset)
