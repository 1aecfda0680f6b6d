"""Functions that choose one value of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from highwater.model.language import graph, mutation
from highwater.model.language.graph import INT
from highwater.model.language.records import Option, OptionValue
from highwater.model.language.scalar_types import Enum, Index, is_index
from highwater.model.language.scalars import Number, Truth, as_bool, least, where


def first(index: Index | Enum, condition: Callable[[Any], Truth | bool]) -> OptionValue:
    """The first index value or member for which the condition holds, as an Option; none if it holds for no value."""
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
    """The index value with the least key, as an Option; among equal keys the first value.

    ``among`` is a condition on index values: only values that satisfy it are candidates. Without candidates the
    result is none.
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
    is_index(index, "first() or least_by()")
    option = Option(index)
    found, least_key = option.none(), Number(None, (graph.const(0, INT),))
    for i in order:
        own = least(key(i))
        better = found.is_none | (own < least_key)
        if among is not None:
            better &= as_bool(among(i))
        found, least_key = (
            where(better, option.some(i), found),
            where(better, Number(None, own.nodes), least_key),
        )
    return found
