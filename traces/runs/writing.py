"""Runs of a model, written as traces or in the Informal Trace Format (ITF) of TLA+ tools.

Apalache's ADR-015 defines ITF. Highwater writes integers as ``#bigint``, arrays as maps, sets as sets, and Options as
lists of at most one element. ``mbt::actionTaken`` names the action, as in Quint.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter, interpreter_of
from highwater.model.language.messages import MessageKind
from highwater.model.language.model import Instance, Model
from highwater.model.language.types import Array, BoolType, Option, Seq, Set, Struct, Type
from highwater.traces.runs.format import FORMAT

# --- itf -------------------------------------------------------------------------------------------------

SUFFIX = ".itf.json"
"""The conventional suffix of ITF files."""
ACTION = "mbt::actionTaken"
DEFINITION = "https://apalache-mc.org/docs/adr/015adr-trace.html"


def itf(
    model: Model,
    initial: Scalars,
    path: Iterable[int],
    *,
    loop_start: int | None = None,
    source: str = "",
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A run as an ITF trace. Raises ValueError if the path is not a run of the model.

    ``loop_start`` is the index (from 0) of the state to which a looping run returns. The last state of a looping run
    repeats the state at ``loop_start`` and is left out.
    """
    type_ = model.protocol.state
    states: list[dict[str, Any]] = []
    for index, (instance, state) in enumerate(taken(model, initial, path)):
        meta: dict[str, Any] = {"index": index}
        if instance is not None:
            meta |= {
                "sentence": instance.sentence,
                "parameters": {k: str(v) for k, v in instance.parameters.items()},
            }
        plain = model.decode(state)
        fields = {name: expression(inner, plain[name]) for name, inner in type_.fields.items()}
        action = "initial" if instance is None else instance.action.name
        states.append({"#meta": meta, ACTION: action, **fields})
    if loop_start is not None and loop_start < len(states) - 1:
        states.pop()
    return {
        "#meta": {
            "format": "ITF",
            "format-description": DEFINITION,
            "source": source or model.protocol.name,
            "description": "written by Highwater",
            **(about or {}),
        },
        "vars": [ACTION, *type_.fields],
        "states": states,
        **({} if loop_start is None else {"loop": loop_start}),
    }


def write_itf(target: Path, trace: Mapping[str, Any]) -> None:
    """Write an ITF trace to a file. Raises OSError if the file cannot be written."""
    target.write_text(json.dumps(trace, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def expression(type: Type, value: Any) -> Any:
    """A Python value of a type as an ITF expression."""
    match type:
        case BoolType():
            return bool(value)
        case Option():
            return [] if value is None else [expression(type.content_type, value)]
        case Set():
            return {"#set": [_key(item) for item in value]}
        case MessageKind():
            sent = [expression(type.message, item) for item in value]
            return sent if type.copies else {"#set": sent}
        case Array():
            pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
            return {"#map": [[_key(key), expression(type.element, item)] for key, item in pairs]}
        case Seq():
            return [expression(type.element, item) for item in value]
        case Struct():
            return {name: expression(inner, value[name]) for name, inner in type.fields.items()}
    return _key(value)


def _key(value: int | str) -> Any:
    return value if isinstance(value, str) else {"#bigint": str(int(value))}


# --- writing ---------------------------------------------------------------------------------------------


class RunNames(TypedDict, total=False):
    """The names in the first line of a trace. Each is optional.

    - ``protocol``: the protocol's package under ``model``; by default the protocol's own name.
    - ``scenario`` and ``profile``, from which the model was made.
    - ``about``: fields for people, which replay ignores.
    """

    protocol: str | None
    scenario: str | None
    profile: str | None
    about: Mapping[str, Any] | None


def meta_of(model: Model, **names: Unpack[RunNames]) -> dict[str, Any]:
    """The first line of a trace of this model. It has only the rules that differ from the profile."""
    built = model.protocol
    profile = names.get("profile")
    usual = frozenset(built.rules) if profile is None else built.profiles[profile].rules
    meta: dict[str, Any] = {"format": FORMAT, "protocol": names.get("protocol") or built.name}
    meta |= {name: names[name] for name in ("scenario", "profile") if names.get(name) is not None}
    meta["rules"] = {r: built.ever_on(r) for r in built.rules if built.ever_on(r) != (r in usual)}
    meta["parameters"] = built.parameter_values
    if about := names.get("about"):
        meta["about"] = dict(about)
    return {"meta": meta}


def taken(model: Model, initial: Scalars, path: Iterable[int]) -> Iterator[tuple[Instance | None, Scalars]]:
    """Yield the states of a run, each with the action instance that leads to it; None for the first state.

    ``path`` has instance numbers of the model. Raises ValueError if an instance is not enabled.
    """
    interpreter, state = interpreter_of(model), initial
    yield None, state
    for step, number in enumerate(path, 1):
        instance = model.instances[number]
        after = None if interpreter.refusals(state, instance) else interpreter.step(state, number).state
        if after is None:
            raise ValueError(f"step {step} takes {instance}, which is not enabled")
        state = after
        yield instance, state


def step_lines(
    model: Model, initial: Scalars, path: Iterable[int], *, whole: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run's trace after its first line; ``path`` has instance numbers of the model.

    Line 0 has the state at the start. Each later line has the changes by its step, or with ``whole`` the whole state
    after the step. Raises ValueError if the path is not a run of the model.
    """
    interpreter = Interpreter(model)
    state = initial
    for step, (instance, after) in enumerate(taken(model, initial, path)):
        if instance is None:
            yield {"step": 0, "state": model.decode(state)}
            continue
        line: dict[str, Any] = {"step": step, "action": instance.action.name}
        if instance.parameters:
            line["parameters"] = dict(instance.parameters)
        if whole:
            line["state"] = model.decode(after)
        else:
            line["changes"] = {name: new for name, (_, new) in interpreter.changes(state, after).items()}
        yield line
        state = after


def write_run(
    target: Path,
    model: Model,
    initial: Scalars,
    path: Iterable[int],
    *,
    whole: bool = False,
    **names: Unpack[RunNames],
) -> int:
    """Write a run as a trace; returns the number of steps.

    The arguments are those of ``meta_of`` and ``step_lines``. Raises OSError if the file cannot be written,
    ValueError if the path is not a run of the model.
    """
    first = meta_of(model, **names)
    steps = -1
    with target.open("w", encoding="utf-8") as file:
        file.write(json.dumps(first, ensure_ascii=False) + "\n")
        for line in step_lines(model, initial, path, whole=whole):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            steps += 1
    return steps


@dataclass(frozen=True)
class Walk:
    """A run: its initial state, its instance numbers, and the properties that its last state or step violates."""

    initial: Scalars
    path: tuple[int, ...]
    violated: tuple[str, ...]


def random_walk(model: Model, depth: int, seed: int) -> Walk:
    """The first walk that the reference engine takes with this seed.

    The walk ends when it has ``depth`` states, when no step within the bounds is enabled, or at a violation.
    """
    interpreter = Interpreter(model)
    dice = random.Random(f"{seed}/0")
    numbers = {id(instance): i for i, instance in enumerate(model.instances)}
    state = initial = dice.choice(model.initial)
    path: list[int] = []
    violated = interpreter.violated(state)
    while len(path) + 1 < depth and not violated:
        ways = [(numbers[id(s.instance)], s.state) for s in interpreter.steps(state) if s.state is not None]
        if not ways:
            break
        before = state
        number, state = dice.choice(ways)
        path.append(number)
        violated = interpreter.violated(state) + interpreter.broken(before, state)
    return Walk(initial, tuple(path), tuple(violated))
