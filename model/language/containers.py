"""Sets, arrays and sequences: their types, their symbolic values, and the functions that search and count in them.

Sequences have a bounded length, so each function loops over positions that are known while tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from highwater.model.language import any_size, graph, mutation
from highwater.model.language.any_size import plain_size
from highwater.model.language.declarations import LIMIT, too_many
from highwater.model.language.errors import LanguageError, fail
from highwater.model.language.graph import BITS, INT, Leaf, Node
from highwater.model.language.records import Option, OptionValue, Struct
from highwater.model.language.scalar_types import Enum, Index, is_index
from highwater.model.language.scalars import (
    Number,
    Truth,
    Type,
    Value,
    all_of,
    any_of,
    as_bool,
    choose,
    is_type,
    least,
    lift_like,
    total,
    where,
)


class SetValue(Value):
    """A symbolic set of index values, with Python's set operators."""

    __slots__ = ()
    type: Set

    @property
    def node(self) -> Node:
        """The scalar node that represents the set, as bits."""
        return self.nodes[0]

    def _other(self, other: object) -> Node:
        return self.type.lift(other).nodes[0]

    def _set(self, node: Node) -> SetValue:
        return SetValue(self.type, (node,))

    def __or__(self, other: object) -> SetValue:
        return self._set(mutation.binary("|", graph.union, self.node, self._other(other)))

    def __and__(self, other: object) -> SetValue:
        return self._set(mutation.binary("&", graph.intersection, self.node, self._other(other)))

    def __sub__(self, other: object) -> SetValue:
        return self._set(mutation.binary("set -", graph.difference, self.node, self._other(other)))

    def __xor__(self, other: object) -> SetValue:
        return (self | other) - (self & other)

    __ror__, __rand__, __rxor__ = __or__, __and__, __xor__

    def __rsub__(self, other: object) -> SetValue:
        return self.type.lift(other) - self

    def __lt__(self, other: object) -> Truth:
        """True if this is a proper subset of the other set."""
        return (self <= other) & (self != other)

    def __gt__(self, other: object) -> Truth:
        """True if this is a proper superset of the other set."""
        return (self >= other) & (self != other)

    def __le__(self, other: object) -> Truth:
        """True if this is a subset of the other set."""
        return Truth(None, (mutation.binary("subset", mutation.subset, self.node, self._other(other)),))

    def __ge__(self, other: object) -> Truth:
        """True if this is a superset of the other set."""
        return Truth(None, (mutation.binary("subset", mutation.subset, self._other(other), self.node),))

    def has(self, index: object) -> Truth:
        """True if the set contains this index value. An Option without a value is in no set."""
        if isinstance(index, OptionValue):
            return index.is_some & self.has(index.value)
        return Truth(None, (graph.member(self.type.index.lift(index).nodes[0], self.node),))

    def with_(self, index: object) -> SetValue:
        """A copy of the set with this index value added."""
        return self._set(mutation.binary("with_", graph.union, self.node, self._singleton(index)))

    def without(self, index: object) -> SetValue:
        """A copy of the set without this index value."""
        return self._set(mutation.binary("without", graph.difference, self.node, self._singleton(index)))

    def _singleton(self, index: object) -> Node:
        return graph.singleton(self.type.index.lift(index).nodes[0], plain_size(self.type.index.high) + 1)

    @property
    def is_empty(self) -> Truth:
        """True if the set has no members."""
        return Truth(None, (graph.eq(self.node, graph.const(0, BITS)),))


@dataclass(frozen=True)
class Set(Type):
    """The type of sets of index values or enumeration members. Plain values are lists in index order."""

    index: Index | Enum
    _written = ": write a list, or x.with_(y)"

    def __post_init__(self) -> None:
        is_index(self.index, "Set")

    def __str__(self) -> str:
        return f"Set({self.index.name})"

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        return [Leaf(path, BITS, 0, (2 << plain_size(self.index.high)) - 1)]

    def wrap(self, nodes: Sequence[Node]) -> SetValue:  # noqa: D102
        return SetValue(self, tuple(nodes))

    def _scalars(self, plain: Any) -> Sequence[int | Node]:
        if not isinstance(plain, (set, frozenset, list, tuple, range)):
            raise self._wrong(plain)
        bits: int | Node = 0
        for item in plain:
            (number,) = self.index.scalars(item)
            if isinstance(number, int) and isinstance(bits, int):
                bits |= 1 << number
            else:
                before = graph.const(bits, BITS) if isinstance(bits, int) else bits
                at = graph.const(number, INT) if isinstance(number, int) else number
                bits = graph.union(before, graph.singleton(at, plain_size(self.index.high) + 1))
        return (bits,)

    def decode(self, scalars: Sequence[int]) -> list[Any]:  # noqa: D102
        return [self.index.key(i) for i in range(self.index.size) if scalars[0] >> i & 1]

    def zero(self) -> SetValue:  # noqa: D102
        return self.wrap([graph.const(0, BITS)])

    def all(self) -> SetValue:
        """The set of all values of the index."""
        return self.wrap([graph.const((2 << plain_size(self.index.high)) - 1, BITS)])

    def of(self, condition: Any) -> SetValue:
        """The set of all index values ``i`` for which ``condition(i)`` holds."""
        return members(self.index, condition, self)

    def constants(self) -> Iterator[SetValue]:  # noqa: D102
        return (self.wrap([graph.const(v, BITS)]) for v in range(1 << self.index.size))


class ArrayValue(Value):
    """A symbolic array with one element for each index value."""

    __slots__ = ()
    type: Array

    def __getitem__(self, index: object) -> Any:
        """The element at an index, which can be symbolic; the element type's zero if the index is outside the array.

        If the index is outside the array in every state, using the element is an error (``_missing``).
        """
        node = self.type.index.lift(index).nodes[0]
        if self.type.is_any_size:
            return self.type.element.wrap([any_size.get(n, node) for n in self.nodes])
        if wrong := self._outside(node):
            return _missing(self.type.element, wrong)
        return choose(node, [self.at(i) for i in range(self.type.index.size)], self.type.element)

    def _outside(self, node: Node) -> LanguageError | None:
        """The error of an index that is outside the array in every state; None if it is inside in some state."""
        if node.low < self.type.index.size and node.high >= 0:
            return None
        return no_element(node, f"is no index of {self.type}: it has 0..{self.type.index.size - 1}")

    def at(self, position: int) -> Any:
        """The element at a constant position. Raises LanguageError if the array has no such position."""
        _known_position(position, self.type.index.size, self.type)
        width = self.type.element.leaf_count
        return self.type.element.wrap(self.nodes[position * width : (position + 1) * width])

    def set(self, index: object, value: object) -> ArrayValue:
        """A copy with ``value`` at this index; unchanged if the index is outside the array.

        If the index is outside the array in every state, using the copy is an error (``_missing``).
        """
        at, new = self.type.index.lift(index).nodes[0], self.type.element.lift(value)
        if self.type.is_any_size:
            pairs = zip(self.nodes, new.nodes, strict=True)
            return ArrayValue(self.type, tuple(any_size.put(a, at, b) for a, b in pairs))
        if wrong := self._outside(at):
            return _missing(self.type, wrong)
        nodes: list[Node] = []
        for i in range(self.type.index.size):
            hit = graph.eq(at, graph.const(i, INT))
            nodes += (graph.select(hit, b, a) for a, b in zip(self.at(i).nodes, new.nodes, strict=True))
        return ArrayValue(self.type, mutation.changed("set", tuple(nodes), self.nodes))


@dataclass(frozen=True)
class Array(Type):
    """The type of arrays with one element for each index value. Plain values are lists.

    If the index is an enumeration, plain values are dicts by member name; a list in member order is accepted, too.
    """

    index: Index | Enum
    element: Type
    _written = ": write a list, or T.fill(x) with its type T"

    def __post_init__(self) -> None:
        is_index(self.index, "Array")
        is_type(self.element, "Array")
        if not self.is_any_size and self.index.size * self.element.leaf_count > LIMIT:
            raise too_many(f"{self} has too many scalars")

    def __str__(self) -> str:
        return f"Array({self.index.name}, {self.element})"

    @property
    def is_any_size(self) -> bool:
        """True if the size of the index is not known. Each scalar of the element is then a function of the index."""
        return getattr(self.index, "is_any_size", False)

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        if self.is_any_size:
            return _maps(self.element.leaves(f"{path}[{self.index.name}]"))
        keys = [self.index.key(i) for i in range(self.index.size)]
        return [leaf for key in keys for leaf in self.element.leaves(f"{path}[{key}]")]

    def wrap(self, nodes: Sequence[Node]) -> ArrayValue:  # noqa: D102
        return ArrayValue(self, tuple(nodes))

    def _scalars(self, plain: Any) -> Sequence[int | Node]:
        if not isinstance(plain, (list, tuple, Mapping)):
            raise self._wrong(plain)
        return [scalar for item in self.items(plain) for scalar in self.element.scalars(item)]

    def items(self, plain: Sequence[Any] | Mapping[Any, Any]) -> Sequence[Any]:
        """The elements of a plain array, in index order. Raises LanguageError if elements are missing or unknown."""
        if isinstance(plain, Mapping):
            if not isinstance(self.index, Enum):
                raise self._wrong(plain)
            if set(plain) != set(self.index.members):
                known, given = ", ".join(self.index.members), ", ".join(map(str, plain))
                raise fail(f"{self} has the elements {known}, not {given}")
            return [plain[name] for name in self.index.members]
        if len(plain) != self.index.size:
            raise fail(f"{self} has {self.index.size} elements, not {len(plain)}")
        return plain

    def fill(self, plain: object) -> ArrayValue:
        """The array whose elements all equal ``plain``, a plain or symbolic value."""
        if self.is_any_size:
            return self.of(lambda i: self.element.lift(plain))
        filled: ArrayValue = self.lift([plain] * self.index.size)
        return filled

    def of(self, element: Any) -> ArrayValue:
        """The array whose element at each index ``i`` is ``element(i)``."""
        if isinstance(self.index, Index) and self.is_any_size:
            i = self.index.variable()
            nodes = self.element.lift(element(i)).nodes
            return ArrayValue(self, tuple(any_size.each(i.node, n) for n in nodes))
        made: ArrayValue = self.lift([element(i) for i in self.index])
        return made

    def decode(self, scalars: Sequence[int]) -> Any:  # noqa: D102
        width = self.element.leaf_count
        found = [self.element.decode(scalars[i * width : (i + 1) * width]) for i in range(self.index.size)]
        return dict(zip(self.index.members, found, strict=True)) if isinstance(self.index, Enum) else found

    def zero(self) -> ArrayValue:  # noqa: D102
        return self.fill(self.element.zero())


def _maps(leaves: Iterable[Leaf]) -> list[Leaf]:
    """The scalars of functions whose results are these scalars."""
    return [Leaf(x.path, any_size.MAP + x.sort, x.low, x.high, x.bound) for x in leaves]


class SeqValue(Value):
    """A symbolic sequence of bounded length. Elements past its end are zero, so equal sequences have equal scalars."""

    __slots__ = ()
    type: Seq

    @property
    def length(self) -> Number:
        """The number of elements in the sequence."""
        return Number(None, (self.nodes[0],))

    @property
    def is_empty(self) -> Truth:
        """True if the sequence has no elements."""
        return self.length == 0

    def at(self, position: int) -> Any:
        """The element at a constant position below the type's maximum; the element type's zero past the end."""
        _known_position(position, self.type.maximum, self.type)
        width = self.type.element.leaf_count
        return self.type.element.wrap(self.nodes[1 + position * width : 1 + (position + 1) * width])

    def __getitem__(self, index: object) -> Any:
        """The element at a position; the element type's zero before the start and past the end.

        If the position is negative in every state, using the element is an error (``_missing``). Raises LanguageError
        for a slice.
        """
        if isinstance(index, slice):
            raise fail("a sequence has no slices: write .truncate(n), .tail, .drop(i) or .filter(condition)")
        node = lift_like(self.length, index).nodes[0]
        if node.high < 0:
            wrong = no_element(node, "is the position of no element: write .last, or q[size(q) - 2]")
            return _missing(self.type.element, wrong)
        return choose(node, [self.at(i) for i in range(self.type.maximum)], self.type.element)

    def elements(self) -> Iterator[tuple[Truth, Any]]:
        """For each position: the condition that the sequence has an element there, and this element."""
        for position in range(self.type.maximum):
            yield self.length > position, self.at(position)

    @property
    def last(self) -> Any:
        """The last element; the element type's zero if the sequence is empty."""
        return self[self.length - 1]

    @property
    def head(self) -> Any:
        """The first element; the element type's zero if the sequence is empty."""
        return self[0]

    @property
    def tail(self) -> SeqValue:
        """A copy without the first element.

        For an empty sequence the copy has length −1, which is outside the type. A step that writes such a copy is
        pruned or an error (``Seq``).
        """
        zero = self.type.element.zero()
        later = [self.at(i) for i in range(1, self.type.maximum)] + [zero]
        return self._changed("tail", self._with_length(self.length - 1, lambda i, old: later[i]))

    def pop(self) -> tuple[Any, SeqValue]:
        """The first element (``head``), and a copy of the sequence without it (``tail``)."""
        return self.head, self.tail

    def filter(self, condition: Callable[[Any], Truth | bool]) -> SeqValue:
        """A copy with only the elements for which the condition holds, in order."""
        result = self.type.zero()
        for there, element in self.elements():
            result = where(there & condition(element), result.append(element), result)
        return self._changed("filter", result)

    def drop(self, position: Number | int) -> SeqValue:
        """A copy without the element at this position; unchanged if the sequence has no such position."""
        found = (position >= 0) & (self.length > position)
        items = [self.at(i) for i in range(self.type.maximum)] + [self.type.element.zero()]
        dropped = self._with_length(
            self.length - total([as_bool(found)]),
            lambda i, old: where(found & (position <= i), items[i + 1], old),
        )
        return self._changed("drop", dropped)

    def __add__(self, other: object) -> SeqValue:
        """This sequence followed by the other sequence.

        A step that writes a result longer than the type's maximum is pruned or an error (``Seq``).
        """
        result = self
        for there, element in self.type.lift(other).elements():
            result = where(there, result.append(element), result)
        return result

    def __radd__(self, other: object) -> SeqValue:
        return self.type.lift(other) + self

    def append(self, value: object) -> SeqValue:
        """A copy with the value added at the end.

        A step that writes a copy longer than the type's maximum is pruned or an error (``Seq``).
        """
        longer = self._with_length(
            self.length + 1,
            lambda i, old: where(self.length == i, self.type.element.lift(value), old),
        )
        return self._changed("append", longer)

    def truncate(self, length: Number | int) -> SeqValue:
        """A copy that keeps the first ``length`` elements, or all if there are fewer."""
        length = least(self.length, length)
        zero = self.type.element.zero()
        return self._changed(
            "truncate", self._with_length(length, lambda i, old: where(length > i, old, zero))
        )

    def _changed(self, word: str, after: SeqValue) -> SeqValue:
        """Return ``after``. While mutants are traced, the mutant named by ``word`` returns this sequence."""
        return SeqValue(self.type, mutation.changed(word, after.nodes, self.nodes, depth=3))

    def _with_length(self, length: Number, element: Any) -> SeqValue:
        nodes = [length.nodes[0]]
        for i in range(self.type.maximum):
            nodes += element(i, self.at(i)).nodes
        return SeqValue(self.type, tuple(nodes))

    def has(self, value: object) -> Truth:
        """True if an element of the sequence equals the value."""
        item = self.type.element.lift(value)
        return any_of(there & (element == item) for there, element in self.elements())


@dataclass(frozen=True)
class Seq(Type):
    """The type of sequences of at most ``maximum`` elements.

    A step that writes a longer sequence is pruned at the scenario's bound ``bound``; if ``bound`` is None, the step is
    an error. ``ascends`` declares that the elements are distinct index values in ascending order. Symmetry reduction
    then sorts the elements again after it has renamed the index values.
    """

    element: Type
    maximum: int
    _written = ": write a list, or x.append(y)"
    bound: str | None = None
    ascends: bool = field(default=False, compare=False)
    over: Index | None = field(default=None, init=False, compare=False)
    """The index, if its size is not known. The sequence then has one element for each member of a set of its values."""

    def __post_init__(self) -> None:
        is_type(self.element, "Seq")
        if isinstance(self.maximum, any_size.AnySize):
            object.__setattr__(self, "over", self._index())
            return
        if not isinstance(self.maximum, int) or isinstance(self.maximum, bool) or self.maximum < 0:
            raise fail(f"the maximum of a Seq is a whole number, not {self.maximum!r}")
        if self.maximum * self.element.leaf_count > LIMIT:
            raise too_many(f"{self} has too many scalars")

    def __str__(self) -> str:
        return f"Seq({self.element}, {self.maximum if self.over is None else 'any'})"

    def _index(self) -> Index:
        """The index of any size whose values are the elements, or a field of the elements."""
        fields = self.element.fields.values() if isinstance(self.element, Struct) else (self.element,)
        for found in fields:
            if isinstance(found, Index) and found.is_any_size:
                return found
        raise fail(f"{self} has a maximum that is not known, and its elements have no index of any size")

    def leaves(self, path: str) -> list[Leaf]:  # noqa: D102
        if self.over is not None:
            own = [*Set(self.over).leaves(path), Leaf(f"{path}.order", any_size.ORDER, 0, 1)]
            return own if self.element == self.over else own + _maps(self.element.leaves(path))
        items = [leaf for i in range(self.maximum) for leaf in self.element.leaves(f"{path}[{i}]")]
        return [Leaf(f"{path}.length", INT, 0, self.maximum, self.bound), *items]

    def wrap(self, nodes: Sequence[Node]) -> SeqValue:  # noqa: D102
        return (SeqValue if self.over is None else ListedSet)(self, tuple(nodes))

    def _scalars(self, plain: Any) -> Sequence[int | Node]:
        if not isinstance(plain, (list, tuple)):
            raise self._wrong(plain)
        if self.over is not None:
            if plain:
                raise any_size.refuse_position("a list of elements")
            return [0] * len(self.layout)
        if len(plain) > self.maximum:
            raise fail(f"{self} cannot hold {len(plain)} elements")
        padding = self.element.zero().nodes * (self.maximum - len(plain))
        return [len(plain), *(scalar for item in plain for scalar in self.element.scalars(item)), *padding]

    def decode(self, scalars: Sequence[int]) -> list[Any]:  # noqa: D102
        width = self.element.leaf_count
        return [self.element.decode(scalars[1 + i * width : 1 + (i + 1) * width]) for i in range(scalars[0])]

    def zero(self) -> SeqValue:  # noqa: D102
        empty: SeqValue = self.lift([])
        return empty


class ListedSet(SeqValue):
    """A sequence over an index of any size: a set of index values in some order, and the element of each.

    No two elements belong to the same index value. ``nodes``: the set, the order, and the functions that give the
    scalars of the elements, unless the elements are the index values.
    """

    __slots__ = ()

    @property
    def members(self) -> SetValue:
        """The index values that have an element."""
        assert self.type.over is not None
        return SetValue(Set(self.type.over), self.nodes[:1])

    def element(self, index: Number) -> Any:
        """The element of a member."""
        if self.type.element == self.type.over:
            return index
        return self.type.element.wrap([any_size.get(n, index.node) for n in self.nodes[2:]])

    def _of(self, members: SetValue, order: Node) -> ListedSet:
        return ListedSet(self.type, (members.node, order, *self.nodes[2:]))

    @property
    def length(self) -> Number:
        """The number of elements in the sequence."""
        return size(self.members)

    @property
    def is_empty(self) -> Truth:
        """True if the sequence has no elements."""
        return self.members.is_empty

    def at(self, position: int) -> Any:
        """The first element. Raises LanguageError for another position."""
        if position != 0:
            raise any_size.refuse_position("an element")
        assert self.type.over is not None
        return self.element(self.type.over.wrap([any_size.first(self.nodes[1], self.nodes[0])]))

    def __getitem__(self, index: object) -> Any:
        """The first element. Raises LanguageError for another position."""
        return self.at(index if isinstance(index, int) else -1)

    def filter(self, condition: Callable[[Any], Truth | bool]) -> ListedSet:
        """A copy with only the elements for which the condition holds, in order."""
        return self._of(self.having(condition), self.nodes[1])

    def having(self, condition: Callable[[Any], Truth | bool]) -> SetValue:
        """The members whose element satisfies the condition."""
        return self.members & self.members.type.of(lambda i: condition(self.element(i)))

    def has(self, value: object) -> Truth:
        """True if an element of the sequence equals the value."""
        if self.type.element == self.type.over:
            return self.members.has(value)
        return any_element(self, lambda e: e == self.type.element.lift(value))

    def __add__(self, other: object) -> ListedSet:
        """This sequence followed by the other. Precondition, which a proof checks: they have no element in common."""
        second = self.type.lift(other)
        if self.type.element != self.type.over:
            raise any_size.refuse_position("+")
        order = any_size.after(self.nodes[1], second.nodes[1], self.nodes[0], second.nodes[0])
        return self._of(self.members | second.members, order)

    def _with_length(self, length: Number, element: Any) -> SeqValue:
        raise any_size.refuse_position("a sequence's change")


def no_element(node: Node, wrong: str) -> LanguageError:
    """The error of a position that is outside in every state. ``wrong`` is the text after the position."""
    if not node.is_const:
        return fail(f"{node.low}..{node.high} {wrong}")
    return fail(
        f"{node.value} {wrong}; if this constant comes from a parameter, a message or a loop, guard what uses the "
        "element: `if m.prev > 0:`, or (m.prev == 0) | …"
    )


def _missing(type: Type, wrong: LanguageError) -> Any:
    """A value of an element that exists in no state. A guard, write or property that depends on it raises ``wrong``."""
    return type.wrap([graph.missing(scalar, wrong) for scalar in type.layout])


def _known_position(position: int, count: int, type: Type) -> None:
    if not 0 <= position < count:
        raise fail(f"{position} is no position of {type}: it has 0..{count - 1}")


def members(index: Index | Enum, condition: Any, within: Set) -> SetValue:
    """The set, of type ``within``, of all index values ``i`` for which ``condition(i)`` holds."""
    if isinstance(index, Index) and index.is_any_size:
        v = index.variable()
        return SetValue(within, (any_size.those(v.node, as_bool(condition(v)).node),))
    nodes = graph.const(0, BITS)
    empty = nodes
    for i in index:
        bit = graph.singleton(i.nodes[0], index.size)
        nodes = graph.union(nodes, graph.select(as_bool(condition(i)).node, bit, empty))
    return SetValue(within, (nodes,))


def members_of(sequence: SeqValue, type: Set) -> SetValue:
    """The set of the elements of a sequence of index values."""
    if isinstance(sequence, ListedSet):
        return sequence.members
    result = type.zero()
    for there, element in sequence.elements():
        result = where(there, result.with_(element), result)
    return result


def ascending(members: SetValue, type: Seq) -> SeqValue:
    """The members of a set as a sequence in ascending order. The sequence type must have room for all members."""
    if type.over is not None:
        return type.wrap([members.node, graph.const(0, any_size.ORDER)])
    result = type.zero()
    for index in members.type.index:
        result = where(members.has(index), result.append(index), result)
    return result


def mapped(sequence: SeqValue, type: Seq, element: Callable[[Any], Any]) -> SeqValue:
    """The sequence, of another type, of ``element(x)`` for each element x of a sequence of index values."""
    if isinstance(sequence, ListedSet):
        assert type.over is not None
        i = type.over.variable()
        of_each = type.element.lift(element(i)).nodes
        return type.wrap([*sequence.nodes[:2], *(any_size.each(i.node, n) for n in of_each)])
    result: SeqValue = type.zero()
    for there, found in sequence.elements():
        result = where(there, result.append(element(found)), result)
    return result


def has_no_two(sequence: SeqValue, key: Callable[[Any], Any]) -> Truth:
    """True if no two elements have the same key."""
    if isinstance(sequence, ListedSet):
        return ~any_of(
            sequence.members.has(a)
            & sequence.members.has(b)
            & (a != b)
            & (key(sequence.element(a)) == key(sequence.element(b)))
            for a in sequence.members.type.index
            for b in sequence.members.type.index
        )
    return ~any_of(there & (key(earlier) == key(later)) for there, earlier, later in _pairs(sequence))


def _pairs(sequence: SeqValue) -> Iterator[tuple[Truth, Any, Any]]:
    """Each two positions: the condition that the later one has an element, the earlier element, and the later one."""
    elements = list(sequence.elements())
    for number, (there, later) in enumerate(elements):
        for _, earlier in elements[:number]:
            yield there, earlier, later


def first_of(sequence: SeqValue, condition: Callable[[Any], Truth]) -> OptionValue:
    """The first element for which the condition holds, as an Option; none if it holds for no element."""
    option = Option(sequence.type.element)
    found: OptionValue = option.none()
    if isinstance(sequence, ListedSet):
        chosen = sequence.filter(condition)
        return where(chosen.is_empty, found, option.some(chosen.at(0)))
    for there, element in reversed(list(sequence.elements())):
        found = where(there & condition(element), option.some(element), found)
    return found


def first_some(*options: OptionValue) -> OptionValue:
    """The first option that has a value; none if no option has a value."""
    found = options[-1]
    for option in reversed(options[:-1]):
        found = where(option.is_some, option, found)
    return found


def is_distinct(sequence: SeqValue) -> Truth:
    """True if all elements of a sequence are different."""
    if isinstance(sequence, ListedSet) and sequence.type.element == sequence.type.over:
        return as_bool(True)
    return all_of(~there | (earlier != later) for there, earlier, later in _pairs(sequence))


def any_element(sequence: SeqValue, condition: Callable[[Any], Truth]) -> Truth:
    """True if the condition holds for at least one element."""
    if isinstance(sequence, ListedSet):
        members = sequence.members
        return any_of(members.has(i) & condition(sequence.element(i)) for i in members.type.index)
    return any_of(there & condition(element) for there, element in sequence.elements())


def every_element(sequence: SeqValue, condition: Callable[[Any], Truth]) -> Truth:
    """True if the condition holds for every element."""
    return ~any_element(sequence, lambda element: ~condition(element))


def size(value: SetValue | SeqValue) -> Number:
    """The number of members of a set, or of elements of a sequence."""
    if isinstance(value, SeqValue):
        return value.length
    if not isinstance(value, SetValue):
        raise fail(f"size() counts a Set or a Seq, not {value!r}")
    return Number(None, (graph.count(value.node),))
