"""Fairness: which steps a run may not leave out for ever.

It is declared with the property that needs it. What it means of a run without end, each time of the steps that one
assumption takes together:

* weak: not from some state on enabled for ever and never taken;
* strong: not enabled again and again, without end, and from some state on never taken.

A step that changes nothing is none, as in TLA+: it is neither taken nor enabled. Staying in a state for ever is a
run, and a fair one where nothing that is fair is enabled. An action that no assumption names may be left out for
ever; faults should be such actions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from highwater.model.language import graph
from highwater.model.language.errors import LanguageError, meant, place_of
from highwater.model.language.graph import Node, undefined
from highwater.model.language.state import State
from highwater.model.language.tracing import returned_condition, tracing
from highwater.model.language.values import as_bool

if TYPE_CHECKING:
    from highwater.model.language.model import Instance, Model
    from highwater.model.language.protocol import Protocol

Condition = Callable[..., Any]
"""A function of protocol, state and parameters (by name) to whether something holds; its name says what."""


@dataclass(frozen=True)
class Fairness:
    r"""One assumption: steps of ``actions`` are weakly fair, or strongly.

    Of several actions each step is as good as the other. ``by`` names the parameters each choice of which is fair for
    itself, as TLA's ``\A p: WF(A(p))``; None: all that the actions have in common; empty: any choice will do.
    ``only`` fixes parameters: steps with another value have no part in it. ``when`` is a function of (protocol, state)
    and, by name, of the parameters of ``by``: only steps from states where it holds have a part in it, as in TLA's
    ``WF(P /\ A)``. It is for an action that is a duty in some states and a fault in others.
    """

    actions: tuple[str, ...]
    strong: bool = False
    by: tuple[str, ...] | None = None
    only: Mapping[str, Any] = field(default_factory=dict)
    when: Condition | None = None
    apart: bool = False
    """Whether each of the actions that a tag stands for is fair for itself."""

    def __str__(self) -> str:
        which = f" of each {', '.join(self.by)}" if self.by else " of any" if self.by == () else ""
        fixed = "".join(f", {k}={v}" for k, v in self.only.items())
        return (
            f"{'strong' if self.strong else 'weak'} {' or '.join(self.actions)}{which}{fixed}{self.condition}"
        )

    @property
    def condition(self) -> str:
        """In words, where its steps count; empty: in every state."""
        return f" where {self.when.__name__.replace('_', ' ')}" if self.when else ""


class Tag(str):
    """All actions that have this tag, in the place of an action's name."""

    __slots__ = ()


def tagged(tag: str) -> Tag:
    """All actions that are marked with this tag, ``@action(…, tags=…)``: each fair for itself; in ``either`` as one."""
    return Tag(tag)


def either(*actions: str) -> tuple[str, ...]:
    """Actions that are fair as one: a step of any of them will do."""
    return actions


def weak(
    *actions: str | tuple[str, ...],
    by: Iterable[str] | None = None,
    when: Condition | None = None,
    **only: Any,
) -> tuple[Fairness, ...]:
    """Weak fairness of each of these actions; assumptions are joined by ``+``. See Fairness."""
    by = None if by is None else tuple(by)
    names = [(a,) if isinstance(a, str) else a for a in actions]
    alone = [isinstance(a, Tag) for a in actions]
    found = zip(names, alone, strict=True)
    return tuple(Fairness(n, by=by, only=only, when=when, apart=apart) for n, apart in found)


def strong(
    *actions: str | tuple[str, ...],
    by: Iterable[str] | None = None,
    when: Condition | None = None,
    **only: Any,
) -> tuple[Fairness, ...]:
    """Strong fairness of each of these actions; assumptions are joined by ``+``. See Fairness."""
    return tuple(replace(fairness, strong=True) for fairness in weak(*actions, by=by, when=when, **only))


# --- on a model ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FairGroup:
    """Steps that one assumption takes together: the numbers of their instances in ``Model.instances``.

    Only those from states where ``when`` holds; None: from all.
    """

    label: str
    strong: bool
    instances: frozenset[int]
    when: Node | None = None


def fair_groups(
    model: Model, name: str, where: str | None, fair: Iterable[Fairness]
) -> tuple[FairGroup, ...]:
    """What the assumptions of the property of this name, stated there, come to on a model."""
    assumed = [each for fairness in fair for each in _with_tags(model, name, where, fairness)]
    return tuple(group for fairness in assumed for group in _groups(model, name, where, fairness))


def check_actions(
    protocol: Protocol | type[Protocol], name: str, where: str | None, fair: Iterable[Fairness]
) -> None:
    """LanguageError where an assumption of the property of this name, stated there, has no such action or tag."""
    actions = protocol.actions()
    known, tags = {a.name for a in actions}, {tag for a in actions for tag in a.tags}
    for named in (named for fairness in fair for named in fairness.actions):
        if isinstance(named, Tag):
            if named not in tags:
                has = f"it has {', '.join(sorted(tags))}{meant(named, tags)}" if tags else "none has a tag"
                raise LanguageError(
                    f"{name}: no action of {protocol.name} has the tag {str(named)!r}; {has}", where
                )
        elif named not in known:
            raise LanguageError(
                f"{name} calls {named!r} fair, which is no action of {protocol.name}; "
                f"it has {', '.join(sorted(known)) or 'none'}{meant(named, known)}",
                where,
            )


def look(model: Model, name: str, function: Callable[..., Any], **parameters: Any) -> Any:
    """What a function of (protocol, state) says of the inputs; LanguageError where it does more than look."""
    with tracing(model.protocol.on, enabled=model.enabled) as trace:
        returned = function(model.protocol, State(model.protocol.state, model.inputs), **parameters)
    if trace.writes or trace.guards:
        raise LanguageError(
            f"liveness property {name} writes or requires something; it only looks", place_of(function)
        )
    return returned


def _with_tags(model: Model, name: str, where: str | None, fairness: Fairness) -> Iterator[Fairness]:
    """The assumption with names in the place of tags; several, where a tag stands alone. LanguageError as below."""
    check_actions(model.protocol, name, where, [fairness])
    names: list[str] = []
    for named in fairness.actions:
        if not isinstance(named, Tag):
            names.append(named)
            continue
        found = [a.name for a in model.protocol.actions() if named in a.tags]
        names += found
    if fairness.apart:
        yield from (replace(fairness, actions=(own,)) for own in names)
    else:
        yield replace(fairness, actions=tuple(dict.fromkeys(names)))


def _groups(model: Model, name: str, where: str | None, fairness: Fairness) -> Iterator[FairGroup]:
    """The instances of an assumption, those together that are fair as one. None where no such step exists."""
    known = {a.name: a for a in model.protocol.actions()}
    shared = set.intersection(*(set(model.parameters_of(known[a])) for a in fairness.actions))
    by = tuple(d for d in known[fairness.actions[0]].domains if d in shared and d not in fairness.only)
    by = by if fairness.by is None else fairness.by
    for parameter in (*by, *fairness.only):
        if parameter not in shared:
            raise LanguageError(
                f"{name}: {' and '.join(fairness.actions)} have no parameter {parameter!r} (in common)", where
            )
    found: dict[str, set[int]] = {}
    choices: dict[str, dict[str, Any]] = {}
    for number, instance in enumerate(model.instances):
        if instance.action.name in fairness.actions and _fits(instance, fairness.only):
            chosen = {p: instance.parameters[p] for p in by if p in instance.parameters}
            choice = ", ".join(f"{p}={value}" for p, value in chosen.items())
            found.setdefault(choice, set()).add(number)
            choices[choice] = chosen
    strength = "strong" if fairness.strong else "weak"
    for choice, numbers in found.items():
        label = f"{strength} {' or '.join(fairness.actions)}({choice}){fairness.condition}"
        when = None
        if fairness.when is not None:
            said = look(model, name, fairness.when, **choices[choice])
            asked, stated = f"the condition of {label}", place_of(fairness.when)
            when = returned_condition(said, asked, stated).node
            if undefined(as_bool(said).node) is not graph.FALSE:
                raise LanguageError(f"{asked} divides by what can be zero: put the case in a where()", stated)
        yield FairGroup(label, fairness.strong, frozenset(numbers), when)


def _fits(instance: Instance, only: Mapping[str, Any]) -> bool:
    return all(p in instance.parameters and instance.parameters[p] == value for p, value in only.items())
