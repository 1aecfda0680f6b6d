"""One change of a partition: whatever the cause, the controller builds its record in the same way."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Number,
    OptionValue,
    SeqValue,
    SetValue,
    StructValue,
    Truth,
    all_of,
    least,
    size,
    where,
)
from highwater.model.language.sequences import kept, members_of
from highwater.model.replication.controller.elections import elect
from highwater.model.replication.controller.eligible_leader_replicas import (
    eligible_leader_replicas,
    last_known_elr,
    last_known_leader,
)
from highwater.model.replication.controller.types import ElectionType, LeaderRecoveryState, Terms, written


def partition_change(
    t: Terms,
    partition: StructValue,
    min_isr: Number,
    acceptable: SetValue,
    election: Number | None = None,
    *,
    isr: SetValue | None = None,
    replicas: SeqValue | None = None,
    adding: SetValue | None = None,
    removing: SetValue | None = None,
    unclean_shutdown: SetValue | None = None,
    leader_recovery_state: Number | None = None,
    assigns: Truth | bool = False,
    reorders: Truth | bool = False,
) -> StructValue:
    """B8, 966.5. The PartitionChangeRecord that takes a partition to a target; empty where nothing changes.

    The target is the partition as it is, with what the caller gives in its place: ISR, replicas, adding and
    removing replicas, leader recovery state. ``min_isr`` is the effective one (966.2), ``acceptable`` the brokers
    that may lead now, ``election`` ONLINE where not given, ``unclean_shutdown`` who lost its log, ``assigns``
    whether a replica gets another log directory, ``reorders`` whether the ISR is to have its members in another order,
    which no rule looks at but which is written. Whether building the record throws is its field ``fails``.
    """
    replicas = partition.replicas if replicas is None else replicas
    adding = partition.adding if adding is None else adding
    removing = partition.removing if removing is None else removing
    isr = partition.isr if isr is None else isr
    unclean_shutdown = t.brokers.zero() if unclean_shutdown is None else unclean_shutdown
    election = ElectionType.ONLINE if election is None else election
    requested_state = (
        partition.leader_recovery_state if leader_recovery_state is None else leader_recovery_state
    )

    # 1. A reassignment that can complete does.
    leaving = removing
    remaining = kept(replicas, lambda r: ~leaving.has(r))
    completes = reassignment_completes(t, remaining, adding, removing, isr, min_isr)
    isr = where(completes, isr - removing, isr)
    replicas = where(completes, remaining, replicas)
    adding, removing = (where(completes, t.brokers.zero(), s) for s in (adding, removing))
    if t.on("reassignment_needs_min_isr"):
        min_isr = least(min_isr, replicas.length)

    # 2. Who is eligible besides the ISR.
    assigned = members_of(replicas, t.brokers)
    elr = eligible_leader_replicas(t, partition, isr, unclean_shutdown, min_isr, assigned)
    known_elr = last_known_elr(t, partition, isr, unclean_shutdown, min_isr)

    # 3. Who leads. A leader from outside the ISR starts with an ISR of its own; what is not in the log of a
    # leader that was elected uncleanly is lost, so nobody else is eligible.
    elected = elect(t, election, partition, replicas, isr, elr, acceptable)
    fails = elected.leader.is_some & ~members_of(partition.replicas, t.brokers).has(elected.leader)
    changes_leader = elected.leader != partition.leader
    uncleanly = changes_leader & elected.unclean
    from_elr = changes_leader & elr.has(elected.leader)
    alone = t.brokers.zero().with_(elected.leader.value)
    isr = where(uncleanly | from_elr, alone, isr)
    elr = where(uncleanly, t.brokers.zero(), where(from_elr, elr.without(elected.leader.value), elr))
    if not t.on("eligible_leader_replicas"):
        elr = t.brokers.zero()
    if t.on("elr_follows_election"):
        reached = size(isr) >= min_isr
        elr, known_elr = (where(reached, t.brokers.zero(), s) for s in (elr, known_elr))

    # 4. What is written of the ISR: an empty one only where it may become empty.
    isr_changes = uncleanly | (isr != partition.isr) | reorders
    if not t.on("isr_may_become_empty"):
        isr_changes = isr_changes & ~isr.is_empty
    new_isr = where(isr_changes, isr, partition.isr)

    # 5. The leader field; written also without a new leader, to end the leader epoch.
    writes_leader = changes_leader
    if t.on("reassignment_bumps_leader_epoch"):
        writes_leader = writes_leader | ~(members_of(partition.replicas, t.brokers) <= assigned)
    if t.on("shrink_bumps_leader_epoch"):
        writes_leader = writes_leader | ~(partition.isr <= new_isr)

    recovers = uncleanly & t.on("unclean_election_recovers")
    state = where(
        requested_state != partition.leader_recovery_state,
        requested_state,
        where(recovers, LeaderRecoveryState.RECOVERING, partition.leader_recovery_state),
    )
    known_leader = last_known_leader(t, partition, isr_changes & isr.is_empty, elected.leader, writes_leader)
    return t.record(
        replicas=written(t, "replicas", replicas != partition.replicas, replicas),
        adding=written(t, "adding", adding != partition.adding, adding),
        removing=written(t, "removing", removing != partition.removing, removing),
        isr=written(t, "isr", isr_changes, isr),
        elr=written(t, "elr", elr != partition.elr, elr),
        last_known_elr=written(t, "last_known_elr", known_elr != partition.last_known_elr, known_elr),
        last_known_leader=written(
            t, "last_known_leader", known_leader != partition.last_known_leader, known_leader
        ),
        leader=written(t, "leader", writes_leader, elected.leader),
        leader_recovery_state=written(
            t, "leader_recovery_state", state != partition.leader_recovery_state, state
        ),
        assigns=assigns,
        fails=fails & t.on("unassigned_candidate_fails"),
    )


def reassignment_completes(
    t: Terms, remaining: SeqValue, adding: SetValue, removing: SetValue, isr: SetValue, min_isr: Number
) -> Truth:
    """966.9. Whether a reassignment can complete: all adding replicas are in the ISR, and min ISR members are left.

    With ``reassignment_needs_min_isr`` off: every remaining replica is in the ISR, and there is one.
    """
    in_progress = ~adding.is_empty | ~removing.is_empty
    left = isr - removing
    if t.on("reassignment_needs_min_isr"):
        enough = size(left) >= least(min_isr, remaining.length)
        return in_progress & ~left.is_empty & ((adding - removing) <= left) & enough
    assigned = members_of(remaining, t.brokers)
    return in_progress & ~assigned.is_empty & (assigned <= left)


def is_empty_record(t: Terms, record: StructValue) -> Truth:
    """Whether a record changes nothing, so that it is not appended."""
    return all_of(getattr(record, name).is_none for name in t.written_fields) & ~record.assigns


def merge(t: Terms, partition: StructValue, record: StructValue) -> StructValue:
    """B8, 966.7. The partition after a record: partitionEpoch +1; leaderEpoch +1 exactly where the leader field is.

    An empty record leaves the partition as it is. A replica that leaves is in no directory any more.
    """
    fields: dict[str, Any] = {}
    for name in t.written_fields:
        written: OptionValue = getattr(record, name)
        fields[name] = where(written.is_some, written.value, getattr(partition, name))
    appended = ~is_empty_record(t, record)
    if t.on("offline_directory_check"):
        fields["offline"] = partition.offline & members_of(fields["replicas"], t.brokers)
    return partition.replace(
        **fields,
        leader_epoch=where(record.leader.is_some, partition.leader_epoch + 1, partition.leader_epoch),
        partition_epoch=where(appended, partition.partition_epoch + 1, partition.partition_epoch),
    )


__all__ = ["is_empty_record", "merge", "partition_change", "reassignment_completes"]
