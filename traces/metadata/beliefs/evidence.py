"""Evidence: an observation as the model sees it, in slots; and the hypotheses that came near to explaining it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.actions import Hypothesis
from highwater.traces.metadata.beliefs.observations import NO_FLAGS, Flags

Slots = tuple[int, ...]
"""Brokers as the model has them: 0, 1, … in the order of a partition's replicas, then the others that it names."""


@dataclass(frozen=True)
class Observed:
    """A partition as the metadata log has it, brokers as slots.

    ``bumped``: the leader epoch grew with the last record; ``repeated``: fields that its record holds as they were, and
    ``misplaced``: it has log directories as no decision writes them.

    ``last_known`` is the field LastKnownElr, whatever a version keeps in it. ``offline`` are the replicas in a log
    directory that is offline, under rules that ask for them. Sets are in ascending order.
    """

    replicas: Slots
    isr: Slots
    elr: Slots = ()
    last_known: Slots = ()
    leader: int = NO_LEADER
    recovery: str = "RECOVERED"
    adding: Slots = ()
    removing: Slots = ()
    offline: Slots = ()
    bumped: bool = False
    repeated: tuple[str, ...] = ()
    misplaced: bool = False

    @classmethod
    def of(cls, partition: Mapping[str, Any]) -> Observed:
        """A partition as the model has it, as the metadata log would have it."""
        last_known = partition["last_known_elr"]
        if not last_known and partition["last_known_leader"] is not None:
            last_known = [partition["last_known_leader"]]
        return cls(
            tuple(partition["replicas"]),
            tuple(partition["isr"]),
            tuple(partition["elr"]),
            tuple(last_known),
            NO_LEADER if partition["leader"] is None else partition["leader"],
            partition["leader_recovery_state"],
            tuple(partition["adding"]),
            tuple(partition["removing"]),
            tuple(partition.get("offline", ())),
            partition["leader_epoch"] > 0,
        )

    def to_plain(self, is_leader: bool) -> dict[str, Any]:
        """As the model has it, with epochs of 0; ``is_leader``: LastKnownElr holds the last known leader."""
        return {
            "replicas": list(self.replicas),
            "adding": list(self.adding),
            "removing": list(self.removing),
            "offline": list(self.offline),
            "isr": list(self.isr),
            "elr": list(self.elr),
            "last_known_elr": [] if is_leader else [s for s in self.last_known if s != NO_LEADER],
            "last_known_leader": self.last_known[0] if is_leader else None,
            "leader": None if self.leader == NO_LEADER else self.leader,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "leader_recovery_state": self.recovery,
        }

    def settled(self) -> Observed:
        """Without what is only of the last record."""
        return replace(self, bumped=False, repeated=(), misplaced=False)

    def used(self) -> Slots:
        """The slots that occur: the replicas in their order, then the others."""
        others = {*self.isr, *self.elr, *self.last_known, *self.adding, *self.removing, self.leader}
        return (*self.replicas, *sorted(others - {*self.replicas, NO_LEADER}))

    def renamed(self, new: Mapping[int, int]) -> Observed:
        """With other slots."""

        def ascending(slots: Slots) -> Slots:
            return tuple(sorted(new.get(s, NO_LEADER) for s in slots))

        return Observed(
            tuple(new[s] for s in self.replicas),
            ascending(self.isr),
            ascending(self.elr),
            ascending(self.last_known),
            new.get(self.leader, NO_LEADER),
            self.recovery,
            ascending(self.adding),
            ascending(self.removing),
            ascending(self.offline),
        )


@dataclass(frozen=True)
class Evidence:
    """What an observation says of a partition, in slots, with one value for each setting.

    ``after`` is the partition after the record that belongs to it, None where none does. ``kind`` is
    "change" for a record on its own; the name of one of the model's actions for what happened to a broker
    (``slot``, with its ``flags`` after it); "settings" for the configuration (``min_isr``, ``unclean``, and the number
    of replicas of the topic's ``first`` partition, 0 for that itself; ``of_min_isr``: a record of min.insync.replicas
    says so); "unregister" for a broker that is removed; "list_directories" for one that has other log directories from
    now on, "assigned_offline" where it has reported that its replica is in one that is offline.

    ``records``: so often the same record stands there. ``assigned``: the slots of the replicas that are in another log
    directory afterwards, None where the record does not say that. ``offline``: whether the broker's replica is in a
    directory that is offline afterwards. ``is_last``: the controller that wrote it wrote nothing after it.
    """

    kind: str
    after: Observed | None = None
    slot: int = 0
    flags: Flags = NO_FLAGS
    min_isr: int = 1
    unclean: bool = False
    first: int = 0
    of_min_isr: bool = False
    records: int = 1
    assigned: Slots | None = None
    offline: bool = False
    is_last: bool = False


PLACING = frozenset({"register", "lose_directory", "assigned_offline", "list_directories"})
"""Kinds of evidence after which a broker has other log directories, or its replica is in another one."""


@dataclass(frozen=True)
class NearMiss:
    """A hypothesis that came near to evidence that nothing explains; brokers as slots."""

    hypothesis: Hypothesis
    parameters: tuple[str, ...]
    refused_by: tuple[str, ...]
    passed: tuple[str, ...]
    differences: Mapping[str, tuple[Any, Any]]


def after_evidence(before: Observed, evidence: Evidence) -> Observed:
    """The partition after an evidence: after its record, and with the directories of its broker as they are then."""
    after = before if evidence.after is None else evidence.after
    if evidence.kind not in PLACING or evidence.slot not in after.replicas:
        return after
    offline = {*after.offline} - {evidence.slot} | ({evidence.slot} if evidence.offline else set())
    return replace(after, offline=tuple(sorted(offline)))
