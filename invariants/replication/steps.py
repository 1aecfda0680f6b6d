"""What must hold of every step that the controller takes: epochs, who joins ISR and ELR, and who is remembered."""

from __future__ import annotations

from highwater.invariants.replication.choices import favours_availability, is_risked
from highwater.model.language import State, all_of, any_of, implies, size
from highwater.model.language.sequences import members_of
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Truth
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.elections import electable, is_clean


@step_property("B8")
def leader_epoch_never_falls(m: Controller, before: State, after: State) -> Truth:
    """The leader epoch never moves back: a replica that heard of a higher one would refuse the leader for ever."""
    return before.partition.leader_epoch <= after.partition.leader_epoch


@step_property("B8")
def leader_change_ends_the_leader_epoch(m: Controller, before: State, after: State) -> Truth:
    """Another leader, or none, means the next leader epoch: no leader epoch has two leaders."""
    old, new = before.partition, after.partition
    return implies(new.leader != old.leader, new.leader_epoch == old.leader_epoch + 1)


@step_property("B8")
def removed_replica_ends_the_leader_epoch(m: Controller, before: State, after: State) -> Truth:
    """Where a replica leaves the partition the leader epoch ends, so that its fetches are refused from then on."""
    gone = m.assigned(before.partition) - m.assigned(after.partition)
    return implies(~gone.is_empty, after.partition.leader_epoch == before.partition.leader_epoch + 1)


@step_property("B8")
def partition_change_is_counted(m: Controller, before: State, after: State) -> Truth:
    """Whatever changes in a partition, its partition epoch goes up by one; else it stays.

    By that an AlterPartition that was decided on an older state is found out.
    """
    old, new = before.partition, after.partition
    changed = any_of(getattr(old, name) != getattr(new, name) for name in m.t.written_fields)
    stays, counted = (
        new.partition_epoch == old.partition_epoch,
        new.partition_epoch == old.partition_epoch + 1,
    )
    return implies(changed, counted) & (stays | counted)


@step_property("966.7")
def elr_changes_keep_the_leader_epoch(m: Controller, before: State, after: State) -> Truth:
    """A change of the ELR alone counts in the partition epoch and does not end the leader epoch."""
    old, new = before.partition, after.partition
    alone = (old.leader == new.leader) & (old.isr == new.isr) & (old.replicas == new.replicas)
    counted = (new.leader_epoch == old.leader_epoch) & (new.partition_epoch > old.partition_epoch)
    return implies(alone & (old.elr != new.elr), counted)


@step_property("B8")
def broker_epochs_never_fall(m: Controller, before: State, after: State) -> Truth:
    """A broker epoch never moves back, and goes up only when the broker registers, fenced until it has caught up."""
    return all_of(
        (after.registrations[b].epoch == before.registrations[b].epoch)
        | ((after.registrations[b].epoch > before.registrations[b].epoch) & after.registrations[b].fenced)
        for b in m.broker
    )


@step_property("841.2, 903.4")
def only_active_brokers_join_the_isr(m: Controller, before: State, after: State) -> Truth:
    """Who joins the ISR is neither fenced nor shutting down after the step, and a replica."""
    joining = after.partition.isr - before.partition.isr
    return implies(~joining.is_empty, (joining <= m.active(after)) & (joining <= m.assigned(after.partition)))


@step_property("966.6")
def only_isr_members_join_the_elr(m: Controller, before: State, after: State) -> Truth:
    """The ELR gains nobody but members of the ISR: only they are known to hold what is committed."""
    joining = after.partition.elr - before.partition.elr
    return implies(~joining.is_empty, joining <= before.partition.isr)


@step_property("966.10")
def only_elr_members_join_the_last_known_elr(m: Controller, before: State, after: State) -> Truth:
    """The last known ELR gains nobody but members of the ELR: they leave it after an unclean shutdown."""
    joining = after.partition.last_known_elr - before.partition.last_known_elr
    return implies(~joining.is_empty, joining <= before.partition.elr)


@step_property("966.9", rule="reassignment_needs_min_isr")
def completed_reassignments_leave_min_isr_members(m: Controller, before: State, after: State) -> Truth:
    """A reassignment that completes leaves every added replica in the ISR, and min ISR members or every replica."""
    old, new = before.partition, after.partition
    was, left = members_of(old.replicas, m.t.brokers), members_of(new.replicas, m.t.brokers)
    ended = ~(old.adding | old.removing).is_empty & (new.adding | new.removing).is_empty
    completed = ended & (left == was - old.removing)
    enough = (size(new.isr) >= after.min_insync_replicas) | (left <= new.isr)
    return implies(completed & ~old.removing.is_empty, enough & (left & old.adding <= new.isr))


@step_property("966.11", rule="last_known_leader_kept")
def last_known_leader_stays_until_an_election(m: Controller, before: State, after: State) -> Truth:
    """While nobody leads, the last known leader stays remembered, unless ELR and all that is remembered are cleared."""
    old, new = before.partition, after.partition
    nobody = old.leader.is_none & new.leader.is_none
    cleared = new.elr.is_empty & new.last_known_elr.is_empty & new.last_known_leader.is_none
    stays = new.last_known_leader == old.last_known_leader
    return implies(old.last_known_leader.is_some & nobody, stays | cleared)


@step_property("966.10, 966.14")
def recovery_quorum_keeps_min_isr_members(m: Controller, before: State, after: State) -> Truth:
    """ISR, ELR and last known ELR together never fall below min ISR, unless an ISR member registers uncleanly.

    They are the replicas that a Balanced recovery waits for. A change of min ISR or of the replicas, Aggressive, and
    a risky election on request, are an operator's choices; without unclean recovery so is any election from
    outside ISR and ELR. An ISR member that loses its log and registers before
    it is fenced is remembered nowhere: 966.10 speaks of ELR members only.
    """
    old, new = before.partition, after.partition
    chosen = favours_availability(m, before) | is_risked(m, before, after)
    chosen = chosen | (old.replicas != new.replicas) | ~(m.min_isr(after) <= m.min_isr(before))
    if not m.on("unclean_recovery"):
        chosen = chosen | (new.leader.is_some & ~is_clean(electable(old), new.leader))
    registers = any_of(
        old.isr.has(b) & (before.registrations[b].epoch != after.registrations[b].epoch) for b in m.broker
    )
    had = size(old.isr | old.elr | old.last_known_elr) >= m.min_isr(before)
    has = size(new.isr | new.elr | new.last_known_elr) >= m.min_isr(after)
    return implies(had & ~chosen & ~registers, has)


OF_EPOCHS = (
    leader_epoch_never_falls,
    leader_change_ends_the_leader_epoch,
    partition_change_is_counted,
    elr_changes_keep_the_leader_epoch,
    last_known_leader_stays_until_an_election,
    completed_reassignments_leave_min_isr_members,
    broker_epochs_never_fall,
)
"""Those that the protocol of messages is asked, too."""

STEP_PROPERTIES = (
    *OF_EPOCHS,
    removed_replica_ends_the_leader_epoch,
    only_active_brokers_join_the_isr,
    only_isr_members_join_the_elr,
    only_elr_members_join_the_last_known_elr,
    recovery_quorum_keeps_min_isr_members,
)
