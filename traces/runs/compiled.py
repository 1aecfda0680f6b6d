"""A model with what is compiled of it: made once, used by every trace that asks for the same model."""

from __future__ import annotations

from functools import lru_cache

from highwater.model.language.interpreter import Evaluate, Interpreter, compile_nodes
from highwater.model.language.model import Model


class Compiled:
    """The interpreter of a model, and the guards of chosen instances as functions of a state."""

    def __init__(self, model: Model) -> None:
        self.model, self.interpreter = model, Interpreter(model)
        self._enabled = lru_cache(maxsize=512)(self._compile_enabled)
        self._guards = lru_cache(maxsize=64)(self._compile_guards)

    def enabled(self, numbers: tuple[int, ...]) -> Evaluate:
        """For each of these instances whether all its guards hold."""
        return self._enabled(numbers)

    def guards(self, numbers: tuple[int, ...]) -> Evaluate:
        """For each of these instances each of its guards, in a row."""
        return self._guards(numbers)

    def _compile_enabled(self, numbers: tuple[int, ...]) -> Evaluate:
        return compile_nodes([self.model.instances[number].enabled for number in numbers])

    def _compile_guards(self, numbers: tuple[int, ...]) -> Evaluate:
        return compile_nodes([g.node for number in numbers for g in self.model.instances[number].guards])
