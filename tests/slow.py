"""Mark a slow test with a reason: what it adds to its fast counterparts.

``tests/conftest.py`` refuses a mark without a reason. `make test-all` runs a sample where the whole would
take hours; ``HIGHWATER_TESTS=whole`` runs everything, as before a release.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest


def is_whole(said: str) -> bool:
    """True if the value of ``HIGHWATER_TESTS`` is "whole". Raises UsageError for any other word."""
    if said not in ("", "whole"):
        raise pytest.UsageError(f"HIGHWATER_TESTS is {said!r}: it can be 'whole', or nothing")
    return said == "whole"


WHOLE = is_whole(os.environ.get("HIGHWATER_TESTS", ""))


def often(usual: int, whole: int) -> int:
    """The number of repetitions: ``usual``, or ``whole`` with HIGHWATER_TESTS=whole."""
    return whole if WHOLE else usual


whole_only = pytest.mark.skipif(not WHOLE, reason="only with HIGHWATER_TESTS=whole")
"""A mark of a slow test that runs only with HIGHWATER_TESTS=whole."""


def largest(reason: str) -> tuple[pytest.MarkDecorator, ...]:
    """Marks of a test that runs only with HIGHWATER_TESTS=whole."""
    return slow(reason), whole_only


def slow(reason: str) -> pytest.MarkDecorator:
    """A mark of a test that `make test` leaves out."""
    return pytest.mark.slow(reason=reason)


def all_but(quick: Collection[str], names: Iterable[str], reason: str) -> list[Any]:
    """Parameters of a test, all marked slow except the ``quick`` ones. Raises ValueError if ``names`` lacks a
    quick one.

    No names (recordings are missing) give no parameters.
    """
    listed = list(names)
    missing = set(quick) - set(listed)
    if listed and missing:
        raise ValueError(f"no such parameter: {', '.join(sorted(missing))}")
    return [pytest.param(name, id=name, marks=() if name in quick else (slow(reason),)) for name in listed]


def without_reason(items: Iterable[pytest.Item]) -> list[str]:
    """The ids of tests that are marked slow with fewer than three words of reason."""
    return [
        item.nodeid
        for item in items
        for mark in item.iter_markers("slow")
        if not (isinstance(mark.kwargs.get("reason"), str) and len(mark.kwargs["reason"].split()) > 2)
    ]
