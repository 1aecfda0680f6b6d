"""A declaration with a reserved or unknown name, or without effect, is an error at its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    LanguageError,
    Model,
    Option,
    Parameter,
    Profile,
    Rule,
    Seq,
    Set,
    State,
    Struct,
    action,
    eventually,
    invariant,
    require,
)
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.state import Next
from highwater.model.language.types import StructValue
from tests.language.wrong import Base, at_its_place

NODE = Index("node", 2)
CAREFUL = {"careful": Rule("test", "It waits.")}
CRASHES = {"crashes": Parameter(1, 0, 2, "crashes")}


def public(*classes: type) -> list[str]:
    return sorted({name for c in classes for name in dir(c) if not name.startswith("_")})


def step(self: Any, s: State) -> None:
    """A valid action."""


def step_of(self: Any, s: State, who: Any) -> None:
    """A valid action."""


def without_state(self: Any) -> None:
    """Not an action: no state parameter."""


def on(self: Any, s: State) -> None:
    """A name that every protocol already has."""


def holds(m: Any, s: State) -> Any:
    return s.f


def protocol(**attributes: Any) -> Any:
    return type("Wrong", (Base,), attributes)


def sets(**attributes: Any) -> Any:
    """A protocol whose ``define`` also sets these attributes."""

    def define(self: Any) -> Struct:
        for name, value in attributes.items():
            setattr(self, name, value)
        return Struct("State", f=Bool)

    return protocol(define=define)()


def starting(states: Any) -> Any:
    """The initial states of a protocol whose ``initial`` returns ``states``."""
    fields = {"f": Bool, "pair": Struct("Pair", n=Int(0, 3))}
    wrong = protocol(define=lambda self: Struct("State", **fields), initial=lambda self: states)
    return Model(wrong()).initial


START = {"f": False, "pair": {"n": 1}}
DECLARATIONS: list[tuple[Callable[[], object], str]] = [
    (lambda: Enum("Kind", "RED GREEN RED"), "different names"),
    (lambda: Enum("Kind", ""), "different names"),
    (lambda: Enum("Kind", [1, 2]), "are names, not 1"),  # type: ignore[list-item]
    (lambda: Array(Int(0, 1), Bool), "Array needs an Index or an Enum"),  # type: ignore[arg-type]
    (lambda: Set(Bool), "Set needs an Index or an Enum"),  # type: ignore[arg-type]
    (lambda: Array(NODE, bool), "Array needs a type"),  # type: ignore[arg-type]
    (lambda: Option(3), "Option needs a type"),  # type: ignore[arg-type]
    (lambda: Seq(Bool, "3"), "whole number"),  # type: ignore[arg-type]
    (lambda: Seq(int, 3), "Seq needs a type"),  # type: ignore[arg-type]
    (lambda: Int(3, 1), "has no value"),
    (lambda: Int(0, 1.5), "whole numbers, not 1.5"),  # type: ignore[arg-type]
    (lambda: Parameter(9, 1, 5, "too much"), "not in its range, 1 to 5"),
    # actions
    (lambda: action(s="node")(step), r"cannot be called 's': its method begins with \(self, s\)"),
    (lambda: action(self="node")(step), "cannot be called 'self'"),
    (lambda: action()(step_of), r"'who' of action step_of has no domain: write @action\(…, who="),
    (lambda: action(who="node")(step), "gives 'who' a domain"),
    (lambda: action()(without_state), r"needs the parameters \(self, s\)"),
    (lambda: action(says="{what}", who="node")(step_of), r"names \{what\}; its parameters are who"),
    (lambda: action(says="takes {}")(step), r"names \{\}; its parameters are none"),
    (lambda: action(says="takes {who", who="node")(step_of), "the sentence of action step_of"),
    (lambda: protocol(on=action()(on)), "an action cannot be called 'on'"),
    (lambda: action(step), "@action needs parentheses"),  # type: ignore[arg-type]
    (lambda: invariant(holds), "@invariant needs parentheses"),  # type: ignore[arg-type]
    (lambda: eventually(holds), "@eventually needs parentheses"),  # type: ignore[arg-type]
    # properties and reserved attributes of a class
    (lambda: protocol(holds=invariant("test")(holds)), "would not be checked"),
    (lambda: protocol(invariants=invariant("test")(holds)), "is a tuple of what @invariant marks"),
    (lambda: protocol(invariants=(holds,)), "is a tuple of what @invariant marks"),
    (
        lambda: sets(state=Enum("State", "IDLE BUSY")),
        r"define\(\) sets self\.state, which every protocol has",
    ),
    (lambda: sets(p=Index("p", 3)), r"define\(\) sets self\.p,"),
    (lambda: sets(rules=Set(NODE)), r"define\(\) sets self\.rules,"),
    # rules, parameters and domains
    (
        lambda: protocol(rules=CAREFUL, profiles={"hasty": Profile.of("nothing", "carefull")})(),
        "profile hasty: .*no rule 'carefull'.*did you mean 'careful'",
    ),
    (
        lambda: Model(protocol(rules=CAREFUL, step=action(rule="carefull")(step))()),
        "no rule 'carefull'.*did you mean 'careful'",
    ),
    (lambda: Model(Base(), [invariant("test", rule="careful")(holds)]), "no rule 'careful'"),
    (
        lambda: Model(protocol(parameters=CRASHES)(), [invariant("test", needs="crashs")(holds)]),
        "no parameter 'crashs'.*did you mean 'crashes'",
    ),
    (
        lambda: Model(Base(), [invariant("test")(holds) for _ in range(2)]),
        "two properties have the name 'holds'",
    ),
    (lambda: Model(protocol(step=action(who="nodes")(step_of))()), r"'nodes', which define\(\) does not set"),
    (
        lambda: Model(protocol(nodes=3, step=action(who="nodes")(step_of))()),
        "ranges over 'nodes', which is neither a type nor a list",
    ),
    (
        lambda: Model(protocol(step=action(who="pair")(step_of))()),
        "parameter 'who': Pair cannot be enumerated",
    ),
    # results
    (lambda: protocol(define=lambda self: {"f": Bool})(), r"define\(\) returned .*it returns the Struct"),
    (lambda: protocol(define=lambda self: None)(), r"define\(\) returned None"),
    (lambda: Model(protocol(step=action()(holds))()), "action holds returned a value"),
    (lambda: starting([{**START, "g": 1}]), "State has no field 'g'"),
    (lambda: starting([{**START, "pair": {"n": 7}}]), r"State\.pair: Pair\.n: 7 is not a value of Int"),
    (lambda: starting([{**START, "f": 0}]), r"State\.f: expected a bool, not 0"),
    (lambda: starting([]), "has no initial state"),
    (lambda: starting(START), "a list of states, not one state"),
    (lambda: starting(None), "a list of states, not None"),
    (lambda: starting([None]), "expected State, not None"),
    (lambda: starting([{1: 2}]), "expected State"),
]


@pytest.mark.parametrize(
    ("declare", "message"), DECLARATIONS, ids=[f"{i}-{m[:24]}" for i, (_, m) in enumerate(DECLARATIONS)]
)
def test_a_wrong_declaration_is_one_line_with_its_place(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(LanguageError, match=message) as error:
        declare()
    assert "\n" not in str(error.value)
    assert re.search(r"language/(test_names|wrong)\.py:\d+$", str(error.value.place))


def test_a_second_action_of_one_name_is_refused() -> None:
    def twice() -> object:
        class Wrong(Base):
            @action()
            def step(self, s: State) -> None:
                s.next.n = 1

            @action()  # type: ignore[no-redef]
            def step(self, s: State) -> None:  # noqa: F811
                s.next.n = 2

        return Wrong

    with pytest.raises(LanguageError, match="there is an action 'step' above") as error:
        twice()
    at_its_place(error.value, twice)


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


@pytest.mark.parametrize("result", [lambda s: None, lambda s: s.n, lambda s: 1, lambda s: "yes"])
def test_a_property_that_returns_no_condition_is_refused(result: Callable[[State], Any]) -> None:
    def gives(m: Any, s: State) -> Any:
        return result(s)

    place = r"test_names\.py:\d+: .*returned .*it returns a condition"
    with pytest.raises(LanguageError, match=place):
        Model(Base(), [invariant("test")(gives)])
    with pytest.raises(LanguageError, match=place):
        Model(Base(), [], [eventually("test")(gives)])
