"""What a function's docstring says of it first: in the language that is the meaning of an action or a property."""

from __future__ import annotations

from collections.abc import Callable


def first_paragraph(function: Callable[..., object]) -> str:
    """The first paragraph of a docstring, on one line; empty where there is none."""
    return " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())
