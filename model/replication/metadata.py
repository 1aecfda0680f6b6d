"""Brokers replay the metadata log: what a newer view makes of a leader and of a follower (B5, B8).

The controller does not tell brokers what to do. They read its log, each at its own pace, and act on what they find: a
broker that finds itself the leader begins to lead. Between two replays a broker is where it was: a leader that was
replaced long since appends, answers fetches, and would commit if the rules let it.
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
    """A broker comes to know all there is, or what was there when its metadata fetch was answered.

    It may skip what lies between: of two partition changes at once only the last one counts. A broker in controlled
    shutdown goes on with it (841.5): else it would lead on after its leadership has been moved.
    """
    broker = s.brokers[b]
    require("the broker runs", m.is_up(broker))
    if not m.on("listens_while_shutting_down"):
        require("it is not shutting down", broker.status == "RUNNING")
    if m.p.metadata_in_flight:
        require("a batch of metadata is under way", s.metadata[b].is_some)
        after = with_metadata(m, b, broker, s.metadata[b].value)
        s.next.metadata[b] = None
    else:
        after = with_metadata(m, b, broker, m.latest_view(s))
        require("there is something to replay", (after.view != broker.view) | broker.ahead)
    if not m.on("changes_are_no_stop_replica"):
        after = where(broker.status == "SHUTTING_DOWN", stopped_by(m, broker, after), after)
    advance_hwm(m, s, b, after)
    end_waiting(m, s, b, ~m.leads(b, after))


def stopped_by(m: Cluster, broker: StructValue, after: StructValue) -> StructValue:
    """841.5, rejected. A change of the partition, whatever it says, makes the replica neither lead nor follow."""
    changes = after.view.partition_epoch > broker.view.partition_epoch
    nothing = m.broker_type.zero()
    stopped = without_proposal(after).replace(
        view=after.view.replace(leader=None), leso=nothing.leso, followers=nothing.followers
    )
    return where(changes, stopped, after)


@action("B8", says="the controller sends broker {b} a batch of metadata", b="broker")
def send_metadata(m: Cluster, s: State, b: Number) -> None:
    """The answer to a metadata fetch: the log as it is now.

    While it is under way the broker hears more from elsewhere: the answer to an AlterPartition is quicker.
    """
    require("metadata travels in batches", bool(m.p.metadata_in_flight))
    require("the broker runs", m.is_up(s.brokers[b]))
    require("no batch is under way", s.metadata[b].is_none)
    latest = m.latest_view(s)
    require("there is something to send", latest != s.brokers[b].view)
    s.next.metadata[b] = latest


@dataclass(frozen=True)
class ReplayedMetadata:
    """The metadata that a broker replays, compared with what it knows."""

    view: StructValue
    """What it knows afterwards."""
    is_newer: Truth
    """The partition has changed since."""
    starts: Truth
    """A leader epoch starts that the broker did not know."""
    leads: Truth
    led: Truth
    """Whether the broker leads by this metadata, and led by what it knew before."""


def with_metadata(
    m: Cluster, b: Number, broker: StructValue, latest: StructValue, restarts: bool = False
) -> StructValue:
    """B8. A broker after it has replayed metadata, be it as it starts again.

    It becomes leader or remains leader, becomes follower, waits for a leader, or deletes its log.
    """
    news = news_of(b, broker, latest, restarts)
    after = forget_proposal(broker, latest, news).replace(view=news.view)
    if not m.on("divergence_check"):
        after = truncate_to_hwm(after, news)
    after = where(deletes_log(m, b, latest, news.view), delete_log(after), after)
    after = after.replace(flushed=least(after.flushed, after.log.length))
    # In its epoch a leader remains as it is: it knows where the epoch started.
    leader = where(news.starts, become_leader(after), after)
    after = where(news.leads, leader, follow_or_wait(after))
    return after.replace(followers=known_followers(m, broker, news))


def news_of(b: Number, broker: StructValue, latest: StructValue, restarts: bool) -> ReplayedMetadata:
    """What is new to a broker in the latest metadata; all of it to one that starts again."""
    newer = as_bool(True) if restarts else latest.partition_epoch > broker.view.partition_epoch
    new_epoch = as_bool(True) if restarts else latest.leader_epoch > broker.view.leader_epoch
    view = where(newer, latest, only_brokers_are_news(latest, broker.view))
    led = as_bool(False) if restarts else broker.view.leader.is_(b)
    return ReplayedMetadata(view, newer, newer & new_epoch, view.leader.is_(b), led)


def become_leader(broker: StructValue) -> StructValue:
    """B5. A leader notes where its epoch starts: at its LEO (the LESO)."""
    return broker.replace(leso=broker.log.length)


def follow_or_wait(broker: StructValue) -> StructValue:
    """A broker that does not lead follows the leader, or waits for one.

    It truncates its log when its fetch is answered (B3), not before.
    """
    return broker.replace(leso=0)


def truncate_to_hwm(broker: StructValue, news: ReplayedMetadata) -> StructValue:
    """Before KIP-101 a new follower truncated at once, to its own HWM, which lags: what was committed could go."""
    follows = news.starts & ~news.leads & news.view.leader.is_some
    return broker.replace(log=where(follows, broker.log.truncate(broker.hwm), broker.log))


def delete_log(broker: StructValue) -> StructValue:
    """966.9. A broker that is no replica any more deletes its log."""
    return broker.replace(log=broker.log.truncate(0), hwm=0)


def forget_proposal(broker: StructValue, latest: StructValue, news: ReplayedMetadata) -> StructValue:
    """B7. A proposal is for one partition epoch: with a newer one it is decided, or void. A follower has none."""
    repeated = broker.ahead & (latest.partition_epoch == broker.view.partition_epoch)
    kept = where(news.is_newer | ~news.leads | repeated, without_proposal(broker), broker)
    return kept.replace(ahead=broker.ahead & ~news.is_newer & ~repeated)


def deletes_log(m: Cluster, b: Number, latest: StructValue, view: StructValue) -> Truth:
    """966.9. Whether a broker deletes its log: it finds that it is no replica any more, running or as it starts.

    While it is only being removed it can still be elected, and the reassignment can be cancelled. Should it be added
    again it begins with nothing; that its old fetches count no more is the new leader epoch's doing (B8).
    """
    if not m.p.reassignments:
        return as_bool(False)
    stays = view.replicas.has(b)
    return ~stays if m.on("removed_replicas_delete") else ~stays | latest.removing.has(b)


def only_brokers_are_news(latest: StructValue, known: StructValue) -> StructValue:
    """A view whose partition is not older than the metadata: only what is about brokers and configuration is news.

    A leader's view of its partition can be ahead of what it replays, by the answer to its AlterPartition.
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
    """A leader that waits for no answer any more; its ISR is the committed one."""
    return broker.replace(proposed=None, proposed_epochs=broker.proposed_epochs.type.zero())


def known_followers(m: Cluster, broker: StructValue, news: ReplayedMetadata) -> ArrayValue:
    """B5. What a broker knows of its followers after it has replayed metadata: nothing, in a new leader epoch.

    A fetch of an earlier epoch says where the follower was before it truncated to this leader's log, perhaps with
    records that are not ours. A leader that counted it would commit what the follower lacks, or let it join too soon.
    Kafka keeps what it knows where the leader is elected anew and saw no other in between, and waits for a fetch in
    the new epoch before the follower may join; the HWM it takes from before.
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
