"""The liveness properties of a model, decided beside what a search says of its invariants."""

from __future__ import annotations

import time
from dataclasses import replace

from highwater.checker.asking.search import ProgressCallback, SearchOptions, SearchResult
from highwater.checker.engines.by_name import Explore, Search
from highwater.checker.engines.liveness.search import violating_run
from highwater.checker.engines.state_graph import Explored
from highwater.model.language.model import Model


def search_with_liveness(
    model: Model,
    search: Search,
    explore: Explore,
    options: SearchOptions,
    progress: ProgressCallback | None = None,
) -> SearchResult:
    """Search a model, and where something must happen its graph for runs that violate it. A limit holds for both.

    The graph is that of the search, where the engine makes it so, else ``explore`` makes it. It is not looked at where
    the search was interrupted, or was to stop at its first violation and did.
    """
    result = search(model, replace(options, graph=bool(model.liveness)), progress)
    if not model.liveness:
        return result
    explored, result.graph = result.graph, None
    if result.stopped_by == "interrupted" or (options.stop_at_first and result.violations):
        return result
    started = time.perf_counter()
    try:
        if explored is None:
            limit = options.limit_seconds
            left = None if limit is None else max(0.001, limit - result.seconds)
            explored = explore(model, replace(options, limit_seconds=left), progress)
        assert isinstance(explored, Explored)
        if not explored.complete:
            result.stopped_by = explored.stopped_by
        for prop in model.liveness:
            if result.stopped_by == "interrupted":
                break
            found = violating_run(explored, prop)
            result.premises[prop.name] = found.premises
            if found.violation is not None:
                result.violations.append(found.violation)
                if options.stop_at_first:
                    result.stopped_by = "violation"
                    break
    except KeyboardInterrupt:  # there is no verdict on what was not looked at
        result.stopped_by = "interrupted"
    result.seconds += time.perf_counter() - started
    return result
