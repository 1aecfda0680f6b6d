"""The states of the model that fit what was observed so far, carried from line to line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from model.language.interpreter import BoundError
from model.language.model import Scalars
from traces.errors import TraceError, printable
from traces.fields import Place
from traces.runs.compiled import Compiled
from traces.runs.steps import Expected

Reached = tuple[Scalars, Scalars]
"""A state before a line's own step: what must not change by the line's own account, and the state itself."""


@dataclass
class Advance:
    """What a line leaves.

    ``states`` fit it (none: nothing explains it), ``before`` are those before its own step, ``cut`` names the
    bounds at which steps were cut.
    """

    states: list[Scalars] = field(default_factory=list)
    before: list[Reached] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)


class Carrier:
    """Takes sets of states through lines; never more than ``limit`` states at a time."""

    def __init__(self, compiled: Compiled, hidden_steps: int, limit: int) -> None:
        self.compiled, self.hidden_steps, self.limit = compiled, hidden_steps, limit
        self.interpreter = compiled.interpreter

    def advance(self, states: Iterable[Scalars], expected: Expected) -> Advance:
        """All states after a line, from all states before it.

        Raises TraceError where there are too many, or where a step leaves the types of the state.
        """
        place = expected.line.place
        found = Advance()
        try:
            found.before = self._after_hidden(states, expected, found.cut)
            after: dict[Scalars, None] = {}
            enabled = self.compiled.enabled(expected.numbers)
            for basis, state in found.before:
                for number in _those(expected.numbers, enabled(state)):
                    step = self.interpreter.step(state, number)
                    if step.state is None:
                        found.cut.add(step.cut or "")
                    elif step.state not in after and expected.fits(basis, step.state):
                        after[step.state] = None
                        self._check(len(after), place)
        except BoundError as wrong:
            raise place.wrong(
                f"a step from a state that fits leaves the types of the model: {printable(wrong)}"
            ) from None
        found.states = list(after)
        return found

    def _after_hidden(self, states: Iterable[Scalars], expected: Expected, cut: set[str]) -> list[Reached]:
        """The states after up to ``hidden_steps`` unobserved steps, those after fewer first."""
        reached: dict[Reached, None] = dict.fromkeys((expected.basis(state), state) for state in states)
        level = list(reached)
        for _ in range(self.hidden_steps):
            later: list[Reached] = []
            for basis, state in level:
                for step in self.interpreter.steps(state):
                    if step.state is None:
                        cut.add(step.cut or "")
                    elif (basis, step.state) not in reached:
                        reached[basis, step.state] = None
                        later.append((basis, step.state))
                self._check(len(reached), expected.line.place)
            level = later
            if not level:
                break
        return list(reached)

    def _check(self, count: int, place: Place) -> None:
        if count > self.limit:
            raise TraceError(
                place.path,
                place.line,
                None,
                f"inconclusive: more than {self.limit} states of the model fit what was observed so far; "
                "observe more of the state, name the actions, or suppose fewer hidden steps",
            )


def _those(numbers: Sequence[int], enabled: Sequence[bool]) -> Iterable[int]:
    return (number for number, is_enabled in zip(numbers, enabled, strict=True) if is_enabled)


__all__ = ["Advance", "Carrier", "Reached"]
