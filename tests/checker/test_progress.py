from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.runner.one import ProgressReporter, size
from highwater.checker.scenarios.search import Progress
from tests.checker.conftest import Command


def at(seconds: float, states: int, spilled: int = 0) -> Any:
    return Progress(7, states, 2 * states, 12, 3 * 2**20, spilled, seconds)


def test_lines_come_after_a_second_and_then_every_five(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = ProgressReporter("x")
    said = []
    for second in range(1, 14):
        reporter(at(float(second), 1000 * second))
        said.append(capsys.readouterr().err != "")
    assert [i + 1 for i, yes in enumerate(said) if yes] == [1, 6, 11]


def test_a_progress_line_has_counts_rate_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = ProgressReporter("x")
    reporter(at(0.001, 2))
    reporter(at(2.0, 4000, spilled=5 * 2**30))
    assert capsys.readouterr().err == (
        "x: 4,000 states, 2,000/s, depth 7, queue 12, 3.0 MiB, 5.0 GiB on disk, 2 s\n"
    )


def test_the_rate_is_that_of_the_last_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = ProgressReporter("x")
    for second in range(1, 21):
        reporter(at(float(second), 1000 * min(second, 17)))
    reporter(at(21.0, 17_000))
    assert capsys.readouterr().err.splitlines()[-1].startswith("x: 17,000 states, 0/s, ")
    reporter(at(41.0, 100))  # of another search
    reporter(at(61.0, 2100))
    said = capsys.readouterr().err.splitlines()
    assert [line.split(", ")[1] for line in said] == ["0/s", "100/s"]


def test_preparation_is_reported_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("highwater.checker.runner.one._FIRST_SECONDS", 0.0)
    monkeypatch.setattr(ProgressReporter, "_live", lambda _, line, *, begin: said.append((line, begin)))
    with ProgressReporter("x") as reporter:
        assert reporter._preparing is not None
        reporter._preparing.join()
        reporter(at(0.5, 10))
    assert said[0] == ("x: tracing and compiling", True)
    assert said[1][0].startswith("x: 10 states")


def test_quiet_prints_no_progress(highwater: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.checker.runner.one._PLAIN_FIRST", 0.0)
    asked = ("check", "truncation/kip-101", "--set", "max_records=1", "--workers", 1)
    assert highwater(*asked, "--quiet").err == ""
    assert "states, " in highwater(*asked).err


def test_sizes() -> None:
    assert [size(n) for n in (5, 2048, 10 * 2**20, 3 * 2**29)] == ["5 B", "2.0 KiB", "10 MiB", "1.5 GiB"]


def test_no_progress_is_printed_after_an_early_end(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("highwater.checker.runner.one._FIRST_SECONDS", 0.1)
    monkeypatch.setattr(ProgressReporter, "_live", lambda _, line, *, begin: said.append(line))
    with ProgressReporter("x") as reporter:
        waiting = reporter._preparing
    assert waiting is not None
    waiting.join()
    assert said == []
