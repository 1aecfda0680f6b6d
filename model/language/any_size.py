"""Indices of any size: a protocol traced once, for every number of brokers.

The size of such an index is an ``AnySize``. Iteration over the index gives one variable instead of all values, and
``all_of`` and ``any_of`` bind it by a quantifier. A set is a predicate, and an array over the index a function
(sort ``map:…``). So the graph does not depend on the size. Only solvers read such a graph.

Code that depends on the size, or treats a value of the index unlike the others, raises LanguageError or leaves a trace
that ``irregular`` finds.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from highwater.model.language import graph
from highwater.model.language.errors import LanguageError, fail
from highwater.model.language.graph import BITS, BOOL, EMPTY, INT, TRUE, Leaf, Node

STAND_INS = 509, 65521
"""Numbers that stand for the unknown size in intervals and constants. A trace must be the same for both."""

MAP = "map:"
"""The prefix of the sort of a function from index values; the sort of its results follows."""

ORDER = "order"
"""The sort of an order of all index values; a sequence of distinct values is a set and an order."""

_VARIABLES = 1 << 40
"""Inputs with numbers from here on are variables of quantifiers, sets and functions."""


class AnySize:
    """The unknown size of an index. It is no number: every use but ± 1 raises LanguageError.

    ``stand_in`` is for the language only. A protocol that read it could depend on the size.
    """

    __slots__ = ("_stand_in",)

    def __init__(self, stand_in: int) -> None:
        self._stand_in = stand_in

    def _refuse(self, *_: object) -> NoReturn:
        raise fail(
            "the number of values of an index of any size is not known: the protocol must not depend on it"
        )

    def _by(self, step: int, other: object) -> AnySize:
        if type(other) is not int or other != 1:
            self._refuse()
        return AnySize(self._stand_in + step)

    def __add__(self, other: object) -> AnySize:
        """The size plus one: the maximum of a sequence that can list a value twice."""
        return self._by(1, other)

    def __sub__(self, other: object) -> AnySize:
        """The size minus one: the greatest value of the index."""
        return self._by(-1, other)

    def __hash__(self) -> int:
        """A number, so that types with this size can be in dicts; equal types have the same object."""
        return 0


_REFUSED = (
    "lt le gt ge eq ne bool mul floordiv mod truediv divmod pow neg abs radd rsub rmul rfloordiv rmod rtruediv and or "
    "xor rand ror rxor lshift rshift invert str format repr int float index round iter len contains getitem"
)
for _name in _REFUSED.split():
    setattr(AnySize, f"__{_name}__", AnySize._refuse)


def plain_size(size: int | AnySize) -> int:
    """The stand-in of an unknown size, or the size itself."""
    return size._stand_in if isinstance(size, AnySize) else size


# --- operations -----------------------------------------------------------------------------------------------

_numbers = itertools.count(_VARIABLES)
_free: dict[int, frozenset[Node]] = {}


def variable(high: int) -> Node:
    """A new variable, for an index value up to ``high``."""
    return graph.leaf(next(_numbers), INT, 0, high)


def is_variable(node: Node) -> bool:
    """True if the node is a variable of a quantifier, a set or a function."""
    return node.op == "input" and node.value >= _VARIABLES


BINDERS = frozenset({"exists", "those", "each"})
"""Operations whose first operand is the variable that they bind in the second."""


def free(root: Node) -> frozenset[Node]:
    """The variables that are free in an expression."""
    if root.id not in _free:
        for node in graph.reachable([root]):
            if node.id not in _free:
                found = frozenset({node}) if is_variable(node) else frozenset()
                found = found.union(*(_free[a.id] for a in node.args))
                _free[node.id] = found - {node.args[0]} if node.op in BINDERS else found
    return _free[root.id]


def exists(v: Node, body: Node) -> Node:
    """True if the body holds for some index value. Every index has a value."""
    if v not in free(body):
        return body
    for part in graph.conjuncts([body]):  # an index value that equals a known one
        if part.op == "eq" and v in part.args:
            other = _other(part, v)
            if v not in free(other) and other.low >= 0 and other.high <= v.high:
                return graph.substituted([body], {v.value: other})[0]
    return graph.node("exists", (v, body), BOOL, 0, 1)


def those(v: Node, body: Node) -> Node:
    """The set of the index values for which the body holds."""
    full = (1 << v.high + 1) - 1
    if body.is_const:
        return graph.const(full, BITS) if body is TRUE else EMPTY
    if body.op == "member" and body.args[0] is v and v not in free(body.args[1]):
        return body.args[1]
    return graph.node("those", (v, body), BITS, 0, full)


def each(v: Node, body: Node) -> Node:
    """The function from index values to the values of the body."""
    if body.op == "get" and body.args[1] is v and v not in free(body.args[0]):
        return body.args[0]
    return graph.node("each", (v, body), MAP + body.sort, body.low, body.high)


def get(map_: Node, index: Node) -> Node:
    """The function's value for an index value."""
    if map_.op == "each":
        return graph.substituted([map_.args[1]], {map_.args[0].value: index})[0]
    if map_.op == "put" and map_.args[1] is index:
        return map_.args[2]
    if map_.is_const:
        return graph.const(map_.value, map_.sort[len(MAP) :])
    return graph.node("get", (map_, index), map_.sort[len(MAP) :], map_.low, map_.high)


def put(map_: Node, index: Node, value: Node) -> Node:
    """The function with another value for one index value."""
    low, high = min(map_.low, value.low), max(map_.high, value.high)
    return graph.node("put", (map_, index, value), map_.sort, low, high)


def first(order: Node, members: Node) -> Node:
    """The first member of a set in an order; any index value if the set is empty."""
    return graph.node("first", (order, members), INT, 0, members.high.bit_length() - 1)


def after(order: Node, second: Node, members: Node, others: Node) -> Node:
    """The order of a sequence followed by a second one, whose members are ``others``."""
    return graph.node("after", (order, second, members, others), ORDER, 0, 1)


def agree(a: Node, b: Node, members: Node) -> Node:
    """True if two orders agree on these members. Proofs assume nothing about it, unless both are one expression."""
    if a is b:
        return TRUE
    for one, other in ((a, b), (b, a)):
        if one.op == "select":
            return graph.select(one.args[0], *(agree(x, other, members) for x in one.args[1:]))
    a, b = sorted((a, b), key=lambda n: n.id)
    return graph.node("agree", (a, b, members), BOOL, 0, 1)


def equal(nodes: Sequence[Node], others: Sequence[Node]) -> Iterator[Node]:
    """The conditions that two values have the same scalars. A sequence's order follows its members."""
    for i, (a, b) in enumerate(zip(nodes, others, strict=True)):
        yield agree(a, b, nodes[i - 1]) if a.sort == ORDER else graph.eq(a, b)


graph.QUANTIFIED.update({f.__name__: f for f in (exists, those, each, get, put, first, after, agree)})


def left_by(scalar: Leaf, node: Node) -> Node:
    """The condition that a written value is outside its scalar's interval; for a function, that some result is."""
    if not scalar.sort.startswith(MAP) or (node.low >= scalar.low and node.high <= scalar.high):
        return scalar.left_by(node)
    v = variable(STAND_INS[0] - 1)
    result = Leaf(scalar.path, scalar.sort[len(MAP) :], scalar.low, scalar.high, scalar.bound)
    return exists(v, result.left_by(get(node, v)))


class Shapes:
    """A text for each expression; equal expressions of traces with different stand-ins have equal texts."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._begin = next(_numbers)
        self._known: dict[int, str] = {}

    def __call__(self, root: Node) -> str:
        """The fingerprint of an expression."""
        if root.id not in self._known:
            for node in graph.reachable([root]):
                if node.id not in self._known:
                    self._known[node.id] = self._of(node)
        return self._known[root.id]

    def _of(self, node: Node) -> str:
        operands = [self._known[a.id] for a in node.args]
        value: object = node.value
        if is_variable(node):
            value = node.value - self._begin
        elif node.is_const and node.sort == BITS:
            value = "all" if node.value == (1 << self._size) - 1 else node.value
        elif node.is_const and abs(node.value - self._size) <= 2:
            value = "size", node.value - self._size
        key = sorted(operands) if node.op in graph.COMMUTATIVE else operands
        text = repr((node.op, value, node.sort, key))
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


# --- binding --------------------------------------------------------------------------------------------------


def joined(
    join: Callable[[Iterable[Node]], Node], items: Iterable[Any], node_of: Callable[[Any], Node]
) -> Any:
    """The joined conditions and their nodes. Variables of indices that ``items`` iterates over are bound."""
    begin = next(_numbers)
    nodes = tuple([node_of(i) for i in items])
    result = join(nodes)
    for v in sorted(free(result), key=lambda v: -v.value):
        if v.value > begin:
            result = graph.not_(exists(v, graph.not_(result))) if join is graph.all_ else exists(v, result)
    return result, nodes


def irregular(roots: Iterable[Node], size: int) -> Iterator[str]:
    """The reasons why expressions do not mean the same for every size: each names what they treat differently."""
    roots = list(roots)
    if any(map(free, roots)):
        yield "it handles the values of an index one by one, other than by all_of, any_of, Set.of or Array.of"
    for node in graph.reachable(roots):
        for index in _indices(node):
            if index.is_const and 0 < index.value < size - 2:
                yield f"it treats the value {index.value} of an index unlike the others"
        if node.op == "count" and free(node):
            yield "it counts a set that depends on a variable"
        if node.op in ("first", "agree") and free(node):
            yield "it uses the order of a sequence that depends on a variable"
        if node.sort == BITS and node.is_const and 1 < node.value < (1 << size) - 1:
            yield "it names values of an index by their numbers"
        if node.op in ("add", "sub", "mul", "floordiv", "mod") and any(map(is_index, node.args)):
            yield "it calculates with values of an index"
        if node.op == "lt" and any(is_index(a) and not _other(node, a).is_const for a in node.args):
            yield "it compares values of an index by their numbers"


def _other(node: Node, a: Node) -> Node:
    return node.args[1] if node.args[0] is a else node.args[0]


def _indices(node: Node) -> Iterator[Node]:
    """The operands that are index values."""
    if node.op in ("get", "put"):
        yield node.args[1]
    elif node.op in ("member", "singleton"):
        yield node.args[0]
    elif node.op in ("eq", "lt", "select", "min", "max") and any(map(is_index, node.args)):
        yield from (a for a in node.args if a.sort == INT)


def is_index(node: Node) -> bool:
    """True if a number is an index value, or −1 or −2 in its place: a count is none."""
    if node.sort != INT or node.is_const or node.op == "count":
        return False
    return node.high + 2 in _ENDS or node.high + 1 in _ENDS or (node.high in _ENDS and not _counts(node))


_ENDS = frozenset(STAND_INS)


def _counts(node: Node) -> bool:
    return node.op == "count" or (node.op in ("select", "min", "max") and any(map(_counts, node.args)))


def refuse_position(what: str) -> LanguageError:
    """The error for an operation on positions of a sequence whose length is not known."""
    return fail(f"{what} needs the positions of a sequence; its length is not known for an index of any size")
