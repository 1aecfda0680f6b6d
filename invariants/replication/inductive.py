"""What makes the invariants inductive: helper invariants, and properties of steps, by protocol.

An invariant can hold in every reachable state and yet not be kept from one that is not reachable. A helper
invariant excludes such states. It is proved together with the others, so nothing is assumed. Those of the protocol
of messages are in ``knowledge``, ``histories`` and ``commits``.
"""

from __future__ import annotations

from highwater.invariants.replication import commits, histories, knowledge
from highwater.model.language import Invariant, State, all_of, any_of, implies, invariant, size
from highwater.model.language.step_properties import StepProperty, step_property
from highwater.model.language.values import Truth
from highwater.model.replication import Replication
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.elections import electable, is_clean


@invariant("B8")
def brokers_are_registered(m: Controller, s: State) -> Truth:
    """Every broker has a registration.

    It holds as the cluster begins with all brokers registered, and a registration is replaced, never taken away.
    Without it a broker could be unfenced that never registered: it would be elected and still not be active.
    """
    return all_of(s.registrations[b].registered for b in m.broker)


@invariant("966.3", rule="isr_may_become_empty")
def somebody_leads_the_isr(m: Controller, s: State) -> Truth:
    """Without a leader the ISR is empty: its last member leaves it when it cannot lead.

    Else an election could pass over the ISR, and take an ELR member or the last known leader in its place.
    """
    return implies(s.partition.leader.is_none, s.partition.isr.is_empty)


@invariant("B8, 966.9")
def a_reassignment_has_two_ends(m: Controller, s: State) -> Truth:
    """Replicas are listed once; without those that are added some are left, and so without those that are removed.

    So there is somebody to go back to when a reassignment is cancelled.
    """
    p = s.partition
    replicas = m.assigned(p)
    left = ~(replicas - p.adding).is_empty & ~(replicas - p.removing).is_empty
    return left & (size(replicas) == p.replicas.length)


@invariant("966.4, 966.10, 966.11")
def nobody_is_remembered_without_the_rules(m: Controller, s: State) -> Truth:
    """With the rules off that keep ELR, last known ELR and last known leader, these are empty.

    They are empty at the start, and nothing else writes a member into them.
    """
    p = s.partition
    return all_of(
        nobody
        for rule, nobody in (
            ("eligible_leader_replicas", p.elr.is_empty),
            ("last_known_elr", p.last_known_elr.is_empty),
            ("last_known_leader", p.last_known_leader.is_none),
        )
        if not m.on(rule)
    )


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


@step_property("966.10, 966.14")
def recovery_quorum_keeps_min_isr_members(m: Controller, before: State, after: State) -> Truth:
    """ISR, ELR and last known ELR together never fall below min ISR, unless an ISR member registers uncleanly.

    They are the replicas that a Balanced recovery waits for. A change of min ISR or of the replicas, and
    unclean election (Aggressive), are an operator's choices; without unclean recovery so is any election from
    outside ISR and ELR. An ISR member that loses its log and registers before
    it is fenced is remembered nowhere: 966.10 speaks of ELR members only.
    """
    old, new = before.partition, after.partition
    chosen = (
        before.unclean_election | (old.replicas != new.replicas) | ~(m.min_isr(after) <= m.min_isr(before))
    )
    if not m.on("unclean_recovery"):
        chosen = chosen | (new.leader.is_some & ~is_clean(electable(old), new.leader))
    registers = any_of(
        old.isr.has(b) & (before.registrations[b].epoch != after.registrations[b].epoch) for b in m.broker
    )
    had = size(old.isr | old.elr | old.last_known_elr) >= m.min_isr(before)
    has = size(new.isr | new.elr | new.last_known_elr) >= m.min_isr(after)
    return implies(had & ~chosen & ~registers, has)


HELPERS: dict[str, tuple[Invariant, ...]] = {
    Controller.name: (
        brokers_are_registered,
        somebody_leads_the_isr,
        a_reassignment_has_two_ends,
        nobody_is_remembered_without_the_rules,
    ),
    Replication.name: (*knowledge.KNOWLEDGE, *histories.HISTORIES, *commits.COMMITS),
}
"""Protocol to the helper invariants that are proved together with its own."""

HELPER_STEPS: dict[str, tuple[StepProperty, ...]] = {
    Controller.name: (
        leader_epoch_never_falls,
        leader_change_ends_the_leader_epoch,
        removed_replica_ends_the_leader_epoch,
        partition_change_is_counted,
        broker_epochs_never_fall,
        only_active_brokers_join_the_isr,
        only_isr_members_join_the_elr,
        recovery_quorum_keeps_min_isr_members,
    ),
    Replication.name: (
        leader_epoch_never_falls,
        leader_change_ends_the_leader_epoch,
        partition_change_is_counted,
        broker_epochs_never_fall,
        *knowledge.STEPS,
        *commits.STEPS,
    ),
}
"""Protocol to the properties of its steps."""
