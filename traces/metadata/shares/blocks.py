"""What a range has for one share, as one block of bytes.

Columns of 64-bit and 32-bit numbers, then the values of records one after the other: thousands of records travel as one
value, and are taken apart without a look into them.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from highwater.traces.metadata.groups import Record
from highwater.traces.metadata.sharing import CHANGED, CREATED, Elsewhere

CHANGES, DECIDED, GAP, CHECK, FILE, LOADING, EPOCH, CUT_OFF = range(8)
"""Kinds of entries: changes that are decisions of their own; records that belong together; a gap, with the offset
expected in the place of a time; a snapshot to compare, by its number; the file that is read from now on; whether a
snapshot is loaded from now on; the leader epoch of what follows, in the place of a time; records that belong together
and are the last ones of their controller. All but the first are the same ones in all shares, apart from what is left
out."""
_HEAD = struct.Struct("<III")
_ELSEWHERE: dict[Elsewhere, int] = {CHANGED: -1, CREATED: -2}
_BY_NUMBER = {-1: CHANGED, -2: CREATED}


class Entry(NamedTuple):
    """Part of a block."""

    kind: int
    offsets: Sequence[int]
    times: Sequence[int]
    values: list[bytes]


class Writer:
    """A block while it is written. Changes are added to ``offsets``, ``times`` and ``values`` directly."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.times: list[int] = []
        self.values: list[bytes] = []
        self._entries: list[int] = []
        self._ended = 0

    def add(self, kind: int, records: Sequence[Record]) -> None:
        """An entry of another kind than changes."""
        self._close()
        for offset, time, value in records:
            self.offsets.append(offset)
            self.times.append(time)
            self.values.append(value)
        self._entries += (kind, len(records))
        self._ended = len(self.values)

    def _close(self) -> None:
        if len(self.values) > self._ended:
            self._entries += (CHANGES, len(self.values) - self._ended)
            self._ended = len(self.values)

    def block(self) -> bytes:
        """What was written."""
        self._close()
        lengths = array("i", map(len, self.values))
        kept = self.values
        if any(value.__class__ is Elsewhere for value in kept):
            for position, value in enumerate(kept):
                if value.__class__ is Elsewhere:
                    assert isinstance(value, Elsewhere)
                    lengths[position] = _ELSEWHERE[value]
            kept = [value for value in kept if value.__class__ is not Elsewhere]
        entries = array("i", self._entries)
        values = b"".join(kept)
        head = _HEAD.pack(len(entries), len(self.values), len(values))
        columns = (array("q", self.offsets), array("q", self.times), entries, lengths)
        return b"".join((head, *(c.tobytes() for c in columns), values))


def read(block: bytes) -> list[Entry]:
    """The entries of a block, in order."""
    values: list[bytes]
    entry_count, count, size = _HEAD.unpack_from(block)
    at = _HEAD.size
    columns: list[array[int]] = []
    for code, length in (("q", count), ("q", count), ("i", entry_count), ("i", count)):
        column = array(code)
        end = at + length * column.itemsize
        column.frombytes(block[at:end])
        columns.append(column)
        at = end
    offsets, times, entries, lengths = columns
    if at + size != len(block):
        raise ValueError("a block that is not whole")
    if count and min(lengths) >= 0:
        values = [block[a:b] for a, b in pairwise(accumulate(lengths, initial=at))]
    else:
        values = []
        for length in lengths:
            values.append(block[at : at + length] if length >= 0 else _BY_NUMBER[length])
            at += max(length, 0)
    found, first = [], 0
    for kind, length in zip(entries[::2], entries[1::2], strict=True):
        last = first + length
        found.append(Entry(kind, offsets[first:last], times[first:last], values[first:last]))
        first = last
    return found


__all__ = [
    "CHANGES", "CHECK", "CUT_OFF", "DECIDED", "EPOCH", "FILE", "GAP", "LOADING", "Entry", "Writer", "read",
]  # fmt: skip
