"""A model as instructions: data for the common kernel (``common.py``).

The code of the steps follows the compiled kernels (``kernels.py``): instances with the same guard share a test, and
candidates of a state have the same order. Values are named by registers, which are columns or masks.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.engines.native.common import FIELDS, NUMBERS, OPERATIONS, common_machine
from highwater.checker.engines.native.context import CONTEXT, LANES
from highwater.checker.engines.native.ir import Scope, WideNumberError
from highwater.checker.engines.native.kernels import by_guard
from highwater.checker.engines.native.machine import Machine
from highwater.checker.engines.state_graph import Explored, Layout, Slot, Words
from highwater.model.language import Model
from highwater.model.language.graph import BOOL, Node
from highwater.model.language.model import Instance
from highwater.model.language.step_properties import TracedStepProperty

_IMMEDIATE = 1 << 31
"""Numbers from here on have no place in an instruction."""
MOST_INSTANCES = _IMMEDIATE >> 16
"""So many instances have no place in an instruction that stores the number of an instance and of a check."""
_AT_ONCE, _MOST_CANDIDATES = 512, 1 << 16
"""The most states that are expanded at a time, and the most candidates that they may have together."""


COLUMN, MASK = 0, 1
"""The kinds of registers."""
Register = int
"""The number of a register in its code."""
_IS_REGISTER = np.array(
    [
        [False, o.result in "cm", *(k in "cm" for k in o.operands.ljust(FIELDS - 2, "-"))]
        for o in OPERATIONS.values()
    ]
)
"""For each operation: the fields of its instructions that are registers."""
_RESULT = {name: "cm".find(operation.result) for name, operation in OPERATIONS.items()}
_REST = [(0,) * (FIELDS - 2 - operands) for operands in range(FIELDS - 1)]
"""The fields that are not in use, by the number of operands."""
_ALWAYS = 2
"""The place of the mask of all lanes."""
_DATA = len(OPERATIONS)
"""The operation of rows that only name columns, while instructions are under construction."""


@dataclass(frozen=True)
class Instructions:
    """Instructions as numbers, compressed, with the numbers of their columns and masks.

    The columns have numbers of ``bits`` bits. ``constants`` has the columns in which all numbers are equal.
    """

    bits: int
    packed: bytes
    columns: int
    masks: int
    constants: dict[int, int]

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """The instructions, with FIELDS numbers each."""
        return np.frombuffer(zlib.decompress(self.packed), dtype=np.int32).reshape(-1, FIELDS)


class Assembly:
    """Instructions under construction.

    ``words`` are the columns of the packed states, in pieces of ``bits`` bits. ``live`` (the lanes in use), ``never``
    and ``always`` are the masks that each call finds. ``constants`` are the columns in which all numbers are equal.
    """

    def __init__(self, layout: Layout, bits: int) -> None:
        self.bits = bits
        self._rows: list[tuple[int, ...]] = []
        self._sections: list[int] = []
        self._kinds: list[int] = []
        self._places: dict[Register, int] = {}
        self.used = [0, 0]
        """The numbers of columns and of masks."""
        self.words = [self.pinned(COLUMN) for _ in range(layout.words * 64 // bits)]
        self.live, self.never, self.always = (self.pinned(MASK) for _ in range(_ALWAYS + 1))
        self.constants: dict[int, Register] = {}

    def _register(self, kind: int) -> Register:
        self._kinds.append(kind)
        return len(self._kinds) - 1

    def pinned(self, kind: int) -> Register:
        """A register that keeps its place."""
        register = self._register(kind)
        self._places[register] = self.used[kind]
        self.used[kind] += 1
        return register

    def constant(self, value: int) -> Register:
        """The column in which all numbers are this one."""
        value &= (1 << self.bits) - 1
        if value not in self.constants:
            self.constants[value] = self.pinned(COLUMN)
        return self.constants[value]

    def add(self, name: str, *operands: int, into: int | None = None) -> Register:
        """Add an instruction, and return the register of its result."""
        if into is None:
            kind = _RESULT[name]
            into = 0 if kind < 0 else self._register(kind)
        self._rows.append((NUMBERS[name], into, *operands, *_REST[len(operands)]))
        return into

    def name_columns(self, columns: Sequence[Register]) -> None:
        """Add rows with the numbers of columns, which belong to the instruction before."""
        padded = [*columns, *[self.words[0]] * (-len(columns) % FIELDS)]
        for first in range(0, len(padded), FIELDS):
            self._rows.append((_DATA, *padded[first : first + FIELDS]))

    def skip(self, mask: Register) -> int:
        """Add an instruction that skips what follows, up to ``land``, if the mask is empty."""
        self.add("skip", mask)
        return len(self._rows) - 1

    def land(self, skip: int) -> None:
        """End what the instruction ``skip`` skips."""
        number, result, mask, *_ = self._rows[skip]
        self._rows[skip] = (number, result, mask, len(self._rows) - skip, 0, 0)

    def begin_section(self) -> int:
        """End the section before, and return the number of the next instruction.

        No value that is not in a pinned register is available in the next section.
        """
        if self._rows:
            self.add("stop")
        self._sections.append(len(self._rows))
        return len(self._rows)

    def finish(self) -> Instructions:
        """The finished instructions."""
        self.add("stop")
        is_data = np.array([row[0] == _DATA for row in self._rows])
        rows = np.array([row[-FIELDS:] for row in self._rows], dtype=np.int32)
        registers = _IS_REGISTER[np.where(is_data, 0, rows[:, 0])]
        registers[is_data] = True
        places = self._placed(rows, registers, is_data)
        rows[registers] = places[rows[registers]]
        columns, masks = self.used
        constants = {self._places[register]: value for value, register in self.constants.items()}
        return Instructions(self.bits, zlib.compress(rows.tobytes(), 1), columns, masks, constants)

    def _placed(
        self, rows: NDArray[np.int32], registers: NDArray[np.bool_], is_data: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """The place of each register."""
        used_at = np.broadcast_to(np.arange(len(rows))[:, None], rows.shape)[registers]
        last = np.zeros(len(self._kinds), dtype=np.int64)
        last[rows[registers]] = used_at  # the last assignment stays
        last[list(self._places)] = len(rows)  # a pinned register is never free
        ends = last.tolist()
        ending: dict[int, list[int]] = {}
        for register, at in enumerate(ends):
            ending.setdefault(at, []).append(register)
        places, kinds = [0] * len(self._kinds), self._kinds
        for register, place in self._places.items():
            places[register] = place
        results = np.where(registers[:, 1] & ~is_data, rows[:, 1], -1).tolist()
        starts, pinned = {*self._sections}, list(self.used)
        free, used = ([], []), list(pinned)  # type: tuple[list[int], list[int]], list[int]
        for at, register in enumerate(results):
            if at in starts:
                free, used = ([], []), list(pinned)
            for old in ending.get(at, ()):
                if old != register:
                    free[kinds[old]].append(places[old])
            if register >= 0 and register not in self._places:
                kind = kinds[register]
                if free[kind]:
                    places[register] = free[kind].pop()
                else:
                    places[register] = used[kind]
                    used[kind] += 1
                    self.used[kind] = max(self.used[kind], used[kind])
                if ends[register] == at:  # nobody reads it
                    free[kind].append(places[register])
        return np.array(places, dtype=np.int32)


class Values(Scope[Register]):
    """Values of graph nodes as registers. ``words`` are the columns of the packed states."""

    def __init__(
        self, code: Assembly, layout: Layout, words: list[Register], parent: Values | None = None
    ) -> None:
        super().__init__(layout, parent)
        self._code, self._words = code, words
        self._limit = 1 << code.bits - 2

    def child(self) -> Values:
        """A scope for instructions that can be skipped."""
        self._return()
        return Values(self._code, self._layout, self._words, self)

    def _constant(self, node: Node) -> Register:
        if node.sort == BOOL:
            return self._code.always if node.value else self._code.never
        return self._code.constant(node.value)

    def _emit(self, node: Node, args: list[Register]) -> Register:
        name = node.op
        if name == "input":
            return self._unpacked(node)
        if name in ("eq", "select") and node.args[-1].sort == BOOL:
            name += " of bools"
        return self._code.add(name, *args)

    def _unpacked(self, node: Node) -> Register:
        slot, add = self._layout.slots[node.value], self._code.add
        (piece, shift, bits), *rest = pieces(slot, self._code.bits)
        if node.sort == BOOL:
            return add("unpack bool", self._words[piece], shift)
        low = slot.low if abs(slot.low) < _IMMEDIATE else 0
        if not rest:
            value = add("unpack", self._words[piece], shift, bits, low)
            return value if low == slot.low else add("add", value, self._code.constant(slot.low))
        ((following, _, more),) = rest
        first = add("unpack", self._words[piece], shift, bits, 0)
        both = add("pack", first, add("unpack", self._words[following], 0, more, 0), bits, 0)
        return add("add", both, self._code.constant(slot.low)) if slot.low else both

    def pack(self, words: list[Register], node: Node, leaf: int) -> None:
        """Add the node's value to the pieces of a state, whose bits of scalar ``leaf`` are 0."""
        slot, value, add = self._layout.slots[leaf], self.value(node), self._code.add
        (piece, shift, bits), *rest = pieces(slot, self._code.bits)
        if node.sort == BOOL:
            words[piece] = add("pack bool", words[piece], value, shift)
            return
        low = slot.low
        if abs(low) >= _IMMEDIATE:
            value, low = add("sub", value, self._code.constant(low)), 0
        words[piece] = add("pack", words[piece], value, shift, low)
        for following, _, _ in rest:
            words[following] = add("pack high", words[following], value, bits, low)


def pieces(slot: Slot, size: int) -> list[tuple[int, int, int]]:
    """The bits of a scalar in the pieces of a packed state, of ``size`` bits: piece, first bit and number of bits."""
    piece, shift = slot.word * 64 // size + slot.shift // size, slot.shift % size
    first = min(slot.bits, size - shift)
    return [(piece, shift, first), *([(piece + 1, 0, slot.bits - first)] if first < slot.bits else [])]


@dataclass(frozen=True)
class ModelCode:
    """The instructions of a model: guards, then the rest of each instance, then invariants and step properties.

    It is plain data, so that it can be cached.
    """

    instructions: Instructions
    words: int
    """The number of words of a packed state."""
    bodies: tuple[int, ...]
    """For each instance, in the order of the guards: the first instruction of the rest."""
    judge: int
    """The first instruction of the invariants."""
    large: tuple[int, ...]
    """For each large step property: its first instruction."""
    large_read: tuple[tuple[int, ...], ...]
    """For each large step property: the bits that it reads in each word of a state."""

    @property
    def size(self) -> int:
        """The number of instructions."""
        return len(self.instructions.rows)

    @property
    def at_once(self) -> int:
        """The number of states to expand at a time."""
        return max(1, min(_AT_ONCE, _MOST_CANDIDATES // max(1, len(self.bodies))))

    @property
    def machine(self) -> Machine:
        """The common kernel that runs these instructions."""
        return common_machine(self.words, self.instructions.bits)

    def fields(self, width: int) -> tuple[dict[str, int], object]:
        """The fields of the context of a thread, and what must be kept as long as the context.

        ``width`` is the number of words of a candidate.
        """
        registers, states, most = Registers(self.instructions), self.at_once, len(self.bodies) * self.at_once
        tables = {name: getattr(self, name) for name in ("bodies", "large", "large_read")}
        arrays = {name: np.array(table, dtype=np.uint64) for name, table in tables.items()} | {
            "enabled_counts": np.zeros(len(self.bodies), dtype=np.uint64),
            "enabled_states": np.zeros(most, dtype=np.uint64),
            "staged": np.empty(most * width, dtype=np.uint64),
            "staged_states": np.empty(most, dtype=np.uint64),
            "candidate_counts": np.zeros(states, dtype=np.uint64),
            "chosen": np.empty(most, dtype=np.uint64),
        }
        fields = {name: array.ctypes.data for name, array in arrays.items()}
        fields |= {"at_once": states, "instances": len(self.bodies), "large_count": len(self.large)}
        return registers.fields | fields | {"judge": self.judge}, (registers, arrays)


def translated(model: Model, layout: Layout) -> ModelCode:
    """The instructions of a model. Raises WideNumberError if a value may need more than 62 bits."""
    try:
        return _Translation(model, layout, 32).code()
    except WideNumberError:
        return _Translation(model, layout, 64).code()


class _Translation:
    """The translation of a model to instructions, with numbers of ``bits`` bits."""

    def __init__(self, model: Model, layout: Layout, bits: int) -> None:
        self._model, self._layout = model, layout
        self._code = Assembly(layout, bits)
        self._after = [self._code.pinned(COLUMN) for _ in self._code.words]
        self._bounds = {bound: i for i, bound in enumerate(model.bounds)}
        self._order: list[int] = []

    def code(self) -> ModelCode:
        """The instructions. Raises WideNumberError if a value may need more bits."""
        model, layout, code = self._model, self._layout, self._code
        code.begin_section()
        self._decide(Values(code, layout, code.words), list(enumerate(model.instances)), 0, code.live)
        bodies = [self._body(number, model.instances[number]) for number in self._order]
        judge = self._judge()
        large = [(i, p) for i, p in enumerate(model.step_properties) if p.is_large]
        steps = [self._judge_step(number) for number, _ in large]
        return ModelCode(
            code.finish(),
            layout.words,
            tuple(bodies),
            judge,
            tuple(steps),
            tuple(tuple(self._read(p)) for _, p in large),
        )

    def _decide(
        self, scope: Values, instances: list[tuple[int, Instance]], depth: int, mask: Register
    ) -> None:
        """Add the guards of instances whose first ``depth`` guards hold in the lanes of ``mask``."""
        for guard, group in by_guard(instances, depth):
            if guard is None:
                for number, _ in group:
                    self._code.add("enabled", mask, len(self._order))
                    self._order.append(number)
                continue
            held = self._code.add("and", mask, scope.value(guard))
            skip = self._code.skip(held)
            self._decide(scope.child(), group, depth + 1, held)
            self._code.land(skip)

    def _body(self, number: int, instance: Instance) -> int:
        """Add the code of an instance whose guards hold in all lanes in use. Returns its first instruction."""
        code, start = self._code, self._code.begin_section()
        scope, mask = Values(code, self._layout, code.words), code.live
        # Declared bounds first: a step that is pruned at a bound is no error.
        for position, check in sorted(enumerate(instance.checks), key=lambda c: c[1].bound is None):
            left = code.add("and", mask, scope.value(check.node))
            if check.bound is not None:
                code.add("cut", left, number, self._bounds[check.bound])
            else:
                code.add("error", left, 1 + (number << 16) + position)
            mask = code.add("and not", mask, left)
        skip = code.skip(mask)
        words = self._words_after(scope, instance)
        first = len(self._model.properties)
        for judged in self._model.judged_in_place[number]:
            verdict = scope.values([judged.node, judged.premise])
            code.add("judge step", mask, *verdict, judged.number, into=first + judged.number)
        code.add("candidate", mask, number)
        code.name_columns(words)
        code.land(skip)
        return start

    def _words_after(self, scope: Values, instance: Instance) -> list[Register]:
        code, words, slots = self._code, list(self._code.words), self._layout.slots
        # If a scalar has only one value, any other value fails a check.
        leaves = [leaf for leaf in instance.writes if slots[leaf].bits]
        written: dict[int, int] = {}
        for leaf in leaves:
            for piece, shift, bits in pieces(slots[leaf], code.bits):
                written[piece] = written.get(piece, 0) | ((1 << bits) - 1) << shift
        for piece, mask in sorted(written.items()):
            words[piece] = code.add("intersection", words[piece], code.constant(~mask))
        for leaf in leaves:
            scope.pack(words, instance.writes[leaf].node, leaf)
        return words

    def _judge(self) -> int:
        start = self._code.begin_section()
        scope = Values(self._code, self._layout, self._code.words)
        for number, prop in enumerate(self._model.properties):
            self._code.add("judge", *scope.values([prop.node, prop.premise]), number)
        return start

    def _judge_step(self, number: int) -> int:
        """Add the code of a large step property. Returns its first instruction."""
        code, start, prop = self._code, self._code.begin_section(), self._model.step_properties[number]
        scope = Values(code, self._layout.twice(), [*code.words, *self._after])
        verdict = scope.values([prop.node, prop.premise])
        code.add("judge step", code.live, *verdict, number, into=len(self._model.properties) + number)
        return start

    def _read(self, prop: TracedStepProperty) -> list[int]:
        """For each word of a state: the bits that a large step property reads."""
        masks = [0] * self._layout.words
        for slot in (self._layout.slots[leaf] for leaf in prop.reads or ()):
            masks[slot.word] |= slot.mask
        return masks


class Registers:
    """The columns and masks of one thread, and the fields of its context that name them and the instructions."""

    def __init__(self, code: Instructions) -> None:
        number = np.dtype(f"uint{code.bits}")
        self._columns = aligned(code.columns * LANES * code.bits // 64).view(number).reshape(-1, LANES)
        for place, value in code.constants.items():
            self._columns[place] = value
        self._masks = np.zeros(code.masks, dtype=np.uint64)
        self._masks[_ALWAYS] = ~np.uint64(0)
        self._of_lanes = np.zeros((2, LANES), dtype=np.uint64)
        self._code = code.rows
        self.fields = {
            "columns": self._columns.ctypes.data,
            "masks": self._masks.ctypes.data,
            "lane_bits": self._of_lanes[0].ctypes.data,
            "lane_states": self._of_lanes[1].ctypes.data,
            "code": self._code.ctypes.data,
        }


def aligned(size: int) -> Words:
    """An array of zeros whose address is a multiple of 64."""
    found = np.zeros(size + 7, dtype=np.uint64)
    first = -found.ctypes.data // 8 % 8
    return found[first : first + size]


class Evaluation:
    """Expressions that are computed on packed states.

    Raises EngineError if a value may need more than 62 bits.
    """

    def __init__(self, layout: Layout, nodes: Sequence[Node]) -> None:
        self._kinds = [np.bool_ if n.sort == BOOL else np.int64 for n in nodes]
        try:
            code, values = self._translated(layout, nodes, 32)
        except WideNumberError:
            code, values = self._translated(layout, nodes, 64)
        for number, (node, value) in enumerate(zip(nodes, values, strict=True)):
            code.add("output bool" if node.sort == BOOL else "output", value, number)
        self._code = code.finish()
        self._function = common_machine(layout.words, code.bits).function("evaluate_all", 1)

    @staticmethod
    def _translated(layout: Layout, nodes: Sequence[Node], bits: int) -> tuple[Assembly, list[Register]]:
        code = Assembly(layout, bits)
        code.begin_section()
        return code, Values(code, layout, code.words).values(nodes)

    def __call__(self, states: Words) -> list[NDArray[Any]]:
        """For each expression, the array of its values: bools, or int64 for numbers and sets (as bits)."""
        states = np.ascontiguousarray(states)
        found: list[NDArray[Any]] = [np.empty(len(states), dtype=kind) for kind in self._kinds]
        outputs = np.array([column.ctypes.data for column in found], dtype=np.uint64)
        registers, context = Registers(self._code), np.zeros(len(CONTEXT), dtype=np.uint64)
        arguments = {"states": states.ctypes.data, "end": len(states), "outputs": outputs.ctypes.data}
        for name, value in (registers.fields | arguments).items():
            context[CONTEXT[name]] = value
        self._function(context.ctypes.data)
        return found


def evaluated(graph: Explored, nodes: Sequence[Node]) -> list[NDArray[Any]]:
    """For each expression, an array of its values on all states of an explored graph.

    Raises EngineError if a value may need more than 62 bits.
    """
    return Evaluation(graph.layout, nodes)(graph.states)
