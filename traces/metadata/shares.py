"""Replay of one metadata log in shares of its partitions, by as many processes, with one report.

Each share is the same replay with a filter: it reads the whole log, follows the partitions of its own topics and all
records about the cluster, and notes where changes of other shares are (``sharing``). ``join`` makes one report of all
shares. A decision can end at a change of one share, while another share takes changes beyond it for part of the
decision. Then all shares follow the log again, with the known ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from highwater.traces.kafka.metadata_log import MetadataLog, Snapshot
from highwater.traces.kafka.values import CHANGE, kind
from highwater.traces.metadata import replay
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.replay import Reading, rarely_collected
from highwater.traces.metadata.reporting import NOBODY, Doubts, Line, OnChange, Watch
from highwater.traces.metadata.sharing import (
    Elsewhere,
    Share,
    SharedRecord,
    Stretch,
    elsewhere,
    join_reaches,
)
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import LIMIT, Finding, Unexplained
from highwater.traces.reports.report import Report
from highwater.traces.rules.profiles import RuleSet

Place = tuple[int, int, str]
"""The sort key of a line: the group, the offset, and the partition."""
Placed = list[tuple[Place, Line]]
OnLine = Callable[[Line], None]
RunShares = Callable[[Mapping[Stretch, int]], Sequence["ShareResult"]]
"""Follows all shares with the known ends of stretches; returns their results in order."""


class Unreadable(Exception):
    """Raised for a log that cannot be read to its end; the message is the text of the TraceError."""


@dataclass
class ShareResult:
    """The result of following a share. ``lines`` are the first lines of each kind; ``report`` counts all lines.

    ``checks`` are the snapshots with the differences in the share's partitions. ``skipped`` counts records of the
    share's partitions that were not followed. ``error`` is the group and the message of the record that cannot be
    read.
    """

    share: Share
    report: Report
    lines: Placed = field(default_factory=list)
    checks: list[tuple[Snapshot, Placed]] = field(default_factory=list)
    rules: RuleSet | None = None
    notes: list[str] = field(default_factory=list)
    doubts: Doubts = field(default_factory=Doubts)
    skipped: dict[str, int] = field(default_factory=dict)
    error: tuple[int, str] | None = None


class ShareFollower(MetadataFollower):
    """Follows a share of a log. ``on_line`` is called with every line, without a limit."""

    def __init__(
        self,
        log: MetadataLog,
        share: Share,
        profile: str | None = None,
        switched: Mapping[str, bool] | None = None,
        on_change: OnChange | None = None,
        on_line: OnLine | None = None,
    ) -> None:
        report = Report(str(log.path), log.kind, profile or "")
        watch = NOBODY if on_change is None else Watch([on_change])
        super().__init__(report, profile, switched, watch, share)
        self._log, self._own, self._on_line = log, share, on_line
        self.found = ShareResult(share, report)

    def replay(self) -> ShareResult:
        """Follow the log from its start to its end, or to a record that cannot be read."""
        try:
            with rarely_collected():
                for _ in Reading(self._log, self, self.report, self._check).followed():
                    pass
                self.finish()
        except TraceError as wrong:
            self.found.error = (self._own.group, str(wrong))
        self.found.rules, self.found.doubts = self.rules, self.doubts
        self.found.notes, self.found.skipped = self._log.notes, self.reporter.skipped_of_partitions
        return self.found

    # --- groups, with the same numbers in all shares ---------------------------------

    def changes(self, offsets: Sequence[int], time: int, values: Sequence[bytes]) -> None:
        """Follow the changes of the share's own partitions. Raises TraceError."""
        own = [at for at, value in enumerate(values) if kind(value) != CHANGE or self._own.owns(value)]
        super().changes([offsets[at] for at in own], time, [values[at] for at in own])

    def group(self, records: Sequence[SharedRecord]) -> None:
        """Follow one group of records: the share's own, and those about the cluster. Raises TraceError.

        A change of another share is replaced by ``Elsewhere``, or dropped if the previous record is a change of any
        share. A creation is replaced likewise, or dropped after a creation.
        """
        self._own.group += 1
        followed: list[SharedRecord] = []
        of_partition: Elsewhere | None = None
        for offset, time, value in records:
            assert isinstance(value, bytes)
            before, of_partition = of_partition, elsewhere(value)
            if of_partition is None or self._own.owns(value):
                followed.append((offset, time, value))
            elif of_partition is not before:
                followed.append((offset, time, of_partition))
        if followed:
            super().group(followed)
        self._next()

    def gap(self, path: Path, expected: int, found: int) -> None:
        """Report missing offsets, or offsets that occur twice: offset ``found`` follows in place of ``expected``."""
        self._own.group += 1
        super().gap(path, expected, found)
        self._next()

    def _next(self) -> None:
        if self.reporter.has_lines:
            self.publish()
        self._own.group += 1

    def _check(self, snapshot: Snapshot, _: MetadataFollower) -> None:
        self.settle()
        self._own.group += 1
        replay.report_differences(self, snapshot, replay.differences(self, snapshot))
        self.found.checks.append((snapshot, self._drained()))
        self._own.group += 1

    # --- lines --------------------------------------------------------------------------------

    def publish(self) -> None:
        """Report the lines found since the last call, and keep the first ``LIMIT`` of each kind."""
        for place, line in self._drained():
            if self._on_line is not None:
                self._on_line(line)
            if isinstance(line, Finding):
                kept = self.report.findings_count.get(line.property, 0) < LIMIT
                self.report.find(line)
            else:
                kept = self.report.unexplained_count < LIMIT
                self.report.add(line)
            if kept:
                self.found.lines.append((place, line))

    def _drained(self) -> Placed:
        group, share = self._own.group, self._own
        return [
            ((group, offset, partition), self.doubts.marked(line))
            for (offset, partition, own), line in self.reporter.drain()
            if own or share.is_first
        ]


def replay_shares(log: MetadataLog, run: RunShares) -> tuple[Report, list[Unexplained]]:
    """Replay a log in shares. Returns the report, and those of its lines that concern all shares.

    Raises Unreadable if the log cannot be read to its end.
    """
    shares = run({})
    if errors := [share.error for share in shares if share.error is not None]:
        raise Unreadable(min(errors)[1])
    if ends := join_reaches([share.share.reaches for share in shares]):
        shares = run(ends)
    return join(log, shares)


def join(log: MetadataLog, shares: Sequence[ShareResult]) -> tuple[Report, list[Unexplained]]:
    """The report that combines all shares, and the unexplained lines that belong to no single share.

    These are lines about snapshots.
    """
    first, *others = shares
    report = Report(first.report.input, first.report.kind, "", records=first.report.records)
    report.changes = sum(s.report.changes for s in shares)
    populations = sorted(change for s in shares for change in s.share.populations)
    report.partitions = max(accumulate(more for *_, more in populations), default=0)
    report.skipped = _sum([first.report.skipped, *(s.skipped for s in others)])
    notes, lines = list[str](), Placed()
    for checks in zip(*(s.checks for s in shares), strict=True):
        different = sorted((pair for _, found in checks for pair in found), key=lambda pair: pair[0])
        lines += different[: replay.LIMIT]
        if len(different) > replay.LIMIT:
            notes.append(replay.more_than_limit(checks[0][0]))
    doubts = Doubts()
    for share in shares:
        doubts.merge(share.doubts)
    lines = [(place, doubts.marked(line)) for place, line in lines]
    own = [line for _, line in lines if isinstance(line, Unexplained)]
    lines += [pair for s in shares for pair in s.lines]
    for _, line in sorted(lines, key=lambda pair: pair[0]):
        report.find(line) if isinstance(line, Finding) else report.add(line)
    report.unexplained_count = sum(s.report.unexplained_count for s in shares) + len(own)
    report.unreliable_count = sum(s.report.unreliable_count for s in shares)
    report.unreliable_count += sum(not line.reliable for line in own)
    report.findings_count = _sum(s.report.findings_count for s in shares)
    report.doubts = doubts.listed()
    if first.rules is not None:
        report.profile, report.rules = first.rules.profile, tuple(sorted(first.rules.rules))
    figures = [s.report.figures for s in shares]
    report.figures = _sum(figures) | {"brokers": figures[0]["brokers"]}
    for name in report.figures:
        if name.startswith("longest"):
            report.figures[name] = max(of.get(name, 0) for of in figures)
    if first.checks:
        report.figures["snapshots compared"] = len(first.checks)
    report.final = {name: one for s in shares for name, one in s.report.final.items()}
    report.controllers = first.report.controllers
    begins = int(log.start is not None)
    report.notes = [*first.notes, *first.report.notes[:begins], *notes, *first.report.notes[begins:]]
    return report, own


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for of in counts:
        total.update(of)
    return dict(total)
