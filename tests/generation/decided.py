"""The controller's decisions about a partition as functions of Python values, for tests and generated logs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

from highwater.model.language import Bool, Number, Truth
from highwater.model.language.function import Function
from highwater.model.language.types import Type
from highwater.model.replication.controller import handlers, registrations
from highwater.model.replication.controller.partition_change import is_empty_record, merge
from highwater.model.replication.controller.types import (
    ControllerContext,
    ElectionType,
    Handled,
    unchecked,
)
from highwater.traces.rules.decisions import Decisions, Result

KNOWN: dict[str, Type] = {"partition_known": Bool}


class DecisionsInFull(Decisions):
    """The decisions about a partition. Each takes the context and its own values.

    A result also says which fields the record writes, and whether it writes none.
    """

    def handler(self, handler: Callable[..., Handled], **types: Type) -> Function:
        """A handler, whose own parameters and further parts of the context have these types."""
        context = {**self.context, **{n: t for n, t in types.items() if n.endswith("_known")}}

        def function(**given: Any) -> Result:
            now = ControllerContext(self.t, **{name: given.pop(name) for name in context})
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

        return Function(function, **self.context, **types)

    alter_partition = cached_property[Function](
        lambda d: d.handler(handlers.alter_partition, **KNOWN, topic_known=Bool, request=d.t.alter_partition)
    )
    fencing = cached_property[Function](lambda d: d.handler(registrations.fence, broker=d.t.broker))
    registration = cached_property[Function](
        lambda d: d.handler(_on_registration, broker=d.t.broker, clean=Bool, same_incarnation=Bool)
    )
    unfencing = cached_property[Function](lambda d: d.handler(registrations.unfence, broker=d.t.broker))
    elect = cached_property[Function](
        lambda d: d.handler(handlers.elect_leader, **KNOWN, election=ElectionType)
    )
    balance_task = cached_property[Function](lambda d: d.handler(handlers.maybe_balance_leader))
    reassign = cached_property[Function](
        lambda d: d.handler(handlers.reassign, **KNOWN, target=d.t.replicas, factor_may_change=Bool)
    )
    cancel = cached_property[Function](lambda d: d.handler(handlers.cancel_reassignment, **KNOWN))
    min_isr_change = cached_property[Function](lambda d: d.handler(handlers.change_min_isr))


def _on_registration(
    now: ControllerContext, broker: Number, clean: Truth, same_incarnation: Truth
) -> Handled:
    return unchecked(registrations.on_registration(now, broker, clean, same_incarnation))


@lru_cache(maxsize=64)
def decisions_in_full(brokers: int, rules: frozenset[str]) -> DecisionsInFull:
    """The decision functions for a number of brokers and a set of rules, cached."""
    return DecisionsInFull(brokers, rules)
