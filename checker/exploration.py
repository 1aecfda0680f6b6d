"""A request explored: traced, searched, and its runs to violations followed."""

from __future__ import annotations

from highwater.checker import counterexample, engines
from highwater.checker.request import Request
from highwater.checker.results import Outcome
from highwater.checker.search import ProgressCallback, SearchOptions, SearchResult
from highwater.model.language.model import Model


def explore(
    request: Request,
    engine: str,
    search: engines.Search,
    options: SearchOptions,
    progress: ProgressCallback | None = None,
) -> tuple[Model | None, Outcome]:
    """Trace, search, and follow the runs to violations. The model is None where tracing was interrupted."""
    model: Model | None = None
    result = SearchResult(stopped_by="interrupted")
    try:
        model = request.model()
        result = search(model, options, progress)
        if model.liveness:
            from highwater.checker.liveness import decide

            decide(model, engines.explore(engine), options, result, progress)
    except KeyboardInterrupt:
        pass
    examples = () if model is None else counterexample.follow_all(model, result.violations)
    ruled_out = () if model is None else tuple(model.ruled_out)
    return model, Outcome(request, engine, result, examples, options.stop_at_first, ruled_out)


__all__ = ["explore"]
