"""Each property has one name, one meaning and one statement; the catalogue has every property of a replay."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import highwater.invariants
import highwater.traces
from highwater.checker.scenarios.catalogue import scenario_files
from highwater.checker.scenarios.model_key import Fingerprints
from highwater.checker.scenarios.scenario_files import find
from highwater.invariants import catalogue, statements
from highwater.invariants.catalogue import BROKER_LOGS, METADATA_LOG, Stated, stated
from highwater.invariants.replication import observed
from highwater.invariants.statements import Statement, defined
from highwater.model import registry
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import Node
from highwater.model.language.model import state_inputs
from highwater.model.language.protocol import Invariant, Protocol
from highwater.model.language.state import State
from highwater.model.language.tracing import tracing
from highwater.model.language.types import as_bool
from highwater.traces.metadata.beliefs.automaton import MEASURED
from highwater.traces.metadata.beliefs.controller_stepper import PROPERTIES
from highwater.traces.metadata.reporting import _AT_RISK

TRACES = Path(highwater.traces.__file__).parent
KNOWN = catalogue.catalogue()


def everything(of: Stated) -> list[Any]:
    of_steps = [*of.step_properties, *of.helper_steps, *of.reachable]
    return [*of.invariants, *of_steps, *of.liveness, *of.helpers]


# --- names and meanings ---------------------------------------------------------------------------------------


def test_every_property_has_a_meaning_and_rule_numbers() -> None:
    assert len(KNOWN) > 100
    assert [p.name for p in KNOWN.values() if not p.meaning or not all(p.checked_by.values())] == []


def test_every_goal_is_expected_by_a_scenario() -> None:
    expected: dict[str, set[str]] = {}
    for name in scenario_files():
        scenario = find(name)
        expected.setdefault(scenario.definition.name, set()).update(scenario.expectation.reachable)
    for name in registry.NAMES:
        goals = {goal.name for goal in stated(name).reachable}
        assert goals <= expected.get(name, set()), name


@pytest.mark.parametrize("name", registry.NAMES)
def test_names_of_a_protocol_are_unique(name: str) -> None:
    names = [one.name for one in everything(stated(name))]
    assert sorted(names) == sorted(set(names))


def test_a_property_of_several_protocols_is_a_statement() -> None:
    """Exceptions: step properties that two protocols share, and a topic's properties."""
    steps = {
        step
        for name in registry.NAMES
        for step in (*stated(name).step_properties, *stated(name).helper_steps)
    }
    shared = {
        name
        for name, known in KNOWN.items()
        if len({*known.checked_by} - {METADATA_LOG, "replication.topic"}) > 1
    }
    assert shared - {step.name for step in steps} <= {
        s.name for s in (*defined(Statement, statements), *observed.OF_BROKERS)
    }
    assert len({step.name for step in steps}) == len(steps)


# --- one statement --------------------------------------------------------------------------------------------


def traced(protocol: Protocol, one: Invariant) -> Node | None:
    """The property's expression on the protocol's state; None if it uses a missing field or function."""
    inputs = state_inputs(protocol.state.leaves(""))
    with tracing():
        try:
            return as_bool(one.function(protocol, State(protocol.state, inputs))).node
        except (AttributeError, LanguageError, TypeError):
            return None


@pytest.mark.parametrize("name", registry.NAMES)
def test_no_two_properties_of_a_protocol_are_equal(name: str) -> None:
    """Compares fingerprints of the expressions, also those of other protocols' properties if they apply."""
    protocol, prints = registry.protocol_of(name)(), Fingerprints()
    found: dict[str, set[str]] = defaultdict(set)
    foreign = 0
    for other in registry.NAMES:
        for one in (*stated(other).invariants, *stated(other).helpers):
            node = traced(protocol, one)
            if node is not None and not node.is_const:
                found[prints.node(node)].add(one.name)
                foreign += other != name
    assert len(found) >= len(stated(name).invariants) // 2
    assert [names for names in found.values() if len(names) > 1] == []
    if name == "replication":
        assert foreign > 5, "the controller's properties are asked of its states"


# --- properties of a replay -----------------------------------------------------------------------------------


def test_the_catalogue_has_every_property_that_a_metadata_log_can_violate() -> None:
    """Every violation's name is in the catalogue, with the risk that it means."""
    names = {p.name for p in PROPERTIES} - MEASURED
    assert {n for n in names if METADATA_LOG not in KNOWN[n].checked_by} == set()
    assert set(_AT_RISK) == names


def attributes(path: Path, of: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == of
    }


def test_the_catalogue_has_every_property_that_broker_logs_can_violate() -> None:
    of_logs = [path for path in (TRACES / "brokers").glob("*.py") if path.stem != "data_logs"]
    of = ("statements", "observed")
    used = set().union(*(attributes(path, module) for path in of_logs for module in of))
    assert used == {s.name for s in observed.OF_BROKERS}
    assert {name for name, known in KNOWN.items() if BROKER_LOGS in known.checked_by} == used


# --- places of properties -------------------------------------------------------------------------------------
