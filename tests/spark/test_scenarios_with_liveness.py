"""Scenarios with liveness on Spark: safety is searched, and the report lists what was not checked."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from highwater.checker.engines import native
from highwater.checker.engines.by_name import Engine
from highwater.checker.scenarios import scenario_files
from tests.command import Run, highwater

LOSS, LIVE = "replication/recovery-first-phase-loss", "replication/liveness-downgrade"


def check(*arguments: str) -> Run:
    return highwater("check", *arguments, "--engine", "spark", "--limit-states", 200_000)


@pytest.fixture
def _native(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the native search: the tests check requests, not the engine."""
    monkeypatch.setattr(Engine, "search", lambda self, count: functools.partial(_search, self))


def _search(engine: Engine, model: Any, options: Any, progress: Any) -> Any:
    assert engine.name == "spark"
    assert not model.liveness
    return native.search(model, options, progress)


@pytest.mark.usefixtures("_native")
def test_skipped_liveness_is_reported_and_not_counted_as_violated() -> None:
    run = check(LOSS)
    assert run.status == 0, run.output
    (said,) = (line for line in run.output.splitlines() if "Spark checks no liveness: skipped " in line)
    assert said.startswith(f"{LOSS}: ")
    assert "acknowledged_writes_reach_all_replicas" in said
    assert "as expected" in run.output


@pytest.mark.usefixtures("_native")
def test_standard_scenarios_that_ask_for_nothing_else_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_files, "standard_names", lambda: [LOSS, LIVE])
    run = check()
    assert run.status == 0, run.output
    assert f"{LIVE}: skipped: Spark checks no liveness (" in run.output
    assert "1 scenario as expected" in run.output


@pytest.mark.usefixtures("_native")
def test_liveness_requested_by_name_is_refused() -> None:
    run = check(LIVE)
    assert run.status == 2
    assert "liveness needs the graph on one machine; use --engine native" in run.output
