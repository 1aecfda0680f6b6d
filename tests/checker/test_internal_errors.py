"""An internal error has its own exit status and a report to send; it is never reported as a violation."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.base import processes
from highwater.checker.base.problems import InternalError, Status
from highwater.checker.cli import cli
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.native import search as native_search
from highwater.checker.engines.native.disk.visited import VisitedRuns
from highwater.checker.runner import side_by_side
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language.model import Model
from tests.native.on_disk import on_disk

SCENARIO = "truncation/kip-101"


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Any]]:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return lambda: [json.loads(path.read_text()) for path in place.glob("highwater-report-*.json")]


def run(*arguments: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(cli, arguments, prog_name="highwater")
    return found.exit_code, found.stdout, found.stderr


def engine_that(monkeypatch: pytest.MonkeyPatch, change: Callable[[SearchResult], None]) -> None:
    """Apply ``change`` to every result of the native engine."""

    def search(model: Model, options: SearchOptions, progress: object = None) -> SearchResult:
        result = native_search(model, options)
        change(result)
        return result

    monkeypatch.setattr(engines, "search", lambda name: search)


def no_such_step(result: SearchResult) -> None:
    (violation,) = result.violations
    result.violations = [replace(violation, path=(1 << 20, *violation.path[1:]))]


def one_step_less(result: SearchResult) -> None:
    (violation,) = result.violations
    result.violations = [replace(violation, path=violation.path[:-1])]


@pytest.mark.parametrize("change", [no_such_step, one_step_less])
def test_a_run_that_the_interpreter_cannot_take(
    change: Callable[[SearchResult], None], monkeypatch: pytest.MonkeyPatch, reports: Callable[[], list[Any]]
) -> None:
    engine_that(monkeypatch, change)
    status, said, wrong = run("check", SCENARIO, "--quiet")
    assert status == Status.INTERNAL
    assert status == 70
    assert "violated" not in said
    assert wrong.count("\n") == 1
    assert wrong.startswith("highwater: internal error: the run")
    assert "not of the protocol: please send " in wrong
    (report,) = reports()
    assert report["property"] == "strong_isr"
    assert report["protocol"] == "truncation"
    assert report["error"].startswith("BrokenRunError: ")
    assert {"command", "versions", "platform", "traceback", "parameters", "rules", "initial", "path"} <= {
        *report
    }


def test_an_unexpected_exception_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, reports: Callable[[], list[Any]]
) -> None:
    def fails(result: SearchResult) -> None:
        raise ZeroDivisionError("by nothing")

    engine_that(monkeypatch, fails)
    status, _, wrong = run("check", SCENARIO, "--quiet")
    assert (status, wrong.count("\n")) == (70, 1)
    assert "internal error: ZeroDivisionError: by nothing" in wrong
    (report,) = reports()
    assert any("by nothing" in line for line in report["traceback"])


def test_no_report_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    engine_that(monkeypatch, one_step_less)
    status, _, wrong = run("check", SCENARIO, "--quiet")
    assert (status, wrong.count("\n")) == (70, 1)
    assert "cannot write a report" in wrong


def test_an_engine_that_contradicts_itself(
    monkeypatch: pytest.MonkeyPatch, reports: Callable[[], list[Any]]
) -> None:
    honest = VisitedRuns.mark
    monkeypatch.setattr(VisitedRuns, "mark", lambda self, *given: honest(self, *given) + 1)
    monkeypatch.setattr(engines, "search", lambda name: lambda model, options, progress: on_disk(model))
    status, said, wrong = run("check", "truncation/kip-320", "--quiet")
    assert status == 70, (said, wrong)
    assert "candidates were lost" in wrong
    assert len(reports()) == 1


def test_an_internal_error_of_a_helper_process_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: object, *given: object) -> None:
        raise InternalError("two and two", {"sum": 5})

    monkeypatch.setattr(side_by_side.Batch, "explore", fails)
    asked = side_by_side.Batch((SCENARIO,), None, "native", SearchOptions())  # type: ignore[arg-type]
    monkeypatch.setattr(side_by_side.Batch, "request", lambda self, number: None)
    told = processes._answer(partial(side_by_side._help, asked, 1), 0, lambda said: None)
    assert isinstance(told, InternalError)
    assert told.facts == {"sum": 5}


def test_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(result: SearchResult) -> None:
        raise MemoryError

    engine_that(monkeypatch, fails)
    status, _, wrong = run("check", SCENARIO, "--quiet")
    assert (status, wrong.count("\n")) == (2, 1)
    assert "out of memory" in wrong


@pytest.mark.parametrize(
    ("wrong", "status", "message"),
    [
        (
            ModuleNotFoundError("No module", name="z3"),
            2,
            "the package z3-solver cannot be imported: No module",
        ),
        (
            ImportError("z3.so: no such file", name="z3.z3core"),
            2,
            "the package z3-solver cannot be imported: ",
        ),
        (ImportError("No name", name="highwater.a"), 70, "internal error: ImportError: No name"),
        (OSError("Could not load its.so"), 2, "Could not load its.so"),
        (OSError(28, "No space left on device", "a/b"), 2, "a/b: No space left on device"),
        (EOFError("marshal data too short"), 70, "internal error: EOFError: marshal data too short"),
    ],
)
def test_errors_of_an_installation(
    monkeypatch: pytest.MonkeyPatch,
    reports: Callable[[], list[Any]],
    wrong: Exception,
    status: int,
    message: str,
) -> None:
    """Click reports an EOFError as an interruption."""

    def fails(result: SearchResult) -> None:
        raise wrong

    engine_that(monkeypatch, fails)
    found, _, said = run("check", SCENARIO, "--quiet")
    assert (found, said.count("\n")) == (status, 1)
    assert said.startswith(f"highwater: {message}")
    assert len(reports()) == (status == 70)
