"""What makes the invariants inductive: helper invariants, by protocol.

An invariant can hold in every reachable state and yet not be kept from one that is not reachable. A helper
invariant excludes such states. It is proved together with the others, so nothing is assumed. Those of the protocol
of messages are in ``knowledge``, ``histories`` and ``commits``.
"""

from __future__ import annotations

from highwater.invariants.replication import commits, histories, knowledge, promise
from highwater.model.language import Invariant, State, all_of, implies, invariant, size
from highwater.model.language.step_properties import StepProperty
from highwater.model.language.values import Truth
from highwater.model.replication import Replication
from highwater.model.replication.controller import Controller


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


HELPERS: dict[str, tuple[Invariant, ...]] = {
    Controller.name: (
        brokers_are_registered,
        somebody_leads_the_isr,
        a_reassignment_has_two_ends,
        nobody_is_remembered_without_the_rules,
    ),
    Replication.name: (*knowledge.KNOWLEDGE, *histories.HISTORIES, *commits.COMMITS, *promise.RECORDS),
}
"""Protocol to the helper invariants that are proved together with its own."""

HELPER_STEPS: dict[str, tuple[StepProperty, ...]] = {Replication.name: knowledge.STEPS}
"""Protocol to the properties of steps that only a proof asks for."""
