"""A budget limits the number of steps in a run."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.model.language import (
    Budgets,
    Int,
    LanguageError,
    Model,
    Protocol,
    State,
    Struct,
    action,
    require,
    spend,
)
from highwater.model.language.interpreter import Interpreter
from tests.runs import Run

BUDGETS = Budgets({"falls": "falls of the tower", "winds": "gusts of wind"}, most=2)


class Tower(Protocol):
    """Stones are piled up; budgets limit how often the tower falls and the wind takes a stone."""

    name = "tower"
    parameters = {**BUDGETS.parameters, "winds": BUDGETS.parameter("winds", default=1, low=1)}

    def define(self) -> Struct:
        return Struct("State", height=Int(0, 2), budgets=BUDGETS.type(self.p))

    def initial(self) -> list[dict[str, Any]]:
        return [{"height": 0, "budgets": BUDGETS.granted(self.p)}]

    @action()
    def build(self, s: State) -> None:
        require("there is room", s.height < 2)
        s.next.height = s.height + 1

    @action()
    def fall(self, s: State) -> None:
        spend(s, "falls")
        require("it stands", s.height > 0)
        s.next.height = 0

    @action()
    def blow(self, s: State) -> None:
        require("it stands", s.height > 0)
        spend(s, "winds")
        s.next.height = s.height - 1


@pytest.mark.parametrize(("falls", "winds"), [(0, 1), (1, 2), (2, 2)])
def test_a_step_happens_as_often_as_is_granted_and_no_more(falls: int, winds: int) -> None:
    run = Run(Model(Tower({"falls": falls, "winds": winds})))
    for spent in ["fall"] * falls + ["blow"] * winds:
        run.take("build").take(spent)
    run.take("build")
    assert not run.can("fall")
    assert not run.can("blow")
    assert ("fall" in run.model.ruled_out) == (falls == 0)


def test_a_refusal_names_the_exhausted_budget_and_where_it_is_spent() -> None:
    model = Model(Tower({"falls": 1}))
    interpreter = Interpreter(model)
    by_name = {instance.action.name: instance for instance in model.instances}
    spent = tuple(model.protocol.state.encode({"height": 1, "budgets": {"falls": 0, "winds": 1}}))
    assert interpreter.refusals(spent, by_name["fall"]) == ["the scenario grants falls"]
    assert interpreter.refusals(spent, by_name["blow"]) == []
    assert "test_budgets.py:" in (by_name["fall"].guards[0].place or "")


def test_a_budget_is_zero_by_default_and_bounded() -> None:
    assert BUDGETS.granted(Tower().p) == {"falls": 0, "winds": 1}
    assert Tower.parameters["falls"].meaning == "budget: falls of the tower"
    with pytest.raises(LanguageError, match="parameter falls of tower is 0 to 2, not 3"):
        Tower({"falls": 3})
    with pytest.raises(LanguageError, match="parameter winds of tower is 1 to 2, not 0"):
        Tower({"winds": 0})


def test_an_unknown_budget_names_its_place() -> None:
    class Misspelt(Tower):
        @action()
        def tumble(self, s: State) -> None:
            spend(s, "fals")

    with pytest.raises(LanguageError, match=r"test_budgets\.py:\d+: .*no field 'fals'; it has falls, winds"):
        Model(Misspelt())
