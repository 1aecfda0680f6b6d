"""One reading of a metadata log and of the brokers' logs beside it: from a snapshot or the first record on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from highwater.model.rulebook import RULEBOOK
from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.follow.broker_tails import BrokerTails
from highwater.traces.follow.ledger import MAX_OPEN, Ledger, PartitionNow
from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import Snapshot
from highwater.traces.metadata.beliefs.automaton import MEASURED
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.image import Partition
from highwater.traces.metadata.replay import load
from highwater.traces.metadata.reporting import NOBODY, Watch
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.incidents import incidents
from highwater.traces.reports.observed import FinalState, PartitionChange
from highwater.traces.reports.report import Report, nonconforming

STATES = ("all", "offline", "under_min_isr", "at_min_isr", "min_isr_unknown", "at_risk", "elr")
"""The states that partitions are counted by."""
AT_MIN_ISR = {"has_more_than_min_isr"}
"""The conditions that fail while a partition has a leader, and an ISR of exactly min ISR members."""
MAX_FINDINGS = 100_000
"""The largest number of distinct findings from brokers' logs; later ones are ignored."""
_LOOK_EVERY = 10
"""The number of polls from one search for new brokers' logs to the next."""


@dataclass(frozen=True)
class Notice:
    """A message about the follower or its input that is no incident, such as an unreadable file.

    ``kind`` names the message; ``offset`` is None if it concerns no offset.
    """

    kind: str
    text: str
    offset: int | None = None

    def to_json(self) -> dict[str, object]:
        """The notice as plain data for JSON."""
        at = {} if self.offset is None else {"offset": self.offset}
        return {"event": self.kind, **at, "text": self.text}


@dataclass
class Counts:
    """Totals since this process started, and the present state of the cluster."""

    is_waiting: bool = True
    """True while the directory has no log."""
    partitions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    records: int = 0
    nonconforming: int = 0
    next_offset: int = 0
    last_time: int = 0
    """The time of the last record, in ms since the epoch."""
    caveats: int = 0
    unreadable: int = 0
    """The number of brokers' logs and directories that are not read, or that have a line that cannot be read."""
    damaged: int = 0
    """The number of parts of the metadata log that cannot be read."""
    broker_logs: int = 0
    delay: float = 0.0
    """Seconds from the time of the last record to the end of the poll that read it."""


@dataclass(frozen=True)
class ClusterLogs:
    """The directory of a metadata log, directories of brokers' logs, and a profile or rules in place of the log's."""

    metadata: Path
    broker_logs: Sequence[Path] = ()
    profile: str | None = None
    rules: Mapping[str, bool] | None = None


class _LiveReport(Report):
    """A report that holds findings and nonconforming records only until ``LogReading`` takes them."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), "metadata log", "")
        self.found: list[Finding] = []
        self.nonconforming: list[Unexplained] = []

    def add(self, line: Unexplained) -> None:
        """Store a record that does not conform until it is removed."""
        self.nonconforming.append(line)

    def find(self, finding: Finding) -> None:
        """Store a finding until it is removed."""
        self.found.append(finding)


class LogReading:
    """The state that the batches read so far lead to, and the incidents that they and the brokers' logs show.

    An earlier reading has reported the nonconforming records and the caveats below the offset ``new_from``.
    """

    def __init__(self, logs: ClusterLogs, counts: Counts, new_from: int) -> None:
        self.ledger = Ledger()
        self.is_new = True
        """True until the caller has compared the incidents with those of an earlier reading."""
        self._counts, self._new_from = counts, new_from
        self._report = _LiveReport(logs.metadata)
        self._tails, self._watermarks = BrokerTails(logs.broker_logs), Watermarks(())
        watch = Watch([self._changed], [self._watermarks.setting]) if logs.broker_logs else NOBODY
        self._follower = MetadataFollower(self._report, logs.profile, logs.rules, watch)
        self._whole_at: dict[str, tuple[int, int]] = {}
        self._seen: dict[str, tuple[object, int, int]] = {}
        self._seen_findings: set[tuple[str, str | None, str]] = set()
        self._unreadable: dict[Path, str] = {}
        self._doubts = self._polls = 0

    @property
    def has_caught_up(self) -> bool:
        """True if all brokers' logs have been read to their ends."""
        return self._tails.has_caught_up

    def partition(self, name: str | None) -> Partition | None:
        """The present state of a partition by name; None if it does not exist."""
        topic, _, number = (name or "").rpartition("-")
        image = self._follower.image.names.get(topic)
        return image.partitions.get(int(number)) if image is not None and number.isdecimal() else None

    def close(self) -> None:
        """Close the brokers' logs."""
        self._tails.close()

    # --- the metadata log -------------------------------------------------------------------------

    def load(self, snapshot: Snapshot) -> None:
        """Begin with a snapshot. Raises TraceError if it cannot be read or is damaged."""
        load(self._follower, snapshot)

    def gap(self, path: Path, expected: int, found: int) -> None:
        """Report that offset ``found`` follows in place of ``expected``."""
        self._follower.gap(path, expected, found)

    def take(self, path: Path, batch: RecordBatch) -> Iterator[Notice]:
        """Follow the records of a batch, and update the incidents."""
        counts, report, follower = self._counts, self._report, self._follower
        try:
            follower.take(path, batch)
        except TraceError as wrong:
            counts.damaged += 1
            yield Notice("unreadable", str(wrong), batch.base_offset)
        counts.records += len(batch.values)
        counts.last_time = batch.timestamp if batch.timestamp > 0 else counts.last_time
        counts.next_offset = batch.last_offset + 1
        if report.found or report.nonconforming or self.ledger.open or self._has_others():
            yield from self._look()

    def _has_others(self) -> bool:
        """True if there are caveats or elections of controllers that ``_look`` has not seen."""
        elections = len(self._report.controllers.elections)
        return len(self._follower.doubts) != self._doubts or elections != self.ledger.elections

    def _changed(self, change: PartitionChange) -> None:
        """Store a change of a partition, so that later lines of brokers' logs are checked against it."""
        self._watermarks.change(change)
        if change.after is None:
            self._whole_at.pop(change.name, None)
        elif any(state is not None and state.is_whole for state in (change.before, change.after)):
            self._whole_at[change.name] = (change.position, change.time)

    def _look(self) -> Iterator[Notice]:
        """Update the incidents after new records. The notices are about nonconforming records and caveats."""
        report, counts, new_from = self._report, self._counts, self._new_from if self.is_new else 0
        found, report.found = report.found, []
        lines, report.nonconforming = report.nonconforming, []
        for line in lines:
            if line.position["offset"] >= new_from:
                counts.nonconforming += 1
                yield Notice("nonconforming", nonconforming(line), line.position["offset"])
        if len(self._follower.doubts) != self._doubts:
            doubts = self._follower.doubts.listed()
            for doubt in doubts[self._doubts :]:
                if doubt.position["offset"] >= new_from:
                    yield Notice("caveat", f"{doubt.kind}: {doubt.summary}", doubt.position["offset"])
            self._doubts = len(doubts)
        yield from self._update(self.ledger.take(found))

    # --- brokers' logs ----------------------------------------------------------------------------

    def read_broker_logs(self) -> Iterator[Notice]:
        """Read new lines of the brokers' logs, and update the incidents. The notices are about unreadable files."""
        tails, watermarks, follower = self._tails, self._watermarks, self._follower
        if self._polls % _LOOK_EVERY == 0:
            tails.look()
        self._polls += 1
        for event in tails.poll():
            watermarks.take(event)
        for path, why in tails.unreadable.items():
            if self._unreadable.get(path) != why:
                yield Notice("unreadable", f"{path}: {why}")
        self._unreadable = dict(tails.unreadable)
        self._counts.unreadable, self._counts.broker_logs = len(self._unreadable), tails.number
        new = []
        for finding in watermarks.news(self._min_isr):
            key = (finding.property, finding.partition, str(finding.position))
            if key not in self._seen_findings and len(self._seen_findings) < MAX_FINDINGS:
                self._seen_findings.add(key)
                is_reliable = not follower.doubts.concern(self._counts.next_offset, finding.partition)
                kip = finding.kip or RULEBOOK.origin(finding.rule)
                new.append(replace(finding, kip=kip, reliable=is_reliable))
        touched = self.ledger.take(new)
        for (name, offset), held in watermarks.complete.items():
            if self.ledger.complete(name, offset, held):
                touched.add(name)
        watermarks.complete.clear()
        if touched:
            yield from self._update(touched)

    def _min_isr(self, name: str) -> int | None:
        partition = self.partition(name)
        if partition is None:
            return None
        return self._follower.image.effective(partition, len(partition.replicas))[0]

    # --- incidents and counts ---------------------------------------------------------------------

    def _update(self, touched: set[str]) -> Iterator[Notice]:
        """Update the incidents of ``touched`` partitions, of changed ones with an open incident, and of controllers."""
        ledger, report, rules = self.ledger, self._report, self._follower.rules
        report.controllers.failures = self._watermarks.controllers.failures
        report.controllers.refused = self._watermarks.controllers.refused
        make = partial(
            incidents,
            profile=rules.profile,
            logs=self._watermarks.ends,
            deleted=report.deleted,
            has_elr=not rules.rules or "eligible_leader_replicas" in rules.rules,
            has_logs=self._tails.number > 0,
        )
        was_full = ledger.is_full
        for name in sorted(touched | ledger.partitions):
            partition = self.partition(name)
            if partition is None:
                ledger.look(name, None, make)
                continue
            seen = (partition.belief, partition.partition_epoch, partition.leader_epoch)
            if name in touched or self._seen.get(name) != seen:
                ledger.look(name, self._now(partition), make)
                self._seen[name] = seen
            if name not in ledger.partitions:
                self._seen.pop(name, None)
        ledger.look_at_controllers(report.controllers, self._counts.last_time, make)
        self._counts.caveats = self._doubts + ledger.is_full
        if ledger.is_full and not was_full:
            what = f"{MAX_OPEN} incidents are open: others are reported once some of these are closed"
            yield Notice("caveat", what, self._counts.next_offset - 1)

    def _now(self, partition: Partition) -> PartitionNow:
        """The present state of a partition in the log so far."""
        state, since = partition.observed, partition.leaderless_since
        failing = tuple(sorted((partition.belief.violated | partition.belief.doubtful) - MEASURED))
        final = FinalState.of(partition.name, state, since, failing, partition.followers, partition.topic_id)
        return PartitionNow(state, failing, final, self._whole_at.get(partition.name, (-1, -1)))

    def count(self) -> None:
        """Count the partitions by state, and compute the delay."""
        counts = dict.fromkeys(STATES, 0)
        for partition in self._follower.image.of_topics():
            belief = partition.belief
            unknown = belief.doubtful & MEASURED
            counts["all"] += 1
            counts["offline"] += belief.leaderless
            counts["under_min_isr"] += belief.under_min_isr
            counts["at_min_isr"] += not unknown and belief.violated & MEASURED == AT_MIN_ISR
            counts["min_isr_unknown"] += bool(unknown)
            counts["at_risk"] += bool((belief.violated | belief.doubtful) - MEASURED)
            counts["elr"] += bool(belief.observed.elr)
        self._counts.partitions = counts
        self._counts.delay = max(0.0, time.time() - self._counts.last_time / 1000)
