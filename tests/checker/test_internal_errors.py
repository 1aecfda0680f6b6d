"""An internal error has its own exit status and a report to send; it is never reported as a violation."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base.problems import Status
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.native import search as native_search
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language.model import Model
from tests.command import highwater

SCENARIO = "truncation/kip-101"


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[Any]]:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return lambda: [json.loads(path.read_text()) for path in place.glob("highwater-report-*.json")]


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
    run = highwater("check", SCENARIO, "--quiet")
    assert Status(run.status) is Status.INTERNAL
    assert "violated" not in run.out
    assert run.err.count("\n") == 1
    assert run.err.startswith("highwater: internal error: the run")
    assert "not of the protocol: please send " in run.err
    (report,) = reports()
    assert report["property"] == "strong_isr"
    assert report["protocol"] == "truncation"
    assert report["error"].startswith("BrokenRunError: ")
    assert {"command", "versions", "platform", "traceback", "parameters", "rules", "initial", "path"} <= {
        *report
    }


def test_no_report_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    engine_that(monkeypatch, one_step_less)
    run = highwater("check", SCENARIO, "--quiet")
    assert (run.status, run.err.count("\n")) == (70, 1)
    assert "cannot write a report" in run.err


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
        (ZeroDivisionError("by nothing"), 70, "internal error: ZeroDivisionError: by nothing"),
        (MemoryError(), 2, "out of memory: a limit of this process is reached"),
        (EOFError("marshal data too short"), 70, "internal error: EOFError: marshal data too short"),
    ],
)
def test_an_error_is_one_line(
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
    run = highwater("check", SCENARIO, "--quiet")
    assert (run.status, run.err.count("\n")) == (status, 1)
    assert run.err.startswith(f"highwater: {message}")
    assert len(reports()) == (status == 70)
