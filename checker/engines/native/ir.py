"""LLVM text: functions under construction, and the values of graph nodes.

The cache of machine code needs equal text for equal models in every process. But the numbers of a model's nodes
depend on what the process traced earlier, and commutative operands are stored in the order of their numbers. So the
text orders commutative operands by content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Self, TypeVar

from highwater.checker.engines.state_graph import Layout
from highwater.checker.scenarios.search import EngineError
from highwater.model.language.graph import BOOL, COMMUTATIVE, PARTIAL, Node

_ranks: dict[int, int] = {}
_ordered: dict[int, tuple[Node, ...]] = {}
"""The ordered operands of nodes, by the number of the node. The table of nodes lives as long as the process."""


def operands(node: Node) -> tuple[Node, ...]:
    """A node's arguments. Commutative operands are in an order that is the same in every process.

    Two operands with the same hash (``_rank``) stay in the order of this process. The text may then differ between
    processes, which only costs another compilation.
    """
    args = node.args
    if len(args) != 2 or node.op not in COMMUTATIVE:
        return args
    found = _ordered.get(node.id)
    if found is None:
        found = _ordered[node.id] = (args[1], args[0]) if _rank(args[1]) < _rank(args[0]) else args
    return found


def _rank(node: Node) -> int:
    """A hash of a node's content that is the same in every process, because it is computed only from integers."""
    found = _ranks.get(node.id)
    if found is not None:
        return found
    stack = [node]
    while stack:
        top = stack[-1]
        missing = [a for a in top.args if a.id not in _ranks]
        if missing:
            stack += missing
            continue
        stack.pop()
        parts = [_ranks[a.id] for a in top.args]
        if top.op in COMMUTATIVE:
            parts.sort()
        name = int.from_bytes(f"{top.op} {top.sort}".encode(), "big")
        _ranks[top.id] = hash((name, top.value, top.low, top.high, *parts))
    return _ranks[node.id]


# LLVM's intermediate representation as text: functions under construction, and graph nodes as instructions.

INTRINSICS = """
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
"""

_INSTRUCTIONS = {
    "not": ("xor i1 {0}, true",),
    "and": ("and i1 {0}, {1}",),
    "or": ("or i1 {0}, {1}",),
    "eq": ("icmp eq i64 {0}, {1}",),
    "eq of bools": ("xor i1 {0}, {1}", "xor i1 {2}, true"),
    "lt": ("icmp slt i64 {0}, {1}",),
    "add": ("add i64 {0}, {1}",),
    "sub": ("sub i64 {0}, {1}",),
    "mul": ("mul i64 {0}, {1}",),
    "min": ("icmp slt i64 {0}, {1}", "select i1 {2}, i64 {0}, i64 {1}"),
    "max": ("icmp sgt i64 {0}, {1}", "select i1 {2}, i64 {0}, i64 {1}"),
    "select": ("select i1 {0}, i64 {1}, i64 {2}",),
    "select of bools": ("xor i1 {1}, {2}", "and i1 {0}, {3}", "xor i1 {4}, {2}"),
    "union": ("or i64 {0}, {1}",),
    "intersection": ("and i64 {0}, {1}",),
    "difference": ("xor i64 {1}, -1", "and i64 {0}, {2}"),
    "singleton": ("shl i64 1, {0}",),
    "member": ("lshr i64 {1}, {0}", "trunc i64 {2} to i1"),
    "count": ("call i64 @llvm.ctpop.i64(i64 {0})",),
}
"""The instructions of each operation, except for divisions. ``{0}`` stands for the first operand.

The numbers
after those of the operands stand for the results of the instructions before.
"""


_WIDE = 1 << 62


class WideNumberError(EngineError):
    """A value may need more than 62 bits. Kernels compute with machine words."""


class FunctionText:
    """The LLVM text of a function, under construction. ``op`` adds an instruction and returns the name of its result.

    Results have the numbers that LLVM gives to unnamed values, because LLVM parses numbers twice as fast as names.
    """

    def __init__(self, signature: str) -> None:
        self._lines = [f"define {signature} {{", "entry:"]
        self._results = self._labels = 0
        self.block = "entry"

    def op(self, text: str) -> str:
        """Add an instruction with a result, and return the name of the result."""
        name = f"%{self._results}"
        self._results += 1
        self._lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self._lines.append(f"  {text}")

    def fresh(self, hint: str) -> str:
        """A label that is not in use yet and starts with ``hint``."""
        self._labels += 1
        return f"{hint}{self._labels}"

    def start(self, label: str) -> None:
        """Begin the basic block ``label``. The block before must have ended with a jump."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """Jump to a block."""
        self.do(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Jump to one of two blocks."""
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def load(self, pointer: str) -> str:
        """Load an i64 from memory, and return the value's name."""
        return self.op(f"load i64, ptr {pointer}, align 8")

    def store(self, value: str | int, pointer: str) -> None:
        """Store an i64 in memory."""
        self.do(f"store i64 {value}, ptr {pointer}, align 8")

    def at(self, pointer: str, index: str | int) -> str:
        """Compute the address of element ``index`` of an i64 array, and return the address's name."""
        return self.op(f"getelementptr inbounds i64, ptr {pointer}, i64 {index}")

    def bump(self, pointer: str, by: str | int = 1) -> None:
        """Add a number to an i64 in memory."""
        self.store(self.op(f"add i64 {self.load(pointer)}, {by}"), pointer)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Context in which added instructions run only if the condition holds."""
        yes, done = self.fresh("when"), self.fresh("done")
        self.branch(condition, yes, done)
        self.start(yes)
        yield
        self.jump(done)
        self.start(done)

    def join(self, type_: str, arrivals: Iterable[tuple[str, str]]) -> str:
        """Add a phi node for pairs (value, predecessor block), and return the node's name."""
        return self.op(f"phi {type_} " + ", ".join(f"[ {value}, %{block} ]" for value, block in arrivals))

    @contextmanager
    def loop(self, *values: str) -> Iterator[LoopText]:
        """Context in which added instructions form a loop. ``values`` are typed initial values, as ``i64 %start``."""
        loop = LoopText(self, values)
        yield loop
        loop.close()

    @contextmanager
    def each(self, start: str | int, end: str, by: int | None = None) -> Iterator[str]:
        """Context in which added instructions run for each number in ``range(start, end)``.

        With ``by``, ``start`` and ``end`` are addresses, and the loop is over rows of ``by`` words.
        """
        with self.loop(f"{'i64' if by is None else 'ptr'} {start}") as loop:
            (at,) = loop.values
            loop.while_(self.op(f"icmp ult {'i64' if by is None else 'ptr'} {at}, {end}"))
            yield at
            loop.again(self.op(f"add i64 {at}, 1") if by is None else self.at(at, by))

    def end(self, result: str = "void") -> str:
        """Add a return instruction, and return the finished text."""
        self.do(f"ret {result}")
        return self.text()

    def text(self) -> str:
        """The text so far, with the closing brace."""
        return "\n".join([*self._lines, "}", ""])

    def hole(self) -> int:
        """Add a placeholder for a line that is not known yet, and return the placeholder's number."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, hole: int, text: str) -> None:
        """Replace a placeholder by a line."""
        self._lines[hole] = f"  {text}"


class LoopText:
    """A loop under construction. ``values`` are the names of the loop's variables; they stay available after the loop.

    Each path through the loop's body must end with ``again`` or ``leave``.
    """

    def __init__(self, function: FunctionText, values: Sequence[str]) -> None:
        self._f = function
        self._types, starts = zip(*(value.split(" ", 1) for value in values), strict=True)
        self._head, self._done = function.fresh("loop"), function.fresh("done")
        self._turns: list[tuple[str, Sequence[str]]] = [(function.block, starts)]
        function.jump(self._head)
        function.start(self._head)
        self.values = tuple("%" + function.fresh("turn") for _ in values)
        self._holes = [function.hole() for _ in values]

    def while_(self, condition: str) -> None:
        """Leave the loop unless the condition holds."""
        body = self._f.fresh("body")
        self._f.branch(condition, body, self._done)
        self._f.start(body)

    def leave(self) -> None:
        """Leave the loop."""
        self._f.jump(self._done)

    def again(self, *values: str, when: str | None = None) -> None:
        """Start the next iteration with these values. With ``when``, leave the loop if that condition does not hold."""
        self._turns.append((self._f.block, values))
        if when is None:
            self._f.jump(self._head)
        else:
            self._f.branch(when, self._head, self._done)

    def close(self) -> None:
        """End the loop. Instructions added later are outside the loop."""
        for number, (type_, name, hole) in enumerate(zip(self._types, self.values, self._holes, strict=True)):
            turns = ", ".join(f"[ {values[number]}, %{block} ]" for block, values in self._turns)
            self._f.fill(hole, f"{name} = phi {type_} {turns}")
        self._f.start(self._done)


Name = TypeVar("Name")


class Scope(ABC, Generic[Name]):
    """Names of computed graph-node values, for one block and all blocks that it dominates.

    A child scope can use the values of its parent, but not the values of its siblings. Code is written from front to
    back: using a scope again ends all scopes that were created later.
    """

    def __init__(self, layout: Layout, parent: Self | None = None) -> None:
        self._layout = layout
        # All scopes share both. A scope's end removes the names of the nodes in _order; the names of constants stay.
        self._names: dict[int, Name] = {} if parent is None else parent._names
        self._order: list[int] = [] if parent is None else parent._order
        self._end = len(self._order)

    _limit = _WIDE
    """No value may reach this number."""

    @staticmethod
    def _operands(node: Node) -> Sequence[Node]:
        """The operands of a node, in the order in which they are computed."""
        return node.args

    @abstractmethod
    def child(self) -> Self:
        """A scope for a block that only some paths reach."""

    @abstractmethod
    def _constant(self, node: Node) -> Name:
        """The name of a constant."""

    @abstractmethod
    def _emit(self, node: Node, args: list[Name]) -> Name:
        """Write code for a node whose operands have these names."""

    def _return(self) -> None:
        """Forget the values that were computed in scopes begun after this scope was last used."""
        for number in self._order[self._end :]:
            del self._names[number]
        del self._order[self._end :]

    def values(self, nodes: Iterable[Node]) -> list[Name]:
        """The names of the nodes' values. Writes code for values that are not computed yet.

        Raises WideNumberError if a value may need more than 62 bits.
        """
        nodes = list(nodes)
        self._return()
        for node in nodes:
            self._compute(node)
        self._end = len(self._order)
        return [self._names[n.id] for n in nodes]

    def value(self, node: Node) -> Name:
        """The name of the node's value. Writes code if the value is not computed yet."""
        return self.values([node])[0]

    def _compute(self, node: Node) -> None:
        """Write code for a node and its operands, except for values that are available."""
        names, order, stack = self._names, self._order, [node]
        while stack:
            top, size = stack[-1], len(stack)
            if top.id in names:
                stack.pop()
                continue
            args = self._operands(top)
            for operand in reversed(args):
                if operand.id not in names:
                    stack.append(operand)
            if len(stack) > size:
                continue
            stack.pop()
            if top.low < -self._limit or top.high >= self._limit:
                raise WideNumberError(
                    f"an expression computes with numbers or sets that may need more than "
                    f"{self._limit.bit_length() - 1} bits"
                )
            if top.is_const:
                names[top.id] = self._constant(top)
            else:
                names[top.id] = self._emit(top, [names[a.id] for a in args])
                order.append(top.id)


class ValueScope(Scope[str]):
    """Values of graph nodes as LLVM text."""

    def __init__(
        self, function: FunctionText, layout: Layout, words: list[str], parent: ValueScope | None = None
    ) -> None:
        super().__init__(layout, parent)
        self._function, self._words = function, words

    _operands = staticmethod(operands)

    def child(self) -> ValueScope:
        """A scope for a block that only some paths reach."""
        self._return()
        return ValueScope(self._function, self._layout, self._words, self)

    def _constant(self, node: Node) -> str:
        if node.sort == BOOL:
            return "true" if node.value else "false"
        return str(node.value)

    def _emit(self, node: Node, args: list[str]) -> str:
        f = self._function
        if node.op == "input":
            return self._unpack(node)
        if node.op in PARTIAL:
            return self._divided(node, *args)
        of_bools = node.op in ("eq", "select") and node.args[-1].sort == BOOL
        for instruction in _INSTRUCTIONS[node.op + " of bools" * of_bools]:
            args.append(f.op(instruction.format(*args)))
        return args[-1]

    def _divided(self, node: Node, number: str, by: str) -> str:
        """Write code for floor division or its remainder. The result is 0 if the divisor is 0."""
        f, divisor = self._function, node.args[1]
        zero = None
        if divisor.low <= 0 <= divisor.high:
            zero = f.op(f"icmp eq i64 {by}, 0")
            by = f.op(f"select i1 {zero}, i64 1, i64 {by}")
        if node.args[0].low >= 0 and divisor.low >= 0:
            result = f.op(f"{'udiv' if node.op == 'floordiv' else 'urem'} i64 {number}, {by}")
        else:  # LLVM rounds towards zero
            rest = f.op(f"srem i64 {number}, {by}")
            apart = f.op(f"icmp slt i64 {f.op(f'xor i64 {rest}, {by}')}, 0")
            over = f.op(f"and i1 {apart}, {f.op(f'icmp ne i64 {rest}, 0')}")
            if node.op == "mod":
                result = f.op(f"add i64 {rest}, {f.op(f'select i1 {over}, i64 {by}, i64 0')}")
            else:
                quotient = f.op(f"sdiv i64 {number}, {by}")
                result = f.op(f"sub i64 {quotient}, {f.op(f'zext i1 {over} to i64')}")
        return result if zero is None else f.op(f"select i1 {zero}, i64 0, i64 {result}")

    def _unpack(self, node: Node) -> str:
        f, slot = self._function, self._layout.slots[node.value]
        value = self._words[slot.word]
        if slot.shift:
            value = f.op(f"lshr i64 {value}, {slot.shift}")
        if node.sort == BOOL:
            return f.op(f"trunc i64 {value} to i1")
        if slot.bits < 64:
            value = f.op(f"and i64 {value}, {(1 << slot.bits) - 1}")
        return f.op(f"add i64 {value}, {slot.low}") if slot.low else value

    def pack(self, node: Node, leaf: int) -> str:
        """The name of a node's value, shifted to the bits of scalar ``leaf`` in a packed state."""
        f, slot = self._function, self._layout.slots[leaf]
        value = self.value(node)
        if node.sort == BOOL:
            value = f.op(f"zext i1 {value} to i64")
        if slot.low:
            value = f.op(f"sub i64 {value}, {slot.low}")
        return f.op(f"shl i64 {value}, {slot.shift}") if slot.shift else value


def is_wide(node: Node) -> bool:
    """True if a node's value may need more than 62 bits."""
    return node.low < -_WIDE or node.high >= _WIDE


def signed(mask: int) -> int:
    """A 64-bit constant as the signed number that LLVM's text uses."""
    mask &= (1 << 64) - 1
    return mask - (1 << 64) if mask >> 63 else mask
