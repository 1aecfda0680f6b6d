"""What is asked of the native engine as of any: a search, and with it the explored graph where that is asked for."""

from __future__ import annotations

from dataclasses import replace

from highwater.checker.asking.search import ProgressCallback, SearchOptions, SearchResult
from highwater.checker.engines.native.search import search as search_alone
from highwater.model.language.model import Model


def search(model: Model, options: SearchOptions, progress: ProgressCallback | None = None) -> SearchResult:
    """Explore a model exhaustively; the first Ctrl-C ends it with what was found.

    Raises BoundError where a step leaves a type without a declared bound, and EngineError where the model
    or the machine is beyond this engine.
    """
    if not options.graph or options.checkpoint is not None:
        return search_alone(model, options, progress)
    from highwater.checker.engines.native.state_graph import searched

    result = searched(model, options, progress)
    if result.stopped_by == "memory" and options.on_disk:  # the graph needs it; a search alone does not
        alone = search_alone(model, replace(options, graph=False), progress)
        alone.graph = result.graph
        return alone
    return result
