"""``ControllerStepper`` agrees with the interpreter of the same protocol."""

from __future__ import annotations

from typing import Any

from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.replication.controller import Controller
from highwater.traces.metadata.beliefs.controller_stepper import ControllerStepper, Hypothesis

RULES = Controller.profiles["kafka_4_2"].rules


def hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def test_steps_are_those_of_the_interpreter() -> None:
    stepper = ControllerStepper(2, RULES)
    model = Model(stepper.protocol)
    interpreter, first = Interpreter(model), model.initial[0]
    assert stepper.encode(stepper.decode(first)) == first
    for state in (
        first,
        *interpreter.successors(first)[:2],
    ):  # functions are interpreted first, then compiled
        for number, instance in enumerate(model.instances):
            hypothesis = Hypothesis(instance.action.name, tuple(map(hashable, instance.parameters.values())))
            step = stepper.step(hypothesis)
            assert step is not None
            refused = interpreter.refusals(state, instance)
            assert (list(step.refusals(state)), step.enabled(state)) == (refused, not refused)
            assert stepper.after(hypothesis, state) == (None if refused else step.after(state))
            if not refused:
                left, after = step.result(state)
                assert (None if left else after) == interpreter.step(state, number).state


def test_an_unknown_step_is_none() -> None:
    stepper = ControllerStepper(2, RULES)
    for hypothesis in (Hypothesis("no such action"), Hypothesis("fence", (7,))):
        assert stepper.step(hypothesis) is None
