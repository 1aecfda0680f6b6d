"""Arithmetic is Python's, and division by zero an error; writes under conditions, and choices inside an action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from highwater.checker.engines import reference
from highwater.checker.engines.native import search
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import (
    Array,
    Index,
    Int,
    LanguageError,
    Model,
    Protocol,
    State,
    Struct,
    action,
    either,
    eventually,
    graph,
    invariant,
    leads_to,
    one_of,
    require,
    strong,
    tagged,
    weak,
    where,
)
from highwater.model.language.function import Function
from highwater.model.language.graph import Node, undefined
from highwater.model.language.interpreter import BoundError, Interpreter, compile_nodes
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
        lambda s: require("", s.n // s.d > 1),
        lambda s: require("", (s.n // s.d > 1) | (s.n > 8)),
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
        lambda s: require("", (s.n // s.d > 1) & (s.d > 0)),
        lambda s: require("", (s.d == 0) | (s.n // s.d > 1)),
        lambda s: both(require("", s.n // s.d > 1), require("", s.d > 0)),
    ],
)
def test_an_undefined_value_that_is_not_needed_is_no_error(
    engine: Any, step: Callable[[State], None]
) -> None:
    assert engine(model(step), SearchOptions()).distinct_states >= 4


@pytest.mark.parametrize("engine", ENGINES)
def test_a_property_that_divides_by_zero_does_not_hold(engine: Any) -> None:
    found = engine(model(lambda s: None, lambda s: s.n // s.d > 0), SearchOptions())
    assert [(v.property, len(v.path)) for v in found.violations] == [("property", 3)]
    fine = engine(model(lambda s: None, lambda s: (s.d == 0) | (s.n // s.d > 0)), SearchOptions())
    assert fine.violations == []


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
@example(seed=7214)
def test_undefined_agrees_with_a_plain_evaluation(seed: int) -> None:
    rng = Random(seed)
    stated = a_protocol(rng)
    leaves = stated.state.leaves("")
    inputs = [graph.leaf(i, x.sort, x.low, x.high) for i, x in enumerate(leaves)]
    make = Expressions(rng, stated.state.fields)
    try:
        conditions = [condition_of(make.condition(4), stated.state.wrap(inputs)) for _ in range(4)]
        compiled = [compile_nodes([undefined(node), node]) for node in conditions]
    except LanguageError:  # a constant is outside its type, or an element exists in no state
        return
    for node, asked in zip(conditions, compiled, strict=True):
        for _ in range(4):
            state = stated.state.encode(shown(stated.state, a_plain(rng, stated.state)))
            wanted = meaning(node, state)
            without, value = asked(state)
            assert without == (wanted is None)
            assert without or int(value) == wanted


def condition_of(expression: Any, state: Any) -> Node:
    from highwater.model.language.types import as_bool

    return as_bool(expression.symbolic(state)).node


# --- writes under a condition, several writes to one array, and choices inside an action --------------


Body = Callable[[Any, State], None]


class Branches(Protocol):
    name = "branches"

    def define(self) -> Struct:
        self.node = Index("node", 3)
        return Struct(
            "State",
            n=Int(0, 3),
            i=self.node,
            j=self.node,
            row=Array(self.node, Int(0, 3, bound="top")),
            pairs=Array(self.node, Struct("Pair", a=Int(0, 3), b=Int(0, 3))),
        )

    def initial(self) -> list[dict[str, Any]]:
        return [{"n": 0, "i": 0, "j": 0, "row": [0] * 3, "pairs": [{"a": 0, "b": 0}] * 3}]


def branching(body: Body) -> Model:
    return Model(stepping(Branches, body)())


def after(body: Body, **before: Any) -> dict[str, Any]:
    """The state after the step. Raises BoundError if it leaves a type. Omitted fields are zero."""
    traced = branching(body)
    start = traced.decode(traced.initial[0]) | before
    (step,) = Interpreter(traced).steps(traced.protocol.state.encode(start))
    assert step.state is not None
    return traced.decode(step.state)


def two_elements(m: Any, s: State) -> None:
    s.next.row[s.i] = 1
    s.next.row[s.j] = 2


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_finds_the_conflict(engine: Any) -> None:
    with pytest.raises(BoundError, match="writes a field a second time"):
        engine(branching(two_elements), SearchOptions())


def test_a_guard_that_keeps_two_writes_apart_leaves_nothing_to_check() -> None:
    def apart(m: Any, s: State) -> None:
        require("two", s.i != s.j)
        two_elements(m, s)

    assert branching(apart).instances[0].checks == ()


def test_fields_of_one_element_and_of_two() -> None:
    def body(m: Any, s: State) -> None:
        s.next.pairs[s.i].a = 1
        s.next.pairs[s.j].b = 2

    def whole(m: Any, s: State) -> None:
        s.next.pairs[s.i] = {"a": 3, "b": 3}
        s.next.pairs[s.j].b = 2

    assert branching(body).instances[0].checks == ()
    assert after(body, i=1, j=1)["pairs"][1] == {"a": 1, "b": 2}
    assert after(whole, i=1, j=0)["pairs"][:2] == [{"a": 0, "b": 2}, {"a": 3, "b": 3}]
    with pytest.raises(BoundError, match="a second time"):
        after(whole, i=1, j=1)


def chooses(m: Any, s: State) -> None:
    answer = one_of("answer", ["yes", "no"])
    if answer == "yes":
        to = one_of("to", m.node)
        s.next.row[to] = 1
    else:
        s.next.n = 3


def test_an_action_has_a_step_for_each_choice() -> None:
    found = {str(i): sorted(i.writes) for i in branching(chooses).instances}
    assert list(found) == [
        "step(answer=yes, to=0)",
        "step(answer=yes, to=1)",
        "step(answer=yes, to=2)",
        "step(answer=no)",
    ]
    assert len({tuple(w) for w in found.values()}) == 4


def test_fairness_takes_the_choices_of_an_action_together() -> None:
    protocol = branching(chooses).protocol

    @eventually("test", fair=weak("step") + strong("step", answer="no"))
    def comes(m: Any, s: State) -> Any:
        return s.n == 3

    groups = Model(protocol, [], [comes]).liveness[0].groups
    assert [sorted(g.instances) for g in groups] == [[0, 1, 2, 3], [3]]


def test_fairness_by_a_tag() -> None:
    class Tagged(Protocol):
        name = "tagged"

        def define(self) -> Struct:
            self.node = Index("node", 2)
            return Struct("State", n=Int(0, 3))

        @action(tags="io slow", who="node")
        def read(self, s: State, who: Any) -> None:
            s.next.n = 0

        @action(tags=("io",))
        def write(self, s: State) -> None:
            s.next.n = 1

        @action()
        def rest(self, s: State) -> None:
            s.next.n = 2

    def groups(fair: Any) -> list[list[int]]:
        @eventually("test", fair=fair)
        def comes(m: Any, s: State) -> Any:
            return s.n == 3

        return sorted(sorted(g.instances) for g in Model(Tagged(), [], [comes]).liveness[0].groups)

    assert groups(weak(tagged("io"))) == [[0], [1], [2]]
    assert groups(strong(tagged("io"), by=[])) == [[0, 1], [2]]
    assert groups(weak(either(tagged("slow"), "rest"), by=[])) == [[0, 1, 3]]
    assert groups(weak(either(tagged("io")))) == [[0, 1, 2]], "one step of any of them"
    assert groups(weak(tagged("io"), "rest")) == [[0], [1], [2], [3]]
    with pytest.raises(LanguageError, match="no action of tagged has the tag 'oi'; it has io, slow"):
        groups(weak(tagged("oi")))
