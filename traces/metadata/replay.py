"""Replay of a metadata log. It may begin with a snapshot, and is compared with each later snapshot."""

from __future__ import annotations

import gc
import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import LOG, Gap, MetadataLog, Snapshot
from highwater.traces.kafka.values import (
    KEYS,
    LATEST,
    TYPES,
    DamagedRecord,
    MetadataRecord,
    UnknownRecord,
    api_key,
    decode,
    kind,
    undefined,
)
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.image import BROKER, TOPIC, Image
from highwater.traces.metadata.records import partition_state, supported_by
from highwater.traces.metadata.reporting import NOBODY, Watch
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import Damage
from highwater.traces.reports.observed import MIN_ISR, UNCLEAN
from highwater.traces.reports.report import Report

SKIPPED = frozenset(TYPES) - {
    KEYS[name]
    for name in (
        "TOPIC_RECORD", "PARTITION_RECORD", "REGISTER_BROKER_RECORD", "CONFIG_RECORD", "FEATURE_LEVEL_RECORD",
    )
}  # fmt: skip
"""The known record types that are skipped when a snapshot is compared."""
_OF_ELR = ("elr", "lastKnownElr")
LIMIT = 20
"""The maximum number of reported differences of one snapshot."""


_SETTINGS = frozenset(KEYS[name] for name in ("CONFIG_RECORD", "FEATURE_LEVEL_RECORD"))


def load(follower: MetadataFollower, snapshot: Snapshot) -> None:
    """Load a snapshot, without checks of its records. Raises TraceError if it cannot be read or is damaged.

    Settings are loaded first, although Kafka writes them after the partitions, because partitions depend on them.
    """
    with follower.loading():
        for of_settings in (True, False):
            for batch in snapshot.batches():
                follower.take(snapshot.path, _part(batch, of_settings))


def _part(batch: RecordBatch, of_settings: bool) -> RecordBatch:
    """The records of settings in a batch, or with ``of_settings`` False all other records."""
    if batch.control:
        return batch._replace(offsets=(), values=[]) if of_settings else batch
    found = [i for i, value in enumerate(batch.values) if (kind(value or b"") in _SETTINGS) == of_settings]
    return batch._replace(
        offsets=[batch.offsets[i] for i in found],
        values=[batch.values[i] for i in found],
    )


Difference = tuple[str | None, dict[str, tuple[Any, Any]]]
"""The partition (or None), and by field the replay's and the snapshot's value."""


def compare(snapshot: Snapshot, follower: MetadataFollower) -> None:
    """Compare a snapshot with the image at its offset. A snapshot that cannot be read is reported as damage."""
    report = follower.report
    follower.follow_held()
    try:
        found = _differences(follower, snapshot)
    except TraceError as unreadable:
        place: dict[str, int | str] = {"file": str(snapshot.path)}
        report.damage.append(Damage(f"{unreadable}: not compared", place, snapshot.end_offset))
        return
    if found is None:
        return
    report.figures["snapshots compared"] = report.figures.get("snapshots compared", 0) + 1
    if len(found) > LIMIT:
        report.notes.append(f"{snapshot.path}: more than {LIMIT} differences")
    for partition, wrong in found[:LIMIT]:
        what = f"the snapshot {snapshot.path.name}"
        follower.reporter.wrong(snapshot.end_offset, None, partition, what, wrong)
    follower.publish()


def _differences(follower: MetadataFollower, snapshot: Snapshot) -> list[Difference] | None:
    """The first ``LIMIT`` + 1 differences from a snapshot, in the order of partitions' names.

    None, so that nothing is compared, if the log lacks its beginning, or if the snapshot has an unknown record; then a
    doubt is added. Raises TraceError if the snapshot cannot be read or is damaged.
    """
    # With ELR off, a snapshot omits the ELRs that partitions still have (K9).
    has_elr = "eligible_leader_replicas" in follower.automaton().beliefs.rules
    found = compare_snapshot(follower.image, snapshot, has_elr)
    try:
        if follower.lacks_beginning:
            return None
        return heapq.nsmallest(LIMIT + 1, found, key=lambda difference: difference[0] or "")
    except UnknownRecord as unknown:
        what = f"{snapshot.path.name} is not compared: {unknown}"
        follower.doubt("unknown record", what, snapshot.end_offset, ())
        return None


def compare_snapshot(image: Image, snapshot: Snapshot, has_elr: bool = True) -> Iterator[Difference]:
    """Yield the differences between a snapshot and the state that the records before it lead to.

    ``has_elr`` False: the snapshot omits ELRs. Partitions that could not be followed are not compared. Raises
    TraceError if the snapshot cannot be read, and UnknownRecord if it has an unknown record.
    """
    unfollowed = set(image.unfollowed.values())
    topics: dict[str, str] = {}
    seen: set[tuple[str, int]] = set()
    brokers: set[int] = set()
    features: set[str] = set()
    configs: dict[tuple[int, str, str], str] = {}
    for record in _records(snapshot):
        data = record.data
        if (wrong := undefined(record.type, data)) and record.type != "PARTITION_RECORD":
            yield None, {f"{record.type}.{field}": pair for field, pair in wrong.items()}
        match record.type:
            case "TOPIC_RECORD":
                topics[data["topicId"]] = data["name"]
            case "PARTITION_RECORD":
                name = topics.get(data["topicId"], "")
                seen.add((name, data["partitionId"]))
                if f"{name}-{data['partitionId']}" in unfollowed:
                    continue
                wrong = wrong or _partition(image, name, data)
                if not has_elr:
                    wrong = {f: pair for f, pair in wrong.items() if f not in _OF_ELR or pair[1]}
                if wrong:
                    yield f"{name}-{data['partitionId']}", wrong
            case "REGISTER_BROKER_RECORD":
                brokers.add(data["brokerId"])
                wrong = _broker(image, data)
                if wrong:
                    yield None, wrong
            case "CONFIG_RECORD":
                if data["name"] in (MIN_ISR, UNCLEAN) and data["resourceType"] in (TOPIC, BROKER):
                    configs[(data["resourceType"], data["resourceName"], data["name"])] = data["value"]
            case "FEATURE_LEVEL_RECORD":
                features.add(data["name"])
                ours = image.features.get(data["name"])
                if ours != data["featureLevel"]:
                    yield None, {f"feature {data['name']}": (ours, data["featureLevel"])}
    for partition in image.of_topics():
        if partition.topic is not None and (partition.topic.name, partition.number) not in seen:
            yield partition.name, {"partition": ("exists", "not in the snapshot")}
    for broker in sorted(set(image.brokers) - brokers):
        yield None, {f"broker {broker}": ("registered", "not in the snapshot")}
    for name in sorted({name for name, level in image.features.items() if level} - features):
        yield None, {f"feature {name}": (image.features[name], "not in the snapshot")}
    ours_all = {(*r, name): v for r, found in image.configs.items() for name, v in found.items()}
    for key in sorted({*ours_all, *configs}):
        if ours_all.get(key) != configs.get(key):
            yield None, {f"{key[2]} of {key[1] or 'all'}": (ours_all.get(key), configs.get(key))}


def _records(snapshot: Snapshot) -> Iterator[MetadataRecord]:
    for batch in snapshot.batches():
        if batch.control:
            continue
        for offset, value in zip(batch.offsets, batch.values, strict=False):
            try:
                if api_key(value or b"")[0] in SKIPPED:
                    continue
                record = decode(value or b"")
            except DamagedRecord as wrong:
                raise TraceError(snapshot.path, None, f"record {offset}", str(wrong)) from None
            if record.version > LATEST[record.type]:
                raise UnknownRecord(KEYS[record.type], record.version)
            yield record


def _partition(image: Image, topic: str, data: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    known = image.names.get(topic)
    partition = None if known is None else known.partitions.get(data["partitionId"])
    if partition is None:
        return {"partition": ("does not exist", "in the snapshot")}
    theirs = partition_state(data).to_json()
    ours = partition.observed.to_json()
    wrong = {}
    for name, value in ours.items():
        ordered = name == "replicas" or not isinstance(value, list)
        if (value if ordered else sorted(value)) != (theirs[name] if ordered else sorted(theirs[name])):
            wrong[name] = (value, theirs[name])
    if partition.directories and (listed := data.get("directories")):
        here = dict(zip(partition.replicas, partition.directories, strict=False))
        there = dict(zip(data["replicas"], listed, strict=False))
        if here != there:
            wrong["directories"] = (list(partition.directories), list(listed))
    return wrong


def _broker(image: Image, data: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    name = f"broker {data['brokerId']}"
    known = image.brokers.get(data["brokerId"])
    if known is None:
        return {name: ("not registered", "in the snapshot")}
    pairs = {
        "brokerEpoch": (known.epoch, data["brokerEpoch"]),
        "incarnationId": (known.incarnation, data["incarnationId"]),
        "fenced": (known.flags.fenced, data["fenced"]),
        "inControlledShutdown": (
            known.flags.in_controlled_shutdown,
            data.get("inControlledShutdown", False),
        ),
    }
    theirs = supported_by(data)
    if theirs and known.supported:
        pairs["features"] = (known.supported, theirs)
    if known.directories and (listed := data.get("logDirs")):
        pairs["logDirs"] = (sorted(known.directories), sorted(listed))
    return {f"{name}.{field}": pair for field, pair in pairs.items() if pair[0] != pair[1]}


# --- replay into a report ---

COLLECTED_AFTER = 1_000_000
"""The number of new objects after which Python collects garbage during replay; replay makes almost no garbage."""
PROGRESS_EVERY = 500
"""The number of batches between two calls of the progress function."""


def replay_metadata(
    log: MetadataLog,
    report: Report,
    profile: str | None = None,
    switched: Mapping[str, bool] | None = None,
    watch: Watch = NOBODY,
    progress: Callable[[Report], None] | None = None,
) -> MetadataFollower:
    """Follow a metadata log from its start, and compare it with its snapshots.

    Returns the follower, whose image is that at the end of the log.

    After a KeyboardInterrupt the report has the results so far (``Report.interrupted``). The same holds if damage
    follows readable records (``Report.damage``). Raises TraceError if nothing can be read, LanguageError if the profile
    or a rule does not exist.
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
        follower.follow_held()
    except KeyboardInterrupt:
        report.interrupted = True
    except TraceError as wrong:
        if not report.records:
            raise
        report.damage.append(reading.damage(wrong))
    follower.finish()
    report.notes = list(log.notes) + report.notes
    report.seconds = time.perf_counter() - started
    return follower


@contextmanager
def rarely_collected(objects: int = COLLECTED_AFTER) -> Iterator[None]:
    """Context manager: Python collects garbage after ``objects`` new objects.

    With Python's default number, the collection takes a fifth of the replay's time.
    """
    before = gc.get_threshold()
    gc.set_threshold(objects, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Reading:
    """The replay of one log, with the position that it has reached."""

    def __init__(self, log: MetadataLog, follower: MetadataFollower, report: Report) -> None:
        self._log, self._follower, self._report = log, follower, report
        self._sequence = Sequence(log)
        self._taken: tuple[Path, RecordBatch] | None = None
        self._followed_up_to = self._sequence.next_offset

    def followed(self) -> Iterator[None]:
        """Follow the log, and yield after each batch. Raises TraceError if the log cannot be read any further."""
        log, follower, report, sequence = self._log, self._follower, self._report, self._sequence
        if log.start is not None:
            report.notes.append(begins_with(log.start))
            load(follower, log.start)
        for found in sequence.entries(log.batches()):
            if isinstance(found, Gap):
                follower.gap(found.path, found.expected_offset, found.found_offset)
            elif isinstance(found, Snapshot):
                compare(found, follower)
            else:
                self._taken = found
                follower.take(*found)
                self._taken, self._followed_up_to = None, found[1].last_offset + 1
                yield
        for snapshot in sequence.checks:
            if snapshot.end_offset == sequence.next_offset:
                compare(snapshot, follower)
            else:
                report.notes.append(not_compared(snapshot, sequence.next_offset))

    def damage(self, wrong: TraceError) -> Damage:
        """The place of an error in the log, and how much of the log cannot be read because of it."""
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
    """The note about a log that begins with a snapshot."""
    return (
        f"begins with the snapshot at offset {start.end_offset}; assumes that ISR and ELR members held "
        "every committed record then"
    )


def not_compared(snapshot: Snapshot, next_offset: int) -> str:
    """The note about a snapshot whose end offset the log skips."""
    return (
        f"{snapshot.path}: ends at offset {snapshot.end_offset}, and the log at {next_offset}: not compared"
    )


class Sequence:
    """A log's batches, a ``Gap`` wherever offsets are missing, and its snapshots, in the order of offsets.

    A snapshot at offset 0 has what the first controller will write, so there is nothing to compare it with.

    ``checks`` are the snapshots that are not reached yet, ``next_offset`` is the offset after the last batch.
    """

    def __init__(self, log: MetadataLog) -> None:
        start = log.start
        self.next_offset = 0 if start is None else start.end_offset
        self.checks = [s for s in log.snapshots if s.end_offset > self.next_offset]

    def entries(
        self, batches: Iterable[tuple[Path, RecordBatch] | Gap]
    ) -> Iterator[tuple[Path, RecordBatch] | Gap | Snapshot]:
        """Iterate over batches, gaps and snapshots in order. Raises the TraceError of ``batches``."""
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
    """The first gap of offsets within a batch; None if there is none.

    A gap is damage: a metadata log is never compacted (KIP-630).
    """
    if len(batch.offsets) == batch.last_offset - batch.base_offset + 1:
        return None
    expected = batch.base_offset
    for offset in (*batch.offsets, batch.last_offset + 1):
        if offset != expected:
            return Gap(path, batch.position, expected, offset)
        expected += 1
    return None
