"""The follower of a metadata log: it groups the records of a batch, of a split decision, or of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TypeGuard

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.values import (
    AFTER_KEY,
    BEFORE_KEY,
    CHANGE,
    KEY,
    KEYS,
    LATEST,
    TYPES,
    DamagedRecord,
    UnknownRecord,
    api_key,
    are_framed,
    are_quick,
    change_of,
    decode,
    kind,
    number_and_topic,
    partition_key,
    undefined,
)
from highwater.traces.metadata.beliefs.evidence import Change
from highwater.traces.metadata.image import Partition, loses_replica
from highwater.traces.metadata.pending import Pending
from highwater.traces.metadata.records import BROKER_HANDLERS, TOPIC_HANDLERS, after_group
from highwater.traces.metadata.tracker import BEFORE, LogRecord, Tracker
from highwater.traces.reading import TraceError, printable
from highwater.traces.reports.findings import Finding, Unexplained

_BEGIN, _END, _ABORT = (KEYS[f"{what}_TRANSACTION_RECORD"] for what in ("BEGIN", "END", "ABORT"))
MAX_TRANSACTION = 1_000_000
"""The maximum number of records of a metadata transaction, which are kept until it ends."""
NOT_KNOWN = "not known whether they conform"
"""The name of the figure that counts such records."""
SPLIT = 10_000
"""Kafka's limit of records in a batch; the controller appends a larger decision in several batches."""

Record = tuple[int, int, bytes]
"""Offset, time in ms since the epoch, value."""


class RecordGroups:
    """Divides the records of batches into groups. The records of an incomplete group wait for the rest.

    Some records are not followed, for example those of an aborted transaction; ``skipped`` is called with their kind
    and number. ``damaged`` makes the error to raise if a record makes its transaction too large.
    """

    def __init__(
        self, skipped: Callable[[str, int], None], damaged: Callable[[int, str], TraceError]
    ) -> None:
        self._skipped, self._damaged = skipped, damaged
        self._transaction: list[Record] | None = None
        self._begun: Record | None = None
        self._held: tuple[list[int], list[bytes]] | None = None
        self._held_time = 0

    def are_alone(self, values: list[bytes | None]) -> TypeGuard[list[bytes]]:
        """True if each record of a batch is a group of its own: a change of a partition, or a NO_OP_RECORD."""
        full = len(values) % SPLIT == 0 and len(values) > 0
        return not full and self._transaction is None and self._held is None and are_quick(values)

    def take(self, offsets: Sequence[int], time: int, values: Sequence[bytes]) -> Iterator[list[Record]]:
        """The groups that a batch completes. Raises TraceError if a transaction is too large."""
        if self._held is not None:
            earlier, kept = self._held
            offsets, values = [*earlier, *offsets], [*kept, *values]
            self._held = None
        full = len(values) % SPLIT == 0 and kind(values[-1]) == CHANGE
        if full and len(values) < MAX_TRANSACTION:
            self._held, self._held_time = (list(offsets), list(values)), time
            return
        yield from self._divided(offsets, time, values)

    def release(self) -> Iterator[list[Record]]:
        """Return the held records in groups, although the next batch of their decision is missing.

        Raises TraceError if a transaction is too large.
        """
        if self._held is not None:
            offsets, values = self._held
            self._held = None
            yield from self._divided(offsets, self._held_time, values)

    def close(self) -> Iterator[list[Record]]:
        """Yield the BEGIN record of the transaction that is open at the end of the log, if any, as a group."""
        if self._transaction is not None and self._begun is not None:
            yield [self._begun]

    def note(self) -> str | None:
        """A note about a transaction that has not ended at the end of the log; None if there is none."""
        if self._transaction is None:
            return None
        return f"the log ends within a metadata transaction of {len(self._transaction)} records"

    def _divided(self, offsets: Sequence[int], time: int, values: Sequence[bytes]) -> Iterator[list[Record]]:
        """The groups in these records: each transaction is a group, and so are the records between two transactions."""
        group: list[Record] = []
        for offset, value in zip(offsets, values, strict=True):
            if self._transaction is None and kind(value) != _BEGIN:
                group.append((offset, time, value))
                continue
            if group:
                yield group
                group = []
            ended = self._in_transaction(offset, time, value)
            if ended:
                yield ended
        if group:
            yield group

    def _in_transaction(self, offset: int, time: int, value: bytes) -> list[Record] | None:
        """Hold the records between BEGIN and END. At the END, return them as a group; at other records, return None.

        An ABORT discards the held records. Another BEGIN discards them too, and returns the former BEGIN as a group.
        Raises TraceError if the transaction is too large.
        """
        key, kept = kind(value), self._transaction
        if key in (_BEGIN, _END, _ABORT):
            self._skipped(TYPES[key], 1)
        if key == _BEGIN or kept is None:
            unended = None if kept is None or self._begun is None else [self._begun]
            self._transaction, self._begun = [], (offset, time, value)
            return unended
        if key == _END:
            self._transaction = None
            return kept
        elif key == _ABORT:
            self._transaction = None
            self._skipped("records of an aborted transaction", len(kept))
        elif len(kept) < MAX_TRANSACTION:
            kept.append((offset, time, value))
        else:
            raise self._damaged(offset, f"a metadata transaction of more than {MAX_TRANSACTION} records")
        return None


# The follower: batches, groups of records in them, and each record by its type.

_HANDLERS = {KEYS[name]: handler for name, handler in (BROKER_HANDLERS | TOPIC_HANDLERS).items()}
_FEATURE = KEYS["FEATURE_LEVEL_RECORD"]


class MetadataFollower(Tracker):
    """A ``Tracker`` that reads the batches of a log."""

    last_time = 0
    """The latest append time so far, in ms since 1970."""
    _epoch: int | None = None
    _not_known = -1
    """The offset of the last record that ``NOT_KNOWN`` counts."""

    @cached_property
    def groups(self) -> RecordGroups:
        """Divides the log's records into groups, and holds an incomplete group."""
        return RecordGroups(self.reporter.skipped, self.damaged)

    # --- batches ------------------------------------------------------------------------------------

    def take(self, path: Path, batch: RecordBatch) -> None:
        """Follow the records of one batch. Raises TraceError if a record in it cannot be read."""
        self.path = path
        if batch.leader_epoch != self._epoch and not self.is_loading:
            for group in self.groups.release():
                self.cut_off(group)
            self.written_by(batch.leader_epoch, batch.base_offset, batch.timestamp)
        values, time = batch.values, batch.timestamp
        self.report.records += len(values)
        if batch.control:
            self.reporter.skipped("control records", len(values))
            return
        if time > self.last_time:
            self.last_time = time
        if self.groups.are_alone(values):
            self.changes(batch.offsets, time, values)
        elif not are_framed(values):
            raise self.damaged(batch.base_offset, "a record without a value")
        else:
            for group in self.groups.take(batch.offsets, time, values):
                self.group(group)
        if self.reporter.has_lines:
            self.publish()

    def changes(self, offsets: Sequence[int], time: int, values: Sequence[bytes]) -> None:
        """Follow changes of partitions, each a decision of its own. Raises TraceError if a change cannot be read."""
        partitions, no_ops, followed = self.image.partitions, 0, set[int]()
        for position, value in enumerate(values):
            if value[1] != CHANGE:
                no_ops += 1
                continue
            if position in followed:
                continue
            partition = partitions.get(value[KEY])
            if partition is None:
                self._unknown_partition(offsets[position], time, value)
                continue
            change = value[BEFORE_KEY] + value[AFTER_KEY]
            transition = partition.transition(change)
            if self.take_plain(partition, transition, time):
                continue
            observations, places = [Change(change)], [offsets[position]]
            if transition is None and self.follows_directories:
                of_assignment = self._of_assignment(partition, change, position, values)
                if of_assignment is not None:
                    other, more = of_assignment
                    followed.add(other)
                    observations.append(Change(more))
                    places.append(offsets[other])
            self.follow(partition, observations, places, time, transition)
            self.index()
        self.reporter.skipped("NO_OP_RECORD", no_ops)

    def _of_assignment(
        self, partition: Partition, change: bytes, position: int, values: Sequence[bytes]
    ) -> tuple[int, bytes] | None:
        """The change that follows from the change at ``position``, if that puts a replica into an offline directory.

        It is the partition's next change in the batch, returned as position and content. None if there is no next
        change, or if the change at ``position`` puts no replica into an offline directory.
        """
        if not loses_replica(self.image, self.fields, partition, change):
            return None
        for other in range(position + 1, len(values)):
            found = change_of(values[other])
            if found is not None and found[0] == partition.key:
                return other, found[1]
        return None

    def written_by(self, epoch: int, offset: int, time: int) -> None:
        """Note that the controller with leader epoch ``epoch`` wrote the records from ``offset`` on.

        ``time`` is the time at which it appended the first of them, in ms since 1970.
        """
        before, self._epoch = self._epoch, epoch
        self.report.controllers.elected(epoch, offset, time)
        if before not in (None, epoch):
            self.after_failover()

    def cut_off(self, records: Sequence[Record]) -> None:
        """Follow the records of a decision that the controller did not write completely.

        Raises TraceError if a record cannot be read.
        """
        self.is_last = True
        self.group(records)
        self.is_last = False

    def follow_held(self) -> None:
        """Follow the records held for an incomplete decision, although the rest may still come."""
        for group in self.groups.release():
            self.cut_off(group)
        self.publish()

    def publish(self) -> None:
        """Add the lines since the last call to the report, in the order of offsets and partitions.

        A record that does not conform is one line, whatever number of partitions it concerns; of a snapshot, each
        partition has a line.
        """
        if self.reporter.has_lines:
            self.check_features()
        known: dict[tuple[int, str | None], Unexplained] = {}
        for line in self.reporter.drain():
            marked, offset = self.doubts.marked(line), line.position["offset"]
            if isinstance(marked, Finding):
                self.report.find(marked)
            elif marked is not None:
                place = offset, marked.partition if marked.time is None else None
                first = known.get(place)
                if first is None or marked.reliable > first.reliable:
                    known[place] = marked
                elif first.partition == marked.partition:
                    known[place] = replace(first, candidates=first.candidates + marked.candidates)
            elif isinstance(line, Unexplained) and offset > self._not_known:
                self._not_known = offset
                self.report.figures[NOT_KNOWN] = self.report.figures.get(NOT_KNOWN, 0) + 1
        for line in known.values():
            self.report.add(line)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """While inside, a snapshot is loaded: its records are states, not changes."""
        self.is_loading = True
        try:
            yield
        finally:
            self.is_loading = False

    def gap(self, path: Path, expected: int, found: int) -> None:
        """Report missing offsets, or offsets that occur twice: offset ``found`` follows in place of ``expected``."""
        self.path = path
        if not expected:
            self.lacks_beginning = True
            summary = f"begins at offset {found} without a snapshot: copy the *.checkpoint too"
            self.doubt("missing beginning", summary, found)
            return
        self.reporter.wrong(found, None, None, "append the next record", {"offset": (expected, found)})
        self.publish()
        there = (
            f"offsets {expected} to {found - 1} are missing" if found > expected else "offsets occur twice"
        )
        self.doubt("missing records", there, found)

    def finish(self) -> None:
        """End the log: follow incomplete groups, and add the profile and the doubts to the report."""
        self.follow_held()
        for group in self.groups.close():
            self.group(group)
        if note := self.groups.note():
            self.report.notes.append(note)
        self.close(self.last_time)
        self.report.profile, self.report.rules = self.rules.profile, tuple(sorted(self.rules.rules))
        self.report.doubts = self.doubts.listed()

    # --- records --------------------------------------------------------------------------------------

    def group(self, records: Sequence[Record]) -> None:
        """Follow the records of one group (``RecordGroups``). Raises TraceError if one of them cannot be read."""
        pending, partitions = Pending(self, records[0][1]), self.image.partitions
        for offset, time, value in records:
            key = value[1]
            if self.has_new_features and key != _FEATURE:
                self.automaton()
            if key != CHANGE:
                self._record(pending, offset, time, value)
            elif (partition := partitions.get(value[KEY])) is not None:
                pending.change(partition, value[BEFORE_KEY] + value[AFTER_KEY], offset)
            else:
                pending.elsewhere(offset)
                self._unknown_partition(offset, time, value)
        pending.flush()
        self.automaton()
        after_group(self, pending, records[-1][1])

    def _record(self, pending: Pending, offset: int, time: int, value: bytes) -> None:
        pending.other(offset)
        try:
            key, _ = api_key(value)
            # ``decode`` raises UnknownRecord for a type that only a dump names.
            known = None if key in TYPES and key not in _HANDLERS else decode(value)
        except UnknownRecord as unknown:
            self._unreadable(pending, offset, value, unknown)
            return
        except DamagedRecord as wrong:
            raise self.damaged(offset, str(wrong)) from None
        if known is None:
            self.reporter.skipped(TYPES[key])
            return
        record = LogRecord(offset, time, *known, partition_key(value))
        self.is_newer(record.type, record.version, offset)
        if wrong_values := undefined(*known[::2]):
            self._undefined(pending, record, wrong_values)
            return
        _HANDLERS[key](self, pending, record)
        for listener in self.watch.on_record:
            listener(-1 if self.is_loading else offset, time, record.type, record.data)

    def _unreadable(self, pending: Pending, offset: int, value: bytes, unknown: UnknownRecord) -> None:
        """Handle a record of an unknown type or version: its changes are unknown."""
        pending.flush()
        if unknown.type is None or unknown.type not in LATEST:
            what = f"type {unknown.key}" if unknown.key is not None else printable(unknown.type or "", 100)
            self.reporter.skipped(f"{what} version {unknown.version}")
            self.doubt("unknown record", f"unknown record: {what}, version {unknown.version}", offset)
            return
        self.reporter.skipped(f"{unknown.type} version {unknown.version}")
        partitions: tuple[str, ...] | None = None
        key = partition_key(value)
        if unknown.type == "PARTITION_RECORD" and (name := self._named_by(key)):
            self.image.unfollowed[key] = name
            partitions = (name,)
        self.unreadable(unknown, offset, partitions)

    def _named_by(self, key: bytes) -> str | None:
        """The name of the partition with this key; None if its topic is unknown."""
        found = number_and_topic(key)
        topic = None if found is None else self.image.topics.get(found[1])
        return None if found is None or topic is None else f"{topic.name}-{found[0]}"

    def _undefined(self, pending: Pending, record: LogRecord, wrong: dict[str, tuple[str, int]]) -> None:
        """Report a record with values that Kafka does not define. The record is not applied.

        ``wrong`` has, by field, the defined values in words and the record's value.
        """
        pending.flush()
        name, is_partition = None, record.type == "PARTITION_RECORD"
        if is_partition and (name := self._named_by(record.partition_key)):
            self.image.unfollowed[record.partition_key] = name
        self.reporter.wrong(record.offset, record.time, name, f"write a {record.type}", wrong)
        values = ", ".join(f"{field} {value}" for field, (_, value) in wrong.items())
        concerned = None if not is_partition else (name,) if name else ()
        self.doubt(
            "undefined value", f"{record.type} with {values}", record.offset, concerned, record.offset + 1
        )

    def _unknown_partition(self, offset: int, time: int, value: bytes) -> None:
        key = partition_key(value)
        if key in self.image.unfollowed:
            self.reporter.skipped("changes of partitions that are not followed any more")
            return
        try:
            data = decode(value).data
        except UnknownRecord as unknown:
            self.reporter.skipped(f"{unknown.type} version {unknown.version}")
            # Report lines never name an unknown partition, so the doubt concerns no line.
            self.unreadable(unknown, offset, None if number_and_topic(key) is None else ())
            return
        except DamagedRecord as wrong:
            raise self.damaged(offset, str(wrong)) from None
        if self.lacks_beginning:
            self.reporter.skipped(BEFORE)
            return
        self.reporter.wrong(
            offset,
            time,
            None,
            "change a partition that does not exist, or is not followed",
            number=data["partitionId"],
            topicId=data["topicId"],
        )
