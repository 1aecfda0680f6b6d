"""Breadth-first search, level by level, for every store of visited states.

``Visited`` is an engine's store: fingerprints in memory, sorted runs on disk, or Parquet. ``BreadthFirst`` is the
loop around it. The loop ends after the last level, at a limit, at an interruption, or when it has found the violations
that the options request (``decided``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Protocol

import msgspec

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
from highwater.model.language import Model
from highwater.model.language.initial import Scalars

Place = Annotated[tuple[int, ...], msgspec.Meta(min_length=2, max_length=3)]
"""Where a property is violated: the level (from 0) and the index of a state.

For a step property: the level and index of the step's source state, and the number of the step's action instance.
"""


class Totals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The counts of a search so far, named as in SearchResult, and the first violation of each property (``found``)."""

    distinct_states: int = 0
    generated_states: int = 0
    actions: dict[str, int] = {}
    cut: dict[str, int] = {}
    premises: dict[str, int] = {}
    found: dict[str, Place] = {}
    seconds: float = 0.0


class Visited(Protocol):
    """The store of the states that a search has visited, by level. The last level is the frontier."""

    @property
    def sizes(self) -> list[int]:
        """The number of states in each level."""

    @property
    def found(self) -> Mapping[str, Place]:
        """The first violation of each property that is violated so far."""

    def begin(self, search: BreadthFirst) -> None:
        """Store the initial states as level 0, or restore a checkpoint."""

    def expand(self, search: BreadthFirst) -> None:
        """Find the next level: the new successors of the frontier. The search may stop within the level."""

    def totals(self, search: BreadthFirst) -> Totals:
        """The counts of the search so far."""

    def origin(self, level: int, index: int) -> tuple[int, int]:
        """The last step of a run to state ``index`` of a level: (index of its source in the level before, instance).

        For level 0: the index of the initial state, and 0.
        """

    def initial(self, index: int) -> Scalars:
        """The initial state with this index."""

    def progress(self, search: BreadthFirst) -> Progress:
        """The progress of the search. Also records the memory and disk in use in ``search.result``."""


class BreadthFirst:
    """One breadth-first search of a model.

    ``stop`` is the reason to stop, or None. ``seconds_before`` is the time that the search took before it was
    resumed.
    """

    def __init__(
        self, model: Model, visited: Visited, options: SearchOptions, progress: ProgressCallback | None
    ) -> None:
        outline = model.outline
        self.visited, self.options, self.progress = visited, options, progress
        self.names, self.step_names = list(outline.properties), list(outline.step_properties)
        self.result = SearchResult()
        self.stop: str | None = None
        self.started = time.perf_counter()
        self.seconds_before = 0.0

    @property
    def seconds(self) -> float:
        """The seconds spent on the search, including the time before a resumption."""
        return self.seconds_before + time.perf_counter() - self.started

    @property
    def known(self) -> tuple[int, int]:
        """Two bit masks: the invariants violated so far, and the step properties violated so far."""
        found = self.visited.found
        return _bits(self.names, found), _bits(self.step_names, found)

    def explore(self) -> SearchResult:
        """Run the search until no state is left to expand or it stops, and return the result."""
        visited = self.visited
        with interruption(lambda: self.end("interrupted")):
            visited.begin(self)
            while visited.sizes[-1] and not self.stop:
                if self.decided():
                    self.end("violation")
                    break
                visited.expand(self)
                self.report()
        return self._conclude()

    def decided(self) -> bool:
        """True if the violations found so far end the search.

        With ``all_states``, they never do. With ``stop_at_first``, one violation suffices. Otherwise, every checked
        property must be violated.
        """
        wanted = self.names + self.step_names + [DEADLOCK] * self.options.deadlock
        return not missing_verdicts(wanted, self.visited.found, self.options)

    def end(self, why: str) -> None:
        """Stop the search with the reason ``why``, unless it has a reason already."""
        self.stop = self.stop or why

    def check_limits(self, distinct: int) -> bool:
        """Stop the search if it exceeds a limit; ``distinct`` is the number of states found.

        Returns True if the search is stopped, by this limit or for an earlier reason.
        """
        states, seconds = self.options.limit_states, self.options.limit_seconds
        if states is not None and distinct > states:
            self.end("states")
        elif seconds is not None and time.perf_counter() - self.started > seconds:
            self.end("seconds")
        return self.stop is not None

    def report(self) -> None:
        """Record the memory and disk in use, and report the progress."""
        progress = self._note_resources()
        if self.progress:
            self.progress(progress)

    def _note_resources(self) -> Progress:
        progress = self.visited.progress(self)
        self.result.peak_memory_bytes = max(self.result.peak_memory_bytes, progress.memory_bytes)
        self.result.spilled_bytes = progress.spilled_bytes
        return progress

    def _conclude(self) -> SearchResult:
        visited, result = self.visited, self.result
        self._note_resources()
        totals = visited.totals(self)
        result.stopped_by = self.stop
        result.distinct_states = totals.distinct_states
        result.generated_states = totals.generated_states
        result.depth = sum(1 for size in visited.sizes if size)
        result.actions, result.cut, result.premises = totals.actions, totals.cut, totals.premises
        result.seconds = self.seconds
        # Violations in a state before violations in a step.
        ordered = sorted(totals.found.items(), key=lambda item: len(item[1]))
        result.violations = [self._violation(name, *place) for name, place in ordered]
        result.collision_probability = collision_probability(result.distinct_states)
        return result

    def _violation(self, name: str, number: int, index: int, *last: int) -> ViolatingRun:
        """The run to state ``index`` of level ``number``, extended by steps of the instances ``last``."""
        first, path = predecessors(number, index, self.visited.origin)
        return ViolatingRun(name, self.visited.initial(first), (*path, *last))


def _bits(names: Iterable[str], found: Mapping[str, object]) -> int:
    return sum(1 << i for i, name in enumerate(names) if name in found)
