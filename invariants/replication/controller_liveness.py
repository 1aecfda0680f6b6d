"""What must happen in the eyes of the controller: partitions come to be led, whatever its brokers did before.

Brokers of this protocol may be fenced, shut down and registered for ever: no budget ends that. What is fair is that
they come back, and what the controller does by itself. Whether a replica joins the ISR is up to its log, which this
protocol does not have: where a property needs it, the leader is taken to ask for every ISR that it may ask for, again
and again. The properties of ``invariants/replication/liveness.py`` are about logs.
"""

from __future__ import annotations

from highwater.model.language import State, always_eventually, implies, strong, weak
from highwater.model.language.values import Number, Truth
from highwater.model.replication.controller import Controller, outlook


def broker_is_shutting_down(m: Controller, s: State, broker: Number) -> Truth:
    """Where fencing is a duty: a broker in controlled shutdown stops. Elsewhere it is a fault."""
    return s.registrations[broker].in_controlled_shutdown


def broker_has_shut_down(m: Controller, s: State, broker: Number) -> Truth:
    """Where a registration is a duty: a broker that has stopped is started. Elsewhere it is one of a crashed broker.

    One whose registration failed with the controller tries again.
    """
    registration = s.registrations[broker]
    stopped = registration.fenced & registration.in_controlled_shutdown
    return stopped | s.restarting.has(broker) if m.p.failovers > 1 else stopped


_RETURN = (
    weak("unfence")
    + weak("fence", when=broker_is_shutting_down)
    + weak("register", by=["broker"], when=broker_has_shut_down)
)


_RECOVERY = strong("recover_uncleanly", by=[])
_PROPOSALS = strong("alter_partition", by=["isr"], stale=None)


@always_eventually("966.13", fair=_RETURN)
def electable_replicas_come_to_lead(m: Controller, s: State) -> Truth:
    """A partition with anyone in ISR or ELR comes to have a leader: they are unfenced in the end."""
    somebody = ~(s.partition.isr | s.partition.elr).is_empty
    return implies(somebody & outlook.can_return(m, s), s.partition.leader.is_some)


@always_eventually("966.13, 966.14, 966.15", fair=_RETURN + _RECOVERY)
def partitions_are_led(m: Controller, s: State) -> Truth:
    """A partition comes to have a leader, by unclean recovery or by its last known leader where nobody is eligible."""
    return implies(outlook.can_return(m, s), s.partition.leader.is_some)


@always_eventually("966.17", fair=weak("maybe_balance_leader"))
def preferred_replicas_lead(m: Controller, s: State) -> Truth:
    """A preferred replica that is in the ISR and active comes to lead."""
    preferred = s.partition.replicas.at(0)
    able = s.partition.isr.has(preferred) & m.t.acceptable(s.partition, s.registrations).has(preferred)
    return implies(able, s.partition.leader.is_(preferred))


@always_eventually("B5, B7", fair=_RECOVERY + _PROPOSALS)
def healthy_replicas_come_to_be_in_the_isr(m: Controller, s: State) -> Truth:
    """While every replica's broker is active and its log directory online, they all come into the ISR."""
    return implies(outlook.healthy(m, s), s.partition.isr == m.assigned(s.partition))


@always_eventually("966.9", fair=_RECOVERY + _PROPOSALS)
def reassignments_of_healthy_replicas_complete(m: Controller, s: State) -> Truth:
    """While every replica's broker is active and its log directory online, a reassignment comes to its end."""
    partition = s.partition
    return implies(outlook.healthy(m, s), partition.adding.is_empty & partition.removing.is_empty)


LIVENESS = (
    electable_replicas_come_to_lead,
    partitions_are_led,
    preferred_replicas_lead,
    healthy_replicas_come_to_be_in_the_isr,
    reassignments_of_healthy_replicas_complete,
)
