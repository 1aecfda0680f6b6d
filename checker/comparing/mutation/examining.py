"""Compare all mutants of one scenario with the protocol.

A mutant that takes the same steps as the protocol in all reachable states is equivalent in that scenario, and is not
searched. Every other mutant is searched from the initial states, as ``highwater check`` searches. If no property
detects a mutant, its counts (those of ``highwater gate``) are compared with the protocol's counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct, structs

from highwater.checker.base.problems import InputError
from highwater.checker.comparing.mutation.searching import (
    MutantSearch,
    StepComparison,
    effort_for,
    levels_of,
    mutant_graph,
    program_for,
    states_of,
)
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.native.state_graph import GraphLevels, LinkProgram
from highwater.checker.scenarios.model_key import engine_key, model_key
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import DEADLOCK, EngineError, SearchOptions, SearchResult
from highwater.model.language.interpreter import BoundError
from highwater.model.language.mutated import MutatedModel
from highwater.model.language.mutation import Mutant

KILLED, NOTICED, EQUIVALENT, SURVIVED = "killed by a property", "noticed by counts", "equivalent", "survived"
NOT_COMPARED = "not compared"
KINDS = (KILLED, NOTICED, EQUIVALENT, SURVIVED)
"""The verdicts of one scenario. A mutant that no scenario compared has the verdict NOT_COMPARED."""
VERDICTS = (*KINDS, NOT_COMPARED)
VIOLATED, HOLDS, LEAVES = "violated", "holds", "leaves its type"
"""The ways to kill a mutant: a property is violated, an expected violation is missing, a value leaves its type."""
SAME_COUNTS, LIMIT = "same counts", "limit"
"""The ways to survive: a mutant takes another step but all counts are equal, or a limit ended the comparison."""

_TIMES, _MORE = 3, 200_000
"""A mutant's search ends at ``_TIMES`` times the protocol's number of states, plus ``_MORE``."""

Count = Annotated[int, Meta(ge=0)]
Kind = Annotated[str, Meta(pattern=f"^({'|'.join(KINDS)})\\Z")]
How = Annotated[str, Meta(pattern=f"^({'|'.join((VIOLATED, HOLDS, LEAVES, SAME_COUNTS, LIMIT))})\\Z")]


class MutantResult(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The verdict of one scenario on a mutant.

    - ``property``: the property that kills the mutant, at ``depth``. If ``how`` is HOLDS: the properties whose
      expected violation is missing; if it is LEAVES: the error message
    - ``count``: the name of the first count that differs. It is ``found`` instead of ``expected``; ``expected`` None
      means more states than the limit
    - ``differs``: the depth of the first state in which the mutant takes another step than the protocol
    - ``liveness``: True if only liveness properties were checked
    """

    kind: Kind
    how: How | None = None
    property: str | None = None
    depth: Count | None = None
    count: str | None = None
    expected: Count | None = None
    found: Count | None = None
    differs: Count | None = None
    liveness: bool = False


Report = Callable[[int, MutantResult], None]


def counts_of(result: SearchResult) -> dict[str, int]:
    """The counts of a search that ``highwater gate`` compares, by their names in a baseline."""
    found = {"distinct_states": result.distinct_states}
    if result.violations:
        return (
            found | {"depth": result.depth} | {f"violated.{v.property}": v.depth for v in result.violations}
        )
    found |= {"generated_states": result.generated_states, "depth": result.depth}
    for table in ("actions", "cut", "premises"):
        found |= {f"{table}.{name}": count for name, count in getattr(result, table).items()}
    return found


def is_finished(result: SearchResult) -> bool:
    """True if a search explored all states, or its violations ended it; False after a limit or an interruption."""
    return result.stopped_by in (None, "violation")


class Examination:
    """One scenario with all its mutants. ``states`` is the protocol's number of states; None if unknown.

    Raises InputError or LanguageError if the scenario cannot be traced.
    """

    def __init__(self, request: Request, memory_bytes: int | None = None, states: int | None = None) -> None:
        self.request, self.states = request, states
        self.model: MutatedModel = request.model(MutatedModel)  # type: ignore[assignment]
        checked = {*self.model.safety, *([DEADLOCK] if request.deadlock else [])}
        self.expected = request.expected & checked
        self.options = SearchOptions(
            workers=1, memory_bytes=memory_bytes, deadlock=request.deadlock, on_disk=False
        )

    @cached_property
    def digest(self) -> bytes:
        """A digest of all that a result depends on: code, model, properties, and expected violations."""
        checked = (self.request.properties, sorted(self.request.expected))
        code = engine_key("checker/comparing")
        return hashlib.sha256(f"{code}{model_key(self.model)}{checked}".encode()).digest()

    @property
    def mutants(self) -> dict[int, Mutant]:
        """The mutants of the scenario's model, by number."""
        return self.model.mutants

    def safety(self, numbers: Collection[int], report: Report, limit_states: int | None) -> str | None:
        """Compare mutants by invariants, step properties and counts, and report each result.

        Returns a note if a limit ended the comparison, else None. Raises InputError if the protocol itself does not
        meet the scenario's expectations.
        """
        with self._explored(numbers, limit_states) as explored:
            base, result = explored.base, explored.result
            violated, whole = {v.property for v in result.violations}, is_finished(result)
            if not violated <= self.expected or (whole and violated != self.expected):
                raise InputError("the protocol itself violates other properties than the scenario expects")
            counts = counts_of(result) if whole else None
            limit = _limit(max(base.distinct, self.states or 0)) if whole else limit_states
            options = replace(self.options, limit_states=limit)
            for number, depth in explored.differing(self.model, numbers):
                if depth is not None:
                    searched = self._searched(explored.program, number, options, counts)
                    report(number, structs.replace(searched, differs=depth))
                else:
                    report(number, MutantResult(EQUIVALENT) if whole else MutantResult(SURVIVED, LIMIT))
            return None if whole else f"only the nearest {base.distinct:,} states were compared"

    def liveness(self, numbers: Collection[int], report: Report, limit_states: int | None) -> str | None:
        """Compare mutants by the liveness properties, one after the other, because each mutant has its own graph.

        Returns a note if a limit ended the comparison, else None. Raises InputError if the protocol itself does not
        meet the scenario's expectations.
        """
        with self._explored(numbers, limit_states, all_states=True) as explored:
            if not explored.result.complete:
                return "liveness properties were not checked: not all states were explored"
            program = explored.program
            options = replace(self.options, limit_states=_limit(explored.base.distinct))
            if self._lived(program, 0, options).kind == KILLED:
                raise InputError("liveness properties are violated, or hold, other than the scenario expects")
            for number, depth in explored.differing(self.model, numbers):
                if depth is None:
                    report(number, MutantResult(EQUIVALENT, liveness=True))
                else:
                    report(number, structs.replace(self._lived(program, number, options), differs=depth))
            return None

    @contextmanager
    def _explored(
        self, numbers: Collection[int], limit_states: int | None, *, all_states: bool = False
    ) -> Iterator[_Explored]:
        """Explore the unmutated protocol as ``highwater check`` does, and yield the search.

        With ``all_states``, the search continues after violations.
        """
        program = program_for(self.model, effort_for((self.states or limit_states or 0) * len(numbers)))
        options = replace(self.options, limit_states=limit_states, all_states=all_states)
        with closing(levels_of(GraphLevels, program, options, 0)) as base:
            result = MutantSearch(base, self.expected).explore()
            _go_on(result)
            yield _Explored(program, base, result)

    def _searched(
        self, program: LinkProgram, number: int, options: SearchOptions, counts: dict[str, int] | None
    ) -> MutantResult:
        """Search a mutant and return its result.

        ``counts`` are the protocol's counts; None if the protocol's own search reached the limit.
        """
        with closing(levels_of(NativeLevels, program, options, number)) as levels:
            try:
                result = MutantSearch(levels, self.expected).explore()
            except BoundError as wrong:
                return MutantResult(KILLED, LEAVES, str(wrong), len(levels.levels))
        _go_on(result)
        depths = {v.property: v.depth for v in result.violations}
        if new := [(depth, name) for name, depth in depths.items() if name not in self.expected]:
            depth, name = min(new)
            return MutantResult(KILLED, VIOLATED, name, depth)
        states = result.distinct_states
        if not is_finished(result):
            if counts is None or states <= counts["distinct_states"]:
                return MutantResult(SURVIVED, LIMIT)
            return _noticed("distinct_states", counts["distinct_states"], states)
        if missed := sorted(self.expected - depths.keys()):
            return MutantResult(KILLED, HOLDS, ", ".join(missed), result.depth)
        if counts is None:  # the protocol has more states than the limit
            return _noticed("distinct_states", None, states)
        own = counts_of(result)
        other = next((name for name, count in counts.items() if own[name] != count), None)
        if other is None:
            return MutantResult(SURVIVED, SAME_COUNTS)
        return _noticed(other, counts[other], own[other])

    def _lived(self, program: LinkProgram, number: int, options: SearchOptions) -> MutantResult:
        """Check the liveness properties of a mutant.

        The result is SURVIVED if no property detects the mutant, or if its graph is incomplete.
        """
        from highwater.checker.engines.liveness import violating_run

        survived = MutantResult(SURVIVED, liveness=True)
        try:
            explored = mutant_graph(program, number, options)
            if not explored.complete:
                return survived
            runs = [violating_run(explored, prop).violation for prop in explored.model.liveness]
        except BoundError as wrong:
            return MutantResult(KILLED, LEAVES, str(wrong), liveness=True)
        except EngineError:
            return survived
        expected = self.request.scenario.expectation.violated
        depths = {v.property: v.depth for v in runs if v is not None}
        if new := [(depth, name) for name, depth in depths.items() if name not in expected]:
            depth, name = min(new)
            return MutantResult(KILLED, VIOLATED, name, depth, liveness=True)
        if missed := sorted(expected & {p.name for p in self.model.liveness} - depths.keys()):
            return MutantResult(KILLED, HOLDS, ", ".join(missed), liveness=True)
        return survived


@dataclass(frozen=True)
class _Explored:
    """The search of the unmutated protocol; ``base`` has its states."""

    program: LinkProgram
    base: GraphLevels
    result: SearchResult

    def differing(self, model: MutatedModel, numbers: Collection[int]) -> list[tuple[int, int | None]]:
        """Each mutant, with the depth of the first state with another step than the protocol's, or None.

        The mutants that have no such state come first.
        """
        states, sizes = states_of(self.base), np.cumsum(self.base.sizes)
        comparison = StepComparison(self.program, states, effort_for(len(states) * len(numbers)))
        found: list[tuple[int, int | None]] = []
        for number in sorted(numbers):
            first = comparison.first(model, number)
            depth = None if first is None else int(np.searchsorted(sizes, first, side="right")) + 1
            found.append((number, depth))
        return sorted(found, key=lambda one: one[1] is not None)


def _limit(states: int) -> int:
    return _TIMES * states + _MORE


def _noticed(count: str, expected: int | None, found: int) -> MutantResult:
    return MutantResult(NOTICED, count=count, expected=expected, found=found)


def _go_on(result: SearchResult) -> None:
    if result.stopped_by == "interrupted":
        raise KeyboardInterrupt


@dataclass
class Record:
    """A mutant, the actions that it changes, and its results by (position of the part, name of the scenario)."""

    mutant: Mutant
    protocol: str
    actions: set[str] = field(default_factory=set)
    results: dict[tuple[int, str], MutantResult] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The verdict over all scenarios, one of ``VERDICTS``.

        KILLED, or else NOTICED, if any scenario has this verdict; EQUIVALENT if all have it; NOT_COMPARED without
        results; else SURVIVED.
        """
        kinds = {r.kind for r in self.results.values()}
        if not kinds:
            return NOT_COMPARED
        if kinds == {EQUIVALENT}:
            return EQUIVALENT
        return next((kind for kind in (KILLED, NOTICED) if kind in kinds), SURVIVED)

    @property
    def deciding(self) -> list[tuple[str, MutantResult]]:
        """The scenarios whose verdict is the mutant's verdict, with their results, in order."""
        ordered = sorted(self.results.items())
        return [(scenario, r) for (_, scenario), r in ordered if r.kind == self.verdict]
