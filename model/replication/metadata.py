"""Brokers replay the metadata log: they lead, follow, wait for a leader, or delete their log (B5, B8).

The controller sends no commands. Each broker reads the metadata log at its own pace and acts on it. Between two
replays a broker keeps its role: a replaced leader still appends records, answers fetches, and commits if the rules
allow it.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater.model.language import (
    ArrayValue,
    Number,
    State,
    StructValue,
    Truth,
    action,
    as_bool,
    least,
    require,
    where,
)  # fmt: skip
from highwater.model.replication.clients import end_waiting
from highwater.model.replication.cluster import Cluster
from highwater.model.replication.high_watermark import advance_hwm


@action("B8", says="broker {b} replays the metadata log", b="broker")
def replay_metadata(m: Cluster, s: State, b: Number) -> None:
    """A broker replays the metadata log up to its end, or up to the batch that it received (``metadata_in_flight``).

    The broker may skip intermediate changes, because only the last of several changes counts.
    841.5: a broker in controlled shutdown goes on replaying. Otherwise it would lead on after its leadership has
    moved.
    """
    broker = s.brokers[b]
    require("the broker runs", m.is_up(broker))
    if not m.on("listens_while_shutting_down"):
        require("it is not shutting down", broker.status == "RUNNING")
    if m.p.metadata_in_flight:
        require("a batch of metadata is under way", s.metadata[b].is_some)
        after = with_metadata(m, b, broker, news_of(b, broker, s.metadata[b].value))
        s.next.metadata[b] = None
    else:
        after = with_metadata(m, b, broker, news_of(b, broker, m.latest_view(s)))
        require("there is something to replay", (after.view != broker.view) | broker.ahead)
    if not m.on("changes_are_no_stop_replica"):
        after = where(broker.status == "SHUTTING_DOWN", stopped_by(m, broker, after), after)
    advance_hwm(m, s, b, after)
    end_waiting(m, s, b, ~m.leads(b, after))


def stopped_by(m: Cluster, broker: StructValue, after: StructValue) -> StructValue:
    """841.5. The broker after a partition change during its shutdown, if the change acts as a StopReplica.

    The broker then neither leads nor follows. KIP-841 rejects this alternative.
    """
    changes = after.view.partition_epoch > broker.view.partition_epoch
    nothing = m.broker_type.zero()
    stopped = without_proposal(after).replace(
        view=after.view.replace(leader=None), leso=nothing.leso, followers=nothing.followers
    )
    return where(changes, stopped, after)


@action("B8", says="the controller sends broker {b} a batch of metadata", b="broker")
def send_metadata(m: Cluster, s: State, b: Number) -> None:
    """The controller answers a metadata fetch with the log up to its current end.

    Precondition: no batch to the broker is in flight, and the broker has not replayed the whole log.
    While the batch is in flight, the broker can learn of later changes from an AlterPartition response.
    """
    require("metadata travels in batches", m.p.metadata_in_flight)
    require("the broker runs", m.is_up(s.brokers[b]))
    require("no batch is under way", s.metadata[b].is_none)
    latest = m.latest_view(s)
    require("there is something to send", latest != s.brokers[b].view)
    s.next.metadata[b] = latest


@dataclass(frozen=True)
class ReplayedMetadata:
    """The metadata that a broker replays, compared with the broker's view before the replay."""

    latest: StructValue
    """The replayed metadata."""
    view: StructValue
    """The broker's view after the replay."""
    is_newer: Truth
    """The replayed partition epoch is later than that of the previous view."""
    starts: Truth
    """The replayed leader epoch is later than that of the previous view."""
    leads: Truth
    """The new view names the broker as leader."""
    led: Truth
    """The previous view named the broker as leader."""


def with_metadata(m: Cluster, b: Number, broker: StructValue, news: ReplayedMetadata) -> StructValue:
    """B8. A broker after it has replayed metadata.

    A broker that is no longer a replica deletes its log. Any other broker becomes or remains leader, follows a leader,
    or waits for one.
    """
    after = forget_proposal(broker, news).replace(view=news.view)
    if not m.on("divergence_check"):
        after = truncate_to_hwm(after, news)
    after = where(deletes_log(m, b, news), delete_log(after), after)
    after = after.replace(flushed=least(after.flushed, after.log.length))
    leader = where(news.starts, become_leader(after), remain_leader(after))
    after = where(news.leads, leader, follow_or_wait(after))
    return after.replace(followers=known_followers(m, broker, news))


def news_of(b: Number, broker: StructValue, latest: StructValue) -> ReplayedMetadata:
    """The comparison of the metadata ``latest``, which broker ``b`` replays, with the broker's view."""
    newer = latest.partition_epoch > broker.view.partition_epoch
    new_epoch = latest.leader_epoch > broker.view.leader_epoch
    view = where(newer, latest, only_brokers_are_news(latest, broker.view))
    led = broker.view.leader.is_(b)
    return ReplayedMetadata(latest, view, newer, newer & new_epoch, view.leader.is_(b), led)


def news_at_start(b: Number, latest: StructValue) -> ReplayedMetadata:
    """The metadata that a starting broker replays: all of it is new, and the broker did not lead before."""
    new = as_bool(True)
    return ReplayedMetadata(latest, latest, new, new, latest.leader.is_(b), as_bool(False))


def become_leader(broker: StructValue) -> StructValue:
    """B5. A new leader sets its leader epoch start offset (LESO) to its LEO."""
    return broker.replace(leso=broker.log.length)


def remain_leader(broker: StructValue) -> StructValue:
    """A leader that stays in its leader epoch keeps its state, including its LESO."""
    return broker


def follow_or_wait(broker: StructValue) -> StructValue:
    """A broker that does not lead follows the leader, or waits for one.

    It truncates its log when its first fetch is answered (B3), not now.
    """
    return broker.replace(leso=0)


def truncate_to_hwm(broker: StructValue, news: ReplayedMetadata) -> StructValue:
    """A new follower truncates its log to its own HWM, as before KIP-101.

    The HWM lags, so the follower can lose committed records.
    """
    follows = news.starts & ~news.leads & news.view.leader.is_some
    return broker.replace(log=where(follows, broker.log.truncate(broker.hwm), broker.log))


def delete_log(broker: StructValue) -> StructValue:
    """966.9. A broker that is no longer a replica deletes its log."""
    return broker.replace(log=broker.log.truncate(0), hwm=0)


def forget_proposal(broker: StructValue, news: ReplayedMetadata) -> StructValue:
    """B7. Drop a broker's pending proposal if the replayed partition epoch is newer, or if the broker no longer leads.

    With ``proposal_outlives_known_metadata`` off, metadata that repeats an AlterPartition response also drops the
    proposal.
    """
    repeated = broker.ahead & (news.latest.partition_epoch == broker.view.partition_epoch)
    kept = where(news.is_newer | ~news.leads | repeated, without_proposal(broker), broker)
    return kept.replace(ahead=broker.ahead & ~news.is_newer & ~repeated)


def deletes_log(m: Cluster, b: Number, news: ReplayedMetadata) -> Truth:
    """966.9. True if a broker, running or on restart, learns that it is no longer a replica.

    A broker that a reassignment is still removing keeps its log: it can be elected, and the reassignment can be
    cancelled. If the broker is added again later, it starts with an empty log. The leader ignores the broker's old
    fetches, because the removal ended the leader epoch (B8).
    """
    if not m.p.reassignments:
        return as_bool(False)
    stays = news.view.replicas.has(b)
    return ~stays if m.on("removed_replicas_delete") else ~stays | news.latest.removing.has(b)


def only_brokers_are_news(latest: StructValue, known: StructValue) -> StructValue:
    """A view with the brokers and configuration of the metadata ``latest`` and the partition of the view ``known``.

    A leader's partition can be ahead of the metadata that it replays, because of an AlterPartition response.
    """
    return latest.replace(
        leader=known.leader,
        leader_epoch=known.leader_epoch,
        partition_epoch=known.partition_epoch,
        isr=known.isr,
        replicas=known.replicas,
        removing=known.removing,
    )


def without_proposal(broker: StructValue) -> StructValue:
    """The broker without a pending proposal; its maximal ISR is then the committed ISR."""
    return broker.replace(proposed=None, proposed_epochs=broker.proposed_epochs.type.zero())


def known_followers(m: Cluster, broker: StructValue, news: ReplayedMetadata) -> ArrayValue:
    """B5. A broker's fetch state of its followers after a replay.

    It is empty if the broker does not lead, or leads in a new epoch. A fetch of an earlier epoch has the follower's LEO
    from before the follower truncated to this leader's log. A leader that counted such a fetch could commit records
    that the follower lacks, or add the follower to the ISR too early.
    If the same leader is elected again, Kafka keeps the fetch state. The HWM then uses the old LEOs, but a follower can
    join the ISR only after a fetch in the new epoch.
    """
    if not m.on("fetch_state_per_epoch"):
        return broker.followers
    forgets = news.starts if m.on("re_election_forgets_fetches") else news.starts & ~news.led

    def known_of(f: Number) -> StructValue:
        known = broker.followers[f]
        known = known.replace(in_epoch=known.in_epoch & ~news.starts)
        known = where(~news.leads | forgets, m.fetch_state.zero(), known)
        if m.on("hwm_waits_for_caught_up"):  # in a new epoch ISR members count as caught up
            caught_up = where(news.starts, news.view.isr.has(f), known.caught_up) & news.leads
            known = known.replace(caught_up=caught_up)
        return known

    return m.followers.of(known_of)
