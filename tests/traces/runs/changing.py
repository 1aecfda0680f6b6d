from __future__ import annotations

import random
from typing import Any

from tests.traces.recorded import fields_of, get, put


def another(rng: random.Random, value: Any) -> Any:
    """A random variation of a value, mostly of the same type."""
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


__all__ = ["another", "fields_of", "get", "put"]
