"""A scenario that begins in a state of its own and takes an operator's steps in order: how advice is executed.

``[start]`` gives values of the first initial state anew, by their places. ``[procedure]`` lists ``steps``: an action
that is named there is taken only as listed, one after the other. A step "start_broker(b=0) once led by 1" waits until
broker 1 leads the partition. Actions of ``without`` are not taken; all others are free. Beside the protocol's own
properties such a scenario can name ``led_again``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from highwater.checker.asking.catalogue import Definition
from highwater.checker.base.problems import InputError, unknown
from highwater.model.language import (
    Int,
    Only,
    State,
    Struct,
    all_of,
    any_of,
    eventually_always,
    require,
    weak,
)
from highwater.model.language.protocol import Action, Protocol

_STEP = re.compile(r"(\w+)\(((?:\w+=(?:\w+|\[[\d, ]*\])(?:, )?)*)\)(?: once (?:led|led by (?P<leader>\d+)))?")
_PAIR = re.compile(r"(\w+)=(\w+|\[[\d, ]*\])")
_WORDS = {"true": True, "false": False, "none": None}
FIELD = "procedure"
"""The field of the state that counts the steps taken."""


@dataclass(frozen=True)
class ProcedureStep:
    """An action with parameters; ``waits`` until the partition is led, by ``leader`` where one is named."""

    action: str
    parameters: Mapping[str, object]
    waits: bool = False
    leader: int | None = None


def following(
    definition: Definition, start: Mapping[str, object], steps: Sequence[str], without: Sequence[str] = ()
) -> Definition:
    """The protocol from this state on, with these steps of the operator. InputError where one names no action."""
    protocol = definition.protocol
    actions = {action.name: action for action in protocol.actions()}
    taken = [_step(text, actions) for text in steps]
    for name in without:
        if name not in actions:
            raise InputError(unknown("action", name, actions))

    def define(self: Protocol) -> Struct:
        state = protocol.define(self)
        absent = {name: Only(type_, when=False) for name, type_ in state.absent.items()}
        made = Struct(state.name, **state.fields, **absent, **{FIELD: Int(0, len(taken))})
        return made.about(**state.meanings, **{FIELD: "how many steps of the procedure are taken"})

    def initial(self: Protocol) -> list[dict[str, Any]]:
        first, *_ = protocol.initial(self)
        begun = _over(first, start, "")
        assert isinstance(begun, dict)
        return [{**begun, FIELD: 0}]

    own: dict[str, object] = {
        "__module__": protocol.__module__,
        "__doc__": protocol.__doc__,
        "symmetric": (),
        "procedure_steps": len(taken),
    }
    own |= {"define": define, "initial": initial}
    for name in dict.fromkeys([*without, *(step.action for step in taken)]):
        action = actions[name]
        places = [(i, step) for i, step in enumerate(taken) if step.action == name]
        own[name] = replace(action, function=_in_order(action, places))
    made = type(protocol.__name__, (protocol,), own)
    led = eventually_always("966.13", fair=weak(*actions))(led_again)
    return replace(definition, protocol=made, liveness=(*definition.liveness, led))


def led_again(m: Any, s: State) -> Any:
    """The procedure comes to its end, and the partition has a leader from then on."""
    return (s.procedure == m.procedure_steps) & s.partition.leader.is_some


def _in_order(action: Action, places: Sequence[tuple[int, ProcedureStep]]) -> Callable[..., None]:
    def act(m: Protocol, s: State, **parameters: Any) -> None:
        leader = s.partition.leader
        here = []
        for i, step in places:
            as_listed = [parameters[name] == value for name, value in step.parameters.items()]
            waited = leader.is_some if step.leader is None else leader == step.leader
            here.append(all_of([s.procedure == i, *as_listed, *[waited] * step.waits]))
        require("the procedure comes to it", any_of(here))
        action.function(m, s, **parameters)
        s.next.procedure = s.procedure + 1

    act.__doc__ = action.function.__doc__
    return act


def _step(text: object, actions: Mapping[str, Action]) -> ProcedureStep:
    match = _STEP.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"{text!r} is no step; write action(parameter=value, …)")
    name, given, leader = match.groups()
    if name not in actions:
        raise InputError(unknown("action", name, actions))
    pairs = _PAIR.findall(given)
    wrong = {n for n, _ in pairs} - set(actions[name].domains)
    if wrong:
        raise InputError(f"{name} has no parameter {sorted(wrong)[0]!r}")
    values = {n: _WORDS.get(v, v if v.isalpha() else json.loads(v)) for n, v in pairs}
    return ProcedureStep(name, values, " once " in match[0], None if leader is None else int(leader))


def _over(first: object, given: object, path: str) -> object:
    """A plain value with other values in some places; in a list, a table is from positions to elements."""
    if not isinstance(given, Mapping):
        return None if given == "none" else given
    if isinstance(first, Mapping):
        wrong = set(given) - set(first)
        if wrong:
            raise InputError(
                unknown("field", f"{path}{sorted(wrong)[0]}", [f"{path}{name}" for name in first])
            )
        return {
            name: _over(value, given[name], f"{path}{name}.") if name in given else value
            for name, value in first.items()
        }
    if isinstance(first, Sequence) and all(key.isdigit() and int(key) < len(first) for key in given):
        return [
            _over(item, given[str(i)], f"{path}{i}.") if str(i) in given else item
            for i, item in enumerate(first)
        ]
    raise InputError(f"{path.rstrip('.')} has no fields to be given")
