"""Observations of a partition in a metadata log, and the model's actions that can explain them.

- Observations: the log's records about a partition, a broker of it or its settings, with brokers' ids.
- ``Evidence``: an observation as the model sees it, in slots.
- Hypotheses: the actions of the model, with their parameters, that can explain evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

from highwater.model.replication.controller import registrations
from highwater.model.replication.controller.types import NO_LEADER
from highwater.traces.metadata.beliefs.controller_stepper import MAX_BROKERS, ControllerStepper, Hypothesis
from highwater.traces.reports.observed import PartitionState

# --- observations ----------------------------------------------------------------------------------------

Brokers = tuple[int, ...]
"""Ids of brokers."""


class Flags(NamedTuple):
    """The flags of a broker's registration in the metadata log."""

    registered: bool = False
    fenced: bool = False
    in_controlled_shutdown: bool = False

    @classmethod
    def of(cls, registration: Mapping[str, Any]) -> Flags:
        """The flags in a registration of the model."""
        return cls(registration["registered"], registration["fenced"], registration["in_controlled_shutdown"])

    def to_plain(self) -> dict[str, Any]:
        """The model's registration with these flags. Its broker epoch is 0, because epochs are relative."""
        return {
            "registered": self.registered,
            "epoch": 0,
            "fenced": self.fenced,
            "in_controlled_shutdown": self.in_controlled_shutdown,
        }


NO_FLAGS = Flags()
"""The flags of a broker that is not registered."""


class Placed(NamedTuple):
    """The effect of a change on log directories.

    ``assigned`` are the brokers whose replica is in another directory than before. ``wrong``: no decision of the
    controller writes such directories.
    """

    assigned: Brokers = ()
    wrong: bool = False


class Change(NamedTuple):
    """A PartitionChangeRecord as bytes, without the partition that it names.

    ``placed`` is set for a record with log directories or other replicas, if the rules depend on directories.
    """

    raw: bytes
    placed: Placed | None = None


@dataclass(frozen=True, eq=False)
class BrokerChange:
    """An event of a broker. ``kind`` is one of the kinds of ``Evidence``; ``flags`` are the broker's afterwards.

    ``offline``: the broker's replica of the partition is in an offline log directory afterwards. It matters only for
    the kinds in ``PLACING``.

    Events are compared by identity, so that lookups are fast.
    """

    kind: str
    broker: int
    flags: Flags
    offline: bool = False


class TopicSettings(NamedTuple):
    """The topic's configuration from now on: the possible values of min.insync.replicas and unclean election.

    ``first`` is the number of replicas of the topic's first partition; 0 for the first partition itself, or if unknown.
    ``of_min_isr``: a record of min.insync.replicas sets the values.
    """

    min_isr: tuple[int, ...]
    unclean: tuple[bool, ...]
    first: int = 0
    of_min_isr: bool = False


Observation = Change | BrokerChange | TopicSettings


_ORDER = {
    "fence": registrations.FENCING_BATCH,
    "fence_again": registrations.FENCING_BATCH,
    "unfence": registrations.UNFENCING_BATCH,
    "start_controlled_shutdown": registrations.CONTROLLED_SHUTDOWN_BATCH,
    "register": registrations.REGISTRATION_BATCH,
    "unregister": registrations.REMOVAL_BATCH,
    "lose_directory": registrations.DIRECTORY_LOSS_BATCH,
}
LEADING = frozenset(kind for kind, order in _ORDER.items() if order[-1] == registrations.BROKER)
"""The decisions that write the changes of partitions before the record of the broker."""
TRAILING = frozenset(_ORDER) - LEADING
"""The decisions that write the changes of partitions after the record of the broker."""


# --- evidence --------------------------------------------------------------------------------------------

Slots = tuple[int, ...]
"""Brokers as the model has them: 0, 1, … in the order of a partition's replicas, then its other brokers."""


SETS = ("isr", "elr", "last_known_elr", "adding", "removing")
"""The fields of a partition that are sets of brokers."""


@dataclass(frozen=True)
class Observed(PartitionState):
    """A partition whose brokers are slots, with its epochs at 0. Sets are in ascending order.

    ``offline`` are the replicas in offline log directories, under rules that depend on them. Three fields describe the
    last record. ``bumped``: the leader epoch grew. ``repeated``: fields that the record has without a change.
    ``misplaced``: no decision writes such log directories.
    """

    offline: Slots = ()
    bumped: bool = False
    repeated: tuple[str, ...] = ()
    misplaced: bool = False

    @classmethod
    def of(cls, partition: Mapping[str, Any]) -> Observed:
        """The observed partition for a partition of the model."""
        bumped, offline = partition["leader_epoch"] > 0, tuple(partition.get("offline", ()))
        return replace(
            super().of({**partition, "leader_epoch": 0, "partition_epoch": 0}), offline=offline, bumped=bumped
        )

    def to_plain(self, is_leader: bool) -> dict[str, Any]:
        """The partition as plain values of the model. ``is_leader``: LastKnownElr has the last known leader."""
        last_known = [] if is_leader else [s for s in self.last_known_elr if s != NO_LEADER]
        return {
            **{name: list(getattr(self, name)) for name in ("replicas", "offline", *SETS)},
            "last_known_elr": last_known,
            "last_known_leader": self.last_known_elr[0] if is_leader else None,
            "leader": self.leader,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "leader_recovery_state": self.leader_recovery_state,
        }

    def settled(self) -> Observed:
        """The partition without the description of its last record."""
        return replace(self, bumped=False, repeated=(), misplaced=False)

    def used(self) -> Slots:
        """The slots that the partition names: the replicas in their order, then the others."""
        others = {s for name in SETS for s in getattr(self, name)} | {self.leader}
        return (*self.replicas, *sorted(s for s in others - {*self.replicas} if s not in (None, NO_LEADER)))

    def renamed(self, new: Mapping[int, int]) -> Observed:
        """The partition with its slots renamed by ``new``, without the description of its last record.

        A slot that ``new`` lacks becomes NO_LEADER in a set, and None as the leader.
        """
        sets: dict[str, Any] = {
            name: tuple(sorted(new.get(s, NO_LEADER) for s in getattr(self, name)))
            for name in (*SETS, "offline")
        }
        leader = None if self.leader is None else new.get(self.leader)
        return replace(self.settled(), replicas=tuple(new[s] for s in self.replicas), leader=leader, **sets)


@dataclass(frozen=True)
class Evidence:
    """An observation of a partition as the model sees it: in slots, with one value for each setting.

    ``kind``:

    - "change": a record of the partition on its own;
    - the name of a model's action: an event of the broker of ``slot``, with its ``flags`` afterwards;
    - "unregister": the broker of ``slot`` is removed;
    - "list_directories": the broker of ``slot`` lists other log directories;
    - "assigned_offline": the broker of ``slot`` reported that its replica is in an offline directory;
    - "settings": the topic's configuration, as in ``TopicSettings``.

    ``after`` is the partition after the record that belongs to the observation, None if there is none. ``records``:
    the number of times that this record is written. ``assigned``: the slots of the replicas that are in another log
    directory afterwards, None if the record has no directories. ``offline``: the broker's replica is in an offline
    directory afterwards. ``is_last``: the controller that wrote it wrote nothing after it.
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


def after_evidence(before: Observed, evidence: Evidence) -> Observed:
    """The partition after the evidence's record, with the state of its broker's directories afterwards."""
    after = before if evidence.after is None else evidence.after
    if evidence.kind not in PLACING or evidence.slot not in after.replicas:
        return after
    offline = {*after.offline} - {evidence.slot} | ({evidence.slot} if evidence.offline else set())
    return replace(after, offline=tuple(sorted(offline)))


# --- hypotheses ------------------------------------------------------------------------------------------

BROKER_ACTIONS = frozenset({"fence", "fence_again", "unfence", "start_controlled_shutdown", "register"})
ENVIRONMENT = frozenset({"unregister", "set", "list_directories"})
"""Events without a rule of the protocol: a broker is removed, a setting is unset or keeps its value, a registered
broker lists other log directories."""


def may_cause(actions: ControllerStepper, hypothesis: Hypothesis, evidence: Evidence) -> bool:
    """True if the action can cause the evidence.

    If the rules make ``change_min_isr`` clear ELRs, only a record of min.insync.replicas is evidence of this action.
    """
    if hypothesis.action == "change_min_isr" and "min_isr_change_clears_elr" in actions.rules:
        return evidence.of_min_isr
    return True


def likely(before: Observed, evidence: Evidence) -> Iterator[Hypothesis]:
    """The actions, with their parameters, that are likely to explain evidence."""
    match evidence.kind:
        case "fence" | "unfence" | "start_controlled_shutdown" | "unregister" | "lose_directory":
            yield Hypothesis(evidence.kind, (evidence.slot,))
        case "fence_again":
            yield Hypothesis("fence_again", (evidence.slot,))
            # Under rules without ``fence_again``, ``fence`` is the nearest miss.
            yield Hypothesis("fence", (evidence.slot,))
        case "assigned_offline":
            yield Hypothesis("lose_directory", (evidence.slot,))
        case "list_directories":
            yield Hypothesis("list_directories")
        case "register":
            yield Hypothesis("register", (evidence.slot, False))
            yield Hypothesis("register", (evidence.slot, True))
        case "settings":
            yield Hypothesis("change_min_isr", (held(evidence.min_isr),))
            if evidence.after is None:
                yield Hypothesis("set")
        case _:
            yield from _of_a_change(before, evidence)


def rounds(before: Observed, evidence: Evidence) -> Iterator[list[Hypothesis]]:
    """The actions that can explain evidence, in rounds: the likely ones first, the least likely ones last.

    A round is tried only if the earlier ones explain nothing.
    """
    yield list(likely(before, evidence))
    if evidence.kind != "change" or evidence.assigned is not None:
        return
    others = [Hypothesis("alter_partition", (isr, None)) for isr in _subsets(before.replicas)]
    # A reassignment to the present replicas moves nothing, but can elect a leader.
    yield [*others, Hypothesis("reassign", (before.replicas,))]
    if evidence.is_last:
        used = before.used()
        yield [Hypothesis("register_in_part", (slot, clean)) for slot in used for clean in (False, True)]


def _of_a_change(before: Observed, evidence: Evidence) -> Iterator[Hypothesis]:
    """The actions that can change a partition although no broker and no setting changed."""
    after = evidence.after
    assert after is not None
    if evidence.assigned is not None:
        # No other decision writes directories while the replicas stay the same.
        yield from (Hypothesis("assign_directory", (slot,)) for slot in evidence.assigned)
        return
    # The leader may propose the new ISR together with brokers that leave because it completes a reassignment.
    for leaving in _subsets(before.removing):
        yield Hypothesis("alter_partition", (tuple(sorted({*after.isr, *leaving})), None))
    yield Hypothesis("elect_leader", ("PREFERRED",))
    yield Hypothesis("elect_leader", ("UNCLEAN",))
    yield Hypothesis("maybe_elect_unclean_leader")
    yield Hypothesis("maybe_balance_leader")
    if after.leader is not None:
        yield Hypothesis("recover_uncleanly", (after.leader,))
    if after.replicas != before.replicas or after.adding or after.removing:
        targets = {after.replicas, tuple(s for s in after.replicas if s not in after.removing)}
        yield from (Hypothesis("reassign", (target,)) for target in sorted(targets))
    if before.adding or before.removing:
        yield Hypothesis("cancel_reassignment")


def _subsets(slots: Slots) -> Iterator[Slots]:
    for size in range(len(slots) + 1):
        yield from combinations(sorted(slots), size)


def held(min_insync_replicas: int) -> int:
    """The model's value for a min.insync.replicas: the nearest value from 1 to MAX_BROKERS."""
    return max(1, min(min_insync_replicas, MAX_BROKERS))
