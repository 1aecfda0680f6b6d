"""The controller's handlers and rules (model/replication/controller) as functions of Python values.

Each function is traced once for a set of rules. The function of a handler returns the checks, the fields that the
record sets, and the partition after the record.
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
from highwater.model.replication.controller import registrations as rules
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
"""A rule about a partition, as a function of Python values."""
Plain = Mapping[str, Any]
"""A partition as Python values, by field name."""
Result = dict[str, Any]
"""The result of a rule, by name: symbolic values and checks while tracing, Python values after a call."""
_FLAGS = (
    "broker_has_min_isr", "changes", "chosen", "clean", "cluster_has_min_isr", "diminished", "factor_may_change",
    "features_supported", "has_leaderships", "is_member", "partition_known", "removes",
    "same_incarnation", "supported", "topic_known", "unclean_election", "valid", "was_member",
)  # fmt: skip
_COUNTS = ("before", "entries", "factor", "level", "min_insync_replicas", "min_isr", "request_version")
_CONTEXT = ("partition", "registrations", "min_isr", "unclean_election", "partition_known", "topic_known")
"""The fields of a ControllerContext that can be inputs of a handler. Only some handlers use the last two."""


class Decisions:
    """A controller's decision functions under a set of rules, for brokers ``0 .. brokers-1``."""

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
        """The types of the rules' inputs, by name."""

    def without_elr(self) -> Decisions:
        """The decision functions for level 0 of eligible.leader.replicas.version."""
        return decisions(self.t.broker.size, self.t.rules - ELR_FEATURE)

    def with_elr(self) -> Decisions:
        """The decision functions for levels of eligible.leader.replicas.version above 0.

        If these rules have no ELR, the ELR rules of Kafka 4.2 are added.
        """
        elr = frozenset() if self.t.rules & ELR_FEATURE else PROFILES["kafka_4_2"].rules & ELR_FEATURE
        return decisions(self.t.broker.size, self.t.rules | elr)

    def _change(self, partition: StructValue, handled: Handled, onto: StructValue | None = None) -> Result:
        """The result of a handler, as values by name.

        ``partition`` is the state that the handler decided from. Its record is applied to ``onto``, the partition after
        earlier records of the batch (None: ``partition``).
        """
        record = handled.record
        return {
            "checks": handled.checks,
            "error": handled.error,
            "fails": record.fails,
            # A leader of None does not show whether the record sets the leader to none or lacks the field.
            "written": {name: getattr(record, name).is_some for name in self.t.written_fields},
            "nothing": is_empty_record(self.t, record),
            "after": merge(self.t, partition if onto is None else onto, record),
        }

    def _inputs(self, rule: Callable[..., object], others: Mapping[str, Type]) -> dict[str, Type]:
        """The types of a rule's parameters by name, without the parameters ``t`` and ``now``.

        They come from ``others``, or else from the table of types by parameter name.
        """
        names = (name for name in signature(rule).parameters if name not in ("t", "now"))
        return {**{name: self._types[name] for name in names if name not in others}, **others}

    def function(self, rule: Callable[..., object], **others: Type) -> Function:
        """A rule as a function of Python values. If the rule has a parameter ``t``, it is bound to ``self.t``."""
        inputs = self._inputs(rule, others)
        with_types = wraps(rule)(partial(rule, self.t)) if "t" in signature(rule).parameters else rule
        return Function(with_types, **inputs)

    def handler(self, handler: Callable[..., Handled], context: int = 4, **others: Type) -> Function:
        """A handler as a function of Python values.

        The function takes the first ``context`` fields of ``_CONTEXT``, and the handler's own parameters. ``others``
        gives types to parameters by name.
        """
        known = {name: self._types[name] for name in _CONTEXT[:context]}

        @wraps(handler)
        def function(onto: StructValue | None = None, **given: Any) -> Result:
            now = ControllerContext(self.t, **{name: given.pop(name) for name in known})
            return self._change(now.partition, handler(now, **given), onto)

        return Function(function, **known, **self._inputs(handler, others))

    def about_broker(self, handler: Callable[..., Handled]) -> Rule:
        """A handler about one broker as a function of Python values.

        The function's ``onto``, the partition after earlier records of the batch, defaults to ``partition``.
        """
        traced = self.handler(handler, onto=self.t.partition)

        def about_broker(partition: Plain, onto: Plain | None = None, **arguments: object) -> Result:
            onto = partition if onto is None else onto
            found: Result = traced(partition=partition, onto=onto, **arguments)
            return found

        return about_broker

    def of_setting(self, handler: Callable[..., Handled]) -> Function:
        """A handler about a changed setting, as a function of a partition and its min ISR."""

        def function(partition: StructValue, min_isr: Number) -> Result:
            nobody, unclean = self.t.registrations.zero(), Bool.lift(False)
            return self._change(
                partition, handler(ControllerContext(self.t, partition, nobody, min_isr, unclean))
            )

        return self.function(function)

    @cached_property
    def no_partition(self) -> Plain:
        """The value that stands for a partition that does not exist."""
        return zero(self.t.partition)  # type: ignore[no-any-return]

    @property
    def clears_elr(self) -> bool:
        """966.8. True if a change of min.insync.replicas writes a record that empties the ELRs."""
        return self.t.on("min_isr_change_clears_elr")

    @property
    def registers_as_fenced(self) -> bool:
        """True if an unclean registration acts like a fencing, because the rules have no ELR."""
        return registrations.treats_as_fenced(self.t)

    # Changes of a partition if a broker is fenced, registers, sends a heartbeat, or is removed.
    fencing = cached_property[Rule](lambda d: d.about_broker(registrations.fence))
    registration = cached_property[Rule](lambda d: d.about_broker(_on_registration))
    heartbeat_change = cached_property[Rule](lambda d: d.about_broker(_on_heartbeat))
    removal = cached_property[Rule](lambda d: d.about_broker(registrations.remove))

    # Brokers: registrations, sessions, and the index of ELR members.
    register = cached_property[Function](lambda d: d.function(_register))
    registration_after = cached_property[Function](lambda d: d.function(registrations.registration_after))
    heartbeat = cached_property[Function](lambda d: d.function(_heartbeat, request=d.t.heartbeat))
    stale_broker = cached_property[Function](lambda d: d.function(_stale_broker))
    is_over = cached_property[Function](lambda d: d.function(_is_over))
    session_of_registration = cached_property[Function](
        lambda d: d.function(registrations.session_of_registration)
    )
    session_after_heartbeat = cached_property[Function](
        lambda d: d.function(registrations.session_after_heartbeat, request=d.t.heartbeat)
    )
    session_after_failover = cached_property[Function](
        lambda d: d.function(registrations.session_after_failover)
    )
    session_of_fencing = cached_property[Function](lambda d: d.function(registrations.session_of_fencing))
    entries_after = cached_property[Function](lambda d: d.function(_entries_after))
    visits = cached_property[Function](lambda d: d.function(registrations.elr_index_visits))

    # Requests and periodic tasks about a partition.
    alter_partition = cached_property[Function](
        lambda d: d.handler(handlers.alter_partition, context=6, request=d.t.alter_partition)
    )
    elect = cached_property[Function](lambda d: d.handler(handlers.elect_leader, context=5))
    unclean_task = cached_property[Function](lambda d: d.handler(handlers.maybe_elect_unclean_leader))
    balance_task = cached_property[Function](lambda d: d.handler(handlers.maybe_balance_leader))
    reassign = cached_property[Function](lambda d: d.handler(handlers.reassign, context=5))
    cancel = cached_property[Function](lambda d: d.handler(handlers.cancel_reassignment, context=5))
    assign = cached_property[Function](lambda d: d.handler(handlers.assign_directory, context=6))
    new_partition = cached_property[Function](lambda d: d.function(handlers.new_partition))
    new_partition_checks = cached_property[Function](lambda d: d.function(handlers.new_partition_checks))
    completeness = cached_property[Function](lambda d: d.function(_completeness))

    # Features and configuration.
    min_isr_change = cached_property[Function](lambda d: d.of_setting(handlers.change_min_isr))
    level_change = cached_property[Function](lambda d: d.of_setting(handlers.change_elr_level))
    feature = cached_property[Function](lambda d: d.function(_feature))
    min_isr_checks = cached_property[Function](lambda d: d.function(handlers.min_isr_checks))


# --- rules with a result of several parts -----------------------------------------------------------------


def _on_registration(
    now: ControllerContext, broker: Number, clean: Truth, same_incarnation: Truth
) -> Handled:
    return unchecked(registrations.on_registration(now, broker, clean, same_incarnation))


def _on_heartbeat(now: ControllerContext, broker: Number, current: Number, next: Number) -> Handled:
    return unchecked(registrations.on_heartbeat(now, broker, current, next))


def _completeness(
    t: ControllerTypes, old: StructValue, new: StructValue, complete: SetValue, diminished: Truth,
    min_insync_replicas: Number, joining: SetValue, lost: SetValue, chosen: Truth,
) -> Result:  # fmt: skip
    """966.6. After a decision: the brokers with every committed record, and whether they may be fewer than min ISR."""
    none = t.brokers.zero()
    decision = outlook.Decision(old, new, min_insync_replicas, none, joining, lost, chosen, none, none)
    logs = outlook.after_decision(t, outlook.AbstractLogs(complete, diminished), decision)
    return {"complete": logs.complete, "diminished": logs.diminished}


def _entries_after(entries: Number, was_member: Truth, is_member: Truth) -> Result:
    own, astray = registrations.elr_index_entries(entries, was_member, is_member)
    return {"own": own, "astray": astray}


def _register(
    t: ControllerTypes, registrations: ArrayValue, sessions: ArrayValue, now_ms: Number, timeout_ms: Number,
    broker: Number, same_incarnation: Truth, previous_broker_epoch: Number, request_version: Number,
    features_supported: Truth, new_epoch: Number,
) -> Result:  # fmt: skip
    """The checks of a registration request, the facts behind them, and the new registration."""
    known, session, clock = registrations[broker], sessions[broker], Clock(now_ms, timeout_ms)
    return {
        "checks": rules.registration_checks(t, known, session, same_incarnation, clock, features_supported),
        "has_session": rules.has_live_session(t, known, session, clock),
        "clean": rules.is_clean_registration(
            t, known, previous_broker_epoch, same_incarnation, request_version
        ),
        "names_registered_epoch": known.registered & (previous_broker_epoch == known.epoch),
        "registration": rules.registration_after(t, known, same_incarnation, new_epoch),
    }


def _is_over(contact_ms: Number, now_ms: Number, timeout_ms: Number) -> Truth:
    return rules.is_over(contact_ms, Clock(now_ms, timeout_ms))


def _stale_broker(
    t: ControllerTypes, registrations: ArrayValue, sessions: ArrayValue, now_ms: Number, timeout_ms: Number,
    broker: Number,
) -> Result:  # fmt: skip
    """``this``: True if the periodic check fences the broker. ``any``: True if the check fences any broker."""
    clock = Clock(now_ms, timeout_ms)
    return {
        "this": rules.session_expired(t, registrations, sessions, broker, clock),
        "any": rules.any_session_expired(t, registrations, sessions, clock),
    }


def _heartbeat(
    t: ControllerTypes, registrations: ArrayValue, sessions: ArrayValue, request: StructValue,
    has_leaderships: Truth,
) -> Result:  # fmt: skip
    """The checks of a heartbeat, the broker's states before and after it, the registration after it, and the reply."""
    known, session = registrations[request.broker], sessions[request.broker]
    current = rules.current_broker_state(known, session)
    following = rules.next_broker_state(t, registrations, sessions, request, has_leaderships)
    return {
        "checks": rules.heartbeat_checks(registrations, request),
        "current": current,
        "next": following,
        "changes_registration": rules.changes_registration(known, current, following),
        "registration": rules.registration_after_heartbeat(known, current, following),
        "reply": rules.heartbeat_reply(session, request, following),
    }


def _feature(
    t: ControllerTypes, before: Number, level: Number, upgrade: Number, supported: Truth,
    cluster_has_min_isr: Truth, broker_has_min_isr: Truth,
) -> Result:  # fmt: skip
    """KIP-584. The checks of a feature level change, and its effects on settings of min.insync.replicas."""
    return {
        "checks": handlers.feature_checks(t, before, level, upgrade, supported),
        "writes_cluster": handlers.writes_cluster_min_isr(t, level, cluster_has_min_isr),
        "removes_broker": handlers.removes_broker_min_isr(t, level, broker_has_min_isr),
    }


# --- rules without brokers --------------------------------------------------------------------------------


_MIN_ISR = cache(
    lambda: Function(_effective, min_insync_replicas=Int(0, MAX_INT), replication_factor=Int(0, MAX_INT))
)
_IS_ONLINE = cache(
    lambda: Function(handlers.is_online, directory=handlers.Directory, listed=Bool, lists_any=Bool)
)
_NAMES_DEFAULT = cache(lambda: Function(handlers.names_default, listed=Int(0, MAX_INT)))


def effective_min_isr(min_insync_replicas: int, replication_factor: int) -> int:
    """966.2. The min.insync.replicas in force, given the setting and the replication factor.

    Neither argument may be above 2^31 - 1.
    """
    return int(_MIN_ISR()(min_insync_replicas=min_insync_replicas, replication_factor=replication_factor))


@cache
def _directory_is_online(directory: str, listed: bool, lists_any: bool) -> bool:
    return bool(_IS_ONLINE()(directory=directory, listed=listed, lists_any=lists_any))


@lru_cache(maxsize=64)
def _default_is_named(listed: int) -> bool:
    return bool(_NAMES_DEFAULT()(listed=listed))


@lru_cache(maxsize=64)
def decisions(brokers: int, rules: frozenset[str]) -> Decisions:
    """The decision functions for a number of brokers and a set of rules, cached."""
    return Decisions(brokers, rules)


def zero(type_: Type) -> Any:
    """The zero value of a type (``Type.zero``), as a Python value."""
    return type_.decode([n.value for n in type_.zero().nodes])


# --- log directories (KIP-858), by their identifiers -----------------------------------------------------------

MIGRATING, UNASSIGNED, LOST = (f"AAAAAAAAAAAAAAAAAAAAA{last}" for last in "AQg")
"""Kafka's reserved directory ids: from a version without directories, not assigned yet, lost."""
_RESERVED = {MIGRATING: "MIGRATING", UNASSIGNED: "UNASSIGNED", LOST: "LOST"}


def is_online(directory: str, listed: Collection[str]) -> bool:
    """True if a replica's directory is online; ``listed`` are the directories that its broker lists."""
    return _directory_is_online(_RESERVED.get(directory, "NAMED"), directory in listed, bool(listed))


def default_directory(listed: Collection[str] | None) -> str:
    """The directory of a new replica. ``listed`` has its broker's directories; None for an unregistered broker."""
    if listed is None:
        return UNASSIGNED
    if not listed:
        return MIGRATING
    return next(iter(listed)) if _default_is_named(len(listed)) else UNASSIGNED
