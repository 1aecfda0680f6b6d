"""Errors in a protocol's source, each with its file and line."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from highwater.errors import HighwaterError

_HERE = str(Path(__file__).parent)


class LanguageError(HighwaterError):
    """An error in a protocol, scenario or property.

    The message describes the error and the correct form. ``place`` is ``file:line`` in the protocol's source, or None
    if the line is unknown.
    """

    def __init__(self, message: str, place: str | None = None) -> None:
        self.message, self.place = message, shortened(place)
        super().__init__(f"{self.place}: {message}" if place else message)


class BoundError(LanguageError):
    """A step or a function call has no valid result: for example, it divides by 0, or a value is outside its type.

    A step that is pruned at a bound is no error.
    """


class NoSuchAttribute(LanguageError, AttributeError):
    """An unknown attribute of a value or an enumeration. It is also an AttributeError, so ``hasattr`` works."""


class NotHashable(LanguageError, TypeError):
    """A dict key or set member is a value that is not known while tracing. The error is also a TypeError."""


def place() -> str | None:
    """The protocol's line that called this package, as ``file:line`` with a shortened path; None if unknown."""
    return shortened(full_place())


def full_place() -> str | None:
    """The protocol's line that called this package, as ``file:line`` with the full path; None if unknown."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_HERE, "<")) and "/contextlib.py" not in name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


def place_of(function: Callable[..., Any]) -> str | None:
    """The line that defines a function or a class, as ``file:line`` with the full path; None if unknown."""
    if isinstance(function, type):
        try:
            return f"{inspect.getfile(function)}:{inspect.getsourcelines(function)[1]}"
        except (OSError, TypeError):
            return None
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def fail(message: str) -> LanguageError:
    """Make a LanguageError with the protocol's current line, for the caller to raise."""
    return LanguageError(message, place())


def has_parentheses(mark: str, source: object) -> None:
    """Raises LanguageError if the decorator ``mark`` lacks parentheses: ``source`` is then a function, not a text."""
    if not isinstance(source, str):
        raise fail(f'@{mark} needs parentheses, and in them first a text, the source: write @{mark}("…")')


def meant(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """A suggestion for a misspelled name, to append to a message; "" if no known name is similar."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def shortened(place: str | None) -> str | None:
    """The place ``file:line`` with a path relative to the working directory; outside it, the last three path parts."""
    return None if place is None else _seen_from(place, os.getcwd())


@functools.lru_cache(maxsize=4096)  # instances of one action have the same lines
def _seen_from(place: str, directory: str) -> str:
    filename, _, line = place.rpartition(":")
    path = Path(filename)
    if not path.is_absolute():
        return place
    try:
        return f"{path.relative_to(directory)}:{line}"
    except ValueError:
        return f"{'/'.join(path.parts[-3:]) if len(path.parts) > 3 else filename}:{line}"


def first_paragraph(function: Callable[..., object]) -> str:
    """The first paragraph of a docstring, on one line; empty if there is none."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())
