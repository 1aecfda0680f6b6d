"""The steps of each advice restore a leader in the model and lose no more records; wrong steps fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import highwater
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Model
from highwater.model.language.procedures import Procedure, ProcedureStep, taking
from highwater.model.replication.advice import START_BEST_LOG
from highwater.model.replication.protocol import PROTOCOL
from highwater.traces.reports import advice
from tests import command
from tests.slow import all_but

LOST, LED = "leader_completeness", "led_again"
SAFE = sorted(set(advice.SCENARIOS.values()))


def test_each_advice_names_its_scenario() -> None:
    assert set(advice.SCENARIOS) <= set(vars(advice)), "a function that is no more"
    stating = {"after_loss", "compare", "start_best_log", "elect_best_log", "start_last_known_leader"}
    stating |= {"non_replica_in_elr", "start_elr_members", "shut_out"}
    assert set(advice.SCENARIOS) == stating


@pytest.mark.parametrize("name", SAFE)
def test_an_advice_holds(name: str) -> None:
    found = highwater.check(name)
    assert found.verdict == "holds"
    assert found.complete
    assert LED in found.request.properties


@pytest.mark.parametrize("moment", ["after-one-returned", "offline-again"])
def test_an_advice_holds_at_a_later_moment(moment: str) -> None:
    found = highwater.check(f"replication/advice-{moment}")
    assert (found.verdict, found.complete) == ("holds", True)
    assert "committed_records_survive" in found.request.properties


def start(b: int, when: Any = None) -> ProcedureStep:
    return ProcedureStep("start_broker", {"b": b}, when)


def led(s: Any) -> Any:
    return s.partition.leader.is_some


ELECT = ProcedureStep("elect_uncleanly")
WRONG: dict[str, tuple[str, list[ProcedureStep], dict[str, int], str]] = {
    "the longest log": ("advice-elect-best-log", [start(0), ELECT, start(1, led), start(2)], {}, LOST),
    "any live replica": ("advice-elect-best-log", [start(2), start(0), start(1), ELECT], {}, LOST),
    "no election": ("advice-elect-best-log", [start(1), start(2)], {}, LED),
    "an eligible replica without the records": (
        "advice-start-best-log", [start(0), start(1), start(2)], {}, LOST,
    ),
    "the others at once": ("advice-start-best-log", [start(1), start(2), start(0)], {}, LOST),
    "an election beside the last known leader": (
        "advice-last-known-leader", [start(0), ELECT, start(1)], {}, LOST,
    ),
    "the leader is stopped first": (
        "advice-elr-without-gate", [ProcedureStep("begin_shutdown", {"b": 0}), start(1), start(2)],
        {"controlled_shutdowns": 1}, LOST,
    ),
    "the ELR member that is no replica": (
        "advice-non-replica-in-elr",
        [ProcedureStep("reassign", {"target": [0, 2]}), ProcedureStep("begin_shutdown", {"b": 0})],
        {"reassignments": 1, "controlled_shutdowns": 1}, LOST,
    ),
    "a replica that follows before it is copied": (
        "advice-after-unclean-election", [start(1)], {}, "committed_records_survive",
    ),
    "a replica that follows the leader that returned": (
        "advice-offline-again", [start(0), start(1)], {}, "committed_records_survive",
    ),
    "the registration of the replica at once": (
        "controller/advice-shut-out",
        [ProcedureStep("register", {"broker": 0, "clean": False}), ProcedureStep("unfence", {"broker": 0})], {}, LED,
    ),
}  # fmt: skip
"""By wrong advice: its scenario, its steps, changed parameters, and the violated property."""
QUICK = (
    "the longest log", "a replica that follows before it is copied", "the registration of the replica at once",
)  # fmt: skip


@pytest.mark.parametrize(
    "wrong", all_but(QUICK, WRONG, "a search for each; the fast test has one for each violated property")
)
def test_a_wrong_advice_fails(wrong: str) -> None:
    name, steps, parameters, violated = WRONG[wrong]
    scenario = scenario_files.find(f"replication/{name}")
    stated = catalogue.load(scenario.definition.name)
    right: Procedure = stated.protocol.procedures[scenario.definition.procedure]
    unused = {step.action for step in right.steps} - {step.action for step in steps}
    wrong_one = replace(right, steps=tuple(steps), without=(*unused, *right.without))
    protocol, result = taking(stated.protocol, wrong_one)
    definition = replace(stated, protocol=protocol, liveness=(*stated.liveness, result))
    found = highwater.check(replace(scenario, definition=definition), parameters=parameters)
    assert violated in {v.name for v in found.violations}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"steps": (ProcedureStep("start_brokr"),)},
            "unknown action 'start_brokr'; did you mean 'start_broker'?",
        ),
        ({"steps": (ProcedureStep("start_broker", {"c": 1}),)}, "start_broker has no parameter 'c'"),
        ({"without": ("crash",)}, "unknown action 'crash'"),
        ({"start": {"partitoin": 1}}, "no field 'partitoin'"),
    ],
)
def test_a_mistake_in_a_procedure_is_an_error(change: dict[str, Any], said: str) -> None:
    with pytest.raises(LanguageError, match=said):
        _ = Model(taking(PROTOCOL, replace(START_BEST_LOG, **change))[0]()).start


def test_an_unknown_procedure_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('protocol = "replication"\nprocedure = "start_best_lg"\n')
    refused = command.highwater("check", path)
    assert refused.status == 2
    assert "own.toml:2: unknown procedure of replication 'start_best_lg'; did you mean" in refused.output
    assert refused.output.count("\n") == 1
