"""More words for sequences and options: search, and the way to and from a set.

A sequence has a bounded length, so each of these is a loop over positions that is known while tracing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from highwater.model.language.combining import all_of, any_of, where
from highwater.model.language.composite_types import Option, Seq, Set
from highwater.model.language.composites import OptionValue, SeqValue, SetValue
from highwater.model.language.scalars import Truth


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
