"""A model compiled to expand states into steps whose targets are identified by fingerprint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.engines.native.code.machine import Machine
from highwater.checker.engines.native.code.program import CompiledModel
from highwater.checker.engines.native.state_graph import Linker, states_at_once
from highwater.checker.engines.native.text.ir import FunctionText
from highwater.checker.engines.native.text.kernels import FINGERPRINT, PREDECESSOR, PREDECESSOR_BITS
from highwater.checker.engines.native.text.linking import CutKernels, LinkRuntime
from highwater.checker.engines.spark.program import content
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.engines.state_graph import Words
from highwater.checker.tables.content import StateTable, StepVerdicts, TransitionTable
from highwater.model.language.model import Model


class FingerprintRuntime(LinkRuntime):
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


@dataclass(frozen=True)
class Expanded:
    """The steps of some states. For each state, ``steps`` counts the steps taken, and ``cut`` the pruned steps.

    ``rows`` has a row (fingerprint of the target, number of the source state, instance) for each step taken. With step
    properties, a row also has a word: bit n is set if the step violates step property n.
    """

    steps: NDArray[np.int64]
    cut: NDArray[np.int64]
    rows: Words


class TableProgram(CompiledModel):
    """Machine code that expands states of a model for its tables."""

    kernels, runtime = CutKernels, FingerprintRuntime

    def __init__(self, model: Model, request: ModelRequest) -> None:
        super().__init__(model, request.symmetry, ask=False)
        self.content = content(self, request)
        self.states = StateTable(model, self.layout)
        self.transitions = TransitionTable(model)
        self._verdicts = StepVerdicts(model, self.layout) if model.step_properties else None
        self.width = 3 + bool(model.step_properties)
        self._at_once = states_at_once(self.instances)
        self._linker = Linker(self, self._at_once, exact=False)

    def bind(self, machine: Machine) -> None:
        """Use the functions of this machine code."""
        super().bind(machine)
        self.link = machine.function("link", 1)

    def steps(self, numbers: NDArray[np.int64], states: Words) -> Iterator[tuple[slice, Expanded]]:
        """Yield slices of the packed states, each with the steps of its states. ``numbers`` are the states' numbers.

        Raises BoundError if a value leaves its type.
        """
        states, linker = np.ascontiguousarray(states), self._linker
        linker["states"] = states.ctypes.data
        for start in range(0, len(states), self._at_once):
            here = slice(start, min(start + self._at_once, len(states)))
            linker["start"], linker["end"] = here.start, here.stop
            linker["out_steps"] = linker["out_cut_total"] = 0
            self.link(linker.address)
            if linker["error"]:
                raise self.bound_error(linker["error"])
            yield here, self._expanded(numbers[here], states[here], linker)

    def _expanded(self, numbers: NDArray[np.int64], states: Words, linker: Any) -> Expanded:
        found, size = linker.steps, len(numbers)
        count = linker["out_steps"]
        steps, cut = found.counts[:size].copy(), found.cut_counts[:size].copy()
        rows = np.empty((count, self.width), dtype=np.uint64)
        rows[:, 0] = found.targets[:count].view(np.uint64)
        rows[:, 1] = np.repeat(numbers, steps)
        rows[:, 2] = found.instances[:count]
        if self._verdicts is not None:
            rows[:, 3] = self._verdicts(states, np.repeat(np.arange(size), steps), found.instances[:count])
        return Expanded(steps, cut, rows)
