"""Every pair of faults is in a standard scenario that checks what must not be lost, or is listed with a reason.

Faults are budgets, and switches that let messages arrive late or add records, members, partitions or disks. A scenario
covers a pair if it expects no violation, grants both faults, and takes an action of each.
"""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path

import pytest

from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.catalogue import load
from highwater.checker.scenarios.scenario_files import Scenario

BASELINE = tomllib.loads((Path(__file__).parents[2] / ".highwater" / "gate.toml").read_text())["scenarios"]
TABLE = tomllib.loads(Path(__file__).with_name("pairs.toml").read_text())
"""For each protocol its faults, each with the actions that show it (none: the parameter alone), and the pairs that no
scenario covers, by reason.
"""

SAFETY = {"invariants", "electable_completeness", "keeps_the_promise", "step_properties"}
"""A scenario that checks none of these, or all properties, covers no pair."""


def has(scenario: Scenario, fault: str, actions: list[str]) -> bool:
    """True if a scenario grants the fault, and takes one of the actions that show it."""
    value = scenario.parameter_values({})[fault]
    least = 2 if fault in ("records", "log_directories", "partitions") else 1
    facts = BASELINE.get(scenario.name)  # none: the scenario is new
    taken = dict.fromkeys(actions, 1) if facts is None else facts.get("actions", {})
    return value >= least and (not actions or any(taken.get(action) for action in actions))


def covered(protocol: str) -> set[frozenset[str]]:
    """The pairs of faults that some standard scenario of a protocol covers."""
    faults = TABLE[protocol]["faults"]
    found: set[frozenset[str]] = set()
    for scenario in scenario_files.standard():
        checks = scenario.properties is None or SAFETY & set(scenario.properties)
        if scenario.definition.name == protocol and checks and not scenario.expectation.violated:
            granted = [fault for fault, actions in faults.items() if has(scenario, fault, actions)]
            found |= {frozenset(pair) for pair in itertools.combinations(granted, 2)}
    return found


@pytest.mark.parametrize("protocol", list(TABLE))
def test_every_pair_of_faults_is_covered_or_listed(protocol: str) -> None:
    every = {frozenset(pair) for pair in itertools.combinations(TABLE[protocol]["faults"], 2)}
    listed = {
        frozenset((one, other))
        for entry in TABLE[protocol].get("uncovered", ())
        for one, others in entry["pairs"].items()
        for other in others.split()
    }
    assert sorted(map(sorted, every - covered(protocol) - listed)) == [], "add a scenario, or list the pair"
    assert sorted(map(sorted, listed - (every - covered(protocol)))) == [], "it is covered: remove the pair"


@pytest.mark.parametrize("protocol", list(TABLE))
def test_the_table_has_every_budget_and_its_actions_exist(protocol: str) -> None:
    faults, stated = TABLE[protocol]["faults"], load(protocol).protocol
    budgets = {p for p in stated.parameters if p in faults}
    assert set(faults) == budgets
    actions = {a.name for a in stated.actions()}
    assert {a for named in faults.values() for a in named} <= actions
