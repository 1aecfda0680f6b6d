"""A model compiled for Spark's tasks, and the buffers that its functions work in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.problems import InternalError
from highwater.checker.engines.layout import Words
from highwater.checker.engines.native.code.machine import Effort, Machine
from highwater.checker.engines.native.code.program import CompiledModel
from highwater.checker.engines.native.table import FULL, Table, TableFullError
from highwater.checker.engines.native.text.kernels import PREDECESSOR_BITS, WORDS
from highwater.checker.engines.native.text.runtime import SLACK
from highwater.checker.engines.native.worker import OUTPUT, Buffers
from highwater.checker.engines.spark.package import sources
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.engines.spark.runtime import FIELDS, RowRuntime
from highwater.model.language.model import Model

_FIRST_SLOTS = 1 << 14
_LARGE = 1 << 20


class RowProgram(CompiledModel):
    """Machine code of a model for Spark.

    ``content`` names what was compiled: two processes with the same content have the same layout, the same
    instances in the same order, and the same fingerprints.
    """

    runtime = RowRuntime

    def __init__(
        self, model: Model, request: ModelRequest, *, ask: bool = True, effort: Effort = Effort.USUAL
    ) -> None:
        # A worker does not ask again for the symmetry that the driver has asked for.
        super().__init__(model, request.symmetry, ask=ask, effort=effort)
        self.content = content(self, request)
        self.action_numbers: dict[str, int] = {a.name: i for i, a in enumerate(model.actions)}
        self._action_of = np.array(
            [self.action_numbers[i.action.name] for i in model.instances], dtype=np.int64
        )

    def bind(self, machine: Machine) -> None:
        """Take the functions from machine code."""
        super().bind(machine)
        self.merge = machine.function("merge", 1)
        self.remember = machine.function("remember", 1)

    def table(self, maximum_bytes: int) -> BucketTable:
        """An empty fingerprint table. It keeps the program, as machine code that nobody keeps is gone."""
        return BucketTable(lambda *where: self.grow(*where), maximum_bytes)

    def actions_taken(self, counts: NDArray[np.int64]) -> list[int]:
        """Steps by action from steps by instance."""
        taken = np.zeros(len(self.action_numbers), dtype=np.int64)
        np.add.at(taken, self._action_of, counts[: self.instances])
        return [int(n) for n in taken]


def content(program: CompiledModel, request: ModelRequest) -> str:
    """A digest of what was compiled for a request."""
    # Not of the code's text: the order of nodes in it depends on what a process traced before.
    model = program.model
    said = [
        *(repr(slot) for slot in program.layout.slots),
        *(str(instance) for instance in model.instances),
        *model.bounds,
        *model.safety,
        repr([sorted(p.asked) for p in model.step_properties]),
        request.text(),
        sources(),
    ]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


class BucketTable(Table):
    """A fingerprint table that starts small: a process holds many. It grows by half, in place."""

    def __init__(self, grow: Any, maximum_bytes: int) -> None:
        super().__init__(grow, maximum_bytes)
        self.capacity = min(_FIRST_SLOTS, self._most)

    def make_room(self, more: int) -> None:
        """Grow until so many more fit; TableFullError if it cannot."""
        while not self.has_room(more):
            least = int((self.taken + more) / FULL) + 1
            wanted = self.capacity * 4 if self.capacity < _LARGE else self.capacity * 3 // 2
            capacity = min(max(wanted, min(least, 4 * self.capacity)), self._most)
            if capacity <= self.capacity:
                raise TableFullError(f"the fingerprint table is full at {self.taken:,} states")
            room = np.empty(1 << 20, dtype=np.uint64)
            if self._grow(self.address, self.capacity, capacity, room.ctypes.data, room.size):
                raise InternalError("the fingerprint table has a run of taken slots too long to move")
            self.capacity = capacity

    def clear(self, expected: int = 0) -> None:
        """Forget all fingerprints; the memory is kept."""
        self.slots[: self.capacity + SLACK] = 0
        self.taken = 0


class RowBuffers(Buffers):
    """Buffers and counters for one task, or for the driver."""

    def __init__(self, program: RowProgram, *, deadlock: bool = False, judging: bool = True) -> None:
        words = program.layout.words
        super().__init__(program.model, words, FIELDS, want_deadlock=deadlock, judging=judging)
        self.program = program
        self.out_rows: Words = np.empty((self.capacity, WORDS + words), dtype=np.uint64)
        self["out_rows"] = self.out_rows.ctypes.data

    def expand(self, table: BucketTable, states: Words, base: int) -> Iterator[Words]:
        """Successors of states that a table does not hold yet, in parts that are valid until the next one.

        ``base`` is the index of the first state in its level. Raises BoundError.
        """
        states = np.ascontiguousarray(states)
        self["states"], self["base"], self["end"], self["start"] = states.ctypes.data, base, len(states), 0
        while self["start"] < len(states):
            self._begin(table, self.capacity)
            self.program.expand(self.address)
            yield self._taken(table)
            if self["error"]:
                raise self.program.bound_error(self["error"])

    def admit(self, table: BucketTable, states: Words) -> Iterator[Words]:
        """The states themselves that a table does not hold yet, as rows."""
        states = np.ascontiguousarray(states)
        self["states"] = states.ctypes.data
        for start in range(0, len(states), OUTPUT):
            self["start"], self["end"] = start, min(start + OUTPUT, len(states))
            self._begin(table, OUTPUT)
            self.program.admit(self.address)
            yield self._taken(table)

    def merge(self, table: BucketTable, rows: Words, shift: int) -> Iterator[Words]:
        """Rows that a bucket's table does not hold yet, in the order of their fingerprints.

        At the end the table holds them.
        """
        order = np.argsort(np.ascontiguousarray(rows[:, 0]))
        self["rows"], self["order"], self["total"] = rows.ctypes.data, order.ctypes.data, len(rows)
        self["shift"], self["start"] = shift, 0
        found: list[Words] = []
        while self["start"] < len(rows):
            self["end"] = min(len(rows), self["start"] + OUTPUT)
            self._begin(table, 0)
            self.program.merge(self.address)
            kept = self.out_rows[: self["out_count"]]
            found.append(kept[:, 0].copy())
            yield kept
        self.remember(table, np.concatenate(found) if found else rows[:, 0], shift)

    def remember(self, table: BucketTable, fingerprints: Words, shift: int) -> None:
        """Put fingerprints that a bucket's table does not hold into it."""
        fingerprints = np.ascontiguousarray(fingerprints)
        self["rows"], self["shift"] = fingerprints.ctypes.data, shift
        # Room for all at once: in order, they fill the table's start before its end.
        self._begin(table, len(fingerprints))
        self["start"], self["end"] = 0, len(fingerprints)
        self.program.remember(self.address)
        self._refuse_full()
        table.taken += len(fingerprints)

    def _begin(self, table: BucketTable, more: int) -> None:
        table.make_room(more)
        self["table"], self["capacity"] = table.address, table.capacity
        self["out_count"] = self["violation_count"] = 0

    def _taken(self, table: BucketTable) -> Words:
        self._refuse_full()
        count = self["out_count"]
        table.taken += count
        return self.out_rows[:count]

    def _refuse_full(self) -> None:
        if self["full"]:
            raise InternalError("a fingerprint table ran out of slots between two growths")

    def violated(self) -> Iterator[tuple[str, int]]:
        """The properties that were first violated in the last part, with the row's index in it."""
        for index, bits in self.violations[: self["violation_count"]].tolist():
            for number, prop in enumerate(self.program.model.properties):
                if bits >> number & 1:
                    yield prop.name, index

    def violated_by_steps(self) -> dict[str, tuple[int, int]]:
        """The properties of steps that were first violated since the last call.

        Each with the index of the state before the step in its level, and the step's instance.
        """
        return {
            prop.name: divmod(predecessor, 1 << PREDECESSOR_BITS)
            for predecessor, bits in self.broken()
            for number, prop in enumerate(self.program.model.step_properties)
            if bits >> number & 1
        }
