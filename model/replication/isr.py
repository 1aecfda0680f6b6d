"""ISR changes by AlterPartition: a leader proposes, the controller decides (B5, B7, 841, 903).

The leader knows which followers keep up; the controller knows which brokers are live. The leader has one
AlterPartition in flight. Until it is answered, the HWM waits for the members of both the committed and the proposed
ISR (B7).
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
    """A leader proposes to add a caught-up follower to the ISR.

    Preconditions: the leader has no pending proposal, and the follower is an eligible replica outside the ISR.
    B7: the HWM waits for the proposed member immediately. The controller may accept the proposal and elect that member
    before the leader learns of it. The new leader must hold all records committed in between.
    """
    broker = s.brokers[leader]
    require("the broker believes that it leads", m.leads(leader, broker))
    require("nothing is proposed", broker.proposed.is_none)
    require("the follower is outside the ISR", (leader != f) & ~broker.view.isr.has(f))
    require("the follower is a replica", broker.view.replicas.has(f))
    require("the follower is eligible", is_eligible(m, broker, f))
    advance_hwm(m, s, leader, propose(m, s, leader, broker, broker.view.isr.with_(f)))


def is_eligible(m: Cluster, leader: StructValue, f: Number) -> Truth:
    """B5, 841.1, 903.2. True if a leader may propose a follower for the ISR.

    - B5: the follower has reached the HWM and the leader epoch start offset (LESO). A new leader's HWM can be below
      records that earlier leaders committed, but all those records are below the LESO.
    - 841.1: the leader's metadata shows the follower unfenced and not shutting down.
    - 903.2: the follower's last fetch has the broker epoch of the leader's metadata. A follower that has restarted
      since may have lost records.
    """
    known, view = leader.followers[f], leader.view
    leo = where(known.leo.is_some, known.leo.value, 0)
    return all_of(
        [
            known.leo.is_some,
            # If the leader still knows fetches of an earlier epoch, the follower must have fetched in this one.
            m.on("re_election_forgets_fetches") | known.in_epoch,
            has_caught_up(leo, leader.hwm, leader.leso, m.on("join_at_hwm"), m.on("join_at_epoch_start")),
            under("proposed_replica_eligible_check", view.active.has(f)),
            under("proposed_broker_epoch_check", known.broker_epoch == view.epochs[f])
            | is_the(f, m.p.old_fetcher),
        ]
    )


@action("B7", says="leader {leader} proposes to take broker {f} out of the ISR", leader="broker", f="broker")
def propose_shrink(m: Cluster, s: State, leader: Number, f: Number) -> None:
    """A leader proposes to remove a lagging follower from the ISR.

    Preconditions: the leader has no pending proposal, and the follower is behind the leader's LEO. The model leaves
    out the clock (``replica.lag.time.max.ms``); a budget bounds shrinks.
    B7: the HWM waits for the follower until the controller answers, because the follower can be elected until then.
    Without shrinks, a follower that stops fetching would block the HWM forever.
    """
    broker = s.brokers[leader]
    require("the broker believes that it leads", m.leads(leader, broker))
    require("nothing is proposed", broker.proposed.is_none)
    require("the follower is in the ISR", (leader != f) & broker.view.isr.has(f))
    require("the follower lags", lags(broker, f))
    spend(s, "shrinks")
    proposing = propose(m, s, leader, broker, broker.view.isr.without(f))
    known = broker.followers[f].replace(caught_up=False)
    advance_hwm(m, s, leader, proposing.replace(followers=broker.followers.set(f, known)))


@action("B7", says="leader {leader} proposes {isr} for the ISR", leader="broker", isr="isrs")
def propose_isr(m: Cluster, s: State, leader: Number, isr: SetValue) -> None:
    """A leader proposes an ISR that differs from the committed ISR in several members.

    Kafka removes all lagging followers in one request, and no rule limits a request to one change.
    Preconditions: each added member is eligible, and each removed member lags.
    """
    require("a proposal can change several members", m.p.many_at_once)
    broker = s.brokers[leader]
    require("the broker believes that it leads", m.leads(leader, broker))
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
    """True if a follower's LEO, as the leader knows it, is unknown or behind the leader's LEO."""
    known = leader.followers[f]
    return known.leo.is_none | (known.leo.value < leader.log.length)


@action("841.3, 903.3", says="leader {leader} retries its AlterPartition", leader="broker")
def retry_alter_partition(m: Cluster, s: State, leader: Number) -> None:
    """A leader retries its pending AlterPartition.

    903.3: the retry carries the broker epochs of the first request, because the HWM has waited for those incarnations.
    With the epochs of later fetches, the controller could accept a member that has restarted without its log.
    """
    broker = s.brokers[leader]
    require("the broker believes that it leads", m.leads(leader, broker))
    require("something is proposed", broker.proposed.is_some)
    isr = broker.proposed.value
    kept = m.proposals_keep_epochs
    epochs = broker.proposed_epochs if kept else member_epochs(m, leader, broker, isr)
    send_alter_partition(m, s, leader, broker, isr, epochs)


@action("841.3", says="leader {leader} takes the answer to its AlterPartition", leader="broker")
def take_alter_answer(m: Cluster, s: State, leader: Number) -> None:
    """A leader handles the response to its AlterPartition.

    Precondition: the response has the leader's leader epoch, and the proposal is still pending. The leader drops any
    other response, and an acceptance with an earlier partition epoch than the leader's.
    - Accepted: the leader takes over the ISR and partition epoch before they arrive as metadata.
    - Refused for an ineligible member (841.3): the leader reverts to the committed ISR. Otherwise its HWM would wait
      forever for a member that never joins.
    - Any other error: the proposal stays pending until metadata decides it, and the leader may retry.
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
    if m.on("alter_answer_advances_hwm"):
        advance_hwm(m, s, leader, after)
    else:
        s.next.brokers[leader] = after


@action("F1", says="broker {b}'s AlterPartition, or its answer, is lost", b="broker")
def lose_alter_partition(m: Cluster, s: State, b: Number) -> None:
    """The network loses an AlterPartition request or its response (F1).

    The leader cannot distinguish the two, so it does not know if the controller accepted its proposal.
    """
    require("a request or an answer is under way", s.alter_requests[b].is_some | s.alter_responses[b].is_some)
    spend(s, "losses")
    s.next.alter_requests[b] = None
    s.next.alter_responses[b] = None


# --- AlterPartition -----------------------------------------------------------------------------------------

REVERTS = ("INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED")
"""841.3. The errors of AlterPartition after which a leader reverts to the committed ISR."""
WAITS = (
    "FENCED_LEADER_EPOCH",
    "INVALID_REQUEST",
    "INVALID_UPDATE_VERSION",
    "NEW_LEADER_ELECTED",
    "UNKNOWN_TOPIC_ID",
    "UNKNOWN_TOPIC_OR_PARTITION",
)
"""The errors after which Kafka's leader waits for metadata. After any other it repeats the proposal. Both are KEEP."""


def propose(m: Cluster, s: State, leader: Number, broker: StructValue, isr: SetValue) -> StructValue:
    """B7. Send an AlterPartition for this ISR, and return the leader with the proposal pending."""
    epochs = member_epochs(m, leader, broker, isr)
    send_alter_partition(m, s, leader, broker, isr, epochs)
    return broker.replace(proposed=isr, proposed_epochs=epochs)


def send_alter_partition(
    m: Cluster, s: State, leader: Number, broker: StructValue, isr: SetValue, epochs: ArrayValue
) -> None:
    """B7, B8. A leader sends an AlterPartition; at most one is in flight.

    ``epochs`` has the broker epochs of the proposed members (903.3). With two requests in flight, the leader could not
    know which one the controller accepts. The request carries the leader and partition epochs that the leader knows:
    the controller rejects it if the partition has changed since.
    With ``late_proposals`` the leader can abandon a request, which may still arrive.
    """
    old = s.alter_requests[leader]
    require("no answer is under way", s.alter_responses[leader].is_none)
    require("no AlterPartition is under way", old.is_none | m.p.late_proposals)
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
    """903.3. The broker epochs that an AlterPartition carries: for each proposed member the one in its last fetch.

    The leader gives its own broker epoch for itself. A member has no epoch if the leader knows no fetch of it, if its
    fetches carry no broker epoch (version 14), or if the request has no such field (version 2).
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
    """903.3. The broker epoch that an AlterPartition gives for a member: the one in the member's last fetch.

    With ``epochs_from_fetches`` off it is the epoch in the leader's metadata. That can be the epoch of a newer
    incarnation, which may lack the records that the former incarnation fetched.
    """
    epoch: Number = leader.followers[b].broker_epoch if m.on("epochs_from_fetches") else leader.view.epochs[b]
    return epoch
