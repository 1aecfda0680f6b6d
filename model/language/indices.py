"""Words about the values of an index: which one, which of them, how many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from highwater.model.language import graph, mutation
from highwater.model.language.combining import where
from highwater.model.language.composite_types import Option
from highwater.model.language.composites import OptionValue, SeqValue, SetValue
from highwater.model.language.errors import fail
from highwater.model.language.graph import INT
from highwater.model.language.scalar_types import Enum, Index
from highwater.model.language.scalars import Number, Truth, as_bool


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
