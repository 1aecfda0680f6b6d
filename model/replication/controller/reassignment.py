"""Partitions come to be, and their replicas are reassigned; a reassignment that has not completed can be cancelled."""

from __future__ import annotations

from highwater.model.language import (
    ArrayValue,
    Checks,
    Number,
    SeqValue,
    SetValue,
    StructValue,
    Truth,
    size,
    where,
)
from highwater.model.language.sequences import (
    ascending,
    every_element,
    first_of,
    is_distinct,
    members_of,
)
from highwater.model.replication.controller.eligible_leader_replicas import effective_min_isr
from highwater.model.replication.controller.partition_change import partition_change
from highwater.model.replication.controller.situation import Situation
from highwater.model.replication.controller.types import Error, Terms


def new_partition(t: Terms, replicas: SeqValue, registrations: ArrayValue) -> StructValue:
    """B8. A partition as it is created: its active replicas are the ISR, and the first of them leads."""
    isr = members_of(replicas, t.brokers) & t.active(registrations)
    return t.partition.zero().replace(replicas=replicas, isr=isr, leader=first_of(replicas, isr.has))


def new_partition_checks(t: Terms, replicas: SeqValue, registrations: ArrayValue, factor: Number) -> Checks:
    """B8. Whether a partition can be created with these replicas; ``factor``: as many as the topic's first has."""
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


def reassignment_checks(
    t: Terms,
    target: SeqValue,
    registrations: ArrayValue,
    partition_known: Truth | bool = True,
    partition: StructValue | None = None,
    factor_may_change: Truth | bool = True,
) -> Checks:
    """B8, 860.1. Whether a list of replicas can be asked for; ``partition`` is asked for its replication factor."""
    checks, wrong = Checks(Error.NONE, on=t.on), Error.INVALID_REPLICA_ASSIGNMENT
    checks.check("the partition exists", partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)
    checks.check("the target has a replica", ~target.is_empty, wrong)
    checks.check(
        "every replica of the target is registered",
        every_element(target, lambda r: registrations[r].registered),
        wrong,
    )
    checks.check("the target has every replica once", is_distinct(target), wrong)
    if partition is not None:
        factor_stays = size(_replicas_in_the_end(t, partition)) == target.length
        checks.check(
            "the replication factor stays, or may change",
            factor_may_change | factor_stays,
            Error.INVALID_REPLICATION_FACTOR,
            rule="replication_factor_check",
        )
    return checks


def _in_progress(partition: StructValue) -> Truth:
    return ~partition.adding.is_empty | ~partition.removing.is_empty


def _replicas_in_the_end(t: Terms, partition: StructValue) -> SetValue:
    """The replicas that a partition has when the reassignment that is in progress, if any, is complete."""
    replicas = members_of(partition.replicas, t.brokers)
    in_the_end = (replicas | partition.adding) - partition.removing
    return where(_in_progress(partition), in_the_end, replicas)


def reassign(t: Terms, now: Situation, target: SeqValue) -> StructValue:
    """966.9. The record that starts a reassignment, or completes it at once.

    An operator asks. Who is to go stays a replica until the new ones are in the ISR, or its copies would be gone first.
    The replicas are the target and then those that are to go. What was being added or removed already stays
    so where the new target neither adds nor removes anything.
    """
    partition = now.partition
    current, wanted = members_of(partition.replicas, t.brokers), members_of(target, t.brokers)
    removing, adding = current - wanted, wanted - current
    return partition_change(
        t,
        now,
        replicas=target + ascending(removing, t.replicas),
        removing=where(removing.is_empty, partition.removing, removing),
        adding=where(adding.is_empty, partition.adding, adding),
    )


def _isr_without_adding(t: Terms, partition: StructValue) -> tuple[SeqValue, SetValue]:
    """The replicas before a reassignment, and those of the ISR that are among them."""
    original = partition.replicas.filter(lambda r: ~partition.adding.has(r))
    return original, partition.isr - partition.adding


def cancellation_checks(t: Terms, now: Situation, partition_known: Truth | bool = True) -> Checks:
    """966.9. Whether a reassignment can be cancelled: one is in progress, and enough of the ISR is left.

    Enough are min ISR members, as the adding replicas take their copies with them; with
    ``reassignment_needs_min_isr`` off one, and none where unclean election is enabled.
    """
    checks, too_few = Checks(Error.NONE, on=t.on), Error.INVALID_REPLICA_ASSIGNMENT
    checks.check("the partition exists", partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)
    partition = now.partition
    checks.check("a reassignment is in progress", _in_progress(partition), Error.NO_REASSIGNMENT_IN_PROGRESS)
    original, left = _isr_without_adding(t, partition)
    enough = size(left) >= effective_min_isr(now.min_isr, original.length)
    checks.check("min ISR members are left in the ISR", enough, too_few, rule="reassignment_needs_min_isr")
    somebody = ~left.is_empty | now.unclean_election
    checks.check("a member is left in the ISR, or unclean election is enabled", somebody, too_few)
    return checks


def cancel_reassignment(t: Terms, now: Situation) -> StructValue:
    """966.9. The record that cancels a reassignment: the adding replicas leave replicas and ISR, and nobody is to go.

    Where that empties the ISR, the first replica is put into it, whatever its log holds: that is how records are lost
    where ``reassignment_needs_min_isr`` is off.
    """
    partition = now.partition
    original, left = _isr_without_adding(t, partition)
    nobody, first = t.brokers.zero(), t.brokers.zero().with_(original.at(0))
    is_whole = t.on("cancellation_is_whole")
    return partition_change(
        t,
        now,
        now.election,
        isr=where(left.is_empty, first, left),
        replicas=original,
        adding=nobody if is_whole else partition.adding,
        removing=nobody if is_whole else partition.removing,
    )
