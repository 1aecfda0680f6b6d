"""Kernels of a model with its mutants: one machine code for all of them.

The selector is a variable of the code, ``@selector``. An action that the chosen mutant does not change is taken by the
code of the protocol as it is, so that a search costs little more than one without mutants. ``@mutated`` has a bit for
each action that takes the other code, ``@asked`` one for each that is taken at all. ``@differ`` compares the steps of
many mutants in many states with the protocol's.
"""

from __future__ import annotations

from dataclasses import replace

from highwater.checker.engines.layout import Layout
from highwater.checker.engines.native.text.ir import FunctionText, ValueScope
from highwater.checker.engines.native.text.kernels import PREDECESSOR, PREDECESSOR_BITS, WORDS, _Output
from highwater.checker.engines.native.text.linking import FIELDS as OF_LINKS
from highwater.checker.engines.native.text.linking import CutKernels, LinkRuntime
from highwater.model.language import graph
from highwater.model.language.model import Instance
from highwater.model.language.mutated import MutatedModel, chosen

ACTIONS = 64
"""Bits of ``@mutated``: actions from the last bit on share it."""

FIELDS = {
    **OF_LINKS,
    **{
        name: len(OF_LINKS) + place
        for place, name in enumerate(
            (
                "mutants",  # their numbers, those without a difference first
                "masks",  # beside each the bits of the actions that it changes
                "differs",  # beside each: 1 + the first state with another step, 0: none
                "mutant_count",  # the number of those without a difference
                "other_candidates",  # room for the steps of a mutant
                "other_cuts",  # and for its cuts
                "other_counts",  # and for its counters, which are not read
            )
        )
    },
}
"""The places of a context: those of a search and of its graph, and those of ``@differ``."""


def bits_of(model: MutatedModel) -> dict[str, int]:
    """The bit of each action."""
    names = dict.fromkeys(i.action.name for i in model.instances)
    return {name: min(number, ACTIONS - 1) for number, name in enumerate(names)}


class MutantKernels(CutKernels):
    """Generates the kernels of a model with mutants."""

    model: MutatedModel

    def __init__(self, model: MutatedModel, layout: Layout) -> None:
        super().__init__(model, layout)
        self._plain = chosen(model, 0)

    def text(self) -> str:
        """The text of all kernels, and the variables that say which mutant they are of; generated once for a model."""
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

    def _successors(self) -> str:
        f = FunctionText(
            "ptr @successors(ptr %state, i64 %index, ptr %out, ptr %counts, ptr %cuts, ptr %error, ptr %enabled, "
            "ptr %premises)"
        )
        words = self._load(f, "%state")
        base = f.op(f"shl i64 %index, {PREDECESSOR_BITS}")
        scope = ValueScope(f, self.layout, words)
        f.store(0, "%enabled")
        asked, mutated = f.load("@asked"), f.load("@mutated")
        output = _Output("%out", base, words)
        for bit, wrong, plain in self._groups():
            output = replace(output, start=self._group(f, scope, asked, mutated, bit, wrong, plain, output))
        return f.end(f"ptr {output.start}")

    def _groups(self) -> list[tuple[int, list[tuple[int, Instance]], list[tuple[int, Instance]]]]:
        """For each bit its instances with mutants, and those of them that the protocol has, without."""
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
        output: _Output,
    ) -> str:
        """Code for the instances of one action; gives the end of what was written."""
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
    """Generates the functions of a search and of its graph, and the one that asks mutants."""

    places = FIELDS
    bounds = 1
    """How many counters of cuts there are; set for each model."""

    def text(self) -> str:
        """The text of all functions."""
        return "\n".join([super().text(), self._differ()])

    def _steps(self, f: FunctionText, state: str, out: str, cuts: str, counts: str) -> tuple[str, str, str]:
        """The steps of a state: the end of the candidates, an error, whether one is enabled."""
        error, enabled = f.op("alloca i64, align 8"), f.op("alloca i64, align 8")
        f.store(0, error)
        for bound in range(self.bounds):
            f.store(0, f.at(cuts, bound))
        end = f.op(
            f"call ptr @successors(ptr {state}, i64 0, ptr {out}, ptr {counts}, ptr {cuts}, ptr {error}, "
            f"ptr {enabled}, ptr {self._pointer(f, 'premises')})"
        )
        return end, f.load(error), f.load(enabled)

    def _differ(self) -> str:
        """``@differ(context)``: for each mutant the first of the states from start to end with another step.

        A step is another one if it leads elsewhere, is cut elsewhere, leaves a type, or cannot be taken. Mutants with
        another step go behind those without.
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
        """Note the state, and put the last mutant without a difference in the place of this one."""
        f.store(f.op(f"add i64 {index}, 1"), f.at(arrays[2], at))
        last = f.op(f"sub i64 {self._number(f, 'mutant_count')}, 1")
        for array in arrays:
            one, other = f.at(array, at), f.at(array, last)
            a, b = f.load(one), f.load(other)
            f.store(b, one)
            f.store(a, other)
        f.store(last, self._field(f, "mutant_count"))

    def _same_steps(self) -> str:
        """``@same_steps(context, state, mutant, mask)``: whether a mutant takes the same steps from a state."""
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
