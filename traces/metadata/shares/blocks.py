"""What a range has for one share, as one block of bytes.

Columns of 64-bit and 32-bit numbers, then the values of records one after the other: thousands of records travel as one
value, and are taken apart without a look into them.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from highwater.traces.metadata.sharing import Elsewhere, SharedRecord

CHANGES, GROUP, GAP, CHECK, FILE, LOADING, EPOCH, CUT_OFF = range(8)
"""Kinds of entries: changes that are decisions of their own; records that belong together; a gap, with the offset
expected in the place of a time; a snapshot to compare, by its number; the file that is read from now on; whether a
snapshot is loaded from now on; the controller epoch of what follows, in the place of
a time, which is the value; records that belong together
and are the last ones of their controller. All but the first are the same ones in all shares, apart from what is left
out."""
_HEAD = struct.Struct("<III")
_NUMBERS = {Elsewhere.CHANGE: -1, Elsewhere.CREATION: -2}
"""What stands for them in the place of a value's length."""
_ELSEWHERE = {number: which for which, number in _NUMBERS.items()}


class Changes(NamedTuple):
    """Changes that are decisions of their own."""

    offsets: Sequence[int]
    times: Sequence[int]
    values: list[bytes]


class Common(NamedTuple):
    """What all shares go through, by its kind."""

    kind: int
    records: list[SharedRecord]


class Writer:
    """A block while it is written. Changes are added to ``offsets``, ``times`` and ``values`` directly."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.times: list[int] = []
        self.values: list[bytes] = []
        self._elsewhere: dict[int, Elsewhere] = {}
        self._entries: list[int] = []
        self._ended = 0

    def add(self, kind: int, records: Sequence[SharedRecord]) -> None:
        """An entry of another kind than changes."""
        self._close()
        for offset, time, value in records:
            self.offsets.append(offset)
            self.times.append(time)
            if isinstance(value, Elsewhere):
                self._elsewhere[len(self.values)] = value
                value = b""
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
        for position, which in self._elsewhere.items():
            lengths[position] = _NUMBERS[which]
        entries = array("i", self._entries)
        values = b"".join(self.values)
        head = _HEAD.pack(len(entries), len(self.values), len(values))
        columns = (array("q", self.offsets), array("q", self.times), entries, lengths)
        return b"".join((head, *(c.tobytes() for c in columns), values))


def read(block: bytes) -> Iterator[Changes | Common]:
    """The entries of a block, in order."""
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
    first = 0
    for kind, length in zip(entries[::2], entries[1::2], strict=True):
        of_entry = slice(first, first + length)
        first += length
        if kind == CHANGES:
            ends = list(accumulate(lengths[of_entry], initial=at))
            at = ends[-1]
            yield Changes(offsets[of_entry], times[of_entry], [block[a:b] for a, b in pairwise(ends)])
            continue
        values: list[bytes | Elsewhere] = []
        for size in lengths[of_entry]:
            values.append(block[at : at + size] if size >= 0 else _ELSEWHERE[size])
            at += max(size, 0)
        yield Common(kind, list(zip(offsets[of_entry], times[of_entry], values, strict=True)))
