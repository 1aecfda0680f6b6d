"""Single changes of recorded metadata logs, and what the replay of each one says."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.kafka.values import MetadataRecord, decode, encode
from highwater.traces.metadata import tracker
from highwater.traces.metadata.beliefs.automaton import Automaton, FlagsOf
from highwater.traces.metadata.beliefs.belief_states import BeliefStates
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.metadata.reporting import Watch
from highwater.traces.reading import TraceError
from highwater.traces.reports.findings import Unexplained
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.report import Report
from tests.generation.batches import encode_batch
from tests.generation.records import ELR, METADATA, MIN_ISR, UNCLEAN

Data = dict[str, Any]
Changed = Iterator[tuple[str, str, Data]]
"""Changes of a record: the kind, in words, the new fields."""

CHANGE, CREATION = "PARTITION_CHANGE_RECORD", "PARTITION_RECORD"
REGISTRATION, FLAGS = "REGISTER_BROKER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD"
CONFIG, FEATURE = "CONFIG_RECORD", "FEATURE_LEVEL_RECORD"
CLEAR = "CLEAR_ELR_RECORD"
FOLLOWED = frozenset({CHANGE, CREATION, REGISTRATION, FLAGS, CONFIG, FEATURE, CLEAR, "TOPIC_RECORD"})
"""The followed records of the recorded clusters."""
LEVELS = (1, 7, 11, 12, 15, 20, 22, 23, 24, 25)
"""Feature levels of metadata.version, from 3.0-IV1 to 4.0-IV3."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a log: where it ends, its leader epoch, its batches."""

    end_offset: int
    epoch: int
    batches: tuple[RecordBatch, ...]


@dataclass(frozen=True)
class Log:
    """A metadata log that begins at offset 0."""

    batches: tuple[RecordBatch, ...]
    snapshots: tuple[Snapshot, ...] = ()

    def without_snapshots(self) -> Log:
        """The records alone."""
        return replace(self, snapshots=())

    def records(self) -> Iterator[tuple[int, int, MetadataRecord]]:
        """The data records: the index of the batch, the offset, the record."""
        for number, batch in enumerate(self.batches):
            if not batch.control:
                for offset, value in zip(batch.offsets, batch.values, strict=True):
                    yield number, offset, decode(value or b"")

    def write(self, folder: Path) -> Path:
        """Write it as Kafka has it on disk; into a folder without other files of a log."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{0:020}.log").write_bytes(b"".join(map(encoded, self.batches)))
        for found in self.snapshots:
            name = f"{found.end_offset:020}-{found.epoch:010}.checkpoint"
            (folder / name).write_bytes(b"".join(map(encoded, found.batches)))
        return folder


@dataclass(frozen=True)
class Mutation:
    """One change: its kind, in which record it is, at which offset, in words, and the log that it makes.

    ``last`` is the offset of the second of two records that are swapped. ``touched`` are the records that it changes,
    moves or takes away, as they were.
    """

    kind: str
    where: str
    offset: int
    what: str
    make: Callable[[], Log] = field(repr=False, compare=False)
    touched: tuple[MetadataRecord, ...] = field(default=(), repr=False)
    last: int = -1

    def __str__(self) -> str:
        """For people."""
        return f"offset {self.offset}: {self.kind}, {self.where}: {self.what}"


_ENCODED: dict[tuple[object, ...], bytes] = {}


def encoded(batch: RecordBatch) -> bytes:
    """A batch as bytes. Its content is encoded once; the checksum covers neither the offset nor the epoch."""
    key = (batch.control, batch.timestamp, tuple(batch.keys), tuple(batch.values))
    if key not in _ENCODED:
        if len(_ENCODED) > 20_000:
            _ENCODED.clear()
        keys = batch.keys if batch.control else None
        _ENCODED[key] = encode_batch(0, 0, batch.timestamp, batch.values, control=batch.control, keys=keys)
    body = _ENCODED[key]
    length = struct.unpack_from(">i", body, 8)[0]
    return struct.pack(">qii", batch.base_offset, length, batch.leader_epoch) + body[16:]


def read(folder: Path) -> Log:
    """A recorded log that begins at offset 0."""
    log = open_metadata_log(folder)
    found = []
    for item in log.batches():
        assert isinstance(item[1], RecordBatch)
        found.append(item[1])
    return Log(
        tuple(found), tuple(Snapshot(s.end_offset, s.epoch, tuple(s.batches())) for s in log.snapshots)
    )


# --- changes of a field -----------------------------------------------------------------------------------


def fields(log: Log) -> Iterator[Mutation]:
    """Every change of one field of one record."""
    brokers, epochs = _registered(log)
    state: dict[tuple[str, int], Data] = {}
    return _of_records(log, lambda record: _of_record(record, _merge(state, record), brokers, epochs))


def _of_records(log: Log, changes: Callable[[MetadataRecord], Changed]) -> Iterator[Mutation]:
    """Changes of each record's fields, each one a log; a change that makes the same record is none."""
    for number, offset, record in log.records():
        for kind, what, data in changes(record):
            value = encode(record.type, record.version, data, lenient=True)
            if value == encode(*record):
                continue
            made = _with_value(log, number, offset, value)
            yield Mutation(kind, record.type, offset, what, made, (record,))


def fields_of_snapshots(log: Log) -> Iterator[Mutation]:
    """Every change of one field of one record of a snapshot; ``offset`` is where the snapshot ends."""
    brokers, epochs = _registered(log)
    for at, snapshot in enumerate(log.snapshots):
        of = Log(snapshot.batches)
        for inner in _of_records(of, lambda record: _of_record(record, record.data, brokers, epochs)):
            made = _with_snapshot(log, at, inner.make)
            yield replace(inner, where=f"{inner.where} of a snapshot", offset=snapshot.end_offset, make=made)


def _registered(log: Log) -> tuple[list[int], list[int]]:
    """The brokers that register, and their broker epochs."""
    found = [r.data for _, _, r in log.records() if r.type == REGISTRATION]
    return sorted({data["brokerId"] for data in found}), sorted({data["brokerEpoch"] for data in found})


def _with_value(log: Log, number: int, offset: int, value: bytes) -> Callable[[], Log]:
    """Another record at an offset, in the batch of that number."""

    def make() -> Log:
        batch = log.batches[number]
        values = [value if o == offset else v for o, v in zip(batch.offsets, batch.values, strict=True)]
        return _with_batches(log, number, 1, [batch._replace(values=values)])

    return make


def _with_snapshot(log: Log, at: int, made: Callable[[], Log]) -> Callable[[], Log]:
    def make() -> Log:
        changed = replace(log.snapshots[at], batches=made().batches)
        return replace(log, snapshots=(*log.snapshots[:at], changed, *log.snapshots[at + 1 :]))

    return make


def _with_batches(log: Log, number: int, count: int, new: Sequence[RecordBatch]) -> Log:
    """Other batches in the place of so many."""
    return replace(log, batches=(*log.batches[:number], *new, *log.batches[number + count :]))


def _merge(state: dict[tuple[str, int], Data], record: MetadataRecord) -> Data:
    """The partition before the record that changes it; for another record its own data."""
    if record.type not in (CHANGE, CREATION):
        return record.data
    key = (record.data["topicId"], record.data["partitionId"])
    before = state.get(key, record.data)
    state[key] = before | {k: v for k, v in record.data.items() if v is not None}
    return before


SETS = ("isr", "eligibleLeaderReplicas", "lastKnownElr", "replicas", "addingReplicas", "removingReplicas")
_OF_PARTITION = (*SETS, "leader", "leaderRecoveryState", "leaderEpoch", "partitionEpoch")
FIELDS = {
    CHANGE: _OF_PARTITION,
    CREATION: _OF_PARTITION,
    REGISTRATION: ("brokerEpoch", "fenced", "inControlledShutdown"),
    FLAGS: ("brokerEpoch", "brokerId", "fenced", "inControlledShutdown"),
    CONFIG: ("value",),
    FEATURE: ("featureLevel",),
    CLEAR: ("topicName",),
}
"""The fields of each type that are changed."""


def _of_record(record: MetadataRecord, before: Data, brokers: list[int], epochs: list[int]) -> Changed:
    """Each change of a record: its kind, in words, the new fields. ``before`` has the values of unwritten fields."""
    data, is_change = record.data, record.type == CHANGE
    for name in FIELDS.get(record.type, ()):
        is_written = data.get(name) is not None
        if not is_written and name.endswith("Epoch"):
            continue
        now = data[name] if is_written else before.get(name)
        for value in _others(record, name, now, brokers, epochs):
            # A change of a feature can change the rules.
            kind = data["name"] if record.type == FEATURE else f"{name}{'' if is_written else ' added'}"
            yield kind, f"{name} {data.get(name)} -> {value}", {**data, name: value}
        if is_written and is_change and name != "leaderEpoch":
            yield f"{name} dropped", f"{name} dropped", {k: v for k, v in data.items() if k != name}
        elif is_change and name in (*SETS, "leader"):
            yield (
                f"{name} written unchanged",
                name,
                {**data, name: now if name == "leader" else list(now or ())},
            )


def _others(
    record: MetadataRecord, name: str, now: Any, brokers: list[int], epochs: list[int]
) -> Iterator[Any]:
    """Other values of a field that is ``now``; the values that replay does not follow are left out."""
    if name in SETS:
        members = list(now or ())
        yield from ([m for m in members if m != member] for member in members)
        yield from ([*members, other] for other in brokers if other not in members)
        yield from ([*members[:-1], other] for other in (*brokers, -1) if members and other not in members)
        yield from (members[::-1] for _ in range(len(members) > 1))
        return
    known: dict[str, Iterable[Any]] = {
        "leader": (*brokers, -1), "leaderRecoveryState": (0, 1), "brokerId": brokers,
        "brokerEpoch": {now - 1, now + 1, *epochs} if name == "brokerEpoch" else (),
        "leaderEpoch": (now - 1, now + 1) if name == "leaderEpoch" else (),
        "partitionEpoch": (now - 1, now + 1) if name == "partitionEpoch" else (),
        "topicName": ("", "t1", "t2"),
        "value": ("1", "2", "3", "4", None) if record.data.get("name") == MIN_ISR else (),
        "featureLevel": {METADATA: LEVELS, ELR: (0, 1)}.get(record.data.get("name", ""), ()),
    }  # fmt: skip
    flags = (False, True) if record.type == REGISTRATION else (-1, 0, 1)
    yield from (value for value in known.get(name, flags) if value != now)


# --- whole records: removed, written twice, in another order --------------------------------------------------


def whole_records(log: Log) -> Iterator[Mutation]:
    """Every record removed or written twice, every two neighbours swapped."""
    found = list(log.records())
    for number, offset, record in found:
        for kind, make in (
            ("record removed, gap", _removed(log, number, offset)),
            ("record removed, renumbered", _renumbered(log, number, offset, 0)),
            ("record twice", _renumbered(log, number, offset, 2)),
        ):
            yield Mutation(kind, record.type, offset, str(record.data)[:200], make, (record,))
    for (a, first, one), (b, second, other) in pairwise(found):
        if one == other or second != first + 1:
            continue
        kind = "swapped within a batch" if a == b else "swapped across batches"
        where = " and ".join(sorted((one.type, other.type)))
        what = f"{one.data} and {other.data}"[:300]
        yield Mutation(
            kind, where, first, what, _swapped(log, a, b, first, second), (one, other), last=second
        )


def _removed(log: Log, number: int, offset: int) -> Callable[[], Log]:
    """The offset of the record is missing: the rest of its batch becomes a batch of its own."""

    def make() -> Log:
        batch = log.batches[number]
        at = offset - batch.base_offset
        parts = [
            batch._replace(
                base_offset=batch.base_offset + a,
                last_offset=batch.base_offset + b - 1,
                offsets=range(batch.base_offset + a, batch.base_offset + b),
                values=batch.values[a:b],
            )
            for a, b in ((0, at), (at + 1, len(batch.values)))
            if a < b
        ]
        return _with_batches(log, number, 1, parts)

    return make


def _renumbered(log: Log, number: int, offset: int, copies: int) -> Callable[[], Log]:
    """A record repeated, and later records with offsets that leave no gap. Broker epochs are unchanged."""

    def make() -> Log:
        moved = copies - 1
        found = list(log.batches[:number])
        batch = log.batches[number]
        at = offset - batch.base_offset
        values = [*batch.values[:at], *[batch.values[at]] * copies, *batch.values[at + 1 :]]
        if values:
            found.append(_at(batch._replace(values=values), batch.base_offset))
        found += [_at(b, b.base_offset + moved) for b in log.batches[number + 1 :]]
        snapshots = [
            replace(s, end_offset=s.end_offset + moved) if s.end_offset > offset else s for s in log.snapshots
        ]
        return Log(tuple(found), tuple(snapshots))

    return make


def _at(batch: RecordBatch, base: int) -> RecordBatch:
    end = base + len(batch.values)
    return batch._replace(base_offset=base, last_offset=end - 1, offsets=range(base, end))


def _swapped(log: Log, a: int, b: int, first: int, second: int) -> Callable[[], Log]:
    def make() -> Log:
        found = list(log.batches)
        values = [list(found[n].values) for n in (a, b)]
        i, j = first - found[a].base_offset, second - found[b].base_offset
        one, other = values[0][i], values[1][j]
        for number, at, value in ((a, i, other), (b, j, one)):
            changed = list(found[number].values)
            changed[at] = value
            found[number] = found[number]._replace(values=changed)
        return replace(log, batches=tuple(found))

    return make


# --- what the replay says -----------------------------------------------------------------------------


SAME, ANOTHER = "the same meaning", "another history that the protocol allows"
"""The reasons why a change is not reported."""
FOLLOWED_FEATURES = (METADATA, ELR)
FOLLOWED_SETTINGS = (MIN_ISR, UNCLEAN)


class Reported(Exception):
    """Ends a replay at the first record that does not conform."""


class First(Report):
    """A report that ends the replay at the first entry that do not conform."""

    def add(self, line: Unexplained) -> None:
        """Keep it, and end. Raises Reported."""
        super().add(line)
        raise Reported


@dataclass
class Replayed:
    """The report on a log, and the changes of its partitions; ``error`` if it could not be read."""

    report: Report
    changes: list[PartitionChange] = field(default_factory=list)
    error: TraceError | None = None

    @property
    def first(self) -> int | None:
        """The offset of the first entry that do not conform; None where it has none."""
        entries = self.report.unexplained
        return entries[0].position.get("offset") if entries else None


def replayed(log: Log, folder: Path) -> Replayed:
    """Write a log, open it and replay it; other files in the folder are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    found = Replayed(First("made", "metadata log", ""))
    try:
        opened = open_metadata_log(log.write(folder))
        replay_metadata(opened, found.report, watch=Watch([found.changes.append]))
    except TraceError as wrong:
        found.error = wrong
    except Reported:
        pass
    return found


class Shared:
    """Explanations that many replays of similar logs share: one automaton for each set of rules.

    An automaton asks the image of its follower for the flags of brokers, so it is handed from one to the next. That it
    makes no difference is what ``test_shared_tables_give_the_same_reports`` is for.
    """

    def __init__(self) -> None:
        self._beliefs: dict[frozenset[str], BeliefStates] = {}
        self._automata: dict[frozenset[str], Automaton] = {}

    def beliefs(self, rules: frozenset[str]) -> BeliefStates:
        """In the place of BeliefStates."""
        return self._beliefs.setdefault(rules, BeliefStates(rules))

    def automaton(
        self, beliefs: BeliefStates, decode: Callable[[bytes], Mapping[str, Any]], flags: FlagsOf
    ) -> Automaton:
        """In the place of Automaton."""
        found = self._automata.setdefault(beliefs.rules, Automaton(beliefs, decode, flags))
        found._grounds = found._grounds._replace(flags=flags)
        return found


@contextmanager
def shared() -> Iterator[None]:
    """A context in which replays share explanations."""
    known = Shared()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracker, "BeliefStates", known.beliefs)
        patch.setattr(tracker, "Automaton", known.automaton)
        yield


def is_reported(mutation: Mutation, original: Replayed, changed: Replayed) -> bool:
    """True if the replay reports the change.

    By something unexplained, by damage, by a doubt that the log as it is does not have, or by other rules where they
    were changed.
    """
    if changed.error is not None or changed.report.unexplained_count or changed.report.damage:
        return True
    if is_doubted(original, changed):
        return True
    rules = (changed.report.profile, changed.report.rules)
    return mutation.kind in FOLLOWED_FEATURES and rules != (original.report.profile, original.report.rules)


def is_doubted(original: Replayed, changed: Replayed) -> bool:
    """True if the replay has a doubt that the original log does not have."""
    return {(d.kind, d.summary) for d in changed.report.doubts} > {
        (d.kind, d.summary) for d in original.report.doubts
    }


def reason(mutation: Mutation, original: Replayed, changed: Replayed) -> str:
    """Why a change is not reported: SAME or ANOTHER; other words for a change that should have been.

    A record that is not followed, and the order within the creation of a topic, change nothing.
    """
    types = {record.type for record in mutation.touched}
    is_same = _states(original) == _states(changed)
    if not all(is_followed(record) for record in mutation.touched):
        # Only the causes may differ.
        return SAME if _states(original, False) == _states(changed, False) else "it is followed"
    if "swapped" in mutation.kind and types <= {"TOPIC_RECORD", CONFIG, CREATION}:
        return SAME if is_same else "the order within a creation counts"
    if unknown := [c for c in changed.changes if c.cause is None]:
        return f"no decision explains offset {unknown[0].position}"
    return SAME if is_same else ANOTHER


def is_followed(record: MetadataRecord) -> bool:
    """True if the replay follows a record."""
    if record.type == CONFIG:
        return record.data["name"] in FOLLOWED_SETTINGS
    if record.type == FEATURE:
        return record.data["name"] in FOLLOWED_FEATURES
    return record.type in FOLLOWED


def _states(replay: Replayed, with_causes: bool = True) -> dict[str, list[object]]:
    """The states of each partition, and the decisions between them."""
    found: dict[str, list[object]] = {}
    for c in replay.changes:
        found.setdefault(c.name, []).append((c.before, c.after, c.cause if with_causes else None))
    return found
