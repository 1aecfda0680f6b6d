"""The native engine and the interpreter take the same steps from the same states."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from highwater.checker.engines.native.code.machine import Effort
from highwater.checker.engines.native.code.program import Program
from highwater.model.language import (
    Bool,
    Index,
    Int,
    LanguageError,
    Model,
    Protocol,
    Set,
    State,
    Struct,
    action,
    graph,
    invariant,
    require,
    values,
    where,
)
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter
from tests import models
from tests.language.random_protocols import a_protocol
from tests.slow import all_but, often, slow


def steps_of(model: Model, interpreter: Interpreter, state: Scalars) -> object:
    """The interpreter's steps from a state as (instance number, next state), or the error."""
    numbers = {id(instance): i for i, instance in enumerate(model.instances)}
    try:
        found = [(numbers[id(s.instance)], s.state) for s in interpreter.steps(state) if s.state is not None]
    except BoundError:
        return "bound error"
    return sorted(found)


def native_steps_of(program: Program, state: Scalars) -> object:
    try:
        return sorted(program.steps(state))
    except BoundError:
        return "bound error"


def disagreements(model: Model, program: Program, count: int) -> list[Scalars]:
    """Of ``count`` random states, half of them reachable, those on which the engines disagree."""
    interpreter = Interpreter(model)
    states = [*models.reachable_states(model, count // 2), *models.arbitrary_states(model, count // 2)]
    return [
        state
        for state in states
        if steps_of(model, interpreter, state) != native_steps_of(program, state)
        or interpreter.violated(state) != program.violated(state)
    ]


QUICK = {
    "truncation/kip-101",
    "truncation/kip-320",
    "replication/controller/small",
    "replication/recovery-operator",
    "replication/large-reassign-cancel",
    "replication/large-fencing",
    "replication/large-messages",
}
"""Scenarios that together have every action of the large protocols; the others differ in rules."""


@pytest.mark.parametrize(
    "name",
    all_but(
        QUICK,
        sorted({*QUICK, *models.one_of_each(QUICK)[:: often(3, 1)]}),
        "a model for every third set of rules, or for each; the fast ones have every action",
    ),
)
def test_engines_agree_on_every_scenario(name: str) -> None:
    """Uses quick code; the compilation efforts are compared on every operation below."""
    model = models.scenario_model(name)
    assert disagreements(model, Program(model, effort=Effort.QUICK), 600) == []


@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize(
    ("nodes", "effort"),
    [
        (2, Effort.QUICK),
        pytest.param(
            3, Effort.FULL, marks=slow("full effort; a fast test of random expressions has all efforts")
        ),
        pytest.param(5, Effort.FULL, marks=slow("larger values of each type; fast with two nodes")),
    ],
)
def test_engines_agree_on_every_type_and_operation(nodes: int, effort: Effort) -> None:
    model = models.everything(nodes=nodes)
    program = Program(model, effort=effort)
    assert not models.bounded(model)  # pruned steps and errors are compared too
    assert disagreements(model, program, often(600, 4000)) == []
    states = list(models.arbitrary_states(model, 600))
    outcomes = [steps_of(model, Interpreter(model), state) for state in states[:300]]
    assert "bound error" in outcomes
    assert any(outcome != "bound error" for outcome in outcomes)


class _Random(Protocol):
    """A protocol whose only action writes the drawn expressions."""

    name = "random"
    draw: Any = None

    def define(self) -> Struct:
        self.node = Index("node", 5)
        self.nodes = Set(self.node)
        return Struct("State", a=Int(-3, 9), b=Int(0, 6), i=self.node, x=self.nodes, y=self.nodes, f=Bool)

    def initial(self) -> list[dict[str, object]]:
        return [{"a": 0, "b": 0, "i": 0, "x": [], "y": [1], "f": True}]

    @action()
    def step(self, s: State) -> None:
        draw = type(self).draw
        assert draw is not None
        require("drawn", _bool(draw, s, 4))
        a, i = _int(draw, s, 4), _int(draw, s, 3)
        s.next.a = where((a >= -3) & (a <= 9), a, 0)
        s.next.i = where((i >= 0) & (i <= 4), i, s.i)
        s.next.x = _set(draw, s, 4)
        s.next.f = _bool(draw, s, 4)


@invariant("test")
def drawn(m: _Random, s: State) -> object:
    assert _Random.draw is not None
    return _bool(_Random.draw, s, 4)


def _int(draw: Any, s: State, depth: int) -> Any:
    if depth == 0:
        return draw(
            st.sampled_from(
                [s.a, s.b, s.i, values.Number(None, (graph.const(draw(st.integers(-4, 4)), "int"),))]
            )
        )
    kind = draw(st.sampled_from(["add", "sub", "mul", "div", "mod", "min", "max", "where", "size", "leaf"]))
    if kind == "leaf":
        return _int(draw, s, 0)
    if kind == "size":
        return values.size(_set(draw, s, depth - 1))
    if kind == "where":
        return where(_bool(draw, s, depth - 1), _int(draw, s, depth - 1), _int(draw, s, depth - 1))
    a, b = _int(draw, s, depth - 1), _int(draw, s, depth - 1)
    operations: dict[str, Callable[[], Any]] = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "div": lambda: a // b,
        "mod": lambda: a % b,
        "min": lambda: values.least(a, b),
        "max": lambda: values.greatest(a, b),
    }
    return operations[kind]()


def _set(draw: Any, s: State, depth: int) -> Any:
    if depth == 0:
        return draw(st.sampled_from([s.x, s.y, s.x.type.lift([0, 3])]))
    kind = draw(st.sampled_from(["or", "and", "minus", "with", "without", "where", "leaf"]))
    if kind == "leaf":
        return _set(draw, s, 0)
    a = _set(draw, s, depth - 1)
    if kind in ("with", "without"):
        return a.with_(s.i) if kind == "with" else a.without(s.i)
    b = _set(draw, s, depth - 1)
    if kind == "where":
        return where(_bool(draw, s, depth - 1), a, b)
    return {"or": lambda: a | b, "and": lambda: a & b}.get(kind, lambda: a - b)()


def _bool(draw: Any, s: State, depth: int) -> Any:
    if depth == 0:
        return s.f
    kind = draw(st.sampled_from(["eq", "lt", "le", "and", "or", "not", "has", "subset", "same", "leaf"]))
    if kind == "leaf":
        return s.f
    if kind == "not":
        return ~_bool(draw, s, depth - 1)
    if kind in ("eq", "lt", "le"):
        a, b = _int(draw, s, depth - 1), _int(draw, s, depth - 1)
        return {"eq": lambda: a == b, "lt": lambda: a < b}.get(kind, lambda: a <= b)()
    if kind == "has":
        index = _int(draw, s, depth - 1)
        return _set(draw, s, depth - 1).has(index)
    if kind in ("subset", "same"):
        a, b = _set(draw, s, depth - 1), _set(draw, s, depth - 1)
        return a <= b if kind == "subset" else a == b
    a, b = _bool(draw, s, depth - 1), _bool(draw, s, depth - 1)
    return a & b if kind == "and" else a | b


@pytest.mark.usefixtures("compiled_anew")
@settings(max_examples=often(6, 25), deadline=None)
@given(st.data())
def test_engines_agree_on_random_expressions(data: st.DataObject) -> None:
    _Random.draw = data.draw
    model = Model(_Random(), [drawn])
    for effort in Effort:
        assert disagreements(model, Program(model, effort=effort), 60) == []


@pytest.mark.usefixtures("compiled_anew")
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1 << 60))
def test_engines_agree_on_random_protocols(seed: int) -> None:
    stated = a_protocol(Random(seed))
    try:
        model = Model(stated.protocol(), stated.protocol.invariants)
    except LanguageError:  # a constant outside its type, or two writes that always conflict
        reject()
    assert disagreements(model, Program(model, effort=Effort.QUICK), 200) == []
