"""Searches of a model with one of its mutants, and the comparison of mutants with the protocol.

All mutants share the machine code of the ordinary engine: the initial states choose the mutant. In the protocol's
states with a mutant's number, an expression for each action says whether the mutant takes another step.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native.code.machine import Effort
from highwater.checker.engines.native.initial import Evaluation
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.native.state_graph import GraphLevels, Linking, LinkProgram
from highwater.checker.engines.solver.difference import instances_of_both, leads_elsewhere
from highwater.checker.engines.state_graph import Explored, Words
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import graph
from highwater.model.language.graph import Node
from highwater.model.language.model import Instance
from highwater.model.language.mutated import MutatedModel

_Levels = TypeVar("_Levels", bound=NativeLevels)
_PAYS = 1 << 20
"""The number of states of all mutants above which optimized code pays off."""
_FIRST, _MOST = 1 << 6, 1 << 14
"""The numbers of states that are compared at a time, at first and at most: most mutants differ early."""


def effort_for(states: int) -> Effort:
    """The effort of compiling code that runs in this number of states."""
    return Effort.USUAL if states >= _PAYS else Effort.QUICK


def program_for(model: MutatedModel, effort: Effort) -> LinkProgram:
    """Machine code for searches and graphs of all mutants of a model."""
    program = LinkProgram(model, effort=effort)
    program.judging = True
    return program


def levels_of(kind: type[_Levels], program: LinkProgram, options: SearchOptions, mutant: int) -> _Levels:
    """The levels of a search that begins in the initial states with this mutant; 0 is the protocol itself."""
    levels = kind(program, options)
    levels.start = levels.start | _choice(program, mutant)
    levels.table.clear()
    return levels


def _choice(program: LinkProgram, mutant: int) -> Words:
    model = program.model
    assert isinstance(model, MutatedModel)
    own = [leaf.low for leaf in model.leaves[: model.own_leaves]]
    return program.layout.pack([*own, *model.constants(mutant)])


class MutantSearch(BreadthFirst):
    """A search that ends at the first violation that is not in ``expected``."""

    def __init__(self, levels: NativeLevels, expected: frozenset[str]) -> None:
        super().__init__(levels.program.model, levels, levels.options, None)
        self._expected = expected

    def decided(self) -> bool:
        """True if the violations found so far end the search."""
        return bool(self.visited.found.keys() - self._expected) or super().decided()


def states_of(levels: NativeLevels) -> Words:
    """The packed states of all levels, in the order of the levels."""
    chunks = [levels.states.get(c.states) for level in levels.levels for c in level.chunks]
    return np.ascontiguousarray(np.concatenate(chunks))


def mutant_graph(program: LinkProgram, mutant: int, options: SearchOptions) -> Explored:
    """All states of a mutant and the steps between them, up to a limit. Raises the errors of ``explore``."""
    program.judging = False
    try:
        asked = replace(options, deadlock=False, all_states=True, stop_at_first=False)
        with closing(levels_of(GraphLevels, program, asked, mutant)) as levels:
            run = BreadthFirst(program.model, levels, asked, None)
            run.explore()
            return Linking(run, levels).explored()
    finally:
        program.judging = True


class StepComparison:
    """Finds the protocol's states in which a mutant takes another step than the protocol.

    A step differs if mutant and protocol reach different states by it or prune it at different bounds, or if it is
    enabled or leaves its type in only one of them.
    """

    def __init__(self, program: LinkProgram, states: Words, effort: Effort) -> None:
        self._program, self._states, self._effort = program, states, effort
        self._actions: dict[str, tuple[Evaluation, Evaluation]] = {}

    def first(self, model: MutatedModel, mutant: int) -> int | None:
        """The index of the first state in which a mutant differs; None if there is none."""
        choice, end = _choice(self._program, mutant), 0
        while end < len(self._states):
            start, end = end, min(2 * end + _FIRST, end + _MOST)
            states = self._states[start:end] | choice
            differs = [self._differs(states, model, name) for name in model.actions_of[mutant]]
            found = np.flatnonzero(np.logical_or.reduce(differs))
            if len(found):
                return start + int(found[0])
        return None

    def _differs(self, states: Words, model: MutatedModel, name: str) -> NDArray[np.bool_]:
        """For each state, True if a step of the action differs. Effects are compared only where guards hold."""
        if name not in self._actions:
            sides = (model.of_action(name, changed=changed) for changed in (False, True))
            pairs = instances_of_both(*sides)
            guards = [(a.enabled if a else graph.FALSE, b.enabled if b else graph.FALSE) for a, b in pairs]
            effects = [(a, b) for a, b in pairs if a is not None and b is not None]
            asked = [graph.any_(graph.not_(graph.eq(*own)) for own in guards)]
            asked.append(graph.any_(graph.and_(*own) for own in guards))
            other = graph.any_(_effect_differs(a, b, model.inputs) for a, b in effects)
            layout = self._program.layout
            self._actions[name] = tuple(Evaluation(layout, n, self._effort) for n in (asked, [other]))  # type: ignore[assignment]
        guards_differ, effect_differs = self._actions[name]
        found, both = guards_differ(states)
        where = np.flatnonzero(both)
        found[where] |= effect_differs(states[where])[0]
        return found


def _effect_differs(a: Instance, b: Instance, inputs: Sequence[Node]) -> Node:
    """The condition that two instances are enabled, and that their steps differ."""
    pruned, other = _pruned(a), _pruned(b)
    differ = [
        graph.not_(graph.eq(pruned.get(bound, graph.FALSE), other.get(bound, graph.FALSE)))
        for bound in dict.fromkeys([*pruned, *other])
    ]
    differ.append(graph.and_(a.leads_on, leads_elsewhere(a, b, inputs)))
    return graph.all_([a.enabled, b.enabled, graph.any_(differ)])


def _pruned(instance: Instance) -> dict[str | None, Node]:
    """For each bound, the condition that it prunes an enabled step; for None, that the step leaves its type."""
    found: dict[str | None, Node] = {}
    earlier = graph.FALSE
    for check in sorted(instance.checks, key=lambda c: c.bound is None):
        here = graph.and_(check.node, graph.not_(earlier))
        found[check.bound] = graph.or_(found.get(check.bound, graph.FALSE), here)
        earlier = graph.or_(earlier, check.node)
    return found
