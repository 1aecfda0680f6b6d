"""The controller: what it does by itself, for brokers' requests, and for the operator (B8).

What it decides is stated in ``controller/``, as pure functions of what it knows: they are the same whether an
exploration takes the step, or a recorded one is replayed. Here is when it decides, and what it does with the record
that comes out. A change of the partition and of a registration that belong together are one batch of the log, so they
are one step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from highwater.model.language import (
    ArrayValue,
    Number,
    SeqValue,
    State,
    StructValue,
    action,
    cases,
    one_of,
    require,
    spend,
    where,
)  # fmt: skip
from highwater.model.language.sequences import ascending, members_of
from highwater.model.replication import levels, versions
from highwater.model.replication.cluster import Cluster, Outcome
from highwater.model.replication.controller import (
    alter_partition,
    brokers,
    elections,
    reassignment,
    unclean_recovery,
)  # fmt: skip
from highwater.model.replication.controller.eligible_leader_replicas import (
    after_min_isr_change,
    effective_min_isr,
)  # fmt: skip
from highwater.model.replication.controller.partition_change import is_empty_record, merge, partition_change
from highwater.model.replication.controller.types import ElectionType, Error, Terms

# --- brokers ------------------------------------------------------------------------------------------------


@action("966.5", says="the controller fences broker {b}", b="broker")
def fence_broker(m: Cluster, s: State, b: Number) -> None:
    """A broker's session ends: because it is down, or (a fault) although it runs.

    The broker leaves the ISR, and leads no more; if that leaves the ISR under min ISR it enters the ELR, as it holds
    what is committed up to now. A fenced broker that runs is a zombie. It takes itself for the leader until it
    replays this.
    """
    require("the broker is not fenced", ~s.registrations[b].fenced)
    left, up = s.budgets.fencings, m.is_up(s.brokers[b])
    require("the broker is down, or the scenario grants fencings", ~up | (left > 0))
    s.next.budgets.fencings = where(up, left - 1, left)
    write_record(m, s, on_broker(m, s, b, brokers.on_fencing))
    s.next.registrations[b].fenced = True


@action("841.4, 966.5", says="the controller unfences broker {b}", b="broker")
def unfence_broker(m: Cluster, s: State, b: Number) -> None:
    """A heartbeat of a broker that has replayed its own registration.

    Before that it would act on a view from its former life. A partition without a leader elects one now, perhaps this
    broker; where there is a leader nothing is sent to it: it takes the broker in when that has caught up (841.4).
    """
    broker, registration = s.brokers[b], s.registrations[b]
    require("the broker is fenced", registration.fenced)
    require("the broker runs", broker.status == "RUNNING")
    require("the broker's epoch is the registered one", broker.epoch == registration.epoch)
    require("the broker has replayed its registration", broker.view.epochs[b] == registration.epoch)
    write_record(m, s, on_broker(m, s, b, brokers.on_unfencing))
    s.next.registrations[b].fenced = False


# --- AlterPartition -----------------------------------------------------------------------------------------


@action("841.2, 903.4", says="the controller takes broker {b}'s AlterPartition", b="broker", again="again")
def handle_alter_partition(m: Cluster, s: State, b: Number, again: bool) -> None:
    """Checks in order; the first that fails is the answer. An answer to a stopped process is lost.

    The leader proposed by its view, and the controller may know better: that a member is fenced or shutting down
    (841.2), or has registered anew since the leader heard of it, perhaps with less in its log (903.4). So it looks
    again, and refuses. With ``again`` the request will arrive a second time.
    """
    require("a request is under way", s.alter_requests[b].is_some)
    require("no answer is under way", s.alter_responses[b].is_none)
    sent = s.alter_requests[b].value
    error, record = decide_alter_partition(m, s, b, sent, s.partition, s.registrations)
    partition = write_record(m, s, record)
    send_alter_answer(m, s, b, sent, answer_to(m, sent, error, partition))
    if again:
        spend(s, "duplicates")
    else:
        s.next.alter_requests[b] = None


def decide_alter_partition(
    m: Cluster, s: State, b: Number, sent: StructValue, partition: StructValue, registrations: ArrayValue
) -> tuple[Number, StructValue]:
    """B8. What a controller that knows this partition and these registrations makes of a request: error and record."""
    request = m.t.alter_partition(
        version=where(versions.is_the(b, m.p.old_proposer), 2, 3),
        broker=b,
        broker_epoch=sent.broker_epoch,
        leader_epoch=sent.leader_epoch,
        partition_epoch=sent.partition_epoch,
        new_isr=proposed_members(m, sent),
        leader_recovery_state="RECOVERED",
    )
    now = replace(m.situation(s), partition=partition, registrations=registrations)
    checks = alter_partition.alter_partition_checks(m.t, request, now)
    # The sender leads on, unless its change completes a reassignment.
    decided = elected if m.p.reassignments else Cluster.decided
    wanted = decided(m, s, lambda t: alter_partition.alter_partition(t, request, now))
    record = where(checks.passed, wanted, m.t.record.zero())
    return where(checks.passed, alter_partition.alter_partition_error(request, record), checks.answer), record


def send_alter_answer(m: Cluster, s: State, b: Number, sent: StructValue, answer: StructValue) -> None:
    """An answer reaches the process that asked; to another incarnation it is lost with the connection."""
    reaches = m.is_up(s.brokers[b]) & (s.brokers[b].epoch == sent.broker_epoch)
    s.next.alter_responses[b] = where(reaches, m.some_alter_response.some(answer), None)


def proposed_members(m: Cluster, sent: StructValue) -> SeqValue:
    """903.3. The ISR as the request carries it: (broker id, broker epoch) of each member, −1 where none is given."""
    members = m.t.proposed_isr.zero()
    for b in m.broker:
        member = m.t.isr_member(broker=b, epoch=sent.epochs[b])
        members = where(sent.isr.has(b), members.append(member), members)
    return members


def answer_to(m: Cluster, sent: StructValue, error: Number, partition: StructValue) -> StructValue:
    """B8, 841.3. The answer to an AlterPartition, of the partition as it is after it.

    A refused member is no reason to wait: the leader goes back to its last committed ISR. Of the other errors it
    learns what to do from the metadata log. A change can end the leader epoch: a reassignment that completes does.
    Its answer is of the new one, which the sender does not know yet.
    """
    committed = error == Error.NONE
    return m.alter_response(
        leader_epoch=where(committed, partition.leader_epoch, sent.leader_epoch),
        outcome=cases(
            (committed, Outcome.COMMITTED),
            (
                (error == Error.INELIGIBLE_REPLICA) | (error == Error.OPERATION_NOT_ATTEMPTED),
                Outcome.REVERT,
            ),
            otherwise=Outcome.KEEP,
        ),
        partition_epoch=partition.partition_epoch,
        isr=partition.isr,
    )


# --- the operator -------------------------------------------------------------------------------------------


@action("966.17", says="the operator asks for the preferred leader")
def elect_preferred_leader(m: Cluster, s: State) -> None:
    """PREFERRED: the first replica, where it may lead.

    It is for balance only: it elects nobody who could not be elected anyway.
    """
    spend(s, "elections")
    elections.election_checks(s.partition, ElectionType.PREFERRED).require()
    elect(m, s, ElectionType.PREFERRED)


@action("966.17", says="the operator asks for an unclean election")
def elect_uncleanly(m: Cluster, s: State) -> None:
    """UNCLEAN: any live replica, where there is no leader. What it lacks is lost; the operator chose so.

    It stays an option of the tool with unclean recovery in place; else the replicas are asked for their logs first.
    """
    spend(s, "elections")
    require("the operator takes the risk", bool(m.p.risky_elections))
    elections.election_checks(s.partition, ElectionType.UNCLEAN).require()
    remains = m.on("unclean_stays_an_option")
    require("unclean elections are not done by recovery", ~m.has_recovery(s) | remains)
    elect(m, s, ElectionType.UNCLEAN, without=levels.RECOVERY_RULES if remains else frozenset())


@action("966.17", rule="unclean_recovery", says="the operator designates broker {b} as leader", b="broker")
def designate_leader(m: Cluster, s: State, b: Number) -> None:
    """DESIGNATION: this live replica, where there is no leader.

    The operator may know which log is the one to keep, or that no other will ever come back.
    """
    spend(s, "elections")
    require("the operator takes the risk", bool(m.p.risky_elections))
    unclean_recovery.request_checks(m.t, s.partition).require()
    record = m.decided(s, lambda t: unclean_recovery.recover(t, m.situation(s), b))
    require("the replica is live", ~is_empty_record(m.t, record))
    write_record(m, s, record)


@action("966.8", says="min.insync.replicas becomes {value}", value="min_isr_values")
def change_min_isr(m: Cluster, s: State, value: int) -> None:
    """A change of min.insync.replicas.

    Where it opens the gate of the HWM (966.1) the ELR must go in the same step: its members lack what is committed
    from now on.
    """
    spend(s, "min_isr_changes")
    s.next.min_insync_replicas = value
    effective = effective_min_isr(m.min_isr_config.lift(value), s.partition.replicas.length)
    record = m.decided(s, lambda t: after_min_isr_change(t, s.partition, effective))
    require("it changes something", (s.min_insync_replicas != value) | ~is_empty_record(m.t, record))
    write_record(m, s, record)


@action("966.9", says="the operator reassigns the partition to {target}", target="targets")
def reassign(m: Cluster, s: State, target: Any) -> None:
    """A reassignment starts; it completes when the ISR allows it.

    Until then old and new replicas are replicas, so that nobody has to leave before another one holds the log.
    """
    spend(s, "reassignments")
    reassignment.reassignment_checks(m.t, target, s.registrations).require()
    record = elected(m, s, lambda t: reassignment.reassign(t, m.situation(s), target))
    require("it changes something", ~is_empty_record(m.t, record))
    write_record(m, s, record)


@action("966.9", says="the operator cancels the reassignment")
def cancel_reassignment(m: Cluster, s: State) -> None:
    """A reassignment that has not completed is taken back.

    The replicas that were being added go, out of the ISR too. What is left of it must have min ISR members, as at a
    completion: else what was committed while they counted could be left on too few.
    """
    spend(s, "reassignments")
    now = m.situation(s)
    reassignment.cancellation_checks(m.t, now).require()
    record = elected(m, s, lambda t: reassignment.cancel_reassignment(t, now))
    write_record(m, s, record)


# --- what all of them do ------------------------------------------------------------------------------------


def write_record(m: Cluster, s: State, record: StructValue) -> StructValue:
    """Append a change of the partition to the metadata log; the partition after it."""
    partition = merged(m, s, record)
    levels.store(m, s, partition)
    return partition


def merged(m: Cluster, s: State, record: StructValue) -> StructValue:
    """The partition after a record. With K11 there is no step where building the record fails.

    Where nothing goes by the order of the replicas they stand in that of the brokers, so that no two states differ by
    it alone.
    """
    if m.on("unassigned_candidate_fails"):
        require("no candidate for leader is a broker that is no replica", ~record.fails)
    after = merge(m.t, s.partition, record)
    if m.holds_in_order and m.p.reassignments:
        after = after.replace(replicas=ascending(members_of(after.replicas, m.t.brokers), m.t.replicas))
    return after


def on_broker(m: Cluster, s: State, b: Number, rule: Callable[..., StructValue]) -> StructValue:
    """The record by which a rule about a broker changes the partition as it is."""
    return elected(m, s, lambda t: rule(t, m.situation(s), b))


def elected(m: Cluster, s: State, rule: Callable[[Terms], StructValue]) -> StructValue:
    """966.13, 966.15. The record of a rule that can elect a leader; where any of several can be, of one of them.

    There is a step for each that can; where nobody new is elected, there is one.
    """
    if not m.picks:
        plain: StructValue = m.decided(s, rule)
        return plain
    picked = one_of("elected", m.broker)
    record: StructValue = m.decided(s, lambda t: rule(t.picking(picked)))
    leader = record.leader.value
    comes = record.leader.is_some & leader.is_some
    require("the one who is picked is elected", where(comes, leader.value == picked, picked == 0))
    return record


def elect(m: Cluster, s: State, election: Number, without: frozenset[str] = frozenset()) -> None:
    """966.13. An election of this kind, where it elects someone; ``without`` are rules that it leaves aside.

    Who may be elected is up to the kind: without a word from the operator only who surely holds all that is committed,
    an ISR member that is live or, where the ISR is empty, an ELR member. Nobody is asked for its log: ISR and ELR are
    kept so that this need not be.
    """

    def rule(t: Terms) -> StructValue:
        return partition_change(t.under(t.rules - without), m.situation(s), election)

    record = elected(m, s, rule)
    require("someone can be elected", ~is_empty_record(m.t, record))
    write_record(m, s, record)
