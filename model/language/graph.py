"""The expression graph: hash-consed scalar nodes with constant folding and interval analysis.

Every value of a protocol, however structured, is a flat tuple of scalar nodes. A scalar is a ``bool``, an ``int``
(mathematical integer with a known interval) or a ``bits`` (a set over a finite index; bit *i* is set if *i* is a
member). Equal expressions are one node, so guards, actions and properties share it at no cost. A node's number
(``id``) is greater than the numbers of its arguments. Ascending numbers are therefore a topological order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

BOOL, INT, BITS = "bool", "int", "bits"

PARTIAL = frozenset({"floordiv", "mod"})
"""Operations that are undefined if their second operand is 0."""


class Node:
    """One scalar expression.

    ``op`` is the name of the operation, ``args`` its operands. ``value`` is the constant, or the number of the input.
    The expression's value is from ``low`` to ``high`` in every state (0 and 1 for a bool).
    """

    __slots__ = ("args", "divides", "high", "id", "is_const", "low", "negation", "op", "sort", "value")

    is_const: bool
    """True if the value is known while tracing."""
    divides: bool
    """True if the expression has a division whose divisor can be 0 (``PARTIAL``), or an element that is ``missing``."""
    negation: Node | None
    """The node of a bool's negation; None until it is created."""

    def __init__(self, op: str, args: tuple[Node, ...], value: int, sort: str, low: int, high: int, id: int):
        self.op, self.args, self.value = op, args, value
        self.sort, self.low, self.high, self.id = sort, low, high, id
        self.is_const = op == "const"
        own = args[1].low <= 0 <= args[1].high if op in PARTIAL else op == "input" and value < 0
        self.divides = own or any(a.divides for a in args)
        self.negation = None

    def __repr__(self) -> str:
        if self.op in ("const", "input"):
            return f"{self.op}:{self.sort}({self.value})"
        return f"{self.op}({', '.join(map(repr, self.args))})"


_table: dict[tuple[object, ...], Node] = {}


def _node(op: str, args: tuple[Node, ...], sort: str, low: int, high: int) -> Node:
    # The table never drops a node, so operands can be part of a key. Operation and operands determine the interval,
    # except for a singleton: its ``high`` depends on the size of the index.
    key = (op, args, high)
    found = _table.get(key)
    if found is None:
        if all(a.is_const for a in args) and op in OPERATIONS and not (op in PARTIAL and args[1] is ZERO):
            found = const(OPERATIONS[op].evaluate(*[a.value for a in args]), sort)
        else:
            found = Node(op, args, 0, sort, low, high, len(_table))
        _table[key] = found
    return found


def node(op: str, args: tuple[Node, ...], sort: str, low: int, high: int) -> Node:
    """The node of an operation in ``QUANTIFIED``, without simplification."""
    return _node(op, args, sort, low, high)


def _ordered(a: Node, b: Node) -> tuple[Node, Node]:
    """The operands of a commutative operation: a constant last, and other nodes by their numbers."""
    return (b, a) if a.is_const or (a.id > b.id and not b.is_const) else (a, b)


def _without_operands(op: str, value: int, sort: str, low: int, high: int) -> Node:
    found = _table.get(key := (op, value, sort, low, high))
    if found is None:
        found = _table[key] = Node(op, (), value, sort, low, high, len(_table))
    return found


_constants: dict[tuple[int, str], Node] = {}


def const(value: int, sort: str) -> Node:
    """The node of a constant of this sort."""
    found = _constants.get((value, sort))
    if found is None:
        value = int(value)
        found = _constants[value, sort] = _without_operands("const", value, sort, value, value)
    return found


def leaf(number: int, sort: str, low: int, high: int) -> Node:
    """The node of the input with this number: a scalar of the state, or of a function's argument."""
    return _without_operands("input", number, sort, low, high)


TRUE, FALSE, ZERO, EMPTY = const(1, BOOL), const(0, BOOL), const(0, INT), const(0, BITS)


def truth(value: bool) -> Node:
    """The node of a constant bool."""
    return TRUE if value else FALSE


# --- bool ---------------------------------------------------------------------------------------


def not_(a: Node) -> Node:
    """The negation of a bool."""
    found = a.negation
    if found is None:
        found = _node("not", (a,), BOOL, 0, 1)
        a.negation, found.negation = found, a
    return found


def and_(a: Node, b: Node) -> Node:
    """The conjunction of two bools."""
    if a is FALSE or b is FALSE or a is b.negation:
        return FALSE
    if a is TRUE or a is b:
        return b
    if b is TRUE:
        return a
    return _node("and", _ordered(a, b), BOOL, 0, 1)


def or_(a: Node, b: Node) -> Node:
    """The disjunction of two bools."""
    if a is TRUE or b is TRUE or a is b.negation:
        return TRUE
    if a is FALSE or a is b:
        return b
    if b is FALSE:
        return a
    return _node("or", _ordered(a, b), BOOL, 0, 1)


def all_(nodes: Iterable[Node]) -> Node:
    """The conjunction of any number of bools; true for none."""
    return functools.reduce(and_, nodes, TRUE)


def any_(nodes: Iterable[Node]) -> Node:
    """The disjunction of any number of bools; false for none."""
    return functools.reduce(or_, nodes, FALSE)


# --- comparison ---------------------------------------------------------------------------------


def eq(a: Node, b: Node) -> Node:
    """True if two scalars of one sort are equal."""
    if a is b:
        return TRUE
    if a.high < b.low or b.high < a.low:
        return FALSE
    a, b = _ordered(a, b)
    if b.is_const and b.sort == BOOL:
        return a if b.value else not_(a)
    # ``where(c, 2, 0) == 2`` becomes ``c``: a comparison with a constant moves into a choice between constants.
    if b.is_const and a.op == "select" and a.args[1].is_const and a.args[2].is_const:
        return select(a.args[0], eq(a.args[1], b), eq(a.args[2], b))
    return _node("eq", (a, b), BOOL, 0, 1)


def lt(a: Node, b: Node) -> Node:
    """True if ``a`` is less than ``b``, for ints."""
    if a.high < b.low:
        return TRUE
    if a is b or a.low >= b.high:
        return FALSE
    return _node("lt", (a, b), BOOL, 0, 1)


def le(a: Node, b: Node) -> Node:
    """True if ``a`` is at most ``b``, for ints."""
    return not_(lt(b, a))


def within(a: Node, low: int, high: int) -> Node:
    """True if an int is at least ``low`` and at most ``high``."""
    return and_(le(const(low, INT), a), le(a, const(high, INT)))


# --- int ----------------------------------------------------------------------------------------


def add(a: Node, b: Node) -> Node:
    """The sum of two ints."""
    a, b = _ordered(a, b)
    if b is ZERO:
        return a
    if b.is_const and a.op == "add" and a.args[1].is_const:
        return add(a.args[0], add(a.args[1], b))
    return _node("add", (a, b), INT, a.low + b.low, a.high + b.high)


def sub(a: Node, b: Node) -> Node:
    """The difference ``a - b`` of two ints."""
    if b.is_const:
        return add(a, const(-b.value, INT))
    if a is b:
        return ZERO
    return _node("sub", (a, b), INT, a.low - b.high, a.high - b.low)


def min_(a: Node, b: Node) -> Node:
    """The minimum of two ints."""
    if a is b or a.high <= b.low:
        return a
    if b.high <= a.low:
        return b
    return _node("min", _ordered(a, b), INT, min(a.low, b.low), min(a.high, b.high))


def max_(a: Node, b: Node) -> Node:
    """The maximum of two ints."""
    if a is b or a.low >= b.high:
        return a
    if b.low >= a.high:
        return b
    return _node("max", _ordered(a, b), INT, max(a.low, b.low), max(a.high, b.high))


def neg(a: Node) -> Node:
    """The negation of an int."""
    return sub(ZERO, a)


def mul(a: Node, b: Node) -> Node:
    """The product of two ints."""
    a, b = _ordered(a, b)
    if b.is_const and b.value in (0, 1, -1):
        return (b, a, neg(a))[b.value]
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return _node("mul", (a, b), INT, min(corners), max(corners))


def floordiv(a: Node, b: Node) -> Node:
    """The quotient of two ints, rounded down as in Python; 0 if the divisor is 0 (``PARTIAL``)."""
    if b.is_const and b.value in (1, -1):
        return a if b.value == 1 else neg(a)
    ends = [d for d in {b.low, b.high, 1, -1} if d and b.low <= d <= b.high]
    corners = [x // d for x in (a.low, a.high) for d in ends] + [0] * (b.low <= 0 <= b.high)
    return _node("floordiv", (a, b), INT, min(corners), max(corners))


def mod(a: Node, b: Node) -> Node:
    """The remainder of two ints, with the divisor's sign as in Python; 0 if the divisor is 0 (``PARTIAL``)."""
    if (a.low >= 0 and b.low > a.high) or (a.high <= 0 and b.high < a.low):
        return a
    return _node("mod", (a, b), INT, min(b.low + 1, 0), max(b.high - 1, 0))


def select(condition: Node, yes: Node, no: Node) -> Node:
    """``yes`` if the condition holds, else ``no``; both have the same sort."""
    if condition is TRUE or yes is no:
        return yes
    if condition is FALSE:
        return no
    if condition.op == "not":
        return select(condition.args[0], no, yes)
    if yes.sort == BOOL:
        if yes.is_const:
            return or_(condition, no) if yes.value else and_(not_(condition), no)
        if no.is_const:
            return or_(not_(condition), yes) if no.value else and_(condition, yes)
    if yes.op == "select" and yes.args[0] is condition:
        return select(condition, yes.args[1], no)
    if no.op == "select" and no.args[0] is condition:
        return select(condition, yes, no.args[2])
    return _node("select", (condition, yes, no), yes.sort, min(yes.low, no.low), max(yes.high, no.high))


def selected(condition: Node, yes: tuple[Node, ...], no: tuple[Node, ...]) -> tuple[Node, ...]:
    """The scalars ``yes`` if the condition holds, else the scalars ``no``: ``select`` on each pair."""
    if condition.is_const:
        return yes if condition is TRUE else no
    return tuple([a if a is b else select(condition, a, b) for a, b in zip(yes, no, strict=True)])


# --- bits (sets) --------------------------------------------------------------------------------


def _mask(*nodes: Node) -> int:
    return (1 << max(n.high.bit_length() for n in nodes)) - 1


def union(a: Node, b: Node) -> Node:
    """The union of two sets."""
    a, b = _ordered(a, b)
    if a is b or b is EMPTY:
        return a
    return _node("union", (a, b), BITS, 0, _mask(a, b))


def intersection(a: Node, b: Node) -> Node:
    """The intersection of two sets."""
    a, b = _ordered(a, b)
    if b is EMPTY:
        return b
    if a is b or (b.is_const and b.value == b.value | _mask(a)):
        return a
    return _node("intersection", (a, b), BITS, 0, min(_mask(a), _mask(b)))


def difference(a: Node, b: Node) -> Node:
    """The set of the members of ``a`` that are not in ``b``."""
    if b.is_const:
        return intersection(a, const(_mask(a) & ~b.value, BITS))
    if a is b or a is EMPTY:
        return EMPTY
    return _node("difference", (a, b), BITS, 0, _mask(a))


def singleton(index: Node, size: int) -> Node:
    """The set with one member, ``index``, which is one of ``size`` values.

    For an index outside ``0 .. size-1`` the result has bit ``size``, which is outside the type of sets of this index.
    """
    if index.low >= 0 and index.high < size:
        return _node("singleton", (index,), BITS, 0, (1 << size) - 1)
    inside_node = within(index, 0, size - 1)
    safe = select(inside_node, index, const(size, INT))
    made = _node("singleton", (safe,), BITS, 0, (1 << (size + 1)) - 1)
    _outside.add(made.id)
    return made


_outside: set[int] = set()


def size_of(singleton: Node) -> int:
    """The argument ``size`` from which a ``singleton`` node was made."""
    return singleton.high.bit_length() - (singleton.id in _outside)


def member(index: Node, bits: Node) -> Node:
    """True if the set contains the index; false for an index outside the set's range."""
    width = bits.high.bit_length()
    if index.high < 0 or index.low >= width:
        return FALSE
    if index.low < 0 or index.high >= width:
        safe = min_(max_(index, const(0, INT)), const(width - 1, INT))
        return and_(within(index, 0, width - 1), member(safe, bits))
    return _node("member", (index, bits), BOOL, 0, 1)


def count(bits: Node) -> Node:
    """The number of members of a set."""
    return _node("count", (bits,), INT, 0, bits.high.bit_length())


# --- the scalars of a type ------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """One scalar of a type's layout: its path (``replicas[1].hw``), sort, interval, and declared bound.

    A step that writes a value outside the interval is pruned at ``bound``; if ``bound`` is None, the step is an error.
    """

    path: str
    sort: str
    low: int
    high: int
    bound: str | None = None

    @property
    def bits(self) -> int:
        """The scalar's width in a packed state, in bits. A scalar with one value has width 0.

        A packed scalar is stored as its distance from ``low``.
        """
        return (self.high - self.low).bit_length()

    def left_by(self, node: Node) -> Node:
        """The condition that the value of ``node`` is outside this scalar's interval."""
        if node.low >= self.low and node.high <= self.high:
            return FALSE
        if self.sort == INT:
            return not_(within(node, self.low, self.high))
        fits = intersection(node, const(self.high, self.sort))
        return not_(eq(fits, node))


_missing: list[Exception] = []


def missing(scalar: Leaf, wrong: Exception) -> Node:
    """A scalar of an element that exists in no state. ``undefined`` raises ``wrong`` for an expression that uses it."""
    _missing.append(wrong)
    return leaf(-len(_missing), scalar.sort, scalar.low, scalar.high)


# --- the table of operations --------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """An operation: the function that makes its node, its operator or "", and its value as an expression of Python.

    In the expression, ``{0}`` stands for the first operand. Operators that mean the same in Python need no expression.
    """

    make: Callable[..., Node]
    sign: str = ""
    expression: str = ""

    @cached_property
    def python(self) -> str:
        """The expression of Python."""
        return self.expression or f"{{0}} {self.sign} {{1}}"

    @cached_property
    def evaluate(self) -> Callable[..., int]:
        """The function from the values of the operands to the operation's value."""
        operands = [f"a{number}" for number in range(3)]
        text = f"lambda a0, a1=None, a2=None: {self.python.format(*operands)}"
        function: Callable[..., int] = eval(text)
        return function  # compiled only from text of this module


OPERATIONS = {
    operation.make.__name__.rstrip("_"): operation
    for operation in (
        Operation(not_, "", "not {0}"),
        Operation(and_, "and"),
        Operation(or_, "or"),
        Operation(eq, "=="),
        Operation(lt, "<"),
        Operation(add, "+"),
        Operation(sub, "-"),
        Operation(mul, "*"),
        Operation(floordiv, "//", "{0} // {1} if {1} else 0"),
        Operation(mod, "%", "{0} % {1} if {1} else 0"),
        Operation(min_, "", "{0} if {0} < {1} else {1}"),
        Operation(max_, "", "{1} if {0} < {1} else {0}"),
        Operation(select, "", "{1} if {0} else {2}"),
        Operation(union, "|"),
        Operation(intersection, "&"),
        Operation(difference, "-", "{0} & ~{1}"),
        Operation(singleton, "", "1 << {0}"),
        Operation(member, "", "{1} >> {0} & 1 == 1"),
        Operation(count, "", "{0}.bit_count()"),
    )
}
"""The operations by name."""

QUANTIFIED: dict[str, Callable[..., Node]] = {}
"""The functions that make nodes of the operations of ``any_size``, by operation."""

GROUPED = frozenset({"and", "or", "add", "mul", "union", "intersection", "min", "max"})
"""Operations whose operands may be grouped and ordered in any way."""

COMMUTATIVE = GROUPED | {"eq"}
"""Operations whose operands may be ordered in any way."""


# --- walking ------------------------------------------------------------------------------------


def reachable(roots: Iterable[Node]) -> list[Node]:
    """The roots and all nodes that they use, directly or indirectly, in ascending order of their numbers."""
    seen: dict[int, Node] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node.id not in seen:
            seen[node.id] = node
            stack.extend(node.args)
    return [seen[i] for i in sorted(seen)]


# Rebuild expressions with replaced operands or inputs.


def made_of(op: str, operands: Sequence[Node], size: int) -> Node:
    """The node of the operation ``op`` on these operands. Raises KeyError if the operation is unknown.

    ``size`` is used only by ``singleton``: the number of values of its index.
    """
    if op in QUANTIFIED:
        return QUANTIFIED[op](*operands)
    return OPERATIONS[op].make(*operands, *[size] * (op == "singleton"))


def substituted(roots: Iterable[Node], inputs: Mapping[int, Node]) -> list[Node]:
    """The root expressions, with input number ``i`` replaced by ``inputs[i]`` if that exists."""
    roots = list(roots)
    known: dict[Node, Node] = {}
    for node in reachable(roots):
        known[node] = inputs.get(node.value, node) if node.op == "input" else remade(node, known)
    return [known[root] for root in roots]


def remade(node: Node, known: Mapping[Node, Node]) -> Node:
    """The node with each operand ``a`` replaced by ``known[a]``; ``node`` itself if no operand changes."""
    operands = [known[a] for a in node.args]
    same = all(a is b for a, b in zip(operands, node.args, strict=True))
    return node if same else made_of(node.op, operands, size_of(node))


def inputs_of(roots: Iterable[Node]) -> set[int]:
    """The numbers of all inputs in the root expressions."""
    return {node.value for node in reachable(roots) if node.op == "input"}


# Undefined expressions: divisions by zero.
#
# For a division by zero, engines compute 0, and every user of an expression also checks ``undefined``. A step whose
# guards or writes need an undefined value is an error; a property that needs an undefined value does not hold. An
# unneeded undefined value is harmless: ``where(d == 0, 0, n // d)`` and ``(d != 0) & (n // d > 1)`` are fine.

_known: dict[int, Node] = {}
_places: dict[int, str | None] = {}


def note(node: Node, place: str | None) -> Node:
    """Record the protocol's line that creates a node, for error messages, and return the node.

    If several lines create the same node, the first line counts.
    """
    _places.setdefault(node.id, place)
    return node


def undefined(root: Node) -> Node:
    """The condition that the value of an expression depends on a division by zero.

    The condition itself is always defined. If one operand of ``and`` or ``or`` is defined and decides the value, the
    expression is defined. Raises the error of an element that exists in no state (``missing``).
    """
    if not root.divides:
        return FALSE
    if root.id not in _known:
        for node in reachable([root]):
            if node.id not in _known:
                _known[node.id] = _of(node)
    return _known[root.id]


def undefined_any(roots: Iterable[Node]) -> Node:
    """The condition that at least one of the expressions is undefined."""
    return any_(undefined(root) for root in roots)


def place_in(roots: Iterable[Node]) -> str | None:
    """The protocol's line of the first division whose divisor can be zero, as ``file:line``; None if none is known."""
    for node in reachable(roots):
        if node.op in PARTIAL and node.args[1].low <= 0 <= node.args[1].high:
            return _places.get(node.id)
    return None


def _of(node: Node) -> Node:
    if node.op == "input" and node.divides:
        raise _missing[-node.value - 1]
    parts = [_known[a.id] for a in node.args]
    if node.op == "select":
        condition, yes, no = parts
        return or_(condition, select(node.args[0], yes, no))
    found = any_(parts)
    if found is FALSE and node.op not in PARTIAL:
        return FALSE
    if node.op in ("and", "or"):
        decides = [a if node.op == "or" else not_(a) for a in node.args]
        alone = [and_(not_(u), d) for u, d in zip(parts, decides, strict=True)]
        return and_(found, not_(any_(alone)))
    if node.op in PARTIAL:
        return or_(found, eq(node.args[1], const(0, INT)))
    return found


def where_defined(node: Node) -> Node:
    """True if the condition is defined and holds."""
    assert node.sort == BOOL
    return and_(node, not_(undefined(node)))


def conjuncts(roots: Iterable[Node]) -> set[Node]:
    """The conditions and all their conjuncts, also of nested conjunctions, and ``TRUE``."""
    found, stack = {TRUE}, list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            if node.op == "and":
                stack.extend(node.args)
    return found


def contradict(roots: Iterable[Node]) -> bool:
    """True if a conjunct of the conditions is false, or two conjuncts contradict each other.

    Two conjuncts contradict if one is the other's negation, or if they equate one node to different constants.
    """
    parts = conjuncts(roots)
    values: dict[Node, int] = {}
    for part in parts:
        if part is FALSE or not_(part) in parts:
            return True
        if part.op == "eq" and part.args[1].is_const:
            value = part.args[1].value
            if values.setdefault(part.args[0], value) != value:
                return True
    return False


# Compile nodes to Python: one function from the scalars of a state to the nodes' values.

Values = tuple[Any, ...]
"""The values of nodes: ints, sets as bits, and bools."""
Evaluate = Callable[[Sequence[int]], Values]
"""A function from the scalars of a state to the values of some nodes."""


def values_of(roots: Sequence[Node], scalars: Sequence[int]) -> Values:
    """The values of the root nodes in the state with these scalars.

    Use it for a single evaluation; for several, ``compile_nodes`` is faster.
    """
    values: dict[int, int] = {}
    for node in reachable(roots):
        if node.op == "const":
            values[node.id] = bool(node.value) if node.sort == BOOL else node.value
        elif node.op == "input":
            values[node.id] = scalars[node.value] != 0 if node.sort == BOOL else scalars[node.value]
        else:
            values[node.id] = OPERATIONS[node.op].evaluate(*[values[a.id] for a in node.args])
    return tuple([values[root.id] for root in roots])


def compile_nodes(roots: Sequence[Node]) -> Evaluate:
    """Compile a Python function from the scalars of a state to the values of the nodes."""
    return _compiled([*_assignments(reachable(roots)), f"return ({''.join(f'v{r.id},' for r in roots)})"])


def compile_conditions(conditions: Sequence[Node]) -> Evaluate:
    """Compile a Python function from the scalars of a state to a tuple of one bool: True if all conditions hold.

    The function stops at the first condition that does not hold.
    """
    lines: list[str] = []
    known: set[int] = set()
    for condition in conditions:
        new = [node for node in reachable([condition]) if node.id not in known]
        known |= {node.id for node in new}
        lines += [*_assignments(new), f"if not v{condition.id}: return (False,)"]
    return _compiled([*lines, "return (True,)"])


def _assignments(nodes: Iterable[Node]) -> Iterator[str]:
    """Python statements that compute the nodes from the scalars ``s``, one for each node."""
    for node in nodes:
        if node.op == "const":
            text = str(bool(node.value)) if node.sort == BOOL else str(node.value)
        elif node.op == "input":
            text = f"s[{node.value}] != 0" if node.sort == BOOL else f"s[{node.value}]"
        else:
            text = OPERATIONS[node.op].python.format(*(f"v{a.id}" for a in node.args))
        yield f"v{node.id} = {text}"


def _compiled(lines: Iterable[str]) -> Evaluate:
    scope: dict[str, Any] = {}
    text = "\n    ".join(["def evaluate(s):", *lines])
    exec(compile(text, "<graph>", "exec"), scope)  # generated only from the graph
    function: Evaluate = scope["evaluate"]
    return function
