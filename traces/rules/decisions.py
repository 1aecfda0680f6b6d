"""The controller's handlers and rules as functions of plain values: each traced once for a set of rules.

There is no rule here. The rules stand in model/replication/controller; this module says which inputs they have and
returns their checks, the record, and the partition after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, cached_property, lru_cache, partial, wraps
from inspect import signature
from typing import Any

from highwater.model.language import ArrayValue, Bool, Int, Number, SetValue, StructValue, Truth
from highwater.model.language.function import Function
from highwater.model.language.types import Type
from highwater.model.replication.controller import handlers, outlook, registrations
from highwater.model.replication.controller.partition_change import effective_min_isr as _effective
from highwater.model.replication.controller.partition_change import is_empty_record, merge
from highwater.model.replication.controller.registrations import Clock
from highwater.model.replication.controller.rules import ELR_FEATURE, PROFILES
from highwater.model.replication.controller.types import (
    MAX_INT,
    MAX_LONG,
    BrokerState,
    ControllerContext,
    ControllerTypes,
    ElectionType,
    Handled,
    unchecked,
)

Rule = Callable[..., Any]
"""A rule about a partition, as a function of plain values."""
Plain = Mapping[str, Any]
"""A partition as plain values, by the names of its fields."""
Result = dict[str, Any]
"""The result of a rule, by name: symbolic values and checks; plain ones for the caller of a Function."""
_FLAGS = (
    "broker_has_min_isr", "changes", "chosen", "clean", "cluster_has_min_isr", "diminished", "factor_may_change",
    "features_supported", "has_leaderships", "is_member", "partition_known", "removes", "reorders",
    "same_incarnation", "supported", "topic_known", "unclean_election", "valid", "was_member",
)  # fmt: skip
_COUNTS = ("entries", "factor", "level", "min_insync_replicas", "min_isr", "request_version")
_CONTEXT = ("partition", "registrations", "min_isr", "unclean_election", "partition_known", "topic_known")
"""The fields of a ControllerContext that are inputs; the last two only of some handlers."""


class Decisions:
    """What a controller with these rules decides, for brokers ``0 .. brokers-1``."""

    def __init__(self, brokers: int, rules: frozenset[str]) -> None:
        self.t = t = ControllerTypes(brokers, rules)
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
            "resource": handlers.Resource,
            "upgrade": handlers.UpgradeType,
        }
        """The inputs of rules by name."""

    def without_elr(self) -> Decisions:
        """What it decides while eligible.leader.replicas.version is 0."""
        return decisions(self.t.broker.size, self.t.rules - ELR_FEATURE)

    def with_elr(self) -> Decisions:
        """What it decides while the level is above 0, also where these rules were those of level 0."""
        elr = frozenset() if self.t.rules & ELR_FEATURE else PROFILES["kafka_4_2"].rules & ELR_FEATURE
        return decisions(self.t.broker.size, self.t.rules | elr)

    def _change(self, partition: StructValue, handled: Handled, onto: StructValue | None = None) -> Result:
        """A handler's result; ``onto``: the partition as earlier records of the batch have left it."""
        record = handled.record
        return {
            "checks": handled.checks,
            "error": handled.error,
            "fails": record.fails,
            # A leader that is written as none and one that is not written both decode to None.
            "written": {name: getattr(record, name).is_some for name in self.t.written_fields},
            "nothing": is_empty_record(self.t, record),
            "after": merge(self.t, partition if onto is None else onto, record),
        }

    def _inputs(self, rule: Callable[..., object], others: Mapping[str, Type]) -> dict[str, Type]:
        """The types of a rule's inputs beside types and context; ``others``: not those of their names."""
        names = (name for name in signature(rule).parameters if name not in ("t", "now"))
        return {**{name: self._types[name] for name in names if name not in others}, **others}

    def _function(self, rule: Callable[..., object], **others: Type) -> Function:
        """A rule that needs no context, as a function of plain values."""
        inputs = self._inputs(rule, others)
        with_types = wraps(rule)(partial(rule, self.t)) if "t" in signature(rule).parameters else rule
        return Function(with_types, **inputs)

    def _handler(self, handler: Callable[..., Handled], context: int = 4, **others: Type) -> Function:
        """A handler as a function of plain values, with so many fields of the context."""
        known = {name: self._types[name] for name in _CONTEXT[:context]}

        @wraps(handler)
        def function(onto: StructValue | None = None, **given: Any) -> Result:
            now = ControllerContext(self.t, **{name: given.pop(name) for name in known})
            return self._change(now.partition, handler(now, **given), onto)

        return Function(function, **known, **self._inputs(handler, others))

    def _about_broker(self, handler: Callable[..., Handled]) -> Rule:
        """A handler that changes a partition because of a broker; ``onto`` is the partition where not given."""
        traced = self._handler(handler, onto=self.t.partition)

        def about_broker(partition: Plain, onto: Plain | None = None, **arguments: object) -> Result:
            onto = partition if onto is None else onto
            found: Result = traced(partition=partition, onto=onto, **arguments)
            return found

        return about_broker

    def _of_setting(self, handler: Callable[..., Handled], partition: StructValue, min_isr: Number) -> Result:
        """A change of a setting, which concerns no broker."""
        nobody, unclean = self.t.registrations.zero(), Bool.lift(False)
        now = ControllerContext(self.t, partition, nobody, min_isr, unclean)
        return self._change(partition, handler(now))

    @cached_property
    def no_partition(self) -> Plain:
        """What stands for a partition that does not exist."""
        zero = self.t.partition.zero()
        return self.t.partition.decode([n.value for n in zero.nodes])

    @cached_property
    def completeness(self) -> Function:
        """966.6: the brokers that hold everything after a decision."""
        t = self.t

        def after(
            old: StructValue, new: StructValue, complete: SetValue, diminished: Truth, min_insync_replicas: Number,
            joining: SetValue, lost: SetValue, chosen: Truth,
        ) -> Result:  # fmt: skip
            none = t.brokers.zero()
            decision = outlook.Decision(
                old, new, min_insync_replicas, none, joining, lost, chosen, none, none
            )
            logs = outlook.after_decision(t, outlook.AbstractLogs(complete, diminished), decision)
            return {"complete": logs.complete, "diminished": logs.diminished}

        return self._function(after)

    @cached_property
    def new_partition(self) -> Function:
        """The partition as created."""
        return self._function(handlers.new_partition)

    @cached_property
    def new_partition_checks(self) -> Function:
        """Whether a partition can be created."""
        return self._function(lambda replicas, registrations, factor: {
            "checks": handlers.new_partition_checks(self.t, replicas, registrations, factor)
        })  # fmt: skip

    @property
    def clears_elr(self) -> bool:
        """966.8: whether a change of min.insync.replicas empties every ELR, by a record of its own."""
        return self.t.on("min_isr_change_clears_elr")

    # --- brokers ----------------------------------------------------------------------------------

    @cached_property
    def fencing(self) -> Rule:
        """966.5: a partition when a broker is fenced."""
        return self._about_broker(registrations.fence)

    @cached_property
    def registration(self) -> Rule:
        """966.5: a partition when a broker registers."""

        def register(
            now: ControllerContext, broker: Number, clean: Truth, same_incarnation: Truth
        ) -> Handled:
            return unchecked(registrations.on_registration(now, broker, clean, same_incarnation))

        return self._about_broker(register)

    @property
    def registers_as_fenced(self) -> bool:
        """Whether a new incarnation counts as fenced even after an unclean shutdown."""
        return registrations.treats_as_fenced(self.t)

    @cached_property
    def heartbeat_change(self) -> Rule:
        """841.5, 966.5: a partition when a heartbeat takes a broker from a state to another."""

        def heartbeat(now: ControllerContext, broker: Number, current: Number, next: Number) -> Handled:
            return unchecked(registrations.on_heartbeat(now, broker, current, next))

        return self._about_broker(heartbeat)

    @cached_property
    def removal(self) -> Rule:
        """B8, KIP-858: a partition when a broker is removed, or loses the directory that its replica is in."""
        return self._about_broker(registrations.remove)

    @cached_property
    def entries_after(self) -> Function:
        """The controller's index from a broker to the partitions whose ELR it is in."""

        def entries_after(entries: Number, was_member: Truth, is_member: Truth) -> Result:
            own, astray = registrations.elr_index_entries(entries, was_member, is_member)
            return {"own": own, "astray": astray}

        return self._function(entries_after)

    @cached_property
    def visits(self) -> Function:
        """How often a partition is changed because of a broker in its ELR."""
        return self._function(registrations.elr_index_visits)

    @cached_property
    def register(self) -> Function:
        """The checks of a registration, whether it is clean, and what is stored."""
        t, rules = self.t, registrations

        def register(
            registrations: ArrayValue, sessions: ArrayValue, now_ms: Number, timeout_ms: Number, broker: Number,
            same_incarnation: Truth, previous_broker_epoch: Number, request_version: Number,
            features_supported: Truth, new_epoch: Number,
        ) -> Result:  # fmt: skip
            registration, session = registrations[broker], sessions[broker]
            clock = Clock(now_ms, timeout_ms)
            return {
                "checks": rules.registration_checks(
                    t, registration, session, same_incarnation, clock, features_supported
                ),
                "has_session": rules.has_live_session(t, registration, session, clock),
                "clean": rules.is_clean_registration(
                    t, registration, previous_broker_epoch, same_incarnation, request_version
                ),
                "names_registered_epoch": registration.registered
                & (previous_broker_epoch == registration.epoch),
                "registration": rules.registration_after(t, registration, same_incarnation, new_epoch),
            }

        return self._function(register)

    @cached_property
    def registration_after(self) -> Function:
        """B8, 380.1: what is stored of a broker that registers."""
        return self._function(registrations.registration_after)

    @cached_property
    def session_of_registration(self) -> Function:
        """The session after a registration."""
        return self._function(registrations.session_of_registration)

    @cached_property
    def session_after_failover(self) -> Function:
        """The session in the eyes of a controller that has just become active."""
        return self._function(registrations.session_after_failover)

    @cached_property
    def session_of_fencing(self) -> Function:
        """The session after the periodic check fenced a broker."""
        return self._function(registrations.session_of_fencing)

    @cached_property
    def is_over(self) -> Function:
        """Whether a session is over."""

        def is_over(contact_ms: Number, now_ms: Number, timeout_ms: Number) -> Truth:
            return registrations.is_over(contact_ms, Clock(now_ms, timeout_ms))

        return self._function(is_over)

    @cached_property
    def stale_broker(self) -> Function:
        """Whether this broker, or any, is fenced by the periodic check."""
        t, rules = self.t, registrations

        def stale_broker(
            registrations: ArrayValue, sessions: ArrayValue, now_ms: Number, timeout_ms: Number, broker: Number
        ) -> Result:  # fmt: skip
            clock = Clock(now_ms, timeout_ms)
            return {
                "this": rules.session_expired(t, registrations, sessions, broker, clock),
                "any": rules.any_session_expired(t, registrations, sessions, clock),
            }

        return self._function(stale_broker)

    @cached_property
    def heartbeat(self) -> Function:
        """The checks of a heartbeat, the states before and after, the reply."""
        t, rules = self.t, registrations

        def heartbeat(
            registrations: ArrayValue, sessions: ArrayValue, request: StructValue, has_leaderships: Truth
        ) -> Result:
            registration, session = registrations[request.broker], sessions[request.broker]
            current = rules.current_broker_state(registration, session)
            following = rules.next_broker_state(t, registrations, sessions, request, has_leaderships)
            return {
                "checks": rules.heartbeat_checks(registrations, request),
                "current": current,
                "next": following,
                "changes_registration": rules.changes_registration(registration, current, following),
                "registration": rules.registration_after_heartbeat(registration, current, following),
                "reply": rules.heartbeat_reply(session, request, following),
            }

        return self._function(heartbeat, request=t.heartbeat)

    @cached_property
    def session_after_heartbeat(self) -> Function:
        """The session after a heartbeat."""
        return self._function(registrations.session_after_heartbeat, request=self.t.heartbeat)

    # --- requests about a partition -----------------------------------------------------------------

    @cached_property
    def alter_partition(self) -> Function:
        """B8, 841.2, 903.4: an AlterPartition."""
        return self._handler(handlers.alter_partition, context=6, request=self.t.alter_partition)

    @cached_property
    def elect(self) -> Function:
        """966.17: an election on request."""
        return self._handler(handlers.elect_leader, context=5)

    @cached_property
    def unclean_task(self) -> Function:
        """966.15: the periodic unclean election."""
        return self._handler(handlers.maybe_elect_unclean_leader)

    @cached_property
    def balance_task(self) -> Function:
        """966.17: the periodic preferred election."""
        return self._handler(handlers.maybe_balance_leader)

    @cached_property
    def reassign(self) -> Function:
        """966.9: a reassignment."""
        return self._handler(handlers.reassign, context=5)

    @cached_property
    def cancel(self) -> Function:
        """966.9: the cancellation of a reassignment."""
        return self._handler(handlers.cancel_reassignment, context=5)

    @cached_property
    def assign(self) -> Function:
        """KIP-858: the assignment of a replica to a directory."""
        return self._handler(handlers.assign_directory, context=6)

    # --- features and configuration -----------------------------------------------------------------

    @cached_property
    def min_isr_change(self) -> Function:
        """966.8: a partition when min.insync.replicas changes."""
        return self._function(
            lambda partition, min_isr: self._of_setting(handlers.change_min_isr, partition, min_isr)
        )

    @cached_property
    def level_change(self) -> Function:
        """A partition when eligible.leader.replicas.version changes."""
        return self._function(lambda partition: self._of_setting(
            handlers.change_elr_level, partition, self._types["min_isr"].zero()
        ))  # fmt: skip

    @cached_property
    def feature(self) -> Function:
        """KIP-584: the checks of a feature's change, and what it does to min.insync.replicas."""
        t = self.t

        def feature(
            current: Number, level: Number, upgrade: Number, supported: Truth, cluster_has_min_isr: Truth,
            broker_has_min_isr: Truth,
        ) -> Result:  # fmt: skip
            return {
                "checks": handlers.feature_checks(t, current, level, upgrade, supported),
                "writes_cluster": handlers.writes_cluster_min_isr(t, level, cluster_has_min_isr),
                "removes_broker": handlers.removes_broker_min_isr(t, level, broker_has_min_isr),
            }

        return self._function(feature, current=self._types["level"])

    @cached_property
    def min_isr_checks(self) -> Function:
        """KIP-966: whether min.insync.replicas can be set."""
        return self._function(lambda resource, removes, valid: {
            "checks": handlers.min_isr_checks(self.t, resource, removes, valid)
        })  # fmt: skip


@cache
def _effective_min_isr() -> Function:
    return Function(_effective, min_insync_replicas=Int(0, MAX_INT), replication_factor=Int(0, MAX_INT))


def effective_min_isr(min_insync_replicas: int, replication_factor: int) -> int:
    """966.2. Both are at most 2^31 - 1."""
    found: int = _effective_min_isr()(
        min_insync_replicas=min_insync_replicas, replication_factor=replication_factor
    )
    return found


@cache
def _is_online() -> Function:
    return Function(handlers.is_online, directory=handlers.Directory, listed=Bool, lists_any=Bool)


@cache
def _directory_is_online(directory: str, listed: bool, lists_any: bool) -> bool:
    return bool(_is_online()(directory=directory, listed=listed, lists_any=lists_any))


@cache
def _names_default() -> Function:
    return Function(handlers.names_default, listed=Int(0, MAX_INT))


@lru_cache(maxsize=64)
def _default_is_named(listed: int) -> bool:
    return bool(_names_default()(listed=listed))


@lru_cache(maxsize=64)
def decisions(brokers: int, rules: frozenset[str]) -> Decisions:
    """The decisions for a number of brokers and a set of rules; traced once."""
    return Decisions(brokers, rules)


def zero(type_: Type) -> Any:
    """The least value of a type."""
    return type_.decode([n.value for n in type_.zero().nodes])


# --- log directories (KIP-858), by their identifiers -----------------------------------------------------------

MIGRATING, UNASSIGNED, LOST = (f"AAAAAAAAAAAAAAAAAAAAA{last}" for last in "AQg")
"""Identifiers that name no directory: of a version without them, of a replica in none yet, and in a lost one."""
_RESERVED = {MIGRATING: "MIGRATING", UNASSIGNED: "UNASSIGNED", LOST: "LOST"}


def is_online(directory: str, listed: Collection[str]) -> bool:
    """Whether a replica's directory is online, by the directories that its broker lists."""
    return _directory_is_online(_RESERVED.get(directory, "NAMED"), directory in listed, bool(listed))


def default_directory(listed: Collection[str] | None) -> str:
    """The directory of a new replica, by those that its broker lists; None for a broker that is not registered."""
    if listed is None:
        return UNASSIGNED
    if not listed:
        return MIGRATING
    return next(iter(listed)) if _default_is_named(len(listed)) else UNASSIGNED
