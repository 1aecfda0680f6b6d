"""What each assumption of fairness is there for: a liveness property with one of them less."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

from docs.analyses.kept import Graph
from docs.analyses.traced import traced
from highwater.checker.asking import catalogue, scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.telling import counterexample
from highwater.checker.telling.counterexample import Counterexample
from highwater.model.language.liveness import Fairness, Liveness, trace_liveness

_PLACES = ("replication/live-", "replication/controller/live-")
SCENARIOS = tuple(name for place in _PLACES for name in catalogue.scenario_files() if name.startswith(place))
"""The scenarios of the page that are there for liveness."""


@dataclass(frozen=True)
class Needed:
    """A scenario's states and steps, and what is violated there, each row without one assumption.

    A row is a property, the assumption, and the run, None where it holds all the same. Where a property is violated
    with all of them, as its scenario promises, it has one row, and no assumption is named.
    """

    states: int
    steps: int
    rows: list[tuple[str, Fairness | None, Counterexample | None]]


def needed(name: str) -> Needed:
    """Ask a scenario. ValueError where what is violated with all assumptions is not what it promises."""
    scenario = scenarios.find(name)
    graph = Graph(traced(Request.of(scenario, Overrides())))
    rows: list[tuple[str, Fairness | None, Counterexample | None]] = []
    for prop in graph.model.liveness:
        fair = prop.liveness.fair
        found = run_with(graph, prop.liveness, fair)
        if (found is not None) != (prop.name in scenario.promise.violated):
            raise ValueError(f"{name}: {prop.name} is not as promised")
        if found is not None:
            rows.append((prop.name, None, found))
            continue
        for number, fairness in enumerate(fair):
            rows.append(
                (prop.name, fairness, run_with(graph, prop.liveness, fair[:number] + fair[number + 1 :]))
            )
    states, steps, _ = graph.size
    return Needed(states, steps, rows)


def run_with(graph: Graph, liveness: Liveness, fair: Sequence[Fairness]) -> Counterexample | None:
    """A run that violates a property where just this is fair, taken again by the interpreter; None: there is none."""
    asked = copy.copy(graph.model)
    asked.liveness = [trace_liveness(graph.model, replace(liveness, fair=tuple(fair)))]
    found, _ = graph.fair_run(asked.liveness[0])
    if found is None:
        return None
    (example,) = counterexample.follow_all(asked, [found])
    return example
