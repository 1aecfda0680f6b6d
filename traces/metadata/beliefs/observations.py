"""What is observed of a partition and of brokers, with slots for brokers; and what came near to an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.actions import Choice

Slots = tuple[int, ...]
Brokers = tuple[int, ...]


@dataclass(frozen=True)
class Observed:
    """A partition as the metadata log has it, brokers as slots.

    ``bumped``: the leader epoch grew in the last step; ``repeated``: fields that its record holds as they were, and
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

    def settled(self) -> Observed:
        """Without what is said of the last step."""
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


class Placed(NamedTuple):
    """What a change says of log directories: the brokers whose replica is in another one than before.

    ``wrong``: no decision writes them like that.
    """

    assigned: Brokers = ()
    wrong: bool = False


class Flags(NamedTuple):
    """What the metadata log has of a broker's registration, apart from its epoch."""

    registered: bool = False
    fenced: bool = False
    in_controlled_shutdown: bool = False

    @classmethod
    def of(cls, registration: Mapping[str, Any]) -> Flags:
        """Those of a registration as the model has it."""
        return cls(registration["registered"], registration["fenced"], registration["in_controlled_shutdown"])

    def to_plain(self) -> dict[str, Any]:
        """As the model has it, with an epoch of 0: epochs are relative."""
        return {
            "registered": self.registered,
            "epoch": 0,
            "fenced": self.fenced,
            "in_controlled_shutdown": self.in_controlled_shutdown,
        }


NO_FLAGS = Flags()
"""Those of a broker that is not registered."""


@dataclass(frozen=True)
class Event:
    """Something observed that concerns a partition.

    ``after`` is the partition after the record that belongs to it, None where none does. ``kind`` is
    "change" for a record on its own; the name of one of the model's actions for what happened to a broker
    (``slot``, with its ``flags`` after it); "settings" for the configuration (``min_isr``, ``unclean``, and the number
    of replicas of the topic's ``first`` partition, 0 for that itself; ``of_min_isr``: a record of min.insync.replicas
    says so); "unregister" for a broker that is removed; "list_directories" for one that has other log directories from
    now on, "assigned_offline" where it has said that its replica is in one that is offline.

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
"""Kinds of events after which a broker has other log directories, or its replica is in another one."""


@dataclass(frozen=True)
class Near:
    """An action that came near to an event that nothing explains; brokers as slots."""

    choice: Choice
    parameters: tuple[str, ...]
    refused_by: tuple[str, ...]
    passed: tuple[str, ...]
    differences: Mapping[str, tuple[Any, Any]]


def after_event(before: Observed, event: Event) -> Observed:
    """The partition after an event: after its record, and with the directories of its broker as they are then."""
    after = before if event.after is None else event.after
    if event.kind not in PLACING or event.slot not in after.replicas:
        return after
    offline = {*after.offline} - {event.slot} | ({event.slot} if event.offline else set())
    return replace(after, offline=tuple(sorted(offline)))


__all__ = [
    "NO_FLAGS", "PLACING", "Brokers", "Event", "Flags", "Near", "Observed", "Placed", "Slots", "after_event",
]  # fmt: skip
