"""A budget limits the number of steps in a run; properties with ``enabled``; named choices of rules."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.catalogue import load
from highwater.checker.scenarios.request import Overrides, Request
from highwater.model import registry
from highwater.model.language import (
    Budgets,
    Index,
    Int,
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
    spend,
)
from highwater.model.language.graph import compile_nodes
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.protocol import ChoiceError, parameter_value, profile_of, rule_of, rules_on
from highwater.model.replication.controller import Controller
from highwater.traces.rules.profiles import rule_set
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


# --- whether an action can be taken -------------------------------------------------------------------


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


# --- named choices of rules: scenarios, command line and traces select the same -----------------------


PROFILE = "kafka_4_2"


def test_rules_over_a_profile() -> None:
    of_profile = Controller.profiles[PROFILE].rules
    assert rules_on(Controller, None) == frozenset(Controller.rules)
    assert rules_on(Controller, PROFILE) == of_profile
    switched = {"leader_stays": False, "last_known_elr": True}
    assert rules_on(Controller, PROFILE, switched) == of_profile - {"leader_stays"} | {"last_known_elr"}
    assert rules_on(Controller, PROFILE, switched, {"leader_stays": True}) == of_profile | {"last_known_elr"}


def test_a_scenario_and_a_replay_come_to_the_same_rules() -> None:
    scenario = scenario_files.find("replication/controller/defect-elr-not-emptied")
    values = scenario.rule_values(PROFILE, {"leader_stays": False})
    assert {name for name, on in values.items() if on} == rule_set(PROFILE, {"leader_stays": False}).rules
    assert values.keys() == Controller.rules.keys()


def test_an_unknown_choice_is_one_line() -> None:
    with pytest.raises(ChoiceError, match=r"^unknown profile of .* 'kip_96'; did you mean 'kip_966'"):
        profile_of(Controller, "kip_96")
    with pytest.raises(
        ChoiceError, match=r"^unknown rule of replication\.controller 'leader_stay'; did you mean"
    ):
        rules_on(Controller, PROFILE, {"leader_stay": True})
    with pytest.raises(ChoiceError, match=r"^unknown rule of"):
        rule_of(Controller, "x\n" * 1000)
    with pytest.raises(ChoiceError, match=r"^brokers is 1 to 12, not 13$"):
        parameter_value(Controller, "brokers", 13)
    with pytest.raises(ChoiceError, match=r"^brokers is a whole number, not True$"):
        parameter_value(Controller, "brokers", True)
    with pytest.raises(ChoiceError, match=r"^removals is true or false, not 2$"):
        parameter_value(Controller, "removals", 2)
    for name in ("language", "replication.controller.protocol", "..checker", ""):
        with pytest.raises(ChoiceError, match=r"^unknown protocol '"):
            registry.protocol_of(name)
        with pytest.raises(InputError, match=r"^unknown protocol '"):
            load(name)


@pytest.mark.parametrize("value", [True, 1])
def test_a_switch_is_a_bool_in_the_protocol_and_a_number_in_files(value: int) -> None:
    protocol = Controller({"removals": parameter_value(Controller, "removals", value)})
    assert protocol.p.removals is True
    assert repr(protocol.parameter_values["removals"]) == "1"
    scenario = scenario_files.find("replication/controller/defect-elr-not-emptied")
    request = Request.of(scenario, Overrides.parse(settings=["removals=true"]))
    assert repr(request.parameters["removals"]) == "1"
