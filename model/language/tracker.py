"""Track the states that fit the observations of a run, and find the steps that come nearest to an observation.

A reader of a recording turns what it reads into observations. A run can take unobserved (hidden) steps before each
observation. A state is any hashable value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")

# --- states that fit -------------------------------------------------------------------------------------

Steps = Callable[[S], Iterable[tuple[int, S]]]
"""A function from a state to the steps from it: the number of each, and the state after it."""
Reached = tuple[Any, S]
"""A state before an observed step, with the ``basis`` of the state after the previous observation."""
Origin = tuple[Reached[S], int] | None
"""The state before a step, and the number of the step; None for a state before the first step."""


class TooManyStatesError(Exception):
    """More states fit the observations than the tracker may hold. The message is the beginning of a sentence."""


@dataclass(frozen=True)
class Observation(Generic[S]):
    """An observed step.

    - ``steps``: the steps from a state that can be the observed one.
    - ``fits``: True if the observation allows a state after the step. The first argument is the ``basis``.
    - ``basis``: the part of the state after the previous observation that ``fits`` compares with the later state.
    """

    steps: Steps[S]
    fits: Callable[[Any, S], bool]
    basis: Callable[[S], Hashable] = lambda _: None


@dataclass
class Advance(Generic[S]):
    """The states before and after an observed step.

    - ``states``: the states that fit the observation, with an origin each; empty if no step explains it.
    - ``before``: the possible states before the observed step, with an origin each.
    - ``pairs``: the possible pairs of states before and after the observed step, if the tracker records them.
    """

    states: dict[S, Origin[S]] = field(default_factory=dict)
    before: dict[Reached[S], Origin[S]] = field(default_factory=dict)
    pairs: dict[tuple[S, S], None] = field(default_factory=dict)

    def path(self, state: S) -> tuple[S, list[int]]:
        """A state that fits the previous observation, and the numbers of the steps from it to one of ``states``.

        The path's last step is the observed one. Without an observed step the path is empty.
        """
        numbers, start, origin = [], state, self.states[state]
        while origin is not None:
            (_, start), number = origin
            numbers.append(number)
            origin = self.before[origin[0]]
        return start, numbers[::-1]


@dataclass(frozen=True)
class StateTracker(Generic[S]):
    """Computes the states that fit an observation from those that fit the previous one.

    - ``hidden``: the steps that can be unobserved, and ``hidden_steps``: the most of them before an observation.
    - ``limit``: the most states that may fit.
    - ``records_pairs``: True if ``Advance.pairs`` is needed.
    """

    hidden: Steps[S]
    hidden_steps: int
    limit: int
    records_pairs: bool = False

    def advance(self, states: Iterable[S], observation: Observation[S]) -> Advance[S]:
        """All states that fit an observation, given all states that fit the previous one.

        Raises TooManyStatesError if there are more than ``limit`` of these states, of the states before the observed
        step, or of the recorded pairs of both.
        """
        found: Advance[S] = Advance()
        found.before = self._after_hidden((observation.basis(state), state) for state in states)
        for origin in found.before:
            basis, state = origin
            for number, later in observation.steps(state):
                if (later not in found.states or self.records_pairs) and observation.fits(basis, later):
                    found.states.setdefault(later, (origin, number))
                    self._check(len(found.states))
                    if self.records_pairs:
                        found.pairs[state, later] = None
                        self._check(len(found.pairs))
        return found

    def _after_hidden(self, start: Iterable[Reached[S]]) -> dict[Reached[S], Origin[S]]:
        """The states after 0 to ``hidden_steps`` unobserved steps, those after fewer steps first."""
        reached: dict[Reached[S], Origin[S]] = dict.fromkeys(start)
        earlier = 0
        for _ in range(self.hidden_steps):
            level, earlier = list(islice(reached, earlier, None)), len(reached)
            if not level:
                break
            for origin in level:
                basis, state = origin
                for number, later in self.hidden(state):
                    reached.setdefault((basis, later), (origin, number))
                self._check(len(reached))
        return reached

    def _check(self, count: int) -> None:
        if count > self.limit:
            raise TooManyStatesError(f"more than {self.limit} states of the model fit what was observed")


# --- steps of a model ------------------------------------------------------------------------------------

OF_THE_TYPES = "of the state's types"
"""The name of the bound if a step leaves the types of the state without reaching a named bound."""


def model_steps(
    interpreter: Interpreter, numbers: tuple[int, ...], pruned: set[str], state: Scalars
) -> Iterator[tuple[int, Scalars]]:
    """The steps from a state by the model's instances with these numbers.

    Steps beyond a bound are left out; ``pruned`` collects the names of these bounds. If a step leaves the types of the
    state without reaching a named bound, the name is ``OF_THE_TYPES``: no run of the model reaches a state with such a
    step.
    """
    enabled = interpreter.enabled_of(numbers)(state)
    for number, is_enabled in zip(numbers, enabled, strict=True):
        if is_enabled:
            try:
                step = interpreter.step(state, number)
            except BoundError:
                pruned.add(OF_THE_TYPES)
                continue
            if step.state is not None:
                yield number, step.state
            elif step.cut is not None:
                pruned.add(step.cut)


# --- nearest steps ---------------------------------------------------------------------------------------

NEAREST = 5
"""The most steps in a ``Nearest``."""


class Nearest(Generic[T]):
    """The steps with the smallest distances from an observation, at most NEAREST.

    The distance is the number of guards that refuse a step and of fields that differ from the observation.
    """

    def __init__(self) -> None:
        self._best: dict[tuple[int, ...], tuple[int, T]] = {}

    def admits(self, distance: int) -> bool:
        """True if a step can still be among the nearest with this distance."""
        return len(self._best) < NEAREST or distance <= max(known for known, _ in self._best.values())

    def add(self, key: tuple[int, ...], distance: int, found: T) -> None:
        """Add a description of a step. Of equal distances the smaller ``key`` is nearer.

        A step with a key that was added before, from another state, replaces it if the distance is smaller.
        """
        if key not in self._best or distance < self._best[key][0]:
            self._best[key] = distance, found
            for farthest in self._order()[NEAREST:]:
                del self._best[farthest]

    def ranked(self) -> list[T]:
        """The descriptions of the steps, the nearest first."""
        return [self._best[key][1] for key in self._order()]

    def _order(self) -> list[tuple[int, ...]]:
        return sorted(self._best, key=lambda key: (self._best[key][0], key))
