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


def run(*arguments: Any, **extra: Any) -> Any:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        **extra,
    )


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


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_an_interrupt_gives_partial_results(engine: str) -> None:
    process = start("check", "truncation/kip-320", *LONG, "--engine", engine, "--json", "-")
    line, out, err = interrupted(process)
    (result,) = json.loads(out)
    assert line.startswith("truncation/kip-320: ")
    assert "states, " in line
    assert "/s, depth " in line
    assert process.returncode == 130
    assert (result["verdict"], result["complete"], result["stopped_by"]) == (
        "inconclusive",
        False,
        "interrupted",
    )
    assert result["distinct_states"] > 1
    assert "Traceback" not in err


def test_interrupt_after_a_violation(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    process = start(
        "check", "truncation/kip-320", *LONG, "--property", "weak_isr", "--deadlock", "--json", target
    )
    _, out, err = interrupted(process)
    (result,) = json.loads(target.read_text())
    assert process.returncode == 130
    assert result["verdict"] == "violated"
    assert "deadlock is violated at depth 5, after 4 steps." in out
    assert "interrupted: not all states were explored" in out
    assert "Traceback" not in err


def test_interrupt_leaves_out_the_scenarios_that_follow() -> None:
    process = start("check", "truncation/kip-320", "truncation/kip-101", *LONG, "--workers", 1, "--json", "-")
    _, out, _ = interrupted(process)
    assert [r["scenario"] for r in json.loads(out)] == ["truncation/kip-320"]


def test_interrupt_of_walks() -> None:
    process = start(
        "simulate", "truncation/kip-320", "--engine", "interpreter", "--walks", 10**9, "--json", "-"
    )
    line, out, _ = interrupted(process)
    (result,) = json.loads(out)
    assert process.returncode == 130
    assert "walks left" in line
    assert result["walks"] > 0


def test_quiet_prints_no_progress() -> None:
    run_ = run("check", "truncation/kip-320", *LONG, "--limit-seconds", 1.5, "--quiet")
    assert run_.returncode == 3
    assert run_.stderr == ""


def test_a_bad_request_has_one_line() -> None:
    done = run("check", "truncation/kip-321")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_a_terminal_without_our_signs() -> None:
    done = subprocess.run(
        [*COMMAND, "check", "docs/examples/register-hasty.toml"],
        cwd=ROOT,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "acknowledged 0 ? 1" in done.stdout


ANSWERS = [
    ["list", "--kind", "actions"],
    ["check", "docs/examples/register-hasty.toml", "--json", "-"],
    ["prove", "docs/examples/register.toml", "--depth", "2"],
    ["--help"],
]


def into(redirection: str, arguments: Any) -> Any:
    """Run the command with a shell redirection; returns (exit status, stderr)."""
    words = shlex.join([*COMMAND, *arguments])
    done = subprocess.run(
        ["bash", "-c", f"{words} {redirection}"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_a_closed_pipe_ends_with_141(arguments: Any) -> None:
    """A shell reports 141 for a program that a closed pipe ended; 1 would mean a violation."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.Popen(
        [*COMMAND, *arguments], cwd=ROOT, env=ENVIRONMENT, stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(write_end)
    _, err = process.communicate(timeout=600)
    assert (process.returncode, "Traceback" in err, "Exception ignored" in err) == (141, False, False)


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_a_full_disk_behind_standard_output_is_one_line(arguments: Any) -> None:
    status, err = into("> /dev/full", arguments)
    assert status == 2
    assert err.endswith("highwater: cannot write: No space left on device\n")
    assert "Traceback" not in err


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_standard_streams_are_no_error(closed: Any) -> None:
    status, err = into(closed, ANSWERS[1])
    assert status == 0
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (
            ["--help"],
            [
                "rich",
                "numpy",
                "llvmlite",
                "highwater.model.language.model",
                "highwater.checker.engines.reference",
            ],
        ),
        (["list"], ["rich", "numpy", "llvmlite", "highwater.model.truncation"]),
        (
            ["check", "docs/examples/register.toml"],
            ["rich", "highwater.checker.engines.reference", "hypothesis", "highwater.traces.runs", "crc32c"],
        ),
        (["check", "docs/examples/register.toml", "--engine", "interpreter"], ["rich", "numpy", "llvmlite"]),
    ],
    ids=" ".join,
)
def test_unneeded_modules_are_not_imported(arguments: Any, unwanted: str) -> None:
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: print('\\n'.join(sys.modules), file=sys.stderr))\n"
        "from highwater.checker.cli import main\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    imported = set(done.stderr.split())
    assert "highwater.checker.cli" in imported
    assert imported.isdisjoint(unwanted)


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


def test_a_terminal_gets_colour_and_a_live_line() -> None:
    status, shown = in_a_terminal("check", "truncation/kip-320", *LONG, "--limit-seconds", 1.2)
    assert status == 3
    assert "states, " in shown
    assert "\x1b[2K" in shown
    assert "\x1b[33m\x1b[1minconclusive" in shown


def test_a_terminal_gets_coloured_runs() -> None:
    status, shown = in_a_terminal("check", Path("docs/examples/register-hasty.toml"))
    assert status == 0
    assert "\x1b[31m" in shown
    assert "the leader acknowledges what it has" in shown
