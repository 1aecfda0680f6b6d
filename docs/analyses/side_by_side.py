"""Parts of a page that know nothing of each other, computed by a process for each core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from docs.analyses.kept import ANSWERS, Mode
from highwater.checker.base.processes import answers, cores

Part = TypeVar("Part")
Told = TypeVar("Told")


def in_order(parts: Sequence[Part], tell: Callable[[Part], Told]) -> list[Told]:
    """What is told of each part, in their order; the parts that take longest should come first.

    Parts can be looked up in a dictionary, and what is told is plain data. Each begins with what this process has
    found so far; of what it finds by itself the answers are kept, and nothing else. Where nothing is to be searched
    for, a process costs more than it does: each part is told here then.
    """
    if ANSWERS.mode is Mode.ONLY_KEPT:
        return [tell(part) for part in parts]

    def with_answers(part: Part) -> tuple[Told, set[str], dict[str, tuple[str, Any]]]:
        return tell(part), ANSWERS.used, ANSWERS.new

    found = {}
    for part, (told, used, new) in answers(parts, with_answers, cores()):
        found[part] = told
        ANSWERS.used |= used
        ANSWERS.new |= new
    return [found[part] for part in parts]
