"""The types of the controller's state, the rules that are on, and the context of a decision about a partition."""

from __future__ import annotations

import copy
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from highwater.model.language import (
    Array,
    ArrayValue,
    Bool,
    Checks,
    Enum,
    Index,
    Int,
    LanguageError,
    Number,
    Only,
    Option,
    OptionValue,
    Seq,
    Set,
    SetValue,
    Struct,
    StructValue,
    Truth,
    where,
)
from highwater.model.language.types import Value
from highwater.model.replication.controller.rules import ELR_FEATURE, RULES

P = ParamSpec("P")
V = TypeVar("V", bound=Value)

NO_LEADER = -1
"""The node id that is written for "no leader"."""

MAX_INT, MAX_LONG = 2**31 - 1, 2**63 - 1

ElectionType = Enum("ElectionType", "ONLINE PREFERRED UNCLEAN")
RecoveryRequest = Enum("RecoveryRequest", "DESIGNATION LONGEST_LOG_BALANCED LONGEST_LOG_AGGRESSIVE")
"""966.17. The election types that an operator can request, besides those of ElectionType."""

RecoveryStrategy = Enum("RecoveryStrategy", "NONE BALANCED AGGRESSIVE")
"""966.13. unclean.recovery.strategy: the controller's own reaction if no ISR or ELR member can lead."""

LeaderRecoveryState = Enum("LeaderRecoveryState", "RECOVERED RECOVERING")
BrokerState = Enum("BrokerState", "FENCED UNFENCED CONTROLLED_SHUTDOWN SHUTDOWN_NOW")
"""A broker's state before and after a heartbeat; SHUTDOWN_NOW is FENCED with the permission to stop."""

Error = Enum(
    "Error",
    "NONE STALE_BROKER_EPOCH UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PARTITION NOT_CONTROLLER FENCED_LEADER_EPOCH "
    "INVALID_REQUEST INVALID_UPDATE_VERSION INELIGIBLE_REPLICA OPERATION_NOT_ATTEMPTED NEW_LEADER_ELECTED "
    "DUPLICATE_BROKER_REGISTRATION ELECTION_NOT_NEEDED PREFERRED_LEADER_NOT_AVAILABLE "
    "ELIGIBLE_LEADERS_NOT_AVAILABLE INVALID_REPLICA_ASSIGNMENT NO_REASSIGNMENT_IN_PROGRESS "
    "INVALID_REPLICATION_FACTOR INVALID_CONFIG UNSUPPORTED_VERSION "
    "BROKER_ID_NOT_REGISTERED NOT_LEADER_OR_FOLLOWER TOPIC_ALREADY_EXISTS UNKNOWN_SERVER_ERROR "
    "UNKNOWN_LEADER_EPOCH",
)
"""Kafka's error codes, by name."""


@dataclass(frozen=True)
class EpochBounds:
    """The largest broker, leader and partition epoch of an exploration; steps beyond them are pruned."""

    broker: int
    leader: int
    partition: int


class ControllerTypes:
    """The controller's types for a number of brokers, and the rules that are on.

    Epochs and offsets have the bounds of an exploration or, without bounds, the bounds of Kafka's fields.
    ``in_any_order``: no rule depends on the order of replicas, so replica lists are kept sorted.
    """

    picked: Number | None = None
    """The broker that a rule ``…_picks_any`` elects if it is a candidate; None: the first in replica order."""

    of_features: frozenset[str] = frozenset()
    """966.18. Rules that depend on the features of a state; ``on`` raises LanguageError for them."""

    def __init__(
        self,
        brokers: int,
        rules: AbstractSet[str],
        bounds: EpochBounds | None = None,
        in_any_order: bool = False,
    ) -> None:
        for rule in set(rules) - set(RULES):
            raise LanguageError(f"the controller has no rule {rule!r}; it has {', '.join(sorted(RULES))}")
        self.rules = frozenset(rules)
        bounded = bounds is not None
        most = bounds or EpochBounds(MAX_LONG, MAX_INT, MAX_INT)

        def epoch(name: str, maximum: int) -> Int:
            return Int(0, maximum, bound=f"max_{name}" if bounded else None)

        self.broker = Index("broker", brokers)
        self.brokers = Set(self.broker)
        self.replicas = Seq(self.broker, brokers, ascends=in_any_order)
        self.broker_epoch = epoch("broker_epoch", most.broker)
        self.offset = Int(0, most.broker)
        # A last known leader: a broker, or NO_LEADER if the partition had no leader to record.
        self.node = Int(NO_LEADER, brokers - 1, names=self.broker)

        self.registration = Struct(
            "BrokerRegistration",
            registered=(Bool, "whether the controller has a registration of this broker"),
            epoch=(self.broker_epoch, "broker epoch: offset of the registration in the metadata log"),
            fenced=(Bool, "whether the broker is fenced: it gets no leadership and is in no ISR"),
            in_controlled_shutdown=(Bool, "whether the broker has asked to shut down"),
        )
        self.registrations = Array(self.broker, self.registration)
        self._define_partition(epoch("leader_epoch", most.leader), epoch("partition_epoch", most.partition))
        self._define_record()
        self._define_requests(most, bounded)

    def _define_partition(self, leader_epoch: Int, partition_epoch: Int) -> None:
        self.partition = Struct(
            "Partition",
            replicas=(self.replicas, "brokers that are assigned, the preferred leader first"),
            adding=(self.brokers, "replicas that a reassignment adds"),
            removing=(self.brokers, "replicas that a reassignment removes"),
            isr=(self.brokers, "in-sync replicas"),
            elr=(self.brokers, "eligible leader replicas: they have every committed record"),
            last_known_elr=(self.brokers, "members that left the ELR by an unclean shutdown"),
            last_known_leader=(
                Option(self.node),
                "the last leader, when there is no leader and ISR and ELR are empty; -1: not known",
            ),
            leader=(Option(self.broker), "broker that leads; none: the partition is offline"),
            leader_epoch=(leader_epoch, "count of changes of leadership"),
            partition_epoch=(partition_epoch, "count of changes of this record"),
            leader_recovery_state=(
                LeaderRecoveryState,
                "RECOVERING after an unclean election until the leader has recovered",
            ),
            offline=(
                Only(self.brokers, self.on("offline_directory_check")),
                "replicas in a log directory that their broker has no more",
            ),
        )

    def _define_requests(self, most: EpochBounds, bounded: bool) -> None:
        """Define the types of AlterPartition and heartbeat requests, and of the controller's broker sessions."""
        # A recorded request can contain any number.
        least = 0 if bounded else -MAX_INT
        # A member of a proposed ISR. The controller does not check the epoch of a member without one (−1).
        said_epoch = self.offset if bounded else Int(least, MAX_LONG)
        self.isr_member = Struct("IsrMember", broker=self.broker, epoch=Option(said_epoch))
        # The list can be longer by one than the number of brokers, so that it can have a broker twice.
        self.proposed_isr = Seq(self.isr_member, self.broker.size + 1)
        self.alter_partition = Struct(
            "AlterPartitionRequest",
            version=Int(0, 3),
            broker=self.broker,
            broker_epoch=said_epoch,
            leader_epoch=Int(least, most.leader),
            partition_epoch=Int(least, most.partition),
            new_isr=self.proposed_isr,
            leader_recovery_state=LeaderRecoveryState,
        )
        # The active controller's memory of a broker's heartbeats; it is not in the metadata log.
        self.session = Struct(
            "BrokerSession",
            last_contact_ms=Option(self.offset),
            metadata_offset=Option(self.offset),
            controlled_shutdown_offset=Option(self.offset),
            registration_offset=self.offset,
        )
        self.sessions = Array(self.broker, self.session)
        self.heartbeat = Struct(
            "BrokerHeartbeatRequest",
            broker=self.broker,
            broker_epoch=self.offset,
            current_metadata_offset=self.offset,
            want_fence=Bool,
            want_shut_down=Bool,
        )

    def _define_record(self) -> None:
        """Define the types of the record that changes a partition, and of an operator's election request."""
        # A PartitionChangeRecord has the changed fields only. A leader that is written unchanged also ends the leader
        # epoch. ``assigns``: the record assigns replicas to directories, which the partition here does not have.
        # ``fails``: building the record throws.
        self.record = Struct(
            "PartitionChangeRecord",
            replicas=Option(self.replicas),
            adding=Option(self.brokers),
            removing=Option(self.brokers),
            isr=Option(self.brokers),
            elr=Option(self.brokers),
            last_known_elr=Option(self.brokers),
            last_known_leader=Option(Option(self.node)),
            leader=Option(Option(self.broker)),
            leader_recovery_state=Option(LeaderRecoveryState),
            assigns=Bool,
            fails=Bool,
        )
        # ``leader``: the broker that a DESIGNATION names, or that a LONGEST_LOG election has elected.
        self.requested = Struct("RequestedElection", kind=RecoveryRequest, leader=self.broker)
        self.written_fields = tuple(n for n, f in self.record.fields.items() if isinstance(f, Option))

    def on(self, rule: str) -> bool:
        """True if a rule is on. The result is a plain bool, so an ``if`` can test it.

        Raises LanguageError for an unknown rule, and for a rule of ``of_features``.
        """
        if rule not in RULES:
            raise LanguageError(f"the controller has no rule {rule!r}; it has {', '.join(sorted(RULES))}")
        if rule in self.of_features:
            raise LanguageError(f"feature levels decide whether rule {rule!r} is on: ask through decided()")
        return rule in self.rules

    def under(self, rules: AbstractSet[str]) -> ControllerTypes:
        """A copy of the types in which exactly ``rules`` are on, and none depends on features.

        Both sets of rules must define the same partition fields.
        """
        other = copy.copy(self)
        other.rules = frozenset(rules)
        other.of_features = frozenset()
        return other

    def under_any_features(self, rules: AbstractSet[str]) -> ControllerTypes:
        """A copy of the types in which ``rules`` depend on features: ``on`` raises LanguageError for them."""
        other = copy.copy(self)
        other.of_features = frozenset(rules)
        return other

    def picking(self, broker: Number) -> ControllerTypes:
        """A copy of the types in which elections pick ``broker`` (``picked``)."""
        other = copy.copy(self)
        other.picked = broker
        return other

    def without_elr(self) -> ControllerTypes:
        """A copy of the types under the rules that are on at level 0 of eligible.leader.replicas.version."""
        return self.under(self.rules - ELR_FEATURE)

    def initial_partition(self, replicas: list[int], isr: list[int]) -> dict[str, Any]:
        """An initial partition as plain values; the first replica leads."""
        return {
            "replicas": replicas,
            "isr": isr,
            "leader": replicas[0],
            "leader_recovery_state": "RECOVERED",
        }

    def acceptable(
        self, partition: StructValue, registrations: ArrayValue, coming: Number | None = None
    ) -> SetValue:
        """The brokers that may lead a partition: active (841.1), and their replica's directory is not offline.

        ``coming`` is a broker that counts as active, because the decision unfences it.
        """
        active = self.active(registrations)
        active = active if coming is None else active.with_(coming)
        return active - partition.offline if self.on("offline_directory_check") else active

    def active(self, registrations: ArrayValue) -> SetValue:
        """The brokers that may lead and join an ISR: registered, unfenced, not in controlled shutdown (841.1)."""

        def is_active(broker: Any) -> Any:
            registration = registrations[broker]
            return registration.registered & ~registration.fenced & ~registration.in_controlled_shutdown

        return self.brokers.of(is_active)


@dataclass(frozen=True)
class ControllerContext:
    """The controller's state before a decision: rules, partition, registrations, topic settings."""

    t: ControllerTypes
    partition: StructValue
    registrations: ArrayValue
    min_isr: Number
    """The effective min ISR (966.2)."""
    unclean_election: Truth
    """True if the controller may elect uncleanly: the topic allows it, and unclean recovery does not replace it."""
    by_features: tuple[tuple[Truth, ControllerTypes], ...] = ()
    """966.18. Pairs of a condition on the features, and the types with the rules that are then on.

    The last pair whose condition holds applies. Empty: ``t`` applies.
    """
    topic_known: Truth | bool = True
    partition_known: Truth | bool = True

    @property
    def election(self) -> Number:
        """966.15. The type of an election that the controller starts: UNCLEAN if the topic allows it, else ONLINE."""
        return where(self.unclean_election, ElectionType.UNCLEAN, ElectionType.ONLINE)

    def under(self, t: ControllerTypes) -> ControllerContext:
        """This context under the rules of ``t``."""
        return replace(self, t=t, by_features=())

    def each(self, change: Callable[[ControllerTypes], ControllerTypes]) -> ControllerContext:
        """This context with ``change`` applied to its types, for each combination of features."""
        if not self.by_features:
            return replace(self, t=change(self.t))
        return replace(self, by_features=tuple((condition, change(t)) for condition, t in self.by_features))

    def decided(
        self, rule: Callable[Concatenate[ControllerContext, P], V], *args: P.args, **kwargs: P.kwargs
    ) -> V:
        """966.18. The result of the function ``rule`` for this context, under the rules that the features turn on."""
        result: V | None = None
        for condition, t in self.by_features or ((Bool.lift(True), self.t),):
            found = rule(self.under(t), *args, **kwargs)
            result = found if result is None else where(condition, found, result)
        assert result is not None
        return result


def written(t: ControllerTypes, field: str, condition: Truth | bool, value: Value) -> OptionValue:
    """The value of a PartitionChangeRecord's field: ``value`` if the condition holds, else unset."""
    type_ = t.record.fields[field]
    assert isinstance(type_, Option)
    return where(condition, type_.some(value), type_.none())


@dataclass(frozen=True)
class Handled:
    """A handler's result. If the checks pass, ``record`` is appended and ``error`` is the error in the answer."""

    checks: Checks
    record: StructValue
    error: Number = Error.NONE

    @property
    def answer(self) -> Number:
        """The error in the answer: the error of the first failing check, or ``error`` if all pass."""
        answer: Number = where(self.checks.passed, self.error, self.checks.answer)
        return answer

    def appended(self, t: ControllerTypes) -> StructValue:
        """The record that the controller appends: ``record`` if all checks pass, else an empty record."""
        return where(self.checks.passed, self.record, t.record.zero())


def unchecked(record: StructValue) -> Handled:
    """The result of a handler without checks that appends this record."""
    return Handled(Checks(Error.NONE), record)
