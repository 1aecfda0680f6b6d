"""What came near to explaining a line: the steps of the model with the fewest reasons against them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from highwater.model.language.interpreter import BoundError, Interpreter, differences
from highwater.model.language.model import Scalars
from highwater.traces.reports.findings import Candidate
from highwater.traces.runs.carrying import Reached
from highwater.traces.runs.steps import Expected

KEPT = 5
"""So many candidates are told."""


class Nearest:
    """Ranks steps by how many guards refuse them and how many fields they would leave otherwise."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter, self.model = interpreter, interpreter.model

    def candidates(self, before: Iterable[Reached], expected: Expected) -> tuple[Candidate, ...]:
        """The best candidates from these states, nearest first; each action with its parameters once."""
        if expected.absent is not None:
            action, parameters = expected.line.action or "", dict(expected.line.parameters)
            return (Candidate(action, parameters, refused_by=(expected.absent,)),)
        best: dict[int, tuple[int, int, Candidate]] = {}
        for basis, state in before:
            refused = self.interpreter.refusals_of(state, expected.numbers)
            for number in sorted(expected.numbers, key=lambda n: len(refused[n])):
                worst = sorted(score for score, _, _ in best.values())[KEPT - 1 : KEPT]
                if worst and len(refused[number]) > worst[0]:
                    break
                score, candidate = self._judge(state, basis, number, refused[number], expected)
                if number not in best or score < best[number][0]:
                    best[number] = (score, number, candidate)
        ranked = sorted(best.values(), key=lambda item: item[:2])
        return tuple(candidate for _, _, candidate in ranked[:KEPT])

    def initial(self, expected: Expected) -> tuple[Candidate, ...]:
        """The initial states as candidates for a line 0."""
        found = [self._differences((), state, expected) for state in self.model.initial]
        found.sort(key=len)
        return tuple(Candidate("initial", {}, differences=d) for d in found[:KEPT])

    def _judge(
        self, state: Scalars, basis: Scalars, number: int, refused: list[str], expected: Expected
    ) -> tuple[int, Candidate]:
        """A step's score and what speaks against it."""
        instance = self.model.instances[number]
        reasons, different = list(dict.fromkeys(refused)), {}
        score = len(reasons)
        try:
            step = self.interpreter.step(state, number)
        except BoundError:
            reasons.append("the step would leave the types of the state")
            score += 1 + len(expected.seen.between)
        else:
            if step.state is None:
                reasons.append(f"bound {step.cut}")
                score += 1 + len(expected.seen.between)
            else:
                different = self._differences(basis, step.state, expected)
        passed = tuple(dict.fromkeys(g.name for g in instance.guards if g.name not in refused))
        candidate = Candidate(
            instance.action.name, dict(instance.parameters), tuple(reasons), passed, different
        )
        return score + len(different), candidate

    def _differences(self, basis: Scalars, state: Scalars, expected: Expected) -> dict[str, tuple[Any, Any]]:
        """Path to (the model's value, the recorded one)."""
        return differences(self.model.decode(state), self.model.decode(expected.recorded(basis, state)))
