"""What the controller must be able to do: end reassignments early, elect uncleanly, and handle log directories."""

from __future__ import annotations

from highwater.invariants.replication.choices import favours_availability, is_requested
from highwater.model.language import State, reachable
from highwater.model.language.values import Truth
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.elections import electable
from highwater.model.replication.controller.types import RecoveryRequest, RecoveryStrategy


def _ends(before: State, after: State) -> Truth:
    """Whether a step ends a reassignment."""
    p, then = before.partition, after.partition
    going = ~p.adding.is_empty | ~p.removing.is_empty
    return going & then.adding.is_empty & then.removing.is_empty


@reachable("966.9")
def a_reassignment_completes_before_all_catch_up(m: Controller, before: State, after: State) -> Truth:
    """A reassignment that removes a replica completes while a replica that stays is outside the ISR."""
    p, then = before.partition, after.partition
    completes = _ends(before, after) & (m.assigned(then) == m.assigned(p) - p.removing)
    return completes & ~p.removing.is_empty & ~(m.assigned(then) <= then.isr)


@reachable("966.9")
def a_reassignment_that_only_removes_is_cancelled(m: Controller, before: State, after: State) -> Truth:
    """A reassignment that adds no replica ends, and the replica that it removes stays."""
    p, then = before.partition, after.partition
    return _ends(before, after) & p.adding.is_empty & (m.assigned(then) == m.assigned(p))


def _from_outside(m: Controller, before: State, after: State) -> Truth:
    """Whether a leaderless partition gets a leader from outside ISR and ELR while brokers and directories stay."""
    p, then = before.partition, after.partition
    elected = p.leader.is_none & then.leader.is_some & ~electable(p).has(then.leader)
    if m.on("offline_directory_check"):
        elected = elected & (p.offline == then.offline)
    return elected & (p.replicas == then.replicas) & (before.registrations == after.registrations)


@reachable("966.13, 966.14, 966.17")
def a_replica_is_elected_uncleanly_by_request(m: Controller, before: State, after: State) -> Truth:
    """An operator or a recovery elects a replica from outside ISR and ELR while unclean election is not enabled."""
    return _from_outside(m, before, after) & ~favours_availability(m, before)


@reachable("966.15, 966.16")
def the_controller_elects_uncleanly_by_itself(m: Controller, before: State, after: State) -> Truth:
    """The controller elects a replica from outside ISR and ELR, and no broker comes or goes."""
    return _from_outside(m, before, after) & favours_availability(m, before)


@reachable("966.16", rule="unclean_recovery")
def an_aggressive_recovery_ignores_the_elr(m: Controller, before: State, after: State) -> Truth:
    """An Aggressive recovery elects a replica from outside ISR and ELR while the ELR has members."""
    outside = _from_outside(m, before, after) & favours_availability(m, before)
    return outside & ~before.partition.elr.is_empty


@reachable("966.13", rule="unclean_recovery", needs="strategy_changes")
def the_strategy_becomes_aggressive(m: Controller, before: State, after: State) -> Truth:
    """An operator sets unclean.recovery.strategy to Aggressive."""
    was, is_ = (s.recovery_strategy == RecoveryStrategy.AGGRESSIVE for s in (before, after))
    return ~was & is_


@reachable("966.17", rule="unclean_recovery", needs="recovery_requests")
def an_operator_designates_a_leader(m: Controller, before: State, after: State) -> Truth:
    """An operator designates a leader."""
    return is_requested(m, before, after, RecoveryRequest.DESIGNATION)


@reachable("966.17", rule="unclean_recovery", needs="recovery_requests")
def a_balanced_request_elects_a_leader(m: Controller, before: State, after: State) -> Truth:
    """An operator's LONGEST_LOG_BALANCED election elects a replica."""
    return is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_BALANCED)


@reachable("966.17", rule="unclean_recovery", needs="recovery_requests")
def an_aggressive_request_ignores_a_complete_log(m: Controller, before: State, after: State) -> Truth:
    """A LONGEST_LOG_AGGRESSIVE election elects an incomplete replica while a fenced replica is complete."""
    by_any_log = is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_AGGRESSIVE)
    return by_any_log & ~before.complete.is_empty & ~before.complete.has(after.partition.leader)


@reachable("966.12", needs="harmless_crashes")
def a_last_known_member_is_complete(m: Controller, s: State) -> Truth:
    """A member of the last known ELR has every committed record, and is in neither ISR nor ELR."""
    return ~((s.partition.last_known_elr - electable(s.partition)) & s.complete).is_empty


@reachable("858.1", rule="offline_directory_check")
def a_log_directory_fails(m: Controller, before: State, after: State) -> Truth:
    """The log directory of a replica fails."""
    return ~(after.partition.offline - before.partition.offline).is_empty


@reachable("858.1", rule="offline_directory_check")
def an_assignment_advances_the_partition_epoch(m: Controller, before: State, after: State) -> Truth:
    """The partition epoch advances while no field changes but the directories of replicas."""
    p, then = before.partition, after.partition
    same = p.replace(partition_epoch=then.partition_epoch) == then
    return (p.partition_epoch != then.partition_epoch) & same


REACHABLE = (
    a_reassignment_completes_before_all_catch_up,
    a_reassignment_that_only_removes_is_cancelled,
    a_replica_is_elected_uncleanly_by_request,
    the_controller_elects_uncleanly_by_itself,
    an_aggressive_recovery_ignores_the_elr,
    the_strategy_becomes_aggressive,
    an_operator_designates_a_leader,
    a_balanced_request_elects_a_leader,
    an_aggressive_request_ignores_a_complete_log,
    a_last_known_member_is_complete,
    a_log_directory_fails,
    an_assignment_advances_the_partition_epoch,
)
