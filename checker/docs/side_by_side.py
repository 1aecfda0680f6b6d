"""Parts of a page that know nothing of each other, computed by a process for each core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater.checker.engines.solver.workers import answers, cores

Part = TypeVar("Part")
Told = TypeVar("Told")


def in_order(parts: Sequence[Part], tell: Callable[[Part], Told]) -> list[Told]:
    """What is told of each part, in their order; the parts that take longest should come first.

    Parts can be looked up in a dictionary, and what is told is plain data. Each begins with what this process has
    found so far, and what it finds by itself is lost.
    """
    found = dict(answers(parts, tell, cores()))
    return [found[part] for part in parts]


__all__ = ["in_order"]
