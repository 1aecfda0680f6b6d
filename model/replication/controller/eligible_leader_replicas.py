"""KIP-966: the eligible leader replicas, what is remembered when they are gone, and min.insync.replicas."""

from __future__ import annotations

from highwater.model.language import Number, OptionValue, SetValue, StructValue, Truth, least, size, where
from highwater.model.replication.controller.types import NO_LEADER, Terms, written


def effective_min_isr(min_insync_replicas: Number, replication_factor: Number) -> Number:
    """966.2. The lesser of min.insync.replicas and the replication factor."""
    return least(min_insync_replicas, replication_factor)


def eligible_leader_replicas(
    t: Terms,
    partition: StructValue,
    proposed_isr: SetValue,
    unclean_shutdown: SetValue,
    min_isr: Number,
    replicas: SetValue,
) -> SetValue:
    """966.4. The ELR that goes with a proposed ISR.

    Empty where the proposed ISR has min ISR members. Else the ELR keeps its members and gains those that
    leave the ISR: nothing was committed without them, so they hold everything below the HWM. What had an
    unclean shutdown is in neither (966.5). After a reassignment only replicas are left in it (966.9). While ELR is off
    it is empty (966.18), but for the election of the change that empties it, with ``leftover_elr_elects``.
    """
    if not t.on("eligible_leader_replicas"):
        return partition.elr if t.on("leftover_elr_elects") else t.brokers.zero()
    under_min_isr = ((partition.elr | partition.isr) - proposed_isr) - unclean_shutdown
    if t.on("elr_within_replicas"):
        under_min_isr = under_min_isr & replicas
    return where(size(proposed_isr) >= min_isr, t.brokers.zero(), under_min_isr)


def last_known_elr(
    t: Terms, partition: StructValue, proposed_isr: SetValue, unclean_shutdown: SetValue, min_isr: Number
) -> SetValue:
    """966.10. ELR members that left through an unclean shutdown, since the ISR last had min ISR members.

    While ELR is off nobody is remembered (966.18); Kafka leaves what was.
    """
    if not t.on("last_known_elr"):
        return t.brokers.zero() if t.on("elr_off_forgets_last_known") else partition.last_known_elr
    remembered = partition.last_known_elr | (partition.elr & unclean_shutdown)
    return where(size(proposed_isr) >= min_isr, t.brokers.zero(), remembered)


def last_known_leader(
    t: Terms, partition: StructValue, isr_becomes_empty: Truth, leader: OptionValue, writes_leader: Truth
) -> OptionValue:
    """966.11. The leader that was the last ISR member is remembered when it leaves, until one is elected.

    With ``last_known_leader_kept`` off, a partition that had lost its leader before the last ISR member
    leaves remembers that there was none, and forgets the leader that it remembered. With
    ``last_known_leader_by_leader`` it goes by the leader field that is written, whatever the ISR is. While ELR is off
    nobody is remembered (966.18).
    """
    before = partition.last_known_leader
    if not t.on("last_known_leader"):
        return before.type.none() if t.on("elr_off_forgets_last_known") else before
    if t.on("last_known_leader_by_leader"):
        old_leader = before.type.some(where(partition.leader.is_some, partition.leader.value, NO_LEADER))
        remembered = where(before.is_none, old_leader, before)
        return where(writes_leader, where(leader.is_some, before.type.none(), remembered), before)
    if t.on("last_known_leader_kept"):
        old_leader = where(partition.leader.is_some, before.type.some(partition.leader.value), before)
    else:
        old_leader = before.type.some(where(partition.leader.is_some, partition.leader.value, NO_LEADER))
    return where(isr_becomes_empty, old_leader, where(leader.is_some, before.type.none(), before))


def after_min_isr_change(t: Terms, partition: StructValue, min_isr: Number) -> StructValue:
    """966.8. The record for a new effective min ISR: the ELR is emptied where the ISR has that many members.

    From then on the HWM may advance without the ELR members, so they are eligible no more. With
    ``min_isr_change_clears_elr`` it is emptied whatever the value is, and what was known of a last leader too.
    """
    record = t.record.zero()
    if t.on("min_isr_change_clears_elr"):
        return cleared(t, partition)
    if not t.on("min_isr_change_empties_elr"):
        return record
    reached, nobody = size(partition.isr) >= min_isr, t.brokers.zero()
    return record.replace(
        elr=written(t, "elr", reached & ~partition.elr.is_empty, nobody),
        last_known_elr=written(t, "last_known_elr", reached & ~partition.last_known_elr.is_empty, nobody),
    )


def cleared(t: Terms, partition: StructValue) -> StructValue:
    """The record that empties ELR, last known ELR and last known leader, where any of them is there."""
    known, elr, nobody = partition.last_known_leader, partition.last_known_elr, t.brokers.zero()
    concerned = ~partition.elr.is_empty | ~elr.is_empty | known.is_some
    return t.record.zero().replace(
        elr=written(t, "elr", concerned, nobody),
        last_known_elr=written(t, "last_known_elr", concerned, nobody),
        last_known_leader=written(t, "last_known_leader", concerned, known.type.none()),
    )
