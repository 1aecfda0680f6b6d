"""Step properties: conditions on the states before and after a step (TLA+: ``[][A]_vars``).

A step that changes nothing never violates a step property.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from highwater.model.language import graph
from highwater.model.language.declarations import takes
from highwater.model.language.errors import LanguageError, first_paragraph, has_parentheses, place_of
from highwater.model.language.graph import Node, remade
from highwater.model.language.scalars import Truth, all_of

P = TypeVar("P", bound="SafetyProperty")


@dataclass(frozen=True)
class SafetyProperty:
    """A property of states or of steps.

    It exists if ``rule`` is on, the parameter ``needs`` is not 0, and the parameters ``unless`` are 0. None for
    ``rule`` or ``needs`` sets no condition.
    """

    name: str
    function: Callable[..., Any]
    source: str
    rule: str | None = None
    needs: str | None = None
    goal: bool = False
    """True if it is a reachability goal: some state, or some step, must satisfy it."""
    unless: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, bool]:
        """The parameters on which the property depends: True if the parameter must not be 0, False if it must be."""
        needed = {} if self.needs is None else {self.needs: True}
        return {**needed, **dict.fromkeys(self.unless, False)}

    @property
    def meaning(self) -> str:
        """The first paragraph of the property's docstring: what must hold and why it matters."""
        return first_paragraph(self.function)


class StepProperty(SafetyProperty):
    """A property of every step, or a reachability goal.

    Its function of (protocol, state before, state after) returns a symbolic bool.
    """


def conjoined(function: Callable[..., object]) -> Callable[..., object]:
    """The function, or for a generator function one that returns the conjunction of the conditions it yields."""
    if not inspect.isgeneratorfunction(function):
        return function

    def finished(*given: object) -> Iterator[Truth]:
        returned = yield from function(*given)
        if returned is not None:
            what = f"{function.__name__} yields conditions, so it cannot return one, too: yield {returned!r}"
            raise LanguageError(what, place_of(function))

    @functools.wraps(function)
    def all_yielded(*given: object) -> Truth:
        return all_of(list(finished(*given)))

    return all_yielded


class SafetyMark(Generic[P]):
    """A decorator that makes a property from a function of the protocol and of ``states``.

    The function returns a condition, or yields several that must all hold. ``SafetyProperty`` explains ``rule``,
    ``needs`` and ``unless``. ``name`` replaces the function's name, for properties made in a loop.
    """

    def __init__(self, kind: type[P], what: str, *states: str) -> None:
        self.kind, self.what, self.states = kind, what, states

    def __call__(
        self,
        source: str,
        /,
        *,
        rule: str | None = None,
        needs: str | None = None,
        unless: tuple[str, ...] = (),
        name: str | None = None,
    ) -> Callable[[Callable[..., Any]], P]:
        """Return the decorator. The class docstring explains the arguments."""
        has_parentheses(self.what.split(" ", 1)[1].replace(" ", "_"), source)

        def mark(function: Callable[..., Any]) -> P:
            takes(function, self.what, "protocol", *self.states)
            called = name or function.__name__
            return self.kind(called, conjoined(function), source, rule, needs, unless=unless)

        return mark


step_property = SafetyMark(StepProperty, "a step property", "before", "after")
"""Mark a function of (protocol, before, after) as a step property."""


LARGE = 150
"""The maximum number of nodes of a step property that engines copy into the code of each instance."""


@dataclass(frozen=True)
class TracedStepProperty:
    """A traced step property, over the scalars before the step (``Model.inputs``) and after it (``Model.after``).

    * ``node``: the condition, negated for a reachability goal. It holds for a step that changes nothing.
    * ``premise``: the property holds vacuously for steps that do not satisfy the premise.
    * ``asked``: the numbers of the instances whose steps can violate the property. Premises are counted only for
      steps of these instances.
    * ``reads``: numbers of scalars. A step that changes none of them neither violates the property nor satisfies its
      premise. None: no such scalars are known.
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
        """True if ``reads`` is known and the property has more than ``LARGE`` nodes.

        Engines do not copy a large property into the code of each action instance, but check it on the states before
        and after a step.
        """
        return self.reads is not None and len(graph.reachable([self.node, self.premise])) > LARGE


@dataclass(frozen=True)
class JudgedSteps:
    """A step property for the steps of one instance: its condition and premise on the state before the step.

    ``number`` is the position in ``Model.step_properties``.
    """

    number: int
    node: Node
    premise: Node


class OfAStep:
    """Rewrites conditions on the states before and after a step as conditions on the state before the step.

    Most of a condition reads scalars that a step does not write. This part is built once for all steps.
    """

    def __init__(self, inputs: Sequence[Node], roots: Iterable[Node]) -> None:
        self._first = len(inputs)
        self._at_rest: dict[Node, Node] = {}
        """Each expression, rewritten for a step that writes nothing."""
        self._of_after: list[tuple[Node, int]] = []
        """The expressions that read the state after the step, each with a bit set of the scalars that it reads."""
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
        """The conditions, rewritten for a step that writes ``writes`` (scalar number to value)."""
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
