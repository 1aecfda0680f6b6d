"""The fingerprint table: which states were seen, eight bytes each, in memory that grows in place."""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from highwater.checker.asking.search import EngineError
from highwater.checker.base.problems import InternalError
from highwater.checker.engines.native.text.runtime import SLACK

FULL = 0.9
"""The share of home slots that may be taken before the table grows."""
_FIRST_SLOTS = 1 << 22
_LEAST_SLOTS = 1 << 18
_LARGE = 1 << 26
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class TableFullError(EngineError):
    """The table would need more memory than it may have."""


class Table:
    """Slots of 64-bit fingerprints in one stretch of address space, of which only the used part takes memory.

    Small tables grow fourfold; large ones by a fifth, so that a state costs eight bytes divided by a share of
    taken slots between 0.75 and 0.9. ``grow`` is the compiled sweep of the runtime.
    """

    def __init__(self, grow: Any, maximum_bytes: int) -> None:
        self._grow = grow
        slots = max(maximum_bytes // 8, 4 * SLACK)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        try:
            self._memory = mmap.mmap(-1, slots * 8, flags=flags)
        except (OSError, ValueError) as wrong:
            raise EngineError(
                f"no address space for a fingerprint table of {slots * 8} bytes: {wrong}"
            ) from None
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.slots = np.frombuffer(self._memory, dtype=np.uint64)
        self.address = self.slots.ctypes.data
        self._most = slots - SLACK
        self.capacity = min(_FIRST_SLOTS, self._most)
        self.taken = 0
        self._turn = threading.Condition()
        self._inside = 0
        self._growing = False

    @property
    def bytes(self) -> int:
        """Memory in use."""
        return (self.capacity + SLACK) * 8

    def has_room(self, more: int) -> bool:
        """Whether so many more fingerprints fit without growing."""
        return self.taken + more <= FULL * self.capacity

    def make_room(self, more: int) -> None:
        """Grow until so many more fit. No other call may use the table meanwhile. TableFullError if it cannot."""
        while not self.has_room(more):
            wanted = self.capacity * 4 if self.capacity < _LARGE else self.capacity * 6 // 5
            capacity = min(wanted, self._most)
            if capacity <= self.capacity:
                raise TableFullError(f"the fingerprint table is full at {self.taken:,} states")
            room = np.empty(1 << 20, dtype=np.uint64)
            if self._grow(self.address, self.capacity, capacity, room.ctypes.data, room.size):
                raise InternalError("the fingerprint table has a run of taken slots too long to move")
            self.capacity = capacity

    @contextmanager
    def entered(self, more: int) -> Iterator[None]:
        """For one of several threads: be in it with room for so many more. It grows while no thread is in it.

        Raises TableFullError where there is no such room.
        """
        with self._turn:
            while self._growing:
                self._turn.wait()
            if not self.has_room(more):
                self._growing = True
                try:
                    while self._inside:
                        self._turn.wait()
                    self.make_room(more)
                finally:
                    self._growing = False
                    self._turn.notify_all()
            self._inside += 1
        try:
            yield
        finally:
            with self._turn:
                self._inside -= 1
                self._turn.notify_all()

    def add_taken(self, count: int) -> None:
        """Note that a thread that is in it took so many slots."""
        with self._turn:
            self.taken += count

    @property
    def most(self) -> int:
        """The most fingerprints that it can hold."""
        return int(FULL * self._most)

    @property
    def most_slots(self) -> int:
        """The most slots that it can have, the last ones included."""
        return self._most + SLACK

    def clear(self, expected: int = 0) -> None:
        """Forget all fingerprints, and be as large as so many need, if it can be."""
        if sys.platform == "linux":  # elsewhere the pages need not come back as zeros
            self._memory.madvise(mmap.MADV_DONTNEED)
        else:
            self.slots[: self.capacity + SLACK] = 0
        wanted = max(_LEAST_SLOTS, int(expected / FULL) + 1)
        self.capacity = min(wanted, self._most)
        self.taken = 0

    def take_over(self, other: Table) -> None:
        """Hold what another table holds. It must not be larger than this one can be."""
        self.capacity, self.taken = other.capacity, other.taken
        slots = self.capacity + SLACK
        self.slots[:slots] = other.slots[:slots]

    def close(self) -> None:
        """Give the memory back."""
        del self.slots
        self._memory.close()
