"""An index of the metadata log for request logs: topics by id, registrations, and each partition's versions.

The leader epochs, partition epochs and broker epochs in a message refer to records of the metadata log. Events are
ordered by these records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from msgspec import Struct

from highwater.traces.reports.observed import PartitionChange, SettingInForce

NEVER = float("inf")
SHOWN = 4
"""How many of the latest known epochs a report lists beside an unknown epoch."""

# --- partitions ------------------------------------------------------------------------------------------


class EpochBegins(Struct, gc=False, frozen=True):
    """The start of a leader epoch: its leader (None: no leader), time, and offset in the metadata log.

    ``number`` is the index of the epoch's first version in ``History.versions``.
    """

    epoch: int
    leader: int | None
    number: int
    time: int
    position: int


@dataclass(slots=True)
class History:
    """The versions of a partition in log order, from a creation to the next deletion.

    ``number`` is unique among all histories. ``position`` is the metadata offset of the first version.
    """

    number: int
    name: str
    position: int
    deleted: int | None = None
    """The time at which the partition was deleted; None if it was not."""
    versions: list[PartitionChange] = field(default_factory=list)
    _by_time: list[tuple[int, int]] = field(default_factory=list)
    _epochs: dict[int, EpochBegins] = field(default_factory=dict)
    _sorted: list[int] = field(default_factory=list)
    """The leader epochs, ascending."""

    def add(self, version: PartitionChange) -> None:
        """Add the next version."""
        state, number = version.state, len(self.versions)
        is_new = not self.versions or state.leader_epoch != self.versions[-1].state.leader_epoch
        if is_new and state.leader_epoch not in self._epochs:
            self._epochs[state.leader_epoch] = EpochBegins(
                state.leader_epoch, state.leader, number, version.time, version.position
            )
            insort(self._sorted, state.leader_epoch)
        insort(self._by_time, (version.time, number))
        self.versions.append(version)

    def begins(self, epoch: int) -> EpochBegins | None:
        """The start of a leader epoch; None if the partition had no such epoch."""
        return self._epochs.get(epoch)

    def later(self, epoch: int) -> EpochBegins | None:
        """The start of the next leader epoch after ``epoch``; None if there is none."""
        place = bisect_right(self._sorted, epoch)
        return self._epochs[self._sorted[place]] if place < len(self._sorted) else None

    def of_epoch(self, epoch: int) -> list[PartitionChange]:
        """The versions of the partition in a leader epoch; empty if there was no such epoch."""
        first, later = self.begins(epoch), self.later(epoch)
        if first is None:
            return []
        return self.versions[first.number : None if later is None else later.number]

    def with_partition_epoch(self, epoch: int, partition_epoch: int) -> list[PartitionChange]:
        """The versions of the partition in a leader epoch that have this partition epoch."""
        return [v for v in self.of_epoch(epoch) if v.state.partition_epoch == partition_epoch]

    def around(self, start_ms: float, end_ms: float) -> list[PartitionChange]:
        """The versions that were in force at some time between two times of the controller's clock."""
        first = bisect_right(self._by_time, (start_ms, NEVER))
        last = bisect_right(self._by_time, (end_ms, NEVER))
        return [self.versions[number] for _, number in self._by_time[max(0, first - 1) : max(first, last)]]

    def has_later(self, epoch: int, by_ms: float) -> bool:
        """True if a leader epoch after ``epoch`` had begun by a time of the controller's clock."""
        found = self.later(epoch)
        return found is not None and found.time <= by_ms

    def led_by(self, broker: int, by_ms: float) -> int | None:
        """The last leader epoch in which ``broker`` led, of the epochs that began by ``by_ms``; None if there is none.

        ``by_ms`` is a time of the controller's clock.
        """
        led = (b for b in self._epochs.values() if b.leader == broker and b.time <= by_ms)
        found = max(led, key=lambda b: (b.time, b.epoch), default=None)
        return None if found is None else found.epoch

    def begun(self, by_ms: float) -> list[int]:
        """The leader epochs that had begun by a time of the controller's clock; only the last SHOWN of them."""
        return [epoch for epoch in self._sorted if self._epochs[epoch].time <= by_ms][-SHOWN:]


# --- the log ---------------------------------------------------------------------------------------------

_OF_BROKERS = (
    "REGISTER_BROKER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD", "FENCE_BROKER_RECORD", "UNFENCE_BROKER_RECORD",
    "UNREGISTER_BROKER_RECORD",
)  # fmt: skip


class Registration(Struct, gc=False, frozen=True):
    """A broker's registration after the record at the metadata offset ``position``."""

    position: int
    time: int
    epoch: int
    fenced: bool
    in_controlled_shutdown: bool
    registered: bool = True


_EPOCH = attrgetter("epoch")


class MetadataIndex:
    """The index of a metadata log. The replay calls ``change``, ``setting`` and ``record``."""

    def __init__(self) -> None:
        self.brokers: dict[int, Registration] = {}
        """The last registration of each broker."""
        self.listeners: dict[str, int] = {}
        """The broker at each address and port."""
        self.topics: dict[str, tuple[str, int]] = {}
        """The name of a topic and the metadata offset of its record, by topic id and by topic name."""
        self.histories: dict[tuple[str, int], list[History]] = defaultdict(list)
        """The histories of a partition, one for each creation, by the topic's name and the partition's number."""
        self._living: dict[str, History] = {}
        self._lives = 0
        self._registrations: dict[int, list[Registration]] = defaultdict(list)
        self._by_time: list[tuple[int, int, int]] = []
        """Each change of a registration: its time, its number in log order, and its metadata offset; sorted."""
        self._incarnations: dict[int, list[Registration]] = defaultdict(list)
        """Per broker, the first registration with each broker epoch; sorted by broker epoch."""

    # --- partitions -----------------------------------------------------------------------------------

    def history(self, topic: str, number: int) -> History | None:
        """The partition's history since its topic was created; None if there is none.

        ``topic`` is a topic id, or the name of a topic; the last topic of that name counts.
        """
        name, position = self.topics.get(topic, ("", 0))
        return next((h for h in self.histories.get((name, number), ()) if h.position >= position), None)

    def change(self, change: PartitionChange) -> None:
        """Add a change of a partition."""
        known = self._living.get(change.name)
        if change.after is None:
            if known is not None:
                del self._living[change.name]
                known.deleted = change.time
            return
        if known is None or change.before is None:
            self._lives += 1
            known = self._living[change.name] = History(self._lives, change.name, change.position)
            self.histories[change.topic, change.partition].append(known)
        known.add(change)

    def setting(self, name: str, setting: SettingInForce) -> None:
        """Add a change of a setting that applies to the partition ``name``."""
        known = self._living.get(name)
        if known is not None:
            at, last = setting.change, known.versions[-1]
            now = replace(
                last, position=at.position, time=at.time, before=last.after, cause=None, min_isr=setting.min_isr,
                unclean_election=setting.unclean_election,
            )  # fmt: skip
            known.add(now)

    # --- topics and brokers ---------------------------------------------------------------------------

    def record(self, position: int, time: int, type: str, data: Mapping[str, Any]) -> None:
        """Add the record of a topic or a broker at the metadata offset ``position`` (-1 in a snapshot)."""
        if type == "TOPIC_RECORD":
            self.topics[data["topicId"]] = self.topics[data["name"]] = data["name"], position
        elif type in _OF_BROKERS:
            self._broker(position, time, type, data)

    def _broker(self, position: int, time: int, type: str, data: Mapping[str, Any]) -> None:
        broker = data.get("brokerId", data.get("id"))
        assert isinstance(broker, int)
        before = self.brokers.get(broker) or Registration(-1, 0, -1, True, False, False)
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
        found = Registration(position, time, epoch, fenced, stopping, registered)
        self.brokers[broker] = found
        self._registrations[broker].append(found)
        insort(self._by_time, (time, len(self._by_time), position))
        if registered and self.registered(broker, epoch) == NEVER:
            insort(self._incarnations[broker], found, key=_EPOCH)

    def registration(self, broker: int, position: int) -> Registration | None:
        """A broker's registration after the record at an offset; None if it has not registered yet."""
        known = self._registrations.get(broker, [])
        place = bisect_right(known, position, key=lambda r: r.position)
        return known[place - 1] if place else None

    def epochs_of(self, broker: int) -> list[int]:
        """The broker epochs with which a broker was registered, ascending: the last SHOWN ones."""
        return [found.epoch for found in self._incarnations.get(broker, ())[-SHOWN:]]

    def latest_epoch(self, broker: int, by_ms: float = NEVER) -> int:
        """The greatest broker epoch with which a broker was registered by a time; −1 if there is none."""
        return max((r.epoch for r in self._incarnations.get(broker, ()) if r.time <= by_ms), default=-1)

    def registered(self, broker: int, epoch: int) -> float:
        """The time at which a broker was registered with a broker epoch; NEVER if it was not."""
        known = self._incarnations.get(broker, ())
        place = bisect_left(known, epoch, key=_EPOCH)
        return float(known[place].time) if place < len(known) and known[place].epoch == epoch else NEVER

    def registered_later(self, broker: int, epoch: int) -> Registration | None:
        """A broker's registration with the next broker epoch after ``epoch``; None if there is none."""
        known = self._incarnations.get(broker, ())
        place = bisect_right(known, epoch, key=_EPOCH)
        return known[place] if place < len(known) else None

    def starts_after(self, broker: int, time: float) -> float:
        """The first time after ``time`` at which a broker was registered with a new broker epoch; NEVER if none."""
        known = self._incarnations.get(broker, ())
        return min((float(found.time) for found in known if found.time > time), default=NEVER)

    # --- both -----------------------------------------------------------------------------------------

    def decisions(
        self, history: History, start_ms: float, end_ms: float
    ) -> list[tuple[int, PartitionChange]]:
        """The states in which a controller can have made a decision between two times: (metadata offset, version).

        A change of the partition, or of any broker's registration, leads to a new state. The first state is the one
        at ``start_ms``; the others follow until ``end_ms``.
        """
        versions = history.around(start_ms, end_ms)
        first = bisect_left(self._by_time, (start_ms, -1, -1))
        last = bisect_right(self._by_time, (end_ms, NEVER, NEVER))
        begins = self._by_time[first - 1][2] if first else -1
        places = {v.position for v in versions[1:]} | {position for *_, position in self._by_time[first:last]}
        places |= {max(v.position, begins) for v in versions[:1]}
        found = {}
        for place in places:
            then = [v for v in versions if v.position <= place]
            if then:
                found[place] = then[-1]
        return sorted(found.items())
