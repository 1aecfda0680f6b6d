"""Single fields of a line, and other values for them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

FieldPath = tuple[str | int, ...]


def fields_of(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Every scalar, and every list as a whole."""
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


def put(value: Any, path: FieldPath, new: Any) -> None:
    get(value, path[:-1])[path[-1]] = new


def another(rng: random.Random, value: Any) -> Any:
    """Another value of the same kind, or nearly."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice([-2, -1, 1, 2, 1000])
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1], "CRASHED", "RUNNING", "crash_broker", "true"])
    if value is None:
        return rng.choice([0, 1, "initial", [0], {}])
    if value and rng.random() < 0.5:
        at = rng.randrange(len(value))
        return value[:at] + value[at + 1 :] if rng.random() < 0.5 else [*value, value[at]]
    return [0] if not value else value[::-1] if value != value[::-1] else [*value, 1]
