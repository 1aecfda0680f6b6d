"""One name, one meaning, one statement, whoever checks a property; what a replay can find is in the catalogue."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import highwater.invariants
import highwater.traces
from highwater.checker.engines.solver.induction import helpers
from highwater.checker.scenarios.catalogue import load, scenario_files
from highwater.checker.scenarios.model_key import Fingerprints
from highwater.checker.scenarios.scenario_files import find
from highwater.invariants import catalogue, statements
from highwater.invariants.catalogue import BROKER_LOGS, METADATA_LOG, Stated, stated
from highwater.invariants.replication import observed
from highwater.model import registry
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import Node
from highwater.model.language.model import state_inputs
from highwater.model.language.protocol import Invariant, Protocol
from highwater.model.language.state import State
from highwater.model.language.tracing import tracing
from highwater.model.language.values import as_bool
from highwater.traces.metadata.beliefs.automaton import MEASURED
from highwater.traces.metadata.beliefs.evidence import PROPERTIES
from highwater.traces.metadata.reporting import _AT_RISK

INVARIANTS = Path(highwater.invariants.__file__).parent
TRACES = Path(highwater.traces.__file__).parent
KNOWN = catalogue.catalogue()
MARKS = {"invariant", "helper", "statement", "seen", "step_property", "reachable"}
"""What marks a property. Of a liveness property the goal is not all: what is fair belongs to it."""


def everything(of: Stated) -> list[Any]:
    of_steps = [*of.step_properties, *of.helper_steps, *of.reachable]
    return [*of.invariants, *of_steps, *of.liveness, *of.helpers]


# --- names and meanings ---------------------------------------------------------------------------------------


def test_every_property_says_something_and_names_rules() -> None:
    assert len(KNOWN) > 100
    assert [p.name for p in KNOWN.values() if not p.meaning or not all(p.checked_by.values())] == []


@pytest.mark.parametrize("name", registry.NAMES)
def test_goals_and_properties_are_told_apart(name: str) -> None:
    of = stated(name)
    assert all(goal.goal for goal in of.reachable)
    assert not [one.name for one in everything(of) if getattr(one, "goal", False) and one not in of.reachable]


def test_every_goal_is_expected_by_a_scenario() -> None:
    expected: dict[str, set[str]] = {}
    for name in scenario_files():
        scenario = find(name)
        expected.setdefault(scenario.definition.name, set()).update(scenario.expectation.reachable)
    for name in registry.NAMES:
        goals = {goal.name for goal in stated(name).reachable}
        assert goals <= expected.get(name, set()), name


@pytest.mark.parametrize("name", registry.NAMES)
def test_no_name_stands_twice_in_a_protocol(name: str) -> None:
    names = [one.name for one in everything(stated(name))]
    assert sorted(names) == sorted(set(names))


def test_one_name_for_two_meanings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(m: Any, s: Any) -> Any:
        """Something else."""

    stray = Invariant("leader_completeness", other, "B4")
    monkeypatch.setattr(observed, "CONDITIONS", (*observed.CONDITIONS, stray))
    with pytest.raises(ValueError, match=r"leader_completeness says .* of metadata log 'Something else.'"):
        catalogue.catalogue.__wrapped__()


def test_who_checks_what_several_check() -> None:
    """The ideas that had several names, or a name that had several."""
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


def test_what_several_check_is_a_statement() -> None:
    """But for a step property, which is one function for both protocols that have the controller in them.

    A topic's properties are those of its partitions: the controller's, asked of each.
    """
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
    assert shared - {step.name for step in steps} <= {s.name for s in statements.STATEMENTS}
    assert len({step.name for step in steps}) == len(steps)


def test_an_invariant_takes_name_and_meaning_from_its_statement() -> None:
    @statements.elr_only_under_min_isr.seen(rule="some_rule")
    def another_name(m: Any, s: Any) -> Any:
        """How it is seen."""
        return m

    assert another_name.name == "elr_only_under_min_isr"
    assert another_name.meaning == statements.elr_only_under_min_isr.meaning
    assert (another_name.source, another_name.rule) == ("966.6, 966.8", "some_rule")
    assert another_name.function(1, 2) == 1


# --- one statement --------------------------------------------------------------------------------------------


def marked() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted(INVARIANTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                calls = [d.func for d in node.decorator_list if isinstance(d, ast.Call)]
                marks = {c.id if isinstance(c, ast.Name) else getattr(c, "attr", "") for c in calls}
                if marks & MARKS:
                    yield str(path.relative_to(INVARIANTS)), node


def bodies(functions: Iterator[tuple[str, ast.FunctionDef]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for _, function in functions:
        found["\n".join(ast.dump(statement) for statement in function.body[1:])].add(function.name)
    return found


def test_no_two_properties_have_the_same_body() -> None:
    found = bodies(marked())
    assert len(found) > 100
    implied = ast.dump(ast.parse("return implies(leads, holds)").body[0])
    assert implied in found, "as the statements are read here"
    assert [names for names in found.values() if len(names) > 1] == []


def test_a_body_that_stands_twice_is_noticed() -> None:
    text = '@invariant("966.6")\ndef {}(m, s):\n    """{}"""\n    return (s.isr & s.elr).is_empty\n'
    functions = [ast.parse(text.format(name, name)).body[0] for name in ("one", "other")]
    assert {"one", "other"} in bodies(("", f) for f in functions if isinstance(f, ast.FunctionDef)).values()


def traced(protocol: Protocol, one: Invariant) -> Node | None:
    """Its expression on the states of a protocol; None where it asks for what that protocol does not have."""
    inputs = state_inputs(protocol.state.leaves(""))
    with tracing():
        try:
            return as_bool(one.function(protocol, State(protocol.state, inputs))).node
        except (AttributeError, LanguageError, TypeError):
            return None


@pytest.mark.parametrize("name", registry.NAMES)
def test_no_two_properties_of_a_protocol_ask_the_same(name: str) -> None:
    """By the fingerprints of their expressions. What other protocols state is asked too, as far as it can be."""
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


# --- what a replay can find -----------------------------------------------------------------------------------


def test_what_a_metadata_log_can_break_is_in_the_catalogue() -> None:
    """The names that findings have come from here, and for each it is said what is at risk."""
    names = {p.name for p in PROPERTIES} - MEASURED
    assert {n for n in names if METADATA_LOG not in KNOWN[n].checked_by} == set()
    assert set(_AT_RISK) == names


def attributes(path: Path, of: str) -> set[str]:
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == of
    }


def test_what_brokers_logs_can_break_is_in_the_catalogue() -> None:
    of_logs = [path for path in (TRACES / "brokers").glob("*.py") if path.stem != "data_logs"]
    used = set().union(*(attributes(path, "statements") for path in of_logs))
    assert used == {s.name for s in observed.OF_BROKERS}
    assert {name for name, known in KNOWN.items() if BROKER_LOGS in known.checked_by} == used


def test_no_finding_is_named_by_a_text() -> None:
    """Else it would not be the catalogue's name."""
    for path in sorted(TRACES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                named = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "property")]
                assert not any(isinstance(value, ast.Constant) for value in named), f"{path}:{node.lineno}"


# --- where it is looked for -----------------------------------------------------------------------------------


def test_the_protocols_that_are_named_are_those_that_are_there() -> None:
    import highwater.model as model

    root = Path(model.__file__).parent
    packages = [".".join(p.parent.relative_to(root).parts) for p in sorted(root.rglob("__init__.py"))]
    import importlib

    holds = [
        p for p in packages if p and hasattr(importlib.import_module(f"highwater.model.{p}"), "PROTOCOL")
    ]
    assert sorted(holds) == sorted(registry.NAMES)


@pytest.mark.parametrize("name", ["replication", "replication.controller", "truncation"])
def test_helpers_of_a_proof_are_those_of_the_package(name: str) -> None:
    found = helpers(load(name))
    assert found.invariants
    assert {i.function.__module__.split(".")[0] for i in found.invariants} == {"highwater"}
