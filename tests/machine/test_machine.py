"""Protocols as Hypothesis state machines: violations are shrunk and printed; correct protocols pass."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from docs.pages import galleries
from highwater.checker.base.problems import InputError
from highwater.checker.testing.machines import ModelMachine, Violated, machine, shrunk
from highwater.traces.replay import replay
from tests.zoo import Counters

ROOT = Path(__file__).parents[2]
HASTY = ROOT / "docs/examples/register-hasty.toml"
REGISTER = ROOT / "docs/examples/register.toml"


def run(made: type[ModelMachine], examples: int = 300, **changes: Any) -> None:
    chosen = settings(
        made.TestCase.settings,
        **{"max_examples": examples, "derandomize": True, "database": None, **changes},
    )
    run_state_machine_as_test(made, settings=chosen)


def violated(made: type[ModelMachine], examples: int = 2000, **changes: Any) -> Violated:
    with pytest.raises(Violated) as caught:
        run(made, examples, **changes)
    return caught.value


def test_violations_are_printed_like_the_explorer_s() -> None:
    run(machine(REGISTER))
    made = machine(HASTY)
    assert issubclass(made, RuleBasedStateMachine)
    assert made.__name__ == "RegisterHasty"
    failure = violated(made)
    assert len(failure.violation.path) == 3
    text = str(failure)
    assert "no_acknowledged_write_is_lost (example) is violated at depth 4, after 3 steps." in text
    assert "the leader acknowledges what it has" in text
    assert "The state that violates no_acknowledged_write_is_lost, as far as" in text
    assert type(failure).__name__ == "Violated[no_acknowledged_write_is_lost]"


def test_rules_and_parameters_are_set_over_the_subject() -> None:
    failure = violated(machine(REGISTER, rules={"wait_for_all": False}, parameters={"writes": 1}))
    assert len(failure.violation.path) == 3
    with pytest.raises(InputError, match="did you mean 'wait_for_all'"):
        machine(REGISTER, rules={"wait_for_al": False})
    with pytest.raises(InputError, match="is no directory"):
        machine(HASTY, traces=ROOT / "README.md")


def test_the_run_is_saved_as_a_trace_that_replay_explains(tmp_path: Path) -> None:
    made = machine("replication/defect-join-below-hwm", traces=tmp_path / "not" / "there")
    failure = violated(made)
    path = tmp_path / "not" / "there" / f"{failure.counterexample.name}.ndjson"
    assert str(path) in str(failure)
    meta, *lines = map(json.loads, path.read_text().splitlines())
    assert meta["meta"]["about"] == {"violates": [failure.counterexample.name]}
    assert len(lines) == len(failure.violation.path) + 1
    report = replay(path)
    assert not report.unexplained_count
    assert set(report.findings_count) == {failure.counterexample.name}


def test_derandomized_runs_are_the_same_every_time() -> None:
    def paths() -> list[tuple[int, ...]]:
        made, seen = machine(REGISTER), []
        made.teardown = lambda self: seen.append(tuple(self.path))  # type: ignore[method-assign, attr-defined]
        run(made, 30)
        return seen

    first = paths()
    assert first == paths()
    assert len(set(first)) > 10


def test_every_step_is_one_of_the_model_and_cut_ones_are_not_taken() -> None:
    made, actions = machine(REGISTER, parameters={"writes": 1}), set()

    def look(self: ModelMachine) -> None:
        state = self.initial
        for number in self.path:
            assert not self.interpreter.refusals(state, self.model.instances[number])
            after = self.interpreter.step(state, number).state
            assert after is not None
            actions.add(self.model.instances[number].action.name)
            state = after
        assert state == self.state

    made.teardown = look  # type: ignore[method-assign, assignment]
    run(made, 60)
    assert actions == {"write", "copy", "acknowledge", "fail_over"}


def test_a_deadlock_is_a_violation_on_request() -> None:
    counters = {"counters": 2, "top": 1}
    failure = violated(machine(Counters, deadlock=True, parameters=counters))
    assert failure.counterexample.name == "deadlock"
    assert len(failure.violation.path) == 2
    run(machine(Counters, parameters=counters), 50)


@pytest.mark.parametrize("seed", range(5))
def test_shrinking_leaves_nothing_that_can_be_left_out(seed: int) -> None:
    dice = random.Random(seed)
    items = list(range(40))
    needed = set(dice.sample(items, dice.randint(0, 6)))

    def attempt(some: Any) -> Any:
        return list(some) if needed <= set(some) else None

    assert shrunk(items, attempt) == sorted(needed)


@pytest.mark.parametrize("module", ["machines", "conformance.stateful", "conformance"])
def test_without_hypothesis_the_error_names_the_package(module: str) -> None:
    """An implementation can be driven without Hypothesis."""
    name = f"highwater.checker.testing.{module}"
    program = f"import sys; sys.modules['hypothesis'] = sys.modules['pytest'] = None; import {name}"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    needs = f"ImportError: {name} needs the package hypothesis: pip install 'highwater-checker[test]'"
    assert ended.stderr.splitlines()[-1:] == ([] if module == "conformance" else [needs])


# --- gallery defects ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shortest"), [("min-isr-copies", 1), ("join-below-hwm", 5), ("stale-epoch-both", 13)]
)
def test_a_defect_is_found_and_shrunk(name: str, shortest: int) -> None:
    failure = violated(machine(galleries.PLACE + name), 20_000)
    assert len(failure.violation.path) >= shortest
