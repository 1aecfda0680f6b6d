"""The states of the model that fit what was observed so far, carried from line to line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.model import Scalars
from highwater.traces.reading.errors import TraceError
from highwater.traces.reading.fields import Place
from highwater.traces.runs.steps import Expected

OF_THE_TYPES = "of the state's types"
"""How a cut is called where a step leaves the types of the state at no bound."""
Reached = tuple[Scalars, Scalars]
"""A state before a line's own step: what must not change by the line's own account, and the state itself."""


@dataclass
class Advance:
    """What a line leaves.

    ``states`` fit it (none: nothing explains it), ``before`` are those before its own step, ``cut`` names the
    bounds at which steps were cut. ``steps`` are the pairs of states between which its own step can have led, where
    the model has properties of steps.
    """

    states: list[Scalars] = field(default_factory=list)
    steps: list[tuple[Scalars, Scalars]] = field(default_factory=list)
    before: list[Reached] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)


class Carrier:
    """Takes sets of states through lines; never more than ``limit`` states at a time."""

    def __init__(self, interpreter: Interpreter, hidden_steps: int, limit: int) -> None:
        self.interpreter, self.hidden_steps, self.limit = interpreter, hidden_steps, limit
        self.pairs = bool(interpreter.model.step_properties)
        self.all_numbers = tuple(range(len(interpreter.model.instances)))

    def advance(self, states: Iterable[Scalars], expected: Expected) -> Advance:
        """All states after a line, from all states before it.

        Raises TraceError where there are too many.
        """
        found = Advance()
        found.before = self._after_hidden(states, expected, found.cut)
        after: dict[Scalars, None] = {}
        steps: dict[tuple[Scalars, Scalars], None] = {}
        for basis, state in found.before:
            for later in self._steps(state, expected.numbers, found.cut):
                if (later not in after or self.pairs) and expected.fits(basis, later):
                    after[later] = None
                    self._check(len(after), expected.line.place)
                    if self.pairs:
                        steps[state, later] = None
                        self._check(len(steps), expected.line.place)
        found.states, found.steps = list(after), list(steps)
        return found

    def passed(self, states: Iterable[Scalars], expected: Expected) -> list[Scalars]:
        """The states before a line's own step that a run to one of its states can have passed through."""
        cut: set[str] = set()

        @cache
        def leads(reached: Reached, hidden: int) -> bool:
            basis, state = reached
            if any(expected.fits(basis, later) for later in self._steps(state, expected.numbers, cut)):
                return True
            return hidden > 0 and any(leads(later, hidden - 1) for later in self._unseen(reached, cut))

        found: dict[Reached, None] = {}
        level = [(expected.basis(state), state) for state in states]
        for hidden in range(self.hidden_steps, -1, -1):
            level = [reached for reached in level if reached not in found and leads(reached, hidden)]
            found |= dict.fromkeys(level)
            level = [later for reached in level for later in self._unseen(reached, cut)] if hidden else []
        return list(dict.fromkeys(state for _, state in found))

    def _unseen(self, reached: Reached, cut: set[str]) -> Iterator[Reached]:
        basis, state = reached
        return ((basis, after) for after in self._steps(state, self.all_numbers, cut))

    def _after_hidden(self, states: Iterable[Scalars], expected: Expected, cut: set[str]) -> list[Reached]:
        """The states after up to ``hidden_steps`` unobserved steps, those after fewer first."""
        reached: dict[Reached, None] = dict.fromkeys((expected.basis(state), state) for state in states)
        level = list(reached)
        for _ in range(self.hidden_steps):
            later: list[Reached] = []
            for one in level:
                for after in self._unseen(one, cut):
                    if after not in reached:
                        reached[after] = None
                        later.append(after)
                self._check(len(reached), expected.line.place)
            level = later
            if not level:
                break
        return list(reached)

    def _steps(self, state: Scalars, numbers: tuple[int, ...], cut: set[str]) -> Iterator[Scalars]:
        """The states that these instances lead to, cut ones left out.

        A step that leaves the types of the state at no bound is cut, too: it comes from a state that no run
        reaches and that a line made known.
        """
        enabled = self.interpreter.enabled_of(numbers)(state)
        for number, is_enabled in zip(numbers, enabled, strict=True):
            if is_enabled:
                try:
                    step = self.interpreter.step(state, number)
                except BoundError:
                    cut.add(OF_THE_TYPES)
                    continue
                if step.state is not None:
                    yield step.state
                elif step.cut is not None:
                    cut.add(step.cut)

    def _check(self, count: int, place: Place) -> None:
        if count > self.limit:
            raise TraceError(
                place.path,
                place.line,
                None,
                f"inconclusive: more than {self.limit} states of the model fit what was observed so far; "
                "observe more of the state, name the actions, or suppose fewer hidden steps",
            )
