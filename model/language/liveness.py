"""Liveness properties, which every fair run must satisfy, and the fairness assumptions that define a fair run.

Each property declares its own fairness assumptions. One assumption covers a group of steps:

* weak: if from some state on a step of the group is always enabled, the run takes steps of the group infinitely often;
* strong: if a step of the group is enabled infinitely often, the run takes steps of the group infinitely often.

A step that changes nothing counts as neither taken nor enabled, as in TLA+. A run that stutters forever in a state is
fair if the assumptions require no step there. A run need not take an action that no assumption names, such as a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from highwater.model.language import graph
from highwater.model.language.declarations import check_parameters, takes
from highwater.model.language.errors import (
    LanguageError,
    fail,
    first_paragraph,
    has_parentheses,
    place_of,
)
from highwater.model.language.graph import Node

Condition = Callable[..., Any]
"""A function of protocol, state and parameters (by name) to a condition; its name is used in reports."""


@dataclass(frozen=True)
class Fairness:
    r"""One fairness assumption: weak or ``strong`` fairness of the steps of ``actions``.

    * ``by`` names parameters. Each combination of their values is a group of steps of its own, as in TLA's
      ``\A p: WF(A(p))``. None: all parameters that the actions share, except those in ``only``. Empty: all steps are
      one group.
    * ``only`` fixes parameters. Only steps with these values count.
    * ``when`` is a function of (protocol, state) and, by name, of the parameters in ``by``. Only steps from states
      that satisfy ``when`` count, as in TLA's ``WF(P /\ A)``.
    """

    actions: tuple[str, ...]
    strong: bool = False
    by: tuple[str, ...] | None = None
    only: Mapping[str, Any] = field(default_factory=dict)
    when: Condition | None = None
    apart: bool = False
    """True if ``actions`` is one tag outside ``either``: each action with the tag has an assumption of its own."""

    def __str__(self) -> str:
        which = f" of each {', '.join(self.by)}" if self.by else " of any" if self.by == () else ""
        fixed = "".join(f", {k}={v}" for k, v in self.only.items())
        return (
            f"{'strong' if self.strong else 'weak'} {' or '.join(self.actions)}{which}{fixed}{self.condition}"
        )

    @property
    def condition(self) -> str:
        """The name of the condition ``when`` as the end of a sentence (" where …"); "" if there is no condition."""
        return f" where {self.when.__name__.replace('_', ' ')}" if self.when else ""


class Tag(str):
    """A tag in place of an action's name: it means all actions with this tag."""

    __slots__ = ()


def tagged(tag: str) -> Tag:
    """Name all actions with this tag (``@action(…, tags=…)``) in a fairness assumption.

    Outside ``either`` each action has an assumption of its own; inside, the actions are one group.
    """
    return Tag(tag)


def either(*actions: str) -> tuple[str, ...]:
    """Name several actions as one group in a fairness assumption: a step of any of the actions counts."""
    return actions


class FairnessMark:
    """A function that makes fairness assumptions, one for each of ``actions``. Join the results of calls by ``+``.

    ``Fairness`` explains the other arguments.
    """

    def __init__(self, *, strong: bool) -> None:
        self.strong = strong

    def __call__(
        self,
        *actions: str | tuple[str, ...],
        by: Iterable[str] | None = None,
        when: Condition | None = None,
        **only: Any,
    ) -> tuple[Fairness, ...]:
        """The assumptions. The class docstring explains the arguments."""
        for a in actions:
            if not isinstance(a, (str, tuple)) or not all(isinstance(name, str) for name in a):
                raise fail(f"fairness names actions by texts or either(…), not {a!r}")
        if isinstance(by, str):
            raise fail(f"by= lists the names of parameters: write by=[{by!r}]")
        by = None if by is None else tuple(by)
        groups = [((a,) if isinstance(a, str) else a, isinstance(a, Tag)) for a in actions]
        return tuple(Fairness(names, self.strong, by, only, when, apart) for names, apart in groups)


weak, strong = FairnessMark(strong=False), FairnessMark(strong=True)


@dataclass(frozen=True)
class FairGroup:
    """One group of steps that a fairness assumption covers.

    ``instances`` are positions in ``Model.instances``. Only steps from states that satisfy ``when`` count; None: all.
    """

    label: str
    strong: bool
    instances: frozenset[int]
    when: Node | None = None


class Kind(StrEnum):
    """The temporal form of a liveness property."""

    EVENTUALLY = "eventually"
    """F goal: every run reaches the goal."""
    LEADS_TO = "leads-to"
    """G (premise -> F goal): if the premise holds, the goal holds then or later."""
    ALWAYS_EVENTUALLY = "always-eventually"
    """G F goal: every run reaches the goal infinitely often."""
    EVENTUALLY_ALWAYS = "eventually-always"
    """F G goal: from some state on the goal holds forever."""
    LEADS_TO_ALWAYS = "leads-to-always"
    """G (premise -> F G goal): after the premise, the goal holds forever from some state on."""

    @property
    def of_start(self) -> bool:
        """True if the premise is checked only in the initial state."""
        return self in (Kind.EVENTUALLY, Kind.EVENTUALLY_ALWAYS)

    @property
    def lasting(self) -> bool:
        """True if the goal must hold forever."""
        return self in (Kind.EVENTUALLY_ALWAYS, Kind.LEADS_TO_ALWAYS)


@dataclass(frozen=True)
class Liveness:
    """A property of runs: a function of (protocol, state, parameters) that returns the goal, or (premise, goal).

    ``domains`` maps each parameter to the protocol's attribute that lists its values. The property is checked for each
    combination of parameter values. If ``kind`` is ``lasting``, the goal can be a list: from some state on, one fixed
    member of the list holds forever.
    """

    name: str
    function: Callable[..., Any]
    kind: Kind
    source: str
    fair: tuple[Fairness, ...] = ()
    rule: str | None = None
    domains: Mapping[str, str] = field(default_factory=dict)

    @property
    def meaning(self) -> str:
        """The first paragraph of the property's docstring: what must happen and why it matters."""
        return first_paragraph(self.function)


Mark = Callable[[Callable[..., Any]], Liveness]


class LivenessMark:
    """A decorator that makes a liveness property of one kind from a function of (protocol, state, parameters).

    ``Liveness`` explains the function's result. ``fair`` lists the fairness assumptions. The property exists if
    ``rule`` is on. ``name`` replaces the function's name, for properties made in a loop. ``domains`` maps each
    parameter to the protocol's attribute that lists its values. Raises LanguageError if a domain has no parameter, or a
    parameter without a default has no domain.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def __call__(
        self,
        source: str,
        /,
        *,
        fair: Sequence[Fairness] = (),
        rule: str | None = None,
        name: str | None = None,
        **domains: str,
    ) -> Mark:
        """Return the decorator. The class docstring explains the arguments."""
        has_parentheses(self.kind.replace("-", "_"), source)

        def mark(function: Callable[..., Any]) -> Liveness:
            called = str(name or getattr(function, "__name__", ""))
            check_parameters(f"liveness property {called}", function, domains)
            takes(function, f"the {self.kind} property", "protocol", "state", domains=domains)
            _check_fairness(called, fair, place_of(function))
            return Liveness(called, function, self.kind, source, tuple(fair), rule, domains)

        return mark


eventually = LivenessMark(Kind.EVENTUALLY)
"""Every run reaches the goal. With a premise: every run whose initial state satisfies the premise."""
leads_to = LivenessMark(Kind.LEADS_TO)
"""After each state that satisfies the premise, the goal holds then or later."""
always_eventually = LivenessMark(Kind.ALWAYS_EVENTUALLY)
"""Every run reaches the goal infinitely often."""
eventually_always = LivenessMark(Kind.EVENTUALLY_ALWAYS)
"""From some state on the goal holds forever. With a premise: in every run whose initial state satisfies it."""
leads_to_always = LivenessMark(Kind.LEADS_TO_ALWAYS)
"""After the premise, the goal holds forever from some state on."""


def _check_fairness(name: str, fair: object, where: str | None) -> None:
    """Raises LanguageError if ``fair`` is not what ``weak`` and ``strong`` return."""
    if not isinstance(fair, (tuple, list)) or not all(isinstance(f, Fairness) for f in fair):
        raise LanguageError(
            f"fair= of liveness property {name} is weak(…), strong(…) or weak(…) + strong(…), not {fair!r}",
            where,
        )


@dataclass(frozen=True)
class Case:
    """A liveness property with its parameters fixed.

    Every fair run that satisfies ``premise`` in some state reaches the goal then or later. If the kind is
    ``of_start``, the premise is checked only in the initial state. If the kind is ``lasting``, one of ``goals`` holds
    forever from some state on; other kinds have one goal.
    """

    premise: Node
    goals: tuple[Node, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_constant(self) -> str:
        """A clause for reports if the premise is constant false or all goals are constant; otherwise ""."""
        if self.premise is graph.FALSE:
            return "has a premise that holds in no state"
        if all(goal.is_const for goal in self.goals):
            one = any(goal is graph.TRUE for goal in self.goals)
            return f"has a goal that is {'true' if one else 'false'} in every state"
        return ""


@dataclass(frozen=True)
class TracedLiveness:
    """A traced liveness property: a case for each combination of parameter values, and the fair groups of steps."""

    liveness: Liveness
    cases: tuple[Case, ...]
    groups: tuple[FairGroup, ...]

    @property
    def name(self) -> str:
        """The property's name."""
        return self.liveness.name

    @property
    def kind(self) -> Kind:
        """The temporal form of the property."""
        return self.liveness.kind
