"""What must hold of every step in which the controller elects: for a reason, and of the best that there is."""

from __future__ import annotations

from highwater.invariants.replication.choices import favours_availability, is_requested, is_risked
from highwater.model.language import State, all_of, implies, least, size
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import SetValue, Truth, as_bool
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.elections import electable
from highwater.model.replication.controller.types import (
    LeaderRecoveryState,
    RecoveryRequest,
    RecoveryStrategy,
)


def _clean(m: Controller, before: State, after: State) -> SetValue:
    """Who could be elected cleanly in a step: the ISR, without one the ELR, of those that are active after it."""
    old, new = before.partition, after.partition
    return electable(old) & electable(new) & m.active(after) & m.assigned(new)


def _uncleanly(m: Controller, before: State, after: State) -> Truth:
    """Whether a step elects somebody from outside ISR and ELR. Who comes with a reassignment is none of them."""
    old, new = before.partition, after.partition
    elected = new.leader.is_some & (old.leader != new.leader) & ~electable(old).has(new.leader)
    return elected & (old.replicas == new.replicas)


@step_property("B8", rule="leader_stays")
def a_leader_that_may_lead_on_is_kept(m: Controller, before: State, after: State) -> Truth:
    """Nobody takes over from a leader that is active and stays in the ISR, but the preferred replica."""
    old, new = before.partition, after.partition
    goes_on = old.leader.is_some & m.active(after).has(old.leader) & new.isr.has(old.leader)
    preferred = new.leader.is_some & new.leader.is_(new.replicas.at(0))
    return implies(old.leader != new.leader, ~goes_on | preferred)


@step_property("966.13")
def nobody_is_passed_over(m: Controller, before: State, after: State) -> Truth:
    """Where somebody who surely holds what is committed is active, no one else is elected, and the partition is led."""
    old, new = before.partition, after.partition
    clean = _clean(m, before, after)
    elected = new.leader.is_some & (old.leader != new.leader)
    completed = old.replicas != new.replicas  # who joins then can lead at once
    passed = elected & ~electable(old).has(new.leader) & ~completed
    lost = old.leader.is_some & new.leader.is_none
    return implies(old.leader != new.leader, ~((passed | lost) & ~clean.is_empty))


@step_property("966.14, 966.15, 966.16")
def unclean_elections_are_allowed(m: Controller, before: State, after: State) -> Truth:
    """Who is in neither ISR nor ELR leads only as the last known leader, by recovery, or as the operator allows.

    It is active, and alone in the ISR then.
    """
    old, new = before.partition, after.partition
    elected = _uncleanly(m, before, after)
    last = old.last_known_leader.is_some & new.leader.is_(old.last_known_leader.value)
    recovers = m.on("unclean_recovery") & old.leader.is_none
    allowed = favours_availability(m, before) | last | recovers | old.leader.is_none
    alone = all_of(new.isr.has(b) == new.leader.is_(b) for b in m.t.broker)
    return implies(elected, allowed & m.active(after).has(new.leader) & alone)


@step_property("966.13, 966.14, 966.15")
def nobody_is_elected_before_the_electable(m: Controller, before: State, after: State) -> Truth:
    """While somebody is in ISR or ELR no other one leads, unless an operator allows it or asks for it.

    Who registers in the step may have lost its log, and is waited for no more. A Balanced recovery waits for who is
    remembered as well: for every last known ELR member to be live. One on request elects a live one, and need not wait.
    """
    old = before.partition
    registers = m.t.brokers.of(lambda b: before.registrations[b].epoch != after.registrations[b].epoch)
    nobody = (electable(old) - registers).is_empty
    if m.on("unclean_recovery"):
        by_log = is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_BALANCED)
        awaited = nobody & (by_log | (old.last_known_elr <= m.active(after)))
        awaited = awaited | is_risked(m, before, after)
    else:
        awaited = nobody | (
            before.registrations == after.registrations
        )  # where no broker moves an operator does
    return implies(_uncleanly(m, before, after) & ~favours_availability(m, before), awaited)


@step_property("966.15", rule="last_known_leader_unfenced")
def the_last_known_leader_comes_to_lead(m: Controller, before: State, after: State) -> Truth:
    """Where nobody is in ISR or ELR any more, and the last known leader becomes active, it leads at once."""
    if m.on("unclean_recovery") or not m.on("election_on_unfencing"):
        return as_bool(True)
    old, new = before.partition, after.partition
    able = m.active(after) & m.assigned(old)
    waits = old.leader.is_none & electable(old).is_empty & old.last_known_leader.is_some
    returns = waits & (able - m.active(before)).has(old.last_known_leader.value)
    return implies(returns & (old.replicas == new.replicas), new.leader.is_some)


@step_property("B8, 841.5")
def registrations_change_for_a_reason(m: Controller, before: State, after: State) -> Truth:
    """A broker that is fenced, or begins to shut down, is in the ISR no more; one is unfenced in its own epoch.

    A registration ends a controlled shutdown, and nothing else does; one that is fenced does not begin one.
    """
    kept = []
    for b in m.t.broker:
        old, new = before.registrations[b], after.registrations[b]
        leaves = (~old.fenced & new.fenced) | (~old.in_controlled_shutdown & new.in_controlled_shutdown)
        kept.append(implies(leaves, ~after.partition.isr.has(b)))
        back = old.in_controlled_shutdown & ~new.in_controlled_shutdown
        kept.append(implies(back, (old.epoch != new.epoch) | ~new.registered))
        begins = ~old.in_controlled_shutdown & new.in_controlled_shutdown
        kept.append(implies(begins, ~old.fenced & ~new.fenced & (old.epoch == new.epoch)))
        kept.append(
            implies(old.epoch != new.epoch, (new.epoch == old.epoch + 1) & ~after.partition.isr.has(b))
        )
    return all_of(kept)


@step_property("966.8, 966.16")
def what_an_operator_sets_is_his(m: Controller, before: State, after: State) -> Truth:
    """Settings change in steps of their own: nobody is elected and nobody joins the ISR in them.

    Unclean election is enabled only where an operator may. A strategy changes nothing of the partition.
    """
    same = before.min_insync_replicas == after.min_insync_replicas
    enabled = ~before.unclean_election & after.unclean_election
    old, new = before.partition, after.partition
    rests = (old.leader == new.leader) & (old.isr == new.isr) & (before.registrations == after.registrations)
    may = as_bool(m.p.unclean_election == 2)
    kept = implies(~same, rests) & implies(enabled, (old == new) & same & may)
    if m.has_strategy:
        alone = (old == new) & same & (before.registrations == after.registrations) & ~enabled
        kept = kept & implies(before.recovery_strategy != after.recovery_strategy, alone)
    return kept


@step_property("966.9")
def reassignments_complete_when_they_can(m: Controller, before: State, after: State) -> Truth:
    """A reassignment ends by itself as soon as all that are added are in the ISR, and enough of it stays; not before.

    Who is removed goes, from ISR and ELR too. What is asked for changes only by an operator, with the replicas.
    """
    p, then = before.partition, after.partition
    old, new = m.assigned(p), m.assigned(then)
    going, goes = p.adding | p.removing, then.adding | then.removing
    ended = ~going.is_empty & goes.is_empty
    completed = (new == old - p.removing) & ((p.adding - p.removing) <= then.isr) & then.adding.is_empty
    fewer = least(m.controllers_min_isr(before), then.replicas.length)
    by_itself = (p.replicas != then.replicas) & ended & (new == old - p.removing) & (new != old - p.adding)
    kept = [
        implies(by_itself, completed & (size(then.isr) >= fewer)),
        implies(p.replicas != then.replicas, (then.isr <= new) & (then.elr <= new)),
        implies((p != then) & ~goes.is_empty, goes <= new),
    ]
    left, staying = then.isr - then.removing, new - then.removing
    able = ((then.adding - then.removing) <= left) & ~left.is_empty
    able = able & (size(left) >= least(m.controllers_min_isr(after), size(staying)))
    goes_on = (p.isr != then.isr) & (p.replicas == then.replicas) & ~goes.is_empty
    by_proposal = (p.leader == then.leader) & then.leader.is_some
    kept.append(implies(goes_on & by_proposal, ~able))
    return all_of(kept)


@step_property("966.9", rule="reassignment_needs_min_isr")
def reassignments_keep_what_they_found(m: Controller, before: State, after: State) -> Truth:
    """In its end a reassignment leaves as many replicas as there were, unless an operator may ask for more or fewer.

    A cancelled one takes who was being added out of the ISR, and nobody else; min ISR members are left in it.
    """
    p, then = before.partition, after.partition
    in_the_end = size(m.assigned(then) - then.removing)
    kept = [as_bool(bool(m.p.replication_factor_changes)) | (in_the_end == m.factor)]
    going = ~p.adding.is_empty | ~p.removing.is_empty
    over = going & then.adding.is_empty & then.removing.is_empty
    cancelled = over & (then.replicas == p.replicas.filter(lambda r: ~p.adding.has(r)))
    completed = m.assigned(then) == m.assigned(p) - p.removing
    left = (then.isr == p.isr - p.adding) & (
        size(then.isr) >= least(m.controllers_min_isr(after), size(m.assigned(then)))
    )
    kept.append(implies(cancelled & ~completed, left))
    return all_of(kept)


@step_property("966.10, 966.11, 966.15, 704.2")
def what_is_remembered_is_true_of_a_partition(m: Controller, before: State, after: State) -> Truth:
    """The last known leader is the one that led when the ISR became empty, until somebody leads again.

    A leader recovers exactly when it was elected from outside ISR and ELR; then there is no ELR, unless an operator
    allows unclean elections. Who comes to be remembered as last known ELR was in the ELR.
    """
    p, then = before.partition, after.partition
    kept = []
    if m.on("last_known_leader_kept") and m.on("last_known_leader"):
        emptied = (p.isr != then.isr) & then.isr.is_empty & p.leader.is_some
        last = then.last_known_leader.is_some & p.leader.is_(then.last_known_leader.value)
        kept.append(implies(emptied, last))
        changed = p.last_known_leader != then.last_known_leader
        kept.append(implies(changed, emptied | (then.leader.is_some & then.last_known_leader.is_none)))
    unclean = _uncleanly(m, before, after)
    recovering = then.leader_recovery_state == LeaderRecoveryState.RECOVERING
    begins = (p.leader_recovery_state != then.leader_recovery_state) & recovering
    kept.append(implies(begins, unclean))
    if m.on("unclean_election_recovers"):
        kept.append(implies(unclean, recovering))
    kept.append(implies(unclean & ~favours_availability(m, before), then.elr.is_empty))
    kept.append((then.last_known_elr - p.last_known_elr) <= p.elr)
    return all_of(kept)


@step_property("966.13", rule="unclean_recovery", needs="strategy_changes")
def nobody_is_recovered_under_none(m: Controller, before: State, after: State) -> Truth:
    """With unclean.recovery.strategy None the controller elects nobody from outside ISR and ELR: the operator does."""
    under_none = before.recovery_strategy == RecoveryStrategy.NONE
    return implies(
        under_none & _uncleanly(m, before, after), is_requested(m, before, after, *RecoveryRequest)
    )


@step_property("966.17", rule="unclean_recovery", needs="recovery_requests")
def designated_replicas_lead(m: Controller, before: State, after: State) -> Truth:
    """A DESIGNATION elects the replica that the operator named, and only where there was no leader."""
    designated = is_requested(m, before, after, RecoveryRequest.DESIGNATION)
    named = after.partition.leader.is_(after.requested.value.leader)
    return implies(designated, before.partition.leader.is_none & named)


@step_property("966.13, 966.14, 966.17", rule="unclean_recovery", needs="recovery_requests")
def no_better_log_is_passed_over(m: Controller, before: State, after: State) -> Truth:
    """Balanced loses no committed record that a member of ELR or last known ELR has, by itself or on request.

    A fenced member counts, too. A LONGEST_LOG_AGGRESSIVE election loses none that a live replica has. Either elects
    only where there was no leader, BALANCED a member of the last known ELR.
    """
    old, leader, complete = before.partition, after.partition.leader, before.complete
    by_log = is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_BALANCED)
    by_any_log = is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_AGGRESSIVE)
    by_itself = _uncleanly(m, before, after) & ~is_requested(m, before, after, *RecoveryRequest)
    balanced = by_log | (by_itself & ~favours_availability(m, before))
    remembered = (old.elr | old.last_known_elr) & complete
    there = m.assigned(old) & m.active(before) & complete
    kept = [
        implies(balanced, complete.has(leader) | remembered.is_empty),
        implies(by_any_log, complete.has(leader) | there.is_empty),
        implies(by_log | by_any_log, old.leader.is_none),
        implies(by_log, old.last_known_elr.has(leader)),
    ]
    return all_of(kept)


WATCHED = (
    nobody_is_recovered_under_none,
    designated_replicas_lead,
    no_better_log_is_passed_over,
    a_leader_that_may_lead_on_is_kept,
    nobody_is_passed_over,
    unclean_elections_are_allowed,
    nobody_is_elected_before_the_electable,
    the_last_known_leader_comes_to_lead,
    registrations_change_for_a_reason,
    what_an_operator_sets_is_his,
    reassignments_complete_when_they_can,
    reassignments_keep_what_they_found,
    what_is_remembered_is_true_of_a_partition,
)
