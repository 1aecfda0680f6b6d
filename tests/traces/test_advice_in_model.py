"""The steps of each advice restore a leader in the model and lose no more records; wrong steps fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.checker.scenarios.catalogue import scenario_file
from highwater.traces.reports import advice
from tests.slow import all_but

LOST, LED = "leader_completeness", "led_again"
SAFE = sorted(set(advice.SCENARIOS.values()))


def checked(path: Path | str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["check", str(path), "--json", "-"])
    assert result.exit_code in (0, 1), result.output
    (found,) = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_each_advice_names_its_scenario() -> None:
    assert set(advice.SCENARIOS) <= set(vars(advice)), "a function that is no more"
    stating = {"after_loss", "compare", "start_best_log", "elect_best_log", "start_last_known_leader"}
    stating |= {"non_replica_in_elr", "start_elr_members", "shut_out"}
    assert set(advice.SCENARIOS) == stating


@pytest.mark.parametrize("name", SAFE)
def test_an_advice_holds(name: str) -> None:
    found = checked(name)
    assert found["verdict"] == "holds"
    assert found["complete"]
    assert LED in found["properties"]


WRONG: dict[str, tuple[str, list[str], dict[str, int], str]] = {
    "the longest log": (
        "advice-elect-best-log",
        ["start_broker(b=0)", "elect_uncleanly()", "start_broker(b=1) once led", "start_broker(b=2)"], {}, LOST,
    ),
    "any live replica": (
        "advice-elect-best-log",
        ["start_broker(b=2)", "start_broker(b=0)", "start_broker(b=1)", "elect_uncleanly()"], {}, LOST,
    ),
    "no election": ("advice-elect-best-log", ["start_broker(b=1)", "start_broker(b=2)"], {}, LED),
    "an eligible replica without the records": (
        "advice-start-best-log", ["start_broker(b=0)", "start_broker(b=1)", "start_broker(b=2)"], {}, LOST,
    ),
    "the others at once": (
        "advice-start-best-log", ["start_broker(b=1)", "start_broker(b=2)", "start_broker(b=0)"], {}, LOST,
    ),
    "an election beside the last known leader": (
        "advice-last-known-leader", ["start_broker(b=0)", "elect_uncleanly()", "start_broker(b=1)"], {}, LOST,
    ),
    "the leader is stopped first": (
        "advice-elr-without-gate", ["begin_shutdown(b=0)", "start_broker(b=1)", "start_broker(b=2)"],
        {"controlled_shutdowns": 1}, LOST,
    ),
    "the ELR member that is no replica": (
        "advice-non-replica-in-elr", ["reassign(target=[0, 2])", "begin_shutdown(b=0)"],
        {"reassignments": 1, "controlled_shutdowns": 1}, LOST,
    ),
    "a replica that follows before it is copied": (
        "advice-after-unclean-election", ["start_broker(b=1)"], {}, "committed_records_survive",
    ),
    "the registration of the replica at once": (
        "controller/advice-shut-out", ["register(broker=0, clean=false)", "unfence(broker=0)"], {}, LED,
    ),
}  # fmt: skip
"""By wrong advice: its scenario, its steps, changed parameters, and the violated property."""
QUICK = (
    "the longest log", "a replica that follows before it is copied", "the registration of the replica at once",
)  # fmt: skip


@pytest.mark.parametrize(
    "wrong", all_but(QUICK, WRONG, "a search for each; the fast test has one for each violated property")
)
def test_a_wrong_advice_fails(wrong: str, tmp_path: Path) -> None:
    name, steps, parameters, violated = WRONG[wrong]
    text = scenario_file(f"replication/{name}").read_text(encoding="utf-8")
    listed = re.search(r"steps = \[.*?\n\]", text, re.DOTALL)
    assert listed is not None
    unused = {called for called in re.findall(r'"(\w+)\(', listed[0]) if called not in " ".join(steps)}
    own = re.findall(r'"(\w+)"', "".join(re.findall(r"^without = (.*)$", text, re.MULTILINE)))
    text = re.sub(r"^without = .*\n", "", text, flags=re.MULTILINE)
    without = json.dumps(sorted({*unused, *own}))
    text = text.replace(listed[0], f"steps = {json.dumps(steps)}\nwithout = {without}")
    for key, value in parameters.items():
        text = text.replace("[parameters]\n", f"[parameters]\n{key} = {value}\n")
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    found = checked(path)
    assert violated in {v["property"] for v in found["violations"]}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('steps = ["start_brokr(b=1)"]', "unknown action 'start_brokr'; did you mean 'start_broker'?"),
        ('steps = ["start_broker(c=1)"]', "start_broker has no parameter 'c'"),
        ('steps = ["start broker 1"]', "'start broker 1' is no step"),
        ('steps = ["start_broker(b=1a)"]', "'start_broker(b=1a)' is no step"),
        ('steps = ["start_broker(b=[1,,2])"]', "'start_broker(b=[1,,2])' is no step"),
        ('steps = ["start_broker(b=\u0661)"]', "is no step"),
        ('steps = ["start_broker(b=true)"]', "own.toml: [start] or [procedure]: expected"),
        ('[start.brokers]\n"\u00b2" = 1', "brokers has no fields to be given"),
        ("[start]\nbrokers = 3", "own.toml: [start] or [procedure]: an initial state is wrong"),
        ('without = ["crash"]', "unknown action 'crash'"),
        ("steps = []\n[start]\npartitoin = 1", "unknown field 'partitoin'; did you mean 'partition'?"),
    ],
)
def test_an_error_in_a_procedure_is_one_line(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'protocol = "replication"\n[procedure]\n{line}\n', encoding="utf-8")
    result = CliRunner().invoke(cli, ["check", str(path)])
    assert result.exit_code == 2
    assert said in result.output
    assert result.output.count("\n") == 1


def test_a_protocol_without_a_partition_can_have_a_start_and_a_procedure(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    beginning = "[start.quorum]\nisr = [0, 1]\n"
    path.write_text(f'protocol = "truncation"\n{beginning}', encoding="utf-8")
    assert checked(path)["complete"]
    steps = '[procedure]\nsteps = ["leader_write(leader=0)"]\n'
    path.write_text(f'protocol = "truncation"\n{steps}', encoding="utf-8")
    refused = CliRunner().invoke(cli, ["check", str(path)])
    assert refused.exit_code == 2
    assert "own.toml: [start] or [procedure]: led_again" in refused.output
    path.write_text(f'protocol = "truncation"\nproperties = ["invariants"]\n{steps}', encoding="utf-8")
    assert checked(path)["complete"]
