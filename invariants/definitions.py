"""The properties that modules define, in the order of their definition."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeVar

from highwater.model.language.protocol import Goal

_Kind = TypeVar("_Kind")


def defined(kind: type[_Kind], *modules: ModuleType | str) -> tuple[_Kind, ...]:
    """The properties of class ``kind`` that these modules define, without reachability goals."""
    return tuple(p for p in _marked(modules) if isinstance(p, kind) and not getattr(p, "goal", False))


def goals(*modules: ModuleType | str) -> tuple[Goal, ...]:
    """The reachability goals that these modules define."""
    return tuple(p for p in _marked(modules) if isinstance(p, Goal) and p.goal)


def _marked(modules: tuple[ModuleType | str, ...]) -> Iterator[Any]:
    """All values that decorators made from functions of these modules."""
    for module in modules:
        known = vars(sys.modules[module] if isinstance(module, str) else module)
        for value in known.values():
            if getattr(getattr(value, "function", None), "__module__", None) == known["__name__"]:
                yield value
