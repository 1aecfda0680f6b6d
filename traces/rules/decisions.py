"""The controller's handlers and rules (model/replication/controller) as functions of Python values.

Each function is traced once for a set of rules.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, cached_property, lru_cache
from typing import Any

from highwater.model.language import ArrayValue, Bool, Int, Number, SeqValue, StructValue, Truth
from highwater.model.language.function import Function
from highwater.model.language.types import Type
from highwater.model.replication.controller import handlers, registrations
from highwater.model.replication.controller.partition_change import effective_min_isr as _effective
from highwater.model.replication.controller.partition_change import merge
from highwater.model.replication.controller.types import MAX_INT, ControllerContext, ControllerTypes

Result = dict[str, Any]
"""The result of a rule, by name: symbolic values and checks while tracing, Python values after a call."""
_COUNT = Int(0, MAX_INT)


class Decisions:
    """A controller's decision functions under a set of rules, for brokers ``0 .. brokers-1``."""

    def __init__(self, brokers: int, rules: frozenset[str]) -> None:
        self.t = ControllerTypes(brokers, rules)

    @property
    def context(self) -> dict[str, Type]:
        """The types of the state before a decision about a partition, by name."""
        return {
            "partition": self.t.partition,
            "registrations": self.t.registrations,
            "min_isr": _COUNT,
            "unclean_election": Bool,
        }

    @cached_property
    def alter_partition(self) -> Function:
        """The checks of an AlterPartition, the error in its answer, and the partition after it."""

        def decide(request: StructValue, **context: Any) -> Result:
            now = ControllerContext(self.t, **context)
            handled = handlers.alter_partition(now, request)
            after = merge(self.t, now.partition, handled.record)
            return {"checks": handled.checks, "error": handled.error, "after": after}

        known = {"partition_known": Bool, "topic_known": Bool}
        return Function(decide, **self.context, **known, request=self.t.alter_partition)

    @cached_property
    def new_partition(self) -> Function:
        """A new partition."""

        def create(replicas: SeqValue, registrations: ArrayValue) -> StructValue:
            return handlers.new_partition(self.t, replicas, registrations)

        return Function(create, replicas=self.t.replicas, registrations=self.t.registrations)

    @cached_property
    def new_partition_checks(self) -> Function:
        """The checks of a new partition's replicas."""

        def check(replicas: SeqValue, registrations: ArrayValue, factor: Number) -> Any:
            return handlers.new_partition_checks(self.t, replicas, registrations, factor)

        return Function(check, replicas=self.t.replicas, registrations=self.t.registrations, factor=_COUNT)

    @cached_property
    def registration_again(self) -> Function:
        """The registration of a broker whose registered incarnation registers again."""

        def register(registration: StructValue, new_epoch: Number) -> StructValue:
            return registrations.registration_after(self.t, registration, Bool.lift(True), new_epoch)

        return Function(register, registration=self.t.registration, new_epoch=self.t.broker_epoch)

    @cached_property
    def gone_astray(self) -> Function:
        """The index entries that go astray when a broker with this number of entries leaves the ELR."""

        def leave(entries: Number) -> Number:
            return registrations.elr_index_entries(entries, Bool.lift(True), Bool.lift(False))[1]

        return Function(leave, entries=_COUNT)

    @cached_property
    def elr_settings(self) -> Function:
        """K15. The changes of min.insync.replicas that come with a level of eligible.leader.replicas.version."""

        def settings(level: Number, cluster_has_min_isr: Truth, broker_has_min_isr: Truth) -> Result:
            return {
                "writes_cluster": handlers.writes_cluster_min_isr(self.t, level, cluster_has_min_isr),
                "removes_broker": handlers.removes_broker_min_isr(self.t, level, broker_has_min_isr),
            }

        return Function(settings, level=_COUNT, cluster_has_min_isr=Bool, broker_has_min_isr=Bool)

    @cached_property
    def min_isr_checks(self) -> Function:
        """The checks of a change of min.insync.replicas to a number above 0, or of its removal."""

        def check(resource: Number, removes: Truth) -> Any:
            return handlers.min_isr_checks(self.t, resource, removes)

        return Function(check, resource=handlers.Resource, removes=Bool)


# --- rules without brokers --------------------------------------------------------------------------------


_MIN_ISR = cache(lambda: Function(_effective, min_insync_replicas=_COUNT, replication_factor=_COUNT))
_IS_ONLINE = cache(
    lambda: Function(handlers.is_online, directory=handlers.Directory, listed=Bool, lists_any=Bool)
)
_NAMES_DEFAULT = cache(lambda: Function(handlers.names_default, listed=_COUNT))


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
