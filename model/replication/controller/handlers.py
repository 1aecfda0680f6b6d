"""The controller's handlers: each returns a request's checks in order, the record to append, and the answer's error.

A handler is a pure function of the context and the request. Explorations call it in an action; replay calls it on plain
values. Requests about brokers are in ``registrations``.
"""

from __future__ import annotations

from highwater.model.language import (
    ArrayValue,
    Checks,
    Enum,
    Number,
    SeqValue,
    SetValue,
    StructValue,
    Truth,
    size,
    where,
)
from highwater.model.language.containers import (
    any_element,
    ascending,
    every_element,
    first_of,
    has_no_two,
    is_distinct,
    members_of,
)
from highwater.model.replication.controller import elections
from highwater.model.replication.controller.partition_change import (
    RequestedChange,
    after_min_isr_change,
    cleared,
    effective_min_isr,
    is_empty_record,
    partition_change,
)
from highwater.model.replication.controller.types import (
    ControllerContext,
    ControllerTypes,
    ElectionType,
    Error,
    Handled,
    LeaderRecoveryState,
    unchecked,
)

# --- AlterPartition -----------------------------------------------------------------------------------------


def alter_partition(now: ControllerContext, request: StructValue) -> Handled:
    """B8. The controller handles a leader's AlterPartition.

    The leader decides the ISR, because it alone sees the fetches. The controller decides the effects: a member that
    leaves may enter the ELR (966.4), and a reassignment may complete (966.9).
    """
    checks, record = alter_partition_checks(now, request), now.decided(altered, request)
    carried_out = Handled(checks, record).appended(now.t)
    return Handled(checks, record, alter_partition_error(request, carried_out))


def altered(now: ControllerContext, request: StructValue) -> StructValue:
    """B8. The record of an AlterPartition whose checks passed, with the proposed ISR and recovery state."""
    ends_recovery = now.t.on("proposals_end_recovery")
    change = RequestedChange(
        now.election,
        isr=proposed_isr(now.t, request),
        leader_recovery_state=request.leader_recovery_state if ends_recovery else None,
    )
    return partition_change(now, change)


def proposed_isr(t: ControllerTypes, request: StructValue) -> SetValue:
    """The brokers in the proposed ISR of an AlterPartition."""
    members = request.new_isr
    return t.brokers.of(lambda b: any_element(members, lambda m: m.broker == b))


def alter_partition_checks(now: ControllerContext, request: StructValue) -> Checks:
    """B8, 841.2, 903.4. The checks of an AlterPartition, in Kafka's order.

    Request versions below 2 get other errors in some cases. Versions below 3 carry no broker epochs of members.
    """
    t, checks = now.t, Checks(Error.NONE, on=now.t.on)
    check, isr = checks.check, proposed_isr(t, request)
    partition, registrations = now.partition, now.registrations

    # The sender's incarnation: the log of a former incarnation may be lost.
    sender = registrations[request.broker]
    is_current = sender.registered & (sender.epoch == request.broker_epoch)
    stale, own = Error.STALE_BROKER_EPOCH, "sender_epoch_check"
    check("the sender's broker epoch is the registered one", is_current, stale, rule=own)
    unknown_topic = where(request.version >= 2, Error.UNKNOWN_TOPIC_ID, Error.UNKNOWN_TOPIC_OR_PARTITION)
    check("the topic exists", now.topic_known, unknown_topic)
    check("the partition exists", now.partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)

    # The partition's state: a former leader would add a replica to the ISR that the current leader does not wait for.
    # A later epoch than the partition's shows that the sender knows a newer controller.
    epoch, version = request.leader_epoch, request.partition_epoch
    led, changed, newer = "leader_epoch_check", "partition_epoch_check", Error.NOT_CONTROLLER
    check("the leader epoch is not from the future", epoch <= partition.leader_epoch, newer, rule=led)
    not_later = version <= partition.partition_epoch
    check("the partition epoch is not from the future", not_later, newer, rule=changed)
    fenced, outdated = Error.FENCED_LEADER_EPOCH, Error.INVALID_UPDATE_VERSION
    check("the leader epoch is current", epoch >= partition.leader_epoch, fenced, rule=led)
    leads, wrong = partition.leader.is_(request.broker), Error.INVALID_REQUEST
    check("the sender is the leader", leads, wrong, rule="sender_is_leader_check")
    check("the partition epoch is current", version >= partition.partition_epoch, outdated, rule=changed)

    # A valid ISR.
    valid = "valid_isr_check"
    of_replicas = every_element(request.new_isr, lambda m: partition.replicas.has(m.broker))
    check("the ISR is not empty", ~request.new_isr.is_empty, wrong, rule=valid)
    check("the ISR has every member once", has_no_two(request.new_isr, lambda m: m.broker), wrong, rule=valid)
    check("the ISR is made of replicas", of_replicas, wrong, rule=valid)
    check("the leader is in the ISR", isr.has(partition.leader), wrong, rule=valid)

    # An uncleanly elected leader is the only ISR member until it has recovered, and cannot return to recovering.
    state = "recovery_state_check"
    recovered = ~(request.leader_recovery_state == LeaderRecoveryState.RECOVERING)
    was_recovering = partition.leader_recovery_state == LeaderRecoveryState.RECOVERING
    check("a recovering leader is alone", recovered | (request.new_isr.length <= 1), wrong, rule=state)
    check("a recovered leader stays recovered", recovered | was_recovering, wrong, rule=state)

    # Eligible members. The leader's view lags: a member may have been fenced (841.2), or may have restarted without the
    # end of its log, under a broker epoch that the leader does not know (903.4).
    ineligible = where(request.version >= 2, Error.INELIGIBLE_REPLICA, Error.OPERATION_NOT_ATTEMPTED)
    eligible, known = isr <= t.active(registrations), "member_epoch_check"
    check("no member is fenced or shutting down", eligible, ineligible, rule="ineligible_replica_check")
    registered = every_element(
        request.new_isr, lambda m: m.epoch.is_none | (m.epoch.value == registrations[m.broker].epoch)
    )
    check("every member's broker epoch is the registered one", registered, ineligible, rule=known)
    return checks


def alter_partition_error(request: StructValue, record: StructValue) -> Number:
    """B8. The error in the answer to an accepted AlterPartition: NEW_LEADER_ELECTED if the sender no longer leads.

    The sender loses leadership if the ISR change completes a reassignment that removes it. Request versions below 2 get
    FENCED_LEADER_EPOCH instead. If the sender still leads, there is no error.
    """
    moved = record.leader.is_some & ~record.leader.value.is_(request.broker)
    error = where(request.version >= 2, Error.NEW_LEADER_ELECTED, Error.FENCED_LEADER_EPOCH)
    return where(moved, error, Error.NONE)


# --- elections ----------------------------------------------------------------------------------------------


def elect_leader(now: ControllerContext, election: Number) -> Handled:
    """966.17. The controller handles a PREFERRED or UNCLEAN election request."""
    record = now.decided(elected, election)
    nothing = is_empty_record(now.t, record)
    return Handled(
        elections.election_checks(now, election), record, elections.election_error(election, nothing)
    )


def elected(now: ControllerContext, election: Number) -> StructValue:
    """966.13. The record of an election of this type; empty if the election changes nothing."""
    return partition_change(now, RequestedChange(election))


def maybe_elect_unclean_leader(now: ControllerContext) -> Handled:
    """966.15, 966.16. The periodic task elects a leader uncleanly where the topic allows it and there is no leader.

    The task is needed if an operator enables unclean election after the partition lost its leader. No broker event
    triggers an election then.
    """
    due = now.partition.leader.is_none & now.unclean_election
    return unchecked(now.decided(_elected_if, ElectionType.UNCLEAN, due))


def maybe_balance_leader(now: ControllerContext) -> Handled:
    """966.17. The periodic task starts a PREFERRED election if the preferred replica does not lead."""
    due = ~elections.preferred_leads(now.partition)
    return unchecked(now.decided(_elected_if, ElectionType.PREFERRED, due))


def _elected_if(now: ControllerContext, election: Number, due: Truth) -> StructValue:
    return where(due, elected(now, election), now.t.record.zero())


def designate_leader(now: ControllerContext, winner: Number) -> Handled:
    """966.17. DESIGNATION: the operator names the leader of a partition without one."""
    return Handled(elections.request_checks(now.t, now.partition), now.decided(elections.recover, winner))


def recover_uncleanly(now: ControllerContext, winner: Number) -> Handled:
    """966.14. The replica ``winner`` becomes leader. The caller has compared the logs."""
    return unchecked(now.decided(elections.recover, winner))


# --- creation and reassignment ------------------------------------------------------------------------------


def new_partition(t: ControllerTypes, replicas: SeqValue, registrations: ArrayValue) -> StructValue:
    """B8. A new partition: its active replicas are the ISR, and the first of them leads."""
    isr = members_of(replicas, t.brokers) & t.active(registrations)
    return t.partition.zero().replace(replicas=replicas, isr=isr, leader=first_of(replicas, isr.has))


def new_partition_checks(
    t: ControllerTypes, replicas: SeqValue, registrations: ArrayValue, factor: Number
) -> Checks:
    """B8. The checks of a new partition's replicas.

    ``factor`` is the number of replicas of the topic's first partition; the new partition must have as many.
    """
    checks, wrong = Checks(Error.NONE), Error.INVALID_REPLICA_ASSIGNMENT
    checks.check("there is a replica", ~replicas.is_empty, wrong)
    checks.check(
        "every replica is registered", every_element(replicas, lambda r: registrations[r].registered), wrong
    )
    checks.check("every replica is there once", is_distinct(replicas), wrong)
    checks.check("all partitions have as many replicas", replicas.length == factor, wrong)
    alive = members_of(replicas, t.brokers) & t.active(registrations)
    checks.check("a replica is neither fenced nor shutting down", ~alive.is_empty, wrong)
    return checks


def reassign(now: ControllerContext, target: SeqValue, factor_may_change: Truth | bool = True) -> Handled:
    """966.9, 860.1. The controller handles a request to reassign the partition to the replicas ``target``.

    ``factor_may_change`` is true if the request allows another number of replicas.
    """
    return Handled(reassignment_checks(now, target, factor_may_change), now.decided(reassigned, target))


def reassignment_checks(
    now: ControllerContext, target: SeqValue, factor_may_change: Truth | bool = True
) -> Checks:
    """B8, 860.1. The checks of the replicas to which a partition is reassigned.

    ``factor_may_change`` is true if the request allows another number of replicas.
    """
    t, registrations = now.t, now.registrations
    checks, wrong = Checks(Error.NONE, on=t.on), Error.INVALID_REPLICA_ASSIGNMENT
    checks.check("the partition exists", now.partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)
    checks.check("the target has a replica", ~target.is_empty, wrong)
    checks.check(
        "every replica of the target is registered",
        every_element(target, lambda r: registrations[r].registered),
        wrong,
    )
    checks.check("the target has every replica once", is_distinct(target), wrong)
    factor_stays = size(_replicas_in_the_end(t, now.partition)) == target.length
    checks.check(
        "the replication factor stays, or may change",
        factor_may_change | factor_stays,
        Error.INVALID_REPLICATION_FACTOR,
        rule="replication_factor_check",
    )
    return checks


def _in_progress(partition: StructValue) -> Truth:
    return ~partition.adding.is_empty | ~partition.removing.is_empty


def _replicas_in_the_end(t: ControllerTypes, partition: StructValue) -> SetValue:
    """The final replicas of the reassignment in progress, or the current replicas if there is none."""
    replicas = members_of(partition.replicas, t.brokers)
    in_the_end = (replicas | partition.adding) - partition.removing
    return where(_in_progress(partition), in_the_end, replicas)


def reassigned(now: ControllerContext, target: SeqValue) -> StructValue:
    """966.9. The record that starts a reassignment, and completes it if possible.

    Removed replicas stay until the added ones are in the ISR: until then the added ones may lack committed records.
    The new replica list is the target, followed by the removed replicas. If the target removes no replica, the removing
    replicas of an earlier reassignment stay. If the target adds none, the earlier adding replicas stay.
    """
    t, partition = now.t, now.partition
    current, wanted = members_of(partition.replicas, t.brokers), members_of(target, t.brokers)
    removing, adding = current - wanted, wanted - current
    change = RequestedChange(
        replicas=target + ascending(removing, t.replicas),
        removing=where(removing.is_empty, partition.removing, removing),
        adding=where(adding.is_empty, partition.adding, adding),
    )
    return partition_change(now, change)


def cancel_reassignment(now: ControllerContext) -> Handled:
    """966.9. The controller handles the cancellation of a reassignment in progress."""
    return Handled(cancellation_checks(now), now.decided(cancelled))


def _isr_without_adding(t: ControllerTypes, partition: StructValue) -> tuple[SeqValue, SetValue]:
    """The replicas before the reassignment in progress, and the ISR without the adding replicas."""
    original = partition.replicas.filter(lambda r: ~partition.adding.has(r))
    return original, partition.isr - partition.adding


def cancellation_checks(now: ControllerContext) -> Checks:
    """966.9. The checks of a cancellation: a reassignment is in progress, and enough ISR members remain.

    The cancellation removes the adding replicas and their copies, so at least min ISR members must remain. With
    ``reassignment_needs_min_isr`` off, one member is enough, or none if unclean election is enabled.
    """
    t, partition = now.t, now.partition
    checks, too_few = Checks(Error.NONE, on=t.on), Error.INVALID_REPLICA_ASSIGNMENT
    checks.check("the partition exists", now.partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)
    checks.check("a reassignment is in progress", _in_progress(partition), Error.NO_REASSIGNMENT_IN_PROGRESS)
    original, left = _isr_without_adding(t, partition)
    enough = size(left) >= effective_min_isr(now.min_isr, original.length)
    checks.check("min ISR members are left in the ISR", enough, too_few, rule="reassignment_needs_min_isr")
    somebody = ~left.is_empty | now.unclean_election
    checks.check("a member is left in the ISR, or unclean election is enabled", somebody, too_few)
    return checks


def cancelled(now: ControllerContext) -> StructValue:
    """966.9. The record of a cancellation: adding replicas leave the replica list and the ISR; removing replicas stay.

    If this would empty the ISR, the first replica becomes its only member, whatever records that replica holds. With
    ``reassignment_needs_min_isr`` off, committed records can be lost that way.
    """
    t, partition = now.t, now.partition
    original, left = _isr_without_adding(t, partition)
    nobody, first = t.brokers.zero(), t.brokers.zero().with_(original.at(0))
    is_whole = t.on("cancellation_is_whole")
    change = RequestedChange(
        now.election,
        isr=where(left.is_empty, first, left),
        replicas=original,
        adding=nobody if is_whole else partition.adding,
        removing=nobody if is_whole else partition.removing,
    )
    return partition_change(now, change)


# --- log directories (KIP-858) ------------------------------------------------------------------------------


Directory = Enum("Directory", "NAMED UNASSIGNED LOST MIGRATING")
"""A replica's directory in metadata: a named one, or a reserved id."""


def is_online(directory: Number, listed: Truth, lists_any: Truth) -> Truth:
    """858.1. True if a replica's directory counts as online: it is UNASSIGNED, MIGRATING, or NAMED and listed.

    ``listed``: the broker's registration lists this directory. ``lists_any``: it lists at least one. Old registrations
    list none; then every NAMED directory counts as online.
    """
    unknown = (directory == Directory.UNASSIGNED) | (directory == Directory.MIGRATING)
    return unknown | ((directory == Directory.NAMED) & (listed | ~lists_any))


def names_default(listed: Number) -> Truth:
    """858.1. True if the controller knows a new replica's directory: its broker lists exactly one."""
    return listed == 1


def assign_directory(
    now: ControllerContext, broker: Number, broker_epoch: Number, changes: Truth | bool
) -> Handled:
    """858.1. The controller handles a broker's assignment of its replica to a directory.

    ``changes`` is true if the replica was in another directory.
    """
    return Handled(assignment_checks(now, broker, broker_epoch), now.decided(_assigned, changes))


def assignment_checks(now: ControllerContext, broker: Number, broker_epoch: Number) -> Checks:
    """858.1. The checks of a broker's assignment of its replica to a directory."""
    checks, registration = Checks(Error.NONE), now.registrations[broker]
    checks.check(
        "the broker epoch is the registered one",
        registration.registered & (registration.epoch == broker_epoch),
        Error.STALE_BROKER_EPOCH,
    )
    checks.check("the topic exists", now.topic_known, Error.UNKNOWN_TOPIC_ID)
    checks.check("the partition exists", now.partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)
    checks.check("the broker has a replica", now.partition.replicas.has(broker), Error.NOT_LEADER_OR_FOLLOWER)
    return checks


def _assigned(now: ControllerContext, changes: Truth | bool) -> StructValue:
    if now.t.on("assignment_empties_elr"):  # the record is built as if ELR were off
        now = now.under(now.t.without_elr())
    return partition_change(now, RequestedChange(assigns=changes))


# --- features and configuration -----------------------------------------------------------------------------


Resource = Enum("Resource", "TOPIC CLUSTER BROKER")
"""The owner of a configuration: a topic, all brokers, or one broker."""


def min_isr_checks(
    t: ControllerTypes, resource: Number, removes: Truth, valid: Truth | bool = True
) -> Checks:
    """KIP-966 in Kafka 4.2. The checks of a change of min.insync.replicas.

    ``removes``: the change removes the value. ``valid``: the value is a number above 0.
    The controller computes the ELR from the value, and the leader decides by it whether the HWM may advance. If one
    broker had its own value, controller and leader could use different values. The ELR could then have members that
    lack committed records.
    """
    checks, wrong, one_for_all = Checks(Error.NONE, on=t.on), Error.INVALID_CONFIG, "min_isr_is_the_clusters"
    removes_the_clusters = removes & (resource == Resource.CLUSTER)
    checks.check("no broker has a min ISR of its own", resource != Resource.BROKER, wrong, rule=one_for_all)
    checks.check("the cluster's min ISR is not removed", ~removes_the_clusters, wrong, rule=one_for_all)
    checks.check("the value is a number above 0", valid, wrong)
    return checks


def writes_cluster_min_isr(t: ControllerTypes, level: Number, cluster_has_one: Truth) -> Truth:
    """KIP-966 in Kafka 4.2. True if a change of eligible.leader.replicas.version also writes the cluster's min ISR.

    This happens if the new level is above 0, and the cluster has no min ISR.
    """
    return _makes_safe(t, level) & ~cluster_has_one


def removes_broker_min_isr(t: ControllerTypes, level: Number, broker_has_one: Truth) -> Truth:
    """KIP-966 in Kafka 4.2. True if a change of eligible.leader.replicas.version removes a broker's min ISR.

    This happens if the new level is above 0, and the broker has its own min ISR.
    """
    return _makes_safe(t, level) & broker_has_one


def _makes_safe(t: ControllerTypes, level: Number) -> Truth:
    return (level > 0) & t.on("min_isr_is_the_clusters")


def change_min_isr(now: ControllerContext) -> Handled:
    """966.8. The controller handles a change of min.insync.replicas; ``now`` has the new effective min ISR."""
    return unchecked(now.decided(_after_min_isr_change))


def _after_min_isr_change(now: ControllerContext) -> StructValue:
    return after_min_isr_change(now.t, now.partition, now.min_isr)


def change_elr_level(now: ControllerContext) -> Handled:
    """584.1. The controller handles a change of eligible.leader.replicas.version.

    Only with ``level_change_empties_elr`` the partition changes: its ELR, last known ELR and last known leader
    become empty.
    """
    empties = now.t.on("level_change_empties_elr")
    return unchecked(cleared(now.t, now.partition) if empties else now.t.record.zero())
