"""A run in the Informal Trace Format: JSON that viewers of the TLA+ world read (Apalache's ADR-015).

Integers are ``#bigint``, which readers of every version take; arrays are maps, sets are sets, an Option is a list of
none or one: there are readers that take neither a variant nor values of several types. Which action led to a state is
``mbt::actionTaken``, as Quint calls it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from highwater.model.language.messages import MessageKind
from highwater.model.language.model import Model, Scalars
from highwater.model.language.types import Array, BoolType, Option, Seq, Set, Struct, Type
from highwater.traces.runs.writing import taken

SUFFIX = ".itf.json"
"""How the names of such files end, by the format's convention."""
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
    """A run as a trace object. Raises ValueError where the path is no run of the model.

    The last state of a run with a loop is that of ``loop_start`` (counted from 0) again: it is left out, as the format
    goes from its last state to the first one of the loop.
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
    """Write a trace object. Raises OSError where the file cannot be written."""
    target.write_text(json.dumps(trace, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def expression(type: Type, value: Any) -> Any:
    """A plain value of a type as an expression of the format."""
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
