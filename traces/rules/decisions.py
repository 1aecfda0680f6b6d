"""The controller's handlers and rules (model/replication/controller) as functions of Python values.

Each function is traced once for a set of rules. The function of a handler returns the checks, the fields that the
record sets, and the partition after the record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, cached_property, lru_cache, partial, wraps
from inspect import signature
from typing import Any

from highwater.model.language import Bool, Int, Number, Truth
from highwater.model.language.function import Function
from highwater.model.language.types import Type
from highwater.model.replication.controller import handlers, registrations
from highwater.model.replication.controller.partition_change import effective_min_isr as _effective
from highwater.model.replication.controller.partition_change import is_empty_record, merge
from highwater.model.replication.controller.types import (
    MAX_INT,
    ControllerContext,
    ControllerTypes,
    Handled,
)

Result = dict[str, Any]
"""The result of a rule, by name: symbolic values and checks while tracing, Python values after a call."""
_FLAGS = (
    "broker_has_min_isr", "cluster_has_min_isr", "is_member", "partition_known", "removes", "same_incarnation",
    "supported", "topic_known", "unclean_election", "valid", "was_member",
)  # fmt: skip
_COUNTS = ("before", "entries", "factor", "level", "min_isr")
_CONTEXT = ("partition", "registrations", "min_isr", "unclean_election", "partition_known", "topic_known")
"""The fields of a ControllerContext that can be inputs of a handler. Only some handlers use the last two."""


class Decisions:
    """A controller's decision functions under a set of rules, for brokers ``0 .. brokers-1``."""

    def __init__(self, brokers: int, rules: frozenset[str]) -> None:
        self.t = t = ControllerTypes(brokers, rules)
        self._types: dict[str, Type] = {
            **dict.fromkeys(_FLAGS, Bool),
            **dict.fromkeys(_COUNTS, Int(0, MAX_INT)),
            "partition": t.partition,
            "replicas": t.replicas,
            "new_epoch": t.broker_epoch,
            "registration": t.registration,
            "registrations": t.registrations,
            "resource": handlers.Resource,
            "upgrade": handlers.UpgradeType,
        }
        """The types of the rules' inputs, by name."""

    def inputs(self, rule: Callable[..., object], others: Mapping[str, Type]) -> dict[str, Type]:
        """The types of a rule's parameters by name, without the parameters ``t`` and ``now``.

        They come from ``others``, or else from the table of types by parameter name.
        """
        names = (name for name in signature(rule).parameters if name not in ("t", "now"))
        return {**{name: self._types[name] for name in names if name not in others}, **others}

    def function(self, rule: Callable[..., object], **others: Type) -> Function:
        """A rule as a function of Python values. If the rule has a parameter ``t``, it is bound to ``self.t``."""
        inputs = self.inputs(rule, others)
        with_types = wraps(rule)(partial(rule, self.t)) if "t" in signature(rule).parameters else rule
        return Function(with_types, **inputs)

    def handler(self, handler: Callable[..., Handled], context: int = 4, **others: Type) -> Function:
        """A handler as a function of Python values.

        The function takes the first ``context`` fields of ``_CONTEXT``, and the handler's own parameters. ``others``
        gives types to parameters by name.
        """
        known = {name: self._types[name] for name in _CONTEXT[:context]}

        @wraps(handler)
        def function(**given: Any) -> Result:
            now = ControllerContext(self.t, **{name: given.pop(name) for name in known})
            handled = handler(now, **given)
            record = handled.record
            return {
                "checks": handled.checks,
                "error": handled.error,
                # A leader of None does not show whether the record sets the leader to none or lacks the field.
                "written": {name: getattr(record, name).is_some for name in self.t.written_fields},
                "nothing": is_empty_record(self.t, record),
                "after": merge(self.t, now.partition, record),
            }

        return Function(function, **known, **self.inputs(handler, others))

    alter_partition = cached_property[Function](
        lambda d: d.handler(handlers.alter_partition, context=6, request=d.t.alter_partition)
    )
    new_partition = cached_property[Function](lambda d: d.function(handlers.new_partition))
    new_partition_checks = cached_property[Function](lambda d: d.function(handlers.new_partition_checks))
    registration_after = cached_property[Function](lambda d: d.function(registrations.registration_after))
    entries_after = cached_property[Function](lambda d: d.function(_entries_after))
    feature = cached_property[Function](lambda d: d.function(_feature))
    min_isr_checks = cached_property[Function](lambda d: d.function(handlers.min_isr_checks))


def _entries_after(entries: Number, was_member: Truth, is_member: Truth) -> Result:
    own, astray = registrations.elr_index_entries(entries, was_member, is_member)
    return {"own": own, "astray": astray}


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
