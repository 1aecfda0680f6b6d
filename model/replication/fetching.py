"""Fetch requests and responses (B1 to B4): how records and the HWM reach followers.

A fetch asks for the records after the follower's log. It also acknowledges all records before the fetch offset, and
acknowledged records can be committed. Most rules in this module decide which fetches a leader may count as an
acknowledgement.
"""

from __future__ import annotations

from highwater.model.language import (
    Number,
    State,
    StructValue,
    Truth,
    action,
    cases,
    least,
    require,
    spend,
    under,
    where,
)  # fmt: skip
from highwater.model.replication import logs
from highwater.model.replication.cluster import Cluster, is_the
from highwater.model.replication.controller.types import Error
from highwater.model.replication.high_watermark import advanced_hwm, store_with_hwm


@action("B1, 903.1", says="broker {f} sends a fetch", f="broker")
def send_fetch(m: Cluster, s: State, f: Number) -> None:
    """A follower sends a fetch with its LEO, leader epoch, last fetched epoch and broker epoch.

    Preconditions: no response to the follower is in flight, and no fetch that has the follower's current leader and
    broker epochs.
    B3: the last fetched epoch lets the leader find where the logs diverge.
    903.1: the broker epoch tells the leader which incarnation of the follower sent the fetch.
    The follower abandons a fetch of an earlier incarnation or leader epoch; with ``late_fetches`` that fetch can still
    arrive.
    """
    broker, old = s.brokers[f], s.fetch_requests[f]
    outdated = (old.value.broker_epoch != broker.epoch) | (old.value.leader_epoch != broker.view.leader_epoch)
    require("the broker follows a leader", m.follows(f, broker))
    require("no fetch of its own is under way", old.is_none | outdated)
    require("no answer is under way", s.fetch_responses[f].is_none)
    s.next.fetch_requests[f] = m.fetch_request(
        leader=broker.view.leader.value,
        leader_epoch=broker.view.leader_epoch,
        offset=broker.log.length,
        last_epoch=logs.last_epoch(m.some_epoch, broker.log),
        broker_epoch=broker.epoch,
    )
    if m.p.late_fetches:
        s.next.late_fetches[f] = where(old.is_some, old, s.late_fetches[f])


@action("F1", says="a fetch that broker {f} sent before arrives late", f="broker")
def receive_late_fetch(m: Cluster, s: State, f: Number) -> None:
    """An abandoned fetch arrives late (F1), while its sender has no newer fetch in flight.

    A stale connection can hold a fetch for long. The fetch offset was the follower's LEO when the follower sent the
    fetch, but the follower may have lost or truncated its log since.
    """
    require("fetches can be late", m.p.late_fetches)
    require("a fetch that was given up is under way", s.late_fetches[f].is_some)
    require("no newer one is under way", s.fetch_requests[f].is_none)
    s.next.fetch_requests[f] = s.late_fetches[f]
    s.next.late_fetches[f] = None


# --- the leader ---------------------------------------------------------------------------------------------


@action(
    "B2, B3, B4",
    says="leader {leader} answers the fetch of broker {f}",
    leader="broker",
    f="broker",
    again="again",
)
def answer_fetch(m: Cluster, s: State, leader: Number, f: Number, again: bool) -> None:
    """A leader handles a follower's fetch: it records the follower's LEO and answers.

    Preconditions: the fetch is usable (B2, K2), and no response to the follower is in flight.
    B3: if the logs diverge, the response gives the end offset to truncate to, and the fetch acknowledges nothing.
    B4: otherwise the leader records the follower's LEO, advances its HWM, and answers with the next record and the
    HWM.
    With ``again`` the network delivers the request a second time (F1).
    """
    broker, fetch = s.brokers[leader], s.fetch_requests[f].value
    require("a fetch is under way", s.fetch_requests[f].is_some)
    require_usable(m, leader, broker, f, fetch)
    require("no answer is under way", s.fetch_responses[f].is_none)
    diverging = m.on("divergence_check") & logs.diverges(broker.log, fetch.offset, fetch.last_epoch)
    ignores = diverging & m.on("diverging_fetch_counts_nothing")
    noted = where(ignores, broker, note_fetch(m, broker, f, fetch))
    hwm = advanced_hwm(m, leader, noted)
    send_answer(m, s, f, fetch, answer(m, leader, broker, fetch, diverging, hwm))
    if again:
        spend(s, "duplicates")
    else:
        s.next.fetch_requests[f] = None
    store_with_hwm(m, s, leader, noted, hwm)


def require_usable(m: Cluster, leader: Number, broker: StructValue, f: Number, fetch: StructValue) -> None:
    """B2, K2. Require that broker ``leader`` leads and may use the fetch.

    The fetch is for this broker and from a replica. It has the broker's own leader epoch and no stale broker epoch.
    The sender of a fetch with an earlier leader epoch may still truncate its log to this leader's log. A later leader
    epoch shows that this broker is no longer the leader.
    """
    require("it is for this broker", fetch.leader == leader)
    require("the broker believes that it leads", m.leads(leader, broker))
    require(
        "the fetch is in the leader's epoch",
        fetch.leader_epoch == broker.view.leader_epoch,
        rule="fetch_epoch_check",
    )
    require("the sender is a replica", broker.view.replicas.has(f))
    require("no newer incarnation of the sender is known", ~is_stale(m, f, fetch, broker))


def is_stale(m: Cluster, f: Number, fetch: StructValue, leader: StructValue) -> Truth:
    """K2. True if the leader's metadata has a later broker epoch of the follower than the fetch carries.

    The follower can have restarted and lost records since it sent the fetch. A fetch of version 14 has no broker epoch
    and is never stale. Kafka compares only while the leader's metadata shows the follower unfenced.
    """
    has_epoch = ~is_the(f, m.p.old_fetcher)
    return m.on("stale_fetch_check") & has_epoch & (fetch.broker_epoch < leader.view.epochs[f])


def note_fetch(m: Cluster, broker: StructValue, f: Number, fetch: StructValue) -> StructValue:
    """B4, 903.2. The leader after it has recorded the LEO and broker epoch from a follower's fetch.

    K3: the follower counts as caught up after a fetch at the leader's LEO, or after its second fetch. With the second
    fetch it may have reached the LEO that the leader had at the first fetch.
    """
    before = broker.followers[f]
    known = m.fetch_state(
        leo=fetch.offset,
        broker_epoch=fetch.broker_epoch,
        in_epoch=True,
        caught_up=before.caught_up | before.leo.is_some | (fetch.offset >= broker.log.length),
    )
    return broker.replace(followers=broker.followers.set(f, known))


def answer(
    m: Cluster, leader: Number, broker: StructValue, fetch: StructValue, diverging: Truth, hwm: Number
) -> StructValue:
    """B3, B4. The fetch response: the next record and the HWM, or the epoch and end offset to truncate to."""
    has_record = ~diverging & (broker.log.length > fetch.offset)
    end = logs.end_offset_for_epoch(broker.log, fetch.last_epoch.value)
    epoch = where(end > 0, m.some_epoch.some(logs.epoch_before(broker.log, end)), None)
    return m.fetch_response(
        sender=leader,
        leader_epoch=fetch.leader_epoch,
        offset=fetch.offset,
        diverging=diverging,
        record=where(has_record, m.some_record.some(broker.log[fetch.offset]), None),
        hwm=where(diverging, broker.hwm, hwm),
        epoch=where(diverging, epoch, None),
        end=where(diverging, end, 0),
    )


def send_answer(m: Cluster, s: State, f: Number, fetch: StructValue, sent: StructValue) -> None:
    """Send a fetch response. It is lost if the follower is down or has a new broker epoch."""
    reaches = m.is_up(s.brokers[f]) & (s.brokers[f].epoch == fetch.broker_epoch)
    s.next.fetch_responses[f] = where(reaches, m.some_fetch_response.some(sent), None)


@action("B2", says="the fetch of broker {f} is refused", f="broker")
def refuse_fetch(m: Cluster, s: State, f: Number) -> None:
    """A broker refuses a fetch and changes nothing.

    Precondition: the broker is down, does not lead, has another leader epoch, does not know the sender as a replica, or
    knows a newer incarnation of the sender.
    The model drops the request, whatever the error (``refusal``): the follower fetches again after it has replayed more
    metadata.
    """
    request = s.fetch_requests[f]
    require("a fetch is under way", request.is_some)
    fetch = request.value
    leader = s.brokers[fetch.leader]
    leads = m.is_up(leader) & leader.view.leader.is_(fetch.leader) & leader.view.replicas.has(f)
    other_epoch = leader.view.leader_epoch != fetch.leader_epoch
    require("nobody there can use it", ~leads | other_epoch | is_stale(m, f, fetch, leader))
    s.next.fetch_requests[f] = None


def refusal(m: Cluster, s: State, f: Number) -> Number:
    """B2, K2. The error by which a broker refuses the fetch of broker ``f``; NONE if that broker is down."""
    fetch = s.fetch_requests[f].value
    leader = s.brokers[fetch.leader]
    view = leader.view
    return cases(
        (~m.is_up(leader), Error.NONE),
        (~view.replicas.has(fetch.leader), Error.NOT_LEADER_OR_FOLLOWER),
        (fetch.leader_epoch < view.leader_epoch, Error.FENCED_LEADER_EPOCH),
        (fetch.leader_epoch > view.leader_epoch, Error.UNKNOWN_LEADER_EPOCH),
        (view.leader.is_(fetch.leader) & ~view.replicas.has(f), Error.UNKNOWN_LEADER_EPOCH),
        otherwise=Error.NOT_LEADER_OR_FOLLOWER,
    )


@action("K18", says="what is sent to broker {f} has changed in the sender's log", f="broker")
def read_late(m: Cluster, s: State, f: Number) -> None:
    """K18. Before Kafka reads the bytes of a fetch response, the sender's log changes at the fetch offset.

    Kafka reads the bytes when it sends the response. By then the sender may follow another leader, may have truncated
    its log, and may have appended another record at that offset. The response then carries that record.
    """
    require("logs are read late", m.p.late_reads)
    answer = s.fetch_responses[f]
    require("an answer with a record is under way", answer.is_some & answer.value.record.is_some)
    log, offset = s.brokers[answer.value.sender].log, answer.value.offset
    require("the sender has another record there", log.length > offset)
    changed = m.some_record.some(log[offset])
    require("it is another one", changed != answer.value.record)
    s.next.fetch_responses[f] = m.some_fetch_response.some(answer.value.replace(record=changed))


# --- the follower -------------------------------------------------------------------------------------------


@action("B3, B4", says="broker {f} takes the answer to its fetch", f="broker")
def take_fetch_answer(m: Cluster, s: State, f: Number) -> None:
    """A follower handles a fetch response: it appends the record, or truncates its log where the logs diverge.

    Precondition: the response has the follower's leader epoch and the offset that it fetched from. The follower drops
    any other response, because a former leader's record can differ from the current leader's record at that offset.
    K18: the follower appends no record with a later leader epoch than the response. Such a record shows that the
    sender's log changed after the sender answered.
    HWM := min(leader's HWM, own LEO).
    """
    broker, response = s.brokers[f], s.fetch_responses[f]
    require("an answer is under way", response.is_some)
    got = response.value
    # Off: a follower without records still drops it, because it truncates before it uses an answer in a new epoch.
    in_epoch = got.leader_epoch == broker.view.leader_epoch
    if not m.on("fetch_response_epoch_check"):
        in_epoch |= broker.log.length > 0
    asked_for = in_epoch & under("fetch_response_check", got.offset == broker.log.length)
    current = m.follows(f, broker) & asked_for
    end = logs.truncation_offset(broker.log, got.epoch, got.end)
    appends = got.record.is_some
    if m.p.late_reads:
        appends &= under("appended_epoch_check", got.record.value.epoch <= got.leader_epoch)
    appended = where(appends, broker.log.append(got.record.value), broker.log)
    log = where(got.diverging, broker.log.truncate(end), appended)
    leaders = where(got.diverging, broker.hwm, got.hwm)
    hwm = least(leaders, log.length) if m.on("hwm_within_log") else leaders
    after = broker.replace(log=log, hwm=hwm, flushed=least(broker.flushed, log.length))
    s.next.brokers[f] = where(current, after, broker)
    s.next.fetch_responses[f] = None
