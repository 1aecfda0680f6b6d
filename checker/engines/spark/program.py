"""A model compiled for Spark: the native kernels, with candidates as rows that can move between processes.

A row is a candidate: fingerprint, predecessor, words of the state. ``expand`` makes rows of the successors of states.
``new`` keeps the rows whose fingerprint a table does not have, and checks the properties of their states.
``TableProgram`` also makes the tables of ``highwater states``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.problems import InternalError
from highwater.checker.engines.columns import STATES, TRANSITIONS, StateTable, TransitionTable
from highwater.checker.engines.native.initial import initial_words
from highwater.checker.engines.native.ir import FunctionText
from highwater.checker.engines.native.kernels import (
    FINGERPRINT,
    PREDECESSOR,
    PREDECESSOR_BITS,
    WORDS,
)
from highwater.checker.engines.native.machine import Effort, Machine
from highwater.checker.engines.native.program import CompiledModel
from highwater.checker.engines.native.runs import code
from highwater.checker.engines.native.runtime import LinkRuntime
from highwater.checker.engines.native.state_graph import Linker, states_at_once
from highwater.checker.engines.native.worker import OUTPUT, Buffers, Table
from highwater.checker.engines.spark.checkpoint import Columns, PartWriter, SparkCheckpoint, packed_columns
from highwater.checker.engines.spark.request import ModelRequest, sources
from highwater.checker.engines.state_graph import Words
from highwater.model.language import Model


class RowProgram(CompiledModel):
    """Machine code of a model for Spark.

    ``content`` identifies the compiled model. Two processes with equal content have the same layout, fingerprints,
    and order of instances.
    """

    def __init__(
        self, model: Model, request: ModelRequest, *, ask: bool = True, effort: Effort = Effort.USUAL
    ) -> None:
        # The driver has tested the symmetry, so a worker does not.
        super().__init__(model, request.symmetry, ask=ask, effort=effort)
        self.content, self.deadlock = content(self, request), request.deadlock
        self.action_numbers: dict[str, int] = {a.name: i for i, a in enumerate(model.actions)}
        self._action_of = np.array(
            [self.action_numbers[i.action.name] for i in model.instances], dtype=np.int64
        )

    def bind(self, machine: Machine) -> None:
        """Use the functions of newly loaded machine code."""
        super().bind(machine)
        self.look_up = machine.function("look_up", 2)

    def initial(self) -> Words:
        """The packed initial states of the model."""
        return initial_words(self.model, self.layout)

    def table(self, expected: int, most_bytes: int = 1 << 34) -> Table:
        """An empty table with room for ``expected`` fingerprints, which can grow up to ``most_bytes``.

        The table refers to this program, because it calls the program's code.
        """
        table = Table(lambda *where: self.grow(*where), most_bytes)
        table.clear(expected)
        return table

    def level_writer(self, checkpoint: SparkCheckpoint, number: int, bucket: int | None) -> PartWriter:
        """A writer for the rows of new states of a level."""
        return checkpoint.writer(STATES, number, bucket, partial(self.columns, number))

    def columns(self, number: int, rows: Words) -> Columns:
        """The columns of rows of level ``number``."""
        return packed_columns(rows)

    def step_writer(self, checkpoint: SparkCheckpoint, number: int, bucket: int | None) -> PartWriter | None:
        """A writer for the steps to the states of level ``number``; None if the search writes no tables."""
        return None

    def steps(self, states: Words) -> Iterator[Words]:
        """Yield the steps of packed states as rows for ``step_writer``."""
        return iter(())

    def actions_taken(self, counts: NDArray[np.int64]) -> list[int]:
        """The number of steps of each action. ``counts`` has the number of steps of each instance."""
        taken = np.zeros(len(self.action_numbers), dtype=np.int64)
        np.add.at(taken, self._action_of, counts[: self.instances])
        return [int(n) for n in taken]


def compiled(model: Model, request: ModelRequest, *, ask: bool, effort: Effort) -> RowProgram:
    """The compiled model of a request, with tables if the request has them."""
    return (TableProgram if request.tables else RowProgram)(model, request, ask=ask, effort=effort)


class StepRuntime(LinkRuntime):
    """Generates code that stores the steps of states, with the fingerprints of targets instead of their numbers."""

    def _resolve(self) -> str:
        """Write ``@resolve(context, end)``: store the steps of the candidates before ``end``."""
        f = FunctionText("internal void @resolve(ptr %context, ptr %end)")
        targets, instances = self._pointer(f, "out_targets"), self._pointer(f, "out_instances")
        first, done_field = self._pointer(f, "candidates"), self._field(f, "out_steps")
        done = f.load(done_field)
        with f.loop(f"ptr {first}", f"i64 {done}") as loop:
            candidate, step = loop.values
            loop.while_(f.op(f"icmp ult ptr {candidate}, %end"))
            f.store(f.load(f.at(candidate, FINGERPRINT)), f.at(targets, step))
            predecessor = f.load(f.at(candidate, PREDECESSOR))
            f.store(f.op(f"and i64 {predecessor}, {(1 << PREDECESSOR_BITS) - 1}"), f.at(instances, step))
            loop.again(f.at(candidate, self.width), f.op(f"add i64 {step}, 1"))
        f.store(step, done_field)
        return f.end()


class TableProgram(RowProgram):
    """Machine code of a search whose levels are tables: decoded states, and all steps between states.

    A row of a step has the fingerprints of its source and target, its instance, and a word: bit n is set if the step
    violates step property n.
    """

    runtime = StepRuntime

    def __init__(
        self, model: Model, request: ModelRequest, *, ask: bool = True, effort: Effort = Effort.USUAL
    ) -> None:
        super().__init__(model, request, ask=ask, effort=effort)
        self._states, self._transitions = StateTable(model, self.layout), TransitionTable(model, self.layout)
        self._linker = Linker(self, states_at_once(self.instances), exact=False)

    def bind(self, machine: Machine) -> None:
        """Use the functions of newly loaded machine code."""
        super().bind(machine)
        self.link = machine.function("link", 1)

    def columns(self, number: int, rows: Words) -> Columns:
        """The columns of rows of level ``number``: those of the table of states, then those that the search reads."""
        depths = np.full(len(rows), number + 1)
        states = np.ascontiguousarray(rows[:, WORDS:])
        return self._states.columns(rows[:, 0].view(np.int64), depths, states) | packed_columns(rows)

    def step_writer(self, checkpoint: SparkCheckpoint, number: int, bucket: int | None) -> PartWriter | None:
        """A writer for the steps to the states of level ``number``."""

        def columns(rows: Words) -> Columns:
            ids = rows.view(np.int64)
            return self._transitions.columns(ids[:, 0], ids[:, 1], ids[:, 2], rows[:, 3])

        return checkpoint.writer(TRANSITIONS, number, bucket, columns)

    def steps(self, states: Words) -> Iterator[Words]:
        """Yield the steps of packed states as rows for ``step_writer``."""
        linker, fingerprints, size = self._linker, self.fingerprints(states), states_at_once(self.instances)
        linker["states"] = states.ctypes.data
        for start in range(0, len(states), size):
            linker["start"], linker["end"] = start, min(start + size, len(states))
            linker["out_steps"] = linker["out_cut_total"] = 0
            self.link(linker.address)
            if linker["error"]:
                raise self.bound_error(linker["error"])
            count, found = linker["out_steps"], linker.steps
            here, instances = slice(start, linker["end"]), found.instances[:count]
            sources = np.repeat(np.arange(linker["end"] - start), found.counts[: linker["end"] - start])
            targets, broken = (
                found.targets[:count],
                self._transitions.broken(states[here], sources, instances),
            )
            columns = (fingerprints[here][sources], targets, instances, broken)
            yield np.stack([column.view(np.uint64) for column in columns], axis=1)


def content(program: CompiledModel, request: ModelRequest) -> str:
    """A digest of everything that determines the results of a search: layout, instances, properties, source files."""
    # The LLVM text is left out: the order of nodes in it can depend on what the process traced earlier.
    model = program.model
    parts = [
        *(repr(slot) for slot in program.layout.slots),
        *(str(instance) for instance in model.instances),
        *model.bounds,
        *model.safety,
        repr([sorted(p.asked) for p in model.step_properties]),
        request.text(),
        sources(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def fill(table: Table, fingerprints: Words) -> None:
    """Insert fingerprints into a table. The table must not have any of them."""
    fingerprints = np.ascontiguousarray(fingerprints)
    table.make_room(len(fingerprints))
    if code().fill(table.address, table.capacity, fingerprints.ctypes.data, len(fingerprints)):
        raise InternalError("a state was visited twice")
    table.taken += len(fingerprints)


class RowBuffers(Buffers):
    """The buffers and counters of a task or of the driver. Candidates are written as rows."""

    def __init__(self, program: RowProgram, *, judging: bool = True) -> None:
        words = program.layout.words
        super().__init__(program.model, words, want_deadlock=program.deadlock, judging=judging)
        self.program = program
        self.rows: Words = np.empty((self.capacity, WORDS + words), dtype=np.uint64)
        self["rows"] = self.rows.ctypes.data

    def expand(self, table: Table, states: Words, base: int) -> Iterator[Words]:
        """Yield, as rows, the successors that the table does not have yet, and insert their fingerprints.

        ``base`` is the index, in the level, of the first of ``states``. An array of rows is valid until the next
        one is yielded. Raises BoundError if a step leaves a type and no bound prunes it.
        """
        states = np.ascontiguousarray(states)
        self["states"], self["base"], self["end"], self["start"] = states.ctypes.data, base, len(states), 0
        while self["start"] < len(states):
            self._begin(table, self.capacity)
            self.program.expand(self.address)
            yield self._taken(table)
            if self["error"]:
                raise self.program.bound_error(self["error"])

    def admit(self, table: Table, states: Words) -> Iterator[Words]:
        """Yield, as rows, the given states that the table does not have yet, and insert their fingerprints."""
        states = np.ascontiguousarray(states)
        self["states"] = states.ctypes.data
        for start in range(0, len(states), OUTPUT):
            self["start"], self["end"] = start, min(start + OUTPUT, len(states))
            self._begin(table, OUTPUT)
            self.program.admit(self.address)
            yield self._taken(table)

    def new(self, table: Table, rows: Words) -> Iterator[Words]:
        """Yield the rows that the table does not have yet, in order, and insert their fingerprints.

        Of several rows with one fingerprint, the first is kept.
        """
        rows, room = np.ascontiguousarray(rows), self["candidates"]
        try:
            for start in range(0, len(rows), OUTPUT):
                part = rows[start : start + OUTPUT]
                self["candidates"] = part.ctypes.data
                self._begin(table, len(part))
                self.program.look_up(self.address, part.ctypes.data + part.nbytes)
                yield self._taken(table)
        finally:
            self["candidates"] = room

    def _begin(self, table: Table, more: int) -> None:
        table.make_room(more)
        self["table"], self["capacity"] = table.address, table.capacity
        self["out_count"] = self["violation_count"] = 0

    def _taken(self, table: Table) -> Words:
        if self["full"]:
            raise InternalError("a fingerprint table ran out of slots between two growths")
        count = self["out_count"]
        table.taken += count
        return self.rows[:count]

    def violated(self) -> Iterator[tuple[str, int]]:
        """Yield each invariant first violated in the last yielded rows, with the index of the violating row."""
        for index, bits in self.violations[: self["violation_count"]].tolist():
            for number, prop in enumerate(self.program.model.properties):
                if bits >> number & 1:
                    yield prop.name, index

    def violated_by_steps(self) -> dict[str, tuple[int, int]]:
        """The step properties first violated since the last call, by name.

        A value is a pair: the index of the step's source state in its level, and the number of the step's instance.
        """
        return {
            prop.name: divmod(predecessor, 1 << PREDECESSOR_BITS)
            for predecessor, bits in self.broken()
            for number, prop in enumerate(self.program.model.step_properties)
            if bits >> number & 1
        }
