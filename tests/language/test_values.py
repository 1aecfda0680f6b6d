"""Encoding of plain values, and equal expressions. Random protocols compare operations with Python's."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    LanguageError,
    Option,
    Seq,
    Set,
    Struct,
    graph,
)
from highwater.model.language.types import Type
from highwater.model.language.values import (
    where,
)

NODE = Index("node", 5)
NODES = Set(NODE)
PAIR = Struct("Pair", who=NODE, flag=Bool)
COLOUR = Enum("Colour", "RED GREEN BLUE")


def symbolic(type_: Type, first: int = 0) -> Any:
    """A value of a type that is unknown while tracing."""
    return type_.wrap([graph.leaf(first + i, x.sort, x.low, x.high) for i, x in enumerate(type_.leaves(""))])


@pytest.mark.parametrize(
    ("type_", "plain"),
    [
        (Bool, True),
        (Int(-3, 3), -2),
        (NODE, 4),
        (COLOUR, "BLUE"),
        (NODES, [0, 3]),
        (Option(NODE), None),
        (Option(NODES), [1]),
        (Option(PAIR), None),
        (Array(NODE, COLOUR), ["RED", "GREEN", "BLUE", "RED", "RED"]),
        (Seq(Option(NODE), 4), [3, None]),
        (Struct("Nested", inner=PAIR, log=Seq(PAIR, 2)), {"inner": {"who": 1, "flag": True}, "log": []}),
    ],
)
def test_plain_values_survive_encoding(type_: Type, plain: object) -> None:
    scalars = type_.encode(plain)
    assert type_.decode(scalars) == plain
    leaves = type_.leaves("")
    assert len(scalars) == type_.leaf_count == len(leaves)
    assert all(leaf.low <= scalar <= leaf.high for leaf, scalar in zip(leaves, scalars, strict=True))


@pytest.mark.parametrize(
    ("type_", "plain"),
    [
        (Bool, 1),
        (Int(0, 3), 4),
        (Int(0, 3), True),
        (NODE, 5),
        (COLOUR, "PINK"),
        (COLOUR, 0),
        (NODES, [5]),
        (NODES, 3),
        (Option(NODE), 9),
        (Array(NODE, Bool), [True]),
        (Seq(Bool, 1), [True, True]),
        (PAIR, {"who": 1}),
        (PAIR, {"who": 1, "flag": True, "colour": "RED"}),
    ],
)
def test_a_value_outside_its_type_is_refused(type_: Type, plain: object) -> None:
    with pytest.raises(LanguageError):
        type_.encode(plain)


def test_equal_expressions_are_one_node() -> None:
    a, b = symbolic(Int(0, 9)), symbolic(Int(0, 9), 1)
    assert (a + b).nodes[0] is (b + a).nodes[0]
    assert (a + 1 + 2).nodes[0] is (a + 3).nodes[0]
    assert where(a < b, a, a).nodes[0] is a.nodes[0]
    assert ((a < b) & ~(a < b)).node is graph.FALSE
    assert (a < 10).node is graph.TRUE
    assert (a == b - 20).node is graph.FALSE
