"""The controller's decisions about a partition as functions of Python values, for tests and generated logs."""

from __future__ import annotations

from functools import cached_property, lru_cache

from highwater.model.language import Bool, Number, Truth
from highwater.model.language.function import Function
from highwater.model.replication.controller import handlers, registrations
from highwater.model.replication.controller.types import (
    ControllerContext,
    ElectionType,
    Handled,
    unchecked,
)
from highwater.traces.rules.decisions import Decisions


class DecisionsInFull(Decisions):
    """The decisions that replay makes, and all others about a partition. Each takes the context and its own values."""

    fencing = cached_property[Function](lambda d: d.handler(registrations.fence, broker=d.t.broker))
    registration = cached_property[Function](
        lambda d: d.handler(_on_registration, broker=d.t.broker, clean=Bool, same_incarnation=Bool)
    )
    unfencing = cached_property[Function](lambda d: d.handler(registrations.unfence, broker=d.t.broker))
    elect = cached_property[Function](
        lambda d: d.handler(handlers.elect_leader, context=5, election=ElectionType)
    )
    balance_task = cached_property[Function](lambda d: d.handler(handlers.maybe_balance_leader))
    reassign = cached_property[Function](
        lambda d: d.handler(handlers.reassign, context=5, target=d.t.replicas, factor_may_change=Bool)
    )
    cancel = cached_property[Function](lambda d: d.handler(handlers.cancel_reassignment, context=5))
    min_isr_change = cached_property[Function](lambda d: d.handler(handlers.change_min_isr))


def _on_registration(
    now: ControllerContext, broker: Number, clean: Truth, same_incarnation: Truth
) -> Handled:
    return unchecked(registrations.on_registration(now, broker, clean, same_incarnation))


@lru_cache(maxsize=64)
def decisions_in_full(brokers: int, rules: frozenset[str]) -> DecisionsInFull:
    """The decision functions for a number of brokers and a set of rules, cached."""
    return DecisionsInFull(brokers, rules)
