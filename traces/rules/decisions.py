"""The controller's rules as functions of plain values: each traced once for a number of brokers and a set of rules.

There is no rule here. What a rule says stands in model/replication/controller; this module says which
inputs it has and asks for its record, the partition after it, and the named checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache, partial, wraps
from inspect import signature
from typing import Any

from highwater.model.language import ArrayValue, Bool, Int, Number, SeqValue, SetValue, StructValue, Truth
from highwater.model.language.function import Function
from highwater.model.language.types import Type
from highwater.model.language.values import Value
from highwater.model.replication.controller import (
    alter_partition,
    brokers,
    completeness,
    directories,
    election_tasks,
    elections,
    eligible_leader_replicas,
    elr_index,
    features,
    partition_change,
    reassignment,
    sessions,
)
from highwater.model.replication.controller.rules import ELR_FEATURE, PROFILES
from highwater.model.replication.controller.situation import Situation
from highwater.model.replication.controller.types import MAX_INT, MAX_LONG, BrokerState, ElectionType, Terms

Rule = Callable[..., Any]
"""A rule about a partition, as a function of plain values."""
Plain = Mapping[str, Any]
"""A partition as plain values, by the names of its fields."""
Result = dict[str, Any]
"""What a rule comes to, by name: symbolic values and checks; plain ones for who calls the function made of it."""
_FLAGS = (
    "broker_has_min_isr", "changes", "chosen", "clean", "cluster_has_min_isr", "diminished", "factor_may_change",
    "features_supported", "has_leaderships", "is_member", "loses_directory", "partition_known", "removes", "reorders",
    "same_incarnation", "supported", "topic_known", "unclean_election", "valid", "was_member",
)  # fmt: skip
_COUNTS = ("entries", "factor", "level", "min_insync_replicas", "min_isr", "request_version")


class Decisions:
    """What a controller with these rules decides, for brokers ``0 .. brokers-1``."""

    def __init__(self, brokers: int, rules: frozenset[str]) -> None:
        self.t = t = Terms(brokers, rules)
        self._types: dict[str, Type] = {
            **dict.fromkeys(_FLAGS, Bool),
            **dict.fromkeys(_COUNTS, Int(0, MAX_INT)),
            **dict.fromkeys(("contact_ms", "now_ms", "timeout_ms"), Int(0, MAX_LONG)),
            **dict.fromkeys(("broker_epoch", "previous_broker_epoch"), Int(-1, MAX_LONG)),
            **dict.fromkeys(("record_offset", "last_offset"), t.offset),
            **dict.fromkeys(("partition", "onto", "old", "new"), t.partition),
            **dict.fromkeys(("complete", "joining", "lost"), t.brokers),
            **dict.fromkeys(("replicas", "target"), t.replicas),
            **dict.fromkeys(("current", "next"), BrokerState),
            "broker": t.broker,
            "new_epoch": t.broker_epoch,
            "registration": t.registration,
            "registrations": t.registrations,
            "session": t.session,
            "sessions": t.sessions,
            "election": ElectionType,
            "resource": features.Resource,
            "upgrade": features.UpgradeType,
        }
        """The inputs of rules by name."""

    def without_elr(self) -> Decisions:
        """What it decides while eligible.leader.replicas.version is 0."""
        return decisions(self.t.broker.size, self.t.rules - ELR_FEATURE)

    def with_elr(self) -> Decisions:
        """What it decides while the level is above 0, also where these rules were those of level 0."""
        elr = frozenset() if self.t.rules & ELR_FEATURE else PROFILES["kafka_4_2"].rules & ELR_FEATURE
        return decisions(self.t.broker.size, self.t.rules | elr)

    def _change(self, partition: StructValue, record: StructValue, onto: StructValue | None = None) -> Result:
        """A record and what comes of it; ``onto``: the partition as earlier records of the batch have left it."""
        return {
            "record": record,
            "fails": record.fails,
            # A leader that is written as none and one that is not written both decode to None.
            "written": {name: getattr(record, name).is_some for name in self.t.written_fields},
            "nothing": partition_change.is_empty_record(self.t, record),
            "after": partition_change.merge(self.t, partition if onto is None else onto, record),
        }

    def _inputs(self, rule: Callable[..., object], others: Mapping[str, Type]) -> dict[str, Type]:
        """The types of a rule's inputs beside its terms and the situation; ``others``: not those of their names."""
        names = (name for name in signature(rule).parameters if name not in ("t", "now"))
        return {**{name: self._types[name] for name in names if name not in others}, **others}

    def _function(self, rule: Callable[..., object], **others: Type) -> Function:
        """A rule that is no rule about a partition, as a function of plain values."""
        inputs = self._inputs(rule, others)
        with_terms = wraps(rule)(partial(rule, self.t)) if "t" in signature(rule).parameters else rule
        return Function(with_terms, **inputs)

    def _deciding(self, rule: Callable[..., Result], **others: Type) -> Function:
        """A rule that is asked with a situation, and with more; its name is that of the rule."""

        @wraps(rule)
        def function(
            partition: StructValue,
            registrations: ArrayValue,
            min_isr: Number,
            unclean_election: Truth,
            **rest: Value,
        ) -> Result:
            return rule(Situation(partition, registrations, min_isr, unclean_election), **rest)

        situation = {name: self._types[name] for name in Situation.__annotations__}
        return Function(function, **situation, **self._inputs(rule, others))

    def _about_broker(self, rule: Callable[..., StructValue]) -> Rule:
        """A rule that changes a partition because of a broker; ``onto`` is the partition where not given."""

        @wraps(rule)
        def changes(now: Situation, onto: StructValue, **rest: Value) -> Result:
            return self._change(now.partition, rule(self.t, now, **rest), onto)

        traced = self._deciding(changes, onto=self.t.partition)

        def about_broker(partition: Plain, onto: Plain | None = None, **arguments: object) -> Any:
            return traced(partition=partition, onto=partition if onto is None else onto, **arguments)

        return about_broker

    @cached_property
    def no_partition(self) -> Plain:
        """What stands for a partition that does not exist."""
        zero = self.t.partition.zero()
        return self.t.partition.decode([n.value for n in zero.nodes])

    @cached_property
    def min_isr_change(self) -> Function:
        """966.8."""
        rule = eligible_leader_replicas.after_min_isr_change
        return self._function(
            lambda partition, min_isr: self._change(partition, rule(self.t, partition, min_isr))
        )

    @cached_property
    def completeness(self) -> Function:
        """966.6: who holds everything after a decision."""
        t = self.t

        def after(
            old: StructValue, new: StructValue, complete: SetValue, diminished: Truth, min_insync_replicas: Number,
            joining: SetValue, lost: SetValue, chosen: Truth,
        ) -> Result:  # fmt: skip
            holding, still = completeness.after_decision(
                t, old, new, complete, diminished, min_insync_replicas, joining, lost, chosen
            )
            return {"complete": holding, "diminished": still}

        return self._function(after)

    @cached_property
    def level_change(self) -> Function:
        """A partition when eligible.leader.replicas.version changes."""
        t = self.t
        empties = t.on("level_change_empties_elr")
        return self._function(
            lambda partition: self._change(
                partition,
                eligible_leader_replicas.cleared(t, partition) if empties else t.record.zero(),
            )
        )

    @cached_property
    def new_partition(self) -> Function:
        """The partition as created."""
        return self._function(reassignment.new_partition)

    @cached_property
    def new_partition_checks(self) -> Function:
        """Whether a partition can be created."""
        return self._function(
            lambda replicas, registrations, factor: {
                "checks": reassignment.new_partition_checks(self.t, replicas, registrations, factor)
            }
        )

    @property
    def clears_elr(self) -> bool:
        """966.8: whether a change of min.insync.replicas empties every ELR, by a record of its own."""
        return self.t.on("min_isr_change_clears_elr")

    # --- brokers ----------------------------------------------------------------------------------

    @cached_property
    def fencing(self) -> Rule:
        """966.5: a partition when a broker is fenced."""
        return self._about_broker(brokers.on_fencing)

    @cached_property
    def registration(self) -> Rule:
        """966.5: a partition when a broker registers."""
        return self._about_broker(brokers.on_registration)

    @property
    def registers_as_fenced(self) -> bool:
        """Whether a new incarnation counts as fenced even after an unclean shutdown."""
        return brokers.treats_as_fenced(self.t)

    @cached_property
    def heartbeat_change(self) -> Rule:
        """841.5, 966.5: a partition when a heartbeat takes a broker from a state to another."""
        return self._about_broker(brokers.on_heartbeat)

    @cached_property
    def removal(self) -> Rule:
        """B8, KIP-858: a partition when a broker is removed, or loses the directory that its replica is in."""
        return self._about_broker(brokers.without_broker)

    @cached_property
    def entries_after(self) -> Function:
        """The controller's index from a broker to the partitions whose ELR it is in."""

        def entries_after(entries: Number, was_member: Truth, is_member: Truth) -> Result:
            own, astray = elr_index.entries_after(entries, was_member, is_member)
            return {"own": own, "astray": astray}

        return self._function(entries_after)

    @cached_property
    def visits(self) -> Function:
        """How often a partition is changed because of a broker in its ELR."""
        return self._function(elr_index.visits)

    @cached_property
    def register(self) -> Function:
        """The checks of a registration, whether it is clean, and what is stored."""
        t = self.t

        def register(
            registrations: ArrayValue, sessions: ArrayValue, now_ms: Number, timeout_ms: Number, broker: Number,
            same_incarnation: Truth, previous_broker_epoch: Number, request_version: Number,
            features_supported: Truth, new_epoch: Number,
        ) -> Result:  # fmt: skip
            registration, session = registrations[broker], sessions[broker]
            names_epoch = registration.registered & (previous_broker_epoch == registration.epoch)
            return {
                "checks": _sessions.registration_checks(
                    t, registration, session, same_incarnation, now_ms, timeout_ms, features_supported
                ),
                "has_session": _sessions.has_live_session(t, registration, session, now_ms, timeout_ms),
                "clean": brokers.is_clean_registration(
                    t, registration, previous_broker_epoch, same_incarnation, request_version
                ),
                "names_registered_epoch": names_epoch,
                "registration": _sessions.register(t, registration, same_incarnation, new_epoch),
            }

        return self._function(register)

    @cached_property
    def registration_after(self) -> Function:
        """B8, 380.1: what is stored of a broker that registers."""
        return self._function(sessions.register)

    @cached_property
    def session_of_registration(self) -> Function:
        """The session after a registration."""
        return self._function(sessions.session_of_registration)

    @cached_property
    def session_after_failover(self) -> Function:
        """The session in the eyes of a controller that has just become active."""
        return self._function(sessions.session_after_failover)

    @cached_property
    def session_of_fencing(self) -> Function:
        """The session after the periodic check fenced a broker."""
        return self._function(sessions.session_of_fencing)

    @cached_property
    def is_over(self) -> Function:
        """Whether a session is over."""
        return self._function(sessions.is_over)

    @cached_property
    def stale_broker(self) -> Function:
        """Whether this broker, or any, is fenced by the periodic check."""
        t = self.t

        def stale_broker(
            registrations: ArrayValue,
            sessions: ArrayValue,
            now_ms: Number,
            timeout_ms: Number,
            broker: Number,
        ) -> Result:
            arguments = (t, registrations, sessions)
            return {
                "this": _sessions.session_expired(*arguments, broker, now_ms, timeout_ms),
                "any": _sessions.any_session_expired(*arguments, now_ms, timeout_ms),
            }

        return self._function(stale_broker)

    @cached_property
    def heartbeat(self) -> Function:
        """The checks of a heartbeat, the states before and after, the reply."""
        t = self.t

        def heartbeat(
            registrations: ArrayValue, sessions: ArrayValue, request: StructValue, has_leaderships: Truth
        ) -> Result:
            registration, session = registrations[request.broker], sessions[request.broker]
            current = _sessions.current_broker_state(registration, session)
            following = _sessions.next_broker_state(t, registrations, sessions, request, has_leaderships)
            return {
                "checks": _sessions.heartbeat_checks(registrations, request),
                "current": current,
                "next": following,
                "changes_registration": _sessions.changes_registration(registration, current, following),
                "registration": _sessions.registration_after_heartbeat(registration, current, following),
                "reply": _sessions.heartbeat_reply(session, request, following),
            }

        return self._function(heartbeat, request=t.heartbeat)

    @cached_property
    def session_after_heartbeat(self) -> Function:
        """The session after a heartbeat."""
        return self._function(sessions.session_after_heartbeat, request=self.t.heartbeat)

    # --- requests about a partition -----------------------------------------------------------------

    @cached_property
    def alter_partition(self) -> Function:
        """B8, 841.2, 903.4: checks, record and answer of an AlterPartition."""
        t = self.t

        def alter(
            now: Situation, request: StructValue, topic_known: Truth, partition_known: Truth, reorders: Truth
        ) -> Result:
            record = alter_partition.alter_partition(t, request, now, reorders)
            return {
                "checks": alter_partition.alter_partition_checks(
                    t, request, now, topic_known, partition_known
                ),
                "error": alter_partition.alter_partition_error(request, record),
                **self._change(now.partition, record),
            }

        return self._deciding(alter, request=t.alter_partition)

    @cached_property
    def elect(self) -> Function:
        """966.17: checks, record and answer of an election on request."""
        t = self.t

        def elect(now: Situation, election: Number, partition_known: Truth) -> Result:
            change = self._change(now.partition, election_tasks.elect_leader(t, now, election))
            return {
                "checks": elections.election_checks(now.partition, election, partition_known),
                "error": elections.election_error(election, change["nothing"]),
                **change,
            }

        return self._deciding(elect)

    @cached_property
    def unclean_task(self) -> Function:
        """966.15: the periodic unclean election."""
        rule = election_tasks.maybe_elect_unclean_leader
        return self._deciding(lambda now: self._change(now.partition, rule(self.t, now)))

    @cached_property
    def balance_task(self) -> Function:
        """966.17: the periodic preferred election."""
        rule = election_tasks.maybe_balance_leader
        return self._deciding(lambda now: self._change(now.partition, rule(self.t, now)))

    @cached_property
    def reassign(self) -> Function:
        """966.9: checks and record of a reassignment."""
        t = self.t

        def reassign(
            now: Situation, target: SeqValue, partition_known: Truth, factor_may_change: Truth
        ) -> Result:
            return {
                "checks": reassignment.reassignment_checks(
                    t, target, now.registrations, partition_known, now.partition, factor_may_change
                ),
                **self._change(now.partition, reassignment.reassign(t, now, target)),
            }

        return self._deciding(reassign)

    @cached_property
    def cancel(self) -> Function:
        """966.9: checks and record of a cancellation."""
        t = self.t

        def cancel(now: Situation, partition_known: Truth) -> Result:
            return {
                "checks": reassignment.cancellation_checks(t, now, partition_known),
                **self._change(now.partition, reassignment.cancel_reassignment(t, now)),
            }

        return self._deciding(cancel)

    # --- log directories ----------------------------------------------------------------------------

    @cached_property
    def assign(self) -> Function:
        """KIP-858: checks and record of the assignment of a replica to a directory."""
        t = self.t

        def assign(
            now: Situation, broker: Number, broker_epoch: Number, topic_known: Truth, partition_known: Truth,
            changes: Truth,
        ) -> Result:  # fmt: skip
            has_replica = now.partition.replicas.has(broker)
            return {
                "checks": directories.assignment_checks(
                    now.registrations, broker, broker_epoch, topic_known, partition_known, has_replica
                ),
                **self._change(now.partition, directories.assign_directory(t, now, changes)),
            }

        return self._deciding(assign)

    # --- features and configuration -----------------------------------------------------------------

    @cached_property
    def feature(self) -> Function:
        """KIP-584: the checks of a feature's change, and what it does to min.insync.replicas."""
        t = self.t

        def feature(
            current: Number,
            level: Number,
            upgrade: Number,
            supported: Truth,
            cluster_has_min_isr: Truth,
            broker_has_min_isr: Truth,
        ) -> Result:
            return {
                "checks": features.feature_checks(t, current, level, upgrade, supported),
                "writes_cluster": features.writes_cluster_min_isr(t, level, cluster_has_min_isr),
                "removes_broker": features.removes_broker_min_isr(t, level, broker_has_min_isr),
            }

        return self._function(feature, current=self._types["level"])

    @cached_property
    def min_isr_checks(self) -> Function:
        """KIP-966: whether min.insync.replicas can be set."""
        return self._function(
            lambda resource, removes, valid: {
                "checks": features.min_isr_checks(self.t, resource, removes, valid)
            }
        )


@cache
def _effective_min_isr() -> Function:
    rule = eligible_leader_replicas.effective_min_isr
    return Function(rule, min_insync_replicas=Int(0, MAX_INT), replication_factor=Int(0, MAX_INT))


def effective_min_isr(min_insync_replicas: int, replication_factor: int) -> int:
    """966.2. Both are at most 2^31 - 1."""
    found: int = _effective_min_isr()(
        min_insync_replicas=min_insync_replicas, replication_factor=replication_factor
    )
    return found


@cache
def _is_online() -> Function:
    return Function(directories.is_online, directory=directories.Directory, listed=Bool, lists_any=Bool)


@cache
def is_online(directory: str, listed: bool, lists_any: bool) -> bool:
    """KIP-858. Whether a replica's directory is online."""
    return bool(_is_online()(directory=directory, listed=listed, lists_any=lists_any))


@cache
def _names_default() -> Function:
    return Function(directories.names_default, listed=Int(0, MAX_INT))


@lru_cache(maxsize=64)
def names_default(listed: int) -> bool:
    """KIP-858. Whether a new replica's directory is known from the start."""
    return bool(_names_default()(listed=listed))


_sessions = sessions


@lru_cache(maxsize=64)
def decisions(brokers: int, rules: frozenset[str]) -> Decisions:
    """The decisions for a number of brokers and a set of rules; traced once."""
    return Decisions(brokers, rules)


def zero(type_: Type) -> Any:
    """The least value of a type."""
    return type_.decode([n.value for n in type_.zero().nodes])
