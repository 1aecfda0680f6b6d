"""What a user writes to have an implementation tested: an adapter of three methods, and a contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any


class AdapterError(Exception):
    """The implementation cannot be driven: this says nothing about what it does. One line."""


@dataclass(frozen=True)
class Outcome:
    """What came of an operation: carried out, or refused, then perhaps with an error's name."""

    done: bool
    error: str | None = None


class Adapter(ABC):
    """Drives one implementation. What a method raises ends the test; a refusal is an Outcome."""

    @abstractmethod
    def reset(self, state: Mapping[str, Any]) -> None:
        """Begin anew in this initial state of the model, given as plain values."""

    @abstractmethod
    def apply(self, operation: str, parameters: Mapping[str, Any]) -> Outcome:
        """Carry out an operation, named as the model's action, and wait until it is over."""

    @abstractmethod
    def observe(self) -> Mapping[str, Any]:
        """The state as far as it can be seen, in the form of a trace's ``state``: what is left out was not seen."""


@dataclass(frozen=True)
class Contract:
    """How the model's actions are the implementation's operations.

    ``operations`` are the actions that are drawn (None: all). ``answers`` are the guards that the implementation
    itself looks at, each with the error it answers (None: any): an operation that the model refuses by those alone is
    tried, and has to be refused. ``idle`` are guards without which an operation has no effect, be it called done or
    refused. ``chosen`` names, for an action, the parameters that the implementation chooses. ``hidden_steps`` is
    how many steps of the model, of any kind, may happen unseen before an operation.
    """

    operations: Collection[str] | None = None
    answers: Mapping[str, str | None] = field(default_factory=dict)
    idle: Collection[str] = ()
    chosen: Mapping[str, Collection[str]] = field(default_factory=dict)
    hidden_steps: int = 0
