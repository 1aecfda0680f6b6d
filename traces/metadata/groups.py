"""Which records of a metadata log belong together: those of one batch, of split batches, of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import TypeGuard

from highwater.traces.kafka.partition_records import CHANGE, NO_KIND, NO_OP, kind, kinds
from highwater.traces.kafka.values import KEYS, TYPES
from highwater.traces.reading.errors import TraceError

_QUICK = frozenset({CHANGE, NO_OP})
_BEGIN, _END, _ABORT = (KEYS[f"{what}_TRANSACTION_RECORD"] for what in ("BEGIN", "END", "ABORT"))
MAX_TRANSACTION = 1_000_000
"""So many records of a metadata transaction are kept until it ends."""
SPLIT = 10_000
"""A decision with more records than this is appended in several batches (Kafka's limit for one)."""

Record = tuple[int, int, bytes]
"""Offset, time in ms since the epoch, value."""


def have_values(values: list[bytes | None], kinds: Set[int]) -> TypeGuard[list[bytes]]:
    """Whether each record of a batch with these API keys has a value."""
    return NO_KIND not in kinds


class RecordGroups:
    """Keeps records until those are there that they belong with.

    ``skipped`` is called with what is not followed, and how often; ``damaged`` makes the error of a record.
    """

    def __init__(
        self, skipped: Callable[[str, int], None], damaged: Callable[[int, str], TraceError]
    ) -> None:
        self._skipped, self._damaged = skipped, damaged
        self._transaction: list[Record] | None = None
        self._begun: Record | None = None
        self._held: tuple[list[int], list[bytes]] | None = None
        self._held_time = 0

    @property
    def is_open(self) -> bool:
        """Whether records are kept for which others may come."""
        return self._transaction is not None or self._held is not None

    def kinds(self, offset: int, values: Sequence[bytes | None]) -> Set[int]:
        """The API keys in a batch that begins at an offset. Raises TraceError where a record has none."""
        found = kinds(values)
        if NO_KIND in found:
            raise self._damaged(offset, "a record without a value")
        return found

    def are_alone(self, kinds: Set[int], count: int) -> bool:
        """Whether each record of a batch is a decision of its own: changes of partitions, and what is skipped."""
        full = count % SPLIT == 0 and count > 0
        return not full and kinds <= _QUICK and self._transaction is None and self._held is None

    def take(self, offsets: Sequence[int], time: int, values: Sequence[bytes]) -> Iterator[list[Record]]:
        """The records that belong together, now that a batch is there. Raises TraceError."""
        if self._held is not None:
            earlier, kept = self._held
            offsets, values = [*earlier, *offsets], [*kept, *values]
            self._held = None
        full = len(values) % SPLIT == 0 and kind(values[-1]) == CHANGE
        if full and len(values) < MAX_TRANSACTION:
            self._held, self._held_time = (list(offsets), list(values)), time
            return
        yield from self._divided(offsets, time, values)

    def settle(self) -> Iterator[list[Record]]:
        """What was kept because more of the same decision might have come. Raises TraceError."""
        if self._held is not None:
            offsets, values = self._held
            self._held = None
            yield from self._divided(offsets, self._held_time, values)

    def close(self) -> Iterator[list[Record]]:
        """At the end of the log: the record that begins a transaction which has not ended, if there is one."""
        if self._transaction is not None and self._begun is not None:
            yield [self._begun]

    def note(self) -> str | None:
        """The note at the end of the log of records that were kept."""
        if self._transaction is None:
            return None
        return f"the log ends within a metadata transaction of {len(self._transaction)} records"

    def _divided(self, offsets: Sequence[int], time: int, values: Sequence[bytes]) -> Iterator[list[Record]]:
        """Records up to a transaction, those of a transaction, those behind it."""
        group: list[Record] = []
        for offset, value in zip(offsets, values, strict=True):
            if self._transaction is None and kind(value) != _BEGIN:
                group.append((offset, time, value))
                continue
            if group:
                yield group
                group = []
            ended = self._in_transaction(offset, time, value)
            if ended:
                yield ended
        if group:
            yield group

    def _in_transaction(self, offset: int, time: int, value: bytes) -> list[Record] | None:
        """Records between BEGIN and END count when it ends, and not where it is aborted.

        Where another one begins before, they never count: what began them is handed on.
        """
        key, kept = kind(value), self._transaction
        if key in (_BEGIN, _END, _ABORT):
            self._skipped(TYPES[key], 1)
        if key == _BEGIN or kept is None:
            unended = None if kept is None or self._begun is None else [self._begun]
            self._transaction, self._begun = [], (offset, time, value)
            return unended
        if key == _END:
            self._transaction = None
            return kept
        elif key == _ABORT:
            self._transaction = None
            self._skipped("records of an aborted transaction", len(kept))
        elif len(kept) < MAX_TRANSACTION:
            kept.append((offset, time, value))
        else:
            raise self._damaged(offset, f"a metadata transaction of more than {MAX_TRANSACTION} records")
        return None
