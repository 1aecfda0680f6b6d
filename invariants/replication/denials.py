"""What brokers are allowed, denied: each is violated, as a leader proposes whoever has what is asked for, or lags."""

from __future__ import annotations

from collections.abc import Callable

from highwater.model.language import State, all_of
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication import Replication


def _proposes(m: Replication, before: State, after: State, leader: Number, f: Number, joins: bool) -> Truth:
    """Whether a leader comes to propose an ISR with a follower that is in none, or without one that is."""
    old, new = before.brokers[leader], after.brokers[leader]
    begins = m.leads(leader, old) & old.proposed.is_none & new.proposed.is_some
    there, proposed = old.view.isr.has(f), new.proposed.value.has(f)
    return begins & (~there & proposed if joins else there & ~proposed)


def _nobody(
    m: Replication,
    before: State,
    after: State,
    joins: bool,
    wrong: Callable[[StructValue, StructValue], Truth],
) -> Truth:
    """Whether no leader proposes so about a follower of which it knows what is said to be wrong."""
    kept = []
    for leader in m.broker:
        for f in m.broker:
            broker = before.brokers[leader]
            kept.append(~(_proposes(m, before, after, leader, f, joins) & wrong(broker, broker.followers[f])))
    return all_of(kept)


@step_property("B5")
def nobody_is_proposed_at_the_hwm(m: Replication, before: State, after: State) -> Truth:
    """Who is proposed for the ISR has more than the records below the leader's HWM."""

    def at_the_hwm(leader: StructValue, known: StructValue) -> Truth:
        return known.leo.is_some & (known.leo.value == leader.hwm)

    return _nobody(m, before, after, True, at_the_hwm)


@step_property("B7")
def nobody_lags_who_has_fetched(m: Replication, before: State, after: State) -> Truth:
    """Who is to leave the ISR is one that its leader has not heard of."""
    return _nobody(m, before, after, False, lambda _, known: known.leo.is_some)


@step_property("B7")
def nobody_lags_who_was_not_heard_of(m: Replication, before: State, after: State) -> Truth:
    """Who is to leave the ISR has fetched from its leader."""
    return _nobody(m, before, after, False, lambda _, known: known.leo.is_none)


DENIALS = (nobody_is_proposed_at_the_hwm, nobody_lags_who_has_fetched, nobody_lags_who_was_not_heard_of)
