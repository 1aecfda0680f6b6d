"""What happens to partitions when a broker registers, is fenced or unfenced, or shuts down."""

from __future__ import annotations

from highwater.model.language import Number, SetValue, StructValue, Truth, cases, where
from highwater.model.replication.controller.partition_change import partition_change
from highwater.model.replication.controller.situation import Situation
from highwater.model.replication.controller.types import BrokerState, Terms


def is_clean_registration(
    t: Terms,
    registration: StructValue,
    previous_broker_epoch: Number,
    same_incarnation: Truth,
    request_version: Number | int = 4,
) -> Truth:
    """966.12. Whether a broker registers after a clean shutdown: it names its registered epoch as its previous one.

    Only who shut down in order has written that epoch down, and its log to the end. After a crash the end of the log
    may be gone, so it counts as lost. The same incarnation again is no restart at all. Without the rule every new
    incarnation counts as unclean, and so does one whose request cannot name an epoch, below version 3.
    """
    if not t.on("clean_registration"):
        return same_incarnation
    names_epoch = registration.registered & (previous_broker_epoch == registration.epoch)
    return same_incarnation | ((request_version >= 3) & names_epoch)


def on_unclean_registration(
    t: Terms,
    now: Situation,
    broker: Number,
) -> StructValue:
    """966.5. A broker registers after an unclean shutdown: it leaves both ISR and ELR, as it may lack records.

    A partition that has it in neither is changed too where it is visited: an index can be stale (``elr_index``).
    """
    concerned: Truth | bool = (now.partition.isr | now.partition.elr).has(broker)
    if t.on("cleared_elr_stays_indexed"):
        concerned = True
    if not t.on("unclean_registration"):
        concerned = concerned & False
    lost = t.brokers.zero().with_(broker)
    return _leaves(t, concerned, now, broker, lost)


def on_fencing(
    t: Terms,
    now: Situation,
    broker: Number,
) -> StructValue:
    """966.5, 841.2. A broker is fenced, starts a controlled shutdown, or registers cleanly: it leaves the ISR.

    acks=all waits for nobody who is gone. It may enter the ELR, or stay there, as its log is whole: where the ISR falls
    under min ISR nothing is committed without it (966.4).
    """
    nobody = t.brokers.zero()
    concerned = now.partition.isr.has(broker)
    return _leaves(t, concerned, now, broker, nobody)


def without_broker(
    t: Terms,
    now: Situation,
    broker: Number,
) -> StructValue:
    """B8, 858.1. A broker is removed from the cluster, or loses the directory that its replica is in.

    It leaves the ISR as if it were fenced, and stays in the ELR. Partitions are visited that it is not in the ISR of.
    """
    return _leaves(t, True, now, broker, t.brokers.zero())


def _leaves(
    t: Terms,
    concerned: Truth | bool,
    now: Situation,
    broker: Number,
    unclean_shutdown: SetValue,
) -> StructValue:
    # It is still active in the registrations, which are changed later: it is not to be elected by this very change.
    record = partition_change(
        t,
        now,
        now.election,
        acceptable=t.acceptable(now.partition, now.registrations).without(broker),
        isr=now.partition.isr.without(broker),
        unclean_shutdown=unclean_shutdown,
    )
    return where(concerned, record, t.record.zero())


def on_unfencing(
    t: Terms,
    now: Situation,
    broker: Number,
) -> StructValue:
    """966.5. A broker is unfenced: a partition without a leader elects one, and the broker may be the one.

    If nobody elects then, a partition waits for ever while a replica with every record is alive.
    """
    concerned = now.partition.leader.is_none
    if not t.on("election_on_unfencing"):
        concerned = concerned & False
    acceptable = t.acceptable(now.partition, now.registrations, coming=broker)
    record = partition_change(t, now, now.election, acceptable=acceptable)
    return where(concerned, record, t.record.zero())


def treats_as_fenced(t: Terms) -> bool:
    """Whether a new incarnation counts as fenced even after an unclean shutdown: where there is no ELR."""
    return t.on("registration_leaves_isr") and not t.on("unclean_registration")


def on_registration(
    t: Terms,
    now: Situation,
    broker: Number,
    clean: Truth,
    same_incarnation: Truth,
) -> StructValue:
    """966.5, 966.12. What a registration does to a partition, before it is stored.

    Before, because a broker that is registered can be unfenced, and be elected from an ELR that it should have left.
    A restart after a clean shutdown is a fencing that went unseen; the same incarnation again changes nothing.
    """
    cleanly = on_fencing(t, now, broker)
    uncleanly = cleanly if treats_as_fenced(t) else on_unclean_registration(t, now, broker)
    return cases((same_incarnation, t.record.zero()), (clean, cleanly), otherwise=uncleanly)


def on_heartbeat(
    t: Terms,
    now: Situation,
    broker: Number,
    current: Number,
    next: Number,
) -> StructValue:
    """841.5, 966.5. What a heartbeat does to a partition: fencing, unfencing, or nothing.

    A broker in controlled shutdown leaves the ISR as if it were fenced.
    """
    leaving, unfencing = on_fencing(t, now, broker), on_unfencing(t, now, broker)
    stays, comes_back = current == next, next == BrokerState.UNFENCED
    return cases((stays, t.record.zero()), (comes_back, unfencing), otherwise=leaving)
