"""The fingerprint table of a native search, and the buffers of the compiled functions."""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.problems import InternalError
from highwater.checker.engines.native.context import CONTEXT
from highwater.checker.engines.native.instructions import ModelCode
from highwater.checker.engines.native.kernels import WORDS
from highwater.checker.engines.native.runtime import BATCH, SLACK
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import EngineError
from highwater.model.language import Model

FULL = 0.9
"""The share of home slots that may be taken; then the table grows."""
_FIRST_SLOTS = 1 << 22
_LEAST_SLOTS = 1 << 18
_LARGE = 1 << 26
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class TableFullError(EngineError):
    """The fingerprint table would need more memory than allowed."""


class Table:
    """A hash table of 64-bit fingerprints: the visited set in memory.

    The table reserves address space for its largest size, and grows in place. Small tables grow fourfold, large
    tables by a fifth. In a large table, 75 % to 90 % of the slots are taken, so a state takes 9 to 11 bytes. ``grow``
    is the compiled function ``@grow``.
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
        """The number of bytes of memory in use."""
        return (self.capacity + SLACK) * 8

    def has_room(self, more: int) -> bool:
        """True if ``more`` fingerprints fit without growing the table."""
        return self.taken + more <= FULL * self.capacity

    def make_room(self, more: int) -> None:
        """Grow the table until ``more`` fingerprints fit. No other thread may use the table meanwhile.

        Raises TableFullError if the table cannot grow.
        """
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
        """Context in which a thread uses the table, with room for ``more`` fingerprints.

        The table grows while no thread uses it. Raises TableFullError if it cannot grow.
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
        """Add to the number of taken slots."""
        with self._turn:
            self.taken += count

    @property
    def most(self) -> int:
        """The largest number of fingerprints that the table can hold."""
        return int(FULL * self._most)

    @property
    def most_slots(self) -> int:
        """The largest number of slots that the table can have, including the last SLACK slots."""
        return self._most + SLACK

    def clear(self, expected: int = 0) -> None:
        """Remove all fingerprints, and resize the table for ``expected`` fingerprints, as far as memory allows."""
        if sys.platform == "linux":  # only Linux guarantees that the pages are zero afterwards
            self._memory.madvise(mmap.MADV_DONTNEED)
        else:
            self.slots[: self.capacity + SLACK] = 0
        wanted = max(_LEAST_SLOTS, int(expected / FULL) + 1)
        self.capacity = min(wanted, self._most)
        self.taken = 0

    def close(self) -> None:
        """Free the memory."""
        del self.slots
        self._memory.close()


# Buffers of compiled functions.

OUTPUT = 1 << 16
"""A compiled function returns soon after it has found more new states than this."""


class Buffers:
    """The context of compiled functions, and the arrays to which they write. Counters add up over calls.

    ``code`` has the model's instructions, if the common kernel runs them.
    """

    def __init__(
        self, model: Model, words: int, code: ModelCode | None = None, *, want_deadlock: bool, judging: bool
    ) -> None:
        outline = model.outline
        instances, properties = len(outline.instances), max(1, len(outline.safety))
        at_once = 1 if code is None else code.at_once
        # A call ends when the successors of the next states, and a batch, might not fit.
        margin = BATCH + 2 * at_once * instances
        self.capacity = OUTPUT + margin
        self._candidates = np.empty((margin + 1) * (WORDS + words), dtype=np.uint64)
        self.counts = np.zeros(max(1, instances), dtype=np.int64)
        self.cut_bits = np.zeros(0, dtype=np.uint64)
        self.cuts = np.zeros(max(1, len(outline.bounds)), dtype=np.int64)
        self.premises = np.zeros(properties, dtype=np.int64)
        self.violations = np.zeros((properties, 2), dtype=np.uint64)
        self.broken_steps = np.zeros((properties, 2), dtype=np.uint64)
        self.context = np.zeros(len(CONTEXT), dtype=np.int64)
        self.address = self.context.ctypes.data
        self.point(
            candidates=self._candidates,
            counts=self.counts,
            cuts=self.cuts,
            premises=self.premises,
            violations=self.violations,
            broken_steps=self.broken_steps,
        )
        if code is not None:
            fields, self._kept = code.fields(WORDS + words)
            for name, value in fields.items():
                self[name] = value
        self["margin"] = margin
        self["out_capacity"] = self.capacity
        self["want_deadlock"] = int(want_deadlock)
        self["deadlock"] = -1
        self["judging"] = int(judging)

    def point(self, **arrays: NDArray[Any]) -> None:
        """Set fields of the context to the addresses of arrays."""
        for name, array in arrays.items():
            self[name] = array.ctypes.data

    def broken(self) -> list[tuple[int, int]]:
        """The recorded violations of step properties. They are then removed from the buffer.

        A pair has the violating candidate's predecessor field, and the bits of the properties that were not known
        to be violated before.
        """
        found: list[tuple[int, int]] = [
            tuple(pair) for pair in self.broken_steps[: self["broken_count"]].tolist()
        ]
        self["broken_count"] = 0
        return found

    def __getitem__(self, name: str) -> int:
        return int(self.context[CONTEXT[name]])

    def __setitem__(self, name: str, value: int) -> None:
        """Set a field of the context. The value may be an unsigned number of 64 bits."""
        self.context[CONTEXT[name]] = value - (1 << 64) if value >> 63 == 1 else value


COUNTERS = ("counts", "cuts", "premises")
"""The counters of a worker: arrays with a number for each instance, bound or property."""


def sum_counters(workers: Sequence[Buffers]) -> dict[str, list[int]]:
    """The counters of all workers added up."""
    return {name: np.sum([getattr(w, name) for w in workers], axis=0).tolist() for name in COUNTERS}


class Worker(Buffers):
    """The buffers of one thread of a search."""

    def __init__(
        self,
        model: Model,
        words: int,
        code: ModelCode | None = None,
        *,
        want_deadlock: bool = False,
    ) -> None:
        super().__init__(model, words, code, want_deadlock=want_deadlock, judging=True)
        self.rows: Words = np.empty((0, WORDS + words), dtype=np.uint64)
        self.out_states: Words = np.empty((self.capacity, words), dtype=np.uint64)
        self.out_predecessors: Words = np.empty(self.capacity, dtype=np.uint64)
        self.point(out_states=self.out_states, out_predecessors=self.out_predecessors)

    @property
    def bytes(self) -> int:
        """The number of bytes of the worker's output arrays."""
        return self.out_states.nbytes + self.out_predecessors.nbytes + self.rows.nbytes

    def run(self, function: Any, table: Table, states: Words, start: int, end: int, base: int) -> int:
        """Call a compiled function on the states from ``start`` to ``end``.

        Returns the index in ``states`` of the first unexpanded state. ``base`` is the index of ``states[0]`` in its
        level.
        """
        self["table"], self["capacity"] = table.address, table.capacity
        self["states"], self["base"] = states.ctypes.data, base
        self["start"], self["end"] = start, end
        function(self.address)
        return self["start"]

    def reset_output(self) -> None:
        """Empty the output before the next call."""
        self["out_count"] = 0
        self["violation_count"] = 0

    def collect(self) -> None:
        """From now on, write candidates as rows, and do not check properties of their states."""
        if not len(self.rows):
            self.rows = np.empty((self.capacity, self.rows.shape[1]), dtype=np.uint64)
        self["rows"], self["judging"] = self.rows.ctypes.data, 0

    def keep(self) -> None:
        """From now on, write states, and check their properties."""
        self["rows"], self["judging"] = 0, 1
