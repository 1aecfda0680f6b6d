"""The controller's actions: heartbeats, AlterPartition, operator requests, feature changes (B8).

``controller/`` decides, by pure functions of the controller's state; replay calls the same functions on recorded
values. The actions in this module define when the controller decides, and apply the resulting record. A partition
change and a registration in one batch of the metadata log are one action.
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
    any_of,
    as_bool,
    cases,
    one_of,
    require,
    spend,
    where,
)  # fmt: skip
from highwater.model.language.containers import ascending, members_of
from highwater.model.replication.cluster import Cluster, Outcome, is_the
from highwater.model.replication.controller import handlers, registrations
from highwater.model.replication.controller.partition_change import (
    cleared,
    effective_min_isr,
    is_empty_record,
    merge,
)
from highwater.model.replication.controller.types import ControllerContext, ElectionType, Error, Handled
from highwater.model.replication.features import RECOVERY_RULES
from highwater.model.replication.isr import REVERTS

P = ParamSpec("P")

# --- brokers ------------------------------------------------------------------------------------------------


@action("966.5", says="the controller fences broker {b}", b="broker")
def fence_broker(m: Cluster, s: State, b: Number) -> None:
    """The controller fences a broker whose session has ended: the broker is down or, as a fault, still runs.

    966.5: the broker leaves the ISR and loses its leadership. If the ISR is then under min ISR, the broker enters the
    ELR, because its log has all records committed so far.
    A fenced broker that runs is a zombie: it believes that it leads until it replays this change.
    """
    require("the broker is not fenced", ~s.registrations[b].fenced)
    left, up = s.budgets.fencings, m.is_up(s.brokers[b])
    require("the broker is down, or the scenario grants fencings", ~up | (left > 0))
    s.next.budgets.fencings = where(up, left - 1, left)
    write_record(m, s, electing(m, m.context(s), registrations.fence, b).record)
    s.next.registrations[b].fenced = True


@action("841.4, 966.5", says="the controller unfences broker {b}", b="broker")
def unfence_broker(m: Cluster, s: State, b: Number) -> None:
    """The controller unfences a broker at its heartbeat.

    Precondition: the broker has replayed its own registration; otherwise it would act on the view of a former
    incarnation.
    966.5: a partition without a leader elects one now. 841.4: the controller sends nothing to an existing leader. That
    leader adds the broker to the ISR when the broker has caught up.
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
    """The controller handles an AlterPartition; the first failing check determines the response.

    The leader's view may be stale. A proposed member can be fenced or shutting down (841.2). It can also have
    registered again, possibly with a shorter log (903.4). So the controller checks each member and may refuse the
    request. With ``again`` the network delivers the request a second time (F1).
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
    """B8. The result of the controller's handler for an AlterPartition from broker ``b``, in the state ``now``.

    The leader changes only if the request completes a reassignment.
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
    """Send an AlterPartition response. It is lost if the broker is down or has a new broker epoch."""
    reaches = m.is_up(s.brokers[b]) & (s.brokers[b].epoch == sent.broker_epoch)
    s.next.alter_responses[b] = where(reaches, m.some_alter_response.some(answer), None)


def proposed_members(m: Cluster, sent: StructValue) -> SeqValue:
    """903.3. The requested ISR as (broker id, broker epoch) pairs; no epoch (−1 in Kafka) if the request has none."""
    members = m.t.proposed_isr.zero()
    for b in m.broker:
        member = m.t.isr_member(broker=b, epoch=sent.epochs[b])
        members = where(sent.isr.has(b), members.append(member), members)
    return members


def answer_to(m: Cluster, sent: StructValue, error: Number, partition: StructValue) -> StructValue:
    """B8, 841.3. The AlterPartition response for ``error``; ``partition`` is the partition after the request.

    A change that completes a reassignment starts a new leader epoch. The response to such a change has the new epoch,
    which the sender does not know yet.
    """
    committed = error == Error.NONE
    return m.alter_response(
        leader_epoch=where(committed, partition.leader_epoch, sent.leader_epoch),
        outcome=cases(
            (committed, Outcome.COMMITTED),
            (any_of(error == name for name in REVERTS), Outcome.REVERT),
            otherwise=Outcome.KEEP,
        ),
        partition_epoch=partition.partition_epoch,
        isr=partition.isr,
    )


# --- the operator -------------------------------------------------------------------------------------------


@action("966.17", says="the operator asks for the preferred leader")
def elect_preferred_leader(m: Cluster, s: State) -> None:
    """PREFERRED: the operator requests the election of the first replica as leader (966.17).

    The election only balances load: the replica is elected only if a clean election can elect it.
    """
    spend(s, "elections")
    elect(m, s, m.context(s), ElectionType.PREFERRED)


@action("966.17", says="the operator asks for an unclean election")
def elect_uncleanly(m: Cluster, s: State) -> None:
    """UNCLEAN: the operator requests a leader for a leaderless partition, even from outside ISR and ELR (966.17).

    Committed records that the elected replica lacks are lost. With unclean recovery this election remains possible if
    the rule ``unclean_stays_an_option`` is on; otherwise the controller refuses it (966.17).
    """
    spend(s, "elections")
    require("the operator takes the risk", m.p.risky_elections)
    remains = m.on("unclean_stays_an_option")
    require("unclean elections are not done by recovery", ~m.has_recovery(s) | remains)
    now = m.context(s)
    if remains:
        now = now.each(lambda t: t.under(t.rules - RECOVERY_RULES))
    elect(m, s, now, ElectionType.UNCLEAN)


@action("966.17", rule="unclean_recovery", says="the operator designates broker {b} as leader", b="broker")
def designate_leader(m: Cluster, s: State, b: Number) -> None:
    """DESIGNATION: the operator names the new leader of a leaderless partition, a live replica (966.17).

    The operator may know which log to keep, or that the other replicas will not come back.
    """
    spend(s, "elections")
    require("the operator takes the risk", m.p.risky_elections)
    handled = handlers.designate_leader(m.context(s), b)
    handled.checks.require()
    require("the replica is live", ~is_empty_record(m.t, handled.record))
    write_record(m, s, handled.record)


@action("966.8", says="min.insync.replicas becomes {value}", value="min_isr_values")
def change_min_isr(m: Cluster, s: State, value: int) -> None:
    """The operator changes min.insync.replicas (966.8).

    If the ISR has at least as many members as the new min ISR, the HWM may advance (966.1) without the ELR members. So
    the controller empties the ELR in the same step. With ``min_isr_change_clears_elr`` (K7) it does so at every change.
    """
    spend(s, "min_isr_changes")
    s.next.min_insync_replicas = value
    effective = effective_min_isr(m.min_isr_config.lift(value), s.partition.replicas.length)
    record = handlers.change_min_isr(replace(m.context(s), min_isr=effective)).record
    require("it changes something", (s.min_insync_replicas != value) | ~is_empty_record(m.t, record))
    write_record(m, s, record)


@action("966.9", says="the operator reassigns the partition to {target}", target="targets")
def reassign(m: Cluster, s: State, target: Any) -> None:
    """The operator starts a reassignment (966.9).

    The reassignment completes when all added replicas are in the ISR and at least min ISR members of the ISR remain.
    Until then the partition has both the old and the new replicas, so that no replica leaves before another holds the
    log.
    """
    spend(s, "reassignments")
    handled = electing(m, m.context(s), handlers.reassign, target)
    handled.checks.require()
    require("it changes something", ~is_empty_record(m.t, handled.record))
    write_record(m, s, handled.record)


@action("966.9", says="the operator cancels the reassignment")
def cancel_reassignment(m: Cluster, s: State) -> None:
    """The operator cancels a reassignment that has not completed (966.9).

    The added replicas leave the replica list and the ISR. The remaining ISR must have at least min ISR members, as when
    a reassignment completes. Otherwise records committed with the added replicas could be on too few replicas.
    """
    spend(s, "reassignments")
    handled = electing(m, m.context(s), handlers.cancel_reassignment)
    handled.checks.require()
    write_record(m, s, handled.record)


# --- features that are turned on and off (966.18) -------------------------------------------------------------

# When a feature changes, the controller sends brokers nothing. Recorded ELR fields stay until the partition's next
# change, unless a rule clears them earlier (``turn_elr``).


@action("966.18", says="the metadata version is downgraded; the ELR feature ends")
def downgrade(m: Cluster, s: State) -> None:
    """The operator downgrades the metadata version; the ELR feature ends (966.18).

    The controller ignores the ELR fields from now on and clears them at the partition's next change. It no longer
    distinguishes clean from unclean shutdowns (966.12). Unclean recovery has its own flag. The HWM still stops under
    min ISR (966.1), because this is a rule of brokers and not part of a feature.
    """
    spend(s, "downgrades")
    require("the version has the ELR", s.elr_level)
    turn_elr(m, s, False)
    s.next.elr_level = False


@action("966.18, 584.1", says="the metadata version is upgraded; the ELR feature begins")
def upgrade(m: Cluster, s: State) -> None:
    """The operator upgrades the metadata version; the ELR feature begins (966.18).

    The ELR starts empty (``elr_begins_empty``), because the controller did not record which replicas held all committed
    records. With ``leftover_elr_elects`` (Kafka 4.2) upgrades spend no budget, so the version can rise again after
    each downgrade.
    """
    require("the version changes", m.level_changes)
    if not m.on("leftover_elr_elects"):
        spend(s, "upgrades")
    require("the version lacks the ELR", ~s.elr_level)
    turn_elr(m, s, s.elr_flag if m.p.flag_changes else True)
    s.next.elr_level = True


@action("966.18", says="eligible.leader.replicas.enabled is changed")
def change_elr_flag(m: Cluster, s: State) -> None:
    """The operator changes eligible.leader.replicas.enabled: the ELR begins or ends (966.18).

    The ELR begins only if the metadata version has it. The detection of clean shutdowns depends on the version alone.
    """
    spend(s, "flag_changes")
    turn_elr(m, s, ~s.elr_flag & s.elr_level if m.level_changes else ~s.elr_flag)
    s.next.elr_flag = ~s.elr_flag


@action("966.14, 966.18", rule="unclean_recovery", says="unclean.recovery.manager.enabled is changed")
def change_recovery_flag(m: Cluster, s: State) -> None:
    """The operator changes unclean.recovery.manager.enabled (966.14, 966.18).

    From then on unclean recovery replaces unclean election, or stops replacing it, whether the ELR is on or not. The
    controller drops the log infos that it has collected.
    """
    spend(s, "flag_changes")
    s.next.recovery_flag = ~s.recovery_flag
    if m.p.recovery:
        for b in m.broker:
            s.next.log_infos[b] = None


def turn_elr(m: Cluster, s: State, on: Truth | bool) -> None:
    """Clear the partition's ELR fields, if a rule requires this when the ELR is turned on or off.

    ``on`` is true if the ELR is on afterwards. With ``level_changes_with_leader`` the partition must have a leader. The
    caller changes the version or the flag.
    """
    require("every partition has a leader", s.partition.leader.is_some, rule="level_changes_with_leader")
    begins = on & ~m.has_elr(s)
    empties = as_bool(m.on("level_change_empties_elr")) | (begins & m.on("elr_begins_empty"))
    record = where(empties, cleared(m.t, s.partition), m.t.record.zero())
    partition = merged(m, s, record)
    s.next.partition = partition
    if m.remembers_whole:
        s.next.elr_is_whole = m.is_whole(s, partition) & on


# --- Late AlterPartitions, and a former controller ------------------------------------------------------------

# A leader waits for one response (B7). A request that it has abandoned can still arrive at the controller, and a
# request can arrive at a former controller. The epochs in the request and the commit of the metadata log keep the
# leader from a wrong ISR in both cases.


@action("B8, F1", says="the controller takes an AlterPartition that broker {b} has given up", b="broker")
def handle_late_proposal(m: Cluster, s: State, b: Number) -> None:
    """The controller handles an AlterPartition that its leader has abandoned; the response is lost (B8, F1).

    The request was on a stale connection while the leader sent newer requests. The controller applies the usual
    checks: a request from before the partition's last change has a stale partition epoch.
    """
    require("an AlterPartition can be late", m.p.late_proposals)
    late = s.late_proposals[b]
    require("one that was given up is under way", late.is_some)
    handled = decide_alter_partition(m, m.context(s), b, late.value)
    write_record(m, s, handled.appended(m.t))
    s.next.late_proposals[b] = None


@action("B8", says="another controller is elected; the controller before it does not know")
def replace_controller(m: Cluster, s: State) -> None:
    """Another controller is elected; the former controller does not know, and keeps its state (B8).

    Nothing that the former controller decides enters the metadata log.
    """
    require("a former controller can answer", m.p.former_controller)
    require("there is none yet", s.former.is_none)
    spend(s, "failovers")
    s.next.former = m.former_controller(partition=s.partition, registrations=s.registrations)


@action("B8", says="the former controller takes broker {b}'s AlterPartition", b="broker")
def answer_from_old_state(m: Cluster, s: State, b: Number) -> None:
    """The former controller handles a broker's AlterPartition by its own, stale state (B8).

    If a check fails, the former controller sends the error immediately. It never acknowledges a change, because a
    change must be in the metadata log first. Otherwise the leader could drop from its ISR a member that the active
    controller elects. The former controller answers one request: a leader without an answer looks for the active
    controller.
    """
    require("a former controller can answer", m.p.former_controller)
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
        require(
            "the answer is an error, or the request changes nothing",
            ~changes | (answer.outcome != Outcome.COMMITTED),
        )
    send_alter_answer(m, s, b, sent, answer)


# --- shared by the actions ------------------------------------------------------------------------------------


def write_record(m: Cluster, s: State, record: StructValue) -> StructValue:
    """Append a partition change to the metadata log, and return the partition after the change."""
    partition = merged(m, s, record)
    m.store(s, partition)
    return partition


def merged(m: Cluster, s: State, record: StructValue) -> StructValue:
    """The partition after this record. With K11 a guard disables the action if building the record throws in Kafka.

    If no rule depends on the order of replicas, the replicas are sorted, so that states do not differ by this order
    alone.
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
    """966.13, 966.15. The result of a handler that may elect a leader.

    If ``clean_election_picks_any`` or ``unclean_election_picks_any`` is on, the action has an instance for each broker
    that can be elected. Otherwise the handler elects by a fixed order (``elections``).
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
    """966.13. Elect a leader by an election of this type; the action is disabled if no leader can be elected.

    A clean election picks a live ISR member or, if the ISR is empty, a live ELR member. Each of them holds all
    committed records, so the controller need not compare logs.
    """
    handled = electing(m, now, handlers.elect_leader, election)
    handled.checks.require()
    require("someone can be elected", ~is_empty_record(m.t, handled.record))
    write_record(m, s, handled.record)
