"""Properties of steps: what must hold between the state before a step and the one after it (TLA+: ``[][A]_vars``).

A step that changes nothing is none: it never violates a property of steps.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from highwater.model.language import graph
from highwater.model.language.errors import first_paragraph, has_parentheses, refuse_identity
from highwater.model.language.graph import Node, remade


@dataclass(frozen=True)
class StepProperty:
    """A property of every step: a function of (protocol, state before, state after) to a symbolic bool."""

    name: str
    function: Callable[[Any, Any, Any], Any]
    source: str
    rule: str | None = None
    needs: str | None = None
    goal: bool = False
    """Whether some step must satisfy it; see ``reachability``."""

    @property
    def meaning(self) -> str:
        """The docstring's first paragraph: what must hold and why it matters."""
        return first_paragraph(self.function)


def step_property(
    source: str, /, *, rule: str | None = None, needs: str | None = None
) -> Callable[[Callable[[Any, Any, Any], Any]], StepProperty]:
    """Mark a function of (protocol, before, after) as a property of steps.

    It exists where ``rule`` is on and the parameter ``needs`` is not 0 (None: always).
    """
    has_parentheses("step_property", source)

    def mark(function: Callable[[Any, Any, Any], Any]) -> StepProperty:
        refuse_identity(function)
        return StepProperty(function.__name__, function, source, rule, needs)

    return mark


LARGE = 150
"""A property of steps of more nodes is asked by a function of its own, and not in the code of each instance."""


@dataclass(frozen=True)
class TracedStepProperty:
    """A property of steps traced: ``node`` holds of good steps, ``premise`` of those that it has something to say of.

    Both are over the scalars of the state before the step and, numbered behind these, of the one after it
    (``Model.inputs``, ``Model.after``). Of a step that changes nothing ``node`` holds. ``asked`` are the numbers of the
    instances in ``Model.instances`` whose steps can violate it: the others write nothing that it reads. Premises are
    counted for all steps of these, and for no others. ``reads`` are the scalars of which a step has to change one to
    violate it, or to meet its premise; None where it is no property of changes alone.
    """

    stated: StepProperty
    node: Node
    premise: Node
    asked: frozenset[int]
    reads: frozenset[int] | None = None

    @property
    def name(self) -> str:
        """The property's name."""
        return self.stated.name

    @cached_property
    def is_large(self) -> bool:
        """Whether it is too large to be part of the code of each instance, and is asked as it is."""
        return self.reads is not None and len(graph.reachable([self.node, self.premise])) > LARGE


@dataclass(frozen=True)
class JudgedSteps:
    """What a property of steps (by its number) says of the steps of one instance, over the state before alone."""

    number: int
    node: Node
    premise: Node


class OfAStep:
    """Conditions on two states as conditions on the one before, for one step after another.

    Most of a condition is about what a step does not write: that is the same for all of them, and made once.
    """

    def __init__(self, inputs: Sequence[Node], roots: Iterable[Node]) -> None:
        self._first = len(inputs)
        self._at_rest: dict[Node, Node] = {}
        """What each expression is where nothing is written."""
        self._of_after: list[tuple[Node, int]] = []
        """Those of the state after, arguments before users, each with the scalars that it reads there, a bit each."""
        self._touched: dict[tuple[int, ...], list[Node]] = {}
        reads: dict[Node, int] = {}
        for node in graph.reachable(roots):
            if node.op == "input" and node.value >= self._first:
                reads[node] = 1 << (node.value - self._first)
                self._at_rest[node] = inputs[node.value - self._first]
            else:
                reads[node] = functools.reduce(operator.or_, (reads[operand] for operand in node.args), 0)
                self._at_rest[node] = remade(node, self._at_rest) if reads[node] else node
            if reads[node]:
                self._of_after.append((node, reads[node]))
        self._known = dict(self._at_rest)

    def substituted(self, roots: Sequence[Node], writes: Mapping[int, Node]) -> list[Node]:
        """The conditions for a step that writes these scalars, by their numbers."""
        written, known = tuple(writes), self._known
        if written not in self._touched:
            mask = sum(1 << leaf for leaf in written)
            self._touched[written] = [node for node, reads in self._of_after if reads & mask]
        touched = self._touched[written]
        for node in touched:
            is_input = node.op == "input"
            known[node] = writes[node.value - self._first] if is_input else remade(node, known)
        found = [known[root] for root in roots]
        for node in touched:
            known[node] = self._at_rest[node]
        return found
