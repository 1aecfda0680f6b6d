"""Names that would read as something else are refused where they are declared; so are declarations that do nothing."""

from __future__ import annotations

import inspect
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
from highwater.model.language.state import Next
from highwater.model.language.values import StructValue
from tests.language.wrong import Base


def said(declare: Callable[[], object], message: str) -> None:
    """Declaring this is refused with one line, which names a place in this function's own source."""
    lines, first = inspect.getsourcelines(declare)
    with pytest.raises(LanguageError, match=message) as error:
        declare()
    assert "\n" not in str(error.value)
    assert error.value.place is not None, error.value
    file, line = error.value.place.rsplit(":", 1)
    assert file.endswith("test_names.py")
    assert first <= int(line) < first + len(lines)


def public(*classes: type) -> list[str]:
    return sorted({name for c in classes for name in dir(c) if not name.startswith("_")})


@pytest.mark.parametrize("name", [*public(StructValue, Next), "type", "nodes", "_old", "_write", "__class__"])
def test_fields_that_values_have_already_are_refused(name: str) -> None:
    said(lambda: Struct("Message", **{name: Bool}), f"Message cannot have a field '{name}'")


@pytest.mark.parametrize(
    "name", ["self", "fields", "name", "next", "last", "length", "value", "set", "at", "low"]
)
def test_other_names_are_fields_like_any(name: str) -> None:
    """Of a struct within the state; each is written, read and compared."""

    class Holds(Base):
        def define(self) -> Struct:
            self.inner = Struct("Inner", **{name: Int(0, 3)})
            return Struct("State", inner=self.inner, row=Array(Index("node", 2), self.inner))

        def initial(self) -> list[dict[str, Any]]:
            return [{"inner": {name: 1}, "row": [{name: 2}, {name: 3}]}]

        @action()
        def step(self, s: State) -> None:
            require("as it is", getattr(s.inner, name) == 1)
            require("as a whole", s.inner == self.inner(**{name: 1}))
            setattr(s.next.inner, name, getattr(s.row[0], name))
            s.next.row[1] = s.row[1].replace(**{name: 0})

    from highwater.model.language.interpreter import Interpreter

    model = Model(Holds())
    (after,) = Interpreter(model).successors(model.initial[0])
    assert model.decode(after) == {"inner": {name: 2}, "row": [{name: 2}, {name: 0}]}


@pytest.mark.parametrize("name", public(State) or ["next"])
def test_fields_that_every_state_has_already_are_refused(name: str) -> None:
    class Holds(Base):
        def define(self) -> Struct:
            return Struct("State", **{name: Bool})

    with pytest.raises(LanguageError, match=rf"test_names\.py:\d+: the state cannot have a field '{name}'"):
        Holds()


def test_next_is_a_name_that_every_state_has() -> None:
    class Holds(Base):
        def define(self) -> Struct:
            return Struct("State", next=Bool)

    with pytest.raises(LanguageError, match=r"test_names\.py:\d+: the state cannot have a field 'next'"):
        Holds()


@pytest.mark.parametrize("name", [*public(Enum), "name", "members", "low", "lift", "_number"])
def test_members_that_every_enumeration_has_already_are_refused(name: str) -> None:
    said(lambda: Enum("Kind", ["RED", name]), f"'{name}' cannot be a member of Enum Kind")


def test_members_of_an_enumeration_differ() -> None:
    said(lambda: Enum("Kind", "RED GREEN RED"), "different names")
    said(lambda: Enum("Kind", ""), "different names")
    said(lambda: Enum("Kind", [1, 2]), "are names, not 1")  # type: ignore[list-item]


def test_types_are_made_of_types() -> None:
    node = Index("node", 2)
    said(lambda: Array(Int(0, 1), Bool), "Array needs an Index or an Enum")  # type: ignore[arg-type]
    said(lambda: Set(Bool), "Set needs an Index or an Enum")  # type: ignore[arg-type]
    said(lambda: Array(node, bool), "Array needs a type")  # type: ignore[arg-type]
    said(lambda: Option(3), "Option needs a type")  # type: ignore[arg-type]
    said(lambda: Seq(Bool, "3"), "whole number")  # type: ignore[arg-type]
    said(lambda: Seq(int, 3), "Seq needs a type")  # type: ignore[arg-type]
    said(lambda: Int(3, 1), "has no value")
    said(lambda: Int(0, 1.5), "whole numbers, not 1.5")  # type: ignore[arg-type]
    said(lambda: Parameter(9, 1, 5, "too much"), "not in its range, 1 to 5")


def test_parameters_of_an_action_have_names_of_their_own() -> None:
    def first() -> object:
        class Wrong(Base):
            @action(s="node")
            def step(self, s: State) -> None:
                pass

        return Wrong

    def itself() -> object:
        class Wrong(Base):
            @action(self="node")
            def step(self, s: State) -> None:
                pass

        return Wrong

    def no_domain() -> object:
        class Wrong(Base):
            @action()
            def step(self, s: State, who: Any) -> None:
                pass

        return Wrong

    def no_parameter() -> object:
        class Wrong(Base):
            @action(who="node")
            def step(self, s: State) -> None:
                pass

        return Wrong

    def no_state() -> object:
        class Wrong(Base):
            @action()
            def step(self) -> None:
                pass

        return Wrong

    said(first, r"cannot be called 's': its method begins with \(self, s\)")
    said(itself, "cannot be called 'self'")
    said(no_domain, r"'who' of action step has no domain: write @action\(…, who=")
    said(no_parameter, "gives 'who' a domain")
    said(no_state, r"needs the parameters \(self, s\)")


def test_the_sentence_of_an_action_names_its_parameters() -> None:
    def another() -> object:
        class Wrong(Base):
            @action(says="{who} takes {what}", who="node")
            def step(self, s: State, who: Any) -> None:
                pass

        return Wrong

    def no_name() -> object:
        class Wrong(Base):
            @action(says="takes {}")
            def step(self, s: State) -> None:
                pass

        return Wrong

    def unclosed() -> object:
        class Wrong(Base):
            @action(says="takes {who", who="node")
            def step(self, s: State, who: Any) -> None:
                pass

        return Wrong

    said(another, r"names \{what\}; its parameters are who")
    said(no_name, r"names \{\}; its parameters are none")
    said(unclosed, "the sentence of action step")


def test_what_would_not_be_there_is_refused() -> None:
    def twice() -> object:
        class Wrong(Base):
            @action()
            def step(self, s: State) -> None:
                s.next.n = 1

            @action()  # type: ignore[no-redef]
            def step(self, s: State) -> None:  # noqa: F811
                s.next.n = 2

        return Wrong

    def bare() -> object:
        class Wrong(Base):
            @action  # type: ignore[arg-type]
            def step(self, s: State) -> None:  # type: ignore[misc]
                pass

        return Wrong

    def a_bare_invariant() -> object:
        @invariant  # type: ignore[arg-type]
        def holds(m: Any, s: State) -> Any:
            return s.f

        return holds

    def a_bare_goal() -> object:
        @eventually  # type: ignore[arg-type]
        def comes(m: Any, s: State) -> Any:
            return s.f

        return comes

    def not_listed() -> object:
        class Wrong(Base):
            @invariant("test")
            def holds(m: Any, s: State) -> Any:
                return s.f

        return Wrong

    def not_a_list() -> object:
        class Wrong(Base):
            invariants = invariant("test")(lambda m, s: s.f)  # type: ignore[assignment]

        return Wrong

    def no_marks() -> object:
        class Wrong(Base):
            invariants = (lambda m, s: s.f,)  # type: ignore[assignment]

        return Wrong

    said(twice, "there is an action 'step' above")
    said(bare, "@action needs parentheses")
    said(a_bare_invariant, "@invariant needs parentheses")
    said(a_bare_goal, "@eventually needs parentheses")
    said(not_listed, "would not be checked")
    said(not_a_list, "is a tuple of what @invariant marks")
    said(no_marks, "is a tuple of what @invariant marks")


def test_what_every_protocol_has_is_no_name_of_an_action_or_a_type() -> None:
    def an_action() -> object:
        class Wrong(Base):
            @action()
            def on(self, s: State) -> None:  # type: ignore[override]
                pass

        return Wrong

    def the_state() -> object:
        class Wrong(Base):
            def define(self) -> Struct:
                self.state = Enum("State", "IDLE BUSY")  # type: ignore[assignment]
                return Struct("State", f=Bool)

        return Wrong()

    def the_parameters() -> object:
        class Wrong(Base):
            def define(self) -> Struct:
                self.p = Index("p", 3)  # type: ignore[assignment]
                return Struct("State", f=Bool)

        return Wrong()

    def the_rules() -> object:
        class Wrong(Base):
            def define(self) -> Struct:
                self.rules = Set(Index("rule", 3))  # type: ignore[misc, assignment]
                return Struct("State", f=Bool)

        return Wrong()

    said(an_action, "an action cannot be called 'on'")
    said(the_state, r"define\(\) sets self\.state, which every protocol has")
    said(the_parameters, r"define\(\) sets self\.p,")
    said(the_rules, r"define\(\) sets self\.rules,")


def test_rules_and_properties_that_there_are_not() -> None:
    def a_profile() -> object:
        class Wrong(Base):
            rules = {"careful": Rule("test", "It waits.")}
            profiles = {"hasty": Profile.of("nothing is careful", "carefull")}

            def define(self) -> Struct:
                return Struct("State", f=Bool)

        return Wrong()

    def an_action() -> object:
        class Wrong(Base):
            rules = {"careful": Rule("test", "It waits.")}

            @action(rule="carefull")
            def step(self, s: State) -> None:
                s.next.f = True

        return Model(Wrong())

    def an_invariant() -> object:
        @invariant("test", rule="careful")
        def holds(m: Any, s: State) -> Any:
            return s.f

        return Model(Base(), [holds])

    def a_need() -> object:
        @invariant("test", needs="crashs")
        def holds(m: Any, s: State) -> Any:
            return s.f

        class Careful(Base):
            parameters = {"crashes": Parameter(1, 0, 2, "crashes")}

        return Model(Careful(), [holds])

    def one_name() -> object:
        def marked() -> Any:
            @invariant("test")
            def holds(m: Any, s: State) -> Any:
                return s.f

            return holds

        return Model(Base(), [marked(), marked()])

    said(a_profile, "profile hasty: .*no rule 'carefull'.*did you mean 'careful'")
    said(an_action, "no rule 'carefull'.*did you mean 'careful'")
    said(an_invariant, "no rule 'careful'")
    said(a_need, "no parameter 'crashs'.*did you mean 'crashes'")
    said(one_name, "two properties have the name 'holds'")


def test_a_property_exists_only_where_the_parameter_that_it_needs_is_not_zero() -> None:
    @invariant("test", needs="crashes")
    def holds(m: Any, s: State) -> Any:
        return s.f

    class Crashing(Base):
        parameters = {"crashes": Parameter(1, 0, 2, "crashes")}

    assert [p.name for p in Model(Crashing(), [holds]).properties] == ["holds"]
    assert not Model(Crashing({"crashes": 0}), [holds]).properties


def test_what_define_initial_actions_and_properties_give() -> None:
    def no_struct() -> object:
        class Wrong(Base):
            def define(self) -> Struct:
                return {"f": Bool}  # type: ignore[return-value]

        return Wrong()

    def nothing() -> object:
        class Wrong(Base):
            def define(self) -> Struct:  # type: ignore[return]
                self.node = Index("node", 3)

        return Wrong()

    def initially(states: Any) -> Callable[[], object]:
        def of() -> object:
            class Wrong(Base):
                def define(self) -> Struct:
                    return Struct("State", f=Bool, pair=Struct("Pair", n=Int(0, 3)))

                def initial(self) -> Any:
                    return states

            return Model(Wrong()).initial

        return of

    def a_result() -> object:
        class Wrong(Base):
            @action()
            def step(self, s: State) -> Any:
                return s.n == 1

        return Model(Wrong())

    def no_domain() -> object:
        class Wrong(Base):
            @action(who="nodes")
            def step(self, s: State, who: Any) -> None:
                pass

        return Model(Wrong())

    def no_list() -> object:
        class Wrong(Base):
            nodes = 3

            @action(who="nodes")
            def step(self, s: State, who: Any) -> None:
                pass

        return Model(Wrong())

    def too_many() -> object:
        class Wrong(Base):
            @action(who="pair")
            def step(self, s: State, who: Any) -> None:
                pass

        return Model(Wrong())

    good = {"f": False, "pair": {"n": 1}}
    said(no_struct, r"define\(\) returned .*it returns the Struct of the state")
    said(nothing, r"define\(\) returned None")
    for states, message in [
        ([{**good, "g": 1}], "State has no field 'g'"),
        ([{**good, "pair": {"n": 7}}], r"State\.pair: Pair\.n: 7 is not a value of Int"),
        ([{**good, "f": 0}], r"State\.f: expected a bool, not 0"),
        ([], "has no initial state"),
        (good, "a list of states, not one state"),
        (None, "a list of states, not None"),
        ([None], "expected State, not None"),
        ([{1: 2}], "expected State"),
    ]:
        with pytest.raises(LanguageError, match=rf"test_names\.py:\d+: .*{message}"):
            initially(states)()
    said(a_result, "action step returned a value")
    said(no_domain, r"ranges over 'nodes', which define\(\) does not set")
    said(no_list, "ranges over 'nodes', which is neither a type nor a list")
    said(too_many, "parameter 'who': Pair cannot be enumerated")


@pytest.mark.parametrize("result", [lambda s: None, lambda s: s.n, lambda s: 1, lambda s: "yes"])
def test_a_property_returns_a_condition(result: Callable[[State], Any]) -> None:
    @invariant("test")
    def holds(m: Any, s: State) -> Any:
        return result(s)

    @eventually("test")
    def comes(m: Any, s: State) -> Any:
        return result(s)

    place = r"test_names\.py:\d+: .*returned .*it returns a condition"
    with pytest.raises(LanguageError, match=place):
        Model(Base(), [holds])
    with pytest.raises(LanguageError, match=place):
        Model(Base(), [], [comes])


def test_what_is_asked_for_its_identity_is_found_in_the_text() -> None:
    def an_action() -> object:
        class Wrong(Base):
            @action()
            def step(self, s: State) -> None:
                x = 1
                if s.o is None:
                    s.next.n = x

        return Wrong

    def inside() -> object:
        @invariant("test")
        def holds(m: Any, s: State) -> Any:
            return all(s.row[i] is not s.row[0] for i in m.node)

        return holds

    def a_goal() -> object:
        @eventually("test")
        def comes(m: Any, state: State) -> Any:
            return state.f is True

        return comes

    said(an_action, r"'s\.o is None' asks which Python object s\.o is: write s\.o\.is_none")
    said(inside, r"s\.row\[i\] is not")
    said(a_goal, r"state\.f is True")

    class Right(Base):
        @action()
        def step(self, s: State) -> None:
            limit = self.p.__dict__.get("limit")
            s.next.n = 0 if limit is None else limit

    assert len(Model(Right()).instances) == 1
