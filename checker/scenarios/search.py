"""The interface of every engine: options, progress, result."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property

from highwater.model.language.errors import LanguageError
from highwater.model.language.initial import Scalars

DEADLOCK = "deadlock"
"""Name of the property that a state without any step violates; SearchOptions.deadlock checks it."""
DEADLOCK_MEANING = "In every state some step can be taken."


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search.

    ``workers`` 0 means all cores. A limit of None means none; ``memory_bytes`` None lets the engine choose by
    the free memory. With ``stop_at_first`` a search ends with the level of the first violation; else when every
    property is violated or all states are seen; with ``all_states`` only then.
    With ``on_disk`` a search whose visited states do not fit into memory continues on disk. ``checkpoint`` is a
    directory for a search that survives its process; ``resume`` continues it. With ``graph`` the result has the
    explored graph, if the engine makes one. ``crowded`` says that other searches run beside this one: no core is free
    for compiling.
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
    """How far a search is: the level being expanded (initial states are level 1), counts, and resources.

    ``queue`` counts the states found but not yet expanded. ``memory_bytes`` is the fingerprint table and the
    frontier in memory, ``spilled_bytes`` what lies on disk, ``seconds`` the time since the search began.
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

    ``depth`` counts states, so it is one more than the number of steps. A run that violates a liveness property has
    ``loop_start``: its last state is the one after so many steps (0: the initial state), and from there it goes round
    forever; where that is the last state itself, it stays there. ``case`` is the number of the choice of parameters
    for which this is the run, ``others`` are those of the other choices for which the property is violated.
    """

    property: str
    initial: Scalars
    path: tuple[int, ...]
    loop_start: int | None = None
    case: int = 0
    others: tuple[int, ...] = ()

    @cached_property
    def depth(self) -> int:
        """The violating state's level."""
        return len(self.path) + 1


def predecessors(
    number: int, index: int, origin: Callable[[int, int], tuple[int, int]]
) -> tuple[int, tuple[int, ...]]:
    """The run to a state of a level: the index of its initial state, and the instances from there on.

    ``origin`` maps level and index to the predecessor's index and the instance; on the first level to the initial
    state.
    """
    path: list[int] = []
    while number:
        index, instance = origin(number, index)
        path.append(instance)
        number -= 1
    return origin(0, index)[0], tuple(reversed(path))


def collision_probability(states: int) -> float:
    """An upper bound on the probability that two of so many states share a 64-bit fingerprint."""
    n = float(states)
    return -math.expm1(-n * (n - 1) / 2 / 2.0**64)


@dataclass
class SearchResult:
    """An engine's findings. Counts are of states and steps; dictionaries are by name.

    ``stopped_by`` is None for a complete search, else "states", "seconds", "memory", "disk", "interrupted" or
    "violation" (all properties violated, or the first one with ``stop_at_first``). ``trouble`` is an error of the disk,
    also if only the last checkpoint failed; ``unspilled`` is the reason why levels stayed in memory.
    ``premises`` counts, for each property, the states that satisfy its premise; for a property of steps, such steps
    among those that can violate it. ``collision_probability`` bounds the probability that two states shared a
    fingerprint, so that one was never seen; 0 if an engine keeps whole states. ``graph`` is the explored graph
    (``engines/state_graph.py``), if requested and made.
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
        """Whether every reachable state was seen."""
        return self.stopped_by is None


ProgressCallback = Callable[[Progress], None]


class EngineError(LanguageError):
    """An engine does not support a request."""


def missing_verdicts(properties: list[str], found: Collection[str], options: SearchOptions) -> bool:
    """Whether the search should go on after a level in view of the violations found so far."""
    if not found or options.all_states:
        return True
    return not options.stop_at_first and any(p not in found for p in properties)
