"""How a figure that was measured several times is written."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float], form: str) -> str:
    """The median of some runs, and the least and the most of them; ``form`` is a format with its unit behind it."""
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    number = form.split("}")[0] + "}"
    return f"{middle} ({number.format(min(values))} to {number.format(max(values))}, {len(values)} runs)"


__all__ = ["spread"]
