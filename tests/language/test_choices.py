"""Named choices of rules: scenarios, the command line and traces select the same rules."""

from __future__ import annotations

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.catalogue import load
from highwater.checker.scenarios.request import Overrides, Request
from highwater.model import registry
from highwater.model.language.protocol import ChoiceError, parameter_value, profile_of, rule_of, rules_on
from highwater.model.replication.controller import Controller
from highwater.traces.rules.profiles import rule_set

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
