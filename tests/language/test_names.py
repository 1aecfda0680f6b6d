"""A declaration with a reserved or unknown name, or without effect, is an error at its line."""

from __future__ import annotations

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
    Parameter,
    State,
    Struct,
    action,
    invariant,
    reachable,
    require,
    step_property,
)
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.state import Next
from highwater.model.language.types import StructValue
from tests.language.wrong import Base

NODE = Index("node", 2)
CRASHES = {"crashes": Parameter(1, 0, 2, "crashes")}


def public(*classes: type) -> list[str]:
    return sorted({name for c in classes for name in dir(c) if not name.startswith("_")})


def step(self: Any, s: State) -> None:
    """A valid action."""


def step_of(self: Any, s: State, who: Any) -> None:
    """A valid action."""


def holds(m: Any, s: State) -> Any:
    return s.f


def protocol(**attributes: Any) -> Any:
    return type("Wrong", (Base,), attributes)


def test_a_field_with_the_name_of_an_attribute_is_refused() -> None:
    for name in [*public(StructValue, Next), "type", "nodes", "_old", "_write", "__class__"]:
        with pytest.raises(LanguageError, match=f"Message cannot have a field '{name}'"):
            Struct("Message", **{name: Bool})
    for name in [*public(State), "next"]:
        with pytest.raises(
            LanguageError, match=rf"test_names\.py:\d+: the state cannot have a field '{name}'"
        ):
            protocol(define=lambda self, name=name: Struct("State", **{name: Bool}))()


def test_a_member_with_the_name_of_an_attribute_is_refused() -> None:
    for name in [*public(Enum), "name", "members", "low", "lift", "_number"]:
        with pytest.raises(LanguageError, match=f"'{name}' cannot be a member of Enum Kind"):
            Enum("Kind", ["RED", name])


@pytest.mark.parametrize(
    "name", ["self", "fields", "name", "next", "last", "length", "value", "set", "at", "low"]
)
def test_a_struct_can_have_any_other_field(name: str) -> None:
    """The field can be written, read and compared."""

    class Holds(Base):
        def define(self) -> Struct:
            self.inner = Struct("Inner", **{name: Int(0, 3)})
            return Struct("State", inner=self.inner, row=Array(NODE, self.inner))

        def initial(self) -> list[dict[str, Any]]:
            return [{"inner": {name: 1}, "row": [{name: 2}, {name: 3}]}]

        @action()
        def step(self, s: State) -> None:
            require("as it is", getattr(s.inner, name) == 1)
            require("as a whole", s.inner == self.inner(**{name: 1}))
            setattr(s.next.inner, name, getattr(s.row[0], name))
            s.next.row[1] = s.row[1].replace(**{name: 0})

    model = Model(Holds())
    (after,) = Interpreter(model).successors(model.initial[0])
    assert model.decode(after) == {"inner": {name: 2}, "row": [{name: 2}, {name: 0}]}


def test_a_value_outside_a_parameter_s_range_is_refused() -> None:
    sized = protocol(parameters={"size": Parameter(2, 1, 4, "how many")})
    for given, rules, message in (
        ({"size": 9}, None, "parameter size of wrong is 1 to 4, not 9"),
        ({"length": 1}, None, "no parameter 'length'; it has size"),
        ({}, {"x"}, "no rule 'x'"),
    ):
        with pytest.raises(LanguageError, match=message):
            sized(given, rules)


def test_a_property_exists_only_if_the_parameter_that_it_needs_is_not_zero() -> None:
    needs, crashing = invariant("test", needs="crashes")(holds), protocol(parameters=CRASHES)
    assert [p.name for p in Model(crashing(), [needs]).properties] == ["holds"]
    assert not Model(crashing({"crashes": 0}), [needs]).properties


# --- hidden actions, and blocks that end early --------------------------------------------------------


def untyped(value: object) -> Any:
    """The value, for an argument of a wrong type."""
    return value


def is_refused(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(LanguageError, match=message) as error:
        declare()
    assert "\n" not in str(error.value)
    assert re.search(r"(test_names|wrong)\.py:\d+$", str(error.value.place))


# --- names ------------------------------------------------------------------------------------------------------------


def of_step(m: Any, before: State, after: State) -> Any:
    return before.n <= after.n


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


def test_a_decorator_that_hides_an_action_is_refused() -> None:
    copied = functools.wraps(untyped(MARKED))(lambda *_: None)
    is_refused(lambda: protocol(step_of=copied), "hides 'step_of' of Wrong")
    is_refused(lambda: protocol(step_of=wraps(MARKED)), "hides 'step_of' of Wrong")
    is_refused(
        lambda: type("Derived", (protocol(step_of=MARKED),), {"step_of": step_of}),
        "'step_of' of Derived does not replace the action 'step_of' of its base: decorate it",
    )


def test_a_hidden_action_of_a_module_is_refused() -> None:
    module = types.ModuleType("steps")
    untyped(module).step_of = property(untyped(MARKED))
    is_refused(lambda: protocol(modules=(module,)), "hides 'step_of' of steps")


# --- blocks -----------------------------------------------------------------------------------------------------------
