"""Limits of a solver: time, memory, and Ctrl-C. Each ends a question without an answer, never with an exception."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import z3

from highwater.checker.base.memory import peak_memory
from highwater.checker.engines.solver.terms import Term
from highwater.errors import HighwaterError

LOOK_SECONDS = 0.1
"""How often the memory is looked at while the solver works."""


class Stopped(HighwaterError):
    """The solver gave no answer; ``why`` is "seconds", "memory", "interrupted" or "unknown"."""

    def __init__(self, why: str) -> None:
        super().__init__(why)  # its argument, so that it can come from another process
        self.why = why


class Limits:
    """What a run of the solver may use: seconds from now on, and bytes of memory of the whole process."""

    def __init__(self, seconds: float | None = None, memory_bytes: int | None = None) -> None:
        self.started = time.perf_counter()
        self.seconds = seconds
        self.memory_bytes = memory_bytes
        self._full = False

    @property
    def used(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self.started

    def check(self, solver: z3.Solver, *assumptions: Term) -> bool:
        """Whether the constraints and assumptions have a solution; Stopped where the solver does not say."""
        if self.seconds is not None:
            left = self.seconds - self.used
            if left <= 0:
                raise Stopped("seconds")
            solver.set("timeout", max(1, int(left * 1000)))
        if self.memory_bytes is not None and peak_memory() > self.memory_bytes:
            raise Stopped("memory")
        try:
            with self._watched(solver):
                answer: Any = solver.check(*assumptions)
        except z3.Z3Exception as wrong:
            raise Stopped(self._why(str(wrong))) from None
        if answer == z3.unknown:
            raise Stopped(self._why(solver.reason_unknown()))
        return bool(answer == z3.sat)

    @contextmanager
    def _watched(self, solver: z3.Solver) -> Iterator[None]:
        """Stop the solver from another thread when the memory is full.

        Z3's own limits are not used: one is not looked at by every part of it, and the other ends the process.
        """
        if self.memory_bytes is None:
            yield
            return
        limit, done = self.memory_bytes, threading.Event()

        def watch() -> None:
            while not done.wait(LOOK_SECONDS):
                if peak_memory() > limit:
                    self._full = True
                    solver.interrupt()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _why(self, reason: str) -> str:
        if self._full:
            return "memory"
        if "keyboard" in reason or "interrupted" in reason:
            return "interrupted"
        if "memory" in reason or "memout" in reason:
            return "memory"
        return "seconds" if self.seconds is not None and self.used >= self.seconds * 0.9 else "unknown"
