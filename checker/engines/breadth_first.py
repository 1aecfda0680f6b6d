"""Breadth-first search, whatever keeps the visited states: level by level, each remembered before the next begins.

``Visited`` is what an engine keeps: in memory, on disk, or as Parquet. ``BreadthFirst`` is the loop around it. The loop
ends at the last level, at a limit, at an interruption, or when every verdict is known; it counts, and finds shortest
runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from highwater.checker.base.problems import interruption
from highwater.checker.scenarios.search import (
    DEADLOCK,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
    ViolatingRun,
    collision_probability,
    missing_verdicts,
    predecessors,
)
from highwater.model.language.initial import Scalars
from highwater.model.language.model import Model

Known = tuple[int, int]
"""A bit for each property whose violation was found: of the invariants, and of the properties of steps."""
Stopped = Callable[[], bool]


@dataclass
class Found:
    """The new states of a level, and what was counted on the way there.

    ``places`` is the index of the first violating state by property, in the new level; ``broken``, by property of
    steps, that of a state in the level expanded with the instance of a violating step from there; ``stuck`` the index
    of the first state without a step in the level expanded, or None.
    """

    states: int = 0
    generated: int = 0
    actions: list[int] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    premises: list[int] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    broken: dict[str, tuple[int, int]] = field(default_factory=dict)
    stuck: int | None = None


@dataclass(frozen=True)
class Totals:
    """What a search has counted when a level is remembered; by name, as in a result."""

    distinct_states: int = 0
    generated_states: int = 0
    actions: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    premises: dict[str, int] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Property to the first violation's level (from 0) and index in it."""
    broken: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Property of steps to the same of the state before the first step that violates it, and that step's instance."""
    seconds: float = 0.0


class Visited(Protocol):
    """The states that a search has visited, by level. The last level is the frontier."""

    @property
    def levels(self) -> list[tuple[int, Totals]]:
        """The size of each level that is remembered, and what was counted with it."""

    def first(self) -> Found:
        """The initial states, as the new states of level 0."""

    def expand(self, known: Known, stopped: Stopped) -> Found | None:
        """The successors of the frontier that are new; None where the search was stopped meanwhile."""

    def remember(self, totals: Totals) -> None:
        """Make the new states that were found last the frontier."""

    def origin(self, level: int, index: int) -> tuple[int, int]:
        """The index, in the level before, of the state that a state was found from, and the step's instance."""

    def initial(self, index: int) -> Scalars:
        """An initial state."""

    def usage(self, result: SearchResult) -> tuple[int, int]:
        """Bytes in memory and on disk; the most memory is noted in the result."""


class BreadthFirst:
    """One search of a model."""

    def __init__(
        self, model: Model, visited: Visited, options: SearchOptions, progress: ProgressCallback | None
    ) -> None:
        self.model, self.visited, self.options, self.progress = model, visited, options, progress
        self.names = [p.name for p in model.properties]
        self.step_names = [p.name for p in model.step_properties]
        self.result = SearchResult()
        self.stop: str | None = None
        self.started = time.perf_counter()
        self._seconds_before = self.totals.seconds

    @property
    def totals(self) -> Totals:
        """What is counted so far."""
        levels = self.visited.levels
        return levels[-1][1] if levels else Totals()

    def explore(self) -> SearchResult:
        """Run to the end, a limit or an interruption."""
        wanted = self.names + self.step_names + [DEADLOCK] * self.options.deadlock
        with interruption(self._interrupt):
            if not self.visited.levels:
                self._remember(self.visited.first())
            while self.visited.levels[-1][0] and not self.stop:
                if not missing_verdicts(wanted, {*self.totals.places, *self.totals.broken}, self.options):
                    self.stop = "violation"
                    break
                if self._at_limit():
                    break
                known = _bits(self.names, self.totals.places), _bits(self.step_names, self.totals.broken)
                found = self.visited.expand(known, self._stopped)
                if found is not None:
                    self._remember(found)
        return self._conclude()

    def _interrupt(self) -> None:
        self.stop = "interrupted"

    def _stopped(self) -> bool:
        """Report, and check the limit of time."""
        self._report()
        limit = self.options.limit_seconds
        if limit is not None and time.perf_counter() - self.started > limit:
            self.stop = self.stop or "seconds"
        return self.stop is not None

    def _at_limit(self) -> bool:
        limit = self.options.limit_states
        if limit is not None and self.totals.distinct_states > limit:
            self.stop = self.stop or "states"
        return self._stopped()

    def _remember(self, found: Found) -> None:
        """Add up what was counted, and make the new states the frontier."""
        model, number, old = self.model, len(self.visited.levels), self.totals
        places, broken = dict(old.places), dict(old.broken)
        for name in self.names:
            if name in found.places:
                places.setdefault(name, (number, found.places[name]))
        for name in self.step_names:
            if name in found.broken:
                broken.setdefault(name, (number - 1, *found.broken[name]))
        if found.stuck is not None:
            places.setdefault(DEADLOCK, (number - 1, found.stuck))
        self.visited.remember(
            Totals(
                distinct_states=old.distinct_states + found.states,
                generated_states=old.generated_states + found.generated,
                actions=_plus([a.name for a in model.actions], old.actions, found.actions),
                cut=_plus(model.bounds, old.cut, found.cuts),
                premises=_plus(model.safety, old.premises, found.premises),
                places=places,
                broken=broken,
                seconds=self._seconds(),
            )
        )
        self._report()

    def _seconds(self) -> float:
        return self._seconds_before + time.perf_counter() - self.started

    def _report(self) -> None:
        memory, disk = self.visited.usage(self.result)
        if self.progress and (levels := self.visited.levels):
            size, totals = levels[-1]
            seconds = time.perf_counter() - self.started
            counts = totals.distinct_states, totals.generated_states
            self.progress(Progress(len(levels), *counts, size, memory, disk, seconds))

    def _conclude(self) -> SearchResult:
        result, totals = self.result, self.totals
        _, result.spilled_bytes = self.visited.usage(result)
        result.stopped_by = self.stop
        result.distinct_states = totals.distinct_states
        result.generated_states = totals.generated_states
        result.depth = sum(1 for size, _ in self.visited.levels if size)
        result.actions, result.cut, result.premises = totals.actions, totals.cut, totals.premises
        result.seconds = self._seconds()
        result.violations = [self._violation(name, *place) for name, place in totals.places.items()]
        result.violations += [self._violation(name, *place) for name, place in totals.broken.items()]
        result.collision_probability = collision_probability(result.distinct_states)
        return result

    def _violation(self, name: str, number: int, index: int, *last: int) -> ViolatingRun:
        """The run to a state; ``last`` is a step that is taken in the end."""
        first, path = predecessors(number, index, self.visited.origin)
        return ViolatingRun(name, self.visited.initial(first), (*path, *last))


def _bits(names: list[str], found: Mapping[str, object]) -> int:
    return sum(1 << i for i, name in enumerate(names) if name in found)


def _plus(names: list[str], old: dict[str, int], more: list[int]) -> dict[str, int]:
    """Counters by name, added; ``more`` may be longer than the names where there are none, or be empty."""
    return {name: old.get(name, 0) + (more[i] if i < len(more) else 0) for i, name in enumerate(names)}
