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


def test_one_name_for_two_meanings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(m: Any, s: Any) -> Any:
        """Something else."""

    stray = Invariant("leader_completeness", other, "B4")
    monkeypatch.setattr(observed, "CONDITIONS", (*observed.CONDITIONS, stray))
    with pytest.raises(ValueError, match=r"leader_completeness says .* of metadata log 'Something else.'"):
        catalogue.catalogue.__wrapped__()


def test_shared_properties_are_checked_by_these_protocols_and_replays() -> None:
    """Properties that used to have several names, or shared a name."""
    assert set(KNOWN["leader_completeness"].checked_by) == {
        "quorum", "replication", "replication.controller", "replication.topic", METADATA_LOG, BROKER_LOGS,
    }  # fmt: skip
    assert set(KNOWN["electable_completeness"].checked_by) == {
        "replication", "replication.controller", "replication.topic", METADATA_LOG, BROKER_LOGS,
    }  # fmt: skip
    assert set(KNOWN["committed_records_survive"].checked_by) == {"replication", BROKER_LOGS}
    for name in ("enough_are_electable", "isr_and_elr_are_disjoint", "elr_only_under_min_isr",
                 "isr_within_replicas", "elr_within_replicas", "isr_members_are_eligible"):  # fmt: skip
        assert {"replication", "replication.controller"} <= set(KNOWN[name].checked_by)


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


def test_the_protocols_that_are_named_are_those_that_are_there() -> None:
    import highwater.model as model

    root = Path(model.__file__).parent
    packages = [".".join(p.parent.relative_to(root).parts) for p in sorted(root.rglob("__init__.py"))]
    import importlib

    holds = [
        p for p in packages if p and hasattr(importlib.import_module(f"highwater.model.{p}"), "PROTOCOL")
    ]
    assert sorted(holds) == sorted(registry.NAMES)
