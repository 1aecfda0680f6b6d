"""What must hold of a partition in the eyes of the controller, in every state that its decisions lead to."""

from __future__ import annotations

from highwater.invariants import statements
from highwater.invariants.replication.controller_liveness import LIVENESS
from highwater.invariants.replication.controller_reachable import REACHABLE
from highwater.invariants.replication.controller_steps import WATCHED as OF_BOOKS
from highwater.invariants.replication.election_steps import WATCHED as OF_ELECTIONS
from highwater.invariants.replication.steps import STEP_PROPERTIES
from highwater.model.language import State, all_of, implies, invariant, size
from highwater.model.language.values import Truth, as_bool
from highwater.model.replication.controller import Controller, outlook
from highwater.model.replication.controller.elections import electable
from highwater.model.replication.controller.types import LeaderRecoveryState


@statements.isr_within_replicas.seen()
def isr_within_replicas(m: Controller, s: State) -> Truth:
    """Of the one partition."""
    return statements.isr_within_replicas(s.partition, m.assigned(s.partition))


@invariant("B8")
def leader_in_isr(m: Controller, s: State) -> Truth:
    """The leader is in the ISR: it acknowledges what its log holds."""
    return implies(s.partition.leader.is_some, s.partition.isr.has(s.partition.leader))


@invariant("B8, 841.5")
def leader_is_active(m: Controller, s: State) -> Truth:
    """No fenced and no shutting-down broker leads: nobody could write, and nobody else is elected."""
    return implies(s.partition.leader.is_some, m.active(s).has(s.partition.leader))


@statements.isr_members_are_eligible.seen("841.2")
def isr_members_are_eligible(m: Controller, s: State) -> Truth:
    """By the registrations."""
    return statements.isr_members_are_eligible(s.partition, m.active(s))


@statements.isr_and_elr_are_disjoint.seen()
def isr_and_elr_are_disjoint(m: Controller, s: State) -> Truth:
    """Of the one partition."""
    return statements.isr_and_elr_are_disjoint(s.partition)


@statements.elr_only_under_min_isr.seen()
def elr_only_under_min_isr(m: Controller, s: State) -> Truth:
    """Of the one partition."""
    return statements.elr_only_under_min_isr(outlook.promised(m, s), m.min_isr(s))


@statements.elr_within_replicas.seen()
def elr_within_replicas(m: Controller, s: State) -> Truth:
    """Of the one partition."""
    return statements.elr_within_replicas(outlook.promised(m, s), m.assigned(s.partition))


@statements.electable_completeness.seen()
def electable_completeness(m: Controller, s: State) -> Truth:
    """By what is known without the logs.

    That is who was in the ISR while the HWM could advance, and has not lost its log since.
    """
    can_be_elected = electable(outlook.promised(m, s))
    if m.p.elr_changes:
        return implies(m.elr_is_on(s), can_be_elected <= s.complete)
    return statements.electable_completeness(~can_be_elected.is_empty, can_be_elected <= s.complete)


@statements.enough_are_electable.seen()
def enough_are_electable(m: Controller, s: State) -> Truth:
    """What excuses is kept in the state: ``diminished``."""
    return implies(~s.diminished, statements.enough_are_electable(electable(s.partition), m.min_isr(s)))


@invariant("966.10")
def last_known_elr_is_not_electable(m: Controller, s: State) -> Truth:
    """The last known ELR is remembered only while the ISR is under min ISR."""
    return implies(~s.partition.last_known_elr.is_empty, size(s.partition.isr) < m.min_isr(s))


@invariant("966.11")
def last_known_leader_only_without_leader(m: Controller, s: State) -> Truth:
    """The last known leader is remembered only while there is none."""
    return implies(s.partition.last_known_leader.is_some, s.partition.leader.is_none)


@invariant("966.11")
def last_known_leader_is_a_broker(m: Controller, s: State) -> Truth:
    """What is remembered as the last known leader is a broker, so that it can be elected."""
    known = s.partition.last_known_leader
    return implies(known.is_some, known.value >= 0)


@invariant("966.9")
def reassignment_within_replicas(m: Controller, s: State) -> Truth:
    """Adding and removing replicas are replicas as long as the reassignment goes on."""
    p = s.partition
    going_on = ~p.adding.is_empty | ~p.removing.is_empty
    return implies(going_on, (p.adding | p.removing) <= m.assigned(p))


@invariant("B8")
def leader_epoch_behind_partition_epoch(m: Controller, s: State) -> Truth:
    """A leader change is a partition change: the partition epoch is never behind the leader epoch."""
    return s.partition.leader_epoch <= s.partition.partition_epoch


@invariant("704.2")
def recovering_leader_is_alone(m: Controller, s: State) -> Truth:
    """While a leader recovers from an unclean election, nobody else is in the ISR."""
    recovering = s.partition.leader_recovery_state == LeaderRecoveryState.RECOVERING
    return implies(recovering, size(s.partition.isr) <= 1)


@statements.leader_completeness.seen("966.6", rule="leftover_elr_elects")
def leader_completeness(m: Controller, s: State) -> Truth:
    """While ELR is on, however often it was off before.

    A leader that was elected uncleanly starts anew: what it holds is what is committed.
    """
    leads = m.elr_is_on(s) & s.partition.leader.is_some
    return statements.leader_completeness(leads, s.complete.has(s.partition.leader))


@invariant("B8", rule="unassigned_candidate_fails")
def every_broker_comes_back(m: Controller, s: State) -> Truth:
    """Every broker can be fenced, register and be unfenced: no partition makes the controller fail at that.

    Else the controller resigns whenever it tries, and so does the next one.
    """
    return all_of(implies(s.registrations[b].registered, outlook.comes_back(m, s, b)) for b in m.t.broker)


@invariant("B8", rule="unassigned_candidate_fails")
def the_controller_goes_on(m: Controller, s: State) -> Truth:
    """Neither what a leader asks for again and again nor a task of the controller's own makes the controller fail."""
    return outlook.goes_on(m, s)


@invariant("B8, 966.13", rule="unassigned_candidate_fails")
def leaders_change_for_a_reason(m: Controller, s: State) -> Truth:
    """No leader that could lead on was replaced unasked, and nobody was passed over who holds what is committed."""
    return ~s.needless if m.p.judged_elections else as_bool(True)


@invariant("B8", rule="cleared_elr_stays_indexed")
def elr_members_are_indexed(m: Controller, s: State) -> Truth:
    """Every ELR member has an entry in the controller's index: a controller that takes out what is not there stops."""
    return all_of(implies(s.partition.elr.has(b), s.elr_entries[b] > 0) for b in m.t.broker)


INVARIANTS = (
    isr_within_replicas,
    leader_in_isr,
    leader_is_active,
    isr_members_are_eligible,
    isr_and_elr_are_disjoint,
    elr_only_under_min_isr,
    elr_within_replicas,
    electable_completeness,
    enough_are_electable,
    last_known_elr_is_not_electable,
    last_known_leader_only_without_leader,
    last_known_leader_is_a_broker,
    reassignment_within_replicas,
    leader_epoch_behind_partition_epoch,
    recovering_leader_is_alone,
    leader_completeness,
    every_broker_comes_back,
    the_controller_goes_on,
    leaders_change_for_a_reason,
    elr_members_are_indexed,
)

EXPLORED = (
    leader_completeness,
    the_controller_goes_on,
    leaders_change_for_a_reason,
    elr_members_are_indexed,
)
"""Of these, what only an exploration is asked: ``observed.leader_completeness`` is asked of an observed partition."""

WATCHED = (*OF_ELECTIONS, *OF_BOOKS)

__all__ = ["EXPLORED", "INVARIANTS", "LIVENESS", "REACHABLE", "STEP_PROPERTIES", "WATCHED"]
