"""The outcomes of an operator's plan for a partition: goals of the protocol ``replication.plan``."""

from __future__ import annotations

from highwater.model.language import State, Truth, all_of, reachable, size
from highwater.model.language.protocol import Goal
from highwater.model.replication.controller.planned import Planned


@reachable("966.6")
def committed_records_are_lost(m: Planned, s: State) -> Truth:
    """A leader is elected that lacks committed records; the other replicas truncate them."""
    return s.lost


@reachable("966.13")
def the_partition_stays_offline(m: Planned, s: State) -> Truth:
    """Every broker that comes back is back, the plan is done, and still the partition has no leader."""
    return s.partition.leader.is_none & m.is_settled(s)


@reachable("B8", rule="unassigned_candidate_fails")
def the_controller_fails(m: Planned, s: State) -> Truth:
    """The controller throws when it fences, registers or unfences a broker, and so does its successor."""
    return ~all_of(m.comes_back(s, b) | ~s.registrations[b].registered for b in m.t.broker)


@reachable("966.13")
def the_partition_is_offline(m: Planned, s: State) -> Truth:
    """The partition has no leader. It can neither be read nor written."""
    return s.partition.leader.is_none


@reachable("966.1")
def writes_stop(m: Planned, s: State) -> Truth:
    """The ISR has fewer members than min.insync.replicas: writes with acks=all are refused."""
    return s.partition.leader.is_some & (size(s.partition.isr) < m.min_isr(s))


@reachable("966.15")
def a_leader_is_elected_uncleanly(m: Planned, s: State) -> Truth:
    """A leader is elected from outside ISR and ELR."""
    return s.unclean


OUTCOMES: tuple[Goal, ...] = (
    committed_records_are_lost,
    the_partition_stays_offline,
    the_controller_fails,
    the_partition_is_offline,
    a_leader_is_elected_uncleanly,
    writes_stop,
)
"""The worst first."""


@reachable("966.13")
def the_plan_is_done(m: Planned, s: State) -> Truth:
    """All steps of the plan are taken. A plan that waits for something impossible is never done."""
    return m.plan_is_done(s)
