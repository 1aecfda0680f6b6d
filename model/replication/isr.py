"""The ISR grows and shrinks: leaders propose, the controller decides (B5, B7, 841, 903).

The leader sees who keeps up; the controller sees who lives. So the leader asks, with an AlterPartition, one at a
time, and counts with both ISRs until it is answered. The controller writes the change to its log, or refuses.
"""

from __future__ import annotations

from highwater.model.language import (
    ArrayValue,
    Number,
    Option,
    OptionValue,
    SetValue,
    State,
    StructValue,
    Truth,
    action,
    all_of,
    cases,
    require,
    size,
    spend,
    under,
    where,
)  # fmt: skip
from highwater.model.replication.cluster import Cluster, Outcome, is_the
from highwater.model.replication.high_watermark import advance_hwm
from highwater.model.replication.logs import has_caught_up
from highwater.model.replication.metadata import without_proposal


@action(
    "B5, 841.1, 903.2", says="leader {leader} proposes broker {f} for the ISR", leader="broker", f="broker"
)
def propose_expand(m: Cluster, s: State, leader: Number, f: Number) -> None:
    """A follower has caught up. The proposed ISR counts for the HWM at once (B7).

    The controller may have accepted, and may elect the follower, before the leader hears of it. If the HWM did not wait
    for it from now on, the new leader could lack what was committed meanwhile.
    """
    broker = s.brokers[leader]
    require("the broker takes itself for the leader", m.leads(leader, broker))
    require("nothing is proposed", broker.proposed.is_none)
    require("the follower is outside the ISR", (leader != f) & ~broker.view.isr.has(f))
    require("the follower is a replica", broker.view.replicas.has(f))
    require("the follower is eligible", is_eligible(m, broker, f))
    advance_hwm(m, s, leader, propose(m, s, leader, broker, broker.view.isr.with_(f)))


def is_eligible(m: Cluster, leader: StructValue, f: Number) -> Truth:
    """B5, 841.1, 903.2. Whether a leader may propose a follower for its ISR.

    It has to hold all that is committed, or it could be elected without it. The HWM of a new leader lags behind that,
    but its log does not: all that earlier leaders have committed is before its LESO. So the follower has reached
    both. And it must be the same life of the broker that the controller would take in: one that restarts may come
    back with less.
    """
    known, view = leader.followers[f], leader.view
    leo = where(known.leo.is_some, known.leo.value, 0)
    return all_of(
        [
            known.leo.is_some,
            # Where what was fetched in an earlier epoch is still known, it must have fetched in this one.
            m.on("re_election_forgets_fetches") | known.in_epoch,
            has_caught_up(leo, leader.hwm, leader.leso, m.on("join_at_hwm"), m.on("join_at_epoch_start")),
            under("proposed_replica_eligible_check", view.active.has(f)),
            under("proposed_broker_epoch_check", known.broker_epoch == view.epochs[f])
            | is_the(f, m.p.old_fetcher),
        ]
    )


@action("B7", says="leader {leader} proposes to take broker {f} out of the ISR", leader="broker", f="broker")
def propose_shrink(m: Cluster, s: State, leader: Number, f: Number) -> None:
    """A follower lags. The ISR counts as it is until the controller has answered (B7).

    Until then the follower can still be elected, so the HWM goes on waiting for it. Without the shrink a follower that
    does not fetch would stop the partition for ever. When it has lagged long enough is up to the leader's clock.
    """
    broker = s.brokers[leader]
    require("the broker takes itself for the leader", m.leads(leader, broker))
    require("nothing is proposed", broker.proposed.is_none)
    require("the follower is in the ISR", (leader != f) & broker.view.isr.has(f))
    require("the follower lags", lags(broker, f))
    spend(s, "shrinks")
    proposing = propose(m, s, leader, broker, broker.view.isr.without(f))
    known = broker.followers[f].replace(caught_up=False)
    advance_hwm(m, s, leader, proposing.replace(followers=broker.followers.set(f, known)))


@action("B7", says="leader {leader} proposes {isr} for the ISR", leader="broker", isr="isrs")
def propose_isr(m: Cluster, s: State, leader: Number, isr: SetValue) -> None:
    """Several members at once: Kafka takes out in one request all that lag, and no rule asks for one at a time.

    The leader answers for each: who joins is eligible, who leaves lags.
    """
    require("a proposal can change several members", bool(m.p.many_at_once))
    broker = s.brokers[leader]
    require("the broker takes itself for the leader", m.leads(leader, broker))
    require("nothing is proposed", broker.proposed.is_none)
    joining, leaving = isr - broker.view.isr, broker.view.isr - isr
    require("several members change", size(joining | leaving) > 1)
    require("the leader stays", isr.has(leader))
    require("who joins is a replica", joining <= broker.view.replicas)
    eligible = all_of(~joining.has(f) | is_eligible(m, broker, f) for f in m.broker)
    require("who joins is eligible", eligible)
    require("who leaves lags", all_of(~leaving.has(f) | lags(broker, f) for f in m.broker))
    left = s.budgets.shrinks
    require("the scenario grants shrinks", leaving.is_empty | (left > 0))
    s.next.budgets.shrinks = where(leaving.is_empty, left, left - 1)
    proposing = propose(m, s, leader, broker, isr)
    followers = m.followers.of(
        lambda f: where(leaving.has(f), broker.followers[f].replace(caught_up=False), broker.followers[f])
    )
    advance_hwm(m, s, leader, proposing.replace(followers=followers))


def lags(leader: StructValue, f: Number) -> Truth:
    """Whether a follower is not at the leader's log end, as far as the leader has heard."""
    known = leader.followers[f]
    return known.leo.is_none | (known.leo.value < leader.log.length)


@action("841.3, 903.3", says="leader {leader} sends its AlterPartition again", leader="broker")
def retry_alter_partition(m: Cluster, s: State, leader: Number) -> None:
    """A proposal without an answer, or with one that says nothing against it, is sent again.

    With the broker epochs that it had at first: the HWM has waited for these lives of the members. With those of later
    fetches it could be accepted for a member that has lost what it had when it was proposed.
    """
    broker = s.brokers[leader]
    require("the broker takes itself for the leader", m.leads(leader, broker))
    require("something is proposed", broker.proposed.is_some)
    isr = broker.proposed.value
    kept = m.proposals_keep_epochs
    epochs = broker.proposed_epochs if kept else member_epochs(m, leader, broker, isr)
    send_alter_partition(m, s, leader, broker, isr, epochs)


@action("841.3", says="leader {leader} takes the answer to its AlterPartition", leader="broker")
def take_alter_answer(m: Cluster, s: State, leader: Number) -> None:
    """Only in the same leader epoch, and while the proposal stands.

    Accepted, its ISR and partition epoch are known before they come as metadata. Refused for a member that may not
    join, the leader goes back to its committed ISR (841.3): else its HWM would wait for ever for who never joins. Any
    other error says nothing of the proposal: it stands until metadata decides, and may be sent again.
    """
    broker, response = s.brokers[leader], s.alter_responses[leader]
    require("an answer is under way", response.is_some)
    answer, view = response.value, broker.view
    stands = m.leads(leader, broker) & (answer.leader_epoch == view.leader_epoch) & broker.proposed.is_some
    not_older = answer.partition_epoch >= view.partition_epoch
    accepted = stands & (answer.outcome == Outcome.COMMITTED) & not_older
    refused = stands & (answer.outcome == Outcome.REVERT)
    committed = view.replace(isr=answer.isr, partition_epoch=answer.partition_epoch)
    decided = where(accepted | refused, without_proposal(broker), broker)
    after = decided.replace(
        view=where(accepted, committed, view),
        ahead=broker.ahead | (accepted & (answer.partition_epoch > view.partition_epoch)),
    )
    s.next.alter_responses[leader] = None
    advance_hwm(m, s, leader, after)


@action("F1", says="broker {b}'s AlterPartition, or its answer, is lost", b="broker")
def lose_alter_partition(m: Cluster, s: State, b: Number) -> None:
    """A fault.

    The leader cannot tell which of both was lost: whether the controller has taken its proposal over.
    """
    require("one is under way", s.alter_requests[b].is_some | s.alter_responses[b].is_some)
    spend(s, "losses")
    s.next.alter_requests[b] = None
    s.next.alter_responses[b] = None


# --- AlterPartition -----------------------------------------------------------------------------------------


def propose(m: Cluster, s: State, leader: Number, broker: StructValue, isr: SetValue) -> StructValue:
    """B7. Ask the controller for this ISR; the leader that waits for the answer."""
    epochs = member_epochs(m, leader, broker, isr)
    send_alter_partition(m, s, leader, broker, isr, epochs)
    return broker.replace(proposed=isr, proposed_epochs=epochs)


def send_alter_partition(
    m: Cluster, s: State, leader: Number, broker: StructValue, isr: SetValue, epochs: ArrayValue
) -> None:
    """B7, B8. One at a time: of two under way the leader could not say which the controller may have taken over.

    It carries the epochs that the leader knows. The controller changes nothing by a request from before its last
    change. A leader cannot wait for ever on a connection: one that it gives up may still arrive (`late_proposals`).
    """
    old = s.alter_requests[leader]
    require("no answer is under way", s.alter_responses[leader].is_none)
    require("no AlterPartition is under way", old.is_none | bool(m.p.late_proposals))
    if m.p.late_proposals:
        s.next.late_proposals[leader] = where(old.is_some, old, s.late_proposals[leader])
    s.next.alter_requests[leader] = m.alter_request(
        leader_epoch=broker.view.leader_epoch,
        partition_epoch=broker.view.partition_epoch,
        broker_epoch=broker.epoch,
        isr=isr,
        epochs=epochs,
    )


def member_epochs(m: Cluster, leader: Number, broker: StructValue, isr: SetValue) -> ArrayValue:
    """903.3. The broker epoch that an AlterPartition gives each ISR member: that of its last fetch, if any.

    It gives none where the fetches have none, and for nobody where the leader's version of the request has none.
    """
    gives = ~is_the(leader, m.p.old_proposer)
    some = Option(m.broker_epoch)

    def epoch_of(b: Number) -> OptionValue:
        known = broker.followers[b]
        return cases(
            (gives & (leader == b), some.some(broker.epoch)),
            (
                gives & isr.has(b) & known.leo.is_some & ~is_the(b, m.p.old_fetcher),
                some.some(fetched_in(m, broker, b)),
            ),
            otherwise=some.none(),
        )

    return m.member_epochs.of(epoch_of)


def fetched_in(m: Cluster, leader: StructValue, b: Number) -> Number:
    """903.3. The broker epoch by which a leader vouches for a member: that of its fetch, not that of the metadata.

    Its metadata can be ahead of the fetch: a log that is gone would go by the epoch of the life that lacks it.
    """
    epoch: Number = leader.followers[b].broker_epoch if m.on("epochs_from_fetches") else leader.view.epochs[b]
    return epoch
