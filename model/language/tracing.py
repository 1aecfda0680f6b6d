"""Tracing: run a protocol's function once on symbolic values and keep guards, writes and bounds.

While a function is traced, ``require`` and ``implies`` add to the trace that is under way, and ``s.next`` (``state``)
takes what is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from highwater.model.language import graph, mutation, partial, values
from highwater.model.language.conjuncts import contradict
from highwater.model.language.errors import LanguageError, fail, place
from highwater.model.language.graph import Node


@dataclass(frozen=True)
class Guard:
    """A named condition, and the protocol's line that states it."""

    name: str
    node: Node
    place: str | None = None


@dataclass(frozen=True)
class Write:
    """A scalar's next value, and the protocol's line that wrote it; ``by`` are all statements that did, in order."""

    node: Node
    place: str | None
    by: tuple[WriteTarget, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class WriteTarget:
    """What a statement writes: the positions on the way into the state, the ``when`` around it, and its line."""

    positions: tuple[Node, ...]
    when: Node
    place: str | None = None
    adds: bool = False
    """Whether it adds to what is there (a message that is sent), so that several can be of one step."""

    def meets(self, other: WriteTarget) -> Node:
        """Whether this and another statement write the same scalar, given that there is one that both can write."""
        same = [graph.eq(a, b) for a, b in zip(self.positions, other.positions, strict=False)]
        both = [self.when, other.when, *same]
        return graph.FALSE if contradict(both) else graph.all_(both)


@dataclass(frozen=True)
class Check:
    """A condition under which a step leaves a type: cut at ``bound``, or an error where that is None."""

    leaf: int
    node: Node
    bound: str | None
    message: str
    place: str | None


@dataclass
class Trace:
    """What running one function left behind."""

    guards: list[Guard] = field(default_factory=list)
    writes: dict[int, Write] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    premises: list[Node] = field(default_factory=list)
    on: Callable[[str], bool] | None = None
    """Whether a rule of the protocol is switched on; None where what is traced belongs to no protocol."""
    ends_early: bool = False
    """Whether a guard that cannot hold ends the run of the function: what follows it has no meaning."""
    when: Node = graph.TRUE
    """The condition of the ``when`` blocks around what is being stated."""
    branches: list[Node | None] = field(default_factory=lambda: [None])
    """For each block that is open, where its last chain of ``when … otherwise`` did something; None: there is none."""
    enabled: Callable[[str, dict[str, Any]], values.Truth] | None = None
    """Whether a step of an action can be taken; None where that has no answer yet."""
    script: tuple[int, ...] = ()
    """Which alternative each ``one_of`` takes; the first of those that are not told."""
    chosen: list[tuple[str, Any, int, int]] = field(default_factory=list)
    """What each ``one_of`` took: its name, the plain value, its number, of how many."""


class NeverTaken(BaseException):
    """A guard is false whatever the state: the rest of the action is not run (nothing but a trace catches this)."""


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextmanager
def tracing(
    on: Callable[[str], bool] | None = None,
    *,
    ends_early: bool = False,
    script: tuple[int, ...] = (),
    enabled: Callable[[str, dict[str, Any]], values.Truth] | None = None,
) -> Iterator[Trace]:
    """Collect what the functions called inside leave behind; NeverTaken ends them early where that is asked for.

    ``on`` is the protocol's, for ``under``; ``script`` says which alternatives are taken (``one_of``), ``enabled``
    answers what the function of this name asks.
    """
    trace = Trace(on=on, ends_early=ends_early, script=script, enabled=enabled)
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)


def current(word: str) -> Trace:
    """The trace that is under way; LanguageError, which names this word, where there is none."""
    trace = _current.get()
    if trace is None:
        raise fail(f"{word} has a meaning only while a protocol is traced")
    return trace


def guards_so_far() -> list[Guard]:
    """The guards that the function being traced has stated until now."""
    return list(current("guards_so_far()").guards)


def require(name: str, condition: values.Truth | bool, *, rule: str | None = None) -> None:
    """A guard of the action that is being stated: it can be taken only where the condition holds.

    The name is what a refusal is explained by. Inside ``with when(…)`` it is asked only there. With ``rule`` the guard
    exists only where that rule is switched on; LanguageError where the protocol has no such rule. Where the condition
    is known to be false, the action ends here for these parameters: it can never be taken, and what follows is not run.
    """
    trace, node = current("require()"), values.as_bool(condition).node
    if rule is not None and not _is_on(rule, "require(…, rule=…)"):
        return
    if mutation.active is not None:
        node = mutation.condition("guard", name, node, sys._getframe(1))
    node = graph.or_(graph.not_(trace.when), node)
    trace.guards.append(Guard(name, node, place()))
    if trace.ends_early and node is graph.FALSE:
        raise NeverTaken(name)


def enabled(action: str, /, **parameters: Any) -> values.Truth:
    """Whether a step of this action can be taken: for some choice of the parameters that are not given.

    It is for properties. LanguageError in an action, and for an action or a parameter that there is not.
    """
    asked = current("enabled()").enabled
    if asked is None:
        raise fail(
            "enabled() asks about actions, in a property: an action's guards say it by a function of their own"
        )
    return asked(action, parameters)


def under(rule: str, condition: values.Truth | bool) -> values.Truth:
    """The condition where this rule of the protocol is switched on; where it is off, nothing is asked: true.

    LanguageError where the protocol has no such rule.
    """
    condition = values.as_bool(condition)
    return condition if _is_on(rule, "under()") else values.as_bool(True)


def _is_on(rule: str, word: str) -> bool:
    on = current(word).on
    if on is None:
        raise fail(
            f"{word} asks the protocol for its rule {rule!r}; what is traced here belongs to no protocol"
        )
    try:
        return on(rule)
    except LanguageError as wrong:
        raise fail(str(wrong)) from None


def implies(premise: values.Truth | bool, conclusion: values.Truth | bool) -> values.Truth:
    """Whether the conclusion holds or the premise does not.

    Inside an invariant the premise is remembered: a report says in how many states one of its premises held,
    so that an invariant that never had anything to say is noticed.
    """
    premise = values.as_bool(premise)
    trace = _current.get()
    if trace is not None:
        trace.premises.append(partial.where_defined(premise.node))
    return ~premise | conclusion


def returned_condition(result: object, what: str, place: str | None) -> values.Truth:
    """What a property returned, as a condition that is false where it has no meaning (``partial``).

    LanguageError at its place where it is no condition.
    """
    if not isinstance(result, (values.Truth, bool)):
        raise LanguageError(f"{what} returned {result!r}; it returns a condition", place)
    return values.Truth(None, (partial.where_defined(values.as_bool(result).node),))
