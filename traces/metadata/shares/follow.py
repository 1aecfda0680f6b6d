"""Following one share of a metadata log's partitions, block by block; and what the share found in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.traces.kafka.metadata_log import MetadataLog, Snapshot
from highwater.traces.metadata import snapshots
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.replay import Sequence
from highwater.traces.metadata.reporting.doubts import Doubts
from highwater.traces.metadata.reporting.reporter import NOBODY, OnChange, Watch, every_partition
from highwater.traces.metadata.shares import blocks
from highwater.traces.metadata.sharing import Reach, Share, Stretch
from highwater.traces.reading.errors import TraceError
from highwater.traces.reports.findings import LIMIT, Finding, Unexplained
from highwater.traces.reports.report import Report
from highwater.traces.rules.agreement import Narrowed
from highwater.traces.rules.profiles import RuleSet

Place = tuple[int, int, str, bool]
"""The order of lines: the group, the offset in it, the partition, and whether it is no disagreement."""
OnLine = Callable[[Unexplained | Finding], None]
GROUPS = 1 << 32
"""More groups than a range has."""


@dataclass
class ShareResult:
    """What a share found.

    ``lines`` has the first lines that nothing explains, and the first findings of each property, with their places; the
    report counts all of them. ``checks`` are differences of snapshots, by the snapshot's number.
    """

    share: Share
    report: Report
    lines: list[tuple[Place, Unexplained | Finding]] = field(default_factory=list)
    checks: dict[int, list[tuple[Place, Unexplained]]] = field(default_factory=dict)
    rules: list[tuple[RuleSet, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubts: Doubts = field(default_factory=Doubts)
    skipped: dict[str, int] = field(default_factory=dict)
    """Records of the share's own partitions that were not followed."""
    error: tuple[int, str] | None = None
    """The group in which a record could not be read, and the error."""


class ShareFollower(MetadataFollower):
    """Follows a share. Give it the blocks of all ranges in order, then ``finish``.

    ``on_line`` is called with everything that is not explained, and every finding, without a limit.
    """

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
        watch = NOBODY if on_change is None else Watch(every_partition, on_change)
        super().__init__(report, profile, switched, watch, share)
        self._log, self._notes = log, len(log.notes)
        self._checks = Sequence(log).checks
        self._on_line = on_line
        self._own = share
        self.found = ShareResult(share, report)

    def block(self, number: int, data: bytes) -> None:
        """Follow what a range, of this number, has for the share; nothing more after a record that cannot be read."""
        if self.found.error is not None:
            return
        self._own.group = number * GROUPS
        try:
            for entry in blocks.read(data):
                if isinstance(entry, blocks.Changes):
                    self.changes(entry.offsets, entry.times, entry.values)
                    self._publish_if_any()
                else:
                    self._own.group += 1
                    self._common(entry)
                    self._publish_if_any()
                    self._own.group += 1
        except TraceError as wrong:
            self.found.error = (self._own.group, str(wrong))

    def _publish_if_any(self) -> None:
        if self.reporter.has_lines:
            self.publish()

    def _common(self, entry: blocks.Common) -> None:
        """What all shares go through. Raises TraceError."""
        records = entry.records
        offset, time, value = records[0]
        match entry.kind:
            case k if k == blocks.GROUP:
                self.group(records)
            case k if k == blocks.CUT_OFF:
                self.cut_off(records)
            case k if k == blocks.EPOCH:
                assert isinstance(value, bytes)
                self.written_by(time, offset, int.from_bytes(value, "big", signed=True))
            case k if k == blocks.GAP:
                self.gap(self.path, time, offset)
            case k if k == blocks.CHECK:
                self._check(offset)
            case k if k == blocks.FILE:
                assert isinstance(value, bytes)
                self.path = Path(value.decode())
            case k if k == blocks.LOADING:
                self.is_loading = bool(value)

    def _check(self, number: int) -> None:
        snapshot: Snapshot = self._checks[number]
        what = f"the snapshot {snapshot.path.name}"
        for partition, wrong, common in snapshots.differences(self, snapshot):
            self.reporter.wrong(snapshot.end_offset, None, partition, what, wrong, common)
        lines = [
            (place, marked)
            for place, line in self._drained()
            if isinstance(marked := self.marked(line), Unexplained)
        ]
        self.found.checks[number] = lines

    def publish(self) -> None:
        """Keep the lines since the last time."""
        for place, unmarked in self._drained():
            line = self.marked(unmarked)
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

    def _drained(self) -> list[tuple[Place, Unexplained | Finding]]:
        group, share = self._own.group, self._own
        share.narrowed += [(group, narrowed) for narrowed in self.agreement.drain()]
        return [
            ((group, offset, partition, other), line)
            for (offset, partition, other, own), line in self.reporter.drain()
            if own or share.is_first
        ]

    def end(self, last_time: int) -> ShareResult:
        """Nothing follows any more; ``last_time`` is the greatest time in the whole log."""
        self.close(last_time)
        self.found.rules = self.agreement.versions
        self.found.notes = self._log.notes[self._notes :]
        self.found.doubts = self.doubts
        self.found.skipped = self.reporter.skipped_of_partitions
        return self.found


def to_json(found: ShareResult) -> dict[str, Any]:
    """What a share found, as JSON."""
    share, report = found.share, found.report
    return {
        "number": share.number,
        "report": report.to_json(),
        "lines": [[*place, isinstance(line, Finding), line.to_json()] for place, line in found.lines],
        "checks": [
            [number, [[*place, line.to_json()] for place, line in lines]]
            for number, lines in found.checks.items()
        ],
        "rules": [[[r.profile, sorted(r.rules)] for r in sets] for sets in found.rules],
        "narrowed": [[group, *n[:3], sorted(n.tags), n.time] for group, n in share.narrowed],
        "populations": share.populations,
        "reaches": [[*run, reach.ended, reach.hoped] for run, reach in share.reaches.items()],
        "notes": found.notes,
        "doubts": found.doubts.to_json(),
        "skipped": found.skipped,
        "error": found.error,
    }


def from_json(data: Mapping[str, Any]) -> ShareResult:
    """The same again."""
    share = Share(data["number"], 0)
    share.populations = [(group, offset, more) for group, offset, more in data["populations"]]
    share.narrowed = [
        (group, Narrowed(version, offset, partition, frozenset(tags), time))
        for group, version, offset, partition, tags, time in data["narrowed"]
    ]
    for group, before, after, is_leading, ended, hoped in data["reaches"]:
        run: Stretch = (group, before, after, is_leading)
        share.reaches[run] = Reach(ended, hoped)
    return ShareResult(
        share,
        Report.from_json(data["report"]),
        [
            ((g, o, p, other), Finding(**line) if is_finding else Unexplained.from_json(line))
            for g, o, p, other, is_finding, line in data["lines"]
        ],
        {
            number: [((g, o, p, other), Unexplained.from_json(line)) for g, o, p, other, line in lines]
            for number, lines in data["checks"]
        },
        [tuple(RuleSet(profile, frozenset(rules)) for profile, rules in sets) for sets in data["rules"]],
        data["notes"],
        Doubts.from_json(data["doubts"]),
        data["skipped"],
        None if data["error"] is None else (data["error"][0], data["error"][1]),
    )
