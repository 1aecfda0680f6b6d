"""How far a search is, said while it runs: a live line in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from highwater.checker.search import Progress

_FIRST_SECONDS = 0.4
"""A search that ends sooner says nothing in a terminal."""

_PLAIN_FIRST, _PLAIN_SECONDS = 1.0, 5.0
"""When plain lines are said: first, and from then on."""


class Reporter:
    """Says a search's progress on standard error; as a context it takes its live line away at the end."""

    def __init__(self, name: str, *, quiet: bool = False, left: str = "queue") -> None:
        self.name = name
        self._left = left
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._status: Any = None
        self._next = _FIRST_SECONDS if self._terminal else _PLAIN_FIRST
        self._samples: tuple[tuple[float, int], tuple[float, int]] = ((0.0, 0), (0.0, 0))

    def __call__(self, progress: Progress) -> None:
        """Say how far the search is, where it is time to."""
        if self._quiet:
            return
        line = f"{self.name}: {self._line(progress)}"
        if not self._terminal:
            if progress.seconds >= self._next:
                self._next = progress.seconds + _PLAIN_SECONDS
                print(line, file=sys.stderr, flush=True)
        elif self._status is not None:
            self._status.update(line)
        elif progress.seconds >= self._next:
            from rich.console import Console

            self._status = Console(stderr=True, highlight=False).status(line)
            self._status.start()

    def say(self, line: str) -> None:
        """Say something else, on a line that stays."""
        if self._quiet:
            return
        if self._status is not None:
            self._status.stop()
            self._status = None
        print(f"{self.name}: {line}", file=sys.stderr, flush=True)

    def _rate(self, progress: Progress) -> float:
        """States a second over the last one or two seconds."""
        before, since = self._samples
        if progress.seconds - since[0] >= 1:
            before, since = self._samples = since, (progress.seconds, progress.distinct_states)
        seconds = progress.seconds - before[0]
        return (progress.distinct_states - before[1]) / seconds if seconds > 0 else 0.0

    def _line(self, progress: Progress) -> str:
        spilled = f", {size(progress.spilled_bytes)} on disk" if progress.spilled_bytes else ""
        memory = f", {size(progress.memory_bytes)}" if progress.memory_bytes else ""
        return (
            f"{progress.distinct_states:,} states, {self._rate(progress):,.0f}/s, depth {progress.depth}, "
            f"{self._left} {progress.queue:,}{memory}{spilled}, {progress.seconds:.0f} s"
        )

    def __enter__(self) -> Reporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()


def size(number: int) -> str:
    """A number of bytes for a reader."""
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
