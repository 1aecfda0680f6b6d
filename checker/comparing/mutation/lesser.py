"""Mutants that reach no state that the protocol does not: what they leave out, and whether other steps do it.

No property of states can tell such a mutant from the protocol. Of its graph three things are asked:

* whether an action that the protocol takes is taken no more: ``highwater check`` says so, by a warning;
* whether a run of the protocol can be followed all the same: each step that is missing leads where steps of the mutant
  lead as well, one or several, and the other way round. Then from every state the same states are reached, and what the
  text says in this place is said elsewhere, too;
* else how many states are out of reach from the start.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from highwater.checker.asking.request import Request
from highwater.checker.asking.search import SearchResult
from highwater.checker.engines.layout import Words
from highwater.checker.engines.state_graph import Explored
from highwater.checker.telling.vacuity import CONSTANT, vacuous
from highwater.model.language import graph as expressions

_MOST = 4_000
"""So many states are looked at for a way round one step; then there is none, as far as is known."""
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class Lesser:
    """What a mutant leaves out: ``never`` an action that is taken no more and that is said; ``lost`` so many states.

    ``redundant``: from every state it reaches the same ones, and is cut in the same steps.
    """

    never: str | None = None
    redundant: bool = False
    lost: int = 0


class GraphComparison:
    """The graph of a protocol, with which those of mutants are compared; of each all states must be there."""

    def __init__(self, request: Request, protocol: Explored) -> None:
        self._request, self._protocol = request, protocol
        self._rows = _rows(protocol.states)
        self._order = np.argsort(self._rows)
        self._taken = _taken(protocol)
        self._numbers = np.arange(len(protocol.states), dtype=np.int64)
        self._steps = self._own_steps(protocol, self._numbers)
        self._ways = _Ways(self._steps, len(self._rows))

    def of(self, mutant: Explored) -> Lesser:
        """What a mutant leaves out that reaches none but the protocol's states; ValueError where it does."""
        never = self._never(mutant)
        numbers = self._numbers_of(mutant)
        lost = len(self._rows) - len(numbers)
        if never is not None or lost:
            return Lesser(never, lost=lost)
        steps = self._own_steps(mutant, numbers)
        missing, more = np.setdiff1d(self._steps, steps), np.setdiff1d(steps, self._steps)
        redundant = (
            _cuts(mutant, numbers) == _cuts(self._protocol, self._numbers)
            and self._ways.go(more)
            and _Ways(steps, len(self._rows)).go(missing)
        )
        return Lesser(redundant=redundant)

    def _never(self, mutant: Explored) -> str | None:
        """An action that the protocol takes and the mutant does not, where a check of the mutant's text says so."""
        possible = {i.action.name for i in mutant.model.instances if i.enabled is not expressions.FALSE}
        gone = (self._taken.keys() - _taken(mutant).keys()) & possible
        if not gone:
            return None
        result = SearchResult(actions={a.name: 0 for a in mutant.model.actions} | _taken(mutant))
        said = vacuous(mutant.model, self._request, result)
        return next((v.name for v in said if v.kind != CONSTANT and v.name in gone), None)

    def _numbers_of(self, mutant: Explored) -> NDArray[np.int64]:
        """The protocol's numbers of a mutant's states."""
        rows = _rows(mutant.states)
        at = np.searchsorted(self._rows, rows, sorter=self._order)
        numbers = self._order[np.minimum(at, len(self._order) - 1)]
        if not np.array_equal(self._rows[numbers], rows):
            raise ValueError("the mutant reaches a state that the protocol does not")
        return numbers

    def _own_steps(self, found: Explored, numbers: NDArray[np.int64]) -> Steps:
        """The steps that change something, each once: source times the number of states, plus target; in order."""
        sources, targets = numbers[found.sources], numbers[found.targets]
        return np.unique((sources * len(self._rows) + targets)[sources != targets])


class _Ways:
    """Where some steps lead in the end."""

    def __init__(self, steps: Steps, states: int) -> None:
        self._states, self._targets = states, steps % states
        self._offsets = np.searchsorted(steps, np.arange(states + 1) * states)

    def go(self, steps: Steps) -> bool:
        """Whether there is a way from the source of each of these steps to its target."""
        sources, firsts = np.unique(steps // self._states, return_index=True)
        targets = np.split(steps % self._states, firsts[1:])
        return all(
            self._reaches(source, own.tolist())
            for source, own in zip(sources.tolist(), targets, strict=False)
        )

    def _reaches(self, source: int, wanted: Collection[int]) -> bool:
        left, seen, at_once = set(wanted), {source}, [source]
        while at_once and left and len(seen) < _MOST:
            found: set[int] = set()
            for state in at_once:
                found.update(self._targets[self._offsets[state] : self._offsets[state + 1]].tolist())
            found -= seen
            seen |= found
            left -= found
            at_once = list(found)
        return not left


def _rows(states: Words) -> NDArray[np.void]:
    """Each state as one value that can be compared."""
    states = np.ascontiguousarray(states)
    return states.view(np.dtype((np.void, states.dtype.itemsize * states.shape[1]))).ravel()


def _taken(found: Explored) -> dict[str, int]:
    """The actions of which a step was taken, with how many were; steps that are cut count."""
    counts: dict[str, int] = {}
    for numbers in (found.instances, found.cut_instances):
        for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
            name = found.model.instances[int(number)].action.name
            counts[name] = counts.get(name, 0) + int(count)
    return counts


def _cuts(found: Explored, numbers: NDArray[np.int64]) -> set[tuple[int, int]]:
    """The steps that are cut at a bound: the state and the instance of each."""
    sources = np.repeat(numbers, np.diff(found.cut_offsets))
    return set(zip(sources.tolist(), found.cut_instances.tolist(), strict=True))
