"""Random step properties: plain Python, interpreter, instance expressions and kernels agree."""

from __future__ import annotations

import os
from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from highwater.checker.engines.native.machine import Effort
from highwater.checker.engines.native.program import Program
from highwater.model.language import Model, State, StepProperty, as_bool, implies
from highwater.model.language.interpreter import BoundError, Interpreter, compile_nodes
from tests.language.random_protocols import Expression, Overflow, Stated, a_plain, a_protocol, shown
from tests.language.test_random_protocols import traced

EXAMPLES = int(os.environ.get("HIGHWATER_RANDOM_PROTOCOLS", "16"))
"""The number of random protocols."""


def conditions(stated: Stated) -> list[Expression]:
    return [stated.invariant, *stated.guards]


def properties(stated: Stated, rng: Random) -> list[StepProperty]:
    """Random step properties: a condition before implies one after, or values stay or grow."""

    def follows(one: Expression, other: Expression) -> Any:
        return lambda m, before, after: implies(one.symbolic(before), other.symbolic(after))

    def stays(value: Expression) -> Any:
        return lambda m, before, after: value.symbolic(before) == value.symbolic(after)

    def grows(number: Expression) -> Any:
        return lambda m, before, after: number.symbolic(before) <= number.symbolic(after)

    pairs = [(rng.choice(conditions(stated)), rng.choice(conditions(stated))) for _ in range(3)]
    found = [follows(*pair) for pair in pairs]
    found += [stays(value) for type_, value in stated.functions if type_ is not None]
    found += [grows(number) for type_, number in stated.functions if type_ is None]
    named = [StepProperty(f"random_{i}", function, "") for i, function in enumerate(found)]
    whole = StepProperty("nothing_changes", lambda m, before, after: before == after, "")
    return [*named, StepProperty("something_changes", lambda m, before, after: before != after, ""), whole]


def drawn(seed: int) -> tuple[Model, Stated, Random]:
    rng = Random(seed)
    stated = a_protocol(rng)
    note(str(stated))
    model = traced(lambda: Model(stated.protocol(), step_properties=properties(stated, rng)))
    return model, stated, rng


def disagreements(seed: int) -> int:
    """The number of times that an instance's expression differs from the property on the two states."""
    model, stated, rng = drawn(seed)
    interpreter, wrong = Interpreter(model), 0
    says = [compile_nodes([n for j in own for n in (j.node, j.premise)]) for own in model.judged]
    for _ in range(6):
        state = stated.state.encode(shown(stated.state, a_plain(rng, stated.state)))
        with suppress(BoundError):
            for number in interpreter.enabled(state):
                after = interpreter.step(state, number).state
                if after is None:
                    continue
                broken, met = (
                    set(interpreter.broken(state, after)),
                    interpreter.step_premises(state, number, after),
                )
                event("violated" if broken else "holds")
                values = says[number](state)
                names = [model.step_properties[j.number].name for j in model.judged[number]]
                wrong += broken != {n for n, holds in zip(names, values[::2], strict=True) if not holds}
                said = {j.number for j, m in zip(model.judged[number], values[1::2], strict=True) if m}
                wrong += said != {i for i, m in enumerate(met) if m}
                wrong += ("nothing_changes" in broken) != (state != after)
                wrong += "something_changes" in broken
    return wrong


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 1 << 60))
def test_an_instance_s_expression_agrees_with_the_property_on_states(seed: int) -> None:
    assert not disagreements(seed)


@settings(max_examples=max(4, EXAMPLES // 8))
@given(seed=st.integers(0, 1 << 60))
def test_kernels_say_the_same(seed: int) -> None:
    model, stated, rng = drawn(seed)
    interpreter, program = Interpreter(model), Program(model, effort=Effort.QUICK)
    for _ in range(6):
        state = stated.state.encode(shown(stated.state, a_plain(rng, stated.state)))
        try:
            steps = program.steps(state)
        except BoundError:
            continue
        for (_, after), (_, broken) in zip(steps, program.broken(state), strict=True):
            assert broken == interpreter.broken(state, after)


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 1 << 60))
def test_the_property_on_two_states_agrees_with_python(seed: int) -> None:
    rng = Random(seed)
    stated = a_protocol(rng)
    one, other = rng.choice(conditions(stated)), rng.choice(conditions(stated))
    (number,) = (e for type_, e in stated.functions if type_ is None)

    def holds(m: Any, before: State, after: State) -> Any:
        same = as_bool(one.symbolic(before)) == as_bool(other.symbolic(after))
        return same | (number.symbolic(before) < number.symbolic(after))

    model = traced(lambda: Model(stated.protocol(), step_properties=[StepProperty("holds", holds, "")]))
    interpreter = Interpreter(model)
    for _ in range(6):
        plain = [a_plain(rng, stated.state) for _ in range(2)]
        before, after = (stated.state.encode(shown(stated.state, p)) for p in plain)
        with suppress(Overflow):
            grows = number.plain(plain[0]) < number.plain(plain[1])
            wanted = before == after or one.plain(plain[0]) == other.plain(plain[1]) or grows
            assert (interpreter.broken(before, after) == []) == wanted
