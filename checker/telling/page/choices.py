"""What can be done in each state of a run: every step with its fate, and the guard that refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.checker.base import words
from highwater.checker.telling.page.shown import Shown, said
from highwater.model.language.interpreter import BoundError, interpreter_of
from highwater.model.language.model import Instance, Model, Scalars

POSSIBLE = 0
"""What can be taken. Below it: cut, −1 at the first of the bounds. Above it: refused, 1 by the first guard."""


class Choices:
    """The fate of each instance of one model in a state: POSSIBLE, or a number as POSSIBLE says."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.interpreter = interpreter_of(model)
        names = dict.fromkeys(g.name for i in model.instances for g in i.guards)
        self.guards = {name: number for number, name in enumerate(names, 1)}
        self.bounds: dict[str, int] = {}

    def fates(self, state: Scalars) -> list[int]:
        """The fate of each instance, in the model's order."""
        holds = iter(self.interpreter.guards(state))
        found = []
        for number, instance in enumerate(self.model.instances):
            answers = [next(holds) for _ in instance.guards]
            refused = next((g.name for g, yes in zip(instance.guards, answers, strict=True) if not yes), None)
            found.append(self._taken(state, number) if refused is None else self.guards[refused])
        return found

    def _taken(self, state: Scalars, number: int) -> int:
        try:
            cut = self.interpreter.step(state, number).cut
        except BoundError:
            cut = "the type of a field"
        return POSSIBLE if cut is None else -self.bounds.setdefault(cut, len(self.bounds) + 1)


def choices(model: Model, steps: Sequence[Shown]) -> dict[str, Any]:
    """The fates in each state as data: whole for the first, then pairs (instance, fate) that are others than before.

    ``{"instances": [[action, parameters, sentence]], "guards", "bounds", "states", "known"}``.
    """
    found = Choices(model)
    states: list[list[int]] = []
    before: list[int] = []
    for step in steps:
        if step.model is not model:  # in the outcome under other rules other steps can be taken
            states.append([])
            continue
        fates = found.fates(step.state)
        changed = [(i, fate) for i, fate in enumerate(fates) if not before or before[i] != fate]
        states.append([number for pair in changed for number in pair])
        before = fates
    return {
        "instances": [[i.action.name, parameters(i), said(i)] for i in model.instances],
        "guards": list(found.guards),
        "bounds": list(found.bounds),
        "states": states,
        "known": [step.model is model for step in steps],
    }


def parameters(instance: Instance) -> str:
    """The choice of an action's parameters, in words; empty where it has none."""
    return words.settings(instance.parameters)
