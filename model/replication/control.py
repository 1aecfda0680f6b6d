"""The controller: what it does by itself, for brokers' requests, and for the operator (B8).

What it decides is stated in ``controller/``, as pure functions of what it knows: they are the same whether an
exploration takes the step, or a recorded one is replayed. Here is when it decides, and what it does with the record
that comes out. A change of the partition and of a registration that belong together are one batch of the log, so they
are one step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec

from highwater.model.language import (
    Number,
    SeqValue,
    State,
    StructValue,
    Truth,
    action,
    as_bool,
    cases,
    one_of,
    require,
    spend,
    where,
)  # fmt: skip
from highwater.model.language.containers import ascending, members_of
from highwater.model.replication import features
from highwater.model.replication.cluster import Cluster, Outcome, is_the
from highwater.model.replication.controller import handlers, registrations
from highwater.model.replication.controller.partition_change import (
    cleared,
    effective_min_isr,
    is_empty_record,
    merge,
)
from highwater.model.replication.controller.types import ControllerContext, ElectionType, Error, Handled

P = ParamSpec("P")

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
    write_record(m, s, electing(m, m.context(s), registrations.fence, b).record)
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
    write_record(m, s, electing(m, m.context(s), registrations.unfence, b).record)
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
    handled = decide_alter_partition(m, m.context(s), b, sent)
    partition = write_record(m, s, handled.appended(m.t))
    send_alter_answer(m, s, b, sent, answer_to(m, sent, handled.answer, partition))
    if again:
        spend(s, "duplicates")
    else:
        s.next.alter_requests[b] = None


def decide_alter_partition(m: Cluster, now: ControllerContext, b: Number, sent: StructValue) -> Handled:
    """B8. What a controller in this context makes of a request: it looks at it as the handler does.

    The sender leads on, and nobody is elected, unless its change completes a reassignment.
    """
    request = m.t.alter_partition(
        version=where(is_the(b, m.p.old_proposer), 2, 3),
        broker=b,
        broker_epoch=sent.broker_epoch,
        leader_epoch=sent.leader_epoch,
        partition_epoch=sent.partition_epoch,
        new_isr=proposed_members(m, sent),
        leader_recovery_state="RECOVERED",
    )
    if m.p.reassignments:
        return electing(m, now, handlers.alter_partition, request)
    return handlers.alter_partition(now, request)


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
    elect(m, s, m.context(s), ElectionType.PREFERRED)


@action("966.17", says="the operator asks for an unclean election")
def elect_uncleanly(m: Cluster, s: State) -> None:
    """UNCLEAN: any live replica, where there is no leader. What it lacks is lost; the operator chose so.

    It stays an option of the tool with unclean recovery in place; else the replicas are asked for their logs first.
    """
    spend(s, "elections")
    require("the operator takes the risk", bool(m.p.risky_elections))
    remains = m.on("unclean_stays_an_option")
    require("unclean elections are not done by recovery", ~m.has_recovery(s) | remains)
    now = m.context(s)
    if remains:
        now = now.each(lambda t: t.under(t.rules - features.RECOVERY_RULES))
    elect(m, s, now, ElectionType.UNCLEAN)


@action("966.17", rule="unclean_recovery", says="the operator designates broker {b} as leader", b="broker")
def designate_leader(m: Cluster, s: State, b: Number) -> None:
    """DESIGNATION: this live replica, where there is no leader.

    The operator may know which log is the one to keep, or that no other will ever come back.
    """
    spend(s, "elections")
    require("the operator takes the risk", bool(m.p.risky_elections))
    handled = handlers.designate_leader(m.context(s), b)
    handled.checks.require()
    require("the replica is live", ~is_empty_record(m.t, handled.record))
    write_record(m, s, handled.record)


@action("966.8", says="min.insync.replicas becomes {value}", value="min_isr_values")
def change_min_isr(m: Cluster, s: State, value: int) -> None:
    """A change of min.insync.replicas.

    Where it opens the gate of the HWM (966.1) the ELR must go in the same step: its members lack what is committed
    from now on.
    """
    spend(s, "min_isr_changes")
    s.next.min_insync_replicas = value
    effective = effective_min_isr(m.min_isr_config.lift(value), s.partition.replicas.length)
    record = handlers.change_min_isr(replace(m.context(s), min_isr=effective)).record
    require("it changes something", (s.min_insync_replicas != value) | ~is_empty_record(m.t, record))
    write_record(m, s, record)


@action("966.9", says="the operator reassigns the partition to {target}", target="targets")
def reassign(m: Cluster, s: State, target: Any) -> None:
    """A reassignment starts; it completes when the ISR allows it.

    Until then old and new replicas are replicas, so that nobody has to leave before another one holds the log.
    """
    spend(s, "reassignments")
    handled = electing(m, m.context(s), handlers.reassign, target)
    handled.checks.require()
    require("it changes something", ~is_empty_record(m.t, handled.record))
    write_record(m, s, handled.record)


@action("966.9", says="the operator cancels the reassignment")
def cancel_reassignment(m: Cluster, s: State) -> None:
    """A reassignment that has not completed is taken back.

    The replicas that were being added go, out of the ISR too. What is left of it must have min ISR members, as at a
    completion: else what was committed while they counted could be left on too few.
    """
    spend(s, "reassignments")
    handled = electing(m, m.context(s), handlers.cancel_reassignment)
    handled.checks.require()
    write_record(m, s, handled.record)


# --- features that are turned on and off (966.18) -------------------------------------------------------------

# Nothing is told to brokers, and no partition changes by it: what is recorded of the ELR is there until the next
# change.


@action("966.18", says="the metadata version is downgraded; the ELR feature ends")
def downgrade(m: Cluster, s: State) -> None:
    """The ELR fields are ignored from now on, and vanish with the next change of the partition.

    Clean shutdowns are told from unclean ones no more (966.12); unclean recovery has a flag of its own. The
    gate of the HWM stays (966.18): it is a rule of brokers, behind no feature.
    """
    spend(s, "downgrades")
    require("the version has the ELR", s.elr_level)
    turn_elr(m, s, False)
    s.next.elr_level = False


@action("966.18, 584.1", says="the metadata version is upgraded; the ELR feature begins")
def upgrade(m: Cluster, s: State) -> None:
    """The ELR starts empty, and is recorded from the next change on: nobody knows who held everything until now.

    In Kafka 4.2 it is the level of the feature that goes up, as often as it has gone down.
    """
    require("the version changes", features.level_changes(m.p))
    if not m.on("leftover_elr_elects"):
        spend(s, "upgrades")
    require("the version lacks the ELR", ~s.elr_level)
    turn_elr(m, s, s.elr_flag if m.p.flag_changes else True)
    s.next.elr_level = True


@action("966.18", says="eligible.leader.replicas.enabled is changed")
def change_elr_flag(m: Cluster, s: State) -> None:
    """The ELR ends, or begins, and nothing else: clean shutdowns go by the metadata version."""
    spend(s, "flag_changes")
    turn_elr(m, s, ~s.elr_flag & s.elr_level if features.level_changes(m.p) else ~s.elr_flag)
    s.next.elr_flag = ~s.elr_flag


@action("966.14, 966.18", rule="unclean_recovery", says="unclean.recovery.manager.enabled is changed")
def change_recovery_flag(m: Cluster, s: State) -> None:
    """Unclean recovery takes the place of unclean election, or does no more, with the ELR or without it.

    What was asked of replicas is forgotten.
    """
    spend(s, "flag_changes")
    s.next.recovery_flag = ~s.recovery_flag
    if m.p.recovery:
        for b in m.broker:
            s.next.log_infos[b] = None


def turn_elr(m: Cluster, s: State, on: Truth | bool) -> None:
    """The ELR begins, ends, or is as it was: whether it is on from now on."""
    require("every partition has a leader", s.partition.leader.is_some, rule="level_changes_with_leader")
    begins = on & ~features.has_elr(m, s)
    empties = as_bool(m.on("level_change_empties_elr")) | (begins & m.on("elr_begins_empty"))
    record = where(empties, cleared(m.t, s.partition), m.t.record.zero())
    partition = merged(m, s, record)
    s.next.partition = partition
    if features.remembers_whole(m):
        s.next.elr_is_whole = features.is_whole(m, s, partition) & on


# --- AlterPartitions that their leader does not wait for ------------------------------------------------------

# A leader waits for one answer (B7). What it has given up can still arrive at the controller, and what it has sent can
# arrive at a controller that is none any more. Epochs in the request, and the metadata log, have to see to it that
# neither makes the leader believe what is not so.


@action("B8, F1", says="the controller takes an AlterPartition that broker {b} has given up", b="broker")
def handle_late_proposal(m: Cluster, s: State, b: Number) -> None:
    """It waited on a connection that is gone, beside what the leader has sent since. Its answer reaches nobody.

    The checks are those of any request. A proposal from before the last change of the partition has its epoch (B8).
    """
    require("an AlterPartition can be late", bool(m.p.late_proposals))
    late = s.late_proposals[b]
    require("one that was given up is under way", late.is_some)
    handled = decide_alter_partition(m, m.context(s), b, late.value)
    write_record(m, s, handled.appended(m.t))
    s.next.late_proposals[b] = None


@action("B8", says="another controller is elected; the controller before it does not know")
def replace_controller(m: Cluster, s: State) -> None:
    """What the former one knows is what it knew: nothing that it decides comes into the metadata log any more."""
    require("a former controller can answer", bool(m.p.former_controller))
    require("there is none yet", s.former.is_none)
    spend(s, "failovers")
    s.next.former = m.former_controller(partition=s.partition, registrations=s.registrations)


@action("B8", says="the former controller takes broker {b}'s AlterPartition", b="broker")
def answer_from_old_state(m: Cluster, s: State, b: Number) -> None:
    """It refuses at once, by what it knew. What it would change waits for the metadata log, and is never answered.

    An answer before that would take a member out of the leader's ISR that the real controller elects. It answers once
    for each failover: a leader that gets nowhere looks for the controller anew.
    """
    require("a former controller can answer", bool(m.p.former_controller))
    require("there is one", s.former.is_some)
    require("a request is under way", s.alter_requests[b].is_some)
    require("no answer is under way", s.alter_responses[b].is_none)
    sent, former = s.alter_requests[b].value, s.former.value
    now = replace(m.context(s), partition=former.partition, registrations=former.registrations)
    handled = decide_alter_partition(m, now, b, sent)
    record = handled.appended(m.t)
    s.next.alter_requests[b] = None
    s.next.former = None
    answer = answer_to(m, sent, handled.answer, merge(m.t, former.partition, record))
    if m.on("answers_are_committed"):
        changes = ~is_empty_record(m.t, record)
        require("it refuses, or nothing is to be changed", ~changes | (answer.outcome != Outcome.COMMITTED))
    send_alter_answer(m, s, b, sent, answer)


# --- what all of them do ------------------------------------------------------------------------------------


def write_record(m: Cluster, s: State, record: StructValue) -> StructValue:
    """Append a change of the partition to the metadata log; the partition after it."""
    partition = merged(m, s, record)
    features.store(m, s, partition)
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


def electing(
    m: Cluster,
    now: ControllerContext,
    handler: Callable[Concatenate[ControllerContext, P], Handled],
    *request: P.args,
    **more: P.kwargs,
) -> Handled:
    """966.13, 966.15. A handler's result, where it can elect a leader: if any of several can be, one of them is.

    There is a step for each that can; where nobody new is elected, there is one.
    """
    if not m.picks:
        return handler(now, *request, **more)
    picked = one_of("elected", m.broker)
    handled = handler(now.each(lambda t: t.picking(picked)), *request, **more)
    leader = handled.record.leader.value
    comes = handled.record.leader.is_some & leader.is_some
    require("the elected broker is the picked one", where(comes, leader.value == picked, picked == 0))
    return handled


def elect(m: Cluster, s: State, now: ControllerContext, election: Number) -> None:
    """966.13. An election of this kind, where it elects someone.

    Who may be elected is up to the kind: without a word from the operator only who surely holds all that is committed,
    an ISR member that is live or, where the ISR is empty, an ELR member. Nobody is asked for its log: ISR and ELR are
    kept so that this need not be.
    """
    handled = electing(m, now, handlers.elect_leader, election)
    handled.checks.require()
    require("someone can be elected", ~is_empty_record(m.t, handled.record))
    write_record(m, s, handled.record)
