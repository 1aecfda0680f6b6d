"""Helper invariants that make the invariants inductive, by protocol.

An invariant can hold in every reachable state, and still fail after a step from an unreachable state. A helper
invariant excludes such states. No helper is assumed: helpers are proved together with the invariants. ``knowledge``,
``histories`` and ``commits`` have the helper invariants of the message-level protocol.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater.invariants.replication import commits, histories, knowledge, promise
from highwater.invariants.statements import defined
from highwater.model.language import Invariant, State, StepProperty, Truth, all_of, implies, invariant, size
from highwater.model.replication import Replication
from highwater.model.replication.controller import Controller


@invariant("B8")
def brokers_are_registered(m: Controller, s: State) -> Truth:
    """Every broker has a registration: registrations are replaced, never removed.

    From a state in which a broker has none, steps could unfence and elect the broker. The leader would then not be
    active.
    """
    return all_of(s.registrations[b].registered for b in m.broker)


@invariant("966.3", rule="isr_may_become_empty")
def somebody_leads_the_isr(m: Controller, s: State) -> Truth:
    """If there is no leader, the ISR is empty: the last member leaves the ISR when it cannot lead.

    ``isr_members_are_eligible`` permits an ineligible last member while there is no leader; this helper excludes that.
    """
    return implies(s.partition.leader.is_none, s.partition.isr.is_empty)


@invariant("B8, 966.9")
def a_reassignment_has_two_ends(m: Controller, s: State) -> Truth:
    """Each replica is listed once. At least one replica is not being added, and at least one is not being removed.

    So a cancelled or completed reassignment leaves at least one replica.
    """
    p = s.partition
    replicas = m.assigned(p)
    left = ~(replicas - p.adding).is_empty & ~(replicas - p.removing).is_empty
    return left & (size(replicas) == p.replicas.length)


@invariant("966.4, 966.10, 966.11")
def nobody_is_remembered_without_the_rules(m: Controller, s: State) -> Iterator[Truth]:
    """ELR, last known ELR and last known leader are empty if the rules that maintain them are off.

    They are empty in the initial state, and no other rule adds a member.
    """
    p = s.partition
    for rule, nobody in (
        ("eligible_leader_replicas", p.elr.is_empty),
        ("last_known_elr", p.last_known_elr.is_empty),
        ("last_known_leader", p.last_known_leader.is_none),
    ):
        if not m.on(rule):
            yield nobody


HELPERS = {
    Controller.name: defined(Invariant, __name__),
    Replication.name: defined(Invariant, knowledge, histories, commits, promise),
}
"""The helper invariants of each protocol, proved together with its own invariants."""

HELPER_STEPS = {Replication.name: defined(StepProperty, knowledge)}
"""The step properties of each protocol that only proofs check."""
