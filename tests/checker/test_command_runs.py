"""Runs of the command in its own process: interruption, pipes, imports, progress."""

from __future__ import annotations

import errno
import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.base.files import JsonOutput, refuse_unwritable, write_text, written
from highwater.checker.base.problems import InputError
from highwater.checker.cli import cli
from highwater.checker.runner import ProgressReporter, size
from highwater.checker.scenarios.search import Progress
from tests.checker.conftest import ROOT
from tests.command import highwater

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
    assert done.returncode == 0, done.stderr  # a busy machine prints a line of progress there
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


# --- progress -----------------------------------------------------------------------------------------


At = Callable[..., str]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> At:
    """Reports a number of states at a time, and returns what is printed."""
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    reporter = ProgressReporter("x")

    def report(seconds: float, states: int, spilled: int = 0, begun: float = 0.0) -> str:
        nonlocal now
        now = seconds
        reporter(Progress(7, states, 2 * states, 12, 3 * 2**20, spilled, seconds - begun))
        return capsys.readouterr().err

    return report


def test_lines_come_after_a_second_and_then_every_five(at: At) -> None:
    assert [second for second in range(1, 14) if at(second, 1000 * second)] == [1, 6, 11]


def test_a_progress_line_has_counts_rate_and_memory(at: At) -> None:
    assert at(0.001, 2) == ""
    assert at(2.0, 4000, spilled=5 * 2**30) == (
        "x: 4,000 states, 2,000/s, depth 7, queue 12, 3.0 MiB, 5.0 GiB on disk, 2 s\n"
    )


def test_the_rate_is_that_of_the_last_seconds(at: At) -> None:
    for second in range(1, 21):
        at(second, 1000 * min(second, 17))
    assert at(21, 17_000).startswith("x: 17,000 states, 0/s, ")
    assert ", 0/s, " in at(62, 100, begun=61)  # another search
    assert ", 100/s, " in at(82, 2100, begun=61)


def test_a_terminal_has_a_live_line_that_is_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "24")
    with ProgressReporter("x") as reporter:
        reporter(Progress(7, 10, 20, 12, 0, 0, 0.0))
        reporter.say("a\tline that stays, whole")
    assert capsys.readouterr().err == (
        "\r\033[Kx: tracing and compili…\r\033[Kx: a\tline that stays, whole\n\r\033[K"
    )


def test_quiet_prints_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.checker.runner._PLAIN_FIRST", 0.0)
    monkeypatch.setattr("highwater.checker.runner._PLAIN_SECONDS", 0.0)
    asked = ("check", "truncation/kip-101", "--set", "max_records=1", "--workers", 1)
    assert highwater(*asked, "--quiet").err == ""
    assert "states, " in highwater(*asked).err


def test_sizes() -> None:
    assert [size(n) for n in (5, 2048, 10 * 2**20, 3 * 2**29)] == ["5 B", "2.0 KiB", "10 MiB", "1.5 GiB"]


@pytest.mark.parametrize("variable", ["", "1"])
def test_no_color_leaves_out_colours(variable: str) -> None:
    arguments = ["check", "truncation/truncate-to-hwm", "--first", "--engine", "interpreter"]
    done = CliRunner(env={"NO_COLOR": variable}).invoke(cli, arguments, color=True)
    assert ("\x1b[" in done.output) == (not variable)


# --- output files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "said"), [(".", "is a directory"), ("nowhere/a.json", "cannot be written")])
def test_an_invalid_target_is_refused_immediately(tmp_path: Path, name: str, said: str) -> None:
    target = str(tmp_path / name)
    for ask in (lambda: JsonOutput(target), lambda: refuse_unwritable("--json", target)):
        with pytest.raises(InputError) as refused:
            ask()
        assert str(refused.value) == f"--json {target}: {said}"


def test_a_read_only_file_in_a_writable_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``os.access`` is not enough: for root everything is writable."""
    target = tmp_path / "a.json"
    target.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != target)
    with pytest.raises(InputError, match="cannot be written"):
        JsonOutput(str(target))


def test_a_file_is_replaced_only_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_text("before")

    def fails(wrong: BaseException) -> None:
        with written("--html", target) as beside:
            beside.write_text("half")
            assert target.read_text() == "before"
            raise wrong

    with pytest.raises(InputError) as refused:
        fails(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert str(refused.value) == f"--html {target}: No space left on device"
    with pytest.raises(BrokenPipeError):  # the reader went away: not the target's fault
        fails(BrokenPipeError())
    assert target.read_text() == "before"
    write_text("--html", target, "after\n")
    assert target.read_text() == "after\n"
    assert [*tmp_path.iterdir()] == [target]


def test_standard_output_is_for_the_result_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = JsonOutput("-")
    out.say("a line for people")
    out.write({"a": "ä"})
    assert json.loads(capsys.readouterr().out) == {"a": "ä"}
    for target in (None, str(tmp_path / "a.json")):
        out = JsonOutput(target)
        out.say("a line for people")
        out.write({"a": "ä"})
        assert capsys.readouterr().out == "a line for people\n"
    assert (tmp_path / "a.json").read_text() == '{\n  "a": "ä"\n}\n'


def test_quiet_leaves_notes_and_progress_out(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, said in ((False, ("a note\na line\n", "far\n")), (True, ("a line\n", ""))):
        out = JsonOutput(None, quiet=quiet)
        out.note("a note")
        out.progress("far")
        out.say("a line")
        assert tuple(capsys.readouterr()) == said
