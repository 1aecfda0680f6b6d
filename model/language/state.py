"""The state of a step: reads use the state before it, and writes set the state after it.

A step may write each scalar once; all other scalars keep their values. If two statements write the same scalar only
in some states, a step from such a state is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from highwater.model.language import any_size, graph, mutation
from highwater.model.language.containers import no_element
from highwater.model.language.errors import LanguageError, NoSuchAttribute, fail, place
from highwater.model.language.graph import INT, Node
from highwater.model.language.tracing import Check, Write, WriteTarget, current
from highwater.model.language.types import (
    COMPARISONS,
    OPERATORS,
    UNARY,
    Array,
    Hits,
    Number,
    Seq,
    Struct,
    StructValue,
    Truth,
    Type,
    Value,
    lift_like,
)


class State:
    """The state before a step, with its fields as attributes. Writes to ``next`` define the state after the step."""

    def __init__(self, type: Struct, nodes: list[Node]) -> None:
        value = type.wrap(nodes)
        self.__dict__.update(_value=value, next=Next(value, type, 0))

    _value: StructValue
    next: Next

    def __getattr__(self, name: str) -> Any:
        """The value of a field in the state before the step."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self._value.__getattr__(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Raises LanguageError: only the fields of ``next`` can be written."""
        if name == "next":
            raise fail("the state after a step is written field by field: write s.next.field = …")
        raise fail(f"the state before a step never changes: write s.next.{name} = …")

    def __eq__(self, other: object) -> Truth:  # type: ignore[override]
        """The condition that two states are equal, field by field."""
        return self._value == (other._value if isinstance(other, State) else other)

    def __ne__(self, other: object) -> Truth:  # type: ignore[override]
        return ~(self == other)


def _refuse_the_rest_of_state() -> None:
    """Make all other operations on a state, such as ``bool`` and ``len``, raise an error with the protocol's line."""

    def refuse(self: State, *_: object) -> Any:
        raise fail("a state is neither true nor false, has no text and no elements: read its fields, s.field")

    for name in ("bool", "hash", "iter", "contains", "len", "getitem", "setitem", "str", "format"):
        setattr(State, f"__{name}__", refuse)


_refuse_the_rest_of_state()


class Next:
    """A place in the state after a step: a field or an element, for assignments such as ``s.next.logs[b] = …``."""

    _old: Value
    _type: Type
    _start: int
    _hits: Hits
    _at: tuple[Node, ...]
    _key: Node | None = None
    """The index on the path of an array over an index of any size, whose scalars are functions; None: no such array."""

    def __init__(
        self,
        old: Value,
        type: Type,
        start: int,
        hits: Hits = (),
        at: tuple[Node, ...] = (),
    ) -> None:
        # `start` is the first scalar of the place, and `at` has all indices on its path. If an index is symbolic,
        # `hits` has a pair for each possible element: offset to add, condition that the element is selected.
        self.__dict__.update(_old=old, _type=type, _start=start, _hits=hits, _at=at)

    def __getattr__(self, name: str) -> Any:
        """The place of the struct's field ``name``, for a write."""
        if name.startswith("__"):
            raise AttributeError(name)
        if not isinstance(self._type, Struct):
            wrong = f"{self._type} has no field {name!r} to write: write s.next.… = s.….{name}(…); {READ}"
            raise NoSuchAttribute(wrong, place())
        if name in self._type.absent:
            return AbsentField(self._type.absent[name])
        scalars, field = self._type.field(name)
        return self._within(field, self._start + scalars.start, self._hits, self._at)

    def __setattr__(self, name: str, value: object) -> None:
        self.__getattr__(name)._write(value)

    def __getitem__(self, index: object) -> Next:
        """The place of an element of the array or sequence, for a write. The length of a sequence does not change.

        A step with an index outside the array or sequence is an error. Raises LanguageError if a constant index is
        outside the array, or not below the sequence's maximum.
        """
        if isinstance(self._type, Array):
            count, first = any_size.plain_size(self._type.index.high) + 1, self._start
            node = self._type.index.lift(index).nodes[0]
        elif isinstance(self._type, Seq):
            count, first = self._type.maximum, self._start + 1
            node = lift_like(_ZERO, index).nodes[0]
        else:
            raise fail(f"{self._type} has no elements to write; {READ}")
        width = self._type.element.leaf_count
        if isinstance(self._type, Array) and self._type.is_any_size:
            if self._key is not None:
                raise fail("an array of arrays cannot be written if both have an index of any size")
            inner = self._within(self._type.element, first, self._hits, (*self._at, node))
            inner.__dict__["_key"] = node
            return inner
        if isinstance(self._type, Seq):
            self._check_end(node)
        if node.low < 0 or (node.high >= count and isinstance(self._type, Array)):
            outside = graph.not_(graph.within(node, 0, count - 1))
            self._refuse(outside, first, f"index outside 0..{count - 1} of {self._type}")
        if node.is_const:
            if not 0 <= node.value < count:
                if current("s.next").when is graph.FALSE:
                    return AbsentField(self._type.element)
                raise no_element(node, f"is no index of {self._type}: it has 0..{count - 1}")
            start = first + node.value * width
            return self._within(self._type.element, start, self._hits, (*self._at, node))
        hits = self._hits or ((0, graph.TRUE),)
        spread = tuple(
            (offset + i * width, graph.and_(condition, graph.eq(node, graph.const(i, INT))))
            for offset, condition in hits
            for i in range(count)
        )
        return self._within(self._type.element, first, spread, (*self._at, node))

    def _within(self, type: Type, start: int, hits: Hits, at: tuple[Node, ...]) -> Next:
        place: Next = (type.next_class or Next)(self._old, type, start, hits, at)
        place.__dict__["_key"] = self._key
        return place

    def _refuse(self, node: Node, leaf: int, message: str) -> None:
        """Add a check: a step that reaches this statement while the condition ``node`` holds is an error."""
        trace = current("s.next")
        trace.checks.append(Check(leaf, graph.and_(trace.when, node), None, message, place()))

    def _check_end(self, index: Node) -> None:
        """Add a check: a write past the last element of a sequence is an error, because elements there must be zero."""
        past = [
            graph.and_(condition, graph.le(self._old.nodes[self._start + offset], index))
            for offset, condition in self._hits or ((0, graph.TRUE),)
        ]
        message = f"index at or past the end of a {self._type}: write s.next.… = ….append(…)"
        self._refuse(graph.any_(past), self._start, message)

    def __setitem__(self, index: object, value: object) -> None:
        self.__getitem__(index)._write(value)

    def __repr__(self) -> str:
        return "<s.next.…, which is only written>"

    def _write(self, value: object) -> None:
        if isinstance(value, Next):
            raise fail(READ)
        new = self._type.lift(value).nodes
        if mutation.active is None:
            self._scalars(lambda i, before: new[i], adds=False)
        else:
            frame = sys._getframe(2)
            self._scalars(lambda i, before: mutation.written(new[i], before, frame), adds=False)

    def _scalars(self, new: Callable[[int, Node], Node], *, adds: bool) -> None:
        """Write the scalars of this place.

        ``new`` maps (number of the scalar in this place, current value) to the next value. The current value is the
        value before the step or, with ``adds``, after the step's earlier additions. Raises LanguageError if a step
        always writes a scalar twice. If it does so only in some states, a step from such a state is an error.
        """
        trace, where = current("s.next"), place()
        target = WriteTarget(self._at, trace.when, where, adds)
        met: dict[int, WriteTarget] = {}
        for offset, condition in self._hits or ((0, graph.TRUE),):
            condition = graph.and_(trace.when, condition)
            for i in range(self._type.leaf_count if condition is not graph.FALSE else 0):
                leaf = self._start + offset + i
                earlier = trace.writes.get(leaf, Write(self._old.nodes[leaf], where))
                met |= {id(other): other for other in earlier.by if not (adds and other.adds)}
                old = earlier.node if self._key is None else any_size.get(earlier.node, self._key)
                node = graph.select(condition, new(i, old), old)
                if self._key is not None:
                    node = any_size.put(earlier.node, self._key, node)
                trace.writes[leaf] = Write(node, where, (*earlier.by, target))
        for other in met.values():
            self._refuse_twice(target, other)

    def _refuse_twice(self, target: WriteTarget, earlier: WriteTarget) -> None:
        twice = target.meets(earlier)
        message = f"this step writes a field a second time; the first time at {earlier.place}"
        if twice in (target.when, earlier.when) and twice is not graph.FALSE:
            raise LanguageError(message, target.place)
        if twice is not graph.FALSE:
            current("s.next").checks.append(Check(self._start, twice, None, message, target.place))


class AbsentField(Next):
    """A place in a field that ``Only`` leaves out: a write checks the value's type and has no effect."""

    def __init__(self, type: Type) -> None:
        super().__init__(type.zero(), type, 0)

    def __getattr__(self, name: str) -> Any:
        """The place of the struct's field ``name``. A write there has no effect."""
        return AbsentField(super().__getattr__(name)._type)

    def __getitem__(self, index: object) -> Next:
        """The place of an element of the array or sequence. A write there has no effect."""
        if not isinstance(self._type, (Array, Seq)):
            raise fail(f"{self._type} has no elements")
        return AbsentField(self._type.element)

    def _write(self, value: object) -> None:
        self._type.lift(value)


READ = "s.next is only written: read the state before the step, or keep what you write in a local variable"
_ZERO = Number(None, (graph.const(0, INT),))


def _refuse_reading() -> None:
    """Make every read of a place in ``s.next`` raise an error with the protocol's line."""

    def refuse(self: Next, *_: object) -> Any:
        raise fail(READ)

    def in_place(symbol: str) -> Any:
        def refuse(self: Next, other: object) -> Any:
            raise fail(f"{symbol}= reads what it writes, and {READ}: write s.next.… = s.… {symbol} …")

        return refuse

    for name, symbol in OPERATORS.items():
        setattr(Next, f"__{name}__", refuse)
        setattr(Next, f"__r{name}__", refuse)
        setattr(Next, f"__i{name}__", in_place(symbol))
    operators = "eq ne hash bool iter contains len call int index float str format delattr delitem"
    for name in (*COMPARISONS, *UNARY, *operators.split()):
        setattr(Next, f"__{name}__", refuse)


_refuse_reading()
