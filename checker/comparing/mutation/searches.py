"""Searches of a model with one of its mutants, by one machine code for all; and which mutants change a step at all."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from highwater.checker.asking.search import SearchOptions
from highwater.checker.comparing.mutation.kernels import FIELDS, MutantKernels, MutantRuntime, bits_of
from highwater.checker.engines.layout import Words
from highwater.checker.engines.native.code.machine import Effort, Machine
from highwater.checker.engines.native.frontier import Level
from highwater.checker.engines.native.linker import make_room_for_cuts
from highwater.checker.engines.native.search import NativeSearch
from highwater.checker.engines.native.state_graph import GraphSearch, Linking, LinkProgram
from highwater.checker.engines.native.text.kernels import WORDS
from highwater.checker.engines.native.text.runtime import BATCH
from highwater.checker.engines.native.worker import Buffers
from highwater.checker.engines.state_graph import Explored
from highwater.model.language.mutated import MutatedModel, chosen

_PAYS = 0.3
"""From this number of steps for each byte of text, better code pays: it runs ten times as fast."""
_SOME = 1 << 12
"""States that are compared at a time."""


class MutantProgram(LinkProgram):
    """Machine code of a model with all its mutants; ``choose`` sets the mutant that the next search has."""

    kernels = MutantKernels
    judging = True
    model: MutatedModel

    def __init__(self, model: MutatedModel, effort: Effort = Effort.QUICK) -> None:
        self._variables: dict[str, ctypes.c_int64] = {}
        self._values = {"selector": 0, "mutated": 0}
        bits = bits_of(model)
        self._masks = {
            number: sum(1 << bit for bit in {bits[a] for a in actions})
            for number, actions in model.actions_of.items()
        }
        self._masks[0] = 0
        self._states_before = 0
        runtime = type("MutantRuntime", (MutantRuntime,), {"bounds": len(model.bounds)})
        self.runtime = runtime
        super().__init__(model, effort=effort)

    def bind(self, machine: Machine) -> None:
        """Take the functions and the variables from machine code."""
        super().bind(machine)
        self.differ = machine.function("differ", 1)
        self._variables = {name: ctypes.c_int64.from_address(machine.address(name)) for name in self._values}
        self._tell()

    def _tell(self) -> None:
        for name, value in self._values.items():
            self._variables[name].value = value

    def mask(self, number: int) -> int:
        """The bits of the actions that a mutant changes."""
        return self._masks[number]

    def choose(self, number: int) -> None:
        """Later searches are of this mutant; 0 is the protocol as it is."""
        self._values.update(selector=number, mutated=_signed(self._masks[number]))
        self._tell()

    def improve(self, states: int, *, crowded: bool = False) -> None:
        """As for one search; the states of all searches count, as they share the code."""
        super().improve(self._states_before + states, crowded=crowded)

    def settle(self, states: int) -> None:
        """Count the states of a finished search; compilation of better code continues."""
        self._states_before += states

    @staticmethod
    def effort_for(steps: int, text: str) -> Effort:
        """The effort that pays for code that takes this number of steps."""
        return Effort.USUAL if steps >= _PAYS * len(text) else Effort.QUICK

    def prepare(self, steps: int) -> None:
        """Compile better code now, if it pays for this number of steps."""
        if self.effort is Effort.QUICK and self.effort_for(steps, self.text) is Effort.USUAL:
            super().settle(0)
            self._asked = Effort.USUAL
            self._take(Machine(self.text, Effort.USUAL))

    def finish(self) -> None:
        """End compilation: no search follows."""
        super().settle(self._states_before)


def _signed(mask: int) -> int:
    return mask - (1 << 64) if mask >> 63 else mask


class MutantRun(NativeSearch):
    """A search that ends if a property is violated that is not expected to be; its table is small at first.

    With ``keep`` all states are kept, level by level.
    """

    def __init__(
        self, program: MutantProgram, options: SearchOptions, expected: frozenset[str], *, keep: bool = False
    ) -> None:
        super().__init__(program, options, None)
        self._expected, self._keep = expected, keep
        self.table.clear()

    def _decided(self, asked: list[str]) -> bool:
        return bool(self.found.keys() - self._expected) or super()._decided(asked)

    def _release(self, level: Level) -> None:
        if not self._keep:
            super()._release(level)

    @cached_property
    def all_states(self) -> Words:
        """The states that were kept, level by level."""
        chunks = [self.states.get(c.states) for level in self.levels for c in level.chunks]
        return np.ascontiguousarray(np.concatenate(chunks))

    def depth_of(self, state: int) -> int:
        """The level of a state by its number; initial states are on level 1."""
        sizes = np.cumsum([level.size for level in self.levels])
        return int(np.searchsorted(sizes, state, side="right")) + 1


def graph(program: MutantProgram, number: int, options: SearchOptions) -> Explored:
    """All states of a mutant and the steps between them, up to a limit. Raises as ``explored.explore`` does."""
    program.choose(number)
    program.judging = False
    try:
        asked = replace(options, deadlock=False, all_states=True, stop_at_first=False)
        run = GraphSearch(program, asked, None)
        try:
            run.explore()
            found = Linking(run, program).explored()
        finally:
            run.close()
    finally:
        program.judging = True
    return replace(found, model=chosen(program.model, number))


def differing(program: MutantProgram, states: Words, numbers: Sequence[int]) -> dict[int, int]:
    """For each mutant that takes another step in one of these states, the first such state."""
    comparison = _Comparison(program, numbers)
    for start in range(0, len(states), _SOME):
        if not comparison.compare(states, start, min(start + _SOME, len(states))):
            break
    return comparison.differing()


class _Comparison(Buffers):
    """Buffers for ``@differ``."""

    def __init__(self, program: MutantProgram, numbers: Iterable[int]) -> None:
        model, words = program.model, program.layout.words
        super().__init__(model, words, FIELDS, want_deadlock=False, judging=False)
        self._program = program
        self._mutants = np.array(list(numbers), dtype=np.int64)
        self._masks = np.array([program.mask(int(n)) for n in self._mutants], dtype=np.uint64)
        self._differs = np.zeros(len(self._mutants), dtype=np.int64)
        room = (BATCH + 2 * len(model.instances) + 1) * (WORDS + words)
        self._other = np.empty(room, dtype=np.uint64)
        make_room_for_cuts(self, model)
        cuts = self.cuts
        make_room_for_cuts(self, model)
        self._other_cuts, self._other_counts, self.cuts = self.cuts, np.zeros_like(self.counts), cuts
        self["cuts"] = cuts.ctypes.data
        for name, array in (
            ("mutants", self._mutants),
            ("masks", self._masks),
            ("differs", self._differs),
            ("other_candidates", self._other),
            ("other_cuts", self._other_cuts),
            ("other_counts", self._other_counts),
        ):
            self[name] = array.ctypes.data
        self["mutant_count"] = len(self._mutants)

    def compare(self, states: Words, start: int, end: int) -> bool:
        """Compare in some states; returns whether a mutant is left without a difference."""
        self["states"], self["start"], self["end"] = states.ctypes.data, start, end
        self._program.differ(self.address)
        return self["mutant_count"] > 0

    def differing(self) -> dict[int, int]:
        """The mutants that differ, each with the first state."""
        left = self["mutant_count"]
        return dict(zip(self._mutants[left:].tolist(), (self._differs[left:] - 1).tolist(), strict=True))
