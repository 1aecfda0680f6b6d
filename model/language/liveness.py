"""Liveness: what must happen in the end, whichever fair run is taken (``highwater.model.language.fairness``)."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from highwater.model.language import graph
from highwater.model.language.domains import parameter_values
from highwater.model.language.errors import (
    LanguageError,
    first_paragraph,
    has_parentheses,
    place_of,
    refuse_identity,
)
from highwater.model.language.fairness import (
    FairGroup,
    Fairness,
    either,
    fair_groups,
    look,
    strong,
    tagged,
    weak,
)
from highwater.model.language.graph import Node, undefined
from highwater.model.language.tracing import returned_condition
from highwater.model.language.values import as_bool

if TYPE_CHECKING:
    from highwater.model.language.model import Model


class Kind(StrEnum):
    """What a liveness property says of its goal."""

    EVENTUALLY = "eventually"
    """F goal: every run comes to the goal."""
    LEADS_TO = "leads-to"
    """G (premise -> F goal): where the premise holds, the goal holds then or later."""
    ALWAYS_EVENTUALLY = "always-eventually"
    """G F goal: wherever a run is, it comes to the goal, again and again."""
    EVENTUALLY_ALWAYS = "eventually-always"
    """F G goal: from some state on the goal holds for ever."""
    LEADS_TO_ALWAYS = "leads-to-always"
    """G (premise -> F G goal): after the premise, from some state on the goal holds for ever."""

    @property
    def of_start(self) -> bool:
        """Whether the premise, if there is one, is asked of the initial state only."""
        return self in (Kind.EVENTUALLY, Kind.EVENTUALLY_ALWAYS)

    @property
    def lasting(self) -> bool:
        """Whether the goal has to hold for ever."""
        return self in (Kind.EVENTUALLY_ALWAYS, Kind.LEADS_TO_ALWAYS)


@dataclass(frozen=True)
class Liveness:
    """A property of runs: a function of (protocol, state, parameters) to the goal, or to (premise, goal).

    ``domains`` names, for each parameter, the attribute of the protocol that enumerates it: the property is asked
    for each choice of them. A goal that has to last can be a list: for ever one of them holds, always the same.
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
        """The docstring's first paragraph: what must happen and why it matters."""
        return first_paragraph(self.function)


Mark = Callable[[Callable[..., Any]], Liveness]


def _marker(
    kind: Kind,
    source: str,
    fair: Sequence[Fairness],
    rule: str | None,
    name: str | None,
    domains: Mapping[str, str],
) -> Mark:
    has_parentheses(kind.replace("-", "_"), source)

    def mark(function: Callable[..., Any]) -> Liveness:
        refuse_identity(function)
        called = name or function.__name__
        _check_parameters(called, function, domains)
        return Liveness(called, function, kind, source, tuple(fair), rule, domains)

    return mark


def eventually(
    source: str,
    /,
    *,
    fair: Sequence[Fairness] = (),
    rule: str | None = None,
    name: str | None = None,
    **domains: str,
) -> Mark:
    """Mark a function of (protocol, state, parameters) as a goal that every run comes to; or (premise, goal).

    The premise is asked of the initial state. Each parameter of the function has a domain here, as those of an
    action. The property exists where ``rule`` is on; ``name`` is for one that is made in a loop: without it, it is
    the function's. LanguageError where a parameter has no domain, or there is no such parameter.
    """
    return _marker(Kind.EVENTUALLY, source, fair, rule, name, domains)


def leads_to(
    source: str,
    /,
    *,
    fair: Sequence[Fairness] = (),
    rule: str | None = None,
    name: str | None = None,
    **domains: str,
) -> Mark:
    """Mark a function that returns (premise, goal): where the one holds, the other follows. See ``eventually``."""
    return _marker(Kind.LEADS_TO, source, fair, rule, name, domains)


def always_eventually(
    source: str,
    /,
    *,
    fair: Sequence[Fairness] = (),
    rule: str | None = None,
    name: str | None = None,
    **domains: str,
) -> Mark:
    """Mark a function as a goal that every run comes to again and again. See ``eventually``."""
    return _marker(Kind.ALWAYS_EVENTUALLY, source, fair, rule, name, domains)


def eventually_always(
    source: str,
    /,
    *,
    fair: Sequence[Fairness] = (),
    rule: str | None = None,
    name: str | None = None,
    **domains: str,
) -> Mark:
    """Mark a function as a goal that holds for ever from some state on; or (premise, goal), see ``eventually``.

    In the place of the goal a list: for ever one of these holds, always the same one.
    """
    return _marker(Kind.EVENTUALLY_ALWAYS, source, fair, rule, name, domains)


def leads_to_always(
    source: str,
    /,
    *,
    fair: Sequence[Fairness] = (),
    rule: str | None = None,
    name: str | None = None,
    **domains: str,
) -> Mark:
    """Mark a function that returns (premise, goal): after the one, the other holds for ever from some state on.

    Otherwise as ``eventually_always``.
    """
    return _marker(Kind.LEADS_TO_ALWAYS, source, fair, rule, name, domains)


def _check_parameters(name: str, function: Callable[..., Any], domains: Mapping[str, str]) -> None:
    """LanguageError where the parameters of a property and its domains are not the same."""
    where = place_of(function)
    own = list(inspect.signature(function).parameters.values())[2:]
    for parameter in own:
        if parameter.name not in domains and parameter.default is parameter.empty:
            raise LanguageError(
                f"parameter {parameter.name!r} of liveness property {name} has no domain: "
                f'write {parameter.name}="…" with the attribute that enumerates it',
                where,
            )
    for wanted in domains:
        if wanted not in {parameter.name for parameter in own}:
            raise LanguageError(
                f"liveness property {name} gives {wanted!r} a domain, and its function has no such parameter",
                where,
            )


@dataclass(frozen=True)
class Case:
    """A property for one choice of its parameters: what it is about in a state, and what it comes to.

    From a state where ``premise`` holds (an initial state where the kind is ``of_start``) every fair run comes to a
    state where one of ``goals`` holds; where the kind is ``lasting``, it comes to a state from which on one of them
    holds for ever. Only such a property has several.
    """

    premise: Node
    goals: tuple[Node, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_constant(self) -> str:
        """In words, how it is the same in every state; empty where it is not."""
        if self.premise is graph.FALSE:
            return "has a premise that holds in no state"
        if all(goal.is_const for goal in self.goals):
            one = any(goal is graph.TRUE for goal in self.goals)
            return f"has a goal that is {'true' if one else 'false'} in every state"
        return ""


@dataclass(frozen=True)
class TracedLiveness:
    """A liveness property traced: what it says for each choice of its parameters, and what is fair."""

    liveness: Liveness
    cases: tuple[Case, ...]
    groups: tuple[FairGroup, ...]

    @property
    def name(self) -> str:
        """The property's name."""
        return self.liveness.name

    @property
    def kind(self) -> Kind:
        """What it says of its goal."""
        return self.liveness.kind


def trace_liveness(model: Model, liveness: Liveness) -> TracedLiveness:
    """A liveness property on a model. LanguageError where it does more than look, or names what there is not."""
    model.protocol.check_sources([liveness])
    cases = tuple(_cases(model, liveness))
    if not cases:
        raise LanguageError(
            f"the parameters of {liveness.name} have no values: it says nothing", place_of(liveness.function)
        )
    groups = fair_groups(model, liveness.name, place_of(liveness.function), liveness.fair)
    return TracedLiveness(liveness, cases, groups)


def _cases(model: Model, liveness: Liveness) -> Iterator[Case]:
    each = [parameter_values(model.protocol, liveness, p) for p in liveness.domains]
    for choice in itertools.product(*each):
        symbolic = dict(zip(liveness.domains, (value for value, _ in choice), strict=True))
        plain = dict(zip(liveness.domains, (value for _, value in choice), strict=True))
        yield _case(liveness, look(model, liveness.name, liveness.function, **symbolic), plain)


def _case(liveness: Liveness, returned: Any, parameters: Mapping[str, Any]) -> Case:
    name, kind, where = liveness.name, liveness.kind, place_of(liveness.function)
    what = f"liveness property {name}"
    if isinstance(returned, tuple):
        if len(returned) != 2 or kind is Kind.ALWAYS_EVENTUALLY:
            only = "the goal" if kind is Kind.ALWAYS_EVENTUALLY else "(premise, goal)"
            raise LanguageError(f"the {kind} property {name} returns {only}", where)
        asked, returned = returned
        premise = returned_condition(asked, what, where).node
        premise = graph.or_(premise, undefined(as_bool(asked).node))
    elif kind in (Kind.LEADS_TO, Kind.LEADS_TO_ALWAYS):
        raise LanguageError(f"the {kind} property {name} returns (premise, goal)", where)
    else:
        premise = graph.TRUE
    goals = list(returned) if kind.lasting and isinstance(returned, (list, Iterator)) else [returned]
    if not goals:
        raise LanguageError(f"{what} returned no goal at all", where)
    return Case(premise, tuple(returned_condition(goal, what, where).node for goal in goals), parameters)


__all__ = [
    "Case", "FairGroup", "Fairness", "Kind", "Liveness", "TracedLiveness", "always_eventually", "either", "eventually",
    "eventually_always", "leads_to", "leads_to_always", "strong", "tagged", "trace_liveness", "weak",
]  # fmt: skip
