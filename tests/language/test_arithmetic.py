"""Products, quotients and remainders equal Python's; a used division by zero is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.checker.engines import reference
from highwater.checker.engines.native import search
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import (
    Int,
    LanguageError,
    Model,
    Protocol,
    State,
    Struct,
    action,
    graph,
    invariant,
    leads_to,
    require,
    weak,
    where,
)
from highwater.model.language.function import Function
from highwater.model.language.graph import Node, undefined
from highwater.model.language.interpreter import BoundError, compile_nodes
from tests.language.random_protocols import Expressions, a_plain, a_protocol, shown
from tests.zoo import stepping

RANGES = [(-7, 7, -4, 4), (0, 9, 1, 4), (0, 9, 0, 3), (-9, 0, -3, -1), (-5, -1, 0, 7)]


@pytest.mark.parametrize(("low", "high", "least", "most"), RANGES)
def test_numbers_compute_as_pythons(low: int, high: int, least: int, most: int) -> None:
    def reckoned(a: Any, b: Any) -> dict[str, Any]:
        return {"*": a * b, "//": a // b, "%": a % b, "2*": 2 * a, "-": -a, "1//": 1 // b, "7%": 7 % b}

    function = Function(reckoned, a=Int(low, high), b=Int(least, most))
    for a in range(low, high + 1):
        for b in range(least, most + 1):
            if b == 0:
                with pytest.raises(BoundError, match="// or % by zero"):
                    function(a=a, b=b)
            else:
                assert function(a=a, b=b) == reckoned(a, b)


def model(step: Callable[[State], None], holds: Callable[[State], Any] = lambda s: s.n >= 0) -> Model:
    """A protocol with two numbers and one step."""

    @invariant("test")
    def property(m: Any, s: State) -> Any:
        return holds(s)

    class Divides(Protocol):
        name = "divides"
        invariants = (property,)

        def define(self) -> Struct:
            return Struct("State", n=Int(0, 9, bound="top"), d=Int(0, 3))

        def initial(self) -> list[dict[str, Any]]:
            return [{"n": 7, "d": 3}]

        @action()
        def down(self, s: State) -> None:
            require("more than none", s.d > 0)
            s.next.d = s.d - 1

    return Model(stepping(Divides, lambda m, s: step(s))(), [property])


def both(*stated: None) -> None:
    """Join two statements in one expression."""


ENGINES = [reference.search, search]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "step",
    [
        lambda s: setattr(s.next, "n", s.n // s.d),
        lambda s: setattr(s.next, "n", s.n % s.d),
        lambda s: require("", 1 % (s.d - s.d) == 0),
        lambda s: setattr(s.next, "n", where(s.n == 0, 1, s.n % s.d)),
        lambda s: require("", s.n // s.d > 1),
        lambda s: require("", (s.n // s.d > 1) | (s.n > 8)),
        lambda s: both(require("", s.n > 3), require("", s.n // s.d > 1)),
    ],
)
def test_a_step_that_divides_by_zero_is_an_error(engine: Any, step: Callable[[State], None]) -> None:
    with pytest.raises(BoundError, match=r"step.*// or % by zero") as error:
        engine(model(step), SearchOptions())
    assert error.value.place is not None
    assert "test_arithmetic.py" in error.value.place


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "step",
    [
        lambda s: setattr(s.next, "n", where(s.d == 0, 0, s.n // s.d)),
        lambda s: setattr(s.next, "n", where(s.d > 0, s.n % s.d, 0)),
        lambda s: require("", (s.d > 0) & (s.n // s.d > 1)),
        lambda s: require("", (s.n // s.d > 1) & (s.d > 0)),
        lambda s: require("", (s.d == 0) | (s.n // s.d > 1)),
        lambda s: both(require("", s.n // s.d > 1), require("", s.d > 0)),
        lambda s: both(require("", s.d > 0), setattr(s.next, "n", s.n // s.d)),
    ],
)
def test_an_undefined_value_that_is_not_needed_is_no_error(
    engine: Any, step: Callable[[State], None]
) -> None:
    assert engine(model(step), SearchOptions()).distinct_states >= 4


def test_a_bound_that_is_decided_by_a_division_by_zero_is_an_error() -> None:
    def step(s: State) -> None:
        s.next.n = 9 + s.n % s.d

    with pytest.raises(BoundError, match="by zero"):
        reference.search(model(step), SearchOptions())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_property_that_divides_by_zero_does_not_hold(engine: Any) -> None:
    found = engine(model(lambda s: None, lambda s: s.n // s.d > 0), SearchOptions())
    assert [(v.property, len(v.path)) for v in found.violations] == [("property", 3)]
    fine = engine(model(lambda s: None, lambda s: (s.d == 0) | (s.n // s.d > 0)), SearchOptions())
    assert fine.violations == []


def test_a_condition_of_fairness_does_not_divide_by_zero() -> None:
    def sometimes(m: Any, s: State) -> Any:
        return s.n // s.d > 1

    @leads_to("test", fair=weak("down", when=sometimes))
    def falls(m: Any, s: State) -> Any:
        return s.d == 1, s.d == 0

    with pytest.raises(LanguageError, match=r"divides by what can be zero: put the case in a where\(\)"):
        Model(model(lambda s: None).protocol, [], [falls])


def test_a_premise_that_divides_by_zero_counts_as_met() -> None:
    @leads_to("test")
    def falls(m: Any, s: State) -> Any:
        return s.n // s.d > 8, s.n == 9

    (traced,) = Model(model(lambda s: None).protocol, [], [falls]).liveness[0].cases
    premise, goal = compile_nodes([traced.premise, *traced.goals])((7, 0))
    assert (premise, goal) == (True, False)


def meaning(node: Node, state: Sequence[int]) -> int | None:
    """A node's value or None if undefined. `and`, `or` and choices need only the side that decides."""
    if node.op in ("and", "or"):
        sides = [meaning(a, state) for a in node.args]
        decides = node.op == "or"
        if any(side is not None and bool(side) == decides for side in sides):
            return decides
        return None if None in sides else not decides
    if node.op == "select":
        condition = meaning(node.args[0], state)
        return None if condition is None else meaning(node.args[1 if condition else 2], state)
    found = [meaning(a, state) for a in node.args]
    if None in found or (node.op in graph.PARTIAL and found[1] == 0):
        return None
    return int(compile_nodes([node])(state)[0])


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 60))
def test_undefined_agrees_with_a_plain_evaluation(seed: int) -> None:
    rng = Random(seed)
    stated = a_protocol(rng)
    leaves = stated.state.leaves("")
    inputs = [graph.leaf(i, x.sort, x.low, x.high) for i, x in enumerate(leaves)]
    make = Expressions(rng, stated.state.fields)
    try:
        conditions = [condition_of(make.condition(4), stated.state.wrap(inputs)) for _ in range(4)]
    except LanguageError:  # a constant is outside its type
        return
    for node in conditions:
        asked = compile_nodes([undefined(node), node])
        for _ in range(4):
            state = stated.state.encode(shown(stated.state, a_plain(rng, stated.state)))
            wanted = meaning(node, state)
            without, value = asked(state)
            assert without == (wanted is None)
            assert without or int(value) == wanted


def condition_of(expression: Any, state: Any) -> Node:
    from highwater.model.language.values import as_bool

    return as_bool(expression.symbolic(state)).node
