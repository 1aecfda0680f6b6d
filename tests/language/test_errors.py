"""Guards and checks of a step, premises, comparisons of states, and refusals."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Model,
    Protocol,
    Seq,
    State,
    Struct,
    action,
    all_of,
    implies,
    invariant,
    require,
)
from highwater.model.language.graph import inputs_of
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.step_properties import step_property
from highwater.model.language.types import Int
from tests.language.wrong import Base
from tests.zoo import stepping


def test_a_premise_on_an_element_that_does_not_exist_is_not_counted() -> None:
    @invariant("test")
    def ascends(m: Any, s: State) -> Any:
        return all_of((i == 0) | implies(s.row[i - 1] == 2, s.row[i] == 3) for i in m.node)

    (found,) = Model(Base(), [ascends]).properties
    assert len(inputs_of([found.premise])) == 2


def past_the_end(m: Any, s: State) -> None:
    s.next.log[1] = 3


def test_a_guard_that_keeps_an_index_inside_leaves_no_check() -> None:
    def guarded(m: Any, s: State) -> None:
        require("there is such an element", (s.log.length > 1) & s.f)
        s.next.log[1] = 3

    (instance,) = Model(stepping(Base, guarded)()).instances
    assert instance.checks == ()
    (instance,) = Model(stepping(Base, past_the_end)()).instances
    assert len(instance.checks) == 1


def test_a_guard_that_is_never_true_ends_the_tracing_of_its_instance() -> None:
    class Swaps(Base):
        @action(p="node", q="node")
        def swap(self, s: State, p: Any, q: Any) -> None:
            require("distinct", p != q)
            s.next.row[p] = s.row[q]
            s.next.row[q] = s.row[p]

        @action()
        def never(self, s: State) -> None:
            require("not with these parameters", False)
            raise AssertionError("what follows is not run")

    model = Model(Swaps())
    assert len(model.instances) == 6
    assert model.ruled_out == ["never"]


def test_states_are_compared_field_by_field() -> None:
    @step_property("test")
    def nothing_changes(m: Any, before: State, after: State) -> Any:
        return before == after

    @step_property("test")
    def something_changes(m: Any, before: State, after: State) -> Any:
        return before != after

    model = Model(stepping(Base, past_the_end)(), step_properties=[nothing_changes, something_changes])
    interpreter, (state,) = Interpreter(model), model.initial
    assert interpreter.broken(state, state) == []  # a step that changes nothing violates no step property
    assert interpreter.broken(state, (1 - state[0], *state[1:])) == ["nothing_changes"]


def test_a_step_past_a_declared_bound_is_pruned_and_its_target_not_checked() -> None:
    """As in docs/language/types.md; TLC's CONSTRAINT would check the target."""

    class Cut(Protocol):
        name = "cut"

        def define(self) -> Struct:
            return Struct("State", n=Int(0, 3, bound="top"), log=Seq(Int(0, 1), 2, bound="log"))

        @action()
        def step(self, s: State) -> None:
            s.next.n = s.n + 1

    model = Model(Cut())
    interpreter = Interpreter(model)
    steps = [(step.state, step.cut) for n in (2, 3) for step in interpreter.steps((n, 0, 0, 0))]
    assert steps == [((3, 0, 0, 0), None), (None, "top")]
    assert model.bounds == ["top"]


def test_an_invariant_that_yields_conditions_holds_if_all_do() -> None:
    @invariant("test")
    def both(m: Any, s: State) -> Any:
        yield s.f
        yield s.n > 0

    (yielded,) = Model(Base(), [both]).properties
    (joined,) = Model(Base(), [invariant("test")(lambda m, s: s.f & (s.n > 0))]).properties
    assert yielded.node is joined.node


def test_refusals_name_the_guards() -> None:
    def guarded(m: Any, s: State) -> None:
        require("the flag is up", s.f)
        require("the number is small", s.n < 2)
        require("true anyway", s.n >= 0)

    model = Model(stepping(Base, guarded)())
    state = model.protocol.state.encode({**model.decode(model.initial[0]), "n": 3})
    assert Interpreter(model).refusals(state, model.instances[0]) == ["the flag is up", "the number is small"]
