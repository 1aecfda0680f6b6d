"""Plain values of a state as a person reads them: ``{0,2}`` for a set, ``[…]`` for a sequence, ``none``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from highwater.model.language.types import Array, Option, Seq, Set, Struct, Type


def at(type: Type, path: str) -> Type:
    """The type of what lies at a path such as ``replicas[1].hwm``."""
    for name in re.findall(r"\w+", path):
        if isinstance(type, Option):
            type = type.content_type
        if isinstance(type, Struct):
            type = type.fields[name]
        else:
            assert isinstance(type, (Array, Seq))
            type = type.element
    return type


def say(type: Type, value: Any) -> str:
    """A plain value of a type, on one line."""
    if isinstance(type, Option):
        return "none" if value is None else say(type.content_type, value)
    if isinstance(type, Set):
        return "{" + ",".join(map(str, value)) + "}"
    if isinstance(type, Array) and isinstance(value, Mapping):
        return "[" + ", ".join(f"{name} {say(type.element, item)}" for name, item in value.items()) + "]"
    if isinstance(type, (Array, Seq)):
        return "[" + ", ".join(say(type.element, item) for item in value) + "]"
    if isinstance(type, Struct):
        return "(" + fields(type, value) + ")"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def fields(type: Struct, value: Any) -> str:
    """The fields of a struct's value, on one line."""
    return ", ".join(f"{name} {say(inner, value[name])}" for name, inner in type.fields.items())


def settings(parameters: Mapping[str, int]) -> str:
    """Parameters and their values, on one line: ``brokers 3, crashes 1``."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def lines(type: Struct, state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A state as pairs (path, text): one for each field, or for each element of a field that is an array."""
    for name, inner in type.fields.items():
        value = state[name]
        if isinstance(inner, Array):
            for i, item in value.items() if isinstance(value, Mapping) else enumerate(value):
                yield f"{name}[{i}]", _bare(inner.element, item)
        else:
            yield name, _bare(inner, value)


def _bare(type: Type, value: Any) -> str:
    return fields(type, value) if isinstance(type, Struct) else say(type, value)
