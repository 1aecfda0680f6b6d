"""Follow one cluster: turn its growing metadata log and its brokers' logs into changes of open incidents.

A reading of the logs begins with a snapshot or the first record. If the metadata log was truncated or replaced, a new
reading begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from highwater.model.rulebook import RULEBOOK
from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.follow.tail import BrokerTails, LogStart, LogTail
from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import Gap, Snapshot
from highwater.traces.metadata.beliefs.automaton import MEASURED
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.image import Partition
from highwater.traces.metadata.replay import load
from highwater.traces.metadata.reporting import NOBODY, Watch
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.incidents import AT_RISK, LOST, UNCLEAN, WITHIN_MS, Incident, incidents
from highwater.traces.reports.observed import Controllers, FinalState, PartitionChange, PartitionState
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


# --- incidents --------------------------------------------------------------------------------------------

# After each batch of the log, the ledger examines the partitions that have new findings or an open incident. So without
# brokers' logs, the result does not depend on when the log was read.

MAX_OPEN = 10_000
"""The most incidents in ``Ledger.open``; further ones are left out. Also the most ended incidents that are kept."""
MAX_KEPT = 100
"""The most findings kept of a partition; older ones are dropped."""
_ELECTIONS = frozenset({"leader_completeness", "leader_elected_cleanly"})


@dataclass(frozen=True)
class PartitionNow:
    """The present state of a partition, according to the part of the metadata log that was read.

    ``failing`` names the properties that do not hold or may not hold. ``final`` is None if the partition has a leader
    and nothing fails. A partition is whole if it has a leader, and all replicas are in the ISR. ``whole_at`` has offset
    and time of the last change before or after which the partition was whole; (-1, -1) if there is none.
    """

    state: PartitionState
    failing: tuple[str, ...]
    final: FinalState | None
    whole_at: tuple[int, int] = (-1, -1)

    def was_whole_after(self, incident: Incident) -> bool:
        """True if the partition was whole at some time after an incident.

        The present state alone does not show this if brokers' logs reveal the incident late.
        """
        offset, time = self.whole_at
        if "offset" in incident.position:
            return bool(incident.position["offset"] < offset)
        return incident.time is not None and incident.time < time


class IncidentMaker(Protocol):
    """Calls ``incidents`` with the profile and the brokers' logs of the reading."""

    def __call__(
        self, findings: Iterable[Finding], controllers: Controllers, *, final: Mapping[str, FinalState]
    ) -> list[Incident]:
        """The incidents of these findings and elections."""


class Ledger:
    """The open incidents by id, and the findings from which they are made."""

    def __init__(self) -> None:
        self.open: dict[str, Incident] = {}
        self.ended: dict[str, Incident] = {}
        """The incidents that ended, by id; the caller empties it."""
        self.is_full = False
        """True if an incident was left out because MAX_OPEN incidents were open."""
        self.elections = 0
        """The number of controller elections examined so far."""
        self._findings: dict[str, list[Finding]] = {}
        self._severities: dict[str, str] = {}  # of ended incidents, by id

    @property
    def partitions(self) -> set[str]:
        """The partitions with an open incident."""
        return {one.partition for one in self.open.values() if one.partition is not None}

    def take(self, found: Iterable[Finding]) -> set[str]:
        """Store the findings that have a partition and facts. Returns the names of the findings' partitions."""
        touched = set()
        for finding in found:
            if finding.partition is None or not finding.facts:
                continue
            kept = self._findings.setdefault(finding.partition, [])
            kept.append(finding)
            del kept[:-MAX_KEPT]
            touched.add(finding.partition)
        return touched

    def complete(self, partition: str, offset: int, held: Mapping[str, int]) -> bool:
        """Note that the leader elected at ``offset`` had every committed record, according to the brokers' logs.

        ``held`` has the leader's LEO and the HWM. Returns True if the partition has findings, even if they are about
        other elections.
        """
        kept = self._findings.get(partition, [])
        for place, found in enumerate(kept):
            if found.position.get("offset") == offset and found.facts.get("complete") != held:
                kept[place] = replace(found, facts={**found.facts, "complete": dict(held)})
        return bool(kept)

    def look(self, partition: str, now: PartitionNow | None, make: IncidentMaker) -> None:
        """Update the incidents of one partition. ``now`` is None if the partition was deleted.

        Once no incident of the partition is open, its findings are dropped.
        """
        final = {partition: now.final} if now is not None and now.final is not None else {}
        made = make(self._findings.get(partition, []), Controllers(), final=final)
        for one in made:
            self._place(one, _is_over(one, now))
        ids = {one.id for one in made}
        for one in [o for o in self.open.values() if o.partition == partition and o.id not in ids]:
            self._place(one, True)  # it continues as another incident
        if partition not in self.partitions:
            self._findings.pop(partition, None)

    def look_at_controllers(self, controllers: Controllers, time: int, make: IncidentMaker) -> None:
        """Update the incident about repeated controller elections. ``time`` is that of the last record."""
        elections = controllers.elections
        known = [one for one in self.open.values() if one.partition is None]
        if len(elections) == self.elections and not known:
            return
        self.elections = len(elections)
        findings = (f for kept in self._findings.values() for f in kept)
        blamed = [f for f in findings if f.property == "every_broker_comes_back"]
        series = [one for one in make(blamed, controllers, final={}) if one.partition is None]
        is_over = not elections or time - elections[-1][2] > WITHIN_MS
        for one in [*known, *series]:
            self._place(one, is_over or one.id != series[-1].id)

    def _place(self, one: Incident, is_over: bool) -> None:
        """Store an incident as open or ended.

        An incident that has ended stays so. But if new evidence shows that it is a loss, it is stored again.
        """
        severity = self._severities.get(one.id)
        if severity is not None and not one.severity == LOST != severity:
            return
        if is_over:
            self.open.pop(one.id, None)
            self.ended[one.id], self._severities[one.id] = one, one.severity
            for kept in (self.ended, self._severities):
                if len(kept) > MAX_OPEN:
                    del kept[next(iter(kept))]
        elif one.id in self.open or len(self.open) < MAX_OPEN:
            self.ended.pop(one.id, None)
            self.open[one.id] = one
        else:
            self.is_full = True


def _is_over(incident: Incident, now: PartitionNow | None) -> bool:
    """True if an incident has ended; every incident ends when its partition is deleted (``now`` None).

    An incident about lost records or an election ends when the partition is whole. Any other incident ends when the
    partition has a leader and none of the incident's broken properties fails. An incident that only brokers' logs show
    also ends when the partition is whole.
    """
    if now is None:
        return True
    if incident.severity in (LOST, UNCLEAN) or not _ELECTIONS.isdisjoint(incident.broken):
        return now.state.is_whole or now.was_whole_after(incident)
    if "offset" not in incident.position and now.was_whole_after(incident):
        return True
    return now.state.leader is not None and set(incident.broken).isdisjoint(now.failing)


# --- reading ----------------------------------------------------------------------------------------------


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
        self.follower = MetadataFollower(self._report, logs.profile, logs.rules, watch)
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
        image = self.follower.image.names.get(topic)
        return image.partitions.get(int(number)) if image is not None and number.isdecimal() else None

    def close(self) -> None:
        """Close the brokers' logs."""
        self._tails.close()

    # --- the metadata log -------------------------------------------------------------------------

    def load(self, snapshot: Snapshot) -> None:
        """Begin with a snapshot. Raises TraceError if it cannot be read or is damaged."""
        load(self.follower, snapshot)

    def gap(self, path: Path, expected: int, found: int) -> None:
        """Report that offset ``found`` follows in place of ``expected``."""
        self.follower.gap(path, expected, found)

    def take(self, path: Path, batch: RecordBatch) -> Iterator[Notice]:
        """Follow the records of a batch, and update the incidents."""
        counts, report, follower = self._counts, self._report, self.follower
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
        return len(self.follower.doubts) != self._doubts or elections != self.ledger.elections

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
        if len(self.follower.doubts) != self._doubts:
            doubts = self.follower.doubts.listed()
            for doubt in doubts[self._doubts :]:
                if doubt.position["offset"] >= new_from:
                    yield Notice("caveat", f"{doubt.kind}: {doubt.summary}", doubt.position["offset"])
            self._doubts = len(doubts)
        yield from self._update(self.ledger.take(found))

    # --- brokers' logs ----------------------------------------------------------------------------

    def read_broker_logs(self) -> Iterator[Notice]:
        """Read new lines of the brokers' logs, and update the incidents. The notices are about unreadable files."""
        tails, watermarks, follower = self._tails, self._watermarks, self.follower
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
        return self.follower.image.effective(partition, len(partition.replicas))[0]

    # --- incidents and counts ---------------------------------------------------------------------

    def _update(self, touched: set[str]) -> Iterator[Notice]:
        """Update the incidents of ``touched`` partitions, of changed ones with an open incident, and of controllers."""
        ledger, report, rules = self.ledger, self._report, self.follower.rules
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
        for partition in self.follower.image.of_topics():
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


OPENED, CHANGED, CLOSED = "opened", "changed", "closed"


@dataclass(frozen=True)
class IncidentChange:
    """An incident was opened, changed or closed (``event``).

    ``offset`` and ``time`` describe the last record read: its offset in the metadata log (-1 before the first record),
    and its append time in ms since the epoch. ``was`` is the severity before a change, None if the incident is new.
    """

    event: str
    offset: int
    time: int
    incident: Mapping[str, Any]
    was: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The change as plain data for JSON, without ``was``."""
        return {"event": self.event, "offset": self.offset, "time": self.time, "incident": self.incident}


@dataclass(frozen=True)
class OpenIncidents:
    """The open incidents by id, as plain data for JSON, and the part of the log that shows them.

    It is the part from the snapshot that ends at ``begun_at`` (0: from the first record) to before ``next_offset``.
    """

    begun_at: int
    next_offset: int
    incidents: Mapping[str, Mapping[str, Any]]


class Following:
    """Follows one cluster: call ``poll`` repeatedly.

    ``before`` has the incidents that an earlier follower reported as open. They are compared with those that the
    metadata log shows once it has been read again. The log is also read again if it was truncated or replaced.
    """

    def __init__(self, logs: ClusterLogs, before: OpenIncidents | None = None) -> None:
        self._logs = logs
        self._tail = LogTail(logs.metadata, None if before is None else before.begun_at)
        self._reading: LogReading | None = None
        self._next_offset = 0 if before is None else before.next_offset  # of the last comparison
        self._compared: dict[str, Incident] = {}
        self._damage = ""
        self.counts = Counts()
        self.reported = {} if before is None else dict(before.incidents)
        """The open incidents by id, as they were reported last."""
        self.is_behind = False
        """True if the last poll read something, and left more to read."""

    @property
    def open_incidents(self) -> OpenIncidents | None:
        """The incidents reported as open; None until the log has been read to its end once."""
        if self._reading is None or self._reading.is_new:
            return None
        return OpenIncidents(self._tail.begun_at or 0, self._next_offset, dict(self.reported))

    @property
    def follower(self) -> MetadataFollower | None:
        """The follower of the metadata log; None before the log begins."""
        return None if self._reading is None else self._reading.follower

    def close(self) -> None:
        """Close the files of all logs."""
        self._tail.close()
        if self._reading is not None:
            self._reading.close()

    def poll(self) -> Iterator[IncidentChange | Notice]:
        """Read new records and lines of brokers' logs. ``counts`` is complete once the iterator is exhausted."""
        pieces = 0
        try:
            for piece in self._tail.poll():
                pieces += 1
                if isinstance(piece, LogStart):
                    yield from self._begin(piece)
                    continue
                assert self._reading is not None
                if isinstance(piece, Gap):
                    self._reading.gap(piece.path, piece.expected_offset, piece.found_offset)
                else:
                    yield from self._reading.take(*piece)
            self._damage = ""
        except TraceError as wrong:
            if str(wrong) != self._damage:  # reported once, although each poll tries again
                self._damage = str(wrong)
                self.counts.damaged += 1
                yield Notice("unreadable", str(wrong), self._tail.next_offset)
        self.counts.is_waiting = self._tail.is_waiting
        self.is_behind = pieces > 0 and self._tail.has_more
        reading = self._reading
        if reading is None:
            return
        if not self.is_behind:
            yield from reading.read_broker_logs()
            yield from self._compare(reading)
        if pieces:
            reading.count()

    def _begin(self, piece: LogStart) -> Iterator[Notice]:
        """Begin a new reading, with the snapshot if there is one."""
        if self._reading is not None:
            self._reading.close()
        read_before = max(self._next_offset, self.counts.next_offset)
        self.counts.next_offset = self._tail.next_offset
        self.counts.caveats = self.counts.damaged = 0
        reading = self._reading = LogReading(self._logs, self.counts, read_before)
        if piece.why:
            yield Notice("read again", piece.why, self._tail.next_offset)
        for path in piece.incomplete:
            yield Notice("unreadable", f"{path}: the snapshot is damaged or not complete")
        if piece.snapshot is None:
            yield Notice("begun", "with the first record of the log", 0)
            return
        end = piece.snapshot.end_offset
        try:
            reading.load(piece.snapshot)
        except TraceError as wrong:
            self.counts.damaged += 1
            yield Notice("unreadable", str(wrong), end)
        if 0 < read_before < end:
            missed = f"offsets {read_before} to {end - 1} were deleted before they were read"
            yield Notice("missed", missed, read_before)
        yield Notice("begun", f"with the snapshot {piece.snapshot.path.name}", end)

    # --- comparing --------------------------------------------------------------------------------

    def _compare(self, reading: LogReading) -> Iterator[IncidentChange]:
        """The differences between the reported incidents and those that ``reading`` shows now.

        An incident that ended since the last comparison is reported even if it was not reported as open. But an
        incident that a new reading shows as ended, from a record that was read before, has been reported before.
        """
        ledger, reported = reading.ledger, self.reported
        for id, one in ledger.ended.items():
            offset = one.position.get("offset", self._next_offset)
            if id not in reported and (not reading.is_new or offset >= self._next_offset):
                yield self._change(OPENED, self._as_reported(one))
            if id in reported:
                yield self._change(CLOSED, self._as_reported(one))
        ledger.ended.clear()
        for id, one in ledger.open.items():
            if one is self._compared.get(id):
                continue
            if id not in reported:
                yield self._change(OPENED, self._as_reported(one))
            elif (now := self._as_reported(one)) != reported[id]:
                yield self._change(CHANGED, now)
        self._compared = dict(ledger.open)
        for id in sorted(reported.keys() - ledger.open.keys()):
            if self._has_ended(reading, reported[id]):
                yield self._change(CLOSED, reported[id])
        if reading.has_caught_up:
            reading.is_new = False
            self._next_offset = max(self._next_offset, self._tail.next_offset)

    def _as_reported(self, one: Incident) -> Mapping[str, Any]:
        """An incident as it is reported: as before, if the lines that decided it are in rotated logs of brokers."""
        known = self.reported.get(one.id)
        if known is not None and known["severity"] in (LOST, UNCLEAN) and one.severity == AT_RISK:
            return known
        return {**one.to_json(), "group": one.id}

    def _has_ended(self, reading: LogReading, incident: Mapping[str, Any]) -> bool:
        """True if an incident has ended that an earlier reading has shown, but this one has not.

        It has ended if its partition is whole or was deleted, or if its record was read again. But the lines of
        brokers' logs that show a loss may have been rotated.
        """
        partition = reading.partition(incident["partition"])
        if partition is not None and partition.observed.is_whole:
            return True
        if self._tail.has_more and self._tail.next_offset < self._next_offset:
            return False  # the log is damaged before the offset that was read
        is_again = incident["position"].get("offset", -1) >= (self._tail.begun_at or 0)
        return partition is None or (is_again and incident["severity"] != LOST)

    def _change(self, event: str, incident: Mapping[str, Any]) -> IncidentChange:
        id = incident["id"]
        known = self.reported.pop(id, None)
        if event != CLOSED:
            self.reported[id] = incident
        was = None if known is None else known["severity"]
        return IncidentChange(event, self.counts.next_offset - 1, self.counts.last_time, incident, was)
