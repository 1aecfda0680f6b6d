"""The liveness properties of a model, decided beside what a search has said of its invariants."""

from __future__ import annotations

import time
from dataclasses import replace

from highwater.checker.engines import Explore
from highwater.checker.liveness.search import violating_run
from highwater.checker.search import ProgressCallback, SearchOptions, SearchResult
from highwater.model.language.model import Model


def decide(
    model: Model,
    explore: Explore,
    options: SearchOptions,
    result: SearchResult,
    progress: ProgressCallback | None = None,
) -> None:
    """Explore the graph of a model, and add to a result what its runs violate. A limit holds for both searches.

    Nothing is done where the search was interrupted, or was to stop at its first violation and did.
    """
    if result.stopped_by == "interrupted" or (options.stop_at_first and result.violations):
        return
    started = time.perf_counter()
    left = None if options.limit_seconds is None else max(0.001, options.limit_seconds - result.seconds)
    explored = explore(model, replace(options, limit_seconds=left), progress)
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
    result.seconds += time.perf_counter() - started


__all__ = ["decide"]
