"""What the controller allows, denied: each is violated, as a reassignment waits for min ISR and no more."""

from __future__ import annotations

from highwater.invariants.replication.choices import favours_availability, is_requested
from highwater.model.language import State, implies
from highwater.model.language.step_properties import step_property
from highwater.model.language.values import Truth
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.elections import electable
from highwater.model.replication.controller.types import RecoveryRequest, RecoveryStrategy


def _ends(before: State, after: State) -> Truth:
    """Whether a step ends a reassignment."""
    p, then = before.partition, after.partition
    going = ~p.adding.is_empty | ~p.removing.is_empty
    return going & then.adding.is_empty & then.removing.is_empty


@step_property("966.9")
def nothing_completes_before_all_have_caught_up(m: Controller, before: State, after: State) -> Truth:
    """A reassignment completes only when everyone who is to stay is in the ISR."""
    p, then = before.partition, after.partition
    completes = _ends(before, after) & (m.assigned(then) == m.assigned(p) - p.removing)
    return ~(completes & ~p.removing.is_empty & ~(m.assigned(then) <= then.isr))


@step_property("966.9")
def nothing_is_cancelled_that_only_removes(m: Controller, before: State, after: State) -> Truth:
    """A reassignment by which somebody goes and nobody comes ends only as that one is gone."""
    p, then = before.partition, after.partition
    return ~(_ends(before, after) & p.adding.is_empty & (m.assigned(then) == m.assigned(p)))


def _from_outside(m: Controller, before: State, after: State) -> Truth:
    """Whether a leaderless partition gets a leader from outside ISR and ELR while brokers and directories stay."""
    p, then = before.partition, after.partition
    elected = p.leader.is_none & then.leader.is_some & ~electable(p).has(then.leader)
    if m.on("offline_directory_check"):
        elected = elected & (p.offline == then.offline)
    return elected & (p.replicas == then.replicas) & (before.registrations == after.registrations)


@step_property("966.13, 966.14, 966.17")
def nobody_is_elected_uncleanly_by_request(m: Controller, before: State, after: State) -> Truth:
    """Where unclean election is not enabled, no one from outside ISR and ELR leads by an operator or by a recovery."""
    return ~(_from_outside(m, before, after) & ~favours_availability(m, before))


@step_property("966.15, 966.16")
def nobody_is_elected_by_the_controller_alone(m: Controller, before: State, after: State) -> Truth:
    """Where unclean election is enabled, a partition without a leader waits for a broker that comes or goes."""
    return ~(_from_outside(m, before, after) & favours_availability(m, before))


@step_property("966.16", rule="unclean_recovery")
def nobody_is_recovered_while_others_are_eligible(m: Controller, before: State, after: State) -> Truth:
    """An Aggressive recovery, too, waits for who is in the ELR."""
    return ~(
        _from_outside(m, before, after) & favours_availability(m, before) & ~before.partition.elr.is_empty
    )


@step_property("966.13", rule="unclean_recovery", needs="strategy_changes")
def no_strategy_becomes_aggressive(m: Controller, before: State, after: State) -> Truth:
    """No operator sets unclean.recovery.strategy to Aggressive."""
    was, is_ = (s.recovery_strategy == RecoveryStrategy.AGGRESSIVE for s in (before, after))
    return was | ~is_


@step_property("966.17", rule="unclean_recovery", needs="recovery_requests")
def no_replica_is_designated(m: Controller, before: State, after: State) -> Truth:
    """No operator designates a leader."""
    return ~is_requested(m, before, after, RecoveryRequest.DESIGNATION)


@step_property("966.17", rule="unclean_recovery", needs="recovery_requests")
def no_balanced_log_is_elected(m: Controller, before: State, after: State) -> Truth:
    """No operator's LONGEST_LOG_BALANCED election elects a replica."""
    return ~is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_BALANCED)


@step_property("966.17", rule="unclean_recovery", needs="recovery_requests")
def no_log_wins_over_a_fenced_one(m: Controller, before: State, after: State) -> Truth:
    """A LONGEST_LOG_AGGRESSIVE election waits for a fenced replica that has everything."""
    by_any_log = is_requested(m, before, after, RecoveryRequest.LONGEST_LOG_AGGRESSIVE)
    waits = before.complete.is_empty | before.complete.has(after.partition.leader)
    return implies(by_any_log, waits)


@step_property("966.12", needs="harmless_crashes")
def whoever_is_last_known_lost_its_log(m: Controller, before: State, after: State) -> Truth:
    """No member of the last known ELR has every committed record, unless it is in ISR or ELR again."""
    then = after.partition
    return ((then.last_known_elr - electable(then)) & after.complete).is_empty


@step_property("858.1", rule="offline_directory_check")
def no_directory_is_lost(m: Controller, before: State, after: State) -> Truth:
    """No replica's log directory fails."""
    return (after.partition.offline - before.partition.offline).is_empty


@step_property("858.1", rule="offline_directory_check")
def no_assignment_is_a_change(m: Controller, before: State, after: State) -> Truth:
    """What changes nothing of a partition but the directories of its replicas is not counted in its partition epoch."""
    p, then = before.partition, after.partition
    return (p.partition_epoch == then.partition_epoch) | (
        p.replace(partition_epoch=then.partition_epoch) != then
    )


DENIALS = (
    nothing_completes_before_all_have_caught_up,
    nothing_is_cancelled_that_only_removes,
    nobody_is_elected_uncleanly_by_request,
    nobody_is_elected_by_the_controller_alone,
    nobody_is_recovered_while_others_are_eligible,
    no_strategy_becomes_aggressive,
    no_replica_is_designated,
    no_balanced_log_is_elected,
    no_log_wins_over_a_fenced_one,
    whoever_is_last_known_lost_its_log,
    no_directory_is_lost,
    no_assignment_is_a_change,
)
