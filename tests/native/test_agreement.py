"""The native engine and the interpreter take the same steps from the same states."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from highwater.checker.engines.native.machine import Effort
from highwater.checker.engines.native.program import Program
from highwater.model.language import (
    LanguageError,
    Model,
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
        sorted({*QUICK, *models.one_of_each(QUICK)[:: often(8, 1)]}),
        "a model for every eighth set of rules, or for each; the fast ones have every action",
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
            3, Effort.FULL, marks=slow("full effort; a fast test of random protocols has all efforts")
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


@pytest.mark.usefixtures("compiled_anew")
@settings(max_examples=12)
@given(seed=st.integers(0, 1 << 60))
def test_engines_agree_on_random_protocols(seed: int) -> None:
    stated = a_protocol(Random(seed))
    try:
        model = Model(stated.protocol(), stated.protocol.invariants)
    except LanguageError:  # a constant outside its type, or two writes that always conflict
        reject()
    for effort in Effort:
        assert disagreements(model, Program(model, effort=effort), 100) == []
