"""Errors that end a command, and its exit statuses: bad requests, bad input, missing libraries, internal errors."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType, TracebackType
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
def interruption(ask: Callable[[], None]) -> Iterator[None]:
    """While inside, the first SIGINT calls ``ask``, and the second raises KeyboardInterrupt.

    Outside the main thread, where no handler can be set, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ask()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# A library that cannot be loaded is an error with the library's name, not an internal error.

PACKAGES = {
    "cramjam": "cramjam",
    "crc32c": "crc32c",
    "hypothesis": "hypothesis",
    "llvmlite": "llvmlite",
    "msgspec": "msgspec",
    "networkx": "networkx",
    "numpy": "numpy",
    "pandas": "pandas",
    "prometheus_client": "prometheus-client",
    "pyarrow": "pyarrow",
    "pyspark": "pyspark",
    "rich": "rich",
    "scipy": "scipy",
    "werkzeug": "werkzeug",
    "z3": "z3-solver",
}
"""The name of each library's package, by the name of its module."""
_LONGEST = 300


def missing_library(wrong: BaseException) -> str | None:
    """One line about a library that cannot be loaded; None if the error has another cause.

    A missing package raises ModuleNotFoundError. A damaged package raises any error during its import, or an OSError
    without ``errno`` in its loader.
    """
    if isinstance(wrong, ModuleNotFoundError) and wrong.name is not None:
        name = wrong.name.partition(".")[0]
        if name in PACKAGES:
            return f"the package {PACKAGES[name]} is not installed: {wrong}"
        return None
    frames = list(_frames(wrong.__traceback__))
    loading = isinstance(wrong, OSError) and wrong.errno is None
    for number, frame in enumerate(frames):
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        importing = frame.f_code.co_name == "<module>"
        last = number == len(frames) - 1
        if name in PACKAGES and (importing or isinstance(wrong, ImportError) or (loading and last)):
            return f"the library {PACKAGES[name]} cannot be loaded: {str(wrong)[:_LONGEST] or type(wrong).__name__}"
    return None


def module_cut_short(wrong: EOFError) -> str:
    """One line about an EOFError; it names the ``.pyc`` file if a truncated one was being loaded.

    Python leaves truncated ``.pyc`` files when the disk is full.
    """
    places = [frame.f_locals.get("bytecode_path") for frame in _frames(wrong.__traceback__)]
    named = [str(place) for place in places if place]
    if named:
        return f"{named[-1]}: a compiled module of Python's that is cut short, as a full disk leaves it: remove it"
    return f"something that is read ends too early: {str(wrong)[:_LONGEST]}"


def _frames(trace: TracebackType | None) -> list[FrameType]:
    found = []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found
