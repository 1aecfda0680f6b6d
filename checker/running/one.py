"""A request explored, or walked through: traced, searched, and its runs to violations followed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from highwater.checker.asking.request import Request
from highwater.checker.asking.search import ProgressCallback, SearchOptions, SearchResult
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.simulation import Simulate, SimulationOptions, SimulationResult
from highwater.checker.running import known
from highwater.checker.running.progress import ProgressReporter
from highwater.checker.telling import counterexample
from highwater.checker.telling.results import ScenarioOutcome
from highwater.checker.telling.vacuity import idle
from highwater.model.language import graph
from highwater.model.language.model import Model, Property, confine
from highwater.model.language.protocol import Invariant

Outcome = TypeVar("Outcome", bound=ScenarioOutcome)


def explore(
    request: Request,
    engine: str,
    search: engines.Search,
    options: SearchOptions,
    progress: ProgressCallback | None = None,
    *,
    keep: bool = False,
) -> tuple[Model | None, ScenarioOutcome]:
    """Trace, search, and follow the runs to violations. The model is None where tracing was interrupted.

    ``keep`` says that the protocol's code is as its files have it, so that what is found out about the request is kept,
    for the native engine; the others find it out themselves.
    """
    model: Model | None = None
    result = SearchResult(stopped_by="interrupted")
    outside: int | None = None
    request = request.for_first() if options.stop_at_first else request
    try:
        model = known.model_of(request) if keep and engine == engines.DEFAULT else request.model()
        if request.outside:
            result, outside = _search_outside(model, search, options, progress)
        elif request.liveness:
            from highwater.checker.engines.liveness import search_with_liveness

            result = search_with_liveness(model, search, engines.explore(engine), options, progress)
        else:
            result = search(model, options, progress)
    except KeyboardInterrupt:
        pass
    outcome = outcome_of(ScenarioOutcome, request, engine, model, result, stop_at_first=options.stop_at_first)
    return model, replace(outcome, outside_states=outside)


def _search_outside(
    model: Model, search: engines.Search, options: SearchOptions, progress: ProgressCallback | None
) -> tuple[SearchResult, int]:
    """The search of a widened model, and how many states outside the bounds it saw: those that a property is about."""
    seen = Property(Invariant("outside", lambda m, s: True, ""), graph.TRUE, confine(model))
    own = model.properties
    model.properties = [*own, seen]
    try:
        result = search(model, options, progress)
    finally:
        model.properties = own
    return result, result.premises.pop(seen.name)


def walk(
    request: Request, engine: str, simulate: Simulate, options: SimulationOptions, *, quiet: bool
) -> tuple[Model | None, ScenarioOutcome]:
    """Trace, walk at random, and follow the runs to violations; otherwise as ``explore``."""
    model: Model | None = None
    result = SimulationResult(stopped_by="interrupted", seed=options.seed)
    try:
        model = request.model()
        with ProgressReporter(request.scenario.name, quiet=quiet, left="walks left") as progress:
            result = simulate(model, options, progress)
    except KeyboardInterrupt:
        pass
    return model, outcome_of(ScenarioOutcome, request, engine, model, result, stop_at_first=True)


def outcome_of(
    kind: Callable[..., Outcome],
    request: Request,
    engine: str,
    model: Model | None,
    result: SearchResult,
    *,
    stop_at_first: bool,
) -> Outcome:
    """A result with the runs to its violations, and with what does nothing; no model: it was not traced.

    Engines find a goal as they find a violation. Here that becomes a run to the goal, which violates nothing.
    """
    if model is None:
        return kind(request, engine, result, (), stop_at_first)
    nothing = idle(model, request, result)
    for goal in request.goals:
        result.premises.pop(goal.name, None)
    runs = counterexample.follow_all(model, result.violations)
    return kind(
        request,
        engine,
        result,
        tuple(run for run in runs if not run.goal),
        stop_at_first,
        tuple(model.ruled_out),
        nothing.constant,
        nothing.warnings,
        goal_runs=tuple(run for run in runs if run.goal),
    )
