"""What may still become of a partition: whether its brokers can come back, and whether the controller can go on.

For properties. A decision that fails makes the controller resign, and the next one comes upon the same: what is asked
for again and again must not fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.language import Bool, Number, SetValue, State, StructValue, Truth, any_of, where
from highwater.model.replication.controller import brokers, election_tasks, partition_change

if TYPE_CHECKING:
    from highwater.model.replication.controller.protocol import Controller


def comes_back(m: Controller, s: State, broker: Number) -> Truth:
    """Whether a broker can be fenced, register after a crash, and be unfenced: no decision of these fails."""
    decisions = (
        m.about(s, broker, brokers.on_fencing),
        m.about(s, broker, brokers.on_unfencing),
        m.registration(s, broker, Bool.lift(False))[0],
    )
    return ~any_of(record.fails for record in decisions)


def goes_on(m: Controller, s: State) -> Truth:
    """Whether no leader's AlterPartition and no periodic task makes the controller fail.

    Leaders ask for all replicas that may be in the ISR, and for themselves alone.
    """
    now, partition = m.situation(s), s.partition
    acceptable = m.t.acceptable(partition, s.registrations)

    def asked_for(isr: SetValue) -> StructValue:
        return m.by_level(s, lambda t: partition_change.partition_change(t, now, now.election, isr=isr))

    alone = m.t.brokers.zero().with_(partition.leader.value)
    by_leader = [asked_for(isr) for isr in (m.assigned(partition) & acceptable, alone)]
    by_itself = [
        m.by_level(s, lambda t: election_tasks.maybe_balance_leader(t, now)),
        m.by_level(s, lambda t: election_tasks.maybe_elect_unclean_leader(t, now)),
    ]
    failing = partition.leader.is_some & any_of(record.fails for record in by_leader)
    return ~(failing | any_of(record.fails for record in by_itself))


def healthy(m: Controller, s: State) -> Truth:
    """Whether every replica's broker is registered and active, and its log directory online."""
    up = m.t.brokers.of(lambda b: s.registrations[b].registered)
    up = up & m.t.acceptable(s.partition, s.registrations)
    return m.assigned(s.partition) <= (up - s.restarting if m.p.failovers > 1 else up)


def can_return(m: Controller, s: State) -> Truth:
    """Whether nobody's return is up to an operator: every replica's broker is registered, every directory online."""
    partition, everyone = s.partition, Bool.lift(True)
    if m.p.directories and m.on("offline_directory_check"):
        everyone = everyone & partition.offline.is_empty
    if m.p.removals:
        registered = m.t.brokers.of(lambda b: s.registrations[b].registered)
        everyone = everyone & ((m.assigned(partition) | partition.isr | partition.elr) <= registered)
    return everyone


def promised(m: Controller, s: State) -> StructValue:
    """The partition as far as properties speak of it: nothing is promised of the ELR while its level is 0."""
    if not m.p.elr_changes:
        return s.partition
    return s.partition.replace(elr=where(m.elr_is_on(s), s.partition.elr, m.t.brokers.zero()))
