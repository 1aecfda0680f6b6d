"""Random changes of JSON values: the paths of their fields, and other values for a field."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

FieldPath = tuple[str | int, ...]


def fields_of(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The path of every scalar and every list in a JSON value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from fields_of(item, (*path, name))
    elif isinstance(value, list):
        yield path
        for i, item in enumerate(value):
            yield from fields_of(item, (*path, i))
    else:
        yield path


def get(value: Any, path: FieldPath) -> Any:
    for part in path:
        value = value[part]
    return value


def put(value: Any, path: FieldPath | str, new: Any) -> None:
    """Set a field. As a text, a path has its parts between slashes."""
    if isinstance(path, str):
        path = tuple(int(part) if part.lstrip("-").isdigit() else part for part in path.split("/"))
    get(value, path[:-1])[path[-1]] = new


def another(rng: random.Random, value: Any) -> Any:
    """A random variation of a value, mostly of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice([-2, -1, 1, 2, 1000])
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1] if value else "x", "NONE", "RECOVERING", "true"])
    if value is None:
        return rng.choice([0, "t0", [0]])
    if not value:
        return [0]
    at = rng.randrange(len(value))
    return rng.choice(
        [value[:at] + value[at + 1 :], [*value[:at], *value[at:][:1], *value[at:]], value[::-1]]
    )
