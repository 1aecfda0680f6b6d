"""The expression graph: hash-consed scalar nodes with constant folding and interval analysis.

Every value of a protocol, however structured, is a flat tuple of scalar nodes. A scalar is a ``bool``, an ``int``
(mathematical integer with a known interval) or a ``bits`` (a set over a finite index; bit *i* is set if *i* is a
member). Equal expressions are one node, so guards, actions and properties share it at no cost. A node's number
(``id``) is greater than the numbers of its arguments. Ascending numbers are therefore a topological order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """True if the expression contains a division whose divisor can be 0 (``PARTIAL``)."""
    negation: Node | None
    """The node of a bool's negation; None until it is created."""

    def __init__(self, op: str, args: tuple[Node, ...], value: int, sort: str, low: int, high: int, id: int):
        self.op, self.args, self.value = op, args, value
        self.sort, self.low, self.high, self.id = sort, low, high, id
        self.is_const = op == "const"
        self.divides = (op in PARTIAL and args[1].low <= 0 <= args[1].high) or any(a.divides for a in args)
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
        found = _table[key] = Node(op, args, 0, sort, low, high, len(_table))
    return found


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


TRUE, FALSE = const(1, BOOL), const(0, BOOL)


def truth(value: bool) -> Node:
    """The node of a constant bool."""
    return TRUE if value else FALSE


# --- bool ---------------------------------------------------------------------------------------


def not_(a: Node) -> Node:
    """The negation of a bool."""
    found = a.negation
    if found is None:
        found = truth(not a.value) if a.is_const else _node("not", (a,), BOOL, 0, 1)
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
    if a.id > b.id:
        a, b = b, a
    return _node("and", (a, b), BOOL, 0, 1)


def or_(a: Node, b: Node) -> Node:
    """The disjunction of two bools."""
    if a is TRUE or b is TRUE or a is b.negation:
        return TRUE
    if a is FALSE or a is b:
        return b
    if b is FALSE:
        return a
    if a.id > b.id:
        a, b = b, a
    return _node("or", (a, b), BOOL, 0, 1)


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
    if a.is_const and b.is_const:
        return truth(a.value == b.value)
    if a.high < b.low or b.high < a.low:
        return FALSE
    if a.sort == BOOL:
        if a.is_const:
            return b if a.value else not_(b)
        if b.is_const:
            return a if b.value else not_(a)
    if a.is_const or (a.id > b.id and not b.is_const):
        a, b = b, a
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
    if a.is_const and b.is_const:
        return const(a.value + b.value, INT)
    if a.is_const:
        a, b = b, a
    if b.is_const:
        if b.value == 0:
            return a
        if a.op == "add" and a.args[1].is_const:
            return add(a.args[0], const(a.args[1].value + b.value, INT))
    elif a.id > b.id:
        a, b = b, a
    return _node("add", (a, b), INT, a.low + b.low, a.high + b.high)


def sub(a: Node, b: Node) -> Node:
    """The difference ``a - b`` of two ints."""
    if b.is_const:
        return add(a, const(-b.value, INT))
    if a is b:
        return const(0, INT)
    return _node("sub", (a, b), INT, a.low - b.high, a.high - b.low)


def min_(a: Node, b: Node) -> Node:
    """The minimum of two ints."""
    if a is b or a.high <= b.low:
        return a
    if b.high <= a.low:
        return b
    if a.id > b.id:
        a, b = b, a
    return _node("min", (a, b), INT, min(a.low, b.low), min(a.high, b.high))


def max_(a: Node, b: Node) -> Node:
    """The maximum of two ints."""
    if a is b or a.low >= b.high:
        return a
    if b.low >= a.high:
        return b
    if a.id > b.id:
        a, b = b, a
    return _node("max", (a, b), INT, max(a.low, b.low), max(a.high, b.high))


def neg(a: Node) -> Node:
    """The negation of an int."""
    return sub(const(0, INT), a)


def mul(a: Node, b: Node) -> Node:
    """The product of two ints."""
    if a.is_const and b.is_const:
        return const(a.value * b.value, INT)
    if a.is_const or (a.id > b.id and not b.is_const):
        a, b = b, a
    if b.is_const and b.value in (0, 1, -1):
        return (b, a, neg(a))[b.value]
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return _node("mul", (a, b), INT, min(corners), max(corners))


def floordiv(a: Node, b: Node) -> Node:
    """The quotient of two ints, rounded down as in Python; 0 if the divisor is 0 (``PARTIAL``)."""
    if a.is_const and b.is_const and b.value:
        return const(a.value // b.value, INT)
    if b.is_const and b.value in (1, -1):
        return a if b.value == 1 else neg(a)
    ends = [d for d in {b.low, b.high, 1, -1} if d and b.low <= d <= b.high]
    corners = [x // d for x in (a.low, a.high) for d in ends] + [0] * (b.low <= 0 <= b.high)
    return _node("floordiv", (a, b), INT, min(corners), max(corners))


def mod(a: Node, b: Node) -> Node:
    """The remainder of two ints, with the divisor's sign as in Python; 0 if the divisor is 0 (``PARTIAL``)."""
    if a.is_const and b.is_const and b.value:
        return const(a.value % b.value, INT)
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
    if a.is_const and b.is_const:
        return const(a.value | b.value, BITS)
    if a.is_const:
        a, b = b, a
    if a is b or (b.is_const and b.value == 0):
        return a
    if not b.is_const and a.id > b.id:
        a, b = b, a
    return _node("union", (a, b), BITS, 0, _mask(a, b))


def intersection(a: Node, b: Node) -> Node:
    """The intersection of two sets."""
    if a.is_const and b.is_const:
        return const(a.value & b.value, BITS)
    if a.is_const:
        a, b = b, a
    if a is b:
        return a
    if b.is_const:
        if b.value == 0:
            return b
        if b.value == b.value | _mask(a):
            return a
    elif a.id > b.id:
        a, b = b, a
    return _node("intersection", (a, b), BITS, 0, min(_mask(a), _mask(b)))


def difference(a: Node, b: Node) -> Node:
    """The set of the members of ``a`` that are not in ``b``."""
    if b.is_const:
        return intersection(a, const(_mask(a) & ~b.value, BITS))
    if a is b or (a.is_const and a.value == 0):
        return const(0, BITS)
    return _node("difference", (a, b), BITS, 0, _mask(a))


def singleton(index: Node, size: int) -> Node:
    """The set with one member, ``index``, which is one of ``size`` values.

    For an index outside ``0 .. size-1`` the result has bit ``size``, which is outside the type of sets of this index.
    """
    if index.is_const:
        inside = 0 <= index.value < size
        return const(1 << index.value if inside else 1 << size, BITS)
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
    if bits.is_const and bits.value == 0:
        return FALSE
    if index.is_const:
        if index.value < 0 or index.value >= bits.high.bit_length():
            return FALSE
        if bits.is_const:
            return truth(bool(bits.value >> index.value & 1))
    width = bits.high.bit_length()
    if index.low < 0 or index.high >= width:
        safe = min_(max_(index, const(0, INT)), const(width - 1, INT))
        return and_(within(index, 0, width - 1), member(safe, bits))
    return _node("member", (index, bits), BOOL, 0, 1)


def count(bits: Node) -> Node:
    """The number of members of a set."""
    if bits.is_const:
        return const(bits.value.bit_count(), INT)
    return _node("count", (bits,), INT, 0, bits.high.bit_length())


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

OPERATIONS: dict[str, Callable[..., Node]] = {
    operation.__name__.rstrip("_"): operation
    for operation in (
        not_, and_, or_, eq, lt, add, sub, mul, floordiv, mod, min_, max_, select,
        union, intersection, difference, member, count,
    )
}  # fmt: skip
"""The constructor of each operation by name, without ``singleton``, which also needs the size of its index."""


def made_of(op: str, operands: Sequence[Node], size: int) -> Node:
    """The node of the operation ``op`` on these operands. Raises KeyError if the operation is unknown.

    ``size`` is used only by ``singleton``: the number of values of its index.
    """
    if op == "singleton":
        return singleton(operands[0], size)
    return OPERATIONS[op](*operands)


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
    expression is defined.
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

_PYTHON: dict[str, str] = {
    "not": "not {0}",
    "and": "{0} and {1}",
    "or": "{0} or {1}",
    "eq": "{0} == {1}",
    "lt": "{0} < {1}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "floordiv": "{0} // {1} if {1} else 0",
    "mod": "{0} % {1} if {1} else 0",
    "min": "{0} if {0} < {1} else {1}",
    "max": "{1} if {0} < {1} else {0}",
    "select": "{1} if {0} else {2}",
    "union": "{0} | {1}",
    "intersection": "{0} & {1}",
    "difference": "{0} & ~{1}",
    "singleton": "1 << {0}",
    "member": "{1} >> {0} & 1 == 1",
    "count": "{0}.bit_count()",
}


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
            values[node.id] = _operation(node.op)(*[values[a.id] for a in node.args])
    return tuple([values[root.id] for root in roots])


@functools.cache
def _operation(op: str) -> Callable[..., int]:
    operands = [f"a{number}" for number in range(3)]
    function: Callable[..., int] = eval(f"lambda a0, a1=None, a2=None: {_PYTHON[op].format(*operands)}")
    return function  # compiled only from text of this module


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
            text = _PYTHON[node.op].format(*(f"v{a.id}" for a in node.args))
        yield f"v{node.id} = {text}"


def _compiled(lines: Iterable[str]) -> Evaluate:
    scope: dict[str, Any] = {}
    text = "\n    ".join(["def evaluate(s):", *lines])
    exec(compile(text, "<graph>", "exec"), scope)  # generated only from the graph
    function: Evaluate = scope["evaluate"]
    return function
