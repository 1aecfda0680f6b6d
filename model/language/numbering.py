"""Every value of a finite type as a number from 0 on: how messages are told apart in a set of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from highwater.model.language import graph
from highwater.model.language.errors import fail
from highwater.model.language.graph import INT, Node
from highwater.model.language.types import Array, BoolType, NumberType, Option, Set, Struct, Type


def parts_of(type: Type) -> list[Type] | None:
    """The types of the parts that a value is made of, in order; None for a type of one scalar."""
    if isinstance(type, Struct):
        return list(type.fields.values())
    return [type.element] * type.index.size if isinstance(type, Array) else None


def count_of(type: Type) -> int:
    """How many values a type has; LanguageError where they are not numbered here."""
    parts = parts_of(type)
    if parts is not None:
        return prod(map(count_of, parts))
    if isinstance(type, NumberType):
        return type.high - type.low + 1
    if isinstance(type, Option):
        return count_of(type.content_type) + 1
    if isinstance(type, Set):
        return 1 << type.index.size
    if isinstance(type, BoolType):
        return 2
    raise fail(
        f"the values of {type} are not told apart: use numbers, names, Bool, Option, Set, Array or Struct"
    )


def number_of(type: Type, nodes: Sequence[Node]) -> Node:
    """The number of a value, given by its scalars, which must be of the type."""
    parts = parts_of(type)
    if parts is not None:
        result = graph.const(0, INT)
        start = 0
        for part in parts:
            own = number_of(part, nodes[start : start + part.leaf_count])
            result = graph.add(graph.mul(result, graph.const(count_of(part), INT)), own)
            start += part.leaf_count
        return result
    if isinstance(type, NumberType):
        return graph.sub(nodes[0], graph.const(type.low, INT))
    if isinstance(type, Option):
        content = number_of(type.content_type, type.content(nodes).nodes)
        return graph.select(type.present(nodes), graph.add(content, graph.const(1, INT)), graph.const(0, INT))
    if isinstance(type, Set):
        bits = (graph.member(graph.const(i, INT), nodes[0]) for i in range(type.index.size))
        return _sum(
            graph.select(bit, graph.const(1 << i, INT), graph.const(0, INT)) for i, bit in enumerate(bits)
        )
    return graph.select(nodes[0], graph.const(1, INT), graph.const(0, INT))


def _sum(nodes: Iterator[Node]) -> Node:
    result = graph.const(0, INT)
    for node in nodes:
        result = graph.add(result, node)
    return result


def scalars_at(type: Type, number: int) -> list[int]:
    """The scalars of the value with this number."""
    parts = parts_of(type)
    if parts is not None:
        found: list[int] = []
        for part in reversed(parts):
            number, own = divmod(number, count_of(part))
            found = scalars_at(part, own) + found
        return found
    if isinstance(type, NumberType):
        return [number + type.low]
    if isinstance(type, Option):
        if number == 0:
            return [n.value for n in type.none().nodes]
        content = scalars_at(type.content_type, number - 1)
        return content if len(content) == type.leaf_count else [1, *content]
    return [number]


def value_at(type: Type, number: int) -> Any:
    """The value with this number, as a constant."""
    leaves = type.leaves("")
    return type.wrap(
        [graph.const(v, leaf.sort) for v, leaf in zip(scalars_at(type, number), leaves, strict=True)]
    )
