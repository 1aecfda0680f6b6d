"""Loops that find the steps between the states of a search, as LLVM text.

``@number`` writes the number of each state beside the slot of its fingerprint. ``@link`` expands the states again,
and looks up the targets of their steps. Look-ups run in batches, so that memory accesses overlap.
"""

from __future__ import annotations

from highwater.checker.engines.native.ir import FunctionText, signed
from highwater.checker.engines.native.kernels import (
    FINGERPRINT,
    PREDECESSOR,
    PREDECESSOR_BITS,
    WORDS,
    Kernels,
)
from highwater.checker.engines.native.runtime import BATCH, CONTEXT, Runtime

FIELDS = {
    **CONTEXT,
    **{
        name: len(CONTEXT) + place
        for place, name in enumerate(
            (
                "numbers",  # for each slot of the table: the number of its state, 32 bits
                "exact",  # 1 to compare step targets with the stored states word by word
                "mixed",  # 1 + the number of a state that shares its fingerprint with another state
                "out_targets",  # for each step: its target state
                "out_instances",  # for each step: its instance
                "out_steps",  # the number of steps written
                "out_step_counts",  # for each state from start on: its number of steps
                "out_cuts",  # the instance of each pruned step
                "out_cut_total",  # the number of pruned instances written
                "out_cut_counts",  # for each state from start on: its number of pruned steps
            )
        )
    },
}
"""The positions of the fields in a context: the fields of CONTEXT, then the fields of the functions here."""


class CutKernels(Kernels):
    """Kernels that also set a bit for each pruned instance, in the words before the counters of pruned steps."""

    def _cut(self, f: FunctionText, number: int, bound: str) -> None:
        super()._cut(f, number, bound)
        word = f.at("%cuts", -1 - number // 64)
        f.store(f.op(f"or i64 {f.load(word)}, {signed(1 << number % 64)}"), word)


def cut_words(instances: int) -> int:
    """The number of words for the bits of pruned instances. These words precede ``%cuts``."""
    return -(-instances // 64)


class LinkRuntime(Runtime):
    """Generates the LLVM functions of a search, and the functions that link states."""

    places = FIELDS

    def text(self) -> str:
        """The text of all functions."""
        own = self._number_states(), self._note_cuts(), self._resolve(), self._link()
        return "\n".join([super().text(), *own])

    def _entry(self, f: FunctionText, slot: str) -> str:
        return f.op(f"getelementptr inbounds i32, ptr {self._pointer(f, 'numbers')}, i64 {slot}")

    def _number_states(self) -> str:
        """Write ``@number(context)``: store the numbers of the states from start to end in ``numbers``."""
        f = FunctionText("void @number(ptr %context)")
        states = self._pointer(f, "states")

        def fingerprint(index: str) -> str:
            return f.op(
                f"call i64 @{self.canonical}(ptr {f.at(states, f.op(f'mul i64 {index}, {self.words}'))})"
            )

        with self._each_slot(f, fingerprint, lambda home: [self._entry(f, home)]) as (index, slot):
            f.do(f"store i32 {f.op(f'trunc i64 {index} to i32')}, ptr {self._entry(f, slot)}, align 4")
        return f.end()

    def _note_cuts(self) -> str:
        """Write ``@note_cuts(context, place)``: list the pruned instances of state ``place``, and clear their bits."""
        f = FunctionText("internal void @note_cuts(ptr %context, i64 %place)")
        cuts, out = self._pointer(f, "cuts"), self._pointer(f, "out_cuts")
        total_field = self._field(f, "out_cut_total")
        before = f.load(total_field)
        for word in range(cut_words(self.instances)):
            place = f.at(cuts, -1 - word)
            bits = f.load(place)
            f.store(0, place)
            with f.loop(f"i64 {bits}") as loop:
                (left,) = loop.values
                loop.while_(f.op(f"icmp ne i64 {left}, 0"))
                below = f.op(f"sub i64 {left}, 1")
                lowest = f.op(f"and i64 {f.op(f'xor i64 {left}, -1')}, {below}")
                number = f.op(f"call i64 @llvm.ctpop.i64(i64 {lowest})")
                total = f.load(total_field)
                f.store(f.op(f"add i64 {number}, {64 * word}"), f.at(out, total))
                f.store(f.op(f"add i64 {total}, 1"), total_field)
                loop.again(f.op(f"and i64 {left}, {below}"))
        count = f.op(f"sub i64 {f.load(total_field)}, {before}")
        f.store(count, f.at(self._pointer(f, "out_cut_counts"), "%place"))
        return f.end()

    def _resolve(self) -> str:
        """Write ``@resolve(context, end)``: look up the candidates before ``end``, and store their steps."""
        f = FunctionText("internal void @resolve(ptr %context, ptr %end)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        states, exact = self._pointer(f, "states"), self._number(f, "exact")
        first, done_field = self._pointer(f, "candidates"), self._field(f, "out_steps")
        targets, instances = self._pointer(f, "out_targets"), self._pointer(f, "out_instances")
        done = f.load(done_field)
        with f.loop(f"ptr {first}", f"i64 {done}") as loop:
            candidate, step = loop.values
            loop.while_(f.op(f"icmp ult ptr {candidate}, %end"))
            fingerprint = f.load(f.at(candidate, FINGERPRINT))
            slot = f.op(f"call i64 @find(ptr {table}, i64 {capacity}, i64 {fingerprint})")
            predecessor = f.load(f.at(candidate, PREDECESSOR))
            f.branch(f.op(f"icmp slt i64 {slot}, 0"), "lost", "found")
            f.start("lost")
            source = f.op(f"lshr i64 {predecessor}, {PREDECESSOR_BITS}")
            f.store(f.op(f"add i64 {source}, 1"), self._field(f, "lost"))
            f.do("ret void")
            f.start("found")
            number = f.op(f"zext i32 {f.op(f'load i32, ptr {self._entry(f, slot)}, align 4')} to i64")
            f.store(number, f.at(targets, step))
            f.store(f.op(f"and i64 {predecessor}, {(1 << PREDECESSOR_BITS) - 1}"), f.at(instances, step))
            target = f.at(states, f.op(f"mul i64 {number}, {self.words}"))
            f.do(f"call void @llvm.prefetch.p0(ptr {target}, i32 0, i32 3, i32 1)")
            loop.again(f.at(candidate, self.width), f.op(f"add i64 {step}, 1"))
        f.store(step, done_field)
        with f.when(f.op(f"icmp ne i64 {exact}, 0")), f.loop(f"ptr {first}", f"i64 {done}") as loop:
            candidate, step = loop.values
            loop.while_(f.op(f"icmp ult ptr {candidate}, %end"))
            number = f.load(f.at(targets, step))
            target = f.at(states, f.op(f"mul i64 {number}, {self.words}"))
            different = "0"
            for word in range(self.words):
                pair = f.load(f.at(candidate, WORDS + word)), f.load(f.at(target, word))
                different = f.op(f"or i64 {different}, {f.op(f'xor i64 {pair[0]}, {pair[1]}')}")
            with f.when(f.op(f"icmp ne i64 {different}, 0")):
                f.store(f.op(f"add i64 {number}, 1"), self._field(f, "mixed"))
            loop.again(f.at(candidate, self.width), f.op(f"add i64 {step}, 1"))
        return f.end()

    def _link(self) -> str:
        """Write ``@link(context)``: find all steps of the states from start to end."""
        f = FunctionText("void @link(ptr %context)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        states, start, end = self._pointer(f, "states"), self._number(f, "start"), self._number(f, "end")
        buffer, step_counts = self._pointer(f, "candidates"), self._pointer(f, "out_step_counts")
        enabled = f.op("alloca i64, align 8")
        batch_end = f.at(buffer, BATCH * self.width)
        with f.loop(f"i64 {start}", f"ptr {buffer}") as loop:
            index, free = loop.values
            loop.while_(f.op(f"icmp ult i64 {index}, {end}"))
            state = f.at(states, f.op(f"mul i64 {index}, {self.words}"))
            after = self._call_successors(f, state, index, free, enabled)
            place = f.op(f"sub i64 {index}, {start}")
            size = f.op(
                f"sub i64 {f.op(f'ptrtoint ptr {after} to i64')}, {f.op(f'ptrtoint ptr {free} to i64')}"
            )
            f.store(f.op(f"udiv i64 {size}, {8 * self.width}"), f.at(step_counts, place))
            f.do(f"call void @note_cuts(ptr %context, i64 {place})")
            self._fingerprints(f, free, after, table, capacity)
            kept = f.block
            with f.when(f.op(f"icmp uge ptr {after}, {batch_end}")):
                f.do(f"call void @resolve(ptr %context, ptr {after})")
                flushed = f.block
            free_next = f.join("ptr", [(buffer, flushed), (after, kept)])
            loop.again(f.op(f"add i64 {index}, 1"), free_next)
        f.do(f"call void @resolve(ptr %context, ptr {free})")
        return f.end()
