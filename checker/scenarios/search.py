"""The interface of every engine: options, progress, result; also of random walks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property

from highwater.model.language import LanguageError
from highwater.model.language.initial import Scalars

DEADLOCK = "deadlock"
"""The property that a state without any step violates. ``SearchOptions.deadlock`` checks it."""
DEADLOCK_MEANING = "In every state some step can be taken."


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search.

    - ``workers``: 0 means all cores
    - ``limit_…``: None means no limit
    - ``memory_bytes``: the most memory; if None, the engine decides by the free memory
    - ``stop_at_first``: the search ends with the level of the first violation. Otherwise it ends when every property
      is violated or all states are explored
    - ``all_states``: the search ends only when all states are explored
    - ``on_disk``: a search whose visited set does not fit into memory continues on disk; otherwise it stops
    - ``checkpoint``: the directory in which finished levels are stored; ``resume`` continues after them
    - ``graph``: the result has the explored graph, if the engine builds one
    - ``crowded``: other searches run at the same time, so no core is free for compiling
    """

    workers: int = 0
    limit_states: int | None = None
    limit_seconds: float | None = None
    memory_bytes: int | None = None
    spill_directory: str | None = None
    symmetry: bool = False
    deadlock: bool = False
    stop_at_first: bool = False
    all_states: bool = False
    on_disk: bool = True
    checkpoint: str | None = None
    resume: bool = False
    graph: bool = False
    crowded: bool = False


@dataclass(frozen=True)
class Progress:
    """The progress of a search: the level being expanded (initial states are level 1), counts, and resources.

    - ``queue``: the number of states found but not yet expanded
    - ``memory_bytes``: the size of the fingerprint table and the frontier in memory
    - ``spilled_bytes``: the size of files on disk
    - ``seconds``: the time since the search began
    """

    depth: int
    distinct_states: int
    generated_states: int
    queue: int
    memory_bytes: int
    spilled_bytes: int
    seconds: float


@dataclass(frozen=True)
class ViolatingRun:
    """A run to a state that violates a property: an initial state, then instance numbers of the model.

    - ``loop_start``: for a liveness property, the number (from 0) of the state that equals the last state: the run
      repeats the steps from there forever. If this is the number of the last state itself, the run stays in the
      last state
    - ``case``: the index of the parameter values for which this run violates the property
    - ``others``: the indices of other parameter values for which the property is violated
    """

    property: str
    initial: Scalars
    path: tuple[int, ...]
    loop_start: int | None = None
    case: int = 0
    others: tuple[int, ...] = ()

    @cached_property
    def depth(self) -> int:
        """The level of the violating state: the number of steps plus one."""
        return len(self.path) + 1


def predecessors(
    number: int, index: int, origin: Callable[[int, int], tuple[int, int]]
) -> tuple[int, tuple[int, ...]]:
    """The run to state ``index`` of level ``number``: the index of its initial state, and the instances of its steps.

    ``origin`` maps level and index to the predecessor's index and the instance. On the first level (0) it returns the
    index of the initial state, and 0.
    """
    path: list[int] = []
    while number:
        index, instance = origin(number, index)
        path.append(instance)
        number -= 1
    return origin(0, index)[0], tuple(reversed(path))


def collision_probability(states: int) -> float:
    """An upper bound on the probability that, among this many states, two share a 64-bit fingerprint."""
    n = float(states)
    return -math.expm1(-n * (n - 1) / 2 / 2.0**64)


@dataclass
class SearchResult:
    """The result of a search. Counts are numbers of states and steps; dictionaries are keyed by name.

    - ``stopped_by``: None for a complete search, otherwise "states", "seconds", "memory", "disk", "interrupted" or
      "violation" (all properties are violated, or one with ``stop_at_first``)
    - ``trouble``: an error of the disk, even if only the last checkpoint failed; None: no error
    - ``unspilled``: the error for which levels stayed in memory instead of on disk; None: no error
    - ``premises``: for each property, the number of states that satisfy its premise; for a step property, the number
      of steps that satisfy its premise and can violate it
    - ``collision_probability``: a bound on the probability that two states share a fingerprint, so that one of them
      is never explored; 0 if the engine stores whole states
    - ``graph``: the explored graph (``engines/state_graph.py``), if it was requested and built
    """

    distinct_states: int = 0
    generated_states: int = 0
    depth: int = 0
    stopped_by: str | None = None
    trouble: str | None = None
    unspilled: str | None = None
    cut: dict[str, int] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    premises: dict[str, int] = field(default_factory=dict)
    violations: list[ViolatingRun] = field(default_factory=list)
    seconds: float = 0.0
    preparation_seconds: float = 0.0
    collision_probability: float = 0.0
    table_bytes: int = 0
    peak_memory_bytes: int = 0
    spilled_bytes: int = 0
    graph: object | None = None

    @property
    def complete(self) -> bool:
        """True if every reachable state was explored."""
        return self.stopped_by is None


@dataclass(frozen=True)
class SimulationOptions:
    """The options of random walks. ``depth`` is the largest number of states in a walk; ``workers`` 0: all cores."""

    walks: int = 10_000
    depth: int = 100
    seed: int = 0
    workers: int = 0
    limit_seconds: float | None = None
    deadlock: bool = False


@dataclass
class SimulationResult(SearchResult):
    """The result of random walks. ``generated_states`` counts every visited state; ``distinct_states`` is 0.

    ``walks`` is the number of walks begun, ``depth`` the number of states in the longest walk. ``seed`` reproduces
    the walks. The run of a violation is the first walk that found it, not a shortest run. For a step property,
    ``premises`` counts all unpruned steps from the states that a walk leaves, not only the steps that it takes.
    """

    walks: int = 0
    seed: int = 0

    @property
    def complete(self) -> bool:
        """Always False: random walks may miss reachable states."""
        return False


ProgressCallback = Callable[[Progress], None]


class EngineError(LanguageError):
    """An engine cannot carry out a request."""


def missing_verdicts(properties: list[str], found: Collection[str], options: SearchOptions) -> bool:
    """True if the search must continue after a level, because the violations so far do not end it.

    ``found`` are the violated properties. ``stop_at_first`` and ``all_states`` decide which violations end a search.
    """
    if not found or options.all_states:
        return True
    return not options.stop_at_first and any(p not in found for p in properties)
