"""More words for sequences and options: search, and the way to and from a set.

A sequence has a bounded length, so each of these is a loop over positions that is known while tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from highwater.model.language import graph, mutation
from highwater.model.language.composite_types import Option, Seq, Set
from highwater.model.language.composites import OptionValue, SeqValue, SetValue
from highwater.model.language.errors import fail
from highwater.model.language.graph import INT
from highwater.model.language.scalar_types import Enum, Index
from highwater.model.language.scalars import Number, Truth, all_of, any_of, as_bool, where


def members_of(sequence: SeqValue, type: Set) -> SetValue:
    """The elements of a sequence of indices, as a set."""
    result = type.zero()
    for position in range(sequence.type.maximum):
        result = where(sequence.length > position, result.with_(sequence.at(position)), result)
    return result


def ascending(members: SetValue, type: Seq) -> SeqValue:
    """The members of a set as a sequence, least first; the sequence must have room for all."""
    result = type.zero()
    for index in members.type.index:
        result = where(members.has(index), result.append(index), result)
    return result


def first_of(sequence: SeqValue, condition: Callable[[Any], Truth]) -> OptionValue:
    """The first element for which the condition holds, if there is one."""
    option = Option(sequence.type.element)
    found: OptionValue = option.none()
    for position in reversed(range(sequence.type.maximum)):
        element = sequence.at(position)
        found = where((sequence.length > position) & condition(element), option.some(element), found)
    return found


def first_some(*options: OptionValue) -> OptionValue:
    """The first of these options that has a value; none where no one has."""
    found = options[-1]
    for option in reversed(options[:-1]):
        found = where(option.is_some, option, found)
    return found


def is_distinct(sequence: SeqValue) -> Truth:
    """Whether no element stands in a sequence twice."""
    positions = range(sequence.type.maximum)
    return all_of(
        (sequence.length <= later) | (sequence.at(earlier) != sequence.at(later))
        for later in positions
        for earlier in range(later)
    )


def any_element(sequence: SeqValue, condition: Callable[[Any], Truth]) -> Truth:
    """Whether the condition holds for at least one element."""
    return any_of(
        (sequence.length > position) & condition(sequence.at(position))
        for position in range(sequence.type.maximum)
    )


def every_element(sequence: SeqValue, condition: Callable[[Any], Truth]) -> Truth:
    """Whether the condition holds for every element."""
    return ~any_element(sequence, lambda element: ~condition(element))


# Words about the values of an index: which one, which of them, how many.


def size(value: SetValue | SeqValue) -> Number:
    """The number of members of a set, or of elements of a sequence."""
    if isinstance(value, SeqValue):
        return value.length
    if not isinstance(value, SetValue):
        raise fail(f"size() counts a Set or a Seq, not {value!r}")
    return Number(None, (graph.count(value.node),))


def first(index: Index | Enum, condition: Callable[[Any], Truth | bool]) -> OptionValue:
    """The first value of an index, or the first member, for which the condition holds, if there is one."""
    found = _least_by(index, index, lambda i: 0, condition)
    if mutation.active is None:
        return found
    others = {"first: last": lambda: _least_by(index, reversed(list(index)), lambda i: 0, condition).nodes}
    return type(found)(found.type, mutation.offered("operation", found.nodes, others))


def least_by(
    index: Index | Enum,
    key: Callable[[Any], Number | int],
    *,
    among: Callable[[Any], Truth | bool] | None = None,
) -> OptionValue:
    """The value of an index whose key is the least, the first of several such; of those ``among`` which it is sought.

    None where the condition holds for no value.
    """
    found = _least_by(index, index, key, among)
    if mutation.active is None:
        return found
    others = {"least by: greatest": lambda: _least_by(index, index, lambda i: 0 - key(i), among).nodes}
    if among is not None:
        others["least by: among dropped"] = lambda: _least_by(index, index, key, None).nodes
    return type(found)(found.type, mutation.offered("operation", found.nodes, others))


def _least_by(
    index: Index | Enum,
    order: Iterable[Any],
    key: Callable[[Any], Number | int],
    among: Callable[[Any], Truth | bool] | None,
) -> OptionValue:
    option = Option(index)
    found, least_key = option.none(), Number(None, (graph.const(0, INT),))
    for i in order:
        own = key(i)
        own = own if isinstance(own, Number) else Number(None, (graph.const(own, INT),))
        better = found.is_none | (own < least_key)
        if among is not None:
            better &= as_bool(among(i))
        found, least_key = (
            where(better, option.some(i), found),
            where(better, Number(None, own.nodes), least_key),
        )
    return found
