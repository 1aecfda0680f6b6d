"""Is there a fair run on which what must happen never does? Asked of an explored graph, one property at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from highwater.checker.asking.search import ViolatingRun
from highwater.checker.engines.liveness.components import fair_components
from highwater.checker.engines.liveness.fairness import FairGroups
from highwater.checker.engines.liveness.graph import Flags, StepTable, Tree, spread
from highwater.checker.engines.liveness.lasso import Loop, loops
from highwater.checker.engines.native.evaluation import evaluated
from highwater.checker.engines.state_graph import Explored
from highwater.model.language.liveness import Kind, TracedLiveness


@dataclass(frozen=True)
class LivenessResult:
    """What came of a property: a fair run that violates it, or none; and the states in which it asked for its goal.

    Of a goal that has to last these are the states in which it does not hold, of those that a run can come to when it
    is asked for. Of a property with parameters it is the sum over their choices.
    """

    violation: ViolatingRun | None
    premises: int


def violating_run(explored: Explored, prop: TracedLiveness) -> LivenessResult:
    """Look for a run that comes to a state where the property asks for its goal, and is fair, and never reaches it.

    Only states whose steps are all known take part, so a run that is found is real, even where the search was
    stopped by a limit. That there is none is known only where the graph is complete. Of a property with parameters each
    choice is looked at, and a run for the one that has the shortest is told.
    """
    looks = {number: group.when for number, group in enumerate(prop.groups) if group.when is not None}
    nodes = [node for case in prop.cases for node in (case.premise, *case.goals)]
    told = [np.asarray(v, dtype=bool) for v in evaluated(explored, [*nodes, *looks.values()])]
    fairness = FairGroups(
        prop.groups,
        explored.offsets,
        explored.targets,
        explored.instances,
        explored.cut_offsets,
        explored.cut_instances,
        dict(zip(looks, told[len(nodes) :], strict=True)),
    )
    values = iter(told)
    violated: list[int] = []
    best: tuple[int, Tree, Loop] | None = None
    premises = 0
    for number, case in enumerate(prop.cases):
        premise, *goals = itertools.islice(values, 1 + len(case.goals))
        asked, tree, visits = _open(explored, prop.kind, premise, goals)
        premises += asked
        loop = shortest_loop(tree.steps, tree, fairness, visits)
        if loop is not None:
            violated.append(number)
            if best is None or _length(tree, loop) < _length(*best[1:]):
                best = number, tree, loop
    if best is None:
        return LivenessResult(None, premises)
    others = tuple(number for number in violated if number != best[0])
    return LivenessResult(_violation(explored, prop, others, *best), premises)


def _open(
    explored: Explored, kind: Kind, premise: Flags, goals: Sequence[Flags]
) -> tuple[int, Tree, Sequence[Flags]]:
    """In how many states a goal is missed, the states that a run can go through, and what its loop has to visit."""
    missed = np.logical_or.reduce([~goal for goal in goals])
    open_ = np.ones(len(premise), dtype=bool) if kind.lasting else missed.copy()
    asks = premise.copy() if kind.lasting else premise & missed
    if kind.of_start:
        asks[explored.level_starts[1] :] = False
    open_[explored.expanded :] = False
    steps = StepTable(explored.offsets, explored.targets)
    tree = spread(steps, open_, np.where(asks, explored.depths().astype(np.int32) - 1, -1))
    if not kind.lasting:
        return int(asks.sum()), tree, ()
    return int((missed & (tree.distance >= 0)).sum()), tree, [~goal for goal in goals]


def shortest_loop(
    steps: StepTable, tree: Tree, fairness: FairGroups, visits: Sequence[Flags] = ()
) -> Loop | None:
    """Of the fair loops at hand in the states that the tree reached, one that makes the run shortest.

    It goes through a state of each of ``visits``.
    """
    reached: Flags = tree.distance >= 0
    quiet = reached & ~np.any(fairness.enabled, axis=1)
    still = np.flatnonzero(np.logical_and.reduce([quiet, *visits]))
    found = [Loop(int(still[np.argmin(tree.distance[still])]), ())] if len(still) else []
    fair = fair_components(steps, reached, fairness)
    wanted = [states for states in fair if all(visit[states].any() for visit in visits)]
    found += loops(steps, wanted, tree, fairness, visits)
    return min(found, key=lambda loop: _length(tree, loop), default=None)


def _length(tree: Tree, loop: Loop) -> int:
    return int(tree.distance[loop.entry]) + len(loop.steps)


def _violation(
    explored: Explored, prop: TracedLiveness, others: tuple[int, ...], case: int, tree: Tree, loop: Loop
) -> ViolatingRun:
    start, way = tree.way(loop.entry)
    initial, before = explored.path(start)
    path = (*before, *(int(explored.instances[step]) for step in (*way, *loop.steps)))
    scalars, loop_start = explored.scalars(initial), len(before) + len(way)
    return ViolatingRun(prop.name, scalars, path, loop_start=loop_start, case=case, others=others)
