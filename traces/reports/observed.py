"""The observed states of partitions, replicas and controllers, as Python values. No rule is stated here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from highwater.traces.kafka import broker_log as events

Json = Mapping[str, Any]
"""A JSON object, by field name."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as in the metadata log. Members are node ids; ``leader`` is None if there is none.

    The order of ``isr``, ``elr`` and ``last_known_elr`` has no meaning. ``last_known_elr`` is the field LastKnownElr,
    in which some versions of Kafka store the last known leader.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader: int | None = None
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: str = "RECOVERED"
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if the partition has a leader, and all replicas are in the ISR."""
        return self.leader is not None and set(self.replicas) <= set(self.isr)

    @property
    def is_recovering(self) -> bool:
        """True if the leader was elected uncleanly, and has not reported recovery yet."""
        return self.leader_recovery_state != "RECOVERED"

    @classmethod
    def of(cls, partition: Json) -> Self:
        """Convert a partition of the model to the metadata log's form."""
        last_known, leader = partition["last_known_elr"], partition["last_known_leader"]
        return cls(
            replicas=tuple(partition["replicas"]),
            isr=tuple(partition["isr"]),
            elr=tuple(partition["elr"]),
            last_known_elr=tuple(last_known) if last_known or leader is None else (leader,),
            leader=partition["leader"],
            leader_epoch=partition["leader_epoch"],
            partition_epoch=partition["partition_epoch"],
            leader_recovery_state=partition["leader_recovery_state"],
            adding=tuple(partition["adding"]),
            removing=tuple(partition["removing"]),
        )

    def to_json(self) -> Json:
        """The state as plain data for JSON, with the field names of the metadata records."""
        return {
            "replicas": list(self.replicas),
            "isr": list(self.isr),
            "elr": list(self.elr),
            "lastKnownElr": list(self.last_known_elr),
            "leader": -1 if self.leader is None else self.leader,
            "leaderEpoch": self.leader_epoch,
            "partitionEpoch": self.partition_epoch,
            "leaderRecoveryState": self.leader_recovery_state,
            "addingReplicas": list(self.adding),
            "removingReplicas": list(self.removing),
        }


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One change of a partition: ``before`` is None for a new partition, ``after`` is None for a deleted one.

    ``position`` is the offset in the metadata log, ``time`` the log's time in ms since the epoch. ``cause`` is the
    model's name of the action that explains the change, None if no action does. ``min_isr`` (the effective value,
    966.2) and ``unclean_election`` are the settings in force, None if the log does not show them. ``topic_id`` tells
    topics apart that had the same name one after the other.
    """

    position: int
    time: int
    topic: str
    partition: int
    before: PartitionState | None
    after: PartitionState | None
    cause: str | None = None
    min_isr: int | None = None
    unclean_election: bool | None = None
    topic_id: str = ""

    @property
    def name(self) -> str:
        """The partition's name, as Kafka writes it: topic, dash, number."""
        return f"{self.topic}-{self.partition}"

    @property
    def state(self) -> PartitionState:
        """The partition after a change that is no deletion."""
        assert self.after is not None
        return self.after

    def to_json(self) -> Json:
        """The change as plain data for JSON, without the partition's name and ``before``."""
        return {
            "position": self.position,
            "time": self.time,
            "after": None if self.after is None else self.after.to_json(),
            "cause": self.cause,
            "min_isr": self.min_isr,
            "unclean_election": self.unclean_election,
        }


@dataclass(frozen=True, slots=True)
class Followers:
    """The brokers that have had the log of the leader of ``leader_epoch``: the leader, and who joined its ISR since.

    A later leader that is one of them has that log, too. Any other leader begins new ``Followers``.
    """

    leader_epoch: int
    brokers: frozenset[int]

    @classmethod
    def of(cls, state: PartitionState) -> Followers:
        """The followers at the start of a leader epoch: nobody has joined the ISR since."""
        return cls(state.leader_epoch, frozenset() if state.leader is None else frozenset({state.leader}))

    def after(self, before: PartitionState, state: PartitionState) -> Followers:
        """The followers after a change of the partition. Only who joins the ISR of a leader that stays is a new one."""
        if state.leader is None:
            return self
        if state.leader != before.leader:
            return self if state.leader in self.brokers else Followers.of(state)
        return Followers(self.leader_epoch, self.brokers | (set(state.isr) - set(before.isr)))


@dataclass(frozen=True, slots=True)
class FinalState:
    """A partition that has no leader, or violates or may violate a property, at the end of the input.

    ``leaderless_since`` is a time in ms since the epoch, None if the partition has a leader. ``failing`` are the
    properties that are or may be violated. ``followers`` are those of the last leader with a finding, if there is one.
    """

    partition: str
    replicas: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leaderless_since: int | None = None
    failing: tuple[str, ...] = ()
    followers: Followers | None = None
    topic_id: str = ""

    @property
    def is_offline(self) -> bool:
        """True if the partition has no leader."""
        return self.leader is None

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The brokers that an offline partition waits for: any one of them can be elected when it returns.

        They are the ISR if it has members, else the ELR, else the last known leader. Members that are not replicas
        are left out, because they cannot be elected.
        """
        members = self.isr or self.elr or self.last_known_elr
        return tuple(broker for broker in members if broker in self.replicas)

    @classmethod
    def of(
        cls,
        name: str,
        state: PartitionState,
        since: int | None,
        failing: Iterable[str],
        followers: Followers | None,
        topic_id: str,
    ) -> FinalState:
        """The final state of a partition, from its state at the end of the input."""
        members = state.isr, state.elr, state.last_known_elr
        failed = tuple(sorted(failing))
        return cls(name, state.replicas, state.leader, *members, since, failed, followers, topic_id)

    def to_json(self) -> Json:
        """The final state as plain data for JSON."""
        fields = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}
        del fields["followers"], fields["topic_id"]
        return {**fields, "waits_for": list(self.waits_for) if self.is_offline else []}


FROM_ISR, FROM_ELR, FROM_OUTSIDE = "the ISR", "the ELR", "outside ISR and ELR"
"""The set from which a leader was elected."""
EMPTY = -1
"""The value of ``ReplicaEnd.last_epoch`` for an empty log."""


@dataclass(frozen=True, slots=True)
class LogTruncation:
    """A truncation of a broker's log to an offset, at a time (ms since the epoch; None if unknown).

    ``leader_epoch`` is the leader epoch in which the broker followed at that time.
    """

    to: int
    time: int | None
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ReplicaEnd:
    """The last known end of a replica's log.

    - ``leo`` is the log end offset. With ``at_least`` it is not exact: the log may have grown since, or its last
      truncation, to ``leo``, may have left a shorter log.
    - ``time`` (ms since the epoch) is None if unknown, or for a dump.
    - ``last_epoch`` is the leader epoch of the last record: ``EMPTY`` for an empty log, None if unknown.
    - ``leader_epoch`` is the latest leader epoch in which the broker led or followed, -1 if unknown.
    - ``directory`` is where the broker has set the log aside, None if the log is in use. ``is_deleted`` is true if the
      broker has deleted that directory since.
    """

    broker: int
    leo: int
    at_least: bool
    last_epoch: int | None
    time: int | None
    leader_epoch: int
    truncations: tuple[LogTruncation, ...] = ()
    directory: str | None = None
    is_deleted: bool = False

    def to_json(self) -> Json:
        """The end of the log as plain data for JSON."""
        return {**asdict(self), "truncations": [asdict(t) for t in self.truncations]}


MAX_CONTROLLERS = 1000
"""The most controller elections in a report; earlier ones are dropped."""


@dataclass
class Controllers:
    """The elections of active controllers, and the causes of their failures if the nodes' logs show them.

    ``elections`` are triples: controller epoch, offset in the metadata log and time (ms since the epoch) of the first
    record that the controller wrote. ``failures`` counts events that made a controller resign, by event and
    exception; ``refused`` counts registrations that failed while a controller resigned, by broker.
    """

    elections: list[tuple[int, int, int]] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def elected(self, epoch: int, offset: int, time: int) -> None:
        """Add an election, from a record of this controller epoch; only the first record of an epoch counts."""
        if self.elections and self.elections[-1][0] == epoch:
            return
        self.elections.append((epoch, offset, time))
        del self.elections[:-MAX_CONTROLLERS]

    def to_json(self) -> Json:
        """The elections and failures as plain data for JSON."""
        return {**asdict(self), "elections": [list(one) for one in self.elections]}


# HWM and LEO of each broker over time, thinned for a drawing.

MAX_POINTS = 240
"""The most points of one line: above this, every other point is left out."""
MAX_LINES = 20_000
"""The most lines (HWM or LEO of one broker in one broker's log) of all partitions; further lines are left out."""
HWM, LEO = "HWM", "LEO"
UNKNOWN = -1
"""The offset of a point after which the HWM is unknown, because a follower's advance of its HWM is not logged."""


@dataclass(slots=True)
class Course:
    """The HWM or LEO of one broker over time: pairs of a time (ms since the epoch) and an offset.

    The time is by the clock of the broker that logged the value. A leader logs a follower's LEO when the follower
    fetches.
    """

    broker: int
    kind: str
    points: list[tuple[int, int]] = field(default_factory=list)
    _every: int = 1
    _left: int = 0

    def add(self, time: int, offset: int) -> None:
        """Add a point. Above MAX_POINTS, leave out points; if at most half of them are around decreases, keep those."""
        last = self.points[-1] if self.points else None
        if last == (time, offset) or (last is not None and offset == UNKNOWN == last[1]):
            return
        if last is not None and offset >= last[1] and self._left > 0:
            self._left -= 1
            if len(self.points) > 1 and self.points[-2][1] <= last[1]:
                self.points[-1] = (time, offset)
                return
        self._left = self._every - 1
        self.points.append((time, offset))
        if len(self.points) > MAX_POINTS:
            self._thin()

    def _thin(self) -> None:
        falls = {i for i, (a, b) in enumerate(zip(self.points, self.points[1:], strict=False)) if b[1] < a[1]}
        falls |= {i + 1 for i in falls}
        if len(falls) > MAX_POINTS // 2:
            falls = set()
        last = len(self.points) - 1
        self.points = [p for i, p in enumerate(self.points) if i % 2 == 0 or i in falls or i == last]
        self._every *= 2


class Courses:
    """Collects HWM and LEO from the events of brokers' logs; the events of each broker must be in order."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[tuple[int, int, str], Course]] = {}
        self._count = 0

    def take(self, event: events.BrokerEvent) -> None:
        """Add the next event of a broker."""
        for broker, kind, offset in _said(event):
            of_partition = self._lines.setdefault(event.name, {})
            key = (broker, event.broker, kind)
            line = of_partition.get(key)
            if offset < 0 and (offset != UNKNOWN or line is None):
                continue
            if isinstance(event, events.HwmLowered) and (line is None or line.points[-1][1] == UNKNOWN):
                continue
            if line is None:
                if self._count >= MAX_LINES:
                    continue
                self._count += 1
                line = of_partition[key] = Course(broker, kind)
            line.add(event.time_ms, offset)

    def of(self, name: str, ahead_ms: Callable[[int], int | None]) -> list[Course]:
        """The HWM and LEO of each broker of a partition, merged from all brokers' logs, with times in UTC.

        ``ahead_ms`` returns how many ms a broker's log is ahead of UTC. If it returns None, that log is left out.
        """
        merged: dict[tuple[int, str], Course] = {}
        for (broker, teller, kind), line in sorted(self._lines.get(name, {}).items()):
            ahead = ahead_ms(teller)
            if ahead is None:
                continue
            course = merged.setdefault((broker, kind), Course(broker, kind))
            points = [(time - ahead, offset) for time, offset in line.points]
            course.points = sorted((*course.points, *points), key=lambda point: point[0])
        return list(merged.values())


def _said(event: events.BrokerEvent) -> Iterator[tuple[int, str, int]]:
    """Yield the offsets that an event shows, as (broker, HWM or LEO, offset).

    A leader rarely logs its own LEO, so its HWM is also a point of its LEO.
    """
    match event:
        case events.HwmMoved():
            yield event.broker, HWM, event.after
            yield event.broker, LEO, event.after
        case events.HwmLowered():
            yield event.broker, HWM, event.after
        case events.LeoRecorded():
            yield event.replica, LEO, event.leo
        case events.IsrShrinking():
            yield event.broker, LEO, event.leo
        case events.BecameLeader():
            yield event.broker, LEO, event.start_offset
            yield event.broker, HWM, event.hwm
        case events.StillLeader():
            yield event.broker, HWM, event.hwm
        case events.BecameFollower() | events.LogLoaded():
            yield event.broker, LEO, event.leo
            yield event.broker, HWM, UNKNOWN
        case events.Truncating():  # a truncation never goes beyond the log's end
            yield event.broker, LEO, event.offset
        case _:
            pass


# Changes in the metadata log of settings that can cause data loss.

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
TOPIC, BROKER, CLUSTER = "topic", "broker", "cluster"
"""Levels of a setting: one topic, one node, or the default of the cluster."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One record of a setting, at an offset of the metadata log and a time (ms since the epoch).

    ``name`` is Kafka's name. ``resource`` is the topic or the node with the setting, empty for the cluster's default.
    ``before`` and ``value`` are the values at this level before and after the record, None if not set or unknown.
    """

    position: int
    time: int
    name: str
    level: str
    resource: str
    before: str | None
    value: str | None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SettingChange:
        """Read a setting change from its JSON data."""
        return cls(data["offset"], **{name: value for name, value in data.items() if name != "offset"})

    def to_json(self) -> dict[str, Any]:
        """The setting change as plain data for JSON."""
        fields = asdict(self)
        return {"offset": fields.pop("position"), **fields}


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """The effect of a setting change on one partition: the values in force after it, None if unknown.

    ``min_isr`` is the effective value (966.2).
    """

    change: SettingChange
    min_isr: int | None
    unclean_election: bool | None


@dataclass(frozen=True, slots=True)
class Resized:
    """A change of min.insync.replicas while a partition was under min ISR.

    ``before`` and ``after`` are effective values (966.2).
    """

    change: SettingChange
    before: int
    after: int

    def to_json(self) -> dict[str, Any]:
        """The change as plain data for JSON."""
        return {"setting": self.change.to_json(), "before": self.before, "after": self.after}
