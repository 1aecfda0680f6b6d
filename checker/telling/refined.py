"""A step that a refinement does not allow, seen from both sides: what the abstract protocol would have to do for it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from highwater.model.language.evaluation import compile_nodes
from highwater.model.language.interpreter import differences
from highwater.model.language.model import Instance, Scalars
from highwater.model.language.refinement import Implementation

MOST = 3
"""So many abstract actions are told at most that come near a step."""


@dataclass(frozen=True)
class NearestAction:
    """An abstract action that does some of what a step does: the guards that refuse it, and where it differs.

    ``differs`` is path to (the value that the action would leave, the value that the step leaves).
    """

    action: str
    parameters: Mapping[str, Any]
    sentence: str
    refused_by: tuple[str, ...]
    differs: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class AbstractStep:
    """A step as the abstract protocol sees it: one of its actions, or none where nothing changes.

    ``changes`` is path to (value before, value after). ``near`` is of a step that is no action's, ``leaves`` says which
    types of the abstract protocol the state after it leaves.
    """

    action: str | None
    parameters: Mapping[str, Any]
    sentence: str
    changes: Mapping[str, tuple[Any, Any]]
    state: Mapping[str, Any]
    allowed: bool
    near: tuple[NearestAction, ...] = ()
    leaves: tuple[str, ...] = ()


@dataclass(frozen=True)
class AbstractRun:
    """A run as the abstract protocol sees it: its name, its type of state, its initial state, and the steps."""

    name: str
    type: Any
    initial: Mapping[str, Any]
    steps: tuple[AbstractStep, ...]


class _Attempt:
    """An abstract instance tried in an abstract state, whether its guards let it or not."""

    def __init__(self, instance: Instance, before: Scalars) -> None:
        guards, checks, writes = instance.guards, instance.checks, instance.writes
        roots = [*(g.node for g in guards), *(c.node for c in checks), *(w.node for w in writes.values())]
        values = iter(compile_nodes(roots)(before))
        self.instance = instance
        self.refused = [g.name for g in guards if not next(values)]
        met = [c.message for c in checks if next(values)]
        self.refused = self.refused or list(dict.fromkeys(met))
        after = list(before)
        for leaf in writes:
            after[leaf] = int(next(values))
        self.after = tuple(after)


class Abstract:
    """What an abstract protocol makes of the steps of a protocol that implements it."""

    def __init__(self, implementation: Implementation) -> None:
        self.implementation = implementation
        self.model = implementation.model

    def run(self, states: Sequence[Scalars], parameters: Sequence[Mapping[str, Any]]) -> AbstractRun:
        """A run of the protocol that implements it, as the abstract one sees it; with each step's parameters."""
        seen = [self.implementation.state(state) for state in states]
        pairs = zip(itertools.pairwise(seen), parameters, strict=True)
        steps = tuple(self.step(a, b, given) for (a, b), given in pairs)
        protocol = self.model.protocol
        return AbstractRun(
            protocol.name or type(protocol).__name__, protocol.state, self.model.decode(seen[0]), steps
        )

    def step(
        self, before: Scalars, after: Scalars, given: Mapping[str, Any] = MappingProxyType({})
    ) -> AbstractStep:
        """A step from one abstract state to another.

        Where several abstract instances take it, it is the one that has most parameters in common with what is given.
        """
        if leaves := self.implementation.left(after):
            return AbstractStep(None, {}, "", {}, {}, False, (), tuple(leaves))
        state = self.model.decode(after)
        if before == after:
            return AbstractStep(None, {}, "", {}, state, True)
        changes = differences(self.model.decode(before), state)
        attempts = [_Attempt(instance, before) for instance in self.model.instances]
        taken = [a.instance for a in attempts if not a.refused and a.after == after]
        if taken:
            found = max(taken, key=lambda i: sum(given.get(n) == v for n, v in i.parameters.items()))
            return AbstractStep(
                found.action.name, dict(found.parameters), _sentence(found), changes, state, True
            )
        return AbstractStep(None, {}, "", changes, state, False, self._near(attempts, before, after))

    def _near(
        self, attempts: Sequence[_Attempt], before: Scalars, after: Scalars
    ) -> tuple[NearestAction, ...]:
        """What does as much of a step as any, each action once; first what is refused least, and does least besides."""
        changed = self._changed(before, after)
        best: dict[str, tuple[tuple[int, int, int], _Attempt]] = {}
        for attempt in attempts:
            does, other = self._changed(before, attempt.after), self._changed(attempt.after, after)
            rank = len(changed & other), len(attempt.refused), len(other - changed)
            name = attempt.instance.action.name
            if does & changed and (name not in best or rank < best[name][0]):
                best[name] = rank, attempt
        ranked = sorted(best.values(), key=lambda found: found[0])
        nearest = [attempt for rank, attempt in ranked if rank[0] == ranked[0][0][0]]
        return tuple(self._told(attempt, after) for attempt in nearest[:MOST])

    def _told(self, attempt: _Attempt, after: Scalars) -> NearestAction:
        instance, model = attempt.instance, self.model
        left = self.implementation.left(attempt.after)
        differs = {} if left else differences(model.decode(attempt.after), model.decode(after))
        return NearestAction(
            instance.action.name,
            dict(instance.parameters),
            _sentence(instance),
            tuple(attempt.refused),
            differs,
        )

    def _changed(self, before: Scalars, after: Scalars) -> set[str]:
        """The fields of the abstract state that differ."""
        fields = self.implementation.fields.items()
        return {name for name, leaves in fields if any(before[i] != after[i] for i in leaves)}


def _sentence(instance: Instance) -> str:
    return instance.sentence if instance.action.says else str(instance)
