"""Properties with ``enabled``: whether an action can be taken."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.model.language import (
    Index,
    LanguageError,
    Model,
    Protocol,
    Set,
    State,
    Struct,
    action,
    enabled,
    eventually,
    invariant,
    one_of,
    require,
)
from highwater.model.language.graph import compile_nodes
from tests.language.wrong import refused


class Door(Protocol):
    name = "door"

    def define(self) -> Struct:
        self.node = Index("node", 3)
        return Struct("State", inside=Set(self.node))

    @action(who="node")
    def enter(self, s: State, who: Any) -> None:
        by = one_of("by", ["door", "window"])
        require("out", ~s.inside.has(who))
        require("the window is small", True if by == "door" else who != 0)
        s.next.inside = s.inside.with_(who)


def asked(question: Any) -> list[bool]:
    """The property's value for each of the 8 sets of persons inside."""

    @invariant("test")
    def property(m: Any, s: State) -> Any:
        return question(m, s)

    traced = Model(Door(), [property]).properties[0]
    function = compile_nodes([traced.node])
    return [bool(function((bits,))[0]) for bits in range(8)]


def test_some_step_or_one_with_these_parameters() -> None:
    assert asked(lambda m, s: enabled("enter")) == [bits != 7 for bits in range(8)]
    assert asked(lambda m, s: enabled("enter", who=1)) == [not bits & 2 for bits in range(8)]
    assert asked(lambda m, s: enabled("enter", who=m.node.lift(2))) == [not bits & 4 for bits in range(8)]
    assert asked(lambda m, s: enabled("enter", by="window")) == [bits & 6 != 6 for bits in range(8)]
    assert asked(lambda m, s: enabled("enter", who=0, by="window")) == [False] * 8


def test_in_a_property_of_runs() -> None:
    @eventually("test")
    def full(m: Any, s: State) -> Any:
        return ~enabled("enter")

    goal = compile_nodes(Model(Door(), [], [full]).liveness[0].cases[0].goals)
    assert [goal((bits,))[0] for bits in (0, 6, 7)] == [False, False, True]


def test_a_wrong_use_of_enabled_is_refused() -> None:
    with pytest.raises(LanguageError, match="no action 'entre'; it has enter; did you mean 'enter'"):
        asked(lambda m, s: enabled("entre"))
    with pytest.raises(LanguageError, match="enter has no parameter 'whom'; it has who, by"):
        asked(lambda m, s: enabled("enter", whom=1))
    refused(lambda m, s: require("", enabled("step")), r"enabled\(\) asks about actions, in a property")
