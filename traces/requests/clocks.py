"""Clocks of nodes that differ from that of the metadata log by more than is allowed for.

A controller's answer to a proposal and the record that it made are one decision: what lies between their times, if it
is much and always so, is between two clocks, and is taken out. A broker's clock is behind where it answers in leader
epochs that have not begun. It is ahead where it answers in some when a heartbeat has told the controller that it
knows the next ones, or where most of its proposals come before the fetches by which somebody is eligible. One such
thing can be wrong; several are a clock.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from highwater.traces.reports.findings import Doubt
from highwater.traces.requests.asked import AskedOfControllers
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.stages import CLOCKS_MS

KIND = "clocks"
"""The kind of doubt that there is of what is said of a node whose clock is off."""
EARLY, LATE, JOINS = "early", "late", "joins"
OFF_MS = 2 * CLOCKS_MS
MAX_EPOCHS = 10_000
"""So many differences of a kind are kept."""
PAIRS, EPOCHS = 3, 2
"""From so many decisions, or leader epochs, on a difference is one of clocks."""


def controllers_ahead(asked: AskedOfControllers) -> dict[Path, float]:
    """By how many ms the clock of each controller's log is ahead of the metadata log, where that is too much."""
    middle = {path: ms - asked.offset_ms for path, count, ms in asked.apart() if count >= PAIRS}
    return {path: ms for path, ms in middle.items() if abs(ms) > OFF_MS}


class Apart:
    """Of one broker: by how much its lines came too early, or too late, by its own clock, and where."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.joins_in_time = 0
        """Proposals before which a fetch came that made who joins eligible."""
        self._by: dict[str, dict[tuple[int, int], float]] = {EARLY: {}, LATE: {}, JOINS: {}}
        self._first: dict[str, tuple[Path, int]] = {}

    def answer(self, line: RequestLine, history: int, epoch: int, ms: float, early: bool) -> None:
        """An answer before its leader epoch began, or when a heartbeat had told of the next one, by so many ms."""
        self._add(EARLY if early else LATE, (history, epoch), line, ms)

    def join(self, line: RequestLine, ms: float) -> None:
        """A proposal that came so many ms before the first fetch that made who joins eligible."""
        self._add(JOINS, (len(self._by[JOINS]), 0), line, ms)

    def _add(self, kind: str, key: tuple[int, int], line: RequestLine, ms: float) -> None:
        by = self._by[kind]
        if len(by) >= MAX_EPOCHS and key not in by:
            return
        by[key] = max(ms, by.get(key, 0.0))
        self._first.setdefault(kind, (line.path, line.line))

    def doubt(self) -> Doubt | None:
        """What is to be said, if it is a clock that is behind, or ahead."""
        enough = [kind for kind, by in self._by.items() if len(by) >= EPOCHS]
        if JOINS in enough and len(self._by[JOINS]) <= self.joins_in_time:
            enough.remove(JOINS)
        if not enough:
            return None
        kind = max(enough, key=lambda kind: len(self._by[kind]))
        seconds, count = median(self._by[kind].values()) / 1000, len(self._by[kind])
        path, number = self._first[kind]
        summary = (
            f"the clock of broker {self.broker} is {_WAYS[kind]} that of the metadata log, by {seconds:.1f} s or more: "
            f"{_WHY[kind].format(count)} ({path}). What is said of its log is not reliable"
        )
        return Doubt(KIND, summary, {"line": number}, ())


_WAYS = {EARLY: "behind", LATE: "ahead of", JOINS: "ahead of"}
_WHY = {
    EARLY: "it answers in {} leader epochs before they begin",
    LATE: "it answers in {} leader epochs when it has said that it knows the next ones",
    JOINS: "{} of its proposals came before the fetches that they are about",
}
