"""What each assumption of fairness is there for: a liveness property with one of them less."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

from highwater.checker.asking import catalogue, scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.liveness import violating_run
from highwater.checker.engines.state_graph import Explored
from highwater.checker.telling import counterexample
from highwater.checker.telling.counterexample import Counterexample
from highwater.model.language.liveness import Fairness, Liveness, trace_liveness
from highwater.model.language.model import Model

_PLACES = ("replication/live-", "replication/controller/live-")
SCENARIOS = tuple(name for place in _PLACES for name in catalogue.scenario_files() if name.startswith(place))
"""The scenarios of the page that are there for liveness."""


def section(name: str) -> Iterator[str]:
    """The part of the page about one scenario."""
    scenario = scenarios.find(name)
    model = Request.of(scenario, Overrides()).model()
    explored = engines.explore("native")(model, SearchOptions(workers=1), None)
    yield f"### {name.partition('/')[2]}"
    yield ""
    yield f"{scenario.title}. {len(explored.states):,} states, {len(explored.targets):,} steps."
    yield ""
    yield "| property | without | violated after | by a loop of |"
    yield "| --- | --- | ---: | ---: |"
    for prop in model.liveness:
        fair = prop.liveness.fair
        found = run_with(model, explored, prop.liveness, fair)
        if (found is not None) != (prop.name in scenario.promise.violated):
            raise ValueError(f"{name}: {prop.name} is not as promised")
        if found is not None:
            yield f"| `{prop.name}` | nothing | {_lengths(found)} |"
            continue
        for number, fairness in enumerate(fair):
            weaker = run_with(model, explored, prop.liveness, fair[:number] + fair[number + 1 :])
            told = "holds | " if weaker is None else _lengths(weaker)
            yield f"| `{prop.name}` | {fairness} | {told} |"
    yield ""


def run_with(
    model: Model, explored: Explored, liveness: Liveness, fair: Sequence[Fairness]
) -> Counterexample | None:
    """A run that violates a property where just this is fair, taken again by the interpreter; None: there is none."""
    asked = copy.copy(model)
    asked.liveness = [trace_liveness(model, replace(liveness, fair=tuple(fair)))]
    found = violating_run(explored, asked.liveness[0]).violation
    if found is None:
        return None
    (example,) = counterexample.follow_all(asked, [found])
    return example


def _lengths(example: Counterexample) -> str:
    """The lengths of stem and loop."""
    assert example.loop is not None
    return f"{example.loop.start} | {example.depth - 1 - example.loop.start}"


__all__ = ["SCENARIOS", "run_with", "section"]
