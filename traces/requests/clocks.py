"""Clocks of nodes that differ from that of the metadata log by more than is allowed for.

A controller's answer to a proposal and the record that it made are one decision: what lies between their times, if it
is much and always so, is between two clocks, and is taken out. Of a broker's clock only one thing shows: that it is
behind, where it answers in leader epochs that have not begun. One such epoch can be wrong; several are a clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from highwater.traces.reports.findings import Doubt
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.messages import Proposal
from highwater.traces.requests.spine import Spine
from highwater.traces.requests.stages import CLOCKS_MS

KIND = "clocks"
"""The kind of doubt that there is of what is said of a node whose clock is off."""
OFF_MS = 2 * CLOCKS_MS
PAIRS, EPOCHS = 3, 2
"""From so many decisions, or leader epochs, on a difference is one of clocks."""


def controllers_ahead(spine: Spine, found: Iterable[Proposal]) -> dict[Path, float]:
    """By how many ms the clock of each controller's log is ahead of the metadata log, where that is too much."""
    apart: dict[Path, list[float]] = defaultdict(list)
    for proposal in found:
        history = None if proposal.error else spine.history(*proposal.key)
        for version in [] if history is None else history.of_epoch(proposal.leader_epoch):
            if version.state.partition_epoch == proposal.answer_partition_epoch:
                apart[proposal.line.path].append(proposal.line.answered - version.time)
    middle = {path: median(times) for path, times in apart.items() if len(times) >= PAIRS}
    return {path: ms for path, ms in middle.items() if abs(ms) > OFF_MS}


class Early:
    """Of one broker: by how much its answers came before their leader epochs began, by its own clock."""

    def __init__(self, broker: int) -> None:
        self.broker, self.paths = broker, set[Path]()
        self._by: dict[tuple[int, int], float] = {}
        self._first: tuple[Path, int] | None = None

    def answer(self, line: RequestLine, history: int, epoch: int, ms: float) -> None:
        """An answer that is too early by so many ms."""
        key = (history, epoch)
        self._by[key] = max(ms, self._by.get(key, 0.0))
        self.paths.add(line.path)
        self._first = self._first or (line.path, line.line)

    def doubt(self) -> Doubt | None:
        """What is to be said, if it is a clock that is behind."""
        if self._first is None or len(self._by) < EPOCHS:
            return None
        seconds = median(self._by.values()) / 1000
        summary = (
            f"the clock of broker {self.broker} is behind that of the metadata log, by {seconds:.1f} s or more: it "
            f"answers in {len(self._by)} leader epochs before they begin. "
            f"What is said of its log ({self._first[0]}) is not reliable"
        )
        return Doubt(KIND, summary, {"line": self._first[1]}, ())
