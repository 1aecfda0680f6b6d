"""How a test is marked as slow: with the reason, which a reader and `make test-all` can hold against what it takes.

A reason says what the test adds to its fast counterparts. `tests/conftest.py` refuses a mark without one.

`make test-all` asks a sample where more of the same would take hours: with ``HIGHWATER_TESTS=whole`` in the environment
nothing is left out, as before a release.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest


def is_whole(said: str) -> bool:
    """Whether everything is asked for, by what the environment says. Raises UsageError for another word than that."""
    if said not in ("", "whole"):
        raise pytest.UsageError(f"HIGHWATER_TESTS is {said!r}: it can be 'whole', or nothing")
    return said == "whole"


WHOLE = is_whole(os.environ.get("HIGHWATER_TESTS", ""))


def often(usual: int, whole: int) -> int:
    """How often a slow test repeats something, or how much of it it asks."""
    return whole if WHOLE else usual


def largest(reason: str) -> tuple[pytest.MarkDecorator, ...]:
    """Marks of what is left out of `make test-all` too, unless everything is asked for."""
    return slow(reason), pytest.mark.skipif(not WHOLE, reason="only with HIGHWATER_TESTS=whole")


def slow(reason: str) -> pytest.MarkDecorator:
    """Left out by `make test`."""
    return pytest.mark.slow(reason=reason)


def all_but(quick: Collection[str], names: Iterable[str], reason: str) -> list[Any]:
    """Parameters of a test, all slow but the quick ones. Raises ValueError where one of these is not among them.

    Without any names, as where recordings are not there, there are no parameters.
    """
    listed = list(names)
    missing = set(quick) - set(listed)
    if listed and missing:
        raise ValueError(f"no such parameter: {', '.join(sorted(missing))}")
    return [pytest.param(name, id=name, marks=() if name in quick else (slow(reason),)) for name in listed]


def without_reason(items: Iterable[pytest.Item]) -> list[str]:
    """The tests with a mark that gives no reason."""
    return [
        item.nodeid
        for item in items
        for mark in item.iter_markers("slow")
        if not (isinstance(mark.kwargs.get("reason"), str) and len(mark.kwargs["reason"].split()) > 2)
    ]
