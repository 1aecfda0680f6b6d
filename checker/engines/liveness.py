"""Liveness checking: search the explored graph for a fair run that violates a liveness property."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from highwater.checker.engines.by_name import Explore, Search
from highwater.checker.engines.fairness import (
    Bits,
    FairGroups,
    Flags,
    States,
    StepTable,
    Tree,
    fair_components,
    nearest,
    spread,
)
from highwater.checker.engines.native.instructions import evaluated
from highwater.checker.engines.state_graph import Explored
from highwater.checker.scenarios.search import ProgressCallback, SearchOptions, SearchResult, ViolatingRun
from highwater.model.language import Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter, compile_nodes
from highwater.model.language.liveness import Case, FairGroup, Kind, TracedLiveness


class NotViolatedError(RuntimeError):
    """The run satisfies the liveness property, or the run is not fair."""


@dataclass(frozen=True)
class Confirmed:
    """A confirmed violation of a liveness property by a run with a loop.

    ``due`` is the number (from 0) of the first state in which the premise holds and from which on the goal never
    holds. ``fairness`` has, for each fair group, the reason why the loop is fair to the group.

    ``missed`` is for a goal that must hold forever. For each alternative of the goal, it has the number of a loop
    state in which the alternative does not hold. ``due`` is then the least of these numbers.
    """

    due: int
    fairness: tuple[str, ...]
    missed: tuple[int, ...] = ()


def confirm(
    interpreter: Interpreter,
    prop: TracedLiveness,
    states: Sequence[Scalars],
    path: Sequence[int],
    loop_start: int,
    case: Case,
) -> Confirmed:
    """Confirm that a run with a loop violates a property for the parameter values of ``case``.

    The last state of ``states`` must equal state ``loop_start``: the run repeats the steps from there. Raises
    NotViolatedError if the run is not fair or does not violate the property.
    """
    if states[-1] != states[loop_start]:
        raise NotViolatedError("its loop does not close")
    judge = compile_nodes([case.premise, *case.goals])
    verdicts = [judge(state) for state in states]
    if prop.kind.lasting:
        missed = _not_lasting(prop.kind, verdicts, loop_start)
        due = min(missed)
    else:
        missed, due = (), _missed(prop.kind, verdicts, loop_start)
    loop, taken = states[loop_start:], path[loop_start:]
    moved = [
        (i, number) for i, (number, a, b) in enumerate(zip(taken, loop, loop[1:], strict=False)) if a != b
    ]  # a step that changes nothing does not count
    possible = [_possible(interpreter, state) for state in loop]
    reasons = []
    for group in prop.groups:
        counts = [True] * len(loop)
        if group.when is not None:
            holds = compile_nodes([group.when])
            counts = [bool(holds(state)[0]) for state in loop]
        reasons.append(_fair(group, counts, possible, moved, loop_start))
    return Confirmed(due, tuple(reasons), missed)


def _missed(kind: Kind, verdicts: Sequence[Sequence[int]], loop_start: int) -> int:
    """The number of the first state in which the premise holds and from which on the goal never holds.

    If ``kind.of_start``, only the initial state counts. Raises NotViolatedError if there is no such state.
    """
    missed = len(verdicts)
    while missed and not verdicts[missed - 1][1]:
        missed -= 1
    first = [0] if kind.of_start else range(missed, len(verdicts))
    due = next((i for i in first if i >= missed and verdicts[i][0]), None)
    if due is None or missed > loop_start:
        raise NotViolatedError("the goal is reached, or never due")
    return due


def _not_lasting(kind: Kind, verdicts: Sequence[Sequence[int]], loop_start: int) -> tuple[int, ...]:
    """For each alternative of a goal that must hold forever, the number of a loop state in which it does not hold.

    Raises NotViolatedError if an alternative holds throughout the loop, or if the premise never holds.
    """
    if not any(premise for premise, *_ in (verdicts[:1] if kind.of_start else verdicts)):
        raise NotViolatedError("the goal is never due")
    found = []
    for number in range(1, len(verdicts[0])):
        failed = next((i for i in range(loop_start, len(verdicts)) if not verdicts[i][number]), None)
        if failed is None:
            raise NotViolatedError("from its loop on the goal holds forever")
        found.append(failed)
    return tuple(found)


def _possible(interpreter: Interpreter, state: Scalars) -> set[int]:
    """The numbers of the instances that are enabled in a state and change it, including instances pruned at a bound."""
    return {n for n in interpreter.enabled(state) if interpreter.step(state, n).state != state}


def _fair(
    group: FairGroup,
    counts: Sequence[bool],
    possible: Sequence[set[int]],
    moved: Sequence[tuple[int, int]],
    loop_start: int,
) -> str:
    """The reason why a loop is fair to a group. Raises NotViolatedError if the loop is not fair.

    ``counts`` has a flag for each loop state: True if the group's steps from this state count. ``possible`` is the
    result of ``_possible`` for each loop state. ``moved`` has each step of the loop that changes the state, as (index
    of its source in the loop, instance).
    """
    if any(counts[i] and number in group.instances for i, number in moved):
        return f"{group.label}: is taken"
    idle = [i for i, numbers in enumerate(possible) if not (counts[i] and numbers & group.instances)]
    if len(idle) == len(possible):
        return f"{group.label}: cannot be taken"
    if group.strong or not idle:
        raise NotViolatedError(f"its loop is not fair: {group.label} can be taken and is not")
    return f"{group.label}: cannot be taken in state {loop_start + idle[0] + 1}"


@dataclass(frozen=True)
class LivenessResult:
    """The result for a liveness property: a violating fair run, or None.

    ``premises`` counts the states (if ``kind.of_start``, initial states) in which the premise holds and the goal
    does not. If the goal must hold forever, it counts the states after the premise in which the goal does not hold.
    The count is a sum over all parameter values.
    """

    violation: ViolatingRun | None
    premises: int


def violating_run(explored: Explored, prop: TracedLiveness) -> LivenessResult:
    """Search for a fair run that violates a property. The result has the shortest run found for any parameter values.

    Only expanded states take part, so a run is real even if a limit stopped the search. Only a complete graph proves
    that there is no such run.
    """
    conditions = {number: group.when for number, group in enumerate(prop.groups) if group.when is not None}
    nodes = [node for case in prop.cases for node in (case.premise, *case.goals)]
    values = iter([np.asarray(v, dtype=bool) for v in evaluated(explored, [*conditions.values(), *nodes])])
    fairness = FairGroups(
        prop.groups,
        explored.offsets,
        explored.targets,
        explored.instances,
        explored.cut_offsets,
        explored.cut_instances,
        {number: next(values) for number in conditions},
    )
    violated: list[int] = []
    best: tuple[int, Tree, Loop] | None = None
    premises = 0
    for number, case in enumerate(prop.cases):
        premise, *goals = itertools.islice(values, 1 + len(case.goals))
        open_count, tree, visits = _open(explored, prop.kind, premise, goals)
        premises += open_count
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
    """The part of the graph in which to search for a fair loop, for one case of a property.

    Returns the count for ``LivenessResult.premises``, the shortest paths to the states that the loop may contain,
    and some sets of states. The loop must visit a state of each set.
    """
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
    """Of the fair loops found, the one with the shortest run (path to the loop, and loop); None if there is none.

    The loop contains only states that ``tree`` reaches, and visits a state of each set in ``visits``.
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


_COMPONENTS = 8
_ENTRIES = 16
"""The most components that ``loops`` tries, and the most entry states of each component, nearest first."""


@dataclass(frozen=True)
class Loop:
    """A loop of an infinite run: steps that return to the state ``entry``.

    Without steps, the run stays in ``entry`` forever.
    """

    entry: int
    steps: tuple[int, ...]


def loops(
    steps: StepTable,
    components: Sequence[States],
    tree: Tree,
    fairness: FairGroups,
    visits: Sequence[Flags] = (),
) -> Iterator[Loop]:
    """Yield a fair loop from each of the nearest _ENTRIES states of the nearest _COMPONENTS components.

    The distance is the length of the path in ``tree``. Each loop visits a state of each set in ``visits``.
    """
    distances = [int(tree.distance[states].min()) for states in components]
    for number in np.argsort(distances, kind="stable")[:_COMPONENTS]:
        states = components[number]
        member = np.zeros(len(tree.distance), dtype=bool)
        member[states] = True
        for entry in states[np.argsort(tree.distance[states], kind="stable")][:_ENTRIES]:
            yield Loop(int(entry), _Walk(steps, member, fairness, int(entry), visits).loop())


class _Walk:
    """A walk in a fair component from ``entry`` back to ``entry`` that is fair if it is repeated forever.

    The walk first visits a state of each set in ``visits``. A group is open if the walk so far, repeated forever, would
    be unfair to it. While a group is open, the walk goes to the nearest state in which it can close one. It ends,
    because each such move closes a group, and a group that was closed by a move never opens again.
    """

    def __init__(
        self, steps: StepTable, member: Flags, fairness: FairGroups, entry: int, visits: Sequence[Flags] = ()
    ) -> None:
        self.steps, self.member, self.fairness, self.entry = steps, member, fairness, entry
        self.path: list[int] = []
        self.at = entry
        self.always = fairness.enabled[entry].copy()  # the groups enabled in all states of the walk
        self.ever = self.always.copy()
        self.taken: Bits = np.zeros_like(self.always)
        self.missing = [visit for visit in visits if not visit[entry]]

    def loop(self) -> tuple[int, ...]:
        """Complete the walk, and return the step numbers of the loop that it forms."""
        while True:
            weak, strong = self._open()
            if self.missing:
                self._go(nearest(self.steps, self.at, self._inside, lambda s: self.missing[0][s]))
            elif np.any(weak | strong):
                self._serve(weak, strong)
            elif self.at == self.entry and self.path:
                return tuple(self.path)
            elif self.at == self.entry:
                self._take_any()
            else:
                self._go(nearest(self.steps, self.at, self._inside, lambda s: s == self.entry))

    def _serve(self, weak: Bits, strong: Bits) -> None:
        """Go to the nearest state that disables a group in ``weak``, or that has a step of a group in either.

        Then take a step of a group in either that the loop has not taken a step of, if there is one.
        """
        self._go(nearest(self.steps, self.at, self._inside, lambda s: self._serves(s, weak, strong)))
        self._take(weak | strong)

    def _open(self) -> tuple[Bits, Bits]:
        """The open weak groups and the open strong groups."""
        return (
            self.always & self.fairness.weak & ~self.taken,
            self.ever & self.fairness.strong & ~self.taken,
        )

    def _inside(self, states: States) -> Flags:
        return self.member[states]

    def _serves(self, states: States, weak: Bits, strong: Bits) -> Flags:
        """For each state, True if a weak group is disabled in it, or a step of a weak or strong group starts in it."""
        found: Flags = np.any(~self.fairness.enabled[states] & weak, axis=1)
        for i, state in enumerate(states):
            found[i] = found[i] or len(self._steps_with(int(state), weak | strong)) > 0
        return found

    def _steps_inside(self, state: int) -> States:
        numbers = self.steps.of(np.array([state]))
        targets = self.steps.targets[numbers]
        inside: States = numbers[self.member[targets] & (targets != state)]
        return inside

    def _steps_with(self, state: int, groups: Bits) -> States:
        numbers = self._steps_inside(state)
        bits = self.fairness.of_step(numbers, np.full(len(numbers), state))
        return numbers[np.any(bits & groups, axis=1)]

    def _take(self, groups: Bits) -> None:
        """Take a step of one of the open groups from the current state, if there is one."""
        weak, strong = self._open()
        chosen = self._steps_with(self.at, groups & (weak | strong))
        if len(chosen):
            self._go([int(chosen[0])])

    def _take_any(self) -> None:
        """Take a shortest path of at least one step back to the entry."""
        ways = [
            [
                int(n),
                *nearest(self.steps, int(self.steps.targets[n]), self._inside, lambda s: s == self.entry),
            ]
            for n in self._steps_inside(self.at)
        ]
        self._go(min(ways, key=len))

    def _go(self, way: Sequence[int]) -> None:
        for step in way:
            self.taken |= self.fairness.of_step(np.array([step]), np.array([self.at]))[0]
            self.path.append(step)
            self.at = int(self.steps.targets[step])
            self.always &= self.fairness.enabled[self.at]
            self.ever |= self.fairness.enabled[self.at]
            self.missing = [visit for visit in self.missing if not visit[self.at]]


# A search that checks the invariants, and then the liveness properties.


def search_with_liveness(
    model: Model,
    search: Search,
    explore: Explore,
    options: SearchOptions,
    progress: ProgressCallback | None = None,
) -> SearchResult:
    """Search a model, check its liveness properties on the explored graph, and return all results together.

    The time limit applies to the search and the building of the graph together. The graph comes from the search if the
    engine builds a graph, else from ``explore``. If the search was interrupted or stopped at its first violation, no
    liveness property is checked.
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
    except KeyboardInterrupt:  # the remaining properties have no verdict
        result.stopped_by = "interrupted"
    result.seconds += time.perf_counter() - started
    return result
