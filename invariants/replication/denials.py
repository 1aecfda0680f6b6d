"""What brokers are allowed, denied: each is violated, as a leader proposes whoever has what is asked for, or lags."""

from __future__ import annotations

from highwater.model.language import State, all_of
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Number, Truth
from highwater.model.replication import Replication


def _proposes(m: Replication, before: State, after: State, leader: Number, f: Number, joins: bool) -> Truth:
    """Whether a leader comes to propose an ISR with a follower that is in none, or without one that is."""
    old, new = before.brokers[leader], after.brokers[leader]
    begins = m.leads(leader, old) & old.proposed.is_none & new.proposed.is_some
    there, proposed = old.view.isr.has(f), new.proposed.value.has(f)
    return begins & (~there & proposed if joins else there & ~proposed)


@step_property("B5")
def nobody_is_proposed_at_the_hwm(m: Replication, before: State, after: State) -> Truth:
    """Who is proposed for the ISR has more than the records below the leader's HWM."""
    kept = []
    for leader in m.broker:
        for f in m.broker:
            broker = before.brokers[leader]
            known = broker.followers[f]
            at = known.leo.is_some & (known.leo.value == broker.hwm)
            kept.append(~(_proposes(m, before, after, leader, f, joins=True) & at))
    return all_of(kept)


@step_property("B7")
def nobody_lags_who_has_fetched(m: Replication, before: State, after: State) -> Truth:
    """Who is to leave the ISR is one that its leader has not heard of."""
    kept = []
    for leader in m.broker:
        for f in m.broker:
            heard = before.brokers[leader].followers[f].leo.is_some
            kept.append(~(_proposes(m, before, after, leader, f, joins=False) & heard))
    return all_of(kept)


@step_property("B7")
def nobody_lags_who_was_not_heard_of(m: Replication, before: State, after: State) -> Truth:
    """Who is to leave the ISR has fetched from its leader."""
    kept = []
    for leader in m.broker:
        for f in m.broker:
            unheard = before.brokers[leader].followers[f].leo.is_none
            kept.append(~(_proposes(m, before, after, leader, f, joins=False) & unheard))
    return all_of(kept)


DENIALS = (nobody_is_proposed_at_the_hwm, nobody_lags_who_has_fetched, nobody_lags_who_was_not_heard_of)
