"""The expression graph as Z3 terms, for all modules of this package.

A bool is a Bool, and a set is a bit-vector with a bit for each index. An int is a bit-vector just wide enough for its
interval, in two's complement if it can be negative. An int whose interval is wider than ``WIDE`` bits (epochs in a
proof for all epochs), and any int computed from one, is a mathematical integer.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import z3

from highwater.checker.base.memory import peak_memory
from highwater.errors import HighwaterError
from highwater.model.language import (
    Array,
    Invariant,
    LanguageError,
    Model,
    Option,
    Protocol,
    Seq,
    StepProperty,
    Struct,
    graph,
)
from highwater.model.language.graph import BOOL, INT, OPERATIONS, Node
from highwater.model.language.types import IntType, Leaf, Type

WIDE = 48
"""The most bits of a number that becomes a bit-vector. Wider bit-vectors would be slow."""

Term = Any
"""A Z3 expression. The bindings are not typed."""


def bits_of(low: int, high: int) -> int:
    """The width of the bit-vector for an interval, in bits. An interval with negative numbers needs a sign bit."""
    width = max(low.bit_length(), high.bit_length(), 1)
    return width + 1 if low < 0 else width


def is_wide(low: int, high: int) -> bool:
    """True if the numbers of this interval are represented as mathematical integers."""
    return bits_of(low, high) > WIDE


class Numbers:
    """The representation of ints in Z3."""

    def __init__(self) -> None:
        self._kinds: dict[int, bool] = {}

    def is_integer(self, node: Node) -> bool:
        """True if a node becomes a mathematical integer: an int that is wide, or computed from a wide int."""
        if node.sort != INT:
            return False
        known = self._kinds.get(node.id)
        if known is None:
            known = is_wide(node.low, node.high) or any(map(self.is_integer, node.args))
            self._kinds[node.id] = known
        return known

    def is_integer_leaf(self, leaf: Leaf) -> bool:
        """True if a scalar of a state becomes a mathematical integer."""
        return leaf.sort == INT and is_wide(leaf.low, leaf.high)

    def variable(self, name: str, leaf: Leaf) -> Term:
        """A new variable for a scalar; a literal if the scalar has only one value."""
        if leaf.low == leaf.high:
            return self.literal(leaf.low, leaf)
        if leaf.sort == BOOL:
            return z3.Bool(name)
        return z3.Int(name) if self.is_integer_leaf(leaf) else z3.BitVec(name, bits_of(leaf.low, leaf.high))

    def literal(self, value: int, leaf: Leaf) -> Term:
        """The term for a value of a scalar."""
        if leaf.sort == BOOL:
            return z3.BoolVal(bool(value))
        if self.is_integer_leaf(leaf):
            return z3.IntVal(value)
        return z3.BitVecVal(value, bits_of(leaf.low, leaf.high))

    def in_type(self, term: Term, leaf: Leaf) -> list[Term]:
        """The conditions that a term is in the scalar's type; empty if they always hold."""
        if leaf.sort == BOOL:
            return []
        if z3.is_int(term):
            return [z3.IntVal(leaf.low) <= term, term <= z3.IntVal(leaf.high)]
        width, found = term.size(), []
        lowest, highest = (-(1 << width - 1), (1 << width - 1) - 1) if leaf.low < 0 else (0, (1 << width) - 1)
        if leaf.low > lowest:
            low = z3.BitVecVal(leaf.low, width)
            found.append(low <= term if leaf.low < 0 else z3.ULE(low, term))
        if leaf.high < highest:
            high = z3.BitVecVal(leaf.high, width)
            found.append(term <= high if leaf.low < 0 else z3.ULE(term, high))
        return found

    def value(self, model: Any, term: Term, leaf: Leaf) -> int:
        """The value of a scalar's term in the solver's solution ``model``, as a Python int."""
        found = model.eval(term, model_completion=True)
        if leaf.sort == BOOL:
            return int(z3.is_true(found))
        if leaf.sort == INT and leaf.low < 0 and z3.is_bv(term):
            return int(found.as_signed_long())
        return int(found.as_long())


class Translator:
    """Translates nodes to terms. ``inputs`` has the terms of the input nodes, by their position.

    Each node is translated once. ``Numbers`` determines the sort of a term.
    """

    def __init__(self, numbers: Numbers, inputs: Sequence[Term]) -> None:
        self.numbers = numbers
        self.inputs = inputs
        self._terms: dict[int, Term] = {}

    def __call__(self, node: Node) -> Term:
        """The term for a node's value. It is cached."""
        known = self._terms.get(node.id)
        if known is not None:
            return known
        stack = [node]
        while stack:
            interrupts_held.deliver()
            top = stack[-1]
            if top.id in self._terms:
                stack.pop()
                continue
            missing = [a for a in top.args if a.id not in self._terms]
            if missing:
                stack.extend(missing)
                continue
            self._terms[top.id] = self._translate(top)
            stack.pop()
        return self._terms[node.id]

    def scalar(self, node: Node, leaf: Leaf) -> Term:
        """The term of a node's value, in the sort and width of the scalar into which it is written."""
        term = self(node)
        if leaf.sort == BOOL:
            return term
        if self.numbers.is_integer_leaf(leaf):
            return self._integer(node)
        if z3.is_int(term):
            return _from_integer(term, leaf)
        return _resize(term, bits_of(leaf.low, leaf.high), node.low < 0)

    def _translate(self, node: Node) -> Term:
        if node.op == "const":
            return self._constant(node)
        if node.op == "input":
            return self.inputs[node.value]
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node, *node.args)
        return OPERATIONS[node.op].evaluate(*self._into(node, node.args))

    def _constant(self, node: Node) -> Term:
        if node.sort == BOOL:
            return z3.BoolVal(bool(node.value))
        if self.numbers.is_integer(node):
            return z3.IntVal(node.value)
        return z3.BitVecVal(node.value, bits_of(node.low, node.high))

    # --- sorts and widths ---------------------------------------------------------------------------

    def _integer(self, node: Node) -> Term:
        term = self(node)
        if z3.is_int(term):
            return term
        if node.is_const:
            return z3.IntVal(node.value)
        if node.high - node.low < 64:  # nested conditions are cheaper than the solver's conversion
            result = z3.IntVal(node.high)
            for value in range(node.high - 1, node.low - 1, -1):
                result = z3.If(term == z3.BitVecVal(value, term.size()), z3.IntVal(value), result)
            return result
        return z3.BV2Int(term, node.low < 0)

    def _numbers(self, *nodes: Node) -> tuple[bool, list[Term]]:
        """A pair: True if the terms are signed; the terms of ints or sets, all in one sort and width."""
        if any(self.numbers.is_integer(n) for n in nodes):
            return True, [self._integer(n) for n in nodes]
        low, high = min(n.low for n in nodes), max(n.high for n in nodes)
        width = bits_of(low, high)
        return low < 0, [_resize(self(n), width, n.low < 0) for n in nodes]

    def _into(self, result: Node, nodes: Sequence[Node]) -> list[Term]:
        """The terms of operands in the sort and width of the operation's result."""
        if result.sort == BOOL:
            return [self(n) for n in nodes]
        if self.numbers.is_integer(result):
            return [self._integer(n) for n in nodes]
        width = bits_of(result.low, result.high)
        return [_resize(self(n), width, n.low < 0) for n in nodes]

    def is_value(self, node: Node, value: int) -> Term:
        """The condition that an int or a set has this value."""
        if not node.low <= value <= node.high:
            return z3.BoolVal(False)
        term = self(node)
        return term == (z3.IntVal(value) if z3.is_int(term) else z3.BitVecVal(value, term.size()))

    # --- operations ---------------------------------------------------------------------------------

    def _eq(self, node: Node, a: Node, b: Node) -> Term:
        if a.sort == BOOL:
            return self(a) == self(b)
        if b.is_const:
            return self.is_value(a, b.value)
        _, (x, y) = self._numbers(a, b)
        return x == y

    def _lt(self, node: Node, a: Node, b: Node) -> Term:
        return _less(*self._numbers(a, b))

    def _divided(self, node: Node, a: Node, b: Node) -> tuple[Term, Term]:
        """The quotient rounded down, and the remainder; both are 0 if the divisor is 0."""
        if self.numbers.is_integer(node):  # Z3's remainder is never negative, for divisors of any sign
            x, y = self._integer(a), self._integer(b)
            zero, rest = z3.IntVal(0), x % y
            over = z3.And(y < zero, rest != zero)
            quotient, rest = x / y - z3.If(over, 1, 0), rest + z3.If(over, y, zero)
        else:  # for bit-vectors, Z3 rounds towards zero
            low, high = (f(f(n.low, n.high) for n in (a, b, node)) for f in (min, max))
            width = bits_of(low, high) + 1
            x, y = (_resize(self(n), width, n.low < 0) for n in (a, b))
            zero, rest = z3.BitVecVal(0, width), z3.SRem(x, y)
            over = z3.And(rest != zero, (rest < zero) != (y < zero))
            quotient = x / y - z3.If(over, z3.BitVecVal(1, width), zero)
            rest = rest + z3.If(over, y, zero)
            size = bits_of(node.low, node.high)
            zero, quotient, rest = (_resize(term, size, True) for term in (zero, quotient, rest))
        by_zero = self.is_value(b, 0)
        return z3.If(by_zero, zero, quotient), z3.If(by_zero, zero, rest)

    def _singleton(self, node: Node, index: Node) -> Term:
        flags = [self.is_value(index, i) for i in range(bits_of(0, node.high))]
        bits = [z3.If(flag, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1)) for flag in reversed(flags)]
        return bits[0] if len(bits) == 1 else z3.Concat(*bits)

    def _member(self, node: Node, index: Node, bits: Node) -> Term:
        term = self(bits)
        width = bits.high.bit_length()
        if index.is_const:
            return _bit(term, index.value)
        return z3.Or([z3.And(self.is_value(index, i), _bit(term, i)) for i in range(width)])

    def _count(self, node: Node, bits: Node) -> Term:
        term, width = self(bits), bits.high.bit_length()
        if self.numbers.is_integer(node):
            return z3.Sum([z3.If(_bit(term, i), z3.IntVal(1), z3.IntVal(0)) for i in range(width)])
        size = bits_of(node.low, node.high)
        total = _resize(z3.Extract(0, 0, term), size, False)
        for i in range(1, width):
            total = total + _resize(z3.Extract(i, i, term), size, False)
        return total


_SPECIAL: dict[str, Callable[..., Term]] = {
    "not": lambda to, node, a: z3.Not(to(a)),
    "and": lambda to, node, a, b: z3.And(to(a), to(b)),
    "or": lambda to, node, a, b: z3.Or(to(a), to(b)),
    "floordiv": lambda to, node, a, b: to._divided(node, a, b)[0],
    "mod": lambda to, node, a, b: to._divided(node, a, b)[1],
    "min": lambda to, node, a, b: z3.If(to._lt(node, a, b), *to._into(node, (a, b))),
    "max": lambda to, node, a, b: z3.If(to._lt(node, a, b), *to._into(node, (b, a))),
    "select": lambda to, node, condition, *either: z3.If(to(condition), *to._into(node, either)),
    **{name: getattr(Translator, f"_{name}") for name in ("eq", "lt", "singleton", "member", "count")},
}
"""For an operation, the function that makes a node's term from the translator, the node and the node's arguments.

Every other operation is that of Python, on the terms of the operands in the sort and width of the result.
"""


def _bit(term: Term, number: int) -> Term:
    return z3.Extract(number, number, term) == z3.BitVecVal(1, 1)


def _less(signed: bool, terms: list[Term]) -> Term:
    x, y = terms
    return x < y if signed else z3.ULT(x, y)


def _resize(term: Term, width: int, signed: bool) -> Term:
    """A bit-vector in another width. The value is unchanged, because it fits into both widths."""
    size = term.size()
    if size == width:
        return term
    if size > width:
        return z3.Extract(width - 1, 0, term)
    return z3.SignExt(width - size, term) if signed else z3.ZeroExt(width - size, term)


def _from_integer(term: Term, leaf: Leaf) -> Term:
    width = bits_of(leaf.low, leaf.high)
    if leaf.high - leaf.low >= 64:
        return z3.Int2BV(term, width)
    result = z3.BitVecVal(leaf.high, width)
    for value in range(leaf.high - 1, leaf.low - 1, -1):
        result = z3.If(term == z3.IntVal(value), z3.BitVecVal(value, width), result)
    return result


BEYOND = 1 << 80
"""In a proof for all epochs and offsets: the value of the parameters that bound them. Kafka uses at most 64 bits."""


APART = 40
"""``unbounded`` raises a scenario's bounds by this number, to check that the bounds affect only intervals."""


def unbounded(
    protocol: type[Protocol],
    parameters: Mapping[str, int],
    rules: Iterable[str],
    invariants: Iterable[Invariant] = (),
    step_properties: Iterable[StepProperty] = (),
) -> tuple[type[Protocol], dict[str, int]]:
    """The protocol with a wider range for each parameter that bounds numbers, and the new parameter values.

    A parameter qualifies if it bounds a number of the state and no sequence. A sequence has a scalar for each
    possible element, so its length stays bounded. Raises LanguageError if no parameter qualifies, or if a parameter
    affects more than intervals (for example the number of instances).
    """
    rules, invariants, of_steps = list(rules), list(invariants), list(step_properties)
    bounds = list(_bounds(protocol(parameters, rules).state))
    sequences = {name for name, kind in bounds if kind is Seq}
    names = sorted({name for name, kind in bounds if kind is IntType} - sequences)
    names = [name for name in names if name in protocol.parameters]
    if not names:
        raise LanguageError(f"{protocol.name} bounds no number by a parameter: there is nothing to unbound")
    wider = {name: replace(p, high=BEYOND) if name in names else p for name, p in protocol.parameters.items()}
    kind = type(protocol.__name__, (protocol,), {"parameters": wider})

    def shape(**bounds: int) -> tuple[int, ...]:
        model = Model(kind({**parameters, **bounds}, rules), invariants, step_properties=of_steps)
        roots = [i.enabled for i in model.instances]
        roots += [p.node for p in model.properties] + [p.node for p in model.step_properties]
        roots += [w.node for i in model.instances for w in i.writes.values()]
        return len(model.leaves), len(model.instances), len(graph.reachable(roots))

    high = {name: parameters.get(name, wider[name].default) + APART for name in names}
    at_high = shape(**high)
    for name in names:
        if shape(**{**high, name: high[name] + 1}) != at_high:
            raise LanguageError(
                f"{protocol.name}: {name} does more than to bound numbers: it cannot be unbounded"
            )
    return kind, {**parameters, **dict.fromkeys(names, BEYOND)}


def _bounds(type_: Type) -> Iterator[tuple[str, type[Type]]]:
    """Yield the name of each bound in a type, with the kind of type that the bound limits."""
    if isinstance(type_, IntType) and type_.bound:
        yield type_.bound, IntType
    elif isinstance(type_, Option):
        yield from _bounds(type_.content_type)
    elif isinstance(type_, Array):
        yield from _bounds(type_.element)
    elif isinstance(type_, Struct):
        for field in type_.fields.values():
            yield from _bounds(field)
    elif isinstance(type_, Seq):
        if type_.bound:
            yield type_.bound, Seq
        yield from _bounds(type_.element)


# Ctrl-C is delivered only between calls of Z3. Within a call, a KeyboardInterrupt could leave a term whose references
# are counted wrongly, and the process would crash.


class _HeldInterrupts:
    """Holds a Ctrl-C until a call of ``deliver``, outside calls of Z3. Only the main thread gets signals."""

    def __init__(self) -> None:
        self._came = False
        self._handler: Any = signal.SIG_DFL

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Context in which a Ctrl-C is held until ``deliver`` or the end. An exception at the end drops the Ctrl-C."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._came = False
        self._handler = signal.signal(signal.SIGINT, self._hold)
        try:
            yield
            self.deliver()
        finally:
            signal.signal(signal.SIGINT, self._handler)

    def _hold(self, number: int, frame: object) -> None:
        self._came = True

    def deliver(self) -> None:
        """Pass a held Ctrl-C to the handler from before, which raises KeyboardInterrupt."""
        if self._came and threading.current_thread() is threading.main_thread():
            self._came = False
            signal.signal(signal.SIGINT, self._handler)
            signal.raise_signal(signal.SIGINT)


interrupts_held = _HeldInterrupts()


# Limits of a solver: time, memory, and Ctrl-C. A query that reaches a limit raises Stopped.

LOOK_SECONDS = 0.1
"""The seconds between two checks of the memory while the solver works."""


class Stopped(HighwaterError):
    """The solver stopped without an answer; ``why`` is "seconds", "memory" or "unknown"."""

    def __init__(self, why: str) -> None:
        super().__init__(why)  # passed as an argument, so that the error can cross process boundaries
        self.why = why


class Limits:
    """Limits for the solver: seconds from now on, and bytes of memory of the whole process. None: no limit."""

    def __init__(self, seconds: float | None = None, memory_bytes: int | None = None) -> None:
        self.started = time.perf_counter()
        self.seconds = seconds
        self.memory_bytes = memory_bytes
        self._full = False

    @property
    def used(self) -> float:
        """The seconds since the limits were created."""
        return time.perf_counter() - self.started

    def check(self, solver: z3.Solver, *assumptions: Term) -> bool:
        """True if the constraints and assumptions have a solution. Raises Stopped if the solver gives no answer."""
        if self.seconds is not None:
            left = self.seconds - self.used
            if left <= 0:
                raise Stopped("seconds")
            solver.set("timeout", max(1, int(left * 1000)))
        if self.memory_bytes is not None and peak_memory() > self.memory_bytes:
            raise Stopped("memory")
        answer = self._answer(solver, assumptions)
        if isinstance(answer, z3.Z3Exception):
            raise Stopped(self._why(str(answer)))
        if answer == z3.unknown:
            raise Stopped(self._why(solver.reason_unknown()))
        return bool(answer == z3.sat)

    def _answer(self, solver: z3.Solver, assumptions: Sequence[Term]) -> Any:
        """The solver's answer, or its exception. The solver runs in a thread, so that this thread can interrupt it.

        This thread interrupts the solver at the memory limit, and on a Ctrl-C that ``interrupts_held`` holds. Z3's own
        limits do not suffice: its memory limit ends the process, and its handler of Ctrl-C can miss a Ctrl-C.
        """
        found: list[Any] = []

        def ask() -> None:
            try:
                found.append(solver.check(*assumptions))
            except z3.Z3Exception as wrong:
                found.append(wrong)

        solver.set("ctrl_c", False)
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                interrupts_held.deliver()
                thread.join(LOOK_SECONDS)
                if self.memory_bytes is not None and peak_memory() > self.memory_bytes:
                    self._full = True
                    solver.interrupt()
        except KeyboardInterrupt:
            while thread.is_alive():
                solver.interrupt()
                thread.join(LOOK_SECONDS)
            raise
        return found[0]

    def _why(self, reason: str) -> str:
        if self._full or "memory" in reason or "memout" in reason:
            return "memory"
        return "seconds" if self.seconds is not None and self.used >= self.seconds * 0.9 else "unknown"
