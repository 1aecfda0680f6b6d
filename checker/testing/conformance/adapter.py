"""The interface to an implementation under test: an adapter of three methods, and a contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any


class AdapterError(Exception):
    """The implementation cannot be driven, which is no mismatch. One line."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an operation: done, or refused, perhaps with an error's name."""

    done: bool
    error: str | None = None


class Adapter(ABC):
    """Drives one implementation. An exception of a method ends the test; a refusal is an Outcome."""

    @abstractmethod
    def reset(self, state: Mapping[str, Any]) -> None:
        """Begin anew in this initial state of the model, given as plain values."""

    @abstractmethod
    def apply(self, operation: str, parameters: Mapping[str, Any]) -> Outcome:
        """Carry out an operation, named as the model's action, to its end."""

    @abstractmethod
    def observe(self) -> Mapping[str, Any]:
        """The visible part of the state, in the form of a trace's ``state``."""


@dataclass(frozen=True)
class Contract:
    """The relation between the model's actions and the implementation's operations.

    ``operations`` are the drawn actions (None: all). ``answers`` are the guards that the implementation itself
    checks, each with its error (None: any): an operation that only those refuse is tried, and must be refused.
    ``idle`` are guards without which an operation has no effect, whether done or refused. ``chosen`` names, for an
    action, the parameters that the implementation chooses. ``hidden_steps`` is the number of unseen steps of the
    model, of any kind, that may precede an operation.
    """

    operations: Collection[str] | None = None
    answers: Mapping[str, str | None] = field(default_factory=dict)
    idle: Collection[str] = ()
    chosen: Mapping[str, Collection[str]] = field(default_factory=dict)
    hidden_steps: int = 0
