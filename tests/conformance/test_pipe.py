"""The pipe: its lines follow the schema, and each failure of the other end gives one error."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from highwater.checker.base.processes import JsonProcess
from highwater.checker.testing.conformance import AdapterError, Mismatch, Outcome, PipeAdapter, pipe
from highwater.checker.testing.conformance.kafka import CONTRACT
from highwater.checker.testing.conformance.stateful import conformance_machine
from tests.checker.schema import problems
from tests.conformance.driver import SCENARIO

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


def test_a_driver_that_dies_ends_the_machine_with_one_error() -> None:
    made = conformance_machine(
        SCENARIO, PipeAdapter([sys.executable, "-c", f"{HELLO}sys.exit('gone')"]), CONTRACT
    )
    chosen = settings(made.TestCase.settings, max_examples=5, database=None)
    with pytest.raises(AdapterError, match="the process ended with status 1; it said: gone"):
        run_state_machine_as_test(made, settings=chosen)
    made.adapter.close()  # type: ignore[attr-defined]


def test_a_process_that_writes_without_end_has_to_wait() -> None:
    process = JsonProcess([sys.executable, "-c", "while True: print('x' * 99, flush=True)"])
    assert process.receive(60)
    time.sleep(0.3)
    assert process._from.qsize() <= 16
    process.close()
    assert process.process.poll() is not None
    assert process.receive(1) == b""
    assert not any(thread.is_alive() for thread in process._threads)
