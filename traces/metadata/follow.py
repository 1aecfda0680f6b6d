"""Following a metadata log: each record changes the image, and must be what the model's actions explain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.codec import uuid_text
from highwater.traces.kafka.values import (
    KEYS,
    LATEST,
    TYPES,
    DamagedRecord,
    UnknownRecord,
    api_key,
    decode,
    undefined,
)
from highwater.traces.metadata.agreement import Agreement
from highwater.traces.metadata.beliefs.actions import MAX_BROKERS
from highwater.traces.metadata.beliefs.automaton import Situations
from highwater.traces.metadata.beliefs.belief_states import Belief, Beliefs
from highwater.traces.metadata.beliefs.observations import Flags
from highwater.traces.metadata.beliefs.slots import Brokers, CannotFollow
from highwater.traces.metadata.beliefs.transitions import BrokerEvent, Change, Item, Step
from highwater.traces.metadata.groups import CHANGE, Record, Together
from highwater.traces.metadata.image import Image, Partition
from highwater.traces.metadata.pending import Pending
from highwater.traces.metadata.profiles import rule_sets
from highwater.traces.metadata.records import directories, registrations, topics
from highwater.traces.metadata.reporting.doubts import Doubts
from highwater.traces.metadata.reporting.reporter import OnChange, Telling
from highwater.traces.metadata.sharing import CHANGED, Across, Elsewhere
from highwater.traces.reading.errors import TraceError, printable
from highwater.traces.reports.findings import Candidate, Finding, Unexplained
from highwater.traces.reports.report import Report
from highwater.traces.rules.rule_sets import RuleSet

_HANDLERS = {KEYS[name]: handler for name, handler in (registrations.HANDLERS | topics.HANDLERS).items()}
_FEATURE = KEYS["FEATURE_LEVEL_RECORD"]
_FRAME, _NAMED_BY, _REST = slice(0, 3), slice(3, 23), slice(23, None)
"""A record about a partition: what it is, the partition's number and topic id, and what is written of it."""
_FOLLOWED = bytes(2)
"""In the place of a change that was followed with one before it."""
OnSetting = Callable[[str | None], None]
Tracks = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Found:
    """A record that is followed, where it stands, and when it was appended (ms since the epoch)."""

    offset: int
    time: int
    type: str
    version: int
    data: Mapping[str, Any]
    partition_key: bytes


class Followed(NamedTuple):
    """What was followed: the step, None where that was not possible, and the items with their offsets."""

    step: Step | None
    items: Sequence[Item]
    offsets: Sequence[int]


class Follower:
    """The metadata image of a log so far, and the report on it.

    ``profile`` and ``switched`` override the rules that the log calls for. ``on_change`` is told each change of
    the partitions whose names ``tracks`` accepts, and ``on_setting`` the topic whose settings changed, None for all.
    ``across`` is there where only one share of the partitions is followed. Raises LanguageError for a profile or rule
    that does not exist.
    """

    def __init__(
        self,
        report: Report,
        profile: str | None = None,
        switched: Mapping[str, bool] | None = None,
        tracks: Tracks | None = None,
        on_change: OnChange | None = None,
        on_setting: OnSetting | None = None,
        across: Across | None = None,
    ) -> None:
        self.report, self.image, self.across = report, Image(), across
        self.telling = Telling(report, self.image, on_change)
        self.on_setting = on_setting
        self._tracks = tracks
        self._profile, self._switched = profile, switched
        self.agreement = Agreement(rule_sets({}, profile, switched))
        self._situations = self._with_rules(self.agreement.sets)
        self.path = Path()
        self.is_loading = False
        self.lacks_beginning = False
        """Whether the log goes on from a state that is not in it."""
        self.has_new_features = False
        """Whether a feature has another level, and the rules are still those of before."""
        self.doubts = Doubts()
        self.is_newer = False
        """Whether it was said that no profile is of the log's version."""
        self.together = Together(self.telling.skipped, self.damaged)
        self.last_time = 0
        self.is_last = False
        """Whether what is followed now is the last that its controller wrote, in the middle of a decision."""
        self._epoch: int | None = None
        self._astray: list[tuple[Partition, int, frozenset[int]]] = []
        self._events: dict[tuple[str, int, Flags, bool], BrokerEvent] = {}

    def tracks(self, name: str) -> bool:
        """Whether the changes of a partition are asked for."""
        return self._tracks is not None and self._tracks(name)

    def event(self, kind: str, broker: int, flags: Flags, offline: bool = False) -> BrokerEvent:
        """The one event with this content."""
        key = (kind, broker, flags, offline)
        if key not in self._events:
            self._events[key] = BrokerEvent(kind, broker, flags, offline)
        return self._events[key]

    @property
    def follows_directories(self) -> bool:
        """Whether the rules ask in which log directories replicas are."""
        return self._situations.beliefs.has_rule(directories.RULE)

    def record(self, item: Change) -> Mapping[str, Any]:
        """What a change holds. Raises UnknownRecord, DamagedRecord, CannotFollow."""
        return self._situations.record(item.raw)

    # --- batches ------------------------------------------------------------------------------------

    def take(self, path: Path, batch: RecordBatch) -> None:
        """Follow one batch. Raises TraceError where a record in it cannot be read."""
        self.path = path
        if batch.leader_epoch != self._epoch and not self.is_loading:
            for group in self.together.settle():
                self.cut_off(group)
            self.written_by(batch.leader_epoch)
        values, time = batch.values, batch.timestamp
        self.report.records += len(values)
        if batch.control:
            self.telling.skipped("control records", len(values))
            return
        if time > self.last_time:
            self.last_time = time
        kinds = self.together.kinds(batch.base_offset, values)
        if self.together.are_alone(kinds, len(values)):
            self.changes(batch.offsets, (time,) * len(values), values)  # type: ignore[arg-type]
        else:
            for group in self.together.take(batch.offsets, time, values):  # type: ignore[arg-type]
                self.decided(group)
        if self.telling.has_told:
            self.tell()

    def changes(self, offsets: Sequence[int], times: Sequence[int], values: list[bytes]) -> None:
        """Follow changes of partitions that are decisions of their own. Raises TraceError."""
        partitions, changes, no_ops = self.image.partitions, 0, 0
        for position, value in enumerate(values):
            if value[1] != CHANGE:
                no_ops += 1
                continue
            partition = partitions.get(value[_NAMED_BY])
            if partition is None:
                self._unknown_partition(offsets[position], times[position], value)
                continue
            written = value[_FRAME] + value[_REST]
            step = partition.belief.steps.get(partition.roster.items.get(written))
            is_watched = partition.state is not None or partition.resized is not None
            if step is None or not step.is_plain or is_watched:
                items, places = [Change(written)], [offsets[position]]
                if step is None and self.follows_directories:
                    for other in self._of_assignment(partition, position, times, values):
                        items.append(Change(values[other][_FRAME] + values[other][_REST]))
                        places.append(offsets[other])
                        # It is followed here, and not again.
                        values[other], no_ops = _FOLLOWED, no_ops - 1
                self.go_on(partition, items, places, times[position], step)
                if self._astray:
                    self.index()
                continue
            changes += step.changes
            partition.belief = step.after
            partition.partition_epoch += step.changes
            partition.leader_epoch += step.bumps
        self.report.changes += changes
        if no_ops:
            self.telling.skipped("NO_OP_RECORD", no_ops)

    def _of_assignment(
        self, partition: Partition, position: int, times: Sequence[int], values: Sequence[bytes]
    ) -> list[int]:
        """The next change of a partition that is put into an offline directory: what follows belongs to that."""
        here, time = values[position], times[position]
        if not directories.loses_replica(self, partition, Change(here[_FRAME] + here[_REST])):
            return []
        for other in range(position + 1, len(values)):
            if times[other] != time:
                break
            if values[other][_NAMED_BY] == partition.key:
                return [other]
        return []

    def written_by(self, epoch: int) -> None:
        """What follows was written by the controller of this epoch.

        Another one can have begun with a snapshot, which has no index of the ELRs.
        """
        before, self._epoch = self._epoch, epoch
        if before in (None, epoch):
            return
        beliefs = self._situations.beliefs
        for partition in self.image.of_topics():
            if partition.belief.is_indexed_astray:
                partition.belief = beliefs.after_failover(partition.belief)

    def cut_off(self, records: Sequence[Record]) -> None:
        """Follow records of a decision that the controller did not write to its end. Raises TraceError."""
        self.is_last = True
        self.decided(records)
        self.is_last = False

    def settle(self) -> None:
        """Follow what was kept because more of the same decision might have come: it may still come."""
        for group in self.together.settle():
            self.cut_off(group)
        self.tell()

    def tell(self) -> None:
        """Report what was told since the last time, in the order of offsets and partitions."""
        for found in self.agreement.settle(self.agreement.drain()):
            self.telling.disagreement(found)
        for _, line in self.telling.drain():
            marked = self.marked(line)
            self.report.add(marked) if isinstance(marked, Unexplained) else self.report.find(marked)

    def marked(self, line: Unexplained | Finding) -> Unexplained | Finding:
        """A line with the mark of a doubt, where it stands behind one."""
        is_reliable = self.doubts.is_reliable(line.position["offset"], line.partition)
        return line if is_reliable else replace(line, reliable=False)

    def doubt(
        self,
        kind: str,
        summary: str,
        offset: int,
        partitions: Iterable[str] | None = None,
        since: int | None = None,
    ) -> None:
        """Something is not known: ``highwater.traces.metadata.reporting.doubts`` says how it counts."""
        # The offsets of a snapshot are its own; what it leaves open is so from the beginning.
        self.doubts.add(kind, summary, offset, partitions, 0 if self.is_loading else since)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """While a snapshot is loaded: records are states, not changes."""
        self.is_loading = True
        try:
            yield
        finally:
            self.is_loading = False

    def gap(self, path: Path, expected: int, found: int) -> None:
        """Offsets that are missing, or that are there twice."""
        self.path = path
        if not expected:
            self.lacks_beginning = True
            summary = f"begins at offset {found} without a snapshot: copy the *.checkpoint too"
            self.doubt("missing beginning", summary, found)
            return
        self.telling.wrong(found, None, None, "append the next record", {"offset": (expected, found)}, True)
        self.tell()
        there = (
            f"offsets {expected} to {found - 1} are missing"
            if found > expected
            else "offsets are there twice"
        )
        self.doubt("missing records", there, found)

    def finish(self) -> None:
        """Nothing follows any more: close what is open, and name the profile."""
        self.settle()
        for group in self.together.close():
            self.decided(group)
        if note := self.together.note():
            self.report.notes.append(note)
        self.close(self.last_time)
        found = self.agreement.chosen()
        self.report.profile, self.report.rules = found.profile, tuple(sorted(found.rules))
        self.report.doubts = self.doubts.told()
        for what, number in self.telling.skipped_of_partitions.items():
            self.telling.skipped(what, number)

    def close(self, time: int) -> None:
        """The last that is seen of all partitions, and how large the tables have become."""
        self.situations()  # features that changed last count, also where no partition changed after them
        for partition in self.image.of_topics():
            self.telling.close(partition, time)
        self.report.figures["beliefs"] = len(self._situations.beliefs)
        self.report.figures["steps explained"] = self._situations.explained
        self.report.figures["brokers"] = len(self.image.brokers)

    # --- records --------------------------------------------------------------------------------------

    def decided(self, records: Sequence[Record]) -> None:
        """Follow records that belong together. Raises TraceError."""
        pending = Pending(self, records[0][1])
        for offset, time, value in records:
            if self.has_new_features and (value.__class__ is Elsewhere or value[1] != _FEATURE):
                self._renew()
            self._record(pending, offset, time, value)
        pending.flush()
        if self.has_new_features:
            self._renew()
        topics.decided(self, pending, records[-1][1])

    def _renew(self) -> None:
        """From here on the rules are those of the features that were just set."""
        self.has_new_features = False
        self.situations()

    def _record(self, pending: Pending, offset: int, time: int, value: bytes) -> None:
        if value.__class__ is Elsewhere:
            self._elsewhere(pending, offset, value)
            return
        if value[1] == CHANGE:
            partition = self.image.partitions.get(value[_NAMED_BY])
            if partition is None:
                pending.elsewhere(offset)
                self._unknown_partition(offset, time, value)
            else:
                pending.add(partition, Change(value[_FRAME] + value[_REST]), offset)
            return
        pending.other(offset)
        try:
            key, version = api_key(value)
            known = decode(value) if key in _HANDLERS else None
        except UnknownRecord as unknown:
            self._unreadable(pending, offset, value, unknown)
            return
        except DamagedRecord as wrong:
            raise self.damaged(offset, str(wrong)) from None
        if known is None:
            if key not in TYPES:
                self._unreadable(pending, offset, value, UnknownRecord(key, version))
                return
            self.telling.skipped(TYPES[key])
            return
        found = Found(offset, time, *known, value[_NAMED_BY])
        if wrong_values := undefined(*known[::2]):
            self._undefined(pending, found, wrong_values)
            return
        _HANDLERS[key](self, pending, found)

    def _unreadable(self, pending: Pending, offset: int, value: bytes, unknown: UnknownRecord) -> None:
        """A record that is not known, or that is and cannot be read: nobody knows what it would have changed."""
        pending.flush()
        if unknown.type is None or unknown.type not in LATEST:
            what = f"type {unknown.key}" if unknown.key is not None else printable(unknown.type or "", 100)
            self.telling.skipped(f"{what} version {unknown.version}")
            self.doubt(
                "unknown record", f"a record that is not known: {what}, version {unknown.version}", offset
            )
            return
        self.telling.skipped(f"{unknown.type} version {unknown.version}")
        partitions: tuple[str, ...] | None = None
        if unknown.type == "PARTITION_RECORD" and (name := self._named_by(value[_NAMED_BY])):
            self.image.unfollowed[value[_NAMED_BY]] = name
            partitions = (name,)
        self.doubt("unreadable version", _cannot_be_read(unknown), offset, partitions)

    def _named_by(self, key: bytes) -> str | None:
        """The name of the partition that a record is about; None where its topic is not known."""
        if len(key) < 20:
            return None
        topic = self.image.topics.get(uuid_text(key[4:]))
        return None if topic is None else f"{topic.name}-{int.from_bytes(key[:4], signed=True)}"

    def _undefined(self, pending: Pending, found: Found, wrong: dict[str, tuple[str, int]]) -> None:
        """A record that no Kafka writes, as nobody can say what it means: it is not taken for anything."""
        pending.flush()
        name, is_partition = None, found.type == "PARTITION_RECORD"
        if is_partition and (name := self._named_by(found.partition_key)):
            self.image.unfollowed[found.partition_key] = name
        self.telling.wrong(found.offset, found.time, name, f"write a {found.type}", wrong, not is_partition)
        said = ", ".join(f"{field} {value}" for field, (_, value) in wrong.items())
        concerned = None if not is_partition else (name,) if name else ()
        self.doubt("undefined value", f"{found.type} with {said}", found.offset, concerned, found.offset + 1)

    def _elsewhere(self, pending: Pending, offset: int, value: bytes) -> None:
        """What is of another share: a change, or a partition that is created."""
        if value is CHANGED:
            pending.elsewhere(offset)
        else:
            pending.other(offset)
            pending.flush()
            self.situations()

    def damaged(self, offset: int, message: str) -> TraceError:
        """The error of a record that cannot be read, to be raised by the caller."""
        return TraceError(self.path, None, f"offset {offset}", message)

    def _unknown_partition(self, offset: int, time: int, value: bytes) -> None:
        if value[_NAMED_BY] in self.image.unfollowed:
            self.telling.skipped_of_partition("changes of partitions that are not followed any more")
            return
        try:
            data = decode(value).data
        except UnknownRecord as unknown:
            self.telling.skipped_of_partition(f"{unknown.type} version {unknown.version}")
            # Of a partition that is not known, nothing is said that could be unreliable.
            concerned = None if len(value[_NAMED_BY]) < 20 else ()
            self.doubt("unreadable version", _cannot_be_read(unknown), offset, concerned)
            return
        except DamagedRecord as wrong:
            raise self.damaged(offset, str(wrong)) from None
        if self.lacks_beginning:
            self.telling.skipped_of_partition(topics.BEFORE)
            return
        self.telling.wrong(
            offset,
            time,
            None,
            "change a partition that does not exist, or is not followed",
            number=data["partitionId"],
            topicId=data["topicId"],
        )

    # --- partitions -----------------------------------------------------------------------------------

    def go_on(
        self,
        partition: Partition,
        items: Sequence[Item],
        offsets: Sequence[int],
        time: int,
        known: Step | None = None,
    ) -> Followed:
        """Take a partition through items, by a step that is known already or is found.

        The step, None where it cannot follow; and the items that the step is of, with their offsets. Raises TraceError.
        """
        before, roster = partition.belief, partition.roster
        try:
            if known is None and self.follows_directories:
                items, offsets = directories.placed(self, partition, items, offsets)
            step, brokers = (
                (known, roster.brokers)
                if known
                else self._situations.step(before, roster, items, self.is_last)
            )
        except CannotFollow as why:
            self.lost(partition.name, offsets[-1], time, str(why))
            self._unfollow(partition, offsets[-1])
            return Followed(None, items, offsets)
        except UnknownRecord as unknown:
            self.telling.skipped_of_partition(f"{unknown.type} version {unknown.version}")
            self.doubt("unreadable version", _cannot_be_read(unknown), offsets[0], (partition.name,))
            self._unfollow(partition, offsets[-1])
            return Followed(None, items, offsets)
        except DamagedRecord as wrong:
            raise self.damaged(offsets[-1], str(wrong)) from None
        partition.belief = step.after
        if step.after.tags != before.tags:
            self._narrowed(partition, offsets[-1], time)
        if step.moves:
            partition.roster = self._situations.roster(tuple([brokers[slot] for slot in step.hops[-1].order]))
            self.image.place(partition, roster.brokers)
        self._first_of_topic(partition, before, offsets[-1], time)
        if before.is_indexed_astray:
            self._goes_astray(partition, before, roster.brokers, step, brokers)
        self.report.changes += step.changes
        self.telling.step(partition, step, brokers, offsets, time, (before, roster.brokers))
        self.telling.conditions(partition, step.after, time)
        return Followed(step, items, offsets)

    def _unfollow(self, partition: Partition, offset: int) -> None:
        if partition.topic is None:
            self.image.remove(partition)
        elif self.image.unfollow(partition):
            self.populated(offset, -1)

    def lost(self, name: str, offset: int, time: int, why: str) -> None:
        """A partition that cannot be followed any further."""
        self.telling.unexplained(offset, time, name, (Candidate("any", {}, (why,)),), (), not name)
        if name:
            self.doubt("not followed", "partitions that cannot be followed", offset, (name,), offset + 1)

    def _first_of_topic(self, partition: Partition, before: Belief, offset: int, time: int) -> None:
        """Where the first partition's number of replicas changes, min ISR can change for the topic's others."""
        replicas = len(partition.belief.observed.replicas)
        topic = partition.topic
        if topic is None or partition.number or replicas == len(before.observed.replicas):
            return
        for other in topic.partitions.values():
            if other is not partition:
                self.go_on(other, [self.image.settings_of(other)], [offset], time)

    def _goes_astray(
        self, partition: Partition, before: Belief, members: Brokers, step: Step, brokers: Brokers
    ) -> None:
        """Entries of the controller's index that go astray are the topic's first partition's from then on.

        ``members`` are the brokers of the slots before the step, ``brokers`` those that the step's hops speak of.
        """
        first = None if partition.topic is None else partition.topic.partitions.get(0)
        if first is None or first is partition:
            return
        beliefs = self._situations.beliefs
        for hop in step.hops:
            after = tuple([brokers[slot] for slot in hop.order])
            slots = {broker: slot for slot, broker in enumerate(after)}
            for slot in before.observed.elr:
                broker = members[slot]
                numbers = beliefs.astray(before, hop.belief, slot, slots.get(broker))
                if numbers != {0}:
                    self._astray.append((first, broker, numbers))
            before, members = hop.belief, after

    def index(self) -> None:
        """Take over what went astray in the controller's index, behind the decisions that did it."""
        beliefs = self._situations.beliefs
        for first, broker, numbers in self._astray:
            before = first.roster.brokers
            if broker not in before and len(before) < MAX_BROKERS:
                first.belief = beliefs.widened(first.belief, [self.image.flags(broker)])
                first.roster = self._situations.roster((*before, broker))
                self.image.place(first, before)
            if broker in first.roster.slots:
                first.belief = beliefs.with_astray(first.belief, first.roster.slots[broker], numbers)
        self._astray.clear()

    # --- rules ----------------------------------------------------------------------------------------

    def _with_rules(self, sets: tuple[RuleSet, ...]) -> Situations:
        return Situations(Beliefs(tuple(s.rules for s in sets)), _decode_change, self.image.flags)

    def situations(self) -> Situations:
        """The situations under the rules that the features call for, to which all go over that were under others."""
        image = self.image
        sets = rule_sets(image.features, self._profile, self._switched, image.controllers)
        if sets != self.agreement.sets:
            self.agreement.renew(sets)
            followed = self.follows_directories
            before, self._situations = self._situations, self._with_rules(sets)
            stand_ins = [b.partition for b in self.image.brokers.values() if b.partition is not None]
            for partition in (*self.image.of_topics(), *stand_ins):
                slots = partition.roster.slots
                # What was not followed is not known any more.
                partition.directories = partition.directories if followed else ()
                offline = (
                    [slots[b] for b in self.image.offline(partition)] if self.follows_directories else ()
                )
                partition.belief = self._situations.adopted(partition.belief, before, offline)
        return self._situations

    def _narrowed(self, partition: Partition, offset: int, time: int) -> None:
        """Not all sets of rules explain a partition any more."""
        if partition.topic is not None or self.across is None or self.across.is_first:
            self.agreement.narrow(offset, partition.name, partition.belief.tags, time)
            self.telling.has_told = True

    def populated(self, offset: int, more: int) -> None:
        """There is a partition more, or less."""
        if self.across is not None:
            self.across.populations.append((self.across.group, offset, more))
        elif more > 0:
            self.report.partitions = max(self.report.partitions, len(self.image.partitions))


def _decode_change(raw: bytes) -> Mapping[str, Any]:
    """The fields of a change, of which the partition was left out. Raises CannotFollow for an undefined value."""
    kind, _, data = decode(raw[:3] + bytes(20) + raw[3:])
    for name, (defined, value) in undefined(kind, data).items():
        raise CannotFollow(f"{name} is {value}, and {defined} is defined")
    return data


def _cannot_be_read(unknown: UnknownRecord) -> str:
    newest = LATEST[unknown.type or ""]
    return f"{unknown.type} version {unknown.version} cannot be read; the newest that is known is {newest}"


__all__ = ["Follower", "Found", "OnSetting", "Tracks"]
