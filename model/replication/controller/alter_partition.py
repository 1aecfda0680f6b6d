"""AlterPartition: a leader asks the controller for another ISR."""

from __future__ import annotations

from highwater.model.language import Checks, Number, SetValue, StructValue, Truth, any_of, where
from highwater.model.language.sequences import any_element, every_element
from highwater.model.replication.controller.partition_change import partition_change
from highwater.model.replication.controller.situation import Situation
from highwater.model.replication.controller.types import Error, LeaderRecoveryState, Terms


def proposed_isr(t: Terms, request: StructValue) -> SetValue:
    """The brokers of the ISR that a request proposes."""
    members = request.new_isr
    return t.brokers.of(lambda b: any_element(members, lambda m: m.broker == b))


def alter_partition_checks(
    t: Terms,
    request: StructValue,
    now: Situation,
    topic_known: Truth | bool = True,
    partition_known: Truth | bool = True,
) -> Checks:
    """B8, 841.2, 903.4. What the controller looks at before it changes a partition, in this order.

    Older request versions know fewer errors, and none below version 3 carries the members' epochs.
    """
    checks = Checks(Error.NONE, on=t.on)
    check, isr = checks.check, proposed_isr(t, request)
    partition, registrations = now.partition, now.registrations

    # Is the sender who it says it is? A request of a broker's former life was made from a log that may be gone.
    sender = registrations[request.broker]
    is_current = sender.registered & (sender.epoch == request.broker_epoch)
    check(
        "the sender's broker epoch is the registered one",
        is_current,
        Error.STALE_BROKER_EPOCH,
        rule="sender_epoch_check",
    )
    unknown_topic = where(request.version >= 2, Error.UNKNOWN_TOPIC_ID, Error.UNKNOWN_TOPIC_OR_PARTITION)
    check("the topic exists", topic_known, unknown_topic)
    check("the partition exists", partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)

    # Does it speak of the partition as it is? One who does not lead any more would put a replica into the ISR that
    # the leader does not wait for. An epoch from the future: the sender has heard of a newer controller.
    leader_epoch, partition_epoch = partition.leader_epoch, partition.partition_epoch
    check(
        "the leader epoch is not from the future",
        request.leader_epoch <= leader_epoch,
        Error.NOT_CONTROLLER,
        rule="leader_epoch_check",
    )
    check(
        "the partition epoch is not from the future",
        request.partition_epoch <= partition_epoch,
        Error.NOT_CONTROLLER,
        rule="partition_epoch_check",
    )
    check(
        "the leader epoch is current",
        request.leader_epoch >= leader_epoch,
        Error.FENCED_LEADER_EPOCH,
        rule="leader_epoch_check",
    )
    check(
        "the sender is the leader",
        partition.leader.is_(request.broker),
        Error.INVALID_REQUEST,
        rule="sender_is_leader_check",
    )
    check(
        "the partition epoch is current",
        request.partition_epoch >= partition_epoch,
        Error.INVALID_UPDATE_VERSION,
        rule="partition_epoch_check",
    )

    # Is it an ISR at all?
    wrong, valid = Error.INVALID_REQUEST, "valid_isr_check"
    of_replicas = every_element(request.new_isr, lambda m: partition.replicas.has(m.broker))
    check("the ISR is not empty", ~request.new_isr.is_empty, wrong, rule=valid)
    check("the ISR has every member once", _distinct(request), wrong, rule=valid)
    check("the ISR is made of replicas", of_replicas, wrong, rule=valid)
    check("the leader is in the ISR", isr.has(partition.leader), wrong, rule=valid)

    # A leader that was elected uncleanly is alone until it has recovered, and does not go back to it by itself.
    state = "recovery_state_check"
    recovered = ~(request.leader_recovery_state == LeaderRecoveryState.RECOVERING)
    was_recovering = partition.leader_recovery_state == LeaderRecoveryState.RECOVERING
    check("a recovering leader is alone", recovered | (request.new_isr.length <= 1), wrong, rule=state)
    check("a recovered leader stays recovered", recovered | was_recovering, wrong, rule=state)

    # May its members be in an ISR? The leader's view lags: a member may have been fenced since (841.2), or have come
    # back without the end of its log, under a broker epoch that the leader has not heard of (903.4).
    ineligible = where(request.version >= 2, Error.INELIGIBLE_REPLICA, Error.OPERATION_NOT_ATTEMPTED)
    check(
        "no member is fenced or shutting down",
        isr <= t.active(registrations),
        ineligible,
        rule="ineligible_replica_check",
    )
    check(
        "every member's broker epoch is the registered one",
        every_element(
            request.new_isr, lambda m: m.epoch.is_none | (m.epoch.value == registrations[m.broker].epoch)
        ),
        ineligible,
        rule="member_epoch_check",
    )
    return checks


def _distinct(request: StructValue) -> Truth:
    members = request.new_isr
    twice = any_of(
        (members.length > later) & (members.at(earlier).broker == members.at(later).broker)
        for later in range(members.type.maximum)
        for earlier in range(later)
    )
    return ~twice


def alter_partition(
    t: Terms,
    request: StructValue,
    now: Situation,
    reorders: Truth | bool = False,
) -> StructValue:
    """B8. The record for a request that passed the checks: the proposed ISR and recovery state are the target.

    The leader decides who is in its ISR, as it alone sees the fetches; the controller decides what follows from it:
    a member that leaves may enter the ELR (966.4), a reassignment may complete (966.9).

    ``reorders``: it has the members of the ISR in another order.
    """
    return partition_change(
        t,
        now,
        now.election,
        isr=proposed_isr(t, request),
        leader_recovery_state=request.leader_recovery_state if t.on("proposals_end_recovery") else None,
        reorders=reorders,
    )


def alter_partition_error(request: StructValue, record: StructValue) -> Number:
    """What a sender is told whose request was carried out: an error where it does not lead any more.

    That happens when its ISR change completes a reassignment that takes the leader out of the replicas.
    """
    moved = record.leader.is_some & ~record.leader.value.is_(request.broker)
    error = where(request.version >= 2, Error.NEW_LEADER_ELECTED, Error.FENCED_LEADER_EPOCH)
    return where(moved, error, Error.NONE)
