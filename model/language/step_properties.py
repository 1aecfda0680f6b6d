"""Properties of steps: what must hold between the state before a step and the one after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from highwater.model.language.docstrings import first_paragraph
from highwater.model.language.errors import LanguageError, place_of
from highwater.model.language.graph import Node
from highwater.model.language.protocol import Protocol
from highwater.model.language.rulebook import check_source
from highwater.model.language.tracing import State, returned_condition, tracing


@dataclass(frozen=True)
class StepProperty:
    """A property of every step: a function of (protocol, state before, state after) to a symbolic bool."""

    name: str
    function: Callable[[Any, Any, Any], Any]
    source: str

    @property
    def meaning(self) -> str:
        """The docstring's first paragraph: what must hold and why it matters."""
        return first_paragraph(self.function)

    def trace(self, protocol: Protocol, before: Sequence[Node], after: Sequence[Node]) -> Node:
        """The property as a node, over the scalars of both states."""
        what = f"property {self.name} of {type(protocol).__name__}"
        check_source(protocol.rulebook, self.source, what, place_of(self.function))
        with tracing(protocol.on) as trace:
            states = State(protocol.state, list(before)), State(protocol.state, list(after))
            result = self.function(protocol, *states)
        where = place_of(self.function)
        if trace.writes or trace.guards:
            raise LanguageError(
                f"step property {self.name} writes or requires something; it only looks", where
            )
        return returned_condition(result, f"step property {self.name}", where).node


def step_property(source: str, /) -> Callable[[Callable[[Any, Any, Any], Any]], StepProperty]:
    """Mark a function of (protocol, state before, state after) as a property of steps."""

    def mark(function: Callable[[Any, Any, Any], Any]) -> StepProperty:
        return StepProperty(function.__name__, function, source)

    return mark


__all__ = ["StepProperty", "step_property"]
