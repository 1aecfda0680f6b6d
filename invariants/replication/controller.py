"""What must hold of a partition in the eyes of the controller, in every state that its decisions lead to."""

from __future__ import annotations

from highwater.invariants.replication.controller_liveness import LIVENESS
from highwater.model.language import State, all_of, implies, invariant, size
from highwater.model.language.values import Truth
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import LeaderRecoveryState


@invariant("B8")
def isr_within_replicas(m: Controller, s: State) -> Truth:
    """The ISR is made of replicas of the partition: only they have the log."""
    return s.partition.isr <= m.assigned(s.partition)


@invariant("B8")
def leader_in_isr(m: Controller, s: State) -> Truth:
    """The leader is in the ISR: it acknowledges what its log holds."""
    return implies(s.partition.leader.is_some, s.partition.isr.has(s.partition.leader))


@invariant("B8, 841.5")
def leader_is_active(m: Controller, s: State) -> Truth:
    """No fenced and no shutting-down broker leads: nobody could write, and nobody else is elected."""
    return implies(s.partition.leader.is_some, m.active(s).has(s.partition.leader))


@invariant("841.2")
def isr_is_active(m: Controller, s: State) -> Truth:
    """Nobody but the last member is in the ISR while fenced or shutting down.

    Else records wait for a replica that does not fetch, or are committed without it once it is taken out.
    """
    lonely = (size(s.partition.isr) <= 1) & s.partition.leader.is_none
    return implies(~lonely, s.partition.isr <= m.active(s))


@invariant("966.6")
def isr_and_elr_disjoint(m: Controller, s: State) -> Truth:
    """No replica is in both ISR and ELR."""
    return implies(~s.partition.elr.is_empty, (s.partition.isr & s.partition.elr).is_empty)


@invariant("966.6, 966.8")
def elr_only_under_min_isr(m: Controller, s: State) -> Truth:
    """There is an ELR only while the ISR is under min ISR.

    With min ISR members the HWM advances, and an ELR member does not hold what is committed then.
    """
    return implies(~s.partition.elr.is_empty, size(s.partition.isr) < m.min_isr(s))


@invariant("966.9")
def elr_within_replicas(m: Controller, s: State) -> Truth:
    """The ELR is made of replicas of the partition, also after a reassignment or its cancellation."""
    return implies(~s.partition.elr.is_empty, s.partition.elr <= m.assigned(s.partition))


@invariant("966.6")
def electable_are_complete(m: Controller, s: State) -> Truth:
    """Every member of ISR and ELR holds every committed record: each can be elected as a clean leader.

    This is what acks=all rests on. It goes by what is known without the logs: who was in the ISR while the HWM
    could advance, and has not lost its log since.
    """
    electable = s.partition.isr | s.partition.elr
    return implies(~electable.is_empty, electable <= s.complete)


@invariant("966.6")
def enough_hold_what_is_committed(m: Controller, s: State) -> Truth:
    """ISR and ELR together have min ISR members, unless one of them lost its log or an operator chose otherwise."""
    return implies(~s.diminished, size(s.partition.isr | s.partition.elr) >= m.min_isr(s))


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


@invariant("KIP-704")
def recovering_leader_is_alone(m: Controller, s: State) -> Truth:
    """While a leader recovers from an unclean election, nobody else is in the ISR."""
    recovering = s.partition.leader_recovery_state == LeaderRecoveryState.RECOVERING
    return implies(recovering, size(s.partition.isr) <= 1)


@invariant("966.6", rule="leftover_elr_elects")
def leader_is_complete_with_elr(m: Controller, s: State) -> Truth:
    """While ELR is on, the leader holds every committed record, however often ELR was off before.

    A leader that was elected uncleanly starts anew: what it holds is what is committed.
    """
    leads = m.elr_is_on(s) & s.partition.leader.is_some
    return implies(leads, s.complete.has(s.partition.leader))


@invariant("B8", rule="unassigned_candidate_fails")
def every_broker_comes_back(m: Controller, s: State) -> Truth:
    """Every broker can be fenced, register and be unfenced: no partition makes the controller fail at that.

    Else the controller resigns whenever it tries, and so does the next one.
    """
    return all_of(implies(s.registrations[b].registered, m.comes_back(s, b)) for b in m.t.broker)


INVARIANTS = (
    isr_within_replicas,
    leader_in_isr,
    leader_is_active,
    isr_is_active,
    isr_and_elr_disjoint,
    elr_only_under_min_isr,
    elr_within_replicas,
    electable_are_complete,
    enough_hold_what_is_committed,
    last_known_elr_is_not_electable,
    last_known_leader_only_without_leader,
    last_known_leader_is_a_broker,
    reassignment_within_replicas,
    leader_epoch_behind_partition_epoch,
    recovering_leader_is_alone,
    leader_is_complete_with_elr,
    every_broker_comes_back,
)

EXPLORED = (leader_is_complete_with_elr,)
"""Of these, what only an exploration is asked: of an observed partition ``leader_is_complete`` asks the same."""

__all__ = ["EXPLORED", "INVARIANTS", "LIVENESS"]
