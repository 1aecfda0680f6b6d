"""One change of a partition: whatever the cause, the controller builds its record in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from highwater.model.language import (
    Number,
    OptionValue,
    SeqValue,
    SetValue,
    StructValue,
    Truth,
    all_of,
    cases,
    size,
    where,
)
from highwater.model.language.sequences import members_of
from highwater.model.replication.controller.elections import Elected, elect
from highwater.model.replication.controller.eligible_leader_replicas import (
    effective_min_isr,
    eligible_leader_replicas,
    last_known_elr,
    last_known_leader,
)
from highwater.model.replication.controller.situation import Situation
from highwater.model.replication.controller.types import ElectionType, LeaderRecoveryState, Terms, written


def partition_change(
    t: Terms,
    now: Situation,
    election: Number = ElectionType.ONLINE,
    *,
    acceptable: SetValue | None = None,
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
    removing replicas, leader recovery state. ``acceptable`` are the brokers that may lead, where they are others than
    may now; ``unclean_shutdown`` who lost its log, ``assigns`` whether a replica gets another log directory,
    ``reorders`` whether the ISR is to have its members in another order, which no rule looks at but which is written.
    Whether building the record throws is its field ``fails``.

    The order matters: 1. a reassignment completes; 2. the ELR that goes with the ISR; 3. the election, and what it
    does to both; 4. whether the ISR is written; 5. whether the leader is, and so the leader epoch ends. If the election
    came before the ELR, a partition that loses its last ISR member would know of nobody who may lead.
    """
    partition, min_isr = now.partition, now.min_isr
    acceptable = t.acceptable(partition, now.registrations) if acceptable is None else acceptable
    target = ChangeTarget(
        isr=partition.isr if isr is None else isr,
        replicas=partition.replicas if replicas is None else replicas,
        adding=partition.adding if adding is None else adding,
        removing=partition.removing if removing is None else removing,
    )
    lost_log = t.brokers.zero() if unclean_shutdown is None else unclean_shutdown

    target = complete_reassignment(t, target, min_isr)
    if t.on("reassignment_needs_min_isr"):
        min_isr = effective_min_isr(min_isr, target.replicas.length)
    assigned = members_of(target.replicas, t.brokers)
    elr = eligible_leader_replicas(t, partition, target.isr, lost_log, min_isr, assigned)
    known_elr = last_known_elr(t, partition, target.isr, lost_log, min_isr)

    elected = elect(t, election, partition, target.replicas, target.isr, elr, acceptable)
    uncleanly = (elected.leader != partition.leader) & elected.unclean
    isr_after, elr = after_election(t, partition, elected, target.isr, elr)
    if t.on("elr_follows_election"):
        reached = size(isr_after) >= min_isr
        elr, known_elr = (where(reached, t.brokers.zero(), s) for s in (elr, known_elr))

    if not (t.on("eligible_leader_replicas") or t.on("elr_off_empties_elr")):
        elr = partition.elr
    isr_written = writes_isr(t, partition, isr_after, uncleanly | (isr_after != partition.isr) | reorders)
    new_isr = where(isr_written, isr_after, partition.isr)
    leader_written = writes_leader(t, partition, elected, assigned, new_isr)
    state = recovery_state(t, partition, leader_recovery_state, uncleanly)
    loses_last = isr_written & isr_after.is_empty
    known_leader = last_known_leader(t, partition, loses_last, elected.leader, leader_written)

    def where_other(field: str, value: Any) -> OptionValue:
        return written(t, field, value != getattr(partition, field), value)

    return t.record(
        replicas=where_other("replicas", target.replicas),
        adding=where_other("adding", target.adding),
        removing=where_other("removing", target.removing),
        isr=written(t, "isr", isr_written, isr_after),
        elr=where_other("elr", elr),
        last_known_elr=where_other("last_known_elr", known_elr),
        last_known_leader=where_other("last_known_leader", known_leader),
        leader=written(t, "leader", leader_written, elected.leader),
        leader_recovery_state=where_other("leader_recovery_state", state),
        assigns=assigns,
        fails=elects_no_replica(t, partition, elected) & t.on("unassigned_candidate_fails"),
    )


# --- the steps ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangeTarget:
    """What a change takes a partition to, as far as the one who asks for it says so."""

    isr: SetValue
    replicas: SeqValue
    adding: SetValue
    removing: SetValue


def complete_reassignment(t: Terms, target: ChangeTarget, min_isr: Number) -> ChangeTarget:
    """966.9, step 1. A reassignment that can complete does: who is to go leaves replicas and ISR.

    It is looked at first, with every change, as the ISR that completes it is the leader's to propose, and who leaves
    with it can neither be elected nor enter the ELR.
    """
    nobody = t.brokers.zero()
    remaining = target.replicas.filter(lambda r: ~target.removing.has(r))
    completes = reassignment_completes(t, remaining, target.adding, target.removing, target.isr, min_isr)
    return ChangeTarget(
        isr=where(completes, target.isr - target.removing, target.isr),
        replicas=where(completes, remaining, target.replicas),
        adding=where(completes, nobody, target.adding),
        removing=where(completes, nobody, target.removing),
    )


def reassignment_completes(
    t: Terms, remaining: SeqValue, adding: SetValue, removing: SetValue, isr: SetValue, min_isr: Number
) -> Truth:
    """966.9. Whether a reassignment can complete: all adding replicas are in the ISR, and min ISR members are left.

    With ``reassignment_needs_min_isr`` off: every remaining replica is in the ISR, and there is one. Then a
    reassignment to one replica leaves one copy of records that were acknowledged by more.
    """
    in_progress = ~adding.is_empty | ~removing.is_empty
    left = isr - removing
    if t.on("reassignment_needs_min_isr"):
        enough = size(left) >= effective_min_isr(min_isr, remaining.length)
        return in_progress & ~left.is_empty & ((adding - removing) <= left) & enough
    assigned = members_of(remaining, t.brokers)
    return in_progress & ~assigned.is_empty & (assigned <= left)


def after_election(
    t: Terms, partition: StructValue, elected: Elected, isr: SetValue, elr: SetValue
) -> tuple[SetValue, SetValue]:
    """966.5, 966.13, step 3. ISR and ELR after an election. A new leader from outside the ISR is an ISR of its own.

    Nobody has fetched from it yet. One from the ELR leaves the ELR. What is not in the log of one that was elected
    uncleanly is lost, and the others may hold it still, under another history: nobody else is eligible.
    """
    nobody, leader = t.brokers.zero(), elected.leader
    changes = leader != partition.leader
    uncleanly, from_elr = changes & elected.unclean, changes & elr.has(leader)
    isr = where(uncleanly | from_elr, nobody.with_(leader.value), isr)
    elr = cases((uncleanly, nobody), (from_elr, elr.without(leader.value)), otherwise=elr)
    return isr, elr if t.on("eligible_leader_replicas") else nobody


def elects_no_replica(t: Terms, partition: StructValue, elected: Elected) -> Truth:
    """Whether the leader that was elected is no replica: Kafka looks for its log directory, and throws."""
    return elected.leader.is_some & ~members_of(partition.replicas, t.brokers).has(elected.leader)


def writes_isr(t: Terms, partition: StructValue, isr: SetValue, changes: Truth) -> Truth:
    """966.3, step 4. Whether the ISR is written: where it changes, and an empty one only where it may become empty.

    Where it may not, the last member stays in it while it is down, and leads when it is back, be its log whole or not.
    """
    return changes if t.on("isr_may_become_empty") else changes & ~isr.is_empty


def writes_leader(
    t: Terms, partition: StructValue, elected: Elected, assigned: SetValue, isr: SetValue
) -> Truth:
    """B8, step 5. Whether the leader field is written: also without a new leader, to end the leader epoch.

    The followers then ask the leader anew, so that one that was taken out is heard under its old epoch no more.
    """
    writes = elected.leader != partition.leader
    if t.on("reassignment_bumps_leader_epoch"):
        writes = writes | ~(members_of(partition.replicas, t.brokers) <= assigned)
    if t.on("shrink_bumps_leader_epoch"):
        writes = writes | ~(partition.isr <= isr)
    return writes


def recovery_state(t: Terms, partition: StructValue, requested: Number | None, uncleanly: Truth) -> Number:
    """704.1. The leader recovery state: as it was asked for, else RECOVERING after an unclean election."""
    before = partition.leader_recovery_state
    requested = before if requested is None else requested
    recovers = uncleanly & t.on("unclean_election_recovers")
    return cases(
        (requested != before, requested), (recovers, LeaderRecoveryState.RECOVERING), otherwise=before
    )


# --- what a record does -------------------------------------------------------------------------------------


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
    counted = appended if t.on("every_change_bumps_partition_epoch") else record.isr.is_some
    ended = record.leader.is_some & t.on("elections_bump_leader_epoch")
    if t.on("offline_directory_check"):
        fields["offline"] = partition.offline & members_of(fields["replicas"], t.brokers)
    return partition.replace(
        **fields,
        leader_epoch=where(ended, partition.leader_epoch + 1, partition.leader_epoch),
        partition_epoch=where(counted, partition.partition_epoch + 1, partition.partition_epoch),
    )
