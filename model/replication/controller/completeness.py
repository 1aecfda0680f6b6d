"""Who holds every record that can have been committed, as far as that is known without the logs (966.6)."""

from __future__ import annotations

from highwater.model.language import Number, SetValue, StructValue, Truth, size, where
from highwater.model.replication.controller import elections
from highwater.model.replication.controller.eligible_leader_replicas import effective_min_isr
from highwater.model.replication.controller.types import Terms
from highwater.model.replication.high_watermark import gate_is_open


def commits(partition: StructValue, min_insync_replicas: Number) -> Truth:
    """966.1. Whether the HWM may advance: there is a leader, and the ISR has min ISR members."""
    needed = effective_min_isr(min_insync_replicas, partition.replicas.length)
    return partition.leader.is_some & gate_is_open(size(partition.isr), needed)


def after_decision(
    t: Terms,
    old: StructValue,
    new: StructValue,
    complete: SetValue,
    diminished: Truth,
    min_insync_replicas: Number,
    joining: SetValue,
    lost: SetValue,
    chosen: Truth | bool,
) -> tuple[SetValue, Truth]:
    """Who holds everything after a decision, and whether fewer than min ISR do, for a reason that is allowed.

    Who joins the ISR has fetched what the leader has. ``lost`` are brokers that lost their log. A leader from outside
    ISR and ELR starts a new history, in which only it holds everything. While the HWM may advance, only the ISR holds
    everything. ``chosen`` is an operator's choice to have fewer than min ISR.
    """
    joining = joining & (new.isr - old.isr)
    outside = new.leader.is_some & ~elections.is_clean(
        (elections.electable(old) - lost) | joining, new.leader
    )
    alone = t.brokers.zero().with_(new.leader.value)
    holding = where(outside, alone, (complete | joining) - lost)
    hit = ~(elections.electable(old) & lost).is_empty
    enough = size(new.isr) >= effective_min_isr(min_insync_replicas, new.replicas.length)
    still = ~enough & (diminished | hit | outside | chosen)
    return where(commits(new, min_insync_replicas), holding & new.isr, holding), still


def may_have_best_log(complete: SetValue, winner: Number, compared: SetValue) -> Truth:
    """966.14. Whether a replica can have the best log of those compared, as far as ``complete`` says.

    By last leader epoch and then length, a log that lacks a committed record is never better than one that has all.
    """
    return complete.has(winner) | (compared & complete).is_empty


def without_promise(partition: StructValue, complete: SetValue) -> SetValue:
    """Who counts as complete while ELR is off: an ISR without a complete member starts a new history.

    Its last member stays in it whatever becomes of its log. Nobody promises then that nothing is lost by that.
    """
    nobody_left = (partition.isr & complete).is_empty
    return where(nobody_left, complete | partition.isr, complete)
