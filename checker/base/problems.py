"""Errors that end a command, and its exit statuses: bad requests, bad input, missing libraries, internal errors."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import Any

from highwater.errors import HighwaterError


class InputError(HighwaterError):
    """A request or a file that cannot be used. The message is one line and needs no context."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class InternalError(RuntimeError):
    """The checker contradicts itself: a defect of the checker or of the machine, so there is no result.

    It is no HighwaterError, so no handler of bad input catches it. ``facts`` are further fields of the error report.
    """

    def __init__(self, message: str, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.facts = dict(facts or {})


class Status(IntEnum):
    """The exit statuses of every command."""

    OK = 0
    VIOLATED = 1
    BAD_REQUEST = 2
    INCONCLUSIVE = 3
    INTERNAL = 70
    """An internal error: the command has no result. 70 is EX_SOFTWARE of sysexits."""
    INTERRUPTED = 130


_WORST_FIRST = (
    Status.INTERNAL,
    Status.BAD_REQUEST,
    Status.INTERRUPTED,
    Status.VIOLATED,
    Status.INCONCLUSIVE,
    Status.OK,
)


def worst(statuses: Iterable[Status]) -> Status:
    """The most severe of the statuses (first in ``_WORST_FIRST``); OK if there is none."""
    return min(statuses, key=_WORST_FIRST.index, default=Status.OK)


# The first Ctrl-C stops a search and keeps the states found so far; the second aborts the command.


@contextmanager
def interruption(ask: Callable[[], None], number: signal.Signals = signal.SIGINT) -> Iterator[None]:
    """While inside, the first signal ``number`` calls ``ask``, and the second raises KeyboardInterrupt.

    Outside the main thread, where no handler can be set, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.default_int_handler)
        ask()

    before = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """While inside, an environment variable has this value, in this process and in those that it starts."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


_PACKAGES = {"prometheus_client": "prometheus-client", "z3": "z3-solver"}
"""The name of a package, by the name of its module, if they differ."""


def missing_library(wrong: BaseException) -> str | None:
    """One line about a package that cannot be imported; None if the error has another cause."""
    name = (wrong.name or "").partition(".")[0] if isinstance(wrong, ImportError) else ""
    if name in ("", "highwater"):
        return None
    return f"the package {_PACKAGES.get(name, name)} cannot be imported: {wrong}"
