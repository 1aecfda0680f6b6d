"""Tracing: run a protocol's function once on symbolic values and keep guards, writes and bounds.

While a function is traced, ``require`` and ``implies`` add to the trace that is under way, and ``s.next``
takes what is written. Each scalar may be written once; what is not written stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from highwater.model.language import graph, mutation, partial, values
from highwater.model.language.errors import LanguageError, NoSuchAttribute, fail, place
from highwater.model.language.graph import INT, Node
from highwater.model.language.types import Array, Seq, Struct, Type


@dataclass(frozen=True)
class Guard:
    """A named condition, and the protocol's line that states it."""

    name: str
    node: Node
    place: str | None = None


@dataclass(frozen=True)
class Write:
    """A scalar's next value, and the protocol's line that wrote it; ``by`` are all statements that did, in order."""

    node: Node
    place: str | None
    by: tuple[WriteTarget, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class WriteTarget:
    """What a statement writes: the positions on the way into the state, the ``when`` around it, and its line."""

    positions: tuple[Node, ...]
    when: Node
    place: str | None = None
    adds: bool = False
    """Whether it adds to what is there (a message that is sent), so that several can be of one step."""

    def meets(self, other: WriteTarget) -> Node:
        """Whether this and another statement write the same scalar, given that there is one that both can write."""
        same = [graph.eq(a, b) for a, b in zip(self.positions, other.positions, strict=False)]
        both = [self.when, other.when, *same]
        return graph.FALSE if graph.contradict(both) else graph.all_(both)


@dataclass(frozen=True)
class Check:
    """A condition under which a step leaves a type: cut at ``bound``, or an error where that is None."""

    leaf: int
    node: Node
    bound: str | None
    message: str
    place: str | None


@dataclass
class Trace:
    """What running one function left behind."""

    guards: list[Guard] = field(default_factory=list)
    writes: dict[int, Write] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    premises: list[Node] = field(default_factory=list)
    on: Callable[[str], bool] | None = None
    """Whether a rule of the protocol is switched on; None where what is traced belongs to no protocol."""
    ends_early: bool = False
    """Whether a guard that cannot hold ends the run of the function: what follows it has no meaning."""
    when: Node = graph.TRUE
    """The condition of the ``when`` blocks around what is being stated."""
    branches: list[Node | None] = field(default_factory=lambda: [None])
    """For each block that is open, where its last chain of ``when … otherwise`` did something; None: there is none."""
    enabled: Callable[[str, dict[str, Any]], values.Truth] | None = None
    """Whether a step of an action can be taken; None where that has no answer yet."""
    script: tuple[int, ...] = ()
    """Which alternative each ``one_of`` takes; the first of those that are not told."""
    chosen: list[tuple[str, Any, int, int]] = field(default_factory=list)
    """What each ``one_of`` took: its name, the plain value, its number, of how many."""


class NeverTaken(BaseException):
    """A guard is false whatever the state: the rest of the action is not run (nothing but a trace catches this)."""


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextmanager
def tracing(
    on: Callable[[str], bool] | None = None,
    *,
    ends_early: bool = False,
    script: tuple[int, ...] = (),
    enabled: Callable[[str, dict[str, Any]], values.Truth] | None = None,
) -> Iterator[Trace]:
    """Collect what the functions called inside leave behind; NeverTaken ends them early where that is asked for.

    ``on`` is the protocol's, for ``under``; ``script`` says which alternatives are taken (``one_of``), ``enabled``
    answers what the function of this name asks.
    """
    trace = Trace(on=on, ends_early=ends_early, script=script, enabled=enabled)
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


def current(word: str) -> Trace:
    """The trace that is under way; LanguageError, which names this word, where there is none."""
    trace = _current.get()
    if trace is None:
        raise fail(f"{word} has a meaning only while a protocol is traced")
    return trace


def guards_so_far() -> list[Guard]:
    """The guards that the function being traced has stated until now."""
    return list(current("guards_so_far()").guards)


def require(name: str, condition: values.Truth | bool, *, rule: str | None = None) -> None:
    """A guard of the action that is being stated: it can be taken only where the condition holds.

    The name is what a refusal is explained by. Inside ``with when(…)`` it is asked only there. With ``rule`` the guard
    exists only where that rule is switched on; LanguageError where the protocol has no such rule. Where the condition
    is known to be false, the action ends here for these parameters: it can never be taken, and what follows is not run.
    """
    trace, node = current("require()"), values.as_bool(condition).node
    if rule is not None and not _is_on(rule, "require(…, rule=…)"):
        return
    if mutation.active is not None:
        node = mutation.condition("guard", name, node, sys._getframe(1))
    node = graph.or_(graph.not_(trace.when), node)
    trace.guards.append(Guard(name, node, place()))
    if trace.ends_early and node is graph.FALSE:
        raise NeverTaken(name)


def enabled(action: str, /, **parameters: Any) -> values.Truth:
    """Whether a step of this action can be taken: for some choice of the parameters that are not given.

    It is for properties. LanguageError in an action, and for an action or a parameter that there is not.
    """
    asked = current("enabled()").enabled
    if asked is None:
        raise fail(
            "enabled() asks about actions, in a property: an action's guards say it by a function of their own"
        )
    return asked(action, parameters)


def under(rule: str, condition: values.Truth | bool) -> values.Truth:
    """The condition where this rule of the protocol is switched on; where it is off, nothing is asked: true.

    LanguageError where the protocol has no such rule.
    """
    condition = values.as_bool(condition)
    return condition if _is_on(rule, "under()") else values.as_bool(True)


def _is_on(rule: str, word: str) -> bool:
    on = current(word).on
    if on is None:
        raise fail(
            f"{word} asks the protocol for its rule {rule!r}; what is traced here belongs to no protocol"
        )
    try:
        return on(rule)
    except LanguageError as wrong:
        raise fail(str(wrong)) from None


def implies(premise: values.Truth | bool, conclusion: values.Truth | bool) -> values.Truth:
    """Whether the conclusion holds or the premise does not.

    Inside an invariant the premise is remembered: a report says in how many states one of its premises held,
    so that an invariant that never had anything to say is noticed.
    """
    premise = values.as_bool(premise)
    trace = _current.get()
    if trace is not None:
        trace.premises.append(partial.where_defined(premise.node))
    return ~premise | conclusion


def returned_condition(result: object, what: str, place: str | None) -> values.Truth:
    """What a property returned, as a condition that is false where it has no meaning (``partial``).

    LanguageError at its place where it is no condition.
    """
    if not isinstance(result, (values.Truth, bool)):
        raise LanguageError(f"{what} returned {result!r}; it returns a condition", place)
    return values.Truth(None, (partial.where_defined(values.as_bool(result).node),))


class State:
    """The state before a step: fields are attributes; ``next`` takes the fields after the step."""

    def __init__(self, type: Struct, nodes: list[Node]) -> None:
        value = type.wrap(nodes)
        self.__dict__.update(_value=value, next=Next(value, type, 0))

    _value: values.StructValue
    next: Next

    def __getattr__(self, name: str) -> Any:
        """A field of the state before the step."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self._value.__getattr__(name)

    def __setattr__(self, name: str, value: object) -> None:
        """Only the fields of ``next`` can be written."""
        if name == "next":
            raise fail("the state after a step is written field by field: write s.next.field = …")
        raise fail(f"the state before a step never changes: write s.next.{name} = …")

    def __eq__(self, other: object) -> values.Truth:  # type: ignore[override]
        """Whether two states are the same, field by field."""
        return self._value == (other._value if isinstance(other, State) else other)

    def __ne__(self, other: object) -> values.Truth:  # type: ignore[override]
        """Whether two states differ."""
        return ~(self == other)


def _refuse_the_rest_of_state() -> None:
    """What Python may ask of a state besides its fields: errors with the protocol's line."""

    def refuse(self: State, *_: object) -> Any:
        raise fail("a state is neither true nor false, has no text and no elements: read its fields, s.field")

    for name in ("bool", "hash", "iter", "contains", "len", "getitem", "setitem", "str", "format"):
        setattr(State, f"__{name}__", refuse)


_refuse_the_rest_of_state()


class Next:
    """A place in the state after a step, to be assigned to: ``s.next.logs[leader] = …``."""

    _old: values.Value
    _type: Type
    _start: int
    _hits: tuple[tuple[int, Node], ...]
    _at: tuple[Node, ...]

    def __init__(
        self,
        old: values.Value,
        type: Type,
        start: int,
        hits: tuple[tuple[int, Node], ...] = (),
        at: tuple[Node, ...] = (),
    ) -> None:
        # `start` is the first scalar of the place. A symbolic index stands in `hits` as pairs
        # (offset to add, condition under which it is this element); `at` has all positions on the way.
        self.__dict__.update(_old=old, _type=type, _start=start, _hits=hits, _at=at)

    def __getattr__(self, name: str) -> Next:
        """A field of a struct."""
        if name.startswith("__"):
            raise AttributeError(name)
        if not isinstance(self._type, Struct):
            raise NoSuchAttribute(f"{self._type} has no field {name!r} to write; {READ}", place())
        if name in self._type.absent:
            return Nowhere(self._type.absent[name])
        start, field_type = self._type.field(name)
        return field_type.place(self._old, self._start + start, self._hits, self._at)

    def __setattr__(self, name: str, value: object) -> None:
        """Write a field of a struct."""
        self.__getattr__(name)._write(value)

    def __getitem__(self, index: object) -> Next:
        """An element of an array, or of a sequence (its length stays)."""
        if isinstance(self._type, Array):
            count, first = self._type.index.size, self._start
            node = self._type.index.lift(index).nodes[0]
        elif isinstance(self._type, Seq):
            count, first = self._type.maximum, self._start + 1
            node = values.lift_like(_ZERO, index).nodes[0]
        else:
            raise fail(f"{self._type} has no elements to write; {READ}")
        width = self._type.element.leaf_count
        if isinstance(self._type, Seq):
            self._check_end(node)
        if node.low < 0 or (node.high >= count and isinstance(self._type, Array)):
            outside = graph.not_(graph.within(node, 0, count - 1))
            self._refuse(outside, first, f"index outside 0..{count - 1} of {self._type}")
        if node.is_const:
            if not 0 <= node.value < count:
                raise fail(f"{node.value} is no index of {self._type}: it has 0..{count - 1}")
            start = first + node.value * width
            return self._type.element.place(self._old, start, self._hits, (*self._at, node))
        hits = self._hits or ((0, graph.TRUE),)
        spread = tuple(
            (offset + i * width, graph.and_(condition, graph.eq(node, graph.const(i, INT))))
            for offset, condition in hits
            for i in range(count)
        )
        return self._type.element.place(self._old, first, spread, (*self._at, node))

    def _refuse(self, node: Node, leaf: int, message: str) -> None:
        """The step is an error where this holds, and what is being stated is reached."""
        trace = current("s.next")
        trace.checks.append(Check(leaf, graph.and_(trace.when, node), None, message, place()))

    def _check_end(self, index: Node) -> None:
        """A write at or past the end of a sequence is an error: its elements there are zero, and stay so."""
        past = [
            graph.and_(condition, graph.le(self._old.nodes[self._start + offset], index))
            for offset, condition in self._hits or ((0, graph.TRUE),)
        ]
        message = f"index at or past the end of a {self._type}: write s.next.… = ….append(…)"
        self._refuse(graph.any_(past), self._start, message)

    def __setitem__(self, index: object, value: object) -> None:
        """Write an element."""
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
        """Write the scalars of this place: ``new`` gives one by its number within it and what stands there so far.

        So far is before the step; or, for what ``adds`` to what is there, after what the step has added already.
        LanguageError where a scalar is surely written twice. Where that depends on the state, the step is an error
        in those states.
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
                node = graph.select(condition, new(i, earlier.node), earlier.node)
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


class Nowhere(Next):
    """A place within a field that is not there (``Only``): what is written must be of its type, and is dropped."""

    def __init__(self, type: Type) -> None:
        super().__init__(type.zero(), type, 0)

    def __getattr__(self, name: str) -> Next:
        """A field of a struct."""
        return Nowhere(super().__getattr__(name)._type)

    def __getitem__(self, index: object) -> Next:
        """An element of an array, or of a sequence."""
        if not isinstance(self._type, (Array, Seq)):
            raise fail(f"{self._type} has no elements")
        return Nowhere(self._type.element)

    def _write(self, value: object) -> None:
        self._type.lift(value)


READ = "s.next is only written: read the state before the step, or keep what you write in a local variable"
_ZERO = values.Number(None, (graph.const(0, INT),))


def _refuse_reading() -> None:
    """Whatever Python may ask of a place to be written is an error with the protocol's line, and never an answer."""

    def refuse(self: Next, *_: object) -> Any:
        raise fail(READ)

    def in_place(symbol: str) -> Any:
        def refuse(self: Next, other: object) -> Any:
            raise fail(f"{symbol}= reads what it writes, and {READ}: write s.next.… = s.… {symbol} …")

        return refuse

    for name, symbol in values.OPERATORS.items():
        setattr(Next, f"__{name}__", refuse)
        setattr(Next, f"__r{name}__", refuse)
        setattr(Next, f"__i{name}__", in_place(symbol))
    asked = "eq ne hash bool iter contains len call int index float str format delattr delitem"
    for name in (*values.COMPARISONS, *values.UNARY, *asked.split()):
        setattr(Next, f"__{name}__", refuse)


_refuse_reading()
