"""The part of the benchmarks about liveness: a graph explored and searched for runs that never come to a goal."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from datetime import date

from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.liveness import violating_run

HEADING = "## Liveness"
REPEAT = 3
SCENARIO = "replication/standard-crashes"
PROPERTIES = ("metadata_views_converge", "proposals_are_settled", "electable_replicas_lead")
GOAL = "5 million transitions in under 60 s"


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table: the graph, then each property on it; times are medians, of this process."""
    request = Request.of(scenarios.find(SCENARIO), Overrides(properties=PROPERTIES))
    model = request.model()
    started = time.perf_counter()
    explored = engines.explore("native")(model, SearchOptions(), None)
    seconds = time.perf_counter() - started
    size = f"{len(explored.states):,} | {len(explored.targets):,}"
    yield f"| `{SCENARIO}`: the graph, with compilation | {size} | {seconds:.1f} s |  |"
    for prop in model.liveness:
        times = []
        for _ in range(repeat):
            started = time.perf_counter()
            found = violating_run(explored, prop)
            times.append(time.perf_counter() - started)
        verdict = "holds" if found.violation is None else "violated"
        yield f"| `{prop.name}` {verdict} | {size} | {statistics.median(times):.1f} s | {GOAL} |"


def section(measured: list[str], machine: str) -> str:
    """The part of the page."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}.",
            "In one process the graph of a standard scenario is explored once, and each property is searched for on",
            f"all of it, {REPEAT} times; a property that holds costs more than one that is violated.",
            "",
            "| work | states | transitions | measured | figure to reach |",
            "| --- | ---: | ---: | ---: | --- |",
            *measured,
            "",
        ]
    )
