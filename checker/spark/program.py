"""A model compiled for Spark's tasks, and the buffers that its functions work in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.native.kernels import PREDECESSOR_BITS, WORDS, Kernels
from checker.native.layout import Layout, Words
from checker.native.machine import Machine
from checker.native.program import refuse_wide_numbers
from checker.native.runtime import BATCH, SLACK
from checker.native.symmetry import canonical, refuse_asymmetry
from checker.native.table import FULL, Table, TableFullError
from checker.search import EngineError
from checker.spark.package import sources
from checker.spark.request import ModelRequest
from checker.spark.runtime import FIELDS, RowRuntime
from model.language.interpreter import BoundError
from model.language.model import Model

OUTPUT = 1 << 16
"""Rows that one call of a compiled function keeps before they are taken over."""
_FIRST_SLOTS = 1 << 14
_LARGE = 1 << 20


class RowProgram:
    """Machine code of a model for Spark. Raises EngineError where the model is beyond the native kernels.

    ``content`` names what was compiled: two processes with the same content have the same layout, the same
    instances in the same order, and the same fingerprints.
    """

    def __init__(self, model: Model, request: ModelRequest, *, ask: bool = True) -> None:
        symmetry = request.symmetry
        self.model = model
        self.layout = Layout(model.leaves)
        self.width = WORDS + self.layout.words
        self.instances = len(model.instances)
        if self.instances >= 1 << PREDECESSOR_BITS:
            raise EngineError(f"{self.instances} action instances are more than the engine can number")
        if len(model.properties) > 64:
            raise EngineError("the engine checks at most 64 properties in one run")
        refuse_wide_numbers(model)
        text = Kernels(model, self.layout).text()
        if symmetry:
            if ask:  # it takes random walks; the driver has asked when a worker compiles
                refuse_asymmetry(model)
            text += canonical(model, self.layout)
        runtime = RowRuntime(self.layout.words, self.instances, "canonical" if symmetry else "fingerprint")
        text += runtime.text()
        self.content = self._content(request)
        self._machine = Machine(text)
        self.expand = self._machine.function("expand", 1)
        self.admit = self._machine.function("admit", 1)
        self.merge = self._machine.function("merge", 1)
        self.remember = self._machine.function("remember", 1)
        self.grow = self._machine.function("grow", 5, result=True)
        self.action_numbers: dict[str, int] = {a.name: i for i, a in enumerate(model.actions)}
        self._action_of = np.array(
            [self.action_numbers[i.action.name] for i in model.instances], dtype=np.int64
        )

    def _content(self, request: ModelRequest) -> str:
        # Not of the code's text: the order of nodes in it depends on what a process traced before.
        model = self.model
        said = [
            *(repr(slot) for slot in self.layout.slots),
            *(str(instance) for instance in model.instances),
            *model.bounds,
            *(p.name for p in model.properties),
            request.text(),
            sources(),
        ]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()

    def table(self, maximum_bytes: int) -> BucketTable:
        """An empty fingerprint table."""
        return BucketTable(self.grow, maximum_bytes)

    def actions_taken(self, counts: NDArray[np.int64]) -> list[int]:
        """Steps by action from steps by instance."""
        taken = np.zeros(len(self.action_numbers), dtype=np.int64)
        np.add.at(taken, self._action_of, counts[: self.instances])
        return [int(n) for n in taken]

    def bound_error(self, code: int) -> BoundError:
        """What is to be said of a step that left a type without a declared bound."""
        instance = self.model.instances[(code - 1) >> 16]
        check = instance.checks[(code - 1) & 0xFFFF]
        return BoundError(f"{instance}: {check.message}", check.place)


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
                raise EngineError("the fingerprint table has a run of taken slots too long to move")
            self.capacity = capacity

    def clear(self) -> None:
        """Forget all fingerprints; the memory is kept."""
        self.slots[: self.capacity + SLACK] = 0
        self.taken = 0


class Buffers:
    """Buffers and counters for one task, or for the driver. Counters add up until they are taken."""

    def __init__(self, program: RowProgram, *, deadlock: bool = False, judging: bool = True) -> None:
        self.program = program
        instances, model = program.instances, program.model
        self.capacity = OUTPUT + BATCH + 2 * instances
        self.out_rows: Words = np.empty((self.capacity, program.width), dtype=np.uint64)
        self._candidates = np.empty((BATCH + 2 * instances + 1) * program.width, dtype=np.uint64)
        self.counts = np.zeros(max(1, instances), dtype=np.int64)
        self.cuts = np.zeros(max(1, len(model.bounds)), dtype=np.int64)
        self.premises = np.zeros(max(1, len(model.properties)), dtype=np.int64)
        self.violations = np.zeros((max(1, len(model.properties)), 2), dtype=np.uint64)
        self.context = np.zeros(len(FIELDS), dtype=np.int64)
        for name, array in (
            ("out_rows", self.out_rows),
            ("candidates", self._candidates),
            ("counts", self.counts),
            ("cuts", self.cuts),
            ("premises", self.premises),
            ("violations", self.violations),
        ):
            self[name] = array.ctypes.data
        self["out_capacity"] = self.capacity
        self["want_deadlock"] = int(deadlock)
        self["deadlock"] = -1
        self["judging"] = int(judging)

    def __getitem__(self, name: str) -> int:
        """A field of the context."""
        return int(self.context[FIELDS[name]])

    def __setitem__(self, name: str, value: int) -> None:
        """Set a field of the context."""
        self.context[FIELDS[name]] = value

    def expand(self, table: BucketTable, states: Words, base: int) -> Iterator[Words]:
        """Successors of states that a table does not hold yet, in parts that are valid until the next one.

        ``base`` is the index of the first state in its level. Raises BoundError.
        """
        states = np.ascontiguousarray(states)
        self["states"], self["base"], self["end"], self["start"] = states.ctypes.data, base, len(states), 0
        while self["start"] < len(states):
            self._begin(table, self.capacity)
            self.program.expand(self.context.ctypes.data)
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
            self.program.admit(self.context.ctypes.data)
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
            self.program.merge(self.context.ctypes.data)
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
        self.program.remember(self.context.ctypes.data)
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
            raise EngineError("a fingerprint table ran out of slots between two growths")

    def violated(self) -> Iterator[tuple[str, int]]:
        """The properties that were first violated in the last part, with the row's index in it."""
        for index, bits in self.violations[: self["violation_count"]].tolist():
            for number, prop in enumerate(self.program.model.properties):
                if bits >> number & 1:
                    yield prop.name, index
