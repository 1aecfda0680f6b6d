"""Procedures of an operator: steps that are taken in a given order, from a given state.

A protocol lists its procedures in ``procedures``, and a scenario names one of them by the key ``procedure``. An action
that the procedure names occurs only as listed; all other actions are free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from highwater.errors import unknown
from highwater.model.language.errors import LanguageError, place_of
from highwater.model.language.initial import family_of
from highwater.model.language.liveness import Liveness, weak
from highwater.model.language.protocol import Action, Protocol
from highwater.model.language.state import State
from highwater.model.language.tracing import require
from highwater.model.language.types import Int, Struct, all_of, any_of


@dataclass(frozen=True)
class ProcedureStep:
    """A step of a procedure: an action with values for some of its parameters.

    The step waits until ``when`` holds in the state; None: it does not wait.
    """

    action: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    when: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Procedure:
    """The steps of an operator, in order, and the state from which the operator begins.

    * ``start``: values that replace parts of the first initial state: by field, or by position in an array.
    * ``result``: a liveness property of the kind eventually-always. It also requires that all steps are taken. The
      fairness assumptions are weak fairness of each action.
    * ``without``: actions that are never taken.
    """

    start: Mapping[str, Any]
    steps: tuple[ProcedureStep, ...]
    result: Liveness
    without: tuple[str, ...] = ()


def taking(protocol: type[Protocol], procedure: Procedure) -> tuple[type[Protocol], Liveness]:
    """The protocol restricted to a procedure, and the procedure's liveness property.

    The state has one more field, ``steps_taken``. Raises LanguageError if the procedure names an unknown action or
    parameter.
    """
    actions = {action.name: action for action in protocol.actions()}
    for name in (*procedure.without, *(step.action for step in procedure.steps)):
        if name not in actions:
            raise LanguageError(unknown("action", name, actions), place_of(protocol))
    for step in procedure.steps:
        for name in step.parameters:
            if name not in actions[step.action].domains:
                raise LanguageError(f"{step.action} has no parameter {name!r}", place_of(protocol))

    def define(self: Protocol) -> Struct:
        state = protocol.define(self)
        taken = Int(0, len(procedure.steps)), "how many steps of the procedure are taken"
        return Struct(state.name, **state.declared_fields, steps_taken=taken)

    def initial(self: Protocol) -> list[dict[str, Any]]:
        first, *_ = protocol.initial(self)
        begun = _replaced(self.state.decode(family_of(self.state, first).scalars), procedure.start)
        return [{**begun, "steps_taken": 0}]

    own: dict[str, object] = {"__module__": protocol.__module__, "__doc__": protocol.__doc__, "symmetric": ()}
    own |= {"define": define, "initial": initial}
    for name in dict.fromkeys((*procedure.without, *(step.action for step in procedure.steps))):
        own[name] = replace(actions[name], function=_in_order(actions[name], procedure))

    def result(m: Protocol, s: State) -> Any:
        return (s.steps_taken == len(procedure.steps)) & procedure.result.function(m, s)

    result.__doc__ = procedure.result.function.__doc__
    restricted = type(protocol.__name__, (protocol,), own)
    return restricted, replace(procedure.result, function=result, fair=weak(*actions))


def _in_order(action: Action, procedure: Procedure) -> Callable[..., None]:
    """The function of an action that occurs only where the procedure lists it."""

    def act(m: Protocol, s: State, **parameters: Any) -> None:
        here = []
        for number, step in enumerate(procedure.steps):
            if step.action == action.name:
                given = [parameters[name] == value for name, value in step.parameters.items()]
                waits = [] if step.when is None else [step.when(s)]
                here.append(all_of([s.steps_taken == number, *given, *waits]))
        require("the procedure comes to it", any_of(here))
        action.function(m, s, **parameters)
        s.next.steps_taken = s.steps_taken + 1

    act.__doc__ = action.function.__doc__
    return act


def _replaced(first: Any, given: Any) -> Any:
    """A plain value with some parts replaced: of a struct by field, of an array by position."""
    if not isinstance(given, Mapping):
        return given
    if isinstance(first, Sequence):
        return [_replaced(item, given.get(i, item)) for i, item in enumerate(first)]
    return {**first, **{name: _replaced(first.get(name), value) for name, value in given.items()}}
