"""Symbolic values of several scalars, or that hold several: sets, structs, options, arrays, sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from highwater.model.language import graph, mutation
from highwater.model.language.errors import fail
from highwater.model.language.graph import BITS, INT, Node
from highwater.model.language.scalars import (
    Number,
    Truth,
    Value,
    any_of,
    as_bool,
    choose,
    least,
    lift_like,
    total,
    where,
)

if TYPE_CHECKING:
    from highwater.model.language.types import Array, Enum, Index, Option, Seq, Set, Struct, Type


class SetValue(Value):
    """A set over a finite index: ``|``, ``&``, ``-``, ``<=``; ``has``, ``with_``, ``without``; size()."""

    __slots__ = ()
    type: Set

    @property
    def node(self) -> Node:
        """The scalar node."""
        return self.nodes[0]

    def _other(self, other: object) -> Node:
        return self.type.lift(other).nodes[0]

    def _set(self, node: Node) -> SetValue:
        return SetValue(self.type, (node,))

    def __or__(self, other: object) -> SetValue:
        """Union."""
        return self._set(mutation.binary("|", graph.union, self.node, self._other(other)))

    def __and__(self, other: object) -> SetValue:
        """Intersection."""
        return self._set(mutation.binary("&", graph.intersection, self.node, self._other(other)))

    def __sub__(self, other: object) -> SetValue:
        """Difference."""
        return self._set(mutation.binary("set -", graph.difference, self.node, self._other(other)))

    def __xor__(self, other: object) -> SetValue:
        """What is in just one of the two."""
        return (self | other) - (self & other)

    __ror__, __rand__, __rxor__ = __or__, __and__, __xor__

    def __rsub__(self, other: object) -> SetValue:
        """Difference."""
        return self.type.lift(other) - self

    def __lt__(self, other: object) -> Truth:
        """Whether this is a subset of the other, and not the same."""
        return (self <= other) & (self != other)

    def __gt__(self, other: object) -> Truth:
        """Whether this is a superset of the other, and not the same."""
        return (self >= other) & (self != other)

    def __le__(self, other: object) -> Truth:
        """Whether this is a subset of the other."""
        return Truth(None, (mutation.binary("subset", mutation.subset, self.node, self._other(other)),))

    def __ge__(self, other: object) -> Truth:
        """Whether this is a superset of the other."""
        return Truth(None, (mutation.binary("subset", mutation.subset, self._other(other), self.node),))

    def has(self, index: object) -> Truth:
        """Whether an index (or an Option of one: none is in no set) is a member."""
        if isinstance(index, OptionValue):
            return index.is_some & self.has(index.value)
        return Truth(None, (graph.member(self.type.index.lift(index).nodes[0], self.node),))

    def with_(self, index: object) -> SetValue:
        """This set and one more member."""
        return self._set(mutation.binary("with_", graph.union, self.node, self._singleton(index)))

    def without(self, index: object) -> SetValue:
        """This set without one member."""
        return self._set(mutation.binary("without", graph.difference, self.node, self._singleton(index)))

    def _singleton(self, index: object) -> Node:
        return graph.singleton(self.type.index.lift(index).nodes[0], self.type.index.size)

    @property
    def is_empty(self) -> Truth:
        """Whether there is no member."""
        return Truth(None, (graph.eq(self.node, graph.const(0, BITS)),))


class StructValue(Value):
    """A record with named fields, read as attributes; ``replace`` gives a changed copy.

    A field cannot have the name of an attribute of this class: Struct refuses it.
    """

    __slots__ = ()
    type: Struct

    def __getattr__(self, name: str) -> Any:
        """A field."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.type.absent:
            return self.type.absent[name].zero()
        place, field = self.type.field(name)
        return field.wrap(self.nodes[place])

    def replace(self, /, **fields: object) -> StructValue:
        """A copy in which these fields have other values."""
        nodes = list(self.nodes)
        for name, value in fields.items():
            if name in self.type.absent:
                self.type.absent[name].lift(value)
                continue
            place, field = self.type.field(name)
            nodes[place] = field.lift(value).nodes
        after = tuple(nodes)
        if mutation.active is not None:
            after = mutation.replaced(after, self.nodes, self._places(fields))
        return StructValue(self.type, after)

    def _places(self, fields: Iterable[str]) -> dict[str, slice]:
        """Where the scalars of these fields lie."""
        return {name: self.type.field(name)[0] for name in fields if name not in self.type.absent}


class OptionValue(Value):
    """A value or none: ``is_some``, ``is_none``, ``value`` (the type's zero where there is none), ``is_(x)``."""

    __slots__ = ()
    type: Option
    _is_option = True

    @property
    def is_some(self) -> Truth:
        """Whether there is a value."""
        return Truth(None, (self.type.present(self.nodes),))

    @property
    def is_none(self) -> Truth:
        """Whether there is none."""
        return ~self.is_some

    @property
    def value(self) -> Any:
        """The value; the zero of its type where there is none, so guard it with ``is_some``."""
        return self.type.content(self.nodes)

    def is_(self, other: object) -> Truth:
        """Whether there is a value and it equals this one."""
        return self == self.type.some(other)

    def or_(self, other: Any) -> Any:
        """The value, or another one where there is none: ``s.ballot.or_(-1) < b``."""
        value = self.value
        if isinstance(value, Number) and isinstance(other, int) and not isinstance(other, bool):
            value = Number(None, value.nodes)  # what stands for none may be outside the type
        return where(self.is_some, value, other)

    def _instead(self, symbol: str, other: object) -> str:
        return ": under .is_some take its .value"


class ArrayValue(Value):
    """A total map from an index to values; a symbolic index chooses among all elements."""

    __slots__ = ()
    type: Array

    def __getitem__(self, index: object) -> Any:
        """The element at an index; the element type's zero for an index outside the array."""
        node = self._position(index)
        return choose(node, [self.at(i) for i in range(self.type.index.size)], self.type.element)

    def _position(self, index: object) -> Node:
        """An index as a node; an error where it is outside in every state."""
        node = self.type.index.lift(index).nodes[0]
        if node.high < 0 or node.low >= self.type.index.size:
            raise fail(f"{_interval(node)} is no index of {self.type}: it has 0..{self.type.index.size - 1}")
        return node

    def at(self, position: int) -> Any:
        """The element at a position known while tracing."""
        _known_position(position, self.type.index.size, self.type)
        width = self.type.element.leaf_count
        return self.type.element.wrap(self.nodes[position * width : (position + 1) * width])

    def set(self, index: object, value: object) -> ArrayValue:
        """A copy with another element at an index; an index outside the array changes nothing."""
        at, new = self._position(index), self.type.element.lift(value)
        nodes: list[Node] = []
        for i in range(self.type.index.size):
            hit = graph.eq(at, graph.const(i, INT))
            nodes += (graph.select(hit, b, a) for a, b in zip(self.at(i).nodes, new.nodes, strict=True))
        return ArrayValue(self.type, mutation.changed("set", tuple(nodes), self.nodes))


class SeqValue(Value):
    """A sequence of bounded length. Elements past its end are zero, so equal sequences have equal nodes."""

    __slots__ = ()
    type: Seq

    @property
    def length(self) -> Number:
        """The number of elements."""
        return Number(None, (self.nodes[0],))

    @property
    def is_empty(self) -> Truth:
        """Whether there is no element."""
        return self.length == 0

    def at(self, position: int) -> Any:
        """The element at a position known while tracing; zero past the end."""
        _known_position(position, self.type.maximum, self.type)
        width = self.type.element.leaf_count
        return self.type.element.wrap(self.nodes[1 + position * width : 1 + (position + 1) * width])

    def __getitem__(self, index: object) -> Any:
        """The element at a position; the element type's zero before the start and past the end."""
        if isinstance(index, slice):
            raise fail("a sequence has no slices: write .truncate(n), .tail, .drop(i) or .filter(condition)")
        node = lift_like(self.length, index).nodes[0]
        if node.high < 0:
            raise fail(
                f"no element has the position {_interval(node)}: write .last, or q[size(q) - 2] and the like"
            )
        return choose(node, [self.at(i) for i in range(self.type.maximum)], self.type.element)

    @property
    def last(self) -> Any:
        """The last element; zero where there is none."""
        return self[self.length - 1]

    @property
    def head(self) -> Any:
        """The first element; zero where there is none."""
        return self[0]

    @property
    def tail(self) -> SeqValue:
        """A copy without the first element; of an empty one the length leaves its type, which a write reports."""
        zero = self.type.element.zero()
        later = [self.at(i) for i in range(1, self.type.maximum)] + [zero]
        return self._changed("tail", self._with_length(self.length - 1, lambda i, old: later[i]))

    def pop(self) -> tuple[Any, SeqValue]:
        """The head and the tail."""
        return self.head, self.tail

    def filter(self, condition: Callable[[Any], Truth | bool]) -> SeqValue:
        """A copy with those elements for which the condition holds, in their order."""
        result = self.type.lift([])
        for i in range(self.type.maximum):
            element = self.at(i)
            result = where((self.length > i) & condition(element), result.append(element), result)
        return self._changed("filter", result)

    def drop(self, position: Number | int) -> SeqValue:
        """A copy without the element at a position; where there is none, nothing is left out."""
        found = (position >= 0) & (self.length > position)
        items = [self.at(i) for i in range(self.type.maximum)] + [self.type.element.zero()]
        dropped = self._with_length(
            self.length - total([as_bool(found)]),
            lambda i, old: where(found & (position <= i), items[i + 1], old),
        )
        return self._changed("drop", dropped)

    def __add__(self, other: object) -> SeqValue:
        """One sequence after the other; over the maximum the length leaves its type, which a write reports."""
        result, second = self, self.type.lift(other)
        for i in range(self.type.maximum):
            result = where(second.length > i, result.append(second.at(i)), result)
        return result

    def __radd__(self, other: object) -> SeqValue:
        """One sequence after the other."""
        return self.type.lift(other) + self

    def append(self, value: object) -> SeqValue:
        """A copy with one more element; over the maximum the length leaves its type, which a write reports."""
        longer = self._with_length(
            self.length + 1,
            lambda i, old: where(self.length == i, self.type.element.lift(value), old),
        )
        return self._changed("append", longer)

    def truncate(self, length: Number | int) -> SeqValue:
        """A copy that keeps the first ``length`` elements (all, where there are fewer)."""
        length = least(self.length, length)
        zero = self.type.element.zero()
        return self._changed(
            "truncate", self._with_length(length, lambda i, old: where(length > i, old, zero))
        )

    def _changed(self, word: str, after: SeqValue) -> SeqValue:
        """What a method makes of this; of a mutant nothing."""
        return SeqValue(self.type, mutation.changed(word, after.nodes, self.nodes, depth=3))

    def _with_length(self, length: Number, element: Any) -> SeqValue:
        nodes = [length.nodes[0]]
        for i in range(self.type.maximum):
            nodes += element(i, self.at(i)).nodes
        return SeqValue(self.type, tuple(nodes))

    def has(self, value: object) -> Truth:
        """Whether an element equals this value."""
        item = self.type.element.lift(value)
        return any_of((self.length > i) & (self.at(i) == item) for i in range(self.type.maximum))


def _interval(node: Node) -> str:
    return str(node.low) if node.low == node.high else f"{node.low}..{node.high}"


def _known_position(position: int, count: int, type: Type) -> None:
    if not 0 <= position < count:
        raise fail(f"{position} is no position of {type}: it has 0..{count - 1}")


def members(index: Index | Enum, condition: Any, within: Set) -> SetValue:
    """The set of those indices for which ``condition(i)`` holds."""
    nodes = graph.const(0, BITS)
    empty = nodes
    for i in index:
        bit = graph.singleton(i.nodes[0], index.size)
        nodes = graph.union(nodes, graph.select(as_bool(condition(i)).node, bit, empty))
    return SetValue(within, (nodes,))
