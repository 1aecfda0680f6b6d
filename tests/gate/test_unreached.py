"""The solver finds a state in which two protocols differ although the scenario never reaches it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.checker.comparing.gate.entries import GateEntry, rules_on_nowhere
from highwater.checker.comparing.models.differences import ActionChange, Comparison, lines
from highwater.checker.engines.solver.difference import (
    Pair,
    Union,
    Witness,
    instances_of_both,
    nearest_witness,
    questions_of_both,
)
from highwater.checker.engines.solver.terms import Limits, Stopped
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.model_key import by_action
from highwater.checker.scenarios.request import Overrides, Request
from highwater.model.language import graph
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from tests.gate.stepping import reached
from tests.gate.test_differences import compared

LEADER = "replication/defect-fenced-leader"


def changed(rule: str) -> tuple[Model, Model, list[Pair]]:
    """Both models, with and without the rule, and the instances of the rule's action in both."""
    scenario = scenario_files.find(LEADER)
    old, new = (Request.of(scenario, Overrides.parse([], off)).model() for off in ([], [f"{rule}=off"]))
    action = "handle_alter_partition"
    return old, new, instances_of_both(by_action(old)[action], by_action(new)[action])


def witness(old: Model, new: Model, pairs: list[Pair], seconds: float = 60.0) -> Witness | None:
    return nearest_witness(Union.of(old, new), (old, new), pairs, Limits(seconds))


def test_the_interpreter_steps_differently_from_the_found_state_and_no_run_reaches_it() -> None:
    old, new, pairs = changed("leader_epoch_check")
    found = witness(old, new, pairs)
    assert found is not None
    assert not Interpreter(old).violated(found.before)
    outcomes = [
        Interpreter(m).step(found.before, m.instances.index(step)).state
        for m, step in zip((old, new), found.pair, strict=True)
        if step is not None
    ]
    assert outcomes[0] != outcomes[1]
    assert outcomes == [found.first, found.second]
    assert found.before not in reached(new)


def test_a_found_state_has_the_invariants() -> None:
    """If an invariant excludes every difference, the solver finds no state."""
    old, new, pairs = changed("sender_epoch_check")
    differs = graph.any_(node for a, b in pairs for node in questions_of_both(a, b, new.inputs))
    for held, is_found in ((graph.TRUE, True), (graph.not_(differs), False)):
        vars(old)["properties"] = [SimpleNamespace(node=held)]
        assert (witness(old, new, pairs) is not None) == is_found


def test_an_incomplete_search_looks_for_no_unreached_state() -> None:
    """In an incomplete search, a run could still reach the state."""
    found, _, _ = compared(LEADER, "sender_epoch_check=off", limit_states=500)
    assert not found.whole
    assert [(c.same_so_far, c.unreached, c.beyond) for c in found.actions] == [(True, [], "")]


def test_the_report_has_a_line_if_the_solver_gives_up() -> None:
    with pytest.raises(Stopped):
        witness(*changed("sender_epoch_check"), seconds=0.0)
    change = ActionChange("a", "a", asked=True, beyond="the solver was stopped (seconds)")
    said = lines(Comparison("s", actions=[change], states=1))
    assert "  other states are unknown: the solver was stopped (seconds)" in said


RULES = """
from highwater.model.language import Int, Profile, Protocol, Rule, State, Struct, action, require

class Tap(Protocol):
    name = "tap"
    rules = {r: Rule(f"T{n}", f"Rule {r}.") for n, r in enumerate(("in_profile", "switched", "forgotten", "lost"), 1)}
    profiles = {"used": Profile.of("One.", "in_profile")}

    def define(self):
        self.state = Struct("Tap", level=Int(0, 3))

    @action("T0")
    def fill(self, s: State):
        require("there is room", s.level < 3)
        s.level = s.level + 1
"""


def test_rules_that_no_profile_has_and_no_scenario_switches_on_are_listed(tmp_path: Path) -> None:
    (tmp_path / "tap.py").write_text(RULES)
    toml = 'title = "Tap"\nprotocol = "tap.py"\nprofile = "used"\n'
    (tmp_path / "one.toml").write_text(toml)
    (tmp_path / "two.toml").write_text(f"{toml}[rules]\nswitched = true\n")
    entries = [GateEntry.of_scenario(name, tmp_path) for name in ("one.toml", "two.toml")]
    said = "tap: on in no profile and in nothing that is run here: "
    assert rules_on_nowhere(entries) == [f"{said}forgotten (T3), lost (T4)"]
    assert rules_on_nowhere(entries[:1]) == [f"{said}switched (T2), forgotten (T3), lost (T4)"]
    assert rules_on_nowhere([GateEntry.of_scenario("truncation/kip-320", tmp_path)]) == []
