"""Follow one cluster: turn its growing metadata log and its brokers' logs into events and counts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from highwater.model.rulebook import RULEBOOK
from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.follow.broker_tails import BrokerTails
from highwater.traces.follow.ledger import (
    MAX_OPEN,
    IncidentContext,
    IncidentEvent,
    Ledger,
    Open,
    PartitionNow,
    Reread,
)
from highwater.traces.follow.marks import Mark
from highwater.traces.follow.tail import LogStart, LogTail, Piece
from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import PARTITION, Gap
from highwater.traces.metadata.beliefs.automaton import MEASURED
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.image import Partition
from highwater.traces.metadata.replay import load
from highwater.traces.metadata.reporting import NOBODY, Watch
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.observed import FinalState, PartitionChange
from highwater.traces.reports.report import Report, nonconforming

STATES = ("all", "offline", "under_min_isr", "at_risk", "elr")
"""The states that partitions are counted by."""
MAX_FINDINGS = 100_000
"""The largest number of distinct findings from brokers' logs; later ones are ignored."""
_LOOK_EVERY = 10
"""The number of polls from one search for new brokers' logs to the next."""
_SETTLED_AFTER = 2.0
"""The seconds after the last batch until an incomplete group of records counts as complete."""
_PATIENCE = 20
"""A log that is read again can grow with every poll, and still end before the offset that was read earlier. After so
many polls that reach its end, the log counts as shorter."""


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
class FollowerState:
    """The position of a follower, and the open incidents as it last reported them, by id.

    ``begun_at`` is the end offset of the snapshot with which reading began (0 without one). ``next_offset`` is the
    offset of the next record to read, ``seq`` the number of the last event.
    """

    begun_at: int
    next_offset: int
    seq: int
    open: dict[str, Mapping[str, object]]
    settled: dict[str, str] | None = None
    """The severities of closed incidents that the brokers' logs would show again, by id; None without these logs."""
    cluster: str = ""
    """The id of the cluster, if meta.properties has it."""
    marks: list[Mark] = field(default_factory=list)
    """Checksums of batches, by which the log is recognized."""


class _LiveReport(Report):
    """A report that holds findings and nonconforming records only until ``Following`` takes them."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), "metadata log", "")
        self.found: list[Finding] = []
        self.nonconforming: list[Unexplained] = []

    def add(self, line: Unexplained) -> None:
        """Store a record that does not conform until it is removed."""
        self.unexplained_count += 1
        self.nonconforming.append(line)

    def find(self, finding: Finding) -> None:
        """Store a finding until it is removed."""
        self.found.append(finding)


@dataclass
class Counts:
    """Totals since this process started, and the present state of the cluster."""

    partitions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    records: int = 0
    nonconforming: int = 0
    next_offset: int = 0
    last_time: int = 0
    """The time of the last record, in ms since the epoch."""
    caveats: int = 0
    delay: float = 0.0
    """Seconds from the time of the last record to the end of the poll that read it."""


class Following:
    """Follows one cluster: call ``poll`` repeatedly.

    ``place`` is the state from which a later ``Following`` continues.
    """

    def __init__(
        self,
        directory: Path,
        profile: str | None = None,
        rules: Mapping[str, bool] | None = None,
        place: FollowerState | None = None,
        broker_logs: Sequence[Path] = (),
    ) -> None:
        is_log = directory.absolute().name == PARTITION
        self.directory = directory if is_log else directory / PARTITION
        self._profile, self._rules = profile, rules
        self._tail = LogTail(self.directory)
        self.counts = Counts()
        self.ledger = Ledger(settled={} if broker_logs else None)
        self.is_waiting = True
        """True while the directory has no log."""
        self._told: dict[str, Open] = {}
        self._read_up_to = 0
        self._why = ""
        if place is not None:
            self._told = {id: Open(said) for id, said in place.open.items()}
            self._read_up_to = place.next_offset
            self.ledger.seq = self._seq_before = place.seq
            self.ledger.settled = dict(place.settled) if broker_logs and place.settled is not None else None
            self._tail = LogTail(
                self.directory, place.begun_at, place.next_offset, place.cluster, place.marks
            )
        self._tails = BrokerTails(broker_logs) if broker_logs else None
        self._watermarks = Watermarks(())
        self._looked = 0
        self._unreadable: dict[Path, str] = {}
        self._whole_at: dict[str, tuple[int, int]] = {}
        self._seen_findings: set[tuple[str, str | None, str]] = set()
        self._follower: MetadataFollower | None = None
        self._report = _LiveReport(self.directory)
        self._seen: dict[str, tuple[object, int, int]] = {}
        self._doubts = 0
        self._is_full = False
        self._quiet_since = time.monotonic()
        self._damage = ""
        self._has_read = False
        self._ends = 0

    @property
    def has_begun(self) -> bool:
        """True if this process has read a part of the log."""
        return self._follower is not None

    @property
    def reported(self) -> Mapping[str, Open]:
        """The open incidents by id, as the last events described them.

        Until the log has been read again, these are the incidents that the earlier reading reported.
        """
        return self._told if self._is_before else self.ledger.open

    @property
    def _is_before(self) -> bool:
        """True until this process has read again everything that an earlier process reported."""
        return self._follower is None or self.ledger.reads_again

    @property
    def place(self) -> FollowerState:
        """The state to continue from. While the log is read again, it is the state before that second reading began."""
        return FollowerState(
            self._tail.begun_at,
            self._read_up_to if self._is_before else self._tail.next_offset,
            self._seq_before if self._is_before else self.ledger.seq,
            {id: one.incident for id, one in self.reported.items()},
            None if self.ledger.settled is None else dict(self.ledger.settled),
            self._tail.cluster,
            [*(self._tail.marks.known.items() if self._is_before else self._tail.marks.read)],
        )

    _seq_before = 0

    def poll(self) -> Iterator[IncidentEvent | Notice]:
        """Read new records and lines of brokers' logs. ``counts`` is complete once the iterator is exhausted."""
        pieces = 0
        try:
            for piece in self._tail.poll():
                pieces += 1
                yield from self._take(piece)
            self._damage = ""
        except TraceError as wrong:
            if str(wrong) != self._damage:  # reported once, although each poll tries again
                self._damage = str(wrong)
                yield Notice("unreadable", str(wrong), self._tail.next_offset)
        follower = self._follower
        self.is_waiting, self._has_read = self._tail.is_waiting, pieces > 0
        if follower is None:
            return
        if pieces:
            self._quiet_since = time.monotonic()
        elif follower.groups.is_open and time.monotonic() - self._quiet_since > _SETTLED_AFTER:
            follower.settle()
            yield from self._look()
        if self._tails is not None and not self.is_behind:
            yield from self._broker_logs(self._tails, follower)
        if self.ledger.reads_again and self._has_caught_up(pieces):
            yield from self._adopt()
        if pieces:
            self._count(follower)

    def _has_caught_up(self, pieces: int) -> bool:
        """True if all records and lines that led to already reported events have been read again.

        The metadata log must have been read to its end or have nothing new, and the brokers' logs to their ends. If the
        log is shorter than before, but grows with every poll, its end must have been reached ``_PATIENCE`` times.
        """
        is_at_end = not self._tail.has_more
        self._ends += is_at_end
        has_all = self._tail.next_offset >= self._read_up_to or self._ends >= _PATIENCE
        is_there = not pieces or (has_all and is_at_end)
        return is_there and (self._tails is None or self._tails.has_caught_up)

    @property
    def is_behind(self) -> bool:
        """True if the last poll read something, and left more to read."""
        return self._has_read and self._tail.has_more

    def _take(self, piece: Piece) -> Iterable[IncidentEvent | Notice]:
        if isinstance(piece, LogStart):
            return self._begin(piece)
        follower, counts = self._follower, self.counts
        assert follower is not None
        if isinstance(piece, Gap):
            follower.gap(piece.path, piece.expected_offset, piece.found_offset)
            return ()
        path, batch = piece
        wrong: TraceError | None = None
        try:
            follower.take(path, batch)
        except TraceError as raised:
            wrong = raised
        counts.records += len(batch.values)
        counts.last_time = batch.timestamp if batch.timestamp > 0 else counts.last_time
        counts.next_offset = batch.last_offset + 1
        report, ledger = self._report, self.ledger
        if (
            wrong is None
            and not (report.found or report.nonconforming or ledger.open or ledger.reads_again)
            and len(follower.doubts) == self._doubts
            and len(report.controllers.elections) == ledger.elections
        ):
            return ()
        return self._after(batch, wrong)

    def _after(self, batch: RecordBatch, wrong: TraceError | None) -> Iterator[IncidentEvent | Notice]:
        """The events and notices after a batch. If a record of the batch cannot be read, ``wrong`` is the error."""
        if wrong is not None:
            yield Notice("unreadable", str(wrong), batch.base_offset)
        yield from self._look(batch)
        if self._tails is None and self.ledger.reads_again and batch.last_offset + 1 >= self._read_up_to:
            yield from self._adopt()

    def _begin(self, piece: LogStart) -> Iterator[IncidentEvent | Notice]:
        """Begin with an empty state, and load the snapshot if there is one. Yields notices."""
        if self._follower is not None and not self.ledger.reads_again:
            self._told, self._read_up_to = self.ledger.open, self.counts.next_offset
        self._ends = 0
        if not self.ledger.reads_again:
            self._seq_before = self.ledger.seq
        self.ledger = Ledger(self._seq_before, self.ledger.settled)
        if piece.is_other:
            yield from self._close_all(piece)
        self.ledger.reads_again = bool(self._told) or self._read_up_to > 0
        if not self.ledger.reads_again:
            self._tail.marks.accept()
        self._why, self.counts.next_offset = piece.why, self._tail.next_offset
        self._report, self._seen = _LiveReport(self.directory), {}
        self._doubts, self.counts.caveats = 0, int(self._is_full)
        self._watermarks.log_begins()
        self._whole_at.clear()
        self._seen_findings.clear()
        watch = NOBODY
        if self._tails is not None:
            watch = Watch([self._changed], [self._watermarks.setting])
        follower = self._follower = MetadataFollower(self._report, self._profile, self._rules, watch)
        if piece.why:
            yield Notice("read again", piece.why, self._tail.next_offset)
        for path in piece.incomplete:
            yield Notice("unreadable", f"{path}: the snapshot is damaged or not complete")
        if piece.snapshot is None:
            yield Notice("begun", "with the first record of the log", 0)
            return
        end = piece.snapshot.end_offset
        try:
            load(follower, piece.snapshot)
        except TraceError as wrong:
            yield Notice("unreadable", str(wrong), end)
        if self.ledger.reads_again and end > self._read_up_to:
            missed = f"offsets {self._read_up_to} to {end - 1} were deleted before they were read"
            yield Notice("missed", missed, self._read_up_to)
        yield Notice("begun", f"with the snapshot {piece.snapshot.path.name}", end)

    def _changed(self, change: PartitionChange) -> None:
        """Store a change of a partition, so that later lines of brokers' logs are checked against it."""
        self._watermarks.change(change)
        if change.after is None:
            self._whole_at.pop(change.name, None)
        elif any(state is not None and state.is_whole for state in (change.before, change.after)):
            self._whole_at[change.name] = (change.position, change.time)

    def _close_all(self, piece: LogStart) -> Iterator[IncidentEvent]:
        """Close all incidents, because they are of an earlier log, and another log is read from here on."""
        ledger, last = self.ledger, self._tail.next_offset - 1
        yield from ledger.adopt(
            self._told, last, self.counts.last_time, 0, Reread(piece.why, 0, is_other=True)
        )
        self._told, self._read_up_to, self._seq_before = {}, 0, ledger.seq
        ledger.settled = None if self._tails is None else {}

    def _adopt(self) -> Iterator[IncidentEvent]:
        """Finish reading the log again. Yields the events for incidents that differ from the reported incidents."""
        ledger, tail = self.ledger, self._tail
        ledger.seq, differs_at = self._seq_before, tail.marks.differs_at
        new_from = self._read_up_to if differs_at is None else min(self._read_up_to, differs_at)
        reread = Reread(self._why, new_from, differs_at is not None)
        last, moment = tail.next_offset - 1, self.counts.last_time
        yield from ledger.adopt(self._told, last, moment, tail.begun_at, reread)
        if self._tails is not None and ledger.settled is None:
            ledger.settled = {}
        tail.marks.accept()
        self._told, self._read_up_to = {}, 0

    # --- partitions -------------------------------------------------------------------------------

    def _look(self, batch: RecordBatch | None = None) -> Iterator[IncidentEvent | Notice]:
        """The notices and events after a batch or, if ``batch`` is None, after all records read so far.

        Events are about partitions with new findings or an open incident, and about controllers' elections.
        """
        report, ledger, follower = self._report, self.ledger, self._follower
        assert follower is not None
        found, report.found = report.found, []
        lines, report.nonconforming = report.nonconforming, []
        offset = self._tail.next_offset - 1 if batch is None else batch.last_offset
        moment = self.counts.last_time if batch is None else batch.timestamp
        self.counts.next_offset = offset + 1
        if not ledger.reads_again:
            self.counts.nonconforming += len(lines)
            for line in lines:
                yield Notice("nonconforming", nonconforming(line), line.position["offset"])
            yield from self._doubted(follower)
        if not found and not ledger.open and len(report.controllers.elections) == ledger.elections:
            return
        yield from self._look_at(follower, ledger.take(found), offset, moment)

    def _look_at(
        self, follower: MetadataFollower, touched: set[str], offset: int, moment: int
    ) -> Iterator[IncidentEvent | Notice]:
        """The events about ``touched`` partitions, changed partitions with an open incident, and controllers.

        At the first incident that is left out, a caveat.
        """
        ledger, report, rules = self.ledger, self._report, follower.rules
        report.controllers.failures = self._watermarks.controllers.failures
        report.controllers.refused = self._watermarks.controllers.refused
        around = IncidentContext(
            rules.profile,
            not rules.rules or "eligible_leader_replicas" in rules.rules,
            self._tails is not None and self._tails.number > 0,
            report.controllers,
            self._watermarks.ends,
        )
        partitions = self._named(follower, touched | ledger.partitions)
        for name in sorted(partitions):
            partition = partitions[name]
            seen = None
            if partition is not None:
                seen = (partition.belief, partition.partition_epoch, partition.leader_epoch)
                if name not in touched and self._seen.get(name) == seen:
                    continue
                self._seen[name] = seen
            now = None if partition is None else _now(partition, self._whole_at.get(name, (-1, -1)))
            yield from self._spoken(ledger.look(name, now, around, offset, moment))
            if name not in ledger.partitions:
                self._seen.pop(name, None)
        yield from self._spoken(ledger.look_at_controllers(around, offset, moment))
        if ledger.is_full and not self._is_full:
            self._is_full = True
            self.counts.caveats += 1
            what = f"{MAX_OPEN} incidents are open: others are reported once some of these are closed"
            yield Notice("caveat", what, offset)

    def _spoken(self, events: list[IncidentEvent]) -> Iterator[IncidentEvent]:
        return iter(()) if self.ledger.reads_again else iter(events)

    def _named(self, follower: MetadataFollower, names: set[str]) -> dict[str, Partition | None]:
        found: dict[str, Partition | None] = {}
        for name in names:
            topic, _, number = name.rpartition("-")
            image = follower.image.names.get(topic)
            known = image is not None and number.isdecimal()
            found[name] = image.partitions.get(int(number)) if image is not None and known else None
        return found

    def _broker_logs(
        self, tails: BrokerTails, follower: MetadataFollower
    ) -> Iterator[IncidentEvent | Notice]:
        """The events from new lines in the brokers' logs, and notices of what cannot be read."""
        if self._looked % _LOOK_EVERY == 0:
            tails.look()
        self._looked += 1
        watermarks, image = self._watermarks, follower.image
        for event in tails.poll():
            watermarks.take(event)
        for path, why in tails.unreadable.items():
            if self._unreadable.get(path) != why:
                yield Notice("unreadable", f"{path}: {why}")
        self._unreadable = dict(tails.unreadable)

        def min_isr(name: str) -> int | None:
            partition = self._named(follower, {name})[name]
            return None if partition is None else image.effective(partition, len(partition.replicas))[0]

        new = []
        for finding in watermarks.news(min_isr):
            key = (finding.property, finding.partition, str(finding.position))
            if key not in self._seen_findings and len(self._seen_findings) < MAX_FINDINGS:
                self._seen_findings.add(key)
                is_reliable = not follower.doubts.concern(self.counts.next_offset, finding.partition)
                kip = finding.kip or RULEBOOK.origin(finding.rule)
                new.append(replace(finding, kip=kip, reliable=is_reliable))
        touched = self.ledger.take(new)
        for (name, offset), held in watermarks.complete.items():
            if self.ledger.complete(name, offset, held):
                touched.add(name)
        watermarks.complete.clear()
        if touched:
            yield from self._look_at(follower, touched, self.counts.next_offset - 1, self.counts.last_time)

    def _doubted(self, follower: MetadataFollower) -> Iterator[Notice]:
        if len(follower.doubts) == self._doubts:
            return
        listed = follower.doubts.listed()
        for doubt in listed[self._doubts :]:
            yield Notice("caveat", f"{doubt.kind}: {doubt.summary}", doubt.position["offset"])
        self._doubts = len(listed)
        self.counts.caveats = self._doubts + self._is_full

    def _count(self, follower: MetadataFollower) -> None:
        self.counts.delay = max(0.0, time.time() - self.counts.last_time / 1000)
        counts = dict.fromkeys(STATES, 0)
        for partition in follower.image.of_topics():
            belief = partition.belief
            counts["all"] += 1
            counts["offline"] += belief.leaderless
            counts["under_min_isr"] += belief.under_min_isr
            counts["at_risk"] += bool((belief.violated | belief.doubtful) - MEASURED)
            counts["elr"] += bool(belief.observed.elr)
        self.counts.partitions = counts

    def close(self) -> None:
        """Close the files of all logs."""
        self._tail.close()
        if self._tails is not None:
            self._tails.close()


def _now(partition: Partition, whole_at: tuple[int, int]) -> PartitionNow:
    """The present state of a partition in the log so far."""
    state = partition.observed
    failing = tuple(sorted((partition.belief.violated | partition.belief.doubtful) - MEASURED))
    since = partition.leaderless_since
    final = FinalState.of(partition.name, state, since, failing) if failing or since is not None else None
    return PartitionNow(state, failing, final, whole_at)
