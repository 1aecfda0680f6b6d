"""Replay of a metadata log into a report."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import LOG, Gap, MetadataLog, Snapshot
from highwater.traces.metadata import snapshots
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.reporting.reporter import NOBODY, Watch
from highwater.traces.reading.errors import TraceError
from highwater.traces.reports.findings import Damage
from highwater.traces.reports.report import Report

COLLECTED_AFTER = (100_000, 20, 100)
"""Thresholds of Python's garbage collector while a log is followed: the tables have no garbage, and are large."""
PROGRESS_EVERY = 500
"""So many batches are followed between two calls of the progress function."""


def replay_metadata(
    log: MetadataLog,
    report: Report,
    profile: str | None = None,
    switched: Mapping[str, bool] | None = None,
    watch: Watch = NOBODY,
    progress: Callable[[Report], None] | None = None,
) -> dict[str, int]:
    """Follow a metadata log from its start, and hold its snapshots against what was followed.

    Returns the effective min ISR of the partitions at the end, by name, as far as the log says it.

    KeyboardInterrupt ends it with what was found so far (``Report.interrupted``), and so does what cannot be read
    behind records that could (``Report.damage``). Raises TraceError where nothing can be read, LanguageError where the
    profile or a rule does not exist.
    """
    started = time.perf_counter()
    follower = MetadataFollower(report, profile, switched, watch)
    reading = Reading(log, follower, report)
    try:
        with rarely_collected():
            for number, _ in enumerate(reading.followed()):
                if number % PROGRESS_EVERY == 0:
                    report.seconds = time.perf_counter() - started
                    report.bytes_read, report.bytes_total = log.bytes_read, log.bytes_total
                    if progress is not None:
                        progress(report)
        follower.settle()
    except KeyboardInterrupt:
        report.interrupted = True
    except TraceError as wrong:
        if not report.records:
            raise
        report.damage.append(reading.damage(wrong))
    follower.finish()
    report.notes = list(log.notes) + report.notes
    report.seconds = time.perf_counter() - started
    return follower.image.min_isr()


@contextmanager
def rarely_collected() -> Iterator[None]:
    """While garbage is looked for less often: a fifth of the time would go into walking the tables."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTED_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


Check = Callable[[Snapshot, MetadataFollower], None]
"""Holds a snapshot against the image at its offset."""


class Reading:
    """A log while it is followed. ``place`` is that of the batch that was read last, None before the first."""

    def __init__(
        self, log: MetadataLog, follower: MetadataFollower, report: Report, check: Check | None = None
    ) -> None:
        self._log, self._follower, self._report = log, follower, report
        self._check = check or compare
        self._sequence = Sequence(log)
        self._taken: tuple[Path, RecordBatch] | None = None
        self._followed_up_to = self._sequence.next_offset

    def followed(self) -> Iterator[None]:
        """Follow the log, batch by batch. Raises TraceError."""
        log, follower, report, sequence = self._log, self._follower, self._report, self._sequence
        if log.start is not None:
            report.notes.append(begins_with(log.start))
            snapshots.load(follower, log.start)
        for found in sequence.entries(log.batches()):
            if isinstance(found, Gap):
                follower.gap(found.path, found.expected_offset, found.found_offset)
            elif isinstance(found, Snapshot):
                self._check(found, follower)
            else:
                self._taken = found
                follower.take(*found)
                self._taken, self._followed_up_to = None, found[1].last_offset + 1
                yield
        for snapshot in sequence.checks:
            if snapshot.end_offset == sequence.next_offset:
                self._check(snapshot, follower)
            else:
                report.notes.append(not_compared(snapshot, sequence.next_offset))

    def damage(self, wrong: TraceError) -> Damage:
        """What is lost with what could not be read."""
        position: dict[str, int | str] = {"file": wrong.path}
        byte, line, offset = wrong.byte, wrong.line, self._followed_up_to
        if self._taken is not None:
            path, batch = self._taken
            offset = batch.base_offset
            if self._log.kind == LOG:
                byte = batch.position
            else:
                line = batch.position
            position = {"file": str(path)}
        if byte is not None:
            position["byte"] = byte
        if line is not None:
            position["line"] = line
        names = [str(segment.path) for segment in self._log.segments]
        lost = behind = None
        if position["file"] in names:
            number = names.index(str(position["file"]))
            behind = len(names) - number - 1
            if byte is not None:
                lost = self._log.segments[number].size - byte
        return Damage(str(wrong), position, offset, lost, behind or 0)


def begins_with(start: Snapshot) -> str:
    """The note on a log that begins with a snapshot."""
    return (
        f"begins with the snapshot at offset {start.end_offset}; supposed is that ISR and ELR members held "
        "every committed record then"
    )


def not_compared(snapshot: Snapshot, next_offset: int) -> str:
    """The note on a snapshot that does not end where the log is known."""
    return (
        f"{snapshot.path}: ends at offset {snapshot.end_offset}, and the log at {next_offset}: not compared"
    )


class Sequence:
    """The batches of a log's segments, with the gaps between and within them, and the snapshots in their places.

    ``checks`` are the snapshots that are still to come, ``next_offset`` is that behind the last batch.
    """

    def __init__(self, log: MetadataLog) -> None:
        start = log.start
        self.next_offset = 0 if start is None else start.end_offset
        self.checks = [s for s in log.snapshots if start is None or s.end_offset > start.end_offset]

    def entries(
        self, batches: Iterable[tuple[Path, RecordBatch] | Gap]
    ) -> Iterator[tuple[Path, RecordBatch] | Gap | Snapshot]:
        """All of it in order. Raises TraceError."""
        for found in batches:
            if not isinstance(found, Gap):
                path, batch = found
                within = _gap_within(path, batch)
                if within is not None:
                    yield within
                while self.checks and self.checks[0].end_offset <= batch.base_offset:
                    yield self.checks.pop(0)
                self.next_offset = batch.last_offset + 1
            yield found


def _gap_within(path: Path, batch: RecordBatch) -> Gap | None:
    """Where offsets are missing within a batch: a metadata log is never compacted (KIP-630)."""
    if len(batch.offsets) == batch.last_offset - batch.base_offset + 1:
        return None
    expected = batch.base_offset
    for offset in (*batch.offsets, batch.last_offset + 1):
        if offset != expected:
            return Gap(path, batch.position, expected, offset)
        expected += 1
    return None


def compare(snapshot: Snapshot, follower: MetadataFollower) -> None:
    """Hold a snapshot against the image at its offset; one that cannot be read is damage, and not compared."""
    report = follower.report
    follower.settle()
    try:
        found = snapshots.differences(follower, snapshot)
    except TraceError as unreadable:
        place: dict[str, int | str] = {"file": str(snapshot.path)}
        report.damage.append(Damage(f"{unreadable}: not compared", place, snapshot.end_offset))
        return
    report.figures["snapshots compared"] = report.figures.get("snapshots compared", 0) + 1
    if len(found) > snapshots.LIMIT:
        report.notes.append(snapshots.more_than_limit(snapshot))
    for partition, wrong, common in found[: snapshots.LIMIT]:
        what = f"the snapshot {snapshot.path.name}"
        follower.reporter.wrong(snapshot.end_offset, None, partition, what, wrong, common)
    follower.publish()
