"""A mistake in an action is an error with its place, even where Python itself would give a wrong answer."""

# The tests write code that a careful author would not write.
# ruff: noqa: C416, E712, SIM201, SIM300

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
    greatest,
    implies,
    invariant,
    require,
    size,
    when,
    where,
)
from highwater.model.language.graph import inputs_of
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.step_properties import step_property
from highwater.model.language.types import Int
from tests.language.wrong import Base, Colour, Shape, at_its_place, refused
from tests.zoo import stepping

Body = Callable[[Any, Any], object]


def cases(*bodies: tuple[Body, str]) -> pytest.MarkDecorator:
    """One test for each pair of body and error message. Numbered ids: lambdas have no names."""
    return pytest.mark.parametrize(
        ("body", "message"), bodies, ids=[f"{i}-{message[:24]}" for i, (_, message) in enumerate(bodies)]
    )


@pytest.mark.parametrize(
    "body",
    [
        lambda m, s: require("", s.next.n == 2),
        lambda m, s: require("", s.next.n < 2),
        lambda m, s: require("", s.f & s.next.f),
        lambda m, s: require("", not s.next.f),
        lambda m, s: require("", 1 in s.next.s),
        lambda m, s: require("", s.next == s),
        lambda m, s: [x for x in s.next.log],
        lambda m, s: len(s.next.log),
        lambda m, s: 1 - s.next.n,
        lambda m, s: -s.next.n,
        lambda m, s: s.next.n(),
        lambda m, s: s.row[s.next.n],
        lambda m, s: where(s.f, s.next.n, s.n),
        lambda m, s: f"{s.next.n}",
        lambda m, s: s.pair.replace(up=s.next.f),
    ],
)
def test_reading_s_next_is_refused(body: Body) -> None:
    refused(body, r"s\.next.*only written")


def test_the_error_of_an_assignment_in_place_suggests_the_right_form() -> None:
    def adds(m: Any, s: State) -> None:
        s.next.n += 1

    def replaces(m: Any, s: State) -> None:
        s.next = s  # type: ignore[assignment]

    def copies(m: Any, s: State) -> None:
        s.next.n = s.next.row[0]

    refused(adds, r"s\.next\.… = s\.… \+ …")
    refused(replaces, r"write s\.next\.field = …")
    refused(copies, "only written")


@cases(
    (lambda m, s: require("", s.colour == Shape.ROUND), "do not go together"),
    (lambda m, s: require("", s.colour < s.shape), "do not go together"),
    (lambda m, s: require("", s.colour == 0), r"expected Enum\(Colour\), not 0"),
    (lambda m, s: require("", s.colour == "PINK"), r"expected Enum\(Colour\), not 'PINK'"),
    (lambda m, s: require("", s.colour == Colour.REDD), "has no member 'REDD'; did you mean 'RED'"),
    (lambda m, s: s.colour + 1, "names, not numbers"),
    (lambda m, s: greatest(1, s.pair), "compare numbers"),
    (lambda m, s: where(s.f, s.colour, s.shape), "do not go together"),
    (lambda m, s: m.state.fields["colour"].lift(s.shape), r"expected Enum\(Colour\)"),
    (lambda m, s: require("", s.node == s.disk), "do not go together"),
    (lambda m, s: require("", s.s.has(s.disk)), r"expected Index\(node, 3\), not symbolic Index\(disk, 3\)"),
    (lambda m, s: require("", s.s == s.disks), "do not go together"),
    (lambda m, s: s.s | s.disks, r"expected Set\(node\)"),
    (lambda m, s: require("", s.pair == s.other_pair), "do not go together"),
    (lambda m, s: require("", s.pair == s.parcel), "Option is compared with"),
    (lambda m, s: require("", s.o == s.negative), r"expected Option"),
    (lambda m, s: require("", s.f == s.n), "do not go together"),
    (lambda m, s: require("", s.f == 1), "expected a bool, not 1"),
    (lambda m, s: require("", s.n == True), "not True"),
    (lambda m, s: require("", m.pair == s.pair), "is a type"),
    (lambda m, s: require("", s.pair == m.pair), "expected Pair"),
    (lambda m, s: require("", 1), "expected a bool, not 1"),  # type: ignore[arg-type]
    (lambda m, s: require("", s.s.has), "expected a bool"),
    (lambda m, s: require("", s.log == s.s), "do not go together"),
)
def test_values_of_different_types_do_not_go_together(body: Body, message: str) -> None:
    refused(body, message)


@cases(
    (lambda m, s: require("", 1 in s.row), r"write \.has"),
    (lambda m, s: require("", 1 in s.log), r"write \.has"),
    (lambda m, s: require("", s.n in (1, 2)), "cannot decide"),
    (lambda m, s: require("", s.n in {1, 2}), "any_of"),
    (lambda m, s: require("", "n" in s), "read its fields"),
    (lambda m, s: [x for x in s.log], "cannot be iterated"),
    (lambda m, s: [x for x in s], "read its fields"),
    (lambda m, s: len(s.log), r"write size\(x\)"),
    (lambda m, s: size(s.row), "counts a Set or a Seq"),
    (lambda m, s: hash(s.n), "not known while tracing"),
    (lambda m, s: hash(s), "read its fields"),
    (lambda m, s: sorted([s.n, s.node]), "cannot decide"),
    (lambda m, s: min(s.n, 1), "least, greatest"),
    (lambda m, s: int(s.n), "not known while tracing"),
    (lambda m, s: require(f"{s.n} is small", s.f), "not known while tracing, so it cannot become text"),
    (lambda m, s: require(str(s.log), s.f), "cannot become text"),
    (lambda m, s: require("", 0 < s.n < 3), "chained comparison"),
    (lambda m, s: require("", not s.f), "'not'"),
    (lambda m, s: require("", bool(s.o)), "no truth value"),
    (lambda m, s: require("", bool(s)), "read its fields"),
    (lambda m, s: 1 if s.n else 2, "no truth value"),
    (lambda m, s: require("", s.n == 1 & s.f), "in parentheses"),
    (lambda m, s: require("", s.f & s.n == 1), "in parentheses"),
    (lambda m, s: require("", s.f | s.n > 1), "in parentheses"),
    (lambda m, s: require("", ~s.n == 1), "in parentheses"),
    (lambda m, s: s.n / 2, "/ has no meaning .*: write // for the quotient"),
    (lambda m, s: divmod(s.n, 2), r"divmod\(\) has no meaning .*: write // for the quotient"),
    (lambda m, s: s.n**2, r"\*\* has no meaning"),
    (lambda m, s: abs(s.n), r"abs\(\) has no meaning"),
    (lambda m, s: s.f + 1, r"\+ has no meaning .* total\(conditions\)"),
    (lambda m, s: s.f < s.g, "< has no meaning"),
    (lambda m, s: s.o + 1, r"under \.is_some take its \.value"),
    (lambda m, s: 3 <= s.o, r"under \.is_some take its \.value"),
    (lambda m, s: s.parcel.who, r"has no 'who'; under \.is_some"),
    (lambda m, s: s.log + s.row, r"expected Seq"),
    (lambda m, s: s.log.lenght, "did you mean 'length'"),
    (lambda m, s: s.s.add(1), "has no 'add'"),
    (lambda m, s: s.n[0], "no elements to index"),
    (lambda m, s: s.missing, "no field 'missing'"),
    (lambda m, s: s.colur, "did you mean 'colour'"),
    (lambda m, s: setattr(s.next, "colur", 1), "did you mean 'colour'"),
    (lambda m, s: s.nodes, "no field 'nodes'; .*did you mean 'node'"),
    (lambda m, s: s.replace(n=1), "no field 'replace'"),
    (lambda m, s: setattr(s, "n", 1), r"write s\.next\.n"),
    (lambda m, s: s.row.__setitem__(0, 1), "values never change"),
    (lambda m, s: m.p.most, "no parameter 'most'"),
    (lambda m, s: m.on("hasty"), "no rule 'hasty'"),
)
def test_an_undefined_operation_on_a_value_names_its_place(body: Body, message: str) -> None:
    refused(body, message)


def two_writers(m: Any, s: State) -> None:
    s.next.n = 1
    s.next.n = 2


def a_loop_over_a_set(m: Any, s: State) -> None:
    for node in s.s:
        require("never", node == 1)


def an_inner_assignment(m: Any, s: State) -> None:
    s.row[1].x = 1


@cases(
    (two_writers, "second time; the first time at .*test_errors.py:"),
    (a_loop_over_a_set, "loop over its index type"),
    (an_inner_assignment, "values never change"),
    (lambda m, s: require("", s.f and s.n == 1), r"combine with &"),
    (lambda m, s: setattr(s.next, "s", 5), r"expected Set\(node\), not 5"),
    (lambda m, s: setattr(s.next, "n", 7), r"7 is not a value of Int\(0\.\.3\)"),
    (lambda m, s: require("", s.n == s.o), r"\.is_\(x\)"),
)
def test_a_mistake_in_a_statement_names_its_place(body: Body, message: str) -> None:
    refused(body, message)


@cases(
    (lambda m, s: require("", s.log[-1] == 1), r"write \.last"),
    (lambda m, s: require("", s.log[m.node.lift(0) - 1] == 1), r"a loop, guard what uses the element: `if"),
    (lambda m, s: require("", s.log[s.n - 9] == 1), r"-9\.\.-6"),
    (lambda m, s: s.log[1:], r"write \.truncate"),
    (lambda m, s: s.log.at(-1), "no position"),
    (lambda m, s: s.row[-1], r"-1 is not a value of Index\(node, 3\)"),
    (lambda m, s: require("", s.row[m.node.lift(0) - 1] == 1), "-1 is no index"),
    (lambda m, s: require("", s.row[s.n + 3] == 1), r"3\.\.6 is no index"),
    (lambda m, s: s.row[1:], "expected Index"),
    (lambda m, s: setattr(s.next, "row", s.row.set(m.node.lift(2) + 1, 0)), "3 is no index"),
    (lambda m, s: setattr(s.next, "g", s.f & s.logs[m.node.lift(0) - 1].entries.has(1)), "-1 is no index"),
    (lambda m, s: s.next.row[m.node.lift(2) + 1], "3 is no index"),
    (lambda m, s: s.next.log[3], "3 is no index"),
)
def test_an_index_that_is_outside_in_every_state_is_an_error(body: Body, message: str) -> None:
    refused(body, message)


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
