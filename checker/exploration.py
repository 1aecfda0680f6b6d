"""A request explored, or walked through: traced, searched, and its runs to violations followed."""

from __future__ import annotations

from highwater.checker import counterexample, engines
from highwater.checker.progress import Reporter
from highwater.checker.request import Request
from highwater.checker.results import Outcome
from highwater.checker.search import SearchOptions, SearchResult
from highwater.checker.simulation import Simulate, SimulationOptions, SimulationResult
from highwater.model.language.model import Model


def explore(
    request: Request, engine: str, search: engines.Search, options: SearchOptions, *, quiet: bool
) -> tuple[Model | None, Outcome]:
    """Trace, search, and follow the runs to violations. The model is None where tracing was interrupted."""
    model: Model | None = None
    result = SearchResult(stopped_by="interrupted")
    try:
        model = request.model()
        with Reporter(request.scenario.name, quiet=quiet) as progress:
            result = search(model, options, progress)
            if model.liveness:
                from highwater.checker.liveness import decide

                decide(model, engines.explore(engine), options, result, progress)
    except KeyboardInterrupt:
        pass
    examples = () if model is None else counterexample.follow_all(model, result.violations)
    ruled_out = () if model is None else tuple(model.ruled_out)
    return model, Outcome(request, engine, result, examples, options.stop_at_first, ruled_out)


def walk(
    request: Request, engine: str, simulate: Simulate, options: SimulationOptions, *, quiet: bool
) -> tuple[Model | None, Outcome]:
    """Trace, walk at random, and follow the runs to violations; otherwise as ``explore``."""
    model: Model | None = None
    result = SimulationResult(stopped_by="interrupted", seed=options.seed)
    try:
        model = request.model()
        with Reporter(request.scenario.name, quiet=quiet, left="walks left") as progress:
            result = simulate(model, options, progress)
    except KeyboardInterrupt:
        pass
    examples = () if model is None else counterexample.follow_all(model, result.violations)
    ruled_out = () if model is None else tuple(model.ruled_out)
    return model, Outcome(request, engine, result, examples, stop_at_first=True, ruled_out=ruled_out)


__all__ = ["explore", "walk"]
