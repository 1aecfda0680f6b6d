"""A mistake in an action is an error with its place, even where Python itself would give a wrong answer."""

# The tests write code that a careful author would not write.
# ruff: noqa: SIM201, SIM300

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from highwater.model.language import (
    LanguageError,
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
    when,
    where,
)
from highwater.model.language.graph import inputs_of
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.step_properties import step_property
from highwater.model.language.types import Int
from tests.language.wrong import Base, Colour, at_its_place
from tests.zoo import stepping

Body = Callable[[Any, Any], object]


def under_or(m: Any, s: State, i: Any) -> None:
    require("", (i == 0) | (s.log[i - 1] == 2))


def under_when(m: Any, s: State, i: Any) -> None:
    with when(s.f & (i > 0)):
        require("", s.log[i - 1] == 2)
        s.next.row[i - 1] = 1


def under_where(m: Any, s: State, i: Any) -> None:
    s.next.row = where(i == 0, s.row, s.row.set(i - 1, s.log[i - 1]))


def under_implies(m: Any, s: State, i: Any) -> None:
    require("", implies(i > 0, implies(s.row[i - 1] == 2, s.f)))


def before_require(m: Any, s: State, i: Any) -> None:
    require("", s.log[i - 1] == 2)
    require("positive", i > 0)


@pytest.mark.parametrize("body", [under_or, under_when, under_where, under_implies, before_require])
def test_a_guard_allows_a_constant_index_that_is_outside(body: Callable[..., None]) -> None:
    """As for an index of the state: Raft's prevLogIndex - 1, where prevLogIndex is a field of a message."""
    model = Model(type("Guarded", (Base,), {"step": action(i="node")(body)})())
    assert [i.parameters["i"] for i in model.instances] == [0, 1, 2][body is before_require :]
    for instance in model.instances:
        written = [w.node for w in instance.writes.values()]
        assert all(number >= 0 for number in inputs_of([instance.enabled, instance.leads_on, *written]))


def test_a_premise_on_an_element_that_does_not_exist_is_not_counted() -> None:
    @invariant("test")
    def ascends(m: Any, s: State) -> Any:
        return all_of((i == 0) | implies(s.row[i - 1] == 2, s.row[i] == 3) for i in m.node)

    @invariant("test")
    def unguarded(m: Any, s: State) -> Any:
        return all_of(s.row[i - 1] <= s.row[i] for i in m.node)

    (found,) = Model(Base(), [ascends]).properties
    assert len(inputs_of([found.premise])) == 2
    with pytest.raises(LanguageError, match="-1 is no index") as error:
        Model(Base(), [unguarded])
    at_its_place(error.value, unguarded.function)


def after(body: Body, **fields: Any) -> dict[str, Any]:
    """The only successor of a state with these fields, by an action with this body."""
    model = Model(stepping(Base, body)())
    start = model.protocol.state.encode({**model.decode(model.initial[0]), **fields})
    (reached,) = Interpreter(model).successors(start)
    return model.decode(reached)


def past_the_end(m: Any, s: State) -> None:
    s.next.log[1] = 3


def nested_past_the_end(m: Any, s: State) -> None:
    s.next.logs[s.node].entries[s.n - 1] = 3


def test_a_write_past_the_end_of_a_sequence_is_an_error() -> None:
    inside = [{"entries": []}, {"entries": [1, 1]}, {"entries": []}]
    assert after(nested_past_the_end, logs=inside, node=1, n=2)["logs"][1] == {"entries": [1, 3]}
    for body, before in (
        (past_the_end, {"log": [0]}),
        (nested_past_the_end, {"logs": [{"entries": [1]}, *inside[:2]], "node": 1, "n": 1}),
    ):
        with pytest.raises(BoundError, match=r"test_errors\.py:\d+: .*at or past the end"):
            after(body, **before)


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


def test_constants_behave_as_in_python() -> None:
    said = []

    def counts(m: Any, s: State) -> None:
        one, two = m.node.lift(1), m.node.lift(2)
        said.append((two * 3, two // 2, (two + one) % 3, -two, 7 % two, 2 * one))
        assert [int(x) for x in said[-1]] == [6, 1, 0, -2, 1, 2]
        assert {0: "a", 1: "b"}[one] == "b"
        assert one in {1, 2}
        assert one in (0, 1)
        assert f"{two} {Colour.RED} {two:03}" == "2 RED 002"
        assert hash(Colour.RED) == hash("RED")
        assert sorted([two, one])[0] is one
        assert one == 1
        assert not two == 1

    Model(stepping(Base, counts)())
    assert said


def test_operators_on_sets_have_pythons_meaning() -> None:
    def sets(m: Any, s: State) -> None:
        require("proper", s.s < [0, 1])
        require("the other way", ([0, 1, 2] > s.s) & (s.s > []))
        s.next.s = ([0, 1] - s.s) | [2]
        s.next.disks = s.disks ^ [0, 1]
        s.next.n = -(s.n - 3)

    found = after(sets, s=[0], disks=[1, 2], n=1)
    assert (found["s"], found["disks"], found["n"]) == ([1, 2], [0, 2], 2)


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


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (lambda m, s: setattr(s.next, "n", s.n + 1), "n leaves 0..3"),
        (lambda m, s: setattr(s.next, "o", s.o.value - 1), "o leaves -1..3"),
        (lambda m, s: setattr(s.next, "log", s.log.append(s.n)), "log.length leaves 0..3"),
        (lambda m, s: s.next.row.__setitem__(s.n, 1), "index outside 0..2"),
        (lambda m, s: setattr(s.next, "s", s.s.with_(s.n)), "s leaves 0..7"),
    ],
)
def test_a_step_that_leaves_a_type_is_an_error(body: Body, field: str) -> None:
    with pytest.raises(BoundError, match=rf"test_errors\.py:\d+: step\(\): {re.escape(field)}"):
        after(body, n=3, log=[1] * 3)


def test_an_invariant_that_writes_is_refused() -> None:
    @invariant("test")
    def writes(m: Any, s: State) -> Any:
        s.next.n = 1
        return s.f

    with pytest.raises(LanguageError, match="only looks"):
        Model(Base(), [writes])


def test_an_invariant_that_yields_conditions_holds_if_all_do() -> None:
    @invariant("test")
    def both(m: Any, s: State) -> Any:
        yield s.f
        yield s.n > 0

    @invariant("test")
    def yields_and_returns(m: Any, s: State) -> Any:
        yield s.f
        return s.n > 0

    (yielded,) = Model(Base(), [both]).properties
    (joined,) = Model(Base(), [invariant("test")(lambda m, s: s.f & (s.n > 0))]).properties
    assert yielded.node is joined.node
    with pytest.raises(
        LanguageError, match="yields_and_returns yields conditions, so it cannot return one, too"
    ):
        Model(Base(), [yields_and_returns])


def test_refusals_name_the_guards() -> None:
    def guarded(m: Any, s: State) -> None:
        require("the flag is up", s.f)
        require("the number is small", s.n < 2)
        require("true anyway", s.n >= 0)

    model = Model(stepping(Base, guarded)())
    state = model.protocol.state.encode({**model.decode(model.initial[0]), "n": 3})
    assert Interpreter(model).refusals(state, model.instances[0]) == ["the flag is up", "the number is small"]
