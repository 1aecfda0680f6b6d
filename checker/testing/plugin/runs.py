"""How the plugin explores: options of the command line over what is asked, and what is said of an outcome."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines import by_name as engines
from highwater.checker.report import counterexample
from highwater.checker.report import summary as report
from highwater.checker.report.results import ScenarioOutcome
from highwater.checker.runner.one import explore
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language.model import Model


def overrides(config: pytest.Config) -> Overrides:
    """What the options set over every scenario; InputError where one has not the form that it should have."""
    return Overrides.parse(
        config.getoption("--highwater-set"),
        config.getoption("--highwater-rule"),
        config.getoption("--highwater-profile"),
    )


def fitted(config: pytest.Config, request: Request, engine: str | None = None) -> Request:
    """A request as the engine can take it: the interpreter does not reduce by symmetry, so counts are void then."""
    return request.without_symmetry() if _engine(config, engine) == "interpreter" else request


def _engine(config: pytest.Config, engine: str | None) -> str:
    name = engine or config.getoption("--highwater-engine") or engines.DEFAULT
    if name not in ("native", "interpreter"):
        raise InputError(f"--highwater-engine {name}: native or interpreter")
    return str(name)


def search(
    config: pytest.Config,
    request: Request,
    *,
    engine: str | None = None,
    limit_states: int | None = None,
    limit_seconds: float | None = None,
) -> tuple[Model, ScenarioOutcome]:
    """Explore what is asked; arguments go over options. Raises InputError, LanguageError or KeyboardInterrupt."""
    engine, request = _engine(config, engine), fitted(config, request, engine)
    options = SearchOptions(
        workers=config.getoption("--highwater-workers") or (1 if "PYTEST_XDIST_WORKER" in os.environ else 0),
        limit_states=limit_states or config.getoption("--highwater-limit-states"),
        limit_seconds=limit_seconds or config.getoption("--highwater-limit-seconds"),
        symmetry=request.symmetry,
        deadlock=request.deadlock,
    )
    model, outcome = explore(request, engine, engines.search(engine), options)
    if model is None or outcome.result.stopped_by == "interrupted":
        raise KeyboardInterrupt
    return model, outcome


def told(model: Model, outcome: ScenarioOutcome, names: Iterable[str]) -> Iterator[str]:
    """The counterexamples of these properties, and what to know of the search."""
    for example in outcome.examples:
        if example.name in names:
            yield ""
            yield from counterexample.plain(model, example)
    yield ""
    yield f"{outcome.request.scenario.name}: {summary(outcome)}"


def summary(outcome: ScenarioOutcome) -> str:
    """One line: how far the search came."""
    result = outcome.result
    notes = "; ".join(report.notes(outcome))
    said = f"{result.distinct_states:,} states, depth {result.depth}, engine {outcome.engine}"
    return f"{said}; {notes}" if notes else said
