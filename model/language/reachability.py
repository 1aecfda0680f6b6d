"""Reachability goals: conditions that some reachable state, or some step, must satisfy (Stateright's ``sometimes``).

A goal is a property with ``goal`` set. Its function is the condition that must be reached. The traced property is the
negation, so an engine finds a run to a goal as it finds a violation. ``ScenarioOutcome`` translates that back.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from highwater.model.language.errors import LanguageError, has_parentheses, place_of, refuse_identity
from highwater.model.language.protocol import Invariant
from highwater.model.language.step_properties import StepProperty

Goal = Invariant | StepProperty
"""A goal of states, or of steps."""


def reachable(
    source: str, /, *, rule: str | None = None, needs: str | None = None
) -> Callable[[Callable[..., Any]], Goal]:
    """Mark a function of (protocol, state), or of (protocol, before, after), as a reachability goal.

    It exists where ``rule`` is on and the parameter ``needs`` is not 0 (None: always).
    """
    has_parentheses("reachable", source)

    def mark(function: Callable[..., Any]) -> Goal:
        refuse_identity(function)
        kinds: dict[int, type[Goal]] = {2: Invariant, 3: StepProperty}
        kind = kinds.get(len(inspect.signature(function).parameters))
        if kind is None:
            name = function.__name__
            raise LanguageError(
                f"the goal {name} is a function of (protocol, state), or of (protocol, before, after)",
                place_of(function),
            )
        return kind(function.__name__, function, source, rule, needs, goal=True)

    return mark
