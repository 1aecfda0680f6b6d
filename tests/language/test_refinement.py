"""Refinements: which steps the abstract protocol allows, and which mappings are refused."""

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
    Parameter,
    Protocol,
    Rule,
    Seq,
    State,
    Struct,
    action,
    free,
    one_of,
    refines,
    require,
    where,
)
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.refinement import Implementation, Refinement
from highwater.model.promise import Promise


class Light(Protocol):
    """The abstract protocol: a light changes colour in order, and may fail."""

    name = "light"
    parameters = {"fails": Parameter(1, 0, 1, "whether it can fail")}
    rules = {"in_order": Rule("example", "Colours follow each other.")}

    def define(self) -> Struct:
        self.colour = Enum("Colour", "red green yellow")
        return Struct("State", colour=self.colour, works=Bool)

    def initial(self) -> list[dict[str, Any]]:
        return [{"colour": "red", "works": True}]

    @action()
    def change(self, s: State) -> None:
        to = one_of("to", self.colour)
        follows = {"red": "green", "green": "yellow", "yellow": "red"}
        if self.on("in_order"):
            require("it is the next", s.colour == {b: a for a, b in follows.items()}[to])
        require("it works", s.works)
        s.next.colour = to

    @action()
    def fail(self, s: State) -> None:
        require("it can", bool(self.p.fails))
        s.next.works = False


class Clockwork(Protocol):
    """The implementation: a cyclic counter with three ticks per colour, which stops on failure."""

    name = "clockwork"
    parameters = {"length": Parameter(3, 1, 5, "ticks of a colour"), "last": Parameter(8, 0, 20, "")}
    rules = {"stops": Rule("example", "It stands still once it has failed.")}

    def define(self) -> Struct:
        return Struct("State", tick=Int(0, self.p.last), failed=Bool)

    @action()
    def go_on(self, s: State) -> None:
        require("it works", ~s.failed, rule="stops")
        s.next.tick = where(s.tick == self.p.last, 0, s.tick + 1)

    @action()
    def fail(self, s: State) -> None:
        s.next.failed = True


COLOUR = Enum("Colour", "red green yellow")


@refines(Light, "example")
def is_a_light(m: Clockwork, s: State) -> dict[str, Any]:
    shown = where(
        s.tick < m.p.length, COLOUR.red, where(s.tick < 2 * m.p.length, COLOUR.green, COLOUR.yellow)
    )
    return {"colour": shown, "works": ~s.failed}


def broken(refinement: Refinement, protocol: Protocol) -> set[tuple[Any, ...]]:
    """The reachable steps of a protocol that the abstract protocol forbids."""
    interpreter = Interpreter(Model(protocol, step_properties=[refinement]))
    seen, found = set(interpreter.model.initial), set()
    left = list(seen)
    while left:
        state = left.pop()
        for after in interpreter.successors(state):
            if interpreter.broken(state, after):
                found.add((state, after))
            if after not in seen:
                seen.add(after)
                left.append(after)
    return found


def test_a_refinement_holds_for_an_implementation() -> None:
    assert broken(is_a_light, Clockwork()) == set()


def test_a_rule_that_is_off_breaks_it() -> None:
    steps = broken(is_a_light, Clockwork(rules=[]))
    # After a failure it still changes colour three times; steps within a colour are stuttering steps.
    assert steps == {((2, 1), (3, 1)), ((5, 1), (6, 1)), ((8, 1), (0, 1))}


def test_a_step_that_needs_two_abstract_steps_is_forbidden() -> None:
    assert {a for a, _ in broken(is_a_light, Clockwork({"length": 3, "last": 6}))} == set()
    # The last tick is green, so red follows green: that takes two changes.
    assert broken(is_a_light, Clockwork({"length": 3, "last": 5})) == {((5, 0), (0, 0))}


def test_parameters_and_rules_of_the_abstract_protocol_are_functions_of_this_one() -> None:
    def refined(**given: Any) -> Refinement:
        return refines(Light, "example", **given)(is_a_light.mapping)

    never = refined(parameters=lambda m: {"fails": int(m.p.length > 3)})
    assert {after for _, after in broken(never, Clockwork())} == {(t, 1) for t in range(9)}
    assert broken(never, Clockwork({"length": 5, "last": 14})) == set()
    skips = Clockwork({"length": 3, "last": 5})
    assert broken(refined(rules=lambda m: []), skips) == set()
    assert broken(refined(rules=lambda m: ["in_order"]), skips)


def test_parameters_and_rules_of_one_name_have_one_value() -> None:
    class Same(Clockwork):
        parameters = {**Clockwork.parameters, "fails": Parameter(0, 0, 1, "whether it can fail")}
        rules = {**Clockwork.rules, "in_order": Rule("example", "as there")}

    assert broken(is_a_light, Same())
    assert not broken(is_a_light, Same({"fails": 1}))
    assert not broken(is_a_light, Same({"fails": 1, "last": 5}, ["stops"]))
    assert broken(is_a_light, Same({"fails": 1, "last": 5}, ["stops", "in_order"]))


def test_leaving_an_abstract_type_is_no_step() -> None:
    class Upwards(Protocol):
        name = "upwards"

        def define(self) -> Struct:
            return Struct("State", n=Int(0, 2))

        @action()
        def anything(self, s: State) -> None:
            s.next.n = one_of("n", range(3))

    class Further(Protocol):
        def define(self) -> Struct:
            return Struct("State", n=Int(0, 4))

        @action()
        def up(self, s: State) -> None:
            require("not at the top", s.n < 4)
            s.next.n = s.n + 1

    @refines(Upwards, "")
    def goes_up(m: Further, s: State) -> dict[str, Any]:
        return {"n": s.n}

    assert broken(goes_up, Further()) == {((2,), (3,)), ((3,), (4,))}


def test_a_step_beyond_an_abstract_bound_is_forbidden() -> None:
    class Queue(Protocol):
        parameters = {"most": Parameter(1, 1, 3, "")}

        def define(self) -> Struct:
            return Struct("State", q=Seq(Bool, self.p.most, bound="most"))

        @action()
        def put(self, s: State) -> None:
            s.next.q = s.q.append(True)

    @refines(Queue, "")
    def itself(m: Queue, s: State) -> dict[str, Any]:
        return {"q": s.q}

    assert broken(itself, Queue({"most": 3})) == set()
    node = itself.of(Queue({"most": 1}))
    holds = pairs(node)
    assert holds((0, 0), (1, 1))
    assert not holds((1, 1), (0, 0))
    assert not holds((1, 1), (1, 0))


def pairs(implementation: Implementation) -> Callable[[Any, Any], bool]:
    """A function: True if the refinement's expression allows the step."""
    model = Model(implementation.concrete, step_properties=[implementation.refinement])
    interpreter = Interpreter(model)
    return lambda before, after: not interpreter.broken(before, after)


@refines(Promise, "P1", parameters=lambda m: vars(m.p))
def itself(m: Promise, s: State) -> dict[str, Any]:
    return {name: getattr(s, name) for name in m.state.fields}


@pytest.mark.parametrize("more", [{}, {"min_isr": 1}], ids=repr)
def test_a_refinement_allows_exactly_the_interpreter_s_steps(more: dict[str, int]) -> None:
    protocol = Promise({"records": 1, "unclean": 1, **more})
    interpreter = Interpreter(Model(protocol))
    states = list(interpreter.model.initial)
    for state in states:
        states += [s for s in dict.fromkeys(interpreter.successors(state)) if s not in states]
    assert len(states) > 20
    allows = pairs(itself.of(protocol))
    taken = {before: {before, *interpreter.successors(before)} for before in states}
    assert {(a, b) for a in states for b in states if allows(a, b) != (b in taken[a])} == set()


# --- refused mappings -----------------------------------------------------------------------------------


def wrong(mapping: Callable[..., Any], says: str, **given: Any) -> None:
    """Check that a mapping is refused with this message at its line."""
    marked = refines(Light, "example", **given)(mapping)
    line = mapping.__code__.co_firstlineno
    with pytest.raises(LanguageError, match=rf"test_refinement\.py:{line}: .*{re.escape(says)}"):
        Model(Clockwork(), step_properties=[marked])


def test_a_mapping_has_every_field_and_no_other() -> None:
    wrong(lambda m, s: {"colour": "red"}, "State needs works")
    wrong(lambda m, s: {"colour": "red", "works": True, "size": 1}, "State has no size")
    wrong(lambda m, s: None, "it returns a dict of the abstract fields")
    wrong(lambda m, s: {"colour": s.tick, "works": True}, "State.colour: expected Enum(Colour)")
    row = Array(Index("node", 2), Int(0, 1)).zero()
    wrong(lambda m, s: {"colour": "red", "works": row[s.tick + 2] == 1}, "2..")


def test_a_mapping_only_looks() -> None:
    def writes(m: Clockwork, s: State) -> dict[str, Any]:
        s.next.tick = 0
        return {"colour": "red", "works": True}

    wrong(writes, "it only looks")


def test_initial_states_are_mapped_to_initial_states() -> None:
    wrong(
        lambda m, s: {"colour": "green", "works": ~s.failed},
        "an initial state is mapped to none of the initial states of light: {'colour': 'green', 'works': True}",
    )


def test_each_of_many_initial_states_is_looked_at() -> None:
    class Anywhere(Clockwork):
        def initial(self) -> list[dict[str, Any]]:
            return [{"tick": free, "failed": False}]

        def initially(self, s: State) -> Any:
            return s.tick <= 3

    with pytest.raises(LanguageError, match="mapped to none of the initial states"):
        Model(Anywhere(), step_properties=[is_a_light])


def test_parameters_that_the_abstract_protocol_does_not_take() -> None:
    mapping = lambda m, s: {"colour": "red", "works": True}  # noqa: E731
    wrong(mapping, "light has no parameter 'size'", parameters=lambda m: {"size": 1})
    wrong(mapping, "parameter fails of light is 0 to 1, not 2", parameters=lambda m: {"fails": 2})
    wrong(mapping, "light has no rule 'fast'", rules=lambda m: ["fast"])


def test_only_a_protocol_is_implemented() -> None:
    with pytest.raises(LanguageError, match="names the protocol that is implemented"):
        refines("Light")  # type: ignore[arg-type]
    with pytest.raises(LanguageError, match="names the protocol that is implemented"):
        refines(Light())  # type: ignore[arg-type]
