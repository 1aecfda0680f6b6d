"""Search what can happen: the outcomes that each start can reach, with the fewest faults and a shortest run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from highwater.checker.engines import cache
from highwater.checker.engines.native.instructions import Evaluation
from highwater.checker.engines.native.state_graph import VisitedStates, visited
from highwater.checker.engines.state_graph import Layout, Words, path
from highwater.checker.plan.kinds import PlanStart, Shape
from highwater.checker.scenarios.model_key import key_of
from highwater.checker.scenarios.search import ProgressCallback, SearchOptions
from highwater.invariants.replication.outcomes import OUTCOMES, the_plan_is_done
from highwater.model.language import Model
from highwater.model.language.graph import values_of
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import interpreter_of
from highwater.model.language.model import Instance, Outline
from highwater.model.language.state import State
from highwater.model.language.tracing import tracing
from highwater.model.replication.controller.types import Error

_AT_ONCE = 4096
"""The most starts of one search."""


@dataclass(frozen=True)
class Reached:
    """An outcome that a start can reach: the fewest faults, and the instances of a shortest run with so many."""

    faults: int
    path: tuple[int, ...]


Outcomes = Mapping[str, Reached]
"""The outcomes that a start can reach, by the names of ``OUTCOMES``; and whether the plan can be done."""


@dataclass
class Searches:
    """The searches of one question. Starts that were searched are not searched again.

    ``stopped_by`` is the reason why a search ended early: outcomes may be missing then.
    """

    options: SearchOptions = field(default_factory=SearchOptions)
    progress: ProgressCallback | None = None
    states: int = 0
    stopped_by: str | None = None
    _found: dict[tuple[Shape, Scalars], Outcomes] = field(default_factory=dict)
    _models: dict[Shape, Model] = field(default_factory=dict)

    def outcomes(self, start: PlanStart) -> Outcomes:
        """The outcomes of a start that was searched."""
        return self._found.get((start.shape, start.scalars), {})

    def search(self, starts: Iterable[PlanStart]) -> None:
        """Search all starts that have not been searched, those of a shape together."""
        by_shape: dict[Shape, list[Scalars]] = {}
        for start in dict.fromkeys((s.shape, s.scalars) for s in starts):
            if start not in self._found:
                by_shape.setdefault(start[0], []).append(start[1])
        for shape, scalars in by_shape.items():
            for first in range(0, len(scalars), _AT_ONCE):
                if self.stopped_by is None:
                    self._search(shape, scalars[first : first + _AT_ONCE])

    def run(self, start: PlanStart, path: Sequence[int]) -> list[tuple[Instance, dict[str, Any]]]:
        """The steps of a run as the interpreter takes them, each with the state after it."""
        model, state, found = self.model(start.shape), start.scalars, []
        interpreter = interpreter_of(model)
        for number in path:
            after = interpreter.step(state, number).state
            assert after is not None, "a run takes steps that are enabled"
            state = after
            found.append((model.instances[number], model.decode(state)))
        return found

    def refusal(self, start: PlanStart, kind: str) -> str:
        """Kafka's error for a step of this kind, if it is the first one in a start; "NONE" if there is none."""
        protocol, inputs = start.shape.protocol(), self.model(start.shape).inputs
        with tracing(protocol.on):
            node = protocol.refusal(State(protocol.state, inputs), kind).node
        return str(Error.decode(values_of([node], start.scalars)))

    def model(self, shape: Shape) -> Model:
        """The traced model of a shape."""
        if shape not in self._models:
            identity = key_of(replace(shape, rules=frozenset()), sorted(shape.rules))
            outline = cache.found(Outline, identity)
            model = Model(shape.protocol(_AT_ONCE), outline=outline)
            model.identity = identity
            if outline is None:
                cache.keep(model.outline, identity)
            self._models[shape] = model
        return self._models[shape]

    def _search(self, shape: Shape, scalars: Sequence[Scalars]) -> None:
        model = self.model(shape)
        number = [leaf.path for leaf in model.leaves].index("number")
        begun = [(*s[:number], n, *s[number + 1 :]) for n, s in enumerate(scalars)]
        found = visited(model.beginning(begun), self.options, self.progress)
        self.states += len(found.states)
        self.stopped_by = found.stopped_by
        for start, outcomes in zip(scalars, _outcomes(model, shape, found, len(begun)), strict=True):
            self._found[shape, start] = outcomes


def _outcomes(model: Model, shape: Shape, found: VisitedStates, count: int) -> list[dict[str, Reached]]:
    """For each start, the outcomes that it reaches."""
    layout, protocol = Layout(model.leaves), model.protocol
    paths = [leaf.path for leaf in model.leaves]
    goals = [goal for goal in (*OUTCOMES, the_plan_is_done) if protocol.has(goal)]
    with tracing(protocol.on):
        state = State(protocol.state, model.inputs)
        nodes = [goal.function(protocol, state).node for goal in goals]
    numbers = _column(layout, paths.index("number"), found.states)
    faults = shape.faults - _column(layout, paths.index("faults_left"), found.states)
    results: list[dict[str, Reached]] = [{} for _ in range(count)]
    for goal, holds in zip(goals, Evaluation(layout, nodes)(found.states), strict=True):
        places = np.flatnonzero(holds)
        # The first state with the fewest faults: states are in the order of their depth.
        best = places[np.lexsort((places, faults[places], numbers[places]))]
        for place in best[np.unique(numbers[best], return_index=True)[1]].tolist():
            _, steps = path(found.parents, found.parent_instances, place)
            results[int(numbers[place])][goal.name] = Reached(int(faults[place]), steps)
    return results


def _column(layout: Layout, leaf: int, states: Words) -> np.ndarray[Any, np.dtype[np.int64]]:
    slot = layout.slots[leaf]
    raw = states[:, slot.word] >> np.uint64(slot.shift) & np.uint64((1 << slot.bits) - 1)
    return raw.astype(np.int64) + slot.low
