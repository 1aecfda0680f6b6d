"""``Step`` on plain values agrees with the interpreter."""

from __future__ import annotations

import pytest

from highwater.model.language import LanguageError
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.language.step import Memo, Stepper
from highwater.model.quorum import Quorum
from tests import zoo


def test_steps_are_those_of_the_interpreter() -> None:
    protocol = zoo.Counters({"counters": 2})
    model, stepper = Model(protocol), Stepper(protocol)
    interpreter, state = Interpreter(model), model.initial[0]
    assert stepper.encode(stepper.decode(state)) == state
    for _ in range(2):  # interpreted, then compiled
        for number, instance in enumerate(model.instances):
            step = stepper.step(instance.action.name, list(instance.parameters.values()))
            assert step is not None
            refused = interpreter.refusals(state, instance)
            assert (list(step.refusals(state)), step.enabled(state)) == (refused, not refused)
            if not refused:
                left, after = step.result(state)
                assert (None if left else after) == interpreter.step(state, number).state
                assert step.after(state) == after


def test_an_unknown_step_is_none() -> None:
    stepper = Stepper(Quorum({"voters": 3}, Quorum.profiles["kafka_4_2"].rules))
    assert stepper.step("no such action") is None
    assert stepper.step("append", (7,)) is None, "no such member"
    with pytest.raises(LanguageError, match="no field 'nothing'"):
        stepper.place("nothing")


def test_a_memo_makes_an_answer_once() -> None:
    memo, made = Memo(2), list[int]()

    def double(number: int) -> int:
        made.append(number)
        return 2 * number

    assert [memo.of(n, double, n) for n in (1, 1, 2, 2, 3)] == [2, 2, 4, 4, 6]
    assert (made, len(memo)) == ([1, 2, 3], 1)
