"""Budgets: what may happen only so often in a run, such as faults.

A scenario grants each of them a number, by a parameter of its name. The state counts what is left, in a field
``budgets``, and a step that spends one is refused once nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace

from highwater.model.language.protocol import Parameter
from highwater.model.language.state import State
from highwater.model.language.tracing import require
from highwater.model.language.types import Int, Struct


class Budgets:
    """The budgets of a protocol: names to what each is for; ``most`` is the highest number that can be granted."""

    def __init__(self, meanings: Mapping[str, str], *, most: int) -> None:
        self.meanings = dict(meanings)
        self.most = most

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self.meanings)

    def parameter(self, name: str, *, default: int = 0, low: int = 0) -> Parameter:
        """The parameter by which a scenario grants one of them: none unless it says so."""
        return Parameter(default, low, self.most, f"budget: {self.meanings[name]}")

    @property
    def parameters(self) -> dict[str, Parameter]:
        """A parameter for each."""
        return {name: self.parameter(name) for name in self}

    def type(self, p: SimpleNamespace) -> Struct:
        """The type of the field ``budgets``, for the parameters of a protocol."""
        counts = {name: Int(0, count) for name, count in self.granted(p).items()}
        return Struct("Budgets", **counts).about(**{n: f"left: {said}" for n, said in self.meanings.items()})

    def granted(self, p: SimpleNamespace) -> dict[str, int]:
        """The field ``budgets`` of an initial state: nothing is spent."""
        return {name: getattr(p, name) for name in self}


def spend(s: State, budget: str) -> None:
    """The step that is being stated spends one of this budget; a guard refuses it where nothing is left."""
    left = getattr(s.budgets, budget)
    require(f"the scenario grants {budget}", left > 0)
    setattr(s.next.budgets, budget, left - 1)
