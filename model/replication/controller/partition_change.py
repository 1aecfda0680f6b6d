"""How the controller builds a PartitionChangeRecord, whatever the cause of the change.

This is Kafka's PartitionChangeBuilder, with the eligible leader replicas of KIP-966, which change with the ISR.
"""

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
    least,
    size,
    where,
)
from highwater.model.language.containers import members_of
from highwater.model.replication.controller.elections import Elected, Electorate, elect
from highwater.model.replication.controller.types import (
    NO_LEADER,
    ControllerContext,
    ControllerTypes,
    ElectionType,
    LeaderRecoveryState,
    written,
)


@dataclass(frozen=True)
class RequestedChange:
    """The requested target of a partition change; fields that are None keep their value.

    ``acceptable``: brokers that may lead, if they differ from the currently acceptable brokers. ``unclean_shutdown``:
    brokers that register after an unclean shutdown. ``assigns``: a replica gets another log directory.
    """

    election: Number = ElectionType.ONLINE
    isr: SetValue | None = None
    replicas: SeqValue | None = None
    adding: SetValue | None = None
    removing: SetValue | None = None
    leader_recovery_state: Number | None = None
    acceptable: SetValue | None = None
    unclean_shutdown: SetValue | None = None
    assigns: Truth | bool = False


def partition_change(now: ControllerContext, change: RequestedChange) -> StructValue:
    """B8, 966.5. The PartitionChangeRecord of a change; empty if nothing changes.

    The steps, in order:
    1. complete a reassignment;
    2. compute the ELR that goes with the ISR;
    3. elect a leader, which may change ISR and ELR;
    4. write the ISR if it changes;
    5. write the leader if it changes or the leader epoch must end.
    The ELR comes before the election: a partition that loses its last ISR member elects from the ELR.
    ``fails`` is true if building the record throws.
    """
    t, partition, min_isr = now.t, now.partition, now.min_isr
    acceptable = (
        t.acceptable(partition, now.registrations) if change.acceptable is None else change.acceptable
    )
    lost_log = t.brokers.zero() if change.unclean_shutdown is None else change.unclean_shutdown

    target = complete_reassignment(t, target_of(partition, change), min_isr)
    if t.on("reassignment_needs_min_isr"):
        min_isr = effective_min_isr(min_isr, target.replicas.length)
    assigned = members_of(target.replicas, t.brokers)
    elr = eligible_leader_replicas(t, partition, target.isr, lost_log, min_isr, assigned)
    known_elr = last_known_elr(t, partition, target.isr, lost_log, min_isr)

    among = Electorate(target.replicas, target.isr, elr, acceptable)
    elected = elect(t, change.election, partition, among)
    uncleanly = (elected.leader != partition.leader) & elected.unclean
    isr_after, elr = after_election(t, partition, elected, target.isr, elr)
    if t.on("elr_follows_election"):
        reached = size(isr_after) >= min_isr
        elr, known_elr = (where(reached, t.brokers.zero(), s) for s in (elr, known_elr))

    if not (t.on("eligible_leader_replicas") or t.on("elr_off_empties_elr")):
        elr = partition.elr
    isr_written = writes_isr(t, partition, isr_after, uncleanly | (isr_after != partition.isr))
    new_isr = where(isr_written, isr_after, partition.isr)
    leader_written = writes_leader(t, partition, elected, assigned, new_isr)
    state = recovery_state(t, partition, change.leader_recovery_state, uncleanly)
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
        assigns=change.assigns,
        fails=elects_no_replica(t, partition, elected, acceptable) & t.on("unassigned_candidate_fails"),
    )


# --- the steps ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangeTarget:
    """The ISR and the replicas that a change leads to."""

    isr: SetValue
    replicas: SeqValue
    adding: SetValue
    removing: SetValue


def target_of(partition: StructValue, change: RequestedChange) -> ChangeTarget:
    """The ISR and replicas that a requested change leads to; fields that it leaves None keep their value."""
    return ChangeTarget(
        isr=partition.isr if change.isr is None else change.isr,
        replicas=partition.replicas if change.replicas is None else change.replicas,
        adding=partition.adding if change.adding is None else change.adding,
        removing=partition.removing if change.removing is None else change.removing,
    )


def complete_reassignment(t: ControllerTypes, target: ChangeTarget, min_isr: Number) -> ChangeTarget:
    """966.9, step 1. Complete a reassignment if possible: removing replicas leave the replica list and the ISR.

    Every change does this first, because a replica that leaves must neither be elected nor enter the ELR.
    """
    nobody = t.brokers.zero()
    remaining = target.replicas.filter(lambda r: ~target.removing.has(r))
    completes = reassignment_completes(t, target, remaining, min_isr)
    return ChangeTarget(
        isr=where(completes, target.isr - target.removing, target.isr),
        replicas=where(completes, remaining, target.replicas),
        adding=where(completes, nobody, target.adding),
        removing=where(completes, nobody, target.removing),
    )


def reassignment_completes(
    t: ControllerTypes, target: ChangeTarget, remaining: SeqValue, min_isr: Number
) -> Truth:
    """966.9. True if a reassignment in progress can complete under the ISR of ``target``.

    All adding replicas must be in the ISR. Without the removing replicas, the ISR must have at least min ISR members.
    With ``reassignment_needs_min_isr`` off, every remaining replica must be in the ISR, and there must be at least one.
    A reassignment to one replica then leaves one copy of records that more replicas acknowledged.
    K19: with ``reassignment_by_added``, the adding replicas must be in the ISR, and other remaining replicas only if
    more replicas are removed than added. An adding replica that is also removing keeps the reassignment in progress.
    """
    adding, removing = target.adding, target.removing
    in_progress = ~adding.is_empty | ~removing.is_empty
    left = target.isr - removing
    if t.on("reassignment_needs_min_isr"):
        enough = size(left) >= effective_min_isr(min_isr, remaining.length)
        return in_progress & ~left.is_empty & ((adding - removing) <= left) & enough
    assigned = members_of(remaining, t.brokers)
    waits_for = assigned
    if t.on("reassignment_by_added"):
        waits_for = adding | where(size(adding) < size(removing), assigned, t.brokers.zero())
    return in_progress & ~assigned.is_empty & (waits_for <= left)


def after_election(
    t: ControllerTypes, partition: StructValue, elected: Elected, isr: SetValue, elr: SetValue
) -> tuple[SetValue, SetValue]:
    """966.5, 966.13, step 3. ISR and ELR after an election; a new leader from outside the ISR becomes the only member.

    No follower has fetched from such a leader yet. A leader from the ELR leaves the ELR. An unclean leader's log
    becomes the committed one: other brokers may hold records that it lacks, so the ELR is emptied.
    """
    nobody, leader = t.brokers.zero(), elected.leader
    changes = leader != partition.leader
    uncleanly, from_elr = changes & elected.unclean, changes & elr.has(leader)
    isr = where(uncleanly | from_elr, nobody.with_(leader.value), isr)
    elr = cases((uncleanly, nobody), (from_elr, elr.without(leader.value)), otherwise=elr)
    return isr, elr if t.on("eligible_leader_replicas") else nobody


def elects_no_replica(
    t: ControllerTypes, partition: StructValue, elected: Elected, acceptable: SetValue
) -> Truth:
    """True if the elected leader is live and not a replica. Kafka throws when it looks up its log directory.

    Only ``last_known_leader_unfenced`` off elects a leader that is not live; Kafka looks up no directory of it.
    """
    leader = elected.leader
    return acceptable.has(leader) & ~members_of(partition.replicas, t.brokers).has(leader)


def writes_isr(t: ControllerTypes, partition: StructValue, isr: SetValue, changes: Truth) -> Truth:
    """966.3, step 4. True if the record contains the ISR: the ISR changes, and a rule allows the change.

    An empty ISR needs the rule ``isr_may_become_empty``. Without the rule the last member stays in the ISR while it is
    down. That member leads when it returns, even if it has lost records.
    """
    return changes if t.on("isr_may_become_empty") else changes & ~isr.is_empty


def writes_leader(
    t: ControllerTypes, partition: StructValue, elected: Elected, assigned: SetValue, isr: SetValue
) -> Truth:
    """B8, step 5. True if the record contains the leader: the leader changes, or the leader epoch must end.

    The leader epoch must end when a replica is removed, so that the leader ignores that replica's fetches. With
    ``shrink_bumps_leader_epoch`` (K5) it must also end when a member leaves the ISR.
    ``assigned`` and ``isr`` are the replicas and the ISR after the change.
    """
    writes = elected.leader != partition.leader
    if t.on("reassignment_bumps_leader_epoch"):
        writes = writes | ~(members_of(partition.replicas, t.brokers) <= assigned)
    if t.on("shrink_bumps_leader_epoch"):
        writes = writes | ~(partition.isr <= isr)
    return writes


def recovery_state(
    t: ControllerTypes, partition: StructValue, requested: Number | None, uncleanly: Truth
) -> Number:
    """704.1. The leader recovery state after a change.

    It is the requested state if that is a new one, else RECOVERING after an unclean election, else the old state.
    """
    before = partition.leader_recovery_state
    requested = before if requested is None else requested
    recovers = uncleanly & t.on("unclean_election_recovers")
    return cases(
        (requested != before, requested), (recovers, LeaderRecoveryState.RECOVERING), otherwise=before
    )


# --- applying a record --------------------------------------------------------------------------------------


def is_empty_record(t: ControllerTypes, record: StructValue) -> Truth:
    """True if a record changes nothing; the controller does not append such a record."""
    return all_of(getattr(record, name).is_none for name in t.written_fields) & ~record.assigns


def merge(t: ControllerTypes, partition: StructValue, record: StructValue) -> StructValue:
    """B8, 966.7. The partition after a record: partitionEpoch +1, and leaderEpoch +1 if the leader field is written.

    The leader epoch also ends if the written leader is none or stays the same. An empty record leaves the partition
    unchanged. A removed replica no longer counts as offline.
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


# --- the eligible leader replicas, and min.insync.replicas -----------------------------------------------------


def effective_min_isr(min_insync_replicas: Number, replication_factor: Number) -> Number:
    """966.2. The effective min ISR: min(min.insync.replicas, replication factor)."""
    return least(min_insync_replicas, replication_factor)


def eligible_leader_replicas(
    t: ControllerTypes,
    partition: StructValue,
    proposed_isr: SetValue,
    unclean_shutdown: SetValue,
    min_isr: Number,
    replicas: SetValue,
) -> SetValue:
    """966.4. The ELR for a proposed ISR.

    If the proposed ISR has at least ``min_isr`` members, the ELR is empty. Otherwise the ELR keeps its members and
    gains the members that leave the ISR. No record was committed without them, so they hold all records below the HWM.
    966.5: a broker with an unclean shutdown leaves the ELR. 966.9: only replicas stay after a reassignment.
    966.18: while the feature is off, the ELR is empty. With ``leftover_elr_elects`` the recorded ELR still serves the
    election of this change.
    """
    if not t.on("eligible_leader_replicas"):
        return partition.elr if t.on("leftover_elr_elects") else t.brokers.zero()
    under_min_isr = ((partition.elr | partition.isr) - proposed_isr) - unclean_shutdown
    if t.on("elr_within_replicas"):
        under_min_isr = under_min_isr & replicas
    return where(size(proposed_isr) >= min_isr, t.brokers.zero(), under_min_isr)


def last_known_elr(
    t: ControllerTypes,
    partition: StructValue,
    proposed_isr: SetValue,
    unclean_shutdown: SetValue,
    min_isr: Number,
) -> SetValue:
    """966.10. The last known ELR: ELR members that shut down uncleanly since the ISR last had min ISR members.

    966.18: while the ELR is off, the set is empty. Without ``elr_off_forgets_last_known`` (Kafka) it keeps its value.
    """
    if not t.on("last_known_elr"):
        return t.brokers.zero() if t.on("elr_off_forgets_last_known") else partition.last_known_elr
    remembered = partition.last_known_elr | (partition.elr & unclean_shutdown)
    return where(size(proposed_isr) >= min_isr, t.brokers.zero(), remembered)


def last_known_leader(
    t: ControllerTypes,
    partition: StructValue,
    isr_becomes_empty: Truth,
    leader: OptionValue,
    writes_leader: Truth,
) -> OptionValue:
    """966.11. The last known leader: set to the leader when the ISR becomes empty, cleared when a leader is elected.

    With ``last_known_leader_kept`` off, the last known leader becomes NO_LEADER if the last ISR member leaves while
    there is no leader; its previous value is lost. With ``last_known_leader_by_leader`` the last known leader is set
    when the record's leader field is written as none.
    966.18: while the ELR is off, the result is none or, without ``elr_off_forgets_last_known`` (Kafka), unchanged.
    """
    before = partition.last_known_leader
    if not t.on("last_known_leader"):
        return before.type.none() if t.on("elr_off_forgets_last_known") else before
    if t.on("last_known_leader_by_leader"):
        old_leader = before.type.some(where(partition.leader.is_some, partition.leader.value, NO_LEADER))
        remembered = where(before.is_none, old_leader, before)
        return where(writes_leader, where(leader.is_some, before.type.none(), remembered), before)
    if t.on("last_known_leader_kept"):
        old_leader = where(partition.leader.is_some, before.type.some(partition.leader.value), before)
    else:
        old_leader = before.type.some(where(partition.leader.is_some, partition.leader.value, NO_LEADER))
    remembers = isr_becomes_empty & (before != old_leader)
    return where(remembers, old_leader, where(leader.is_some, before.type.none(), before))


def after_min_isr_change(t: ControllerTypes, partition: StructValue, min_isr: Number) -> StructValue:
    """966.8. The record for a new effective min ISR; with enough ISR members, it empties ELR and last known ELR.

    The HWM may then advance without the ELR members, so they are no longer eligible. With
    ``min_isr_change_clears_elr`` every change empties both and clears the last known leader, whatever the ISR is.
    """
    record = t.record.zero()
    if t.on("min_isr_change_clears_elr"):
        return cleared(t, partition)
    if not t.on("min_isr_change_empties_elr"):
        return record
    reached, nobody = size(partition.isr) >= min_isr, t.brokers.zero()
    return record.replace(
        elr=written(t, "elr", reached & ~partition.elr.is_empty, nobody),
        last_known_elr=written(t, "last_known_elr", reached & ~partition.last_known_elr.is_empty, nobody),
    )


def cleared(t: ControllerTypes, partition: StructValue) -> StructValue:
    """The record that empties ELR, last known ELR and last known leader; empty if all are empty already."""
    known, elr, nobody = partition.last_known_leader, partition.last_known_elr, t.brokers.zero()
    concerned = ~partition.elr.is_empty | ~elr.is_empty | known.is_some
    return t.record.zero().replace(
        elr=written(t, "elr", concerned, nobody),
        last_known_elr=written(t, "last_known_elr", concerned, nobody),
        last_known_leader=written(t, "last_known_leader", concerned, known.type.none()),
    )
