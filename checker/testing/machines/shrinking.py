"""A failing sequence made short: items are left out, as long as what is left fails in the same way.

Hypothesis shrinks the choices that a run was drawn from. Where what can be drawn depends on every step before, one
choice less means another run from there on, and little is ever left out. So runs are shrunk here by their steps;
Hypothesis finds them, keeps them and takes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def shrunk(items: Sequence[Item], attempt: Callable[[Sequence[Item]], Sequence[Item] | None]) -> list[Item]:
    """A short subsequence that fails.

    ``attempt`` takes a sequence and gives the part of it that was carried out up to the failure, else None. Pieces
    are left out, large ones first (Zeller and Hildebrandt, 2002), until no single item can be.
    """
    current = list(items)
    size = max(1, len(current) // 2)
    while True:
        smaller, end = False, len(current)
        while end > 0:  # from the end: what comes late depends on what comes early
            end = min(end, len(current))
            start = max(0, end - size)
            found = attempt(current[:start] + current[end:])
            if found is not None and len(found) < len(current):
                current, smaller = list(found), True
            end = start
        if size > 1:
            size = max(1, size // 2)
        elif not smaller:
            return current
