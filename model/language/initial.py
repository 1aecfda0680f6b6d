"""The initial states of a protocol: a list of states whose fields can be free, and a condition on the states.

A free field can have any value, or any of the values in ``free(…)``; a missing field is zero. The native engines
enumerate free fields themselves; ``Start.states`` lists the initial states for the other engines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeGuard

from highwater.model.language.errors import LanguageError, fail, place_of
from highwater.model.language.graph import TRUE, Node, compile_nodes
from highwater.model.language.messages import MessageKind, Messages
from highwater.model.language.protocol import Protocol
from highwater.model.language.state import State
from highwater.model.language.tracing import looking, returned_condition
from highwater.model.language.types import Array, Option, Seq, Set, Struct, Type

Scalars = tuple[int, ...]
"""A concrete state: one int for each leaf, in the order of ``Model.leaves``."""

MOST = 1 << 32
"""The maximum number of candidates for initial states."""

LISTED = 1 << 22
"""The maximum number of candidates that ``Start.states`` lists."""

_VALUES = 1 << 16
"""The maximum number of values of a free Set, a free Seq, and the content of a free Option."""


class Free:
    """Marks a field of an initial state that can have any value of its type.

    ``free(a, b)`` marks a field that can have any of these values.
    """

    def __init__(self, values: tuple[Any, ...] | None = None) -> None:
        self.values = values

    def __call__(self, *values: Any) -> Free:
        """The marker of a field that can have any of these values."""
        if not values:
            raise fail("free(…) names the values to choose from; `free` alone is any value")
        return Free(values)

    def __repr__(self) -> str:
        return "free" if self.values is None else f"free({', '.join(map(repr, self.values))})"


free = Free()
"""Marks a field of an initial state that can have any value of its type."""


@dataclass(frozen=True)
class FreePart:
    """Adjacent free scalars of an initial state, from position ``start`` on, and their possible values."""

    start: int
    choices: tuple[Scalars, ...]


@dataclass(frozen=True)
class InitialFamily:
    """Initial states that differ only in free parts: one state for each combination of the parts' values."""

    scalars: Scalars
    parts: tuple[FreePart, ...]

    @property
    def count(self) -> int:
        """The number of states in the family."""
        return prod(len(part.choices) for part in self.parts)

    def nearest(self, state: Scalars) -> Scalars:
        """The state of this family whose free parts have the same values as in ``state``.

        A part whose value in ``state`` is not possible has its first possible value. The result equals ``state`` if and
        only if the family contains ``state``.
        """
        found = list(self.scalars)
        for part in self.parts:
            place = slice(part.start, part.start + len(part.choices[0]))
            found[place] = state[place] if state[place] in part.choices else part.choices[0]
        return tuple(found)

    def states(self) -> Iterator[Scalars]:
        """All states of the family; the last part changes fastest."""
        state = list(self.scalars)
        for chosen in itertools.product(*(part.choices for part in self.parts)):
            for part, values in zip(self.parts, chosen, strict=True):
                state[part.start : part.start + len(values)] = values
            yield tuple(state)


@dataclass(frozen=True)
class Start:
    """The initial states: all states of the families that satisfy the condition."""

    families: tuple[InitialFamily, ...]
    condition: Node = TRUE

    @property
    def candidates(self) -> int:
        """The number of states in all families, before the condition selects among them."""
        return sum(family.count for family in self.families)

    def has(self, state: Scalars) -> bool:
        """True if the state is an initial state."""
        return any(map(state.__eq__, (f.nearest(state) for f in self.families))) and bool(
            compile_nodes([self.condition])(state)[0]
        )

    def states(self) -> list[Scalars]:
        """All initial states, each once. Raises LanguageError if there are more than ``LISTED`` candidates."""
        if self.candidates > LISTED:
            raise LanguageError(
                f"{self.candidates:,} candidates for initial states are too many for this engine, which makes a list "
                f"of up to {LISTED:,}: the native engine does not"
            )
        return list(dict.fromkeys(self._each()))

    def first(self) -> Scalars | None:
        """An initial state; None if there is none."""
        return next(self._each(), None)

    def _each(self) -> Iterator[Scalars]:
        """The initial states, family by family. A state of several families is repeated."""
        every = itertools.chain.from_iterable(family.states() for family in self.families)
        if self.condition is TRUE:
            return every
        holds = compile_nodes([self.condition])
        return (state for state in every if holds(state)[0])


def start_of(protocol: Protocol, inputs: list[Node]) -> Start:
    """The initial states that a protocol's ``initial`` and ``initially`` define.

    ``inputs`` has one node for each scalar of the state. Raises LanguageError, with the place, if a state or the
    condition is invalid, or if there is no candidate or more than ``MOST``.
    """
    given: object = protocol.initial()
    where = place_of(protocol.initial)
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        what = "one state" if isinstance(given, Mapping) else repr(given)
        raise LanguageError(f"initial() gives a list of states, not {what}", where)
    try:
        families = tuple(dict.fromkeys(family_of(protocol.state, plain) for plain in given))
    except LanguageError as wrong:
        raise LanguageError(f"an initial state is wrong: {wrong.message}", where) from None
    if not families:
        raise LanguageError(f"{protocol.name} has no initial state", where)
    start = Start(families, _condition(protocol, inputs))
    if start.candidates > MOST:
        raise LanguageError(
            f"initial() leaves {start.candidates:,} candidates, and {MOST:,} are the most: give more fields",
            where,
        )
    return start


def _condition(protocol: Protocol, inputs: list[Node]) -> Node:
    function = protocol.initially
    where = place_of(function)
    with looking("initially()", where, protocol.on):
        result = function(State(protocol.state, inputs))
    return returned_condition(result, "initially()", where).node


def family_of(type: Type, plain: object) -> InitialFamily:
    """The values of a type that a plain value stands for; its parts can be free, and missing fields are zero."""
    scalars: list[int] = []
    parts: list[FreePart] = []
    for fixed, choices in _parts(type, plain):
        if choices:
            parts.append(FreePart(len(scalars), choices))
        scalars += fixed
    return InitialFamily(tuple(scalars), tuple(parts))


Part = tuple[Scalars, tuple[Scalars, ...]]
"""Adjacent scalars of a value, and the values that they can have: none if the scalars are not free, but given."""


def _parts(type: Type, plain: object) -> Iterator[Part]:
    """The scalars of a plain value, in order."""
    if isinstance(plain, Free):
        yield from _free(type, plain)
    elif isinstance(type, Struct) and not isinstance(type, Messages) and _has_names(plain):
        for name in plain:
            if name not in type.absent:
                type.field(name)
        for name, inner in type.fields.items():
            try:
                yield from _parts(inner, plain[name]) if name in plain else [(_zero(inner), ())]
            except LanguageError as wrong:
                raise LanguageError(f"{type.name}.{name}: {wrong.message}", wrong.place) from None
    elif (
        isinstance(type, Array)
        and not isinstance(type, MessageKind)
        and isinstance(plain, (list, tuple, Mapping))
    ):
        for item in type.items(plain):
            yield from _parts(type.element, item)
    elif isinstance(type, Option) and type.leaf_count > 1 and isinstance(plain, Mapping):
        yield (1,), ()
        yield from _parts(type.content_type, plain)
    else:
        yield type.encode(plain), ()


def _has_names(plain: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(plain, Mapping) and all(isinstance(name, str) for name in plain)


def _zero(type: Type) -> Scalars:
    return tuple(n.value for n in type.zero().nodes)


def _free(type: Type, plain: Free) -> Iterator[Part]:
    if plain.values is not None:
        yield _zero(type), tuple(dict.fromkeys(_alone(type, value) for value in plain.values))
    elif isinstance(type, Messages):
        raise fail(
            "which messages are under way at first is given one by one, or by free(…) with a choice of them"
        )
    elif isinstance(type, Struct):
        for inner in type.fields.values():
            yield from _free(inner, plain)
    elif isinstance(type, Array):
        for _ in range(type.index.size):
            yield from _free(type.element, plain)
    else:
        yield _zero(type), _every(type)


def _alone(type: Type, value: object) -> Scalars:
    family = family_of(type, value)
    if family.parts:
        raise fail("free(…) chooses from values in which nothing is free")
    return family.scalars


def _every(type: Type) -> tuple[Scalars, ...]:
    """The scalars of every value of a Seq, an Option, or a type of one scalar."""
    if isinstance(type, Seq):
        zero, inner, lengths = _zero(type.element), _all(type.element), range(type.maximum + 1)
        _refuse_many(type, sum(len(inner) ** length for length in lengths))
        return tuple(
            (length, *itertools.chain.from_iterable(items), *zero * (type.maximum - length))
            for length in lengths
            for items in itertools.product(inner, repeat=length)
        )
    if isinstance(type, Option) and type.leaf_count > 1:
        return _zero(type), *((1, *values) for values in _all(type.content_type))
    (leaf,) = type.leaves("")
    if isinstance(type, Set):
        _refuse_many(type, leaf.high + 1)
    return tuple((value,) for value in range(leaf.low, leaf.high + 1))


def _all(type: Type) -> Sequence[Scalars]:
    family = family_of(type, free)
    _refuse_many(type, family.count)
    return list(family.states())


def _refuse_many(type: Type, count: int) -> None:
    if count > _VALUES:
        raise fail(f"{type} has {count:,} values, too many to start from: name some, free(…)")
