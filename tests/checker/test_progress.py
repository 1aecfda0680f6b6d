from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.checker.base.files import JsonOutput, refuse_unwritable, write_text, written
from highwater.checker.base.problems import InputError
from highwater.checker.cli import cli
from highwater.checker.runner import ProgressReporter, size
from highwater.checker.scenarios.search import Progress
from tests.command import highwater

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
