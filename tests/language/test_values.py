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
from highwater.model.language.types import Type, where

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
        (Bool, 1),
        (Int(0, 3), 4),
        (Int(0, 3), True),
        (Int(0, 3), "1"),
        (NODE, 5),
        (COLOUR, "PINK"),
        (COLOUR, 0),
        (NODES, [5]),
        (NODES, ["a"]),
        (Option(NODE), 9),
        (Array(NODE, Bool), [True]),
        (Seq(Bool, 1), [True, True]),
        (PAIR, {"who": 1}),
        (NODES, 3),
        (PAIR, {"who": 1, "flag": True, "colour": "RED"}),
    ],
)
def test_a_type_refuses_a_value_outside_it(type_: Type, plain: object) -> None:
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
