"""Runs of the command in its own process: interruption, pipes, imports."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.checker.conftest import ROOT

COMMAND = [sys.executable, "-m", "highwater"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
LONG = ["--set", "replicas=4", "--set", "max_leader_epoch=4", "--set", "log_size=4", "--set", "max_records=4"]


def run(*arguments: Any, env: dict[str, str] = ENVIRONMENT, **streams: Any) -> Any:
    command, streams = [*COMMAND, *map(str, arguments)], streams or {"capture_output": True}
    return subprocess.run(command, cwd=ROOT, env=env, text=True, check=False, **streams)


def start(*arguments: Any) -> Any:
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def interrupted(process: Any) -> Any:
    """Interrupt the process after its first progress line; returns (that line, stdout, rest of stderr)."""
    line = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()  # a process that ignores the signal would run forever
    return line, out, err


def test_an_interrupt_gives_partial_results_without_the_scenarios_that_follow() -> None:
    process = start("check", "truncation/kip-320", "truncation/kip-101", *LONG, "--workers", 1, "--json", "-")
    line, out, err = interrupted(process)
    (result,) = json.loads(out)
    assert line.startswith("truncation/kip-320: ")
    assert "states, " in line
    assert "/s, depth " in line
    assert (process.returncode, result["scenario"]) == (130, "truncation/kip-320")
    ended = (result["verdict"], result["complete"], result["stopped_by"])
    assert ended == ("inconclusive", False, "interrupted")
    assert result["distinct_states"] > 1
    assert "Traceback" not in err


def test_interrupt_of_the_interpreter_after_a_violation(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    asked = ("--property", "weak_isr", "--deadlock", "--engine", "interpreter", "--json", target)
    process = start("check", "truncation/kip-320", *LONG, *asked)
    _, out, err = interrupted(process)
    (result,) = json.loads(target.read_text())
    assert process.returncode == 130
    assert result["verdict"] == "violated"
    assert "deadlock is violated at depth 5, after 4 steps." in out
    assert "interrupted: not all states were explored" in out
    assert "Traceback" not in err


def test_interrupt_of_walks() -> None:
    process = start("simulate", "truncation/kip-320", "--walks", 10**9, "--json", "-")
    line, out, _ = interrupted(process)
    (result,) = json.loads(out)
    assert process.returncode == 130
    assert "walks left" in line
    assert result["walks"] > 0


def test_a_terminal_without_our_signs() -> None:
    done = run("check", "docs/examples/register-hasty.toml", env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "acknowledged 0 ? 1" in done.stdout


ANSWERS = ["check docs/examples/register-hasty.toml --json -", "--help"]


@pytest.mark.parametrize("arguments", ANSWERS)
def test_a_closed_pipe_ends_with_141(arguments: str) -> None:
    """A shell reports 141 for a program that a closed pipe ended; 1 would mean a violation."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = run(*arguments.split(), stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("arguments", ANSWERS)
def test_a_full_disk_behind_standard_output_is_one_line(arguments: str) -> None:
    with open("/dev/full", "w") as full:
        done = run(*arguments.split(), stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.endswith("highwater: cannot write: No space left on device\n")
    assert "Traceback" not in done.stderr


def test_closed_standard_streams_are_no_error() -> None:
    words = shlex.join([*COMMAND, *ANSWERS[0].split()])
    subprocess.run(["bash", "-c", f"{words} >&- 2>&-"], cwd=ROOT, env=ENVIRONMENT, check=True)


REGISTER = "check docs/examples/register.toml"


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        ("--help", "numpy llvmlite highwater.model.language.model highwater.checker.engines.reference"),
        ("list", "numpy llvmlite highwater.model.truncation"),
        (REGISTER, "highwater.checker.engines.reference hypothesis highwater.traces.runs crc32c"),
        (f"{REGISTER} --engine interpreter", "numpy llvmlite"),
    ],
)
def test_unneeded_modules_are_not_imported(arguments: str, unwanted: str) -> None:
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('\\n'.join(sys.modules), file=sys.stderr))\n"
        "from highwater.checker.cli import main\n"
        f"sys.argv[1:] = {arguments.split()!r}\n"
        "main()\n"
    )
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert "highwater.checker.cli" in imported
    assert imported.isdisjoint(unwanted.split())


def in_a_terminal(*arguments: Any) -> Any:
    """Run the command in a pseudo-terminal; returns (exit status, all output)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execve(
            sys.executable,
            [*COMMAND, *map(str, arguments)],
            {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100"},
        )
    shown, until = b"", time.monotonic() + 600
    while time.monotonic() < until:
        if select.select([terminal], [], [], 1)[0]:
            try:
                part = os.read(terminal, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def test_a_terminal_gets_a_live_line_and_a_coloured_run_and_verdict() -> None:
    asked = ("--property", "weak_isr", "--deadlock", "--limit-seconds", 1.2)
    status, shown = in_a_terminal("check", "truncation/kip-320", *LONG, *asked)
    assert status == 1
    assert "states, " in shown
    assert "\r\x1b[K" in shown
    assert "\x1b[31m" in shown
