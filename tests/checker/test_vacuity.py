"""Vacuity of standard scenarios, constant step properties, and goals whose condition has no value."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.report.vacuity import constant_properties, vacuous
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import asked
from highwater.model.language import (
    Int,
    Model,
    Protocol,
    State,
    Struct,
    action,
    reachable,
    require,
    step_property,
)
from highwater.model.language.interpreter import Interpreter
from tests.slow import all_but

STANDARD = [n for n, (_, standard) in scenario_files.titles().items() if standard]
QUICK = STANDARD[::20]


@pytest.mark.parametrize(
    "name", all_but(QUICK, STANDARD, "traces every scenario; the fast test traces one in twenty")
)
def test_tracing_finds_no_unexpected_vacuity_in_standard_scenarios(name: str) -> None:
    request = asked(name)
    assert vacuous(request.model(), request) == ()


@step_property("test")
def nothing_falls(m: Any, before: Any, after: Any) -> Any:
    return after.moved >= 0


@step_property("test")
def what_rests_stays(m: Any, before: Any, after: Any) -> Any:
    return before.rests == after.rests


@step_property("test")
def nothing_happens(m: Any, before: Any, after: Any) -> Any:
    return (before.moved == after.moved) & (before.rests == after.rests)


@step_property("test")
def it_rises(m: Any, before: Any, after: Any) -> Any:
    return before.moved < after.moved


class Moving(Protocol):
    name = "moving"

    def define(self) -> Any:
        return Struct("State", moved=Int(0, 3), rests=Int(0, 3))

    @action()
    def move(self, s: State) -> None:
        require("below", s.moved < 3)
        s.next.moved = s.moved + 1


def test_constant_step_properties_are_found() -> None:
    properties = (nothing_falls, what_rests_stays, nothing_happens, it_rises)
    found = constant_properties(Model(Moving(), step_properties=properties))
    assert found == {
        "nothing_falls": "is true of every step",
        "what_rests_stays": "is about what no step writes",
        "nothing_happens": "is false of every step that changes something",
    }


# --- reachability goals -------------------------------------------------------------------------------


class Quotient(Protocol):
    name = "quotient"

    def define(self) -> Struct:
        return Struct("State", x=Int(0, 3))


def test_a_condition_without_a_meaning_is_not_reached() -> None:
    @reachable("Q1")
    def divides(m: Quotient, s: object) -> object:
        return 6 // s.x != 3  # type: ignore[attr-defined]

    model = Model(Quotient(), [divides])  # type: ignore[list-item]
    (prop,) = model.properties
    assert Interpreter(model).violated((0,)) == []
    assert Interpreter(model).violated((1,)) == [prop.name]
