"""A mistake in a declaration that would have no effect, or an unclear error, is refused at its line."""

from __future__ import annotations

import contextlib
import functools
import re
import types
from collections.abc import Callable
from typing import Any

import pytest

from highwater.checker.scenarios.catalogue import Definition, load
from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    LanguageError,
    Model,
    Seq,
    Set,
    State,
    action,
    eventually,
    invariant,
    otherwise,
    reachable,
    refines,
    step_property,
    weak,
    when,
    where,
)
from tests.language.test_names import holds, protocol, step, step_of
from tests.language.wrong import Base, at_its_place
from tests.zoo import stepping

Declared = Callable[[], object]
NODE = Index("node", 2)


def untyped(value: object) -> Any:
    """The value, for an argument of a wrong type."""
    return value


def listed(*declarations: tuple[Declared, str]) -> pytest.MarkDecorator:
    """One test for each pair of a wrong declaration and its error message."""
    ids = [f"{i}-{message[:28]}" for i, (_, message) in enumerate(declarations)]
    return pytest.mark.parametrize(("declare", "message"), declarations, ids=ids)


def is_refused(declare: Declared, message: str) -> None:
    with pytest.raises(LanguageError, match=message) as error:
        declare()
    assert "\n" not in str(error.value)
    assert re.search(r"(test_declarations|test_names|wrong)\.py:\d+$", str(error.value.place))


# --- names ------------------------------------------------------------------------------------------------------------


def of_step(m: Any, before: State, after: State) -> Any:
    return before.n <= after.n


def same() -> Any:
    """A second invariant with the name of ``holds``."""
    return invariant("test", name="holds")(lambda m, s: s.g)


@listed(
    (lambda: protocol(invariants=(invariant("test")(holds), same())), "two properties have the name 'holds'"),
    (
        lambda: protocol(
            invariants=(invariant("test", name="of_step")(holds),),
            step_properties=(step_property("test")(of_step),),
        ),
        "two properties have the name 'of_step'",
    ),
    *(
        (
            lambda kind=kind, mark=mark: protocol(invariants=(same(),), **{kind: (mark("test")(holds),)}),
            "two properties have the name 'holds'",
        )
        for kind, mark in (("liveness", eventually), ("reachable", reachable), ("helpers", invariant))
    ),
    *(
        (
            lambda name=name: protocol(invariants=(invariant("test", name=name)(holds),)),
            f"cannot be called '{name}'",
        )
        for name in ("deadlock", "invariants", "step_properties", "liveness", "helpers", "reachable")
    ),
)
def test_a_name_that_hides_another_is_refused(declare: Declared, message: str) -> None:
    is_refused(declare, message)


def test_properties_made_in_a_loop_can_have_names() -> None:
    steps = tuple(step_property("test", name=f"step_{i}")(of_step) for i in range(2))
    goals = tuple(reachable("test", name=f"goal_{i}")(holds) for i in range(2))
    made = protocol(step_properties=steps, reachable=goals)
    assert [p.name for p in Model(made(), step_properties=steps).step_properties] == ["step_0", "step_1"]
    assert [g.name for g in goals] == ["goal_0", "goal_1"]


def test_a_property_of_an_extended_protocol_cannot_hide_one_of_another_kind() -> None:
    protocol = load("truncation").protocol
    name, source = load("truncation").invariants[0].name, load("truncation").invariants[0].source

    @step_property(source, name=name)
    def grows(m: Any, before: State, after: State) -> Any:
        return True

    extended = type("Extended", (protocol,), {"step_properties": (grows,)})
    with pytest.raises(LanguageError, match=f"two properties have the name '{name}' in Extended"):
        Definition.of("extended", extended)


# --- hidden actions and properties ------------------------------------------------------------------------------------


def wraps(function: Any) -> Any:
    """A decorator that keeps what it gets in the closure of a new function."""

    def step_of(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return step_of


MARKED = action(who="node")(step_of)


@listed(
    (lambda: protocol(step_of=property(untyped(MARKED))), "hides 'step_of' of Wrong"),
    (lambda: protocol(step_of=staticmethod(untyped(MARKED))), "hides 'step_of' of Wrong"),
    (lambda: protocol(step_of=classmethod(untyped(MARKED))), "hides 'step_of' of Wrong"),
    (lambda: protocol(step_of=functools.cached_property(untyped(MARKED))), "hides 'step_of' of Wrong"),
    (lambda: protocol(step_of=functools.wraps(untyped(MARKED))(lambda *_: None)), "hides 'step_of' of Wrong"),
    (lambda: protocol(step_of=wraps(MARKED)), "hides 'step_of' of Wrong"),
    (lambda: protocol(holds=property(untyped(invariant("test")(holds)))), "hides 'holds' of Wrong"),
    (
        lambda: type("Derived", (protocol(step_of=MARKED),), {"step_of": step_of}),
        "'step_of' of Derived does not replace the action 'step_of' of its base: decorate it",
    ),
)
def test_a_decorator_that_hides_an_action_is_refused(declare: Declared, message: str) -> None:
    is_refused(declare, message)


def test_a_hidden_action_of_a_module_is_refused() -> None:
    module = types.ModuleType("steps")
    untyped(module).step_of = property(untyped(MARKED))
    is_refused(lambda: protocol(modules=(module,)), "hides 'step_of' of steps")


# --- blocks -----------------------------------------------------------------------------------------------------------


def returns(m: Any, s: State) -> None:
    with when(s.f):
        s.next.n = 1
        return
    s.next.g = True


def breaks(m: Any, s: State) -> None:
    for n in m.node:
        with when(s.f):
            s.next.row[n] = 1
            break


def continues(m: Any, s: State) -> None:
    for n in m.node:
        with when(s.f):
            pass
        with otherwise(
            s.g,
        ):
            if n == 0:
                continue
            s.next.row[n] = 1


def returns_in_a_loop(m: Any, s: State) -> None:
    with when(s.f):
        for n in m.node:
            s.next.row[n] = 1
            if n == 1:
                return


def helped(m: Any, s: State) -> None:
    returns(m, s)


@pytest.mark.parametrize(
    ("body", "word", "line"),
    [
        (returns, "return", 3),
        (breaks, "break", 4),
        (continues, "continue", 8),
        (returns_in_a_loop, "return", 5),
    ],
)
def test_leaving_a_block_is_refused(body: Any, word: str, line: int) -> None:
    with pytest.raises(
        LanguageError, match=rf"'{word}' leaves a `with when\(…\):` block in every state"
    ) as error:
        Model(stepping(Base, body)())
    assert str(error.value.place).endswith(f"test_declarations.py:{body.__code__.co_firstlineno + line}")


def test_leaving_a_block_of_a_helper_function_is_refused() -> None:
    with pytest.raises(LanguageError, match="'return' leaves") as error:
        Model(stepping(Base, helped)())
    at_its_place(error.value, returns)


def test_what_is_inside_or_around_a_block_can_end_early() -> None:
    def steps(m: Any, s: State) -> None:
        def one(n: Any) -> Any:
            return where(n == 1, 1, 2)

        with contextlib.nullcontext():
            with when(s.f):
                for n in m.node:
                    if n == 0:
                        continue
                    s.next.row[n] = one(n)
                    break
            return

    (instance,) = Model(stepping(Base, steps)()).instances
    assert len(instance.writes) == 1


# --- comparisons of Python objects ------------------------------------------------------------------------------------


# --- functions, domains and sizes -------------------------------------------------------------------------------------


def fair(assumed: Any) -> Declared:
    return lambda: Model(protocol(step=action()(step))(), liveness=[eventually("test", fair=assumed)(holds)])


def from_ways(ways: Any) -> Declared:
    return lambda: Model(protocol(ways=ways, step_of=MARKED_WAYS)())


MARKED_WAYS = action(who="ways")(step_of)


@listed(
    (
        lambda: invariant("test")(untyped(of_step)),
        r"an invariant is a function of \(protocol, state\); of_step: missing .*'after'",
    ),
    (
        lambda: step_property("test")(untyped(holds)),
        r"a step property is a function of \(protocol, before, after\); holds: too many",
    ),
    (
        lambda: eventually("test")(lambda m: True),
        r"the eventually property is a function of \(protocol, state\)",
    ),
    (lambda: refines(Base, "test")(untyped(of_step)), r"a refinement is a function of \(protocol, state\)"),
    (
        lambda: invariant("test")(untyped(invariant("test")(holds))),
        r"a function of \(protocol, state\), not Invariant",
    ),
    (fair(weak("step", when=lambda m: True)), r"when= of holds is a function of \(protocol, state\)"),
    (fair("step"), r"fair= of liveness property holds is weak\(…\), .*, not 'step'"),
    (fair([weak("step"), weak("step")]), r"or weak\(…\) \+ strong\(…\), not \[\("),
    (lambda: weak("step", by="node"), r"by= lists the names of parameters: write by=\['node'\]"),
    (lambda: weak(untyped(MARKED)), r"names actions by texts or either\(…\), not Action"),
    (
        lambda: action(who=untyped(NODE))(step_of),
        "the domain of 'who' of step_of is the name of an attribute .* write who=",
    ),
    (
        lambda: eventually("test", c=untyped(NODE))(lambda m, s, c: s.f),
        "the domain of 'c' .* is the name of an attribute",
    ),
    (
        from_ways("abc"),
        "step_of of Wrong: parameter 'who': 'ways' cannot be 'abc': write a type, a list or a tuple",
    ),
    (from_ways(iter([1, 2])), "'ways' cannot be <list_iterator"),
    (from_ways({"a"}), "'ways' cannot be {'a'}"),
    (
        from_ways(Int(0, 1 << 17)),
        r"'ways' cannot be Int\(0\.\.131072\): it has too many values \(the maximum is 131,072\)",
    ),
    (from_ways(Set(Index("node", 60))), "too many values"),
    (
        lambda: Model(protocol(ways=Int(0, 400), step=action(a="ways", b="ways")(step_of_two))()),
        "step_of_two of Wrong has 160,801 combinations of parameter values",
    ),
    (lambda: Index(untyped(3), untyped("node")), 'write Index\\("broker", 3\\), not 3, .node.'),
    (lambda: Index("node", True), "not 'node', True"),
    (lambda: Enum("kind", True), "an Enum has a name and members"),
    (lambda: Enum(untyped(3), "kind"), "an Enum has a name and members"),
    (lambda: Seq(Bool, 10**6), r"Seq\(Bool, 1000000\) has too many scalars"),
    (lambda: Seq(Array(Index("n", 1000), Bool), 1000), "too many scalars"),
    (lambda: Array(Index("n", 1 << 10), Array(Index("k", 1 << 10), Bool)), "too many scalars"),
)
def test_a_wrong_argument_of_a_declaration_is_refused(declare: Declared, message: str) -> None:
    is_refused(declare, message)


def step_of_two(self: Any, s: State, a: Any, b: Any) -> None:
    """A valid action with two parameters."""
