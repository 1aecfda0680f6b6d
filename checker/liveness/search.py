"""Is there a fair run on which what must happen never does? Asked of an explored graph, one property at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from highwater.checker.explored import Explored
from highwater.checker.liveness.components import fair_components
from highwater.checker.liveness.fairness import Fairness
from highwater.checker.liveness.graph import Flags, Steps, Tree, spread
from highwater.checker.liveness.lasso import Loop, loops
from highwater.checker.search import Violation
from highwater.model.language.liveness import Kind, TracedLiveness


@dataclass(frozen=True)
class Finding:
    """What came of a property: a fair run that violates it, or none; and the states in which it asked for its goal."""

    violation: Violation | None
    premises: int


def violating_run(explored: Explored, prop: TracedLiveness) -> Finding:
    """Look for a run that comes to a state where the property asks for its goal, and is fair, and never reaches it.

    Only states whose steps are all known take part, so a run that is found is real, even where the search was
    stopped by a limit. That there is none is known only where the graph is complete.
    """
    looks = {number: group.when for number, group in enumerate(prop.groups) if group.when is not None}
    asked = explored.evaluate_all([prop.premise, prop.goal, *looks.values()])
    premise, goal, *conditions = (np.asarray(v, dtype=bool) for v in asked)
    asks = premise & ~goal
    if prop.kind is Kind.EVENTUALLY:
        asks[explored.level_starts[1] :] = False
    open_ = ~goal
    open_[explored.expanded :] = False
    steps = Steps(explored.offsets, explored.targets)
    starts = np.where(asks, explored.depths().astype(np.int32) - 1, -1)
    tree = spread(steps, open_, starts)
    fairness = Fairness(
        prop.groups,
        explored.offsets,
        explored.targets,
        explored.instances,
        explored.cut_offsets,
        explored.cut_instances,
        dict(zip(looks, conditions, strict=True)),
    )
    loop = shortest_loop(steps, tree, fairness)
    violation = None if loop is None else _violation(explored, prop, tree, loop)
    return Finding(violation, int(asks.sum()))


def shortest_loop(steps: Steps, tree: Tree, fairness: Fairness) -> Loop | None:
    """Of the fair loops at hand in the states that the tree reached, one that makes the run shortest."""
    reached: Flags = tree.distance >= 0
    still = np.flatnonzero(reached & ~np.any(fairness.enabled, axis=1))
    found = [Loop(int(still[np.argmin(tree.distance[still])]), ())] if len(still) else []
    found += loops(steps, fair_components(steps, reached, fairness), tree, fairness)
    return min(found, key=lambda x: int(tree.distance[x.entry]) + len(x.steps), default=None)


def _violation(explored: Explored, prop: TracedLiveness, tree: Tree, loop: Loop) -> Violation:
    start, way = tree.way(loop.entry)
    initial, before = explored.path(start)
    path = (*before, *(int(explored.instances[step]) for step in (*way, *loop.steps)))
    return Violation(prop.name, explored.scalars(initial), path, loop_start=len(before) + len(way))


__all__ = ["Finding", "shortest_loop", "violating_run"]
