"""One run of the model that a trace can have been: chosen among the states that fit, from its end back to its start."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.model import Instance, Model, Scalars
from highwater.traces.runs.carrying import Reached
from highwater.traces.runs.steps import Expected

KEPT_STATES = 100_000
"""So many states are kept, those of the last lines."""


@dataclass(frozen=True)
class Taken:
    """A line: what was expected of it (None: the start), the states after it, and why nothing explains it, if so."""

    line: int
    expected: Expected | None
    after: Sequence[Scalars]
    unexplained: str = ""


@dataclass(frozen=True)
class Told:
    """A state of the run, with the step to it; None where it is the first, or nothing explains it."""

    line: int
    instance: Instance | None
    state: Scalars
    observed: bool = True
    unexplained: str = ""


class RunHistory:
    """What a replay goes through, line by line; ``told`` makes one run of it once it has ended."""

    def __init__(self) -> None:
        self.interpreter: Interpreter | None = None
        self.hidden_steps = 0
        self.lines: deque[Taken] = deque()
        self.left_out = 0
        self._states = 0

    @property
    def model(self) -> Model:
        """The model that the trace was held against."""
        assert self.interpreter is not None
        return self.interpreter.model

    def add(self, taken: Taken) -> None:
        """Keep a line; the first ones go where there are too many states."""
        self.lines.append(taken)
        self._states += len(taken.after)
        while self._states > KEPT_STATES and len(self.lines) > 1:
            self._states -= len(self.lines.popleft().after)
            self.left_out += 1

    def told(self) -> list[Told]:
        """One run to the first state that fits the last line; none where no line was read."""
        if not self.lines:
            return []
        found: list[Told] = []
        last = self.lines[-1]
        state = last.after[0] if last.after else None
        for i in range(len(self.lines) - 1, 0, -1):
            taken, before = self.lines[i], self.lines[i - 1].after
            if taken.unexplained or taken.expected is None:
                assert before or state is not None
                found.append(Told(taken.line, None, state or before[0], True, taken.unexplained))
                state = before[0] if before else state
                continue
            assert state is not None
            state, numbers = self._back(before, taken.expected, state)
            found += reversed(list(self._forward(taken.line, state, numbers)))
        assert state is not None
        found.append(Told(self.lines[0].line, None, state, True, self.lines[0].unexplained))
        return found[::-1]

    def _forward(self, line: int, state: Scalars, numbers: Sequence[int]) -> Iterator[Told]:
        assert self.interpreter is not None
        for i, number in enumerate(numbers, 1):
            after = self.interpreter.step(state, number).state
            assert after is not None
            state = after
            yield Told(line, self.model.instances[number], state, observed=i == len(numbers))

    def _back(
        self, before: Sequence[Scalars], expected: Expected, after: Scalars
    ) -> tuple[Scalars, list[int]]:
        """A state before a line from which steps, the last of them the line's own, lead to the state after it.

        No more states are looked at than the replay has carried (``Carrier``): each at most once.
        """
        every = tuple(range(len(self.model.instances)))
        level = [(expected.basis(state), state) for state in before]
        came: dict[Reached, tuple[Reached, int] | None] = dict.fromkeys(level)
        for hidden in range(self.hidden_steps + 1):
            for reached in level:
                for number, later in self._steps(reached[1], expected.numbers):
                    if later == after and expected.fits(reached[0], later):
                        return _from_start(came, reached, number)
            following: list[Reached] = []
            for reached in level if hidden < self.hidden_steps else ():
                for number, later in self._steps(reached[1], every):
                    if (reached[0], later) not in came:
                        came[reached[0], later] = reached, number
                        following.append((reached[0], later))
            level = following
        raise AssertionError("no state before the line leads to the one after it")

    def _steps(self, state: Scalars, numbers: tuple[int, ...]) -> Iterator[tuple[int, Scalars]]:
        """The states that these instances lead to, cut ones left out."""
        assert self.interpreter is not None
        for number, enabled in zip(numbers, self.interpreter.enabled_of(numbers)(state), strict=True):
            if enabled:
                try:
                    after = self.interpreter.step(state, number).state
                except BoundError:
                    continue
                if after is not None:
                    yield number, after


def _from_start(
    came: Mapping[Reached, tuple[Reached, int] | None], reached: Reached, last: int
) -> tuple[Scalars, list[int]]:
    """The state from which one was reached, and the steps on the way to it and from it."""
    numbers = [last]
    while (step := came[reached]) is not None:
        reached, number = step
        numbers.append(number)
    return reached[1], numbers[::-1]
