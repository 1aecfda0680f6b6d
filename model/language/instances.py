"""Action instances: an action with its parameters fixed, run once on symbolic values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from highwater.model.language import graph
from highwater.model.language.errors import LanguageError, place_of
from highwater.model.language.graph import Node
from highwater.model.language.protocol import Action, Protocol
from highwater.model.language.state import State
from highwater.model.language.tracing import (
    Check,
    Guard,
    NeverTaken,
    Write,
    bound_checks,
    guards_asked,
    next_script,
    tracing,
)
from highwater.model.language.types import Leaf

Choice = Mapping[str, tuple[Any, Any]]
"""An action's parameters, each with its symbolic value and a plain one."""


def said(value: object) -> object:
    """A plain value as reports show it: ``none``, ``true`` and ``false`` replace Python's names."""
    return str(value).lower() if value is None or isinstance(value, bool) else value


@dataclass(frozen=True)
class Instance:
    """An action with its parameters fixed: guards, next scalars, and conditions that leave a type.

    A step is enabled if all guards hold. If an enabled step meets a check with a bound, it is pruned there and counted.
    Else, if it meets a check without a bound, the protocol has an error. Else it leads to the state in which
    ``writes`` (leaf number to value) replace the old scalars.
    """

    action: Action
    parameters: Mapping[str, Any]
    guards: tuple[Guard, ...]
    writes: Mapping[int, Write]
    checks: tuple[Check, ...]

    @cached_property
    def enabled(self) -> Node:
        """The conjunction of the guards."""
        return graph.all_(g.node for g in self.guards)

    @cached_property
    def leads_on(self) -> Node:
        """Whether a step leads to a state: it is enabled, and meets no check."""
        return graph.and_(self.enabled, graph.not_(graph.any_(c.node for c in self.checks)))

    def __str__(self) -> str:
        return f"{self.action.name}({', '.join(f'{k}={v}' for k, v in self.said.items())})"

    @property
    def said(self) -> dict[str, object]:
        """The parameter values as reports show them."""
        return {name: said(value) for name, value in self.parameters.items()}

    @property
    def sentence(self) -> str:
        """The action's sentence with its parameters, and the values that the action chose itself."""
        own = [f"{name} {value}" for name, value in self.said.items() if name not in self.action.domains]
        said = self.action.says.format(**self.said)
        return f"{said} ({', '.join(own)})" if own and said else said


def trace_instance(
    protocol: Protocol,
    leaves: list[Leaf],
    inputs: list[Node],
    action: Action,
    choice: Choice,
) -> Instance | None:
    """Run an action on symbolic inputs, one a leaf, with its parameters fixed; None if it is never enabled.

    ``choice`` gives each parameter as a symbolic value and as a plain one. LanguageError if the action makes choices
    of its own (``one_of``), so that it has several instances.
    """
    found = list(trace_instances(protocol, leaves, inputs, action, choice))
    if len(found) > 1 or any(len(i.parameters) > len(choice) for i in found):
        raise LanguageError(f"action {action.name} makes choices of its own", place_of(action.function))
    return found[0] if found else None


def trace_instances(
    protocol: Protocol,
    leaves: list[Leaf],
    inputs: list[Node],
    action: Action,
    choice: Choice,
) -> Iterator[Instance]:
    """As ``trace_instance``, but an instance for each choice that the action makes itself (``one_of``)."""
    script: tuple[int, ...] | None = ()
    while script is not None:
        with tracing(protocol.on, ends_early=True, script=script) as trace:
            state = State(protocol.state, inputs)
            arguments = {name: value for name, (value, _) in choice.items()}
            try:
                returned: object = action.function(protocol, state, **arguments)  # type: ignore[func-returns-value]
                taken = True
            except NeverTaken:
                returned, taken = None, False
        script = next_script(trace.chosen)
        if returned is not None:
            raise LanguageError(
                f"action {action.name} returned a value; it writes s.next and returns nothing",
                place_of(action.function),
            )
        if taken:
            chosen = {name: plain for name, plain, *_ in trace.chosen}
            if both := sorted(set(chosen) & set(choice)):
                raise LanguageError(
                    f"action {action.name} has a parameter {both[0]!r} already: call the choice otherwise",
                    place_of(action.function),
                )
            yield Instance(
                action,
                {name: plain for name, (_, plain) in choice.items()} | chosen,
                guards_asked(trace),
                {leaf: w for leaf, w in sorted(trace.writes.items()) if w.node is not inputs[leaf]},
                tuple(bound_checks(trace, leaves)),
            )


def state_inputs(leaves: Sequence[Leaf], start: int = 0) -> list[Node]:
    """The scalars of a state as symbolic values, numbered from ``start`` on; 0: of the one before a step."""
    return [_input(i, leaf) for i, leaf in enumerate(leaves, start)]


def _input(number: int, leaf: Leaf) -> Node:
    """A scalar of a state; known while tracing where its type has one value only."""
    if leaf.low == leaf.high:
        return graph.const(leaf.low, leaf.sort)
    return graph.leaf(number, leaf.sort, leaf.low, leaf.high)
