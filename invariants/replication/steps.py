"""Properties of every step of the controller: epochs, members of ISR and ELR, elections, reassignments."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.model.language import (
    Number,
    SetValue,
    State,
    StructValue,
    Truth,
    all_of,
    any_of,
    as_bool,
    implies,
    least,
    size,
    step_property,
    where,
)
from highwater.model.language.containers import members_of
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.elections import electable, is_clean
from highwater.model.replication.controller.types import (
    LeaderRecoveryState,
    RecoveryRequest,
    RecoveryStrategy,
)

# --- the operator's choices -----------------------------------------------------------------------------------


def favours_availability(m: Controller, s: State) -> Truth:
    """966.13, 966.16. True if the recovery strategy is Aggressive.

    If the model has no strategy setting, unclean.leader.election.enable decides.
    """
    if m.has_strategy:
        chosen: Truth = s.recovery_strategy == RecoveryStrategy.AGGRESSIVE
        return chosen
    return as_bool(s.unclean_election)


def is_requested(m: Controller, before: State, after: State, *kinds: Number) -> Truth:
    """966.17. True if the step carries out an operator's election request of one of the types ``kinds``."""
    if not m.p.recovery_requests:
        return as_bool(False)
    of_kind = any_of(after.requested.value.kind == kind for kind in kinds)
    decided = (before.partition != after.partition) | (before.requested != after.requested)
    return after.requested.is_some & decided & of_kind


def is_risked(m: Controller, before: State, after: State) -> Truth:
    """966.17. True if the step is a requested election that may lose committed records."""
    risky = RecoveryRequest.DESIGNATION, RecoveryRequest.LONGEST_LOG_AGGRESSIVE
    return is_requested(m, before, after, *risky)


# --- min ISR --------------------------------------------------------------------------------------------------


def min_isr_of(s: State) -> Number:
    """966.2. min(min.insync.replicas, replication factor); a reassignment's added and removed replicas count."""
    return least(s.min_insync_replicas, s.partition.replicas.length)


def _controllers_min_isr(s: State) -> Number:
    """966.2. The min ISR by which the controller decides; Kafka counts the replicas of the topic's first partition."""
    first = s.first_partition_replicas
    return where(first > 0, least(s.min_insync_replicas, first), min_isr_of(s))


# --- epochs, ISR and ELR --------------------------------------------------------------------------------------


@step_property("B8")
def leader_epoch_never_falls(m: Controller, before: State, after: State) -> Truth:
    """The leader epoch never decreases: a replica that knows a higher epoch would refuse the leader forever."""
    return before.partition.leader_epoch <= after.partition.leader_epoch


@step_property("B8")
def leader_change_ends_the_leader_epoch(m: Controller, before: State, after: State) -> Truth:
    """A change of the leader, or its loss, starts the next leader epoch: no leader epoch has two leaders."""
    old, new = before.partition, after.partition
    return implies(new.leader != old.leader, new.leader_epoch == old.leader_epoch + 1)


@step_property("B8")
def partition_change_is_counted(m: Controller, before: State, after: State) -> Truth:
    """A change of a partition increases its partition epoch by one; no step increases it by more.

    The controller recognizes a stale AlterPartition by its partition epoch. A new log directory of a replica increases
    the epoch, too.
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
    """A change of the ELR alone increases the partition epoch and does not end the leader epoch."""
    old, new = before.partition, after.partition
    alone = (old.leader == new.leader) & (old.isr == new.isr) & (old.replicas == new.replicas)
    counted = (new.leader_epoch == old.leader_epoch) & (new.partition_epoch > old.partition_epoch)
    return implies(alone & (old.elr != new.elr), counted)


@step_property("966.11", rule="last_known_leader_kept")
def last_known_leader_stays_until_an_election(m: Controller, before: State, after: State) -> Truth:
    """A partition that stays without a leader keeps its last known leader.

    A step may clear it only if ELR and last known ELR are then empty, too.
    """
    old, new = before.partition, after.partition
    nobody = old.leader.is_none & new.leader.is_none
    cleared = new.elr.is_empty & new.last_known_elr.is_empty & new.last_known_leader.is_none
    stays = new.last_known_leader == old.last_known_leader
    return implies(old.last_known_leader.is_some & nobody, stays | cleared)


@step_property("966.9", rule="reassignment_needs_min_isr")
def completed_reassignments_leave_min_isr_members(m: Controller, before: State, after: State) -> Truth:
    """After a reassignment that removed replicas, the ISR has min.insync.replicas members or every replica.

    The replicas that the reassignment added, and did not remove again, are in the ISR, too.
    """
    old, new = before.partition, after.partition
    was, left = members_of(old.replicas, m.t.brokers), members_of(new.replicas, m.t.brokers)
    ended = ~(old.adding | old.removing).is_empty & (new.adding | new.removing).is_empty
    completed = ended & (left == was - old.removing)
    enough = (size(new.isr) >= after.min_insync_replicas) | (left <= new.isr)
    return implies(completed & ~old.removing.is_empty, enough & (left & old.adding <= new.isr))


@step_property("B8")
def broker_epochs_never_fall(m: Controller, before: State, after: State) -> Truth:
    """A broker epoch never decreases. It increases only when the broker registers, which leaves the broker fenced."""
    return all_of(
        (after.registrations[b].epoch == before.registrations[b].epoch)
        | ((after.registrations[b].epoch > before.registrations[b].epoch) & after.registrations[b].fenced)
        for b in m.broker
    )


@step_property("B8")
def removed_replica_ends_the_leader_epoch(m: Controller, before: State, after: State) -> Truth:
    """If a replica leaves the partition, the leader epoch ends, so that the replica's later fetches are refused."""
    gone = m.assigned(before.partition) - m.assigned(after.partition)
    return implies(~gone.is_empty, after.partition.leader_epoch == before.partition.leader_epoch + 1)


@step_property("841.2, 903.4")
def only_active_brokers_join_the_isr(m: Controller, before: State, after: State) -> Truth:
    """A broker joins the ISR only if it is a replica, unfenced and not shutting down after the step."""
    joining = after.partition.isr - before.partition.isr
    return implies(~joining.is_empty, (joining <= m.active(after)) & (joining <= m.assigned(after.partition)))


@step_property("966.6")
def only_isr_members_join_the_elr(m: Controller, before: State, after: State) -> Truth:
    """Only ISR members join the ELR, because only they are known to hold all committed records."""
    joining = after.partition.elr - before.partition.elr
    return implies(~joining.is_empty, joining <= before.partition.isr)


@step_property("966.10")
def only_elr_members_join_the_last_known_elr(m: Controller, before: State, after: State) -> Truth:
    """Only ELR members join the last known ELR."""
    joining = after.partition.last_known_elr - before.partition.last_known_elr
    return implies(~joining.is_empty, joining <= before.partition.elr)


@step_property("966.10", rule="last_known_elr")
def last_known_elr_members_stay_until_min_isr(m: Controller, before: State, after: State) -> Truth:
    """A last known ELR member stays one, even in the ISR, until the ISR has min ISR members; then all leave together.

    Exceptions: the ELR is turned off, or an operator's change clears ELR, last known ELR and last known leader. If a
    reassignment changes min ISR, the lesser value counts.
    """
    p, then = before.partition, after.partition
    on = m.elr_is_on(before) & _same_level(m, before, after) & ~_cleared(m, before, after)
    under = size(then.isr) < least(_controllers_min_isr(before), _controllers_min_isr(after))
    return implies(on & under, p.last_known_elr <= then.last_known_elr)


@step_property("966.10, 966.14")
def recovery_quorum_keeps_min_isr_members(m: Controller, before: State, after: State) -> Truth:
    """ISR, ELR and last known ELR together never fall below min ISR, unless an ISR member registers uncleanly.

    A Balanced recovery waits for the members of these sets. Operator choices are exempt: a change of min ISR or
    replicas, the strategy Aggressive, and a risky election request. Without unclean recovery any election from outside
    ISR and ELR is exempt, too. An ISR member that loses its log and registers before it is fenced leaves the ISR, and
    is put into no other set: 966.10 covers ELR members only.
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


# --- elections ------------------------------------------------------------------------------------------------


def _offline(m: Controller, partition: StructValue) -> SetValue:
    """The replicas whose log directory is offline; empty if no rule considers directories."""
    return partition.offline if m.on("offline_directory_check") else m.t.brokers.zero()


def _able(m: Controller, s: State) -> SetValue:
    """The replicas that may lead: active, with a log directory that is not offline."""
    return m.assigned(s.partition) & m.active(s) - _offline(m, s.partition)


def _registers(before: State, after: State, broker: Number) -> Truth:
    return before.registrations[broker].epoch != after.registrations[broker].epoch


def _same_level(m: Controller, before: State, after: State) -> Truth:
    return before.elr_on == after.elr_on if m.p.elr_changes else as_bool(True)


def _cleared(m: Controller, before: State, after: State) -> Truth:
    """True if a step empties ELR, last known ELR and last known leader, and changes no other field but the epoch."""
    p, nobody = before.partition, m.t.brokers.zero()
    emptied = p.replace(elr=nobody, last_known_elr=nobody, last_known_leader=None)
    return after.partition == emptied.replace(partition_epoch=after.partition.partition_epoch)


def _uncleanly(m: Controller, before: State, after: State) -> Truth:
    """True if the step elects a leader from outside ISR and ELR while the replica list stays the same."""
    old, new = before.partition, after.partition
    elected = new.leader.is_some & (old.leader != new.leader) & ~electable(old).has(new.leader)
    return elected & (old.replicas == new.replicas)


@step_property("966.13, 966.14, 966.15")
def electable_replicas_are_elected_first(m: Controller, before: State, after: State) -> Truth:
    """While ISR or ELR has a member, no other replica is elected, unless an operator allows or requests it.

    A broker that registers in the step does not count as a member, because it may have lost its log. A Balanced
    recovery also waits until every last known ELR member is live. LONGEST_LOG_BALANCED elects a live member and need
    not wait.
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
        )  # if no registration changes, an operator requested the election
    return implies(_uncleanly(m, before, after) & ~favours_availability(m, before), awaited)


@step_property("966.15", rule="last_known_leader_unfenced")
def last_known_leaders_lead_once_active(m: Controller, before: State, after: State) -> Truth:
    """If ISR and ELR are empty, a leader is elected in the step in which the last known leader becomes active."""
    if m.on("unclean_recovery") or not m.on("election_on_unfencing"):
        return as_bool(True)
    old, new = before.partition, after.partition
    able = m.active(after) & m.assigned(old)
    waits = old.leader.is_none & electable(old).is_empty & old.last_known_leader.is_some
    returns = waits & (able - m.active(before)).has(old.last_known_leader.value)
    return implies(returns & (old.replicas == new.replicas), new.leader.is_some)


@step_property("966.13", rule="unclean_recovery", needs="strategy_changes")
def strategy_none_recovers_no_replica(m: Controller, before: State, after: State) -> Truth:
    """With unclean.recovery.strategy None, only the operator elects a leader from outside ISR and ELR."""
    under_none = before.recovery_strategy == RecoveryStrategy.NONE
    return implies(
        under_none & _uncleanly(m, before, after), is_requested(m, before, after, *RecoveryRequest)
    )


@step_property("966.17", rule="unclean_recovery", needs="recovery_requests")
def designated_replicas_lead(m: Controller, before: State, after: State) -> Truth:
    """A DESIGNATION elects the replica that the operator named, and only in a partition without a leader."""
    designated = is_requested(m, before, after, RecoveryRequest.DESIGNATION)
    named = after.partition.leader.is_(after.requested.value.leader)
    return implies(designated, before.partition.leader.is_none & named)


@step_property("966.13, 966.14, 966.17", rule="unclean_recovery", needs="recovery_requests")
def recoveries_elect_complete_replicas(m: Controller, before: State, after: State) -> Iterator[Truth]:
    """A Balanced recovery, also on request, loses no committed record that a member of ELR or last known ELR has.

    This includes fenced members. LONGEST_LOG_AGGRESSIVE loses no committed record that a live replica has. The request
    LONGEST_LOG_BALANCED elects a member of the last known ELR. Both requests elect only in a partition without a
    leader.
    """
    old, leader, complete = before.partition, after.partition.leader, before.complete
    by_log = is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_BALANCED)
    by_any_log = is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_AGGRESSIVE)
    by_itself = _uncleanly(m, before, after) & ~is_requested(m, before, after, *RecoveryRequest)
    balanced = by_log | (by_itself & ~favours_availability(m, before))
    remembered = (old.elr | old.last_known_elr) & complete
    there = m.assigned(old) & m.active(before) & complete
    yield implies(balanced, complete.has(leader) | remembered.is_empty)
    yield implies(by_any_log, complete.has(leader) | there.is_empty)
    yield implies(by_log | by_any_log, old.leader.is_none)
    yield implies(by_log, old.last_known_elr.has(leader))


@step_property("966.15, 966.16")
def unclean_elections_do_not_wait(m: Controller, before: State, after: State) -> Truth:
    """With unclean election enabled, a partition loses its leader only if no replica may lead.

    A partition without a leader gets one in the step in which a replica becomes active.
    """
    if m.on("unclean_recovery"):
        return as_bool(True)
    p, then = before.partition, after.partition
    able = _able(m, after)
    back = able - m.active(before)
    lost = p.leader.is_some & then.leader.is_none
    waits = p.leader.is_none & then.leader.is_none
    kept = implies(lost, able.is_empty) & implies(waits, back.is_empty)
    return implies(before.unclean_election, kept)


@step_property("966.9, 966.14, 966.15, 966.16")
def leaders_from_outside_are_allowed(m: Controller, before: State, after: State) -> Truth:
    """A leader from outside ISR and ELR needs unclean election enabled, a request, or a recovery.

    There are two exceptions: the last known leader, and a member of a proposed ISR that completes a reassignment. A
    requested or cancelled reassignment itself never elects such a leader.
    """
    p, then = before.partition, after.partition
    outside = then.leader.is_some & (p.leader != then.leader) & ~electable(p).has(then.leader)
    last = p.last_known_leader.is_some & then.leader.is_(p.last_known_leader.value)
    on_request = (
        p.leader.is_none & (p.replicas == then.replicas) & (before.registrations == after.registrations)
    )
    on_request = on_request & (m.p.elections_on_request or m.on("unclean_recovery"))
    proposed = p.leader.is_some & then.isr.has(then.leader) & (before.registrations == after.registrations)
    proposed = proposed & ~p.removing.is_empty & (m.assigned(then) == m.assigned(p) - p.removing)
    return implies(outside & ~favours_availability(m, before), last | on_request | proposed)


@step_property("966.4, K10", rule="eligible_leader_replicas")
def members_that_leave_the_isr_stay_eligible(m: Controller, before: State, after: State) -> Iterator[Truth]:
    """If the ISR is under min ISR after a member leaves, the member enters the ELR, except when its broker registers.

    If the ISR has at least min ISR members, the ELR is empty. A member leaves the ELR only when it joins the ISR, when
    its broker registers, when replicas or configuration change, or at an unclean election. With K16 the assignment to a
    log directory also removes members.
    """
    p, then = before.partition, after.partition
    on = m.elr_is_on(before) & _same_level(m, before, after)
    was, now = _controllers_min_isr(before), _controllers_min_isr(after)
    under = (size(then.isr) < was) & (size(then.isr) < now)
    uncleanly = then.leader.is_some & (p.leader != then.leader) & ~electable(p).has(then.leader)
    registered = m.t.brokers.of(lambda b: _registers(before, after, b))
    settled = (before.min_insync_replicas == after.min_insync_replicas) & ~uncleanly
    staying = m.assigned(then) - registered
    left = (p.isr - then.isr) & staying
    yield implies(on & under & settled, left <= then.elr)
    if not (m.p.directories and m.on("assignment_empties_elr")):
        gone = (p.elr - electable(then)) & staying
        yield implies(on & under & settled & ~_cleared(m, before, after), gone.is_empty)
    reached = (size(then.isr) >= was) & (size(then.isr) >= now) & (p.isr != then.isr)
    if not m.on("elr_follows_election"):
        reached = reached & (p.leader == then.leader)
    yield implies(on & reached, then.elr.is_empty)


@step_property("B8, 858.1")
def active_leaders_stay_in_the_isr(m: Controller, before: State, after: State) -> Truth:
    """A leader that stays a replica stays in the ISR while its broker is active and its log directory online."""
    p, then = before.partition, after.partition
    removed = p.leader.is_some & p.isr.has(p.leader) & ~then.isr.has(p.leader)
    return implies(removed, ~_able(m, after).has(p.leader))


@step_property("K7", rule="min_isr_change_clears_elr")
def min_isr_changes_clear_the_elr(m: Controller, before: State, after: State) -> Truth:
    """If the ELR is on, a change of min.insync.replicas leaves ELR, last known ELR and last known leader empty."""
    then = after.partition
    nobody = then.elr.is_empty & then.last_known_elr.is_empty & then.last_known_leader.is_none
    changed = before.min_insync_replicas != after.min_insync_replicas
    return implies(changed & m.elr_is_on(before), nobody)


# --- reassignments, and the last known leader -----------------------------------------------------------------


@step_property("966.9")
def reassignments_complete_when_they_can(m: Controller, before: State, after: State) -> Iterator[Truth]:
    """A reassignment completes in the first step in which all added replicas and enough members are in the ISR.

    The removed replicas then leave the replica list, the ISR and the ELR. Only an operator changes the target.
    """
    p, then = before.partition, after.partition
    old, new = m.assigned(p), m.assigned(then)
    going, goes = p.adding | p.removing, then.adding | then.removing
    ended = ~going.is_empty & goes.is_empty
    completed = (new == old - p.removing) & ((p.adding - p.removing) <= then.isr) & then.adding.is_empty
    fewer = least(m.controllers_min_isr(before), then.replicas.length)
    by_itself = (p.replicas != then.replicas) & ended & (new == old - p.removing) & (new != old - p.adding)
    yield implies(by_itself, completed & (size(then.isr) >= fewer))
    yield implies(p.replicas != then.replicas, (then.isr <= new) & (then.elr <= new))
    yield implies((p != then) & ~goes.is_empty, goes <= new)
    left, staying = then.isr - then.removing, new - then.removing
    able = ((then.adding - then.removing) <= left) & ~left.is_empty
    able = able & (size(left) >= least(m.controllers_min_isr(after), size(staying)))
    goes_on = (p.isr != then.isr) & (p.replicas == then.replicas) & ~goes.is_empty
    by_proposal = (p.leader == then.leader) & then.leader.is_some
    yield implies(goes_on & by_proposal, ~able)


@step_property("966.9", rule="reassignment_needs_min_isr")
def cancelled_reassignments_leave_min_isr_members(m: Controller, before: State, after: State) -> Truth:
    """A cancellation removes the adding replicas from the ISR, and leaves at least min ISR members in it.

    A cancellation may change the replication factor: a reassignment that replaced an earlier one can add fewer replicas
    than it removes.
    """
    p, then = before.partition, after.partition
    going = ~p.adding.is_empty | ~p.removing.is_empty
    over = going & then.adding.is_empty & then.removing.is_empty
    cancelled = over & (then.replicas == p.replicas.filter(lambda r: ~p.adding.has(r)))
    completed = m.assigned(then) == m.assigned(p) - p.removing
    enough = size(then.isr) >= least(m.controllers_min_isr(after), size(m.assigned(then)))
    return implies(cancelled & ~completed, (then.isr == p.isr - p.adding) & enough)


@step_property("966.11, 966.15, 704.1, 704.2")
def partitions_remember_their_last_leader(m: Controller, before: State, after: State) -> Iterator[Truth]:
    """The last known leader is the broker that led when the ISR became empty, until another leader is elected.

    A leader becomes RECOVERING if and only if it was elected from outside ISR and ELR. After such an election the ELR
    is empty, unless the strategy is Aggressive or unclean election is enabled.
    """
    p, then = before.partition, after.partition
    if m.on("last_known_leader_kept") and m.on("last_known_leader"):
        emptied = (p.isr != then.isr) & then.isr.is_empty & p.leader.is_some
        last = then.last_known_leader.is_some & p.leader.is_(then.last_known_leader.value)
        yield implies(emptied, last)
        changed = p.last_known_leader != then.last_known_leader
        yield implies(changed, emptied | (then.leader.is_some & then.last_known_leader.is_none))
    unclean = _uncleanly(m, before, after)
    recovering = then.leader_recovery_state == LeaderRecoveryState.RECOVERING
    begins = (p.leader_recovery_state != then.leader_recovery_state) & recovering
    yield implies(begins, unclean)
    if m.on("unclean_election_recovers"):
        yield implies(unclean, recovering)
    yield implies(unclean & ~favours_availability(m, before), then.elr.is_empty)


OF_EPOCHS = (
    leader_epoch_never_falls,
    leader_change_ends_the_leader_epoch,
    partition_change_is_counted,
    elr_changes_keep_the_leader_epoch,
    last_known_leader_stays_until_an_election,
    completed_reassignments_leave_min_isr_members,
    broker_epochs_never_fall,
)
"""The properties that the message-level protocol checks as well."""
