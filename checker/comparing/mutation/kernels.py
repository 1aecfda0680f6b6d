"""Kernels of a model with its mutants: one machine code for all mutants.

The code selects a mutant by the variable ``@selector``. An action that the chosen mutant does not change runs the
unmutated code, so a search costs little more than a search without mutants. ``@mutated`` has a bit for each action
that runs the mutated code, and ``@asked`` has a bit for each action that runs at all. ``@differ`` compares the steps
of many mutants in many states with the protocol's steps.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property

import numpy as np

from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native.code.machine import Effort, Machine
from highwater.checker.engines.native.frontier import Level
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.native.state_graph import GraphLevels, Linking, LinkProgram, make_room_for_cuts
from highwater.checker.engines.native.text.ir import FunctionText, ValueScope
from highwater.checker.engines.native.text.kernels import PREDECESSOR, WORDS, Output
from highwater.checker.engines.native.text.linking import FIELDS as OF_LINKS
from highwater.checker.engines.native.text.linking import CutKernels, LinkRuntime
from highwater.checker.engines.native.text.runtime import BATCH
from highwater.checker.engines.native.worker import Buffers
from highwater.checker.engines.state_graph import Explored, Layout, Words
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import graph
from highwater.model.language.model import Instance
from highwater.model.language.mutated import MutatedModel, chosen

ACTIONS = 64
"""The number of bits of ``@mutated``. If there are more actions, the last ones share the last bit."""

FIELDS = {
    **OF_LINKS,
    **{
        name: len(OF_LINKS) + place
        for place, name in enumerate(
            (
                "mutants",  # the numbers of the mutants, those without a difference first
                "masks",  # for each mutant: the bits of the actions that it changes
                "differs",  # for each mutant: 1 + the first state with another step; 0: none
                "mutant_count",  # the number of mutants without a difference
                "other_candidates",  # space for the steps of a mutant
                "other_cuts",  # and for its cuts
                "other_counts",  # and for its counters, which are unused
            )
        )
    },
}
"""The positions of a context's fields: those of a search and of its graph, and those of ``@differ``."""


def bits_of(model: MutatedModel) -> dict[str, int]:
    """The bit of each action in the masks, by name. Actions beyond the last bit share the last bit."""
    names = dict.fromkeys(i.action.name for i in model.instances)
    return {name: min(number, ACTIONS - 1) for number, name in enumerate(names)}


class MutantKernels(CutKernels):
    """Generates the kernels of a model with mutants."""

    model: MutatedModel

    def __init__(self, model: MutatedModel, layout: Layout) -> None:
        super().__init__(model, layout)
        self._plain = chosen(model, 0)

    def text(self) -> str:
        """The LLVM text of all kernels, with the variables that select a mutant. It is generated once for a model."""
        known: dict[type, str] = vars(self.model).setdefault("kernel_texts", {})
        if type(self) not in known:
            known[type(self)] = self._generated()
        return known[type(self)]

    def _generated(self) -> str:
        variables = "".join(
            f"@{name} = global i64 {value}\n"
            for name, value in (("selector", 0), ("mutated", 0), ("asked", -1))
        )
        return variables + super().text()

    def _every_step(self, f: FunctionText, scope: ValueScope, output: Output) -> str:
        asked, mutated = f.load("@asked"), f.load("@mutated")
        for bit, wrong, plain in self._groups():
            output = replace(output, start=self._group(f, scope, asked, mutated, bit, wrong, plain, output))
        return output.start

    def _groups(self) -> list[tuple[int, list[tuple[int, Instance]], list[tuple[int, Instance]]]]:
        """For each bit: the bit, the instances of its actions with mutants, and the same instances without mutants."""
        bits = bits_of(self.model)
        found = []
        for bit in sorted(set(bits.values())):
            wrong = [(n, i) for n, i in enumerate(self.model.instances) if bits[i.action.name] == bit]
            plain = [(n, self._plain.instances[n]) for n, _ in wrong]
            found.append((bit, wrong, [(n, i) for n, i in plain if i.enabled is not graph.FALSE]))
        return found

    def _group(
        self,
        f: FunctionText,
        scope: ValueScope,
        asked: str,
        mutated: str,
        bit: int,
        wrong: list[tuple[int, Instance]],
        plain: list[tuple[int, Instance]],
        output: Output,
    ) -> str:
        """Write code for the instances of one bit, and return the name of the pointer to the end of the output.

        ``asked`` and ``mutated`` are the masks of the module. The code runs the instances ``wrong`` if the bit is
        set in ``mutated``, otherwise the instances ``plain``; if the bit is not set in ``asked``, it runs none.
        """
        here, ask, other, usual, done = (f.block, *map(f.fresh, ("ask", "other", "usual", "done")))
        f.branch(_bit(f, asked, bit), ask, done)
        f.start(ask)
        f.branch(_bit(f, mutated, bit), other, usual)
        arrivals = [(output.start, here)]
        for label, instances in ((other, wrong), (usual, plain)):
            f.start(label)
            arrivals.append((self._decide(f, scope.child(), instances, 0, output), f.block))
            f.jump(done)
        f.start(done)
        return f.join("ptr", arrivals)


def _bit(f: FunctionText, mask: str, bit: int) -> str:
    return f.op(f"trunc i64 {f.op(f'lshr i64 {mask}, {bit}')} to i1")


class MutantRuntime(LinkRuntime):
    """Generates the LLVM functions of a search and of its graph, and ``@differ``, which compares mutants."""

    places = FIELDS
    bounds = 1
    """The number of bounds, which each have a counter of pruned steps; set for each model."""

    def text(self) -> str:
        """The LLVM text of all functions."""
        return "\n".join([super().text(), self._differ()])

    def _steps(self, f: FunctionText, state: str, out: str, cuts: str, counts: str) -> tuple[str, str, str]:
        """Write code for the steps of a state; returns the end of the candidates, the error, and the enabled flag."""
        error, enabled = f.op("alloca i64, align 8"), f.op("alloca i64, align 8")
        f.store(0, error)
        for bound in range(self.bounds):
            f.store(0, f.at(cuts, bound))
        end = self._call_successors(f, state, "0", out, enabled, counts=counts, cuts=cuts, error=error)
        return end, f.load(error), f.load(enabled)

    def _differ(self) -> str:
        """Write ``@differ(context)``, which finds for each mutant the first state in which a step differs.

        A step differs if mutant and protocol reach different states by it or prune it at different bounds, or if it is
        enabled or leaves its type in only one of them. Mutants with such a state are moved to the end of the arrays.
        """
        f = FunctionText("void @differ(ptr %context)")
        states, start, end = self._pointer(f, "states"), self._number(f, "start"), self._number(f, "end")
        mutants, masks, differs = (self._pointer(f, n) for n in ("mutants", "masks", "differs"))
        with f.each(start, end) as index:
            state = f.at(states, f.op(f"mul i64 {index}, {self.words}"))
            with f.loop("i64 0") as loop:
                (at,) = loop.values
                loop.while_(f.op(f"icmp ult i64 {at}, {self._number(f, 'mutant_count')}"))
                number, mask = f.load(f.at(mutants, at)), f.load(f.at(masks, at))
                same = f.op(f"call i1 @same_steps(ptr %context, ptr {state}, i64 {number}, i64 {mask})")
                f.branch(same, "same", "other")
                f.start("same")
                loop.again(f.op(f"add i64 {at}, 1"))
                f.start("other")
                self._note(f, index, at, (mutants, masks, differs))
                loop.again(at)
        for name, value in (("selector", 0), ("mutated", 0), ("asked", -1)):
            f.store(value, f"@{name}")
        return self._same_steps() + f.end()

    def _note(self, f: FunctionText, index: str, at: str, arrays: tuple[str, str, str]) -> None:
        """Write code that records a mutant's first differing state and swaps the mutant with the last undecided one."""
        f.store(f.op(f"add i64 {index}, 1"), f.at(arrays[2], at))
        last = f.op(f"sub i64 {self._number(f, 'mutant_count')}, 1")
        for array in arrays:
            one, other = f.at(array, at), f.at(array, last)
            a, b = f.load(one), f.load(other)
            f.store(b, one)
            f.store(a, other)
        f.store(last, self._field(f, "mutant_count"))

    def _same_steps(self) -> str:
        """Write ``@same_steps(context, state, mutant, mask)``: 1 if mutant and protocol take the same steps."""
        f = FunctionText("internal i1 @same_steps(ptr %context, ptr %state, i64 %number, i64 %mask)")
        one, other = self._pointer(f, "candidates"), self._pointer(f, "other_candidates")
        cuts, other_cuts = self._pointer(f, "cuts"), self._pointer(f, "other_cuts")
        counts = self._pointer(f, "other_counts")
        f.store("%mask", "@asked")
        f.store(0, "@selector")
        f.store(0, "@mutated")
        plain = self._steps(f, "%state", one, cuts, counts)
        f.store("%number", "@selector")
        f.store("%mask", "@mutated")
        wrong = self._steps(f, "%state", other, other_cuts, counts)
        size, other_size = (
            f.op(f"sub i64 {f.op(f'ptrtoint ptr {e} to i64')}, {f.op(f'ptrtoint ptr {s} to i64')}")
            for e, s in ((plain[0], one), (wrong[0], other))
        )
        differs = f.op(f"xor i64 {size}, {other_size}")
        pairs = [(plain[1], wrong[1]), (plain[2], wrong[2])]
        pairs += [(f.load(f.at(cuts, b)), f.load(f.at(other_cuts, b))) for b in range(self.bounds)]
        for a, b in pairs:
            differs = f.op(f"or i64 {differs}, {f.op(f'xor i64 {a}, {b}')}")
        f.branch(f.op(f"icmp eq i64 {differs}, 0"), "rows", "no")
        f.start("rows")
        rows = f.op(f"udiv i64 {size}, {8 * self.width}")
        with f.each(0, rows) as row:
            offset, apart = f.op(f"mul i64 {row}, {self.width}"), "0"
            a, b = f.at(one, offset), f.at(other, offset)
            for word in (PREDECESSOR, *range(WORDS, self.width)):
                pair = f.load(f.at(a, word)), f.load(f.at(b, word))
                apart = f.op(f"or i64 {apart}, {f.op(f'xor i64 {pair[0]}, {pair[1]}')}")
            f.branch(f.op(f"icmp eq i64 {apart}, 0"), "equal", "no")
            f.start("equal")
        f.do("ret i1 true")
        f.start("no")
        return f.end("i1 false")


_PAYS = 0.3
"""The number of steps per byte of text above which optimized code pays off: it runs ten times as fast."""
_SOME = 1 << 12
"""The number of states that are compared at a time."""


class MutantProgram(LinkProgram):
    """Machine code of a model with all its mutants. ``choose`` selects the mutant of the next search."""

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
        """Use the functions and the selecting variables of this machine code."""
        super().bind(machine)
        self.differ = machine.function("differ", 1)
        self._variables = {name: ctypes.c_int64.from_address(machine.address(name)) for name in self._values}
        self._tell()

    def _tell(self) -> None:
        for name, value in self._values.items():
            self._variables[name].value = value

    def mask(self, number: int) -> int:
        """A mask with the bits of the actions that mutant ``number`` changes."""
        return self._masks[number]

    def choose(self, number: int) -> None:
        """Select the mutant that later searches run, by its number; 0 is the unmutated protocol."""
        self._values.update(selector=number, mutated=_signed(self._masks[number]))
        self._tell()

    def improve(self, states: int, *, crowded: bool = False) -> None:
        """Use optimized code if it pays off for the states of all searches so far, as they share the code."""
        super().improve(self._states_before + states, crowded=crowded)

    def settle(self, states: int) -> None:
        """Count the states of a finished search. Background compilation continues."""
        self._states_before += states

    @staticmethod
    def effort_for(steps: int, text: str) -> Effort:
        """The effort of compiling ``text``: optimized code pays off if a search takes enough steps with it."""
        return Effort.USUAL if steps >= _PAYS * len(text) else Effort.QUICK

    def prepare(self, steps: int) -> None:
        """Compile optimized code now, if it pays off for this number of steps."""
        if self.effort is Effort.QUICK and self.effort_for(steps, self.text) is Effort.USUAL:
            super().settle(0)
            self._asked = Effort.USUAL
            self._take(Machine(self.text, Effort.USUAL))

    def finish(self) -> None:
        """End background compilation: no search follows."""
        super().settle(self._states_before)


def _signed(mask: int) -> int:
    return mask - (1 << 64) if mask >> 63 else mask


class MutantRun(NativeLevels):
    """A mutant's search, level by level. It ends at the first unexpected violation.

    With ``keep``, the states of all levels are stored.
    """

    def __init__(
        self, program: MutantProgram, options: SearchOptions, expected: frozenset[str], *, keep: bool = False
    ) -> None:
        super().__init__(program, options)
        self._expected, self._keep = expected, keep
        self.table.clear()

    def explore(self) -> SearchResult:
        """Search the chosen mutant or the protocol."""
        return _MutantSearch(self, self._expected).explore()

    def _release(self, level: Level) -> None:
        if not self._keep:
            super()._release(level)

    @cached_property
    def all_states(self) -> Words:
        """The packed states of all levels, in the order of the levels."""
        chunks = [self.states.get(c.states) for level in self.levels for c in level.chunks]
        return np.ascontiguousarray(np.concatenate(chunks))

    def depth_of(self, state: int) -> int:
        """The level of the state with this index in ``all_states``; initial states are on level 1."""
        sizes = np.cumsum([level.size for level in self.levels])
        return int(np.searchsorted(sizes, state, side="right")) + 1


class _MutantSearch(BreadthFirst):
    def __init__(self, run: MutantRun, expected: frozenset[str]) -> None:
        super().__init__(run.program.model, run, run.options, None)
        self._expected = expected

    def decided(self) -> bool:
        return bool(self.visited.found.keys() - self._expected) or super().decided()


def mutant_graph(program: MutantProgram, number: int, options: SearchOptions) -> Explored:
    """All states of a mutant and the steps between them, up to a limit. Raises the errors of ``explore``."""
    program.choose(number)
    program.judging = False
    try:
        asked = replace(options, deadlock=False, all_states=True, stop_at_first=False)
        with closing(GraphLevels(program, asked)) as levels:
            run = BreadthFirst(program.model, levels, asked, None)
            run.explore()
            found = Linking(run, levels).explored()
    finally:
        program.judging = True
    return replace(found, model=chosen(program.model, number))


def differing(program: MutantProgram, states: Words, numbers: Sequence[int]) -> dict[int, int]:
    """For each mutant that takes another step than the protocol in ``states``, the index of the first such state."""
    comparison = _Comparison(program, numbers)
    for start in range(0, len(states), _SOME):
        if not comparison.compare(states, start, min(start + _SOME, len(states))):
            break
    return comparison.differing()


class _Comparison(Buffers):
    """The buffers that a call of ``@differ`` reads and writes."""

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
        """Compare the states from ``start`` to ``end``. Returns True if a mutant without a difference is left."""
        self["states"], self["start"], self["end"] = states.ctypes.data, start, end
        self._program.differ(self.address)
        return self["mutant_count"] > 0

    def differing(self) -> dict[int, int]:
        """The numbers of the mutants that differ, each with the index of the first differing state."""
        left = self["mutant_count"]
        return dict(zip(self._mutants[left:].tolist(), (self._differs[left:] - 1).tolist(), strict=True))
