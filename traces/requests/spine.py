"""What the metadata log says beside request logs: topics by id, registrations, and each partition's versions.

It orders what happened: leader epochs, partition epochs and broker epochs in the messages are those of its records.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import Struct

from highwater.traces.kafka.metadata_log import Gap, MetadataLog
from highwater.traces.kafka.values import KEYS, DamagedRecord, UnknownRecord, api_key, decode
from highwater.traces.reading.errors import TraceError
from highwater.traces.reports.observed import PartitionChange, PartitionState
from highwater.traces.reports.settings import SettingInForce

MAX_VERSIONS = 2_000_000
"""So many versions of partitions are kept in all."""
_TOPIC = "TOPIC_RECORD"
_OF_BROKERS = (
    "REGISTER_BROKER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD", "FENCE_BROKER_RECORD", "UNFENCE_BROKER_RECORD",
    "UNREGISTER_BROKER_RECORD",
)  # fmt: skip
_TIME, _POSITION = attrgetter("time"), attrgetter("position")
_READ = frozenset(KEYS[name] for name in (_TOPIC, *_OF_BROKERS))


class Version(Struct, gc=False, frozen=True):
    """A partition from an offset of the metadata log on; ``min_isr`` is the effective one, None if not known."""

    position: int
    time: int
    state: PartitionState
    min_isr: int | None
    unclean_election: bool | None
    cause: str | None = None
    """The action of the controller that explains it."""

    @property
    def is_recovering(self) -> bool:
        """Whether its leader was elected uncleanly, and has not said yet that it has recovered."""
        return self.state.leader_recovery_state != "RECOVERED"


class Registration(Struct, gc=False, frozen=True):
    """A broker from an offset of the metadata log on."""

    position: int
    time: int
    epoch: int
    fenced: bool
    in_controlled_shutdown: bool
    registered: bool = True


@dataclass(slots=True)
class History:
    """A partition's versions in the order of the metadata log, and where each leader epoch begins among them."""

    name: str
    versions: list[Version] = field(default_factory=list)
    epochs: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By leader epoch, in order, the first and the last of its versions."""
    deleted: int | None = None
    """When the partition was deleted."""
    _order: list[int] = field(default_factory=list)

    def add(self, version: Version) -> None:
        """The next version."""
        self.versions.append(version)
        epoch, last = version.state.leader_epoch, len(self.versions) - 1
        known = self.epochs.get(epoch)
        if known is None:
            self._order.append(epoch)
        self.epochs[epoch] = (last if known is None else known[0], last)

    def of_epoch(self, epoch: int) -> list[Version]:
        """The versions of a leader epoch; none where there was no such epoch."""
        if epoch not in self.epochs:
            return []
        first, last = self.epochs[epoch]
        return self.versions[first : last + 1]

    def around(self, start_ms: float, end_ms: float) -> list[Version]:
        """The versions that were in force between two times of the controller's clock."""
        first = bisect_right(self.versions, start_ms, key=_TIME)
        return self.versions[max(0, first - 1) : bisect_right(self.versions, end_ms, key=_TIME)]

    def has_later(self, epoch: int, by_ms: float) -> bool:
        """Whether a later leader epoch had begun by a time of the controller's clock."""
        at = bisect_right(self._order, epoch)
        return at < len(self._order) and self.versions[self.epochs[self._order[at]][0]].time <= by_ms

    def next_position(self, epoch: int) -> int | None:
        """The offset at which the leader epoch behind this one begins; None where there is none."""
        at = bisect_right(self._order, epoch)
        return self.versions[self.epochs[self._order[at]][0]].position if at < len(self._order) else None

    def led_by(self, broker: int, by_ms: float) -> int | None:
        """The last leader epoch of a broker that had begun by a time of the controller's clock."""
        for at in range(bisect_right(self.versions, by_ms, key=_TIME) - 1, -1, -1):
            state = self.versions[at].state
            if state.leader == broker:
                return state.leader_epoch
        return None


class Spine:
    """Filled by the replay of the metadata log (``change``, ``setting``) and by a reading of its own (``read``)."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[str, int]] = {}
        """Names of topics, by id and by name, with the offsets at which they were created."""
        self.histories: dict[str, list[History]] = {}
        """By name, one for each time that a partition of this name was created."""
        self.brokers: dict[int, list[Registration]] = {}
        self.listeners: dict[str, int] = {}
        """Which broker an address and port belongs to."""
        self.is_full = False
        self._count = 0
        self._lists: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._epochs: dict[int, list[tuple[int, int]]] = {}

    def history(self, topic: str, number: int) -> History | None:
        """The history of a partition, named as the messages do it."""
        found = self.topics.get(topic)
        if found is None:
            return None
        lives = self.histories.get(f"{found[0]}-{number}", [])
        at = bisect_left(lives, found[1], key=lambda life: life.versions[0].position)
        return lives[at] if at < len(lives) else None

    def partitions(self, topic: str) -> Iterator[tuple[int, History]]:
        """The partitions of a topic, by their numbers."""
        found = self.topics.get(topic)
        for name in self.histories if found is not None else ():
            above, _, number = name.rpartition("-")
            if (
                found is not None
                and above == found[0]
                and (history := self.history(topic, int(number))) is not None
            ):
                yield int(number), history

    def change(self, change: PartitionChange) -> None:
        """A change of a partition."""
        if change.after is not None:
            after, min_isr, unclean = self._once(change.after), change.min_isr, change.unclean_election
            version = Version(change.position, change.time, after, min_isr, unclean, change.cause)
            self._add(change.name, version, is_new=change.before is None)
        elif change.name in self.histories:
            self.histories[change.name][-1].deleted = change.time

    def _once(self, state: PartitionState) -> PartitionState:
        """The same, with each list of brokers that another one has, too, kept once."""
        once = self._lists.setdefault
        return replace(
            state,
            replicas=once(state.replicas, state.replicas),
            isr=once(state.isr, state.isr),
            elr=once(state.elr, state.elr),
            last_known_elr=once(state.last_known_elr, state.last_known_elr),
            adding=once(state.adding, state.adding),
            removing=once(state.removing, state.removing),
        )

    def setting(self, name: str, setting: SettingInForce) -> None:
        """What a setting is for a partition from here on."""
        lives = self.histories.get(name)
        if lives:
            state, at = lives[-1].versions[-1].state, setting.change
            self._add(name, Version(at.position, at.time, state, setting.min_isr, setting.unclean_election))

    def _add(self, name: str, version: Version, is_new: bool = False) -> None:
        if self._count >= MAX_VERSIONS:
            self.is_full = True
            return
        self._count += 1
        lives = self.histories.setdefault(name, [])
        if is_new or not lives:
            lives.append(History(name))
        lives[-1].add(version)

    def read(self, log: MetadataLog) -> None:
        """Topics and brokers, from the log's start on. Damage ends it: the replay of the log tells of it."""
        try:
            if log.start is not None:
                for batch in log.start.batches():
                    before = [-1] * len(batch.values)
                    self._records(before, batch.times, batch.values, batch.control)
            for found in log.batches():
                if not isinstance(found, Gap):
                    batch = found[1]
                    self._records(batch.offsets, batch.times, batch.values, batch.control)
        except (TraceError, DamagedRecord):
            return

    def _records(self, offsets: Any, times: Any, values: Any, control: bool) -> None:
        if control:
            return
        for position, time, value in zip(offsets, times, values, strict=True):
            if value is None or len(value) < 2 or value[1] not in _READ or api_key(value)[0] not in _READ:
                continue
            try:
                record = decode(value)
            except UnknownRecord:
                continue
            if record.type == _TOPIC:
                name = record.data["name"]
                self.topics[record.data["topicId"]] = self.topics[name] = (name, position)
            else:
                self._broker(position, time, record.type, record.data)

    def _broker(self, position: int, time: int, type: str, data: Mapping[str, Any]) -> None:
        broker = data.get("brokerId", data.get("id"))
        assert isinstance(broker, int)
        known = self.brokers.setdefault(broker, [])
        self._epochs.pop(broker, None)
        before = known[-1] if known else Registration(-1, 0, -1, True, False, False)
        fenced, stopping, registered = before.fenced, before.in_controlled_shutdown, True
        epoch = data.get("brokerEpoch", data.get("epoch", before.epoch))
        if type == "REGISTER_BROKER_RECORD":
            fenced, stopping = bool(data["fenced"]), bool(data.get("inControlledShutdown", False))
            for point in data["endPoints"]:
                self.listeners[f"{point['host']}:{point['port']}"] = broker
        elif type == "BROKER_REGISTRATION_CHANGE_RECORD":
            change = data.get("fenced", 0)
            fenced = fenced if not change else change > 0
            stopping = stopping or data.get("inControlledShutdown", 0) > 0
        elif type == "UNREGISTER_BROKER_RECORD":
            fenced, registered = True, False
        else:
            fenced = type == "FENCE_BROKER_RECORD"
        known.append(Registration(position, time, epoch, fenced, stopping, registered))

    def registration(self, broker: int, position: int) -> Registration | None:
        """A broker's registration as the record at this offset, or the last one before it, has it."""
        known = self.brokers.get(broker, [])
        at = bisect_right(known, position, key=_POSITION)
        return known[at - 1] if at else None

    def epochs_of(self, broker: int) -> list[tuple[int, int]]:
        """The broker epochs that a broker was registered with, with their times, in order. Not to be changed."""
        found = self._epochs.get(broker)
        if found is None:
            found = self._epochs[broker] = []
            for r in self.brokers.get(broker, []):
                if r.registered and (not found or found[-1][0] != r.epoch):
                    found.append((r.epoch, r.time))
        return found

    def registered(self, broker: int, epoch: int) -> float:
        """When a broker was registered with an epoch; never, where it was not."""
        found = self.epochs_of(broker)
        at = bisect_left(found, epoch, key=itemgetter(0))
        return found[at][1] if at < len(found) and found[at][0] == epoch else float("inf")

    def positions(self) -> array[int]:
        """The offsets at which a partition or a registration changed, in order."""
        of_partitions = (v.position for lives in self.histories.values() for h in lives for v in h.versions)
        of_brokers = (r.position for known in self.brokers.values() for r in known)
        return array("q", sorted({*of_partitions, *of_brokers}))

    def decisions(self, history: History, start_ms: float, end_ms: float) -> list[tuple[int, Version]]:
        """The offsets at which a partition or a registration changed between two times, with the partition there.

        The first is what was in force at the start.
        """
        versions = history.around(start_ms, end_ms)
        begins, places = -1, {v.position for v in versions[1:]}
        for known in self.brokers.values():
            first = bisect_left(known, start_ms, key=_TIME)
            if first:
                begins = max(begins, known[first - 1].position)
            places |= {r.position for r in known[first : bisect_right(known, end_ms, key=_TIME)]}
        places |= {max(v.position, begins) for v in versions[:1]}
        found = {}
        for place in places:
            before = [v for v in versions if v.position <= place]
            if before:
                found[place] = before[-1]
        return sorted(found.items())
