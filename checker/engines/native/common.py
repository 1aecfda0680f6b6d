"""The common kernel: machine code that explores any model, because the model is data (``instructions.py``).

``@run`` executes instructions. An instruction computes on LANES states at the same time: a number or a set is a column
of LANES numbers, and a bool is a mask, a word with a bit for each lane. So reading an instruction costs little beside
executing it, and the search need not wait for a compiler. Only the number of words of a packed state is in the code.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from highwater.checker.engines.native.context import LANES
from highwater.checker.engines.native.ir import FunctionText
from highwater.checker.engines.native.kernels import (
    FINGERPRINT,
    PREDECESSOR,
    PREDECESSOR_BITS,
    WORDS,
    combine,
)
from highwater.checker.engines.native.machine import Effort, Machine
from highwater.checker.engines.native.runtime import LinkRuntime, first_bit

FIELDS = 6
"""The number of 32-bit fields of an instruction: operation, result, and four operands."""


@dataclass(frozen=True)
class LaneOperation:
    """An operation of the instructions.

    ``result`` and each of ``operands`` is ``c`` (a column), ``m`` (a mask), ``i`` (the number itself), or ``-`` (none).
    ``text`` has LLVM instructions for parts of columns, or for masks; ``{0}`` stands for the first operand, and the
    numbers after those of the operands for the results of the instructions before. ``{V}`` and ``{B}`` stand for the
    types of a vector of numbers and of bools, ``{ONES}`` and ``{ALL}`` for vectors in which each number is 1 or has all
    bits.
    """

    result: str
    operands: str
    text: tuple[str, ...] = ()


OPERATIONS = {
    "stop": LaneOperation("-", ""),
    # The numbers and sets of graph nodes.
    "add": LaneOperation("c", "cc", ("add {V} {0}, {1}",)),
    "sub": LaneOperation("c", "cc", ("sub {V} {0}, {1}",)),
    "mul": LaneOperation("c", "cc", ("mul {V} {0}, {1}",)),
    "min": LaneOperation("c", "cc", ("icmp slt {V} {0}, {1}", "select {B} {2}, {V} {0}, {V} {1}")),
    "max": LaneOperation("c", "cc", ("icmp sgt {V} {0}, {1}", "select {B} {2}, {V} {0}, {V} {1}")),
    "select": LaneOperation("c", "mcc", ("select {B} {0}, {V} {1}, {V} {2}",)),
    "union": LaneOperation("c", "cc", ("or {V} {0}, {1}",)),
    "intersection": LaneOperation("c", "cc", ("and {V} {0}, {1}",)),
    "difference": LaneOperation("c", "cc", ("xor {V} {1}, {ALL}", "and {V} {0}, {2}")),
    "singleton": LaneOperation("c", "c", ("shl {V} {ONES}, {0}",)),
    "count": LaneOperation("c", "c", ("call {V} @llvm.ctpop.{WIDTH}({V} {0})",)),
    "floordiv": LaneOperation("c", "cc"),
    "mod": LaneOperation("c", "cc"),
    # Comparisons.
    "eq": LaneOperation("m", "cc", ("icmp eq {V} {0}, {1}",)),
    "lt": LaneOperation("m", "cc", ("icmp slt {V} {0}, {1}",)),
    "member": LaneOperation("m", "cc", ("lshr {V} {1}, {0}", "trunc {V} {2} to {B}")),
    # Bools.
    "not": LaneOperation("m", "m", ("xor i64 {0}, -1",)),
    "and": LaneOperation("m", "mm", ("and i64 {0}, {1}",)),
    "and not": LaneOperation("m", "mm", ("xor i64 {1}, -1", "and i64 {0}, {2}")),
    "or": LaneOperation("m", "mm", ("or i64 {0}, {1}",)),
    "eq of bools": LaneOperation("m", "mm", ("xor i64 {0}, {1}", "xor i64 {2}, -1")),
    "select of bools": LaneOperation(
        "m", "mmm", ("xor i64 {1}, {2}", "and i64 {0}, {3}", "xor i64 {4}, {2}")
    ),
    # Packed states: the bits of {0} from {1} on, {2} of them, plus {3}; and the other way.
    "unpack": LaneOperation("c", "ciii", ("lshr {V} {0}, {1}", "and {V} {4}, {2}", "add {V} {5}, {3}")),
    "unpack bool": LaneOperation("m", "ci", ("lshr {V} {0}, {1}", "trunc {V} {2} to {B}")),
    "pack": LaneOperation("c", "ccii", ("sub {V} {1}, {3}", "shl {V} {4}, {2}", "or {V} {0}, {5}")),
    "pack high": LaneOperation("c", "ccii", ("sub {V} {1}, {3}", "lshr {V} {4}, {2}", "or {V} {0}, {5}")),
    "pack bool": LaneOperation("c", "cmi", ("zext {B} {1} to {V}", "shl {V} {3}, {2}", "or {V} {0}, {4}")),
    # If {0} is empty, go on at {1}.
    "skip": LaneOperation("-", "mi"),
    # Results. {0} are the lanes to which they apply.
    "enabled": LaneOperation("-", "mi"),  # place of the instance
    "cut": LaneOperation("-", "mii"),  # instance, bound
    "error": LaneOperation("-", "mi"),  # code
    "judge step": LaneOperation("-", "mmmi"),  # condition, premise, number of the step property
    "candidate": LaneOperation("-", "mi"),  # instance; the next instructions name the columns of the words
    "judge": LaneOperation("-", "mmi"),  # condition, premise, number of the invariant
    "output": LaneOperation("-", "ci"),  # number of the output
    "output bool": LaneOperation("-", "mi"),
}
"""The operations by name, in the order of their numbers."""
NUMBERS = {name: number for number, name in enumerate(OPERATIONS)}


@functools.cache
def common_machine(words: int, bits: int) -> Machine:
    """The common kernel for packed states of this number of words, and columns of numbers of 32 or 64 bits."""
    return Machine(CommonRuntime(words, bits).text(), Effort.FULL)


class CommonRuntime(LinkRuntime):
    """Generates the common kernel: the loops of a search around ``@run``.

    It reads a packed state as *pieces*: numbers of 32 or 64 bits.
    """

    def __init__(self, words: int, bits: int) -> None:
        super().__init__(words, "fingerprint", of_steps=True)
        self.number, self.pieces = f"i{bits}", words * 64 // bits
        self.bytes, self._part = bits // 8, 512 // bits
        self._vector, self._bools = f"<{self._part} x {self.number}>", f"<{self._part} x i1>"
        self._types = {"V": self._vector, "B": self._bools, "WIDTH": f"v{self._part}{self.number}"}
        for name, value in (("ONES", 1), ("ALL", -1)):
            self._types[name] = f"<{', '.join([f'{self.number} {value}'] * self._part)}>"

    def text(self) -> str:
        """The LLVM text of all functions."""
        declared = "declare {V} @llvm.ctpop.{WIDTH}({V})\n".format(**self._types)
        own = (
            self._fingerprint(),
            self._load_lanes(),
            self._gather_lanes(),
            self._run(),
            self._judge_steps(),
            self._successors(),
            self._evaluate_all(),
        )
        return "\n".join([declared, *own, super().text()])

    def _piece(self, f: FunctionText, pointer: str, index: str | int) -> str:
        """Write code for the address of a number in a column or a packed state."""
        return f.op(f"getelementptr inbounds {self.number}, ptr {pointer}, i64 {index}")

    def _load_number(self, f: FunctionText, place: str) -> str:
        return f.op(f"load {self.number}, ptr {place}, align {self.bytes}")

    def _store_number(self, f: FunctionText, number: str, place: str) -> None:
        f.do(f"store {self.number} {number}, ptr {place}, align {self.bytes}")

    def _narrow(self, f: FunctionText, number: str) -> str:
        """Write code that makes a number of a column from an i64."""
        return number if self.number == "i64" else f.op(f"trunc i64 {number} to {self.number}")

    def _walks(self) -> list[str]:
        return []

    def _share(self, f: FunctionText, index: str, end: str) -> str:
        left, lanes = f.op(f"sub i64 {end}, {index}"), self._number(f, "at_once")
        return f.op(f"select i1 {f.op(f'icmp ult i64 {left}, {lanes}')}, i64 {left}, i64 {lanes}")

    def _fingerprint(self) -> str:
        f = FunctionText("internal i64 @fingerprint(ptr %words) alwaysinline")
        words = [f.load(f.at("%words", w)) for w in range(self.words)]
        return f.end(f"i64 {combine(f, words)}")

    def _lanes_in_use(self, f: FunctionText, count: str) -> None:
        """Write code that stores mask 0: the first ``count`` lanes."""
        whole = f.op(f"icmp uge i64 {count}, {LANES}")
        some = f.op(f"sub i64 {f.op(f'shl i64 1, {count}')}, 1")
        f.store(f.op(f"select i1 {whole}, i64 -1, i64 {some}"), self._pointer(f, "masks"))

    def _fill(self, f: FunctionText, columns: str, first: int, lane: str, state: str) -> None:
        """Write code that stores the pieces of a state in one lane of the columns from ``first`` on."""
        for piece in range(self.pieces):
            place = f.op(f"add i64 {lane}, {LANES * (first + piece)}")
            number = self._load_number(f, self._piece(f, state, piece))
            self._store_number(f, number, self._piece(f, columns, place))

    def _load_lanes(self) -> str:
        """Write ``@load_lanes(context, states, width, count)``: fill the first columns with states.

        Column n has piece n of each state. ``width`` is the distance in words between two states.
        """
        f = FunctionText("internal void @load_lanes(ptr %context, ptr %states, i64 %width, i64 %count)")
        columns = self._pointer(f, "columns")
        self._lanes_in_use(f, "%count")
        with f.each(0, "%count") as lane:
            self._fill(f, columns, 0, lane, f.at("%states", f.op(f"mul i64 {lane}, %width")))
        return f.end()

    def _gather_lanes(self) -> str:
        """Write ``@gather_lanes(context, states, numbers, count)``: fill the first columns with states by number."""
        f = FunctionText("internal void @gather_lanes(ptr %context, ptr %states, ptr %numbers, i64 %count)")
        columns, numbers = self._pointer(f, "columns"), self._pointer(f, "lane_states")
        self._lanes_in_use(f, "%count")
        with f.each(0, "%count") as lane:
            number = f.load(f.at("%numbers", lane))
            f.store(number, f.at(numbers, lane))
            self._fill(f, columns, 0, lane, f.at("%states", f.op(f"mul i64 {number}, {self.words}")))
        return f.end()

    # --- running instructions ---------------------------------------------------------------------

    def _run(self) -> str:
        """Write ``@run(context, code)``: execute instructions from ``code`` on, until the first ``stop``."""
        f = FunctionText("internal void @run(ptr %context, ptr %code)")
        self._columns, self._masks = self._pointer(f, "columns"), self._pointer(f, "masks")
        with f.loop("ptr %code") as loop:
            (self._at,) = loop.values
            number = f.op(f"load i32, ptr {self._at}, align 4")
            labels = {name: f.fresh(name.replace(" ", "_")) for name in OPERATIONS}
            cases = " ".join(f"i32 {NUMBERS[name]}, label %{label}" for name, label in labels.items())
            f.do(f"switch i32 {number}, label %{labels['stop']} [ {cases} ]")
            for name, operation in OPERATIONS.items():
                f.start(labels[name])
                following = self._after(f, 1)
                if name == "stop":
                    loop.leave()
                    continue
                if operation.text:
                    self._compute(f, operation)
                else:
                    made = getattr(self, f"_do_{name.replace(' ', '_')}")(f)
                    following = made or following
                loop.again(following)
        return f.end()

    def _after(self, f: FunctionText, instructions: int) -> str:
        return f.op(f"getelementptr inbounds i32, ptr {self._at}, i64 {FIELDS * instructions}")

    def _operand(self, f: FunctionText, place: int) -> str:
        """The number in a field of the instruction: 0 for the result, from 1 on for an operand."""
        field = f.op(f"getelementptr inbounds i32, ptr {self._at}, i64 {1 + place}")
        return f.op(f"sext i32 {f.op(f'load i32, ptr {field}, align 4')} to i64")

    def _column(self, f: FunctionText, place: int) -> str:
        return self._piece(f, self._columns, f.op(f"mul i64 {self._operand(f, place)}, {LANES}"))

    def _mask(self, f: FunctionText, place: int) -> str:
        return f.load(f.at(self._masks, self._operand(f, place)))

    def _compute(self, f: FunctionText, operation: LaneOperation) -> None:
        """Write code for an operation of masks, or for all parts of an operation of columns."""
        if "c" not in operation.result + operation.operands:
            values = [self._mask(f, place) for place in range(1, 1 + len(operation.operands))]
            for line in operation.text:
                values.append(f.op(line.format(*values)))
            f.store(values[-1], f.at(self._masks, self._operand(f, 0)))
            return
        given = [
            {"c": self._column, "m": self._mask, "i": self._operand}[kind](f, place)
            for place, kind in enumerate(operation.operands, 1)
        ]
        if operation.operands == "ciii":  # the number of bits as a mask of bits
            given[2] = f.op(f"sub i64 {f.op(f'shl i64 1, {given[2]}')}, 1")
        numbers = [
            self._splat(f, g) if k == "i" else g for k, g in zip(operation.operands, given, strict=True)
        ]
        part = self._part
        target = self._column(f, 0) if operation.result == "c" else "0"
        for first in range(0, LANES, part):
            values = []
            for kind, value in zip(operation.operands, numbers, strict=True):
                if kind == "c":
                    value = f.op(f"load {self._vector}, ptr {self._piece(f, value, first)}, align 64")
                elif kind == "m":
                    bits = f.op(f"trunc i64 {f.op(f'lshr i64 {value}, {first}')} to i{part}")
                    value = f.op(f"bitcast i{part} {bits} to {self._bools}")
                values.append(value)
            for line in operation.text:
                values.append(f.op(line.format(*values, **self._types)))
            if operation.result == "c":
                place = self._piece(f, target, first)
                f.do(f"store {self._vector} {values[-1]}, ptr {place}, align 64")
            else:
                bits = f.op(f"zext i{part} {f.op(f'bitcast {self._bools} {values[-1]} to i{part}')} to i64")
                target = f.op(f"or i64 {target}, {f.op(f'shl i64 {bits}, {first}')}")
        if operation.result == "m":
            f.store(target, f.at(self._masks, self._operand(f, 0)))

    def _splat(self, f: FunctionText, number: str) -> str:
        one = f.op(f"insertelement {self._vector} poison, {self.number} {self._narrow(f, number)}, i32 0")
        zeros = f"<{self._part} x i32> zeroinitializer"
        return f.op(f"shufflevector {self._vector} {one}, {self._vector} poison, {zeros}")

    def _do_floordiv(self, f: FunctionText) -> None:
        self._divided(f, "floordiv")

    def _do_mod(self, f: FunctionText) -> None:
        self._divided(f, "mod")

    def _divided(self, f: FunctionText, name: str) -> None:
        """Write code for floor division or its remainder. The result is 0 if the divisor is 0."""
        one, two, target = self._column(f, 1), self._column(f, 2), self._column(f, 0)
        kind = self.number
        with f.each(0, str(LANES)) as lane:
            number, given = (self._load_number(f, self._piece(f, column, lane)) for column in (one, two))
            zero = f.op(f"icmp eq {kind} {given}, 0")
            by = f.op(f"select i1 {zero}, {kind} 1, {kind} {given}")
            rest = f.op(f"srem {kind} {number}, {by}")
            apart = f.op(f"icmp slt {kind} {f.op(f'xor {kind} {rest}, {by}')}, 0")
            over = f.op(f"and i1 {apart}, {f.op(f'icmp ne {kind} {rest}, 0')}")
            if name == "mod":
                found = f.op(f"add {kind} {rest}, {f.op(f'select i1 {over}, {kind} {by}, {kind} 0')}")
            else:
                quotient = f.op(f"sdiv {kind} {number}, {by}")
                found = f.op(f"sub {kind} {quotient}, {f.op(f'zext i1 {over} to {kind}')}")
            found = f.op(f"select i1 {zero}, {kind} 0, {kind} {found}")
            self._store_number(f, found, self._piece(f, target, lane))

    # --- control ----------------------------------------------------------------------------------

    def _target(self, f: FunctionText, place: int) -> str:
        """The address of the instruction that an operand names by its distance from this one."""
        fields = f.op(f"mul i64 {self._operand(f, place)}, {FIELDS}")
        return f.op(f"getelementptr inbounds i32, ptr {self._at}, i64 {fields}")

    def _do_skip(self, f: FunctionText) -> str:
        empty = f.op(f"icmp eq i64 {self._mask(f, 1)}, 0")
        return f.op(f"select i1 {empty}, ptr {self._target(f, 2)}, ptr {self._after(f, 1)}")

    # --- results ----------------------------------------------------------------------------------

    def _population(self, f: FunctionText, mask: str) -> str:
        return f.op(f"call i64 @llvm.ctpop.i64(i64 {mask})")

    @contextmanager
    def _each_lane(self, f: FunctionText, mask: str) -> Iterator[str]:
        """Context in which added instructions run for each lane of a mask."""
        with f.loop(f"i64 {mask}") as loop:
            (left,) = loop.values
            loop.while_(f.op(f"icmp ne i64 {left}, 0"))
            lane, rest = first_bit(f, left)
            yield lane
            loop.again(rest)

    def _do_enabled(self, f: FunctionText) -> None:
        mask, place = self._mask(f, 1), self._operand(f, 2)
        field = self._field(f, "enabled")
        f.store(f.op(f"or i64 {f.load(field)}, {mask}"), field)
        counter = f.at(self._pointer(f, "enabled_counts"), place)
        at_once, first = self._number(f, "at_once"), self._number(f, "first")
        states = f.at(self._pointer(f, "enabled_states"), f.op(f"mul i64 {place}, {at_once}"))
        before = f.load(counter)
        with f.loop(f"i64 {mask}", f"i64 {before}") as loop:
            left, count = loop.values
            loop.while_(f.op(f"icmp ne i64 {left}, 0"))
            lane, rest = first_bit(f, left)
            f.store(f.op(f"add i64 {first}, {lane}"), f.at(states, count))
            loop.again(rest, f.op(f"add i64 {count}, 1"))
        f.store(count, counter)

    def _do_cut(self, f: FunctionText) -> None:
        mask, instance = self._mask(f, 1), self._operand(f, 2)
        f.bump(f.at(self._pointer(f, "cuts"), self._operand(f, 3)), self._population(f, mask))
        bits, words, states = (
            self._pointer(f, "cut_bits"),
            self._number(f, "cut_words"),
            self._pointer(f, "lane_states"),
        )
        wanted = f.op(f"icmp ne ptr {bits}, null")
        with self._each_lane(f, f.op(f"select i1 {wanted}, i64 {mask}, i64 0")) as lane:
            first = f.op(f"mul i64 {f.load(f.at(states, lane))}, {words}")
            place = f.at(bits, f.op(f"add i64 {first}, {f.op(f'lshr i64 {instance}, 6')}"))
            bit = f.op(f"shl i64 1, {f.op(f'and i64 {instance}, 63')}")
            f.store(f.op(f"or i64 {f.load(place)}, {bit}"), place)

    def _do_error(self, f: FunctionText) -> None:
        """Write code that stores the code of a check: of the first state with an error, the last instance counts."""
        mask, error, at = self._mask(f, 1), self._field(f, "error"), self._field(f, "error_at")
        with f.when(f.op(f"icmp ne i64 {mask}, 0")):
            lane, _ = first_bit(f, mask)
            state = f.load(f.at(self._pointer(f, "lane_states"), lane))
            none = f.op(f"icmp eq i64 {f.load(error)}, 0")
            with f.when(f.op(f"or i1 {none}, {f.op(f'icmp ule i64 {state}, {f.load(at)}')}")):
                f.store(self._operand(f, 2), error)
                f.store(state, at)

    def _judged(
        self, f: FunctionText, lanes: str, holds: str, premise: str, number: str, counter: str
    ) -> str:
        """Write code that counts a property's premise, and marks the lanes that violate it. Returns their mask."""
        f.bump(counter, self._population(f, f.op(f"and i64 {lanes}, {premise}")))
        bad = f.op(f"and i64 {lanes}, {f.op(f'xor i64 {holds}, -1')}")
        bits, bit = self._pointer(f, "lane_bits"), f.op(f"shl i64 1, {number}")
        with self._each_lane(f, bad) as lane:
            place = f.at(bits, lane)
            f.store(f.op(f"or i64 {f.load(place)}, {bit}"), place)
        return bad

    def _do_judge_step(self, f: FunctionText) -> None:
        lanes, holds, premise = (self._mask(f, place) for place in (1, 2, 3))
        counter = f.at(self._pointer(f, "premises"), self._operand(f, 0))
        self._judged(f, lanes, holds, premise, self._operand(f, 4), counter)

    def _do_judge(self, f: FunctionText) -> None:
        holds, premise, number = self._mask(f, 1), self._mask(f, 2), self._operand(f, 3)
        counter, field = f.at(self._pointer(f, "premises"), number), self._field(f, "broken_lanes")
        bad = self._judged(f, f.load(self._masks), holds, premise, number, counter)
        f.store(f.op(f"or i64 {f.load(field)}, {bad}"), field)

    def _do_candidate(self, f: FunctionText) -> str:
        """Write code that stages a candidate for each lane of the mask."""
        mask, instance = self._mask(f, 1), self._operand(f, 2)
        f.bump(f.at(self._pointer(f, "counts"), instance), self._population(f, mask))
        named = self._after(f, 1)
        pieces = []
        for piece in range(self.pieces):
            place = f.op(f"getelementptr inbounds i32, ptr {named}, i64 {piece}")
            column = f.op(f"zext i32 {f.op(f'load i32, ptr {place}, align 4')} to i64")
            pieces.append(self._piece(f, self._columns, f.op(f"mul i64 {column}, {LANES}")))
        staged, sources = self._pointer(f, "staged"), self._pointer(f, "staged_states")
        counts, numbers = self._pointer(f, "candidate_counts"), self._pointer(f, "lane_states")
        bits = self._pointer(f, "lane_bits")
        field = self._field(f, "staged_count")
        before = f.load(field)
        with f.loop(f"i64 {mask}", f"i64 {before}") as loop:
            left, count = loop.values
            loop.while_(f.op(f"icmp ne i64 {left}, 0"))
            lane, rest = first_bit(f, left)
            row, source = f.at(staged, f.op(f"mul i64 {count}, {self.width}")), f.load(f.at(numbers, lane))
            broken = f.at(bits, lane)
            f.store(f.load(broken), f.at(row, FINGERPRINT))
            f.store(0, broken)
            f.store(instance, f.at(row, PREDECESSOR))
            state = f.at(row, WORDS)
            for piece, column in enumerate(pieces):
                number = self._load_number(f, self._piece(f, column, lane))
                self._store_number(f, number, self._piece(f, state, piece))
            f.store(source, f.at(sources, count))
            f.bump(f.at(counts, source))
            loop.again(rest, f.op(f"add i64 {count}, 1"))
        f.store(count, field)
        return self._after(f, 1 + -(-self.pieces // FIELDS))

    def _output_place(self, f: FunctionText) -> tuple[str, str]:
        place = f.at(self._pointer(f, "outputs"), self._operand(f, 2))
        return f.op(f"load ptr, ptr {place}, align 8"), self._number(f, "first")

    def _do_output(self, f: FunctionText) -> None:
        column = self._column(f, 1)
        output, first = self._output_place(f)
        with f.each(0, self._population(f, f.load(self._masks))) as lane:
            number = self._load_number(f, self._piece(f, column, lane))
            wide = number if self.number == "i64" else f.op(f"sext {self.number} {number} to i64")
            f.store(wide, f.at(output, f.op(f"add i64 {first}, {lane}")))

    def _do_output_bool(self, f: FunctionText) -> None:
        mask = self._mask(f, 1)
        output, first = self._output_place(f)
        with f.each(0, self._population(f, f.load(self._masks))) as lane:
            shifted = f.op(f"lshr i64 {mask}, {lane}")
            bit = f.op(f"trunc i64 {f.op(f'and i64 {shifted}, 1')} to i8")
            place = f.op(f"getelementptr inbounds i8, ptr {output}, i64 {f.op(f'add i64 {first}, {lane}')}")
            f.do(f"store i8 {bit}, ptr {place}, align 1")

    # --- the functions that the runtime calls --------------------------------------------------------

    @contextmanager
    def _each_group(self, f: FunctionText, start: str, end: str) -> Iterator[tuple[str, str]]:
        """Context in which added instructions run for each group of up to LANES numbers: its first, its size."""
        with f.loop(f"i64 {start}") as loop:
            (first,) = loop.values
            loop.while_(f.op(f"icmp ult i64 {first}, {end}"))
            left = f.op(f"sub i64 {end}, {first}")
            count = f.op(f"select i1 {f.op(f'icmp ult i64 {left}, {LANES}')}, i64 {left}, i64 {LANES}")
            yield first, count
            loop.again(f.op(f"add i64 {first}, {count}"))

    def _run_from(self, f: FunctionText, instruction: str) -> None:
        place = f.op(f"mul i64 {instruction}, {FIELDS}")
        code = f.op(f"getelementptr inbounds i32, ptr {self._pointer(f, 'code')}, i64 {place}")
        f.do(f"call void @run(ptr %context, ptr {code})")

    def _successors(self) -> str:
        """Write ``@successors(context, states, index, count, out)``, which expands ``count`` states.

        It writes the candidates to ``out``, state by state, and returns the address after the last one. It runs the
        guards on all states, and the rest of each instance only on the states in which its guards hold.
        """
        f = FunctionText("ptr @successors(ptr %context, ptr %states, i64 %index, i64 %count, ptr %out)")
        instances, enabled_counts = self._number(f, "instances"), self._pointer(f, "enabled_counts")
        counts, stuck, enabled = (
            self._pointer(f, "candidate_counts"),
            self._field(f, "stuck"),
            self._field(f, "enabled"),
        )
        f.store(0, self._field(f, "staged_count"))
        f.store("%count", stuck)
        for array, size in ((enabled_counts, instances), (counts, "%count")):
            with f.each(0, size) as place:
                f.store(0, f.at(array, place))
        with self._each_group(f, "0", "%count") as (first, count):
            state = f.at("%states", f.op(f"mul i64 {first}, {self.words}"))
            f.do(f"call void @load_lanes(ptr %context, ptr {state}, i64 {self.words}, i64 {count})")
            f.store(first, self._field(f, "first"))
            f.store(0, enabled)
            self._run_from(f, "0")
            lane, _ = first_bit(f, f.op(f"xor i64 {f.load(enabled)}, -1"))
            found, number = f.op(f"icmp ult i64 {lane}, {count}"), f.op(f"add i64 {first}, {lane}")
            earlier = f.op(f"icmp ult i64 {number}, {f.load(stuck)}")
            with f.when(f.op(f"and i1 {found}, {earlier}")):
                f.store(number, stuck)
        bodies, states = self._pointer(f, "bodies"), self._pointer(f, "enabled_states")
        at_once = self._number(f, "at_once")
        with f.each(0, instances) as instance:
            own, body = f.at(states, f.op(f"mul i64 {instance}, {at_once}")), f.load(f.at(bodies, instance))
            with self._each_group(f, "0", f.load(f.at(enabled_counts, instance))) as (first, count):
                numbers = f.at(own, first)
                f.do(f"call void @gather_lanes(ptr %context, ptr %states, ptr {numbers}, i64 {count})")
                self._run_from(f, body)
        f.do("call void @judge_steps(ptr %context, ptr %states)")
        with f.loop("i64 0", "i64 0") as loop:
            number, place = loop.values
            loop.while_(f.op(f"icmp ult i64 {number}, %count"))
            field = f.at(counts, number)
            own = f.load(field)
            f.store(place, field)
            loop.again(f.op(f"add i64 {number}, 1"), f.op(f"add i64 {place}, {own}"))
        staged, sources = self._pointer(f, "staged"), self._pointer(f, "staged_states")
        total = self._number(f, "staged_count")
        with f.each(0, total) as number:
            source = f.load(f.at(sources, number))
            field = f.at(counts, source)
            place = f.load(field)
            f.store(f.op(f"add i64 {place}, 1"), field)
            row = f.at(staged, f.op(f"mul i64 {number}, {self.width}"))
            to = f.at("%out", f.op(f"mul i64 {place}, {self.width}"))
            for word in range(self.width):
                if word != PREDECESSOR:
                    f.store(f.load(f.at(row, word)), f.at(to, word))
            index = f.op(f"shl i64 {f.op(f'add i64 %index, {source}')}, {PREDECESSOR_BITS}")
            f.store(f.op(f"or i64 {index}, {f.load(f.at(row, PREDECESSOR))}"), f.at(to, PREDECESSOR))
        return f.end(f"ptr {f.at('%out', f.op(f'mul i64 {total}, {self.width}'))}")

    def _judge_steps(self) -> str:
        """Write ``@judge_steps(context, states)``: mark the large step properties that the staged candidates violate.

        A property is checked for candidates that change what it reads. The columns are the pieces of the source state
        and of the candidate.
        """
        f = FunctionText("internal void @judge_steps(ptr %context, ptr %states)")
        codes = self._pointer(f, "large")
        columns, bits, chosen = (self._pointer(f, n) for n in ("columns", "lane_bits", "chosen"))
        staged, sources = self._pointer(f, "staged"), self._pointer(f, "staged_states")
        total = self._number(f, "staged_count")

        def words(number: str) -> tuple[str, str]:
            source = f.op(f"mul i64 {f.load(f.at(sources, number))}, {self.words}")
            return f.at("%states", source), f.at(staged, f.op(f"mul i64 {number}, {self.width}"))

        with f.each(0, self._number(f, "large_count")) as large:
            read = f.at(self._pointer(f, "large_read"), f.op(f"mul i64 {large}, {self.words}"))
            with f.loop("i64 0", "i64 0") as loop:
                number, count = loop.values
                loop.while_(f.op(f"icmp ult i64 {number}, {total}"))
                source, row = words(number)
                changed = "0"
                for word in range(self.words):
                    both = f.load(f.at(source, word)), f.load(f.at(row, WORDS + word))
                    differs = f.op(
                        f"and i64 {f.op(f'xor i64 {both[0]}, {both[1]}')}, {f.load(f.at(read, word))}"
                    )
                    changed = f.op(f"or i64 {changed}, {differs}")
                wanted = f.op(f"zext i1 {f.op(f'icmp ne i64 {changed}, 0')} to i64")
                f.store(number, f.at(chosen, count))
                loop.again(f.op(f"add i64 {number}, 1"), f.op(f"add i64 {count}, {wanted}"))
            with self._each_group(f, "0", count) as (first, size):
                self._lanes_in_use(f, size)
                with f.each(0, size) as lane:
                    source, row = words(f.load(f.at(chosen, f.op(f"add i64 {first}, {lane}"))))
                    self._fill(f, columns, 0, lane, source)
                    self._fill(f, columns, self.pieces, lane, f.at(row, WORDS))
                self._run_from(f, f.load(f.at(codes, large)))
                with f.each(0, size) as lane:
                    _, row = words(f.load(f.at(chosen, f.op(f"add i64 {first}, {lane}"))))
                    broken, known = f.at(bits, lane), f.at(row, FINGERPRINT)
                    f.store(f.op(f"or i64 {f.load(known)}, {f.load(broken)}"), known)
                    f.store(0, broken)
        return f.end()

    def _judge_all(self) -> str:
        f = FunctionText("void @judge_all(ptr %context, ptr %states, i64 %width, i64 %start, i64 %end)")
        code, bits = self._number(f, "judge"), self._pointer(f, "lane_bits")
        broken = self._field(f, "broken_lanes")
        with self._each_group(f, "%start", "%end") as (index, count):
            state = f.at("%states", f.op(f"mul i64 {index}, %width"))
            f.do(f"call void @load_lanes(ptr %context, ptr {state}, i64 %width, i64 {count})")
            f.store(0, broken)
            self._run_from(f, code)
            with self._each_lane(f, f.load(broken)) as lane:
                place = f.at(bits, lane)
                bad, item = f.load(place), f.op(f"add i64 {index}, {lane}")
                f.store(0, place)
                self._record(f, item, bad, "known", "violations", "violation_count")
        return f.end()

    def _evaluate_all(self) -> str:
        """Write ``@evaluate_all(context)``: run the instructions on the states from start to end."""
        f = FunctionText("void @evaluate_all(ptr %context)")
        states = self._pointer(f, "states")
        with self._each_group(f, self._number(f, "start"), self._number(f, "end")) as (index, count):
            f.store(index, self._field(f, "first"))
            state = f.at(states, f.op(f"mul i64 {index}, {self.words}"))
            f.do(f"call void @load_lanes(ptr %context, ptr {state}, i64 {self.words}, i64 {count})")
            self._run_from(f, "0")
        return f.end()
