"""Symbolic values compute what Python's own sets, lists and numbers compute."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from highwater.model.language.interpreter import compile_nodes
from highwater.model.language.types import Type
from highwater.model.language.values import (
    Value,
    all_of,
    any_of,
    greatest,
    least,
    members,
    size,
    total,
    where,
)

NODE = Index("node", 5)
NODES = Set(NODE)
PAIR = Struct("Pair", who=NODE, flag=Bool)
COLOUR = Enum("Colour", "RED GREEN BLUE")
node_sets = st.sets(st.integers(0, 4))
nodes = st.integers(0, 4)
pairs = st.fixed_dictionaries({"who": nodes, "flag": st.booleans()})
logs = st.lists(pairs, max_size=3)


def symbolic(type_: Type, first: int = 0) -> Any:
    """An input of a type, unknown while tracing."""
    return type_.wrap([graph.leaf(first + i, x.sort, x.low, x.high) for i, x in enumerate(type_.leaves(""))])


def run(result: Value, *inputs: tuple[Type, object]) -> Any:
    """Evaluate a symbolic result on plain inputs, given in the order of their leaves."""
    scalars = [scalar for type_, plain in inputs for scalar in type_.encode(plain)]
    found = [int(v) for v in compile_nodes(list(result.nodes))(scalars)]
    for node, value in zip(result.nodes, found, strict=True):
        assert node.low <= value <= node.high, "a value outside the interval that its node claims"
    if result.type is None:
        return found[0]
    return result.type.decode(found)


@given(node_sets, node_sets, nodes)
def test_sets(a: set[int], b: set[int], x: int) -> None:
    s, t, i = symbolic(NODES), symbolic(NODES, 1), symbolic(NODE, 2)
    inputs = ((NODES, a), (NODES, b), (NODE, x))
    assert run(s | t, *inputs) == sorted(a | b)
    assert run(s & t, *inputs) == sorted(a & b)
    assert run(s - t, *inputs) == sorted(a - b)
    assert run(s.with_(i), *inputs) == sorted(a | {x})
    assert run(s.without(i), *inputs) == sorted(a - {x})
    assert run(s.has(i), *inputs) == (x in a)
    assert run(s <= t, *inputs) == (a <= b)
    assert run(s >= t, *inputs) == (a >= b)
    assert run(s == t, *inputs) == (a == b)
    assert run(size(s), *inputs) == len(a)
    assert run(s.is_empty, *inputs) == (not a)
    assert run(members(NODE, lambda n: s.has(n) & ~t.has(n), NODES), *inputs) == sorted(a - b)


@given(logs, pairs, st.integers(-1, 4))
def test_sequences(log: list[dict[str, Any]], item: dict[str, Any], n: int) -> None:
    type_, number = Seq(PAIR, 4), Int(-1, 4)
    s, x, k = symbolic(type_), symbolic(PAIR, 9), symbolic(number, 11)
    inputs = ((type_, log), (PAIR, item), (number, n))
    zero = {"who": 0, "flag": False}
    assert run(s.append(x), *inputs) == [*log, item]
    assert run(s.length, *inputs) == len(log)
    assert run(s[k], *inputs) == (log[n] if 0 <= n < len(log) else zero)
    assert run(s.last, *inputs) == (log[-1] if log else zero)
    assert run(s.has(x), *inputs) == (item in log)
    if n >= 0:
        assert run(s.truncate(k), *inputs) == log[:n]
        assert run(s.truncate(k) == type_.lift(log[:n]), *inputs)  # zero past the end: equal to a fresh one


@given(st.lists(pairs, min_size=5, max_size=5), nodes, pairs)
def test_arrays(row: list[dict[str, Any]], i: int, item: dict[str, Any]) -> None:
    type_ = Array(NODE, PAIR)
    a, k, x = symbolic(type_), symbolic(NODE, 10), symbolic(PAIR, 11)
    inputs = ((type_, row), (NODE, i), (PAIR, item))
    assert run(a[k], *inputs) == row[i]
    assert run(a.set(k, x), *inputs) == [item if j == i else old for j, old in enumerate(row)]
    assert run(a[k].replace(flag=True), *inputs) == {**row[i], "flag": True}


@given(st.none() | nodes, st.none() | pairs, nodes)
def test_options(a: int | None, b: dict[str, Any] | None, x: int) -> None:
    small, large = Option(NODE), Option(PAIR)
    o, p, i = symbolic(small), symbolic(large, 1), symbolic(NODE, 4)
    inputs = ((small, a), (large, b), (NODE, x))
    assert run(o.is_some, *inputs) == (a is not None)
    assert run(p.is_none, *inputs) == (b is None)
    assert run(o.value, *inputs) == (a or 0)
    assert run(p.value, *inputs) == (b or {"who": 0, "flag": False})
    assert run(o.is_(i), *inputs) == (a == x)
    assert run(where(o.is_none, i, o), *inputs) == (x if a is None else a)
    assert run(o == None, *inputs) == (a is None)  # noqa: E711
    assert run(NODES.all().has(o), *inputs) == (a is not None)


@given(st.integers(-9, 9), st.integers(-9, 9), st.booleans())
def test_numbers(a: int, b: int, c: bool) -> None:
    number = Int(-9, 9)
    x, y, f = symbolic(number), symbolic(number, 1), symbolic(Bool, 2)
    inputs = ((number, a), (number, b), (Bool, c))
    assert run(x + y - 3, *inputs) == a + b - 3
    assert run(5 - x, *inputs) == 5 - a
    assert run(least(x, y, 4), *inputs) == min(a, b, 4)
    assert run(greatest(x, 0), *inputs) == max(a, 0)
    assert run(where(f, x, y), *inputs) == (a if c else b)
    assert run((x < y) & ~f | (x >= 7), *inputs) == ((a < b and not c) or a >= 7)
    assert run(all_of([x <= y, f]), *inputs) == (a <= b and c)
    assert run(any_of([x == y, f]), *inputs) == (a == b or c)
    assert run(total([x > 0, y > 0, f]), *inputs) == (a > 0) + (b > 0) + c


@given(st.sampled_from(COLOUR.members))
def test_enumerations(colour: str) -> None:
    c = symbolic(COLOUR)
    assert run(c == "GREEN", (COLOUR, colour)) == (colour == "GREEN")
    assert run(c == COLOUR.BLUE, (COLOUR, colour)) == (colour == "BLUE")
    assert run(where(c == "RED", "BLUE", c), (COLOUR, colour)) == ("BLUE" if colour == "RED" else colour)


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
def test_what_a_type_does_not_hold_is_refused(type_: Type, plain: object) -> None:
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
