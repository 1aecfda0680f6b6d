"""Unclean recovery: the controller collects the replicas' log infos and elects the best log (966.14).

A log info is a replica's answer to GetReplicaLogInfo. If no remaining replica is known to hold all committed records,
any election may lose some. An election by the order of replicas can pick a replica with few records; a comparison of
logs finds the replica with the most. The model leaves out the requests, which the controller repeats until it has an
answer. The controller keeps answers in memory only.
"""

from __future__ import annotations

from highwater.model.language import (
    Number,
    SetValue,
    State,
    StructValue,
    Truth,
    action,
    all_of,
    any_of,
    require,
    spend,
    total,
    under,
    where,
)  # fmt: skip
from highwater.model.replication import logs
from highwater.model.replication.cluster import Cluster
from highwater.model.replication.control import write_record
from highwater.model.replication.controller import elections, handlers
from highwater.model.replication.controller.types import RecoveryStrategy


@action("966.14", rule="unclean_recovery", says="broker {b} tells the controller of its log", b="broker")
def send_log_info(m: Cluster, s: State, b: Number) -> None:
    """A replica answers GetReplicaLogInfo: last leader epoch, log end offset, broker epoch and current leader epoch.

    The broker epoch identifies the incarnation that answers. The current leader epoch shows that the replica no longer
    follows a former leader.
    """
    require_recovery(m)
    broker = s.brokers[b]
    on_request = s.partition.leader.is_none & (s.budgets.elections > 0)
    require("the partition is in unclean recovery, or can be on request", recovers(m, s) | on_request)
    require("the broker is a replica that runs", m.is_up(broker) & s.partition.replicas.has(b))
    require("no answer is under way", s.log_infos_sent[b].is_none)
    require("the controller lacks it", ~has_answered(m, s, b))
    s.next.log_infos_sent[b] = m.log_info(
        broker_epoch=broker.epoch,
        leader_epoch=broker.view.leader_epoch,
        last_epoch=logs.last_epoch(m.some_epoch, broker.log),
        end=broker.log.length,
    )


@action("966.14", rule="unclean_recovery", says="the controller learns of broker {b}'s log", b="broker")
def take_log_info(m: Cluster, s: State, b: Number) -> None:
    """The controller handles a replica's log info. It drops a log info with a stale broker epoch or leader epoch.

    It also drops a log info if the partition has a leader.
    A former incarnation may have had a longer log. A replica in an earlier leader epoch may still truncate its log.
    """
    require_recovery(m)
    sent = s.log_infos_sent[b]
    require("an answer is under way", sent.is_some)
    counts = s.partition.leader.is_none & under("recovery_epoch_check", is_current(s, b, sent.value))
    s.next.log_infos[b] = where(counts, sent, s.log_infos[b])
    s.next.log_infos_sent[b] = None


@action("966.14", rule="unclean_recovery", says="the controller elects broker {b} by its log", b="broker")
def finish_recovery(m: Cluster, s: State, b: Number) -> None:
    """The controller elects the replica with the best log.

    Precondition: Balanced waits until every last known ELR member has answered; Aggressive needs one answer. While
    fewer than min ISR brokers have lost data, some last known ELR member holds all committed records. So Balanced then
    loses no committed record. Aggressive accepts a loss to restore a leader earlier.
    """
    require_recovery(m)
    require("the partition is in unclean recovery", recovers(m, s))
    if not m.p.unclean_election:
        require_answers(m, s)
    elect_longest_log(m, s, b, unfenced(m, s))


@action(
    "966.17",
    rule="unclean_recovery",
    says="the operator has broker {b} elected by its log (balanced: {balanced})",
    b="broker",
    balanced="balanced",
)
def elect_by_log(m: Cluster, s: State, b: Number, balanced: bool) -> None:
    """LONGEST_LOG_BALANCED, LONGEST_LOG_AGGRESSIVE: the operator requests recovery of a leaderless partition (966.17).

    BALANCED compares the logs of the last known ELR. It requires an empty ELR, because a fenced ELR member holds all
    committed records. AGGRESSIVE compares the logs of the unfenced replicas that have answered: a last known ELR
    member may never come back.
    """
    require_recovery(m)
    spend(s, "elections")
    partition = m.as_read(s)
    elections.request_checks(m.t, partition, balanced).require()
    require("there is unclean recovery", m.has_recovery(s))
    if balanced:
        require_answers(m, s)
    elect_longest_log(m, s, b, elections.compared_logs(partition, unfenced(m, s), balanced))


@action("966.14", says="the controller fails over")
def fail_over(m: Cluster, s: State) -> None:
    """The controller fails over: it loses the collected log infos, so a recovery starts again (966.14).

    All its other state is in the metadata log, so a failover has no other effect.
    """
    spend(s, "failovers")
    require_recovery(m)
    require("something is forgotten", any_of(s.log_infos[b].is_some for b in m.broker))
    forget_answers(m, s)


def elect_longest_log(m: Cluster, s: State, b: Number, candidates: SetValue) -> None:
    """966.14. Elect candidate ``b``, and drop the log infos. Preconditions: ``b`` is live and has the best log info.

    The best log info has the highest last leader epoch, then the longest log. The epoch comes first, because a longer
    log of an earlier epoch may end in records that a later leader overwrote.
    """
    require("the winner is a candidate that has answered", candidates.has(b) & has_answered(m, s, b))
    mine = s.log_infos[b].value
    outdone = any_of(
        candidates.has(r) & has_answered(m, s, r) & is_better(m, s.log_infos[r].value, mine) for r in m.broker
    )
    require("no answer is better", ~outdone)
    require("the winner is live", m.t.active(s.registrations).has(b))
    write_record(m, s, handlers.recover_uncleanly(m.context(s), b).record)
    forget_answers(m, s)


def recovers(m: Cluster, s: State) -> Truth:
    """966.13, 966.16. True if the controller may recover the partition by itself, under the scenario's strategy."""
    mapped = elections.mapped_strategy(m.p.unclean_election)
    strategy = mapped if m.p.recovers_by_itself else RecoveryStrategy.NONE
    keeps_last = ~m.has_elr(s) if m.elr_changes else False
    may = elections.may_recover(m.t, m.as_read(s), s.registrations, strategy, keeps_last)
    return may & m.has_recovery(s)


def is_current(s: State, b: Number, info: StructValue) -> Truth:
    """966.14. True if a log info has the registered broker epoch and the partition's leader epoch."""
    same_life = info.broker_epoch == s.registrations[b].epoch
    same_leader_epoch: Truth = info.leader_epoch == s.partition.leader_epoch
    return same_life & same_leader_epoch


def has_answered(m: Cluster, s: State, b: Number) -> Truth:
    """966.14. True if the controller has a current log info of broker ``b``."""
    info = s.log_infos[b]
    return info.is_some & under("recovery_answers_expire", is_current(s, b, info.value))


def unfenced(m: Cluster, s: State) -> SetValue:
    """966.14. The brokers whose log infos count: only live brokers (unfenced, not shutting down) can be elected.

    A fenced broker may never come back. The controller requests its log info nevertheless, and counts it once the
    broker is unfenced.
    """
    live = m.t.active(s.registrations)
    return m.t.brokers.of(lambda b: under("recovery_counts_unfenced", live.has(b)))


def require_answers(m: Cluster, s: State) -> None:
    """966.14. Require that every last known ELR member has answered, for a Balanced recovery.

    The proposal rejects the alternative to wait for min ISR answers: the replicas that answered can all lack committed
    records.
    """
    if m.on("recovery_waits_for_last_known_elr"):
        awaited = m.as_read(s).last_known_elr
        answered = all_of(~awaited.has(r) | has_answered(m, s, r) for r in m.broker)
        require("every last known ELR member has answered", answered)
    else:
        require(
            "min ISR replicas have answered", total(has_answered(m, s, r) for r in m.broker) >= m.min_isr(s)
        )


def is_better(m: Cluster, theirs: StructValue, mine: StructValue) -> Truth:
    """966.14. True if the log info ``theirs`` is better than ``mine``, under the rules that are on."""
    by_epoch, by_length = m.on("recovery_by_last_epoch"), m.on("recovery_by_length")
    return logs.is_better_log(theirs, mine, by_epoch, by_length, m.on("recovery_prefers_longer"))


def forget_answers(m: Cluster, s: State) -> None:
    """Drop the log infos that the controller has collected."""
    for b in m.broker:
        s.next.log_infos[b] = None


def require_recovery(m: Cluster) -> None:
    """Require that the scenario includes unclean recovery; most scenarios leave out its messages."""
    require("the scenario has unclean recovery", m.p.recovery)
