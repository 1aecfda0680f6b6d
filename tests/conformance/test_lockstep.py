"""Lockstep keeps every model state that fits; the pipe to another process follows its schema and reports failures."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from highwater.checker.base.problems import InputError
from highwater.checker.scenarios.request import asked
from highwater.checker.testing.conformance import (
    Adapter,
    AdapterError,
    Contract,
    Lockstep,
    Mismatch,
    Outcome,
    PipeAdapter,
    pipe,
)
from highwater.checker.testing.conformance.kafka import CONTRACT
from highwater.checker.testing.conformance.stateful import ConformanceMachine, conformance_machine
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from tests.checker.schema import problems
from tests.conformance.controller import DEFECTS
from tests.conformance.driver import SCENARIO, Driver
from tests.slow import all_but, often, slow

REGISTER = Path(__file__).parents[2] / "docs/examples/register.py"


class Told(Adapter):
    """An adapter that returns the outcomes and states that the test sets, and records its calls."""

    def __init__(self) -> None:
        self.outcome: Any = Outcome(True)
        self.state: Mapping[str, Any] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def reset(self, state: Mapping[str, Any]) -> None:
        self.asked.clear()

    def apply(self, operation: str, parameters: Mapping[str, Any]) -> Outcome:
        self.asked.append((operation, dict(parameters)))
        return self.outcome

    def observe(self) -> Mapping[str, Any]:
        return self.state


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture(scope="module")
def model() -> Model:
    return asked(str(REGISTER), parameters={"writes": 1}).model()


def lockstep(model: Model, adapter: Adapter, **contract: Any) -> Lockstep:
    made = Lockstep(model, adapter, Contract(**contract), Interpreter(model))
    made.start()
    return made


def number(model: Model, called: str) -> int:
    return [str(instance) for instance in model.instances].index(called)


def test_a_parameter_that_the_implementation_chooses_leaves_states_to_guess(model: Model, told: Told) -> None:
    run = lockstep(model, told, chosen={"fail_over": ["to"]})
    run.step(number(model, "fail_over(to=1)"))
    assert told.asked == [("fail_over", {})]
    assert {model.decode(state)["leader"] for state in run.states} == {1, 2}
    told.state = {"leader": 2}
    run.step(number(model, "write()"))
    assert {model.decode(state)["leader"] for state in run.states} == {2}
    told.state = {"leader": 1}
    with pytest.raises(Mismatch, match="leader: the model says 2, observed is 1") as wrong:
        run.step(number(model, "copy(to=1)"))
    # The error lists the operations as called, without the parameter that the implementation chose.
    for sentence in ("fail_over()", "a client writes to the leader", "the leader copies to replica 1"):
        assert sentence in str(wrong.value)


def test_unseen_steps_are_guessed_as_many_as_are_allowed(model: Model, told: Told) -> None:
    wanted, after = number(model, "acknowledge()"), {"acknowledged": 1}
    for hidden, fits in ((1, False), (2, True)):
        told.state = {}
        run = lockstep(model, told, hidden_steps=hidden)
        run.step(number(model, "write()"))
        run.states = [s for s in run.states if model.decode(s)["stored"] == [1, 0, 0]]
        told.state = after
        if fits:
            run.step(wanted)
        else:
            with pytest.raises(Mismatch, match="every live replica has it"):
                run.step(wanted)


def test_a_refusal_has_to_be_the_models(model: Model, told: Told) -> None:
    guard = "there is a write to acknowledge"
    run = lockstep(model, told, answers={guard: "NOTHING_WRITTEN"})
    acknowledge = number(model, "acknowledge()")
    assert acknowledge in run.possible()[1]
    told.outcome = Outcome(False, "NOTHING_WRITTEN")
    run.step(acknowledge)
    told.outcome = Outcome(False, "BUSY")
    with pytest.raises(Mismatch, match=r"there is a write to acknowledge \(answer NOTHING_WRITTEN\)"):
        run.step(acknowledge)
    run = lockstep(model, told)
    assert acknowledge not in run.possible()[1], "nobody answers for this guard: it is not tried"
    told.outcome = Outcome(False)
    with pytest.raises(Mismatch, match="the model carries it out; the implementation refused"):
        run.step(number(model, "write()"))


def test_an_idle_operation_may_be_called_done_or_refused_but_changes_nothing(
    model: Model, told: Told
) -> None:
    idle, done = ["there is a write to acknowledge"], Outcome(True)
    run = lockstep(model, told, idle=idle)
    for told.outcome in (done, Outcome(False)):
        run.step(number(model, "acknowledge()"))
    told.state = {"acknowledged": 1}
    with pytest.raises(Mismatch, match="acknowledged: the model says 0, observed is 1"):
        run.step(number(model, "acknowledge()"))


def test_a_state_that_the_model_cannot_be_in_is_a_mismatch(model: Model, told: Told) -> None:
    run = lockstep(model, told)
    told.state = {"stored": [2, 0, 0]}
    with pytest.raises(Mismatch, match=r"observed is stored\[0\]: 2 is outside 0..1 \(bound writes\)"):
        run.step(number(model, "write()"))
    told.outcome = True
    with pytest.raises(AdapterError, match="not an Outcome"):
        run.step(number(model, "write()"))


@pytest.mark.parametrize("state", [{"storde": [1, 0, 0]}, {"stored": 1}, {"acknowledged": "one"}])
def test_a_field_or_a_kind_that_the_model_has_not_is_the_drivers_error(
    model: Model, told: Told, state: dict[str, Any]
) -> None:
    run = lockstep(model, told)
    told.state = state
    said = f"observe\\(\\) returned no state: .*`highwater show {model.protocol.name}` lists the fields"
    with pytest.raises(AdapterError, match=said):
        run.step(number(model, "write()"))


def test_a_refusal_has_the_error_of_the_first_guard_that_refuses(model: Model, told: Told) -> None:
    answers = {"the follower lives": "DEAD", "it lacks a write": "NOTHING_TO_COPY"}
    run = lockstep(model, told, answers=answers)
    run.step(number(model, "fail_over(to=1)"))
    told.outcome = Outcome(False, "DEAD")
    run.step(number(model, "copy(to=0)"))
    told.outcome = Outcome(False, "NOTHING_TO_COPY")
    run.step(number(model, "copy(to=2)"))
    with pytest.raises(Mismatch, match="refused with NOTHING_TO_COPY"):
        run.step(number(model, "copy(to=0)"))


# --- the example controller conforms to the model, and each planted defect shows within few operations ----


OPERATIONS = {
    "fenced_joins": 4,
    "stale_epoch_joins": 6,
    "elr_not_emptied": 7,
    "no_elr": 3,
    "unclean_keeps_elr": 3,
    "no_epoch_bump": 2,
    "first_replica_leads": 6,
    "min_isr_keeps_elr": 4,
    "unfencing_elects_nobody": 7,
    "shutdown_keeps_isr": 3,
}
"""The most operations of each shrunk run: one more than the longest of eight seeds."""

SAID = {
    "fenced_joins": "the model refuses it: no member is fenced or shutting down (answer INELIGIBLE_REPLICA)",
    "stale_epoch_joins": "the model refuses it: every member's broker epoch is the registered one",
    "no_elr": "partition.elr: the model says",
    "no_epoch_bump": "partition.leader_epoch: the model says",
    "unfencing_elects_nobody": "partition.leader: the model says",
    "shutdown_keeps_isr": "partition.isr: the model says",
}


def run(made: type[ConformanceMachine], examples: int) -> None:
    chosen = settings(made.TestCase.settings, max_examples=examples, derandomize=True, database=None)
    run_state_machine_as_test(made, settings=chosen)


def conform(defect: str | None) -> type[ConformanceMachine]:
    return conformance_machine(SCENARIO, Driver(defect), CONTRACT)


@pytest.mark.parametrize(
    "examples", [40, pytest.param(often(1_500, 5_000), marks=slow("many more runs than the fast test"))]
)
def test_the_controller_conforms_and_every_operation_is_tried(examples: int) -> None:
    made, taken = conform(None), Counter[str]()

    def count(self: ConformanceMachine) -> None:
        for number in self.lockstep.operations:
            taken[self.model.instances[number].action.name] += 1
        taken["refused"] += sum("refused with" in line for line in self.lockstep.history)

    made.teardown = count  # type: ignore[method-assign, assignment]
    run(made, examples)
    assert {*(CONTRACT.operations or ()), "refused"} <= {name for name, times in taken.items() if times}


@pytest.mark.parametrize(
    "defect",
    all_but(("fenced_joins", "no_elr", "first_replica_leads"), DEFECTS, "fast for three of the defects"),
)
def test_a_planted_defect_is_found_and_shrunk(defect: str) -> None:
    with pytest.raises(Mismatch) as caught:
        run(conform(defect), 500)
    assert 1 <= len(caught.value.operations) <= OPERATIONS[defect]
    text = str(caught.value)
    assert "replication.controller does not allow what the implementation did" in text
    assert SAID.get(defect, "the model says") in text
    if defect == "fenced_joins":
        assert "    841.2  The controller refuses an ISR with a fenced or shutting-down replica" in text


def test_an_unknown_name_in_a_contract_is_refused() -> None:
    for contract, said in (
        (Contract(operations=["fense"]), "did you mean 'fence'"),
        (Contract(answers={"something change": None}), "did you mean 'something changes'"),
        (Contract(chosen={"fence": ["brokers"]}), "did you mean 'broker'"),
    ):
        with pytest.raises(InputError, match=said):
            conformance_machine(SCENARIO, Driver(), contract)


# --- the pipe -----------------------------------------------------------------------------------------


ROOT = Path(__file__).parents[2]
SCHEMA = json.loads(Path(pipe.__file__).with_name("pipe.schema.json").read_text())
DRIVER = [sys.executable, "-m", "tests.conformance.driver"]

HELLO = (
    "import sys, time; say = lambda text: print(text, flush=True); sys.stdin.readline();"
    'say(\'{"id": 1, "version": 1}\');'
)
"""A program that greets correctly; a test appends what it does next."""

SLEEPS = "time.sleep(60)"


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in the repository, and shorten the grace period for ending a process."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(pipe, "GRACE", 0.1)


@pytest.mark.parametrize("defect", [None, "no_elr"])
def test_a_controller_in_another_process_is_compared_with_the_model(defect: str | None) -> None:
    with PipeAdapter([*DRIVER, *([defect] if defect else [])]) as adapter:
        assert adapter.implementation == "the example controller"
        made = conformance_machine(SCENARIO, adapter, CONTRACT)
        chosen = settings(made.TestCase.settings, max_examples=4, derandomize=True, database=None)
        if defect is None:
            run_state_machine_as_test(made, settings=chosen)
        else:
            with pytest.raises(Mismatch, match=r"partition\.elr: the model says"):
                run_state_machine_as_test(made, settings=chosen)
        process = adapter._process.process
    assert process.poll() is not None


def test_lines_have_the_form_of_the_schema(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tee = f"""
import subprocess, sys
log = open({str(log)!r}, "w")
other = subprocess.Popen({DRIVER!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
for line in sys.stdin:
    print(line, end="", file=log, flush=True)
    print(line, end="", file=other.stdin, flush=True)
    answer = other.stdout.readline()
    print(answer, end="", file=log, flush=True)
    print(answer, end="", flush=True)
"""
    state = {
        "registrations": [{}, {}],
        "partition": {"replicas": [0, 1], "isr": [0, 1], "leader": 0},
        "min_insync_replicas": 2,
        "unclean_election": False,
    }
    with PipeAdapter([sys.executable, "-c", tee]) as adapter:
        adapter.reset(state)
        assert adapter.apply("fence", {"broker": 1}) == Outcome(True)
        refused = adapter.apply("alter_partition", {"isr": [0, 1], "stale": None})
        assert refused == Outcome(False, "INELIGIBLE_REPLICA")
        assert adapter.observe()["partition"]["isr"] == [0]
        with pytest.raises(AdapterError, match="KeyError"):
            adapter.apply("alter_partition", {})
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) == 12
    for line in lines:
        assert not problems(line, SCHEMA["$defs"][line.get("call", "answer")])
    assert {line.get("call", "answer") for line in lines} == SCHEMA["$defs"].keys()
    assert problems({"id": 1, "call": "apply"}, SCHEMA["$defs"]["apply"])


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("say('hello')", "observe: the answer is not JSON: hello"),
        ("say('[' * 100000)", "observe: the answer is not JSON"),
        ("say('[]')", "observe: the answer is not an object"),
        ("say('{\"id\": 7}')", "observe: the answer has id 7, not 2"),
        ("say('{\"id\": 2}')", "the answer to observe has no state"),
        ('say(\'{"id": 2, "failure": "no\\\\u001b quorum"}\')', r"observe: it failed: no\\x1b quorum"),
        ("say('x' * (1 << 21))", "observe: the answer is longer than 1048576 bytes"),
        (SLEEPS, "observe: no answer in time"),
        ("sys.exit('no room')", "observe: the process ended with status 1; it said: no room"),
        ("import os; os.close(1); time.sleep(60)", "observe: the process ended its output"),
    ],
)
def test_every_failure_of_the_other_end_is_one_error(rest: str, said: str) -> None:
    program = f"{HELLO}sys.stdin.readline(); {rest}"
    with PipeAdapter([sys.executable, "-c", program], timeout=0.3 if rest == SLEEPS else 20) as adapter:
        with pytest.raises(AdapterError, match=said) as caught:
            adapter.observe()
        process = adapter._process.process
    assert "\n" not in str(caught.value)
    assert process.poll() is not None


def test_a_process_that_does_not_read_times_out() -> None:
    deaf = [sys.executable, "-c", f"{HELLO}time.sleep(60)"]
    late = pytest.raises(AdapterError, match="reset: no answer in time")
    with PipeAdapter(deaf, timeout=0.5) as adapter, late:
        adapter.reset({"text": "x" * 500_000})
    with PipeAdapter(deaf) as adapter, pytest.raises(AdapterError, match="the request is longer"):
        adapter.reset({"text": "x" * 2_000_000})


def test_a_start_that_fails_is_one_error() -> None:
    with pytest.raises(AdapterError, match="no/such/program: No such file"):
        PipeAdapter(["no/such/program"])
    with pytest.raises(AdapterError, match="there is no command"):
        PipeAdapter([])
    with pytest.raises(AdapterError, match="hello: no answer in time"):
        PipeAdapter([sys.executable, "-c", "import time; time.sleep(60)"], start_timeout=0.5)
    with pytest.raises(AdapterError, match="it speaks version 2, not 1"):
        PipeAdapter([sys.executable, "-c", 'print(\'{"id": 1, "version": 2}\', flush=True); input()'])


def test_closing_ends_the_command_s_children() -> None:
    program = (
        "import subprocess, sys, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)']);"
        "sys.stdin.readline();"
        'print(\'{"id": 1, "version": 1, "implementation": "%d"}\' % child.pid, flush=True);'
        "child.wait()"
    )
    with PipeAdapter([sys.executable, "-c", program]) as adapter:
        child = int(adapter.implementation)
        os.kill(child, 0)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and Path(f"/proc/{child}/stat").exists():
        if Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{child}").exists()
    with pytest.raises(AdapterError, match="closed"):
        adapter.observe()
