"""Runs of a model that a test takes step by step in the interpreter."""

from __future__ import annotations

from typing import Any, Self

from highwater.model.language import Model
from highwater.model.language.interpreter import Interpreter


class Run:
    """A run from a model's only initial state."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.interpreter = Interpreter(model)
        (self.scalars,) = model.initial

    @property
    def state(self) -> dict[str, Any]:
        return self.model.decode(self.scalars)

    def can(self, action: str, **parameters: Any) -> bool:
        """True if the step is enabled. Omitted boolean parameters are False."""
        return self._number(action, parameters) in self.interpreter.enabled(self.scalars)

    def take(self, action: str, **parameters: Any) -> Self:
        assert self.can(action, **parameters), (action, parameters)
        after = self.interpreter.step(self.scalars, self._number(action, parameters) or 0).state
        assert after is not None
        self.scalars = after
        return self

    def _number(self, action: str, parameters: dict[str, Any]) -> int | None:
        for number, instance in enumerate(self.model.instances):
            unsaid = {name: value for name, value in instance.parameters.items() if value is False}
            if instance.action.name == action and dict(instance.parameters) == {**unsaid, **parameters}:
                return number
        return None
