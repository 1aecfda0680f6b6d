"""Brokers replay the metadata log: what a newer view makes of a leader and of a follower (B5, B8).

The controller does not tell brokers what to do. They read its log, each at its own pace, and act on what they find: who
finds itself the leader begins to lead. Between two replays a broker is where it was: a leader that was replaced long
since appends, answers fetches, and would commit if the rules let it.
"""

from __future__ import annotations

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
from highwater.model.replication.leadership import settle


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
    settle(m, s, b, after)
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


def with_metadata(
    m: Cluster, b: Number, broker: StructValue, latest: StructValue, restarts: bool = False
) -> StructValue:
    """B8. A broker after it has replayed metadata, be it as it starts again.

    It finds itself leader or follower, in a new leader epoch or still in the one that it knows. A new leader notes
    where its epoch starts: at its LEO (the LESO). A follower of a new epoch truncates when its fetch is answered
    (B3); before KIP-101 it did at once, to its own HWM, which lags: what was committed could go.
    """
    newer = as_bool(True) if restarts else latest.partition_epoch > broker.view.partition_epoch
    new_epoch = as_bool(True) if restarts else latest.leader_epoch > broker.view.leader_epoch
    view = where(newer, latest, only_brokers_are_news(latest, broker.view))
    leads, starts = view.leader.is_(b), newer & new_epoch
    repeated = broker.ahead & (latest.partition_epoch == broker.view.partition_epoch)
    followers = followers_after(m, b, broker, view, starts, restarts)
    log = broker.log
    if not m.on("divergence_check"):
        log = where(starts & ~leads & view.leader.is_some, log.truncate(broker.hwm), log)
    deleted = deletes_log(m, b, latest, view)
    log = where(deleted, log.truncate(0), log)
    # A proposal is for one partition epoch: with a newer one it is decided, or void (B7).
    kept = where(newer | ~leads | repeated, without_proposal(broker), broker)
    return kept.replace(
        view=view,
        log=log,
        flushed=least(broker.flushed, log.length),
        hwm=where(deleted, 0, broker.hwm),
        leso=where(leads, where(starts, log.length, broker.leso), 0),
        followers=followers,
        ahead=broker.ahead & ~newer & ~repeated,
    )


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


def followers_after(
    m: Cluster, b: Number, broker: StructValue, view: StructValue, starts: Truth, restarts: bool
) -> ArrayValue:
    """B5. What a broker knows of its followers after it has replayed metadata: nothing, in a new leader epoch.

    A fetch of an earlier epoch says where the follower was before it truncated to this leader's log, perhaps with
    records that are not ours. A leader that counted it would commit what the follower lacks, or let it join too soon.
    Kafka keeps what it knows where the leader is elected anew and saw no other in between, and waits for a fetch in
    the new epoch before the follower may join; the HWM it takes from before.
    """
    if not m.on("fetch_state_per_epoch"):
        return broker.followers
    leads, forgets = view.leader.is_(b), starts
    if not (m.on("re_election_forgets_fetches") or restarts):
        forgets = starts & ~broker.view.leader.is_(b)

    def known_of(f: Number) -> StructValue:
        known = broker.followers[f]
        known = known.replace(in_epoch=known.in_epoch & ~starts)
        known = where(~leads | forgets, m.fetch_state.zero(), known)
        if m.on("hwm_waits_for_caught_up"):  # in a new epoch ISR members count as caught up
            known = known.replace(caught_up=where(starts, view.isr.has(f), known.caught_up) & leads)
        return known

    return m.followers.of(known_of)
