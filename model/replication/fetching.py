"""Followers fetch, leaders answer (B1 to B4): how records and the HWM travel.

A fetch does two things. It asks for what comes after the follower's log, and it says that the follower has all
before: it is the acknowledgement by which records are committed. So most rules here are about which fetches a leader
may take for that.
"""

from __future__ import annotations

from highwater.model.language import (
    Number,
    State,
    StructValue,
    Truth,
    action,
    least,
    require,
    spend,
    under,
    where,
)  # fmt: skip
from highwater.model.replication import logs
from highwater.model.replication.cluster import Cluster, is_the
from highwater.model.replication.high_watermark import advanced_hwm, store_with_hwm


@action("B1, 903.1", says="broker {f} sends a fetch", f="broker")
def send_fetch(m: Cluster, s: State, f: Number) -> None:
    """From its LEO, with its leader epoch, the epoch of its last record, and its broker epoch.

    The last two are there so that the leader can tell where the logs part (B3), and which life of the broker speaks
    (903.1). A fetch of a former life, or to a former leader, is given up; where fetches can be late it still arrives.
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
    """The sender has given it up, and has sent another one since, which has been answered.

    A former connection can hold a fetch for long. What it says was true once, perhaps of a log that is gone.
    """
    require("fetches can be late", bool(m.p.late_fetches))
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
    """The leader notes how far the follower is and sends the next record, or where the logs diverge.

    A follower whose log is not the leader's has acknowledged nothing: it is told where to truncate, and nothing is
    noted. Else the HWM goes as far as the fetch lets it *before* the answer is made, so that the answer carries it.
    With ``again`` the fetch will arrive a second time.
    """
    broker, fetch = s.brokers[leader], s.fetch_requests[f].value
    require("a fetch is under way", s.fetch_requests[f].is_some)
    require_usable(m, leader, broker, f, fetch)
    require("no answer is under way", s.fetch_responses[f].is_none)
    diverging = m.on("divergence_check") & logs.diverges(broker.log, fetch.offset, fetch.last_epoch)
    noted = where(diverging, broker, note_fetch(m, broker, f, fetch))
    hwm = advanced_hwm(m, leader, noted)
    send_answer(m, s, f, fetch, answer(m, leader, broker, fetch, diverging, hwm))
    if again:
        spend(s, "duplicates")
    else:
        s.next.fetch_requests[f] = None
    store_with_hwm(m, s, leader, noted, hwm)


def require_usable(m: Cluster, leader: Number, broker: StructValue, f: Number, fetch: StructValue) -> None:
    """B2, 903.2. A leader may use the fetch of a replica in its own leader epoch, and of no former life of it.

    A fetch of an earlier epoch tells of a log that has not been truncated to this leader's. One with a higher epoch
    comes from a broker that knows of a newer leader: this one is none any more.
    """
    require("it is for this broker", fetch.leader == leader)
    require("the broker takes itself for the leader", m.leads(leader, broker))
    require(
        "the fetch is in the leader's epoch",
        fetch.leader_epoch == broker.view.leader_epoch,
        rule="fetch_epoch_check",
    )
    require("the sender is a replica", broker.view.replicas.has(f))
    require("no newer incarnation of the sender is known", ~is_stale(m, f, fetch, broker))


def is_stale(m: Cluster, f: Number, fetch: StructValue, leader: StructValue) -> Truth:
    """K2. Whether a leader knows by its metadata that a former incarnation sent a fetch: records may be lost since.

    A fetch without a broker epoch cannot be told from one of a former incarnation.
    """
    has_epoch = ~is_the(f, m.p.old_fetcher)
    return m.on("stale_fetch_check") & has_epoch & (fetch.broker_epoch < leader.view.epochs[f])


def note_fetch(m: Cluster, broker: StructValue, f: Number, fetch: StructValue) -> StructValue:
    """B4, 903.2. A leader that has heard of a follower: it holds all before the fetch offset, in this incarnation.

    K3: it counts as caught up from the fetch at the log end on; or from the second one on, as by then
    it may have been where the log ended at the first.
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
    """B3, B4. The next record and the HWM; or, where logs diverge, the last epoch that both can have and its end."""
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
    """An answer reaches the process that asked; to another incarnation it is lost with the connection."""
    reaches = m.is_up(s.brokers[f]) & (s.brokers[f].epoch == fetch.broker_epoch)
    s.next.fetch_responses[f] = where(reaches, m.some_fetch_response.some(sent), None)


@action("B2", says="the fetch of broker {f} is refused", f="broker")
def refuse_fetch(m: Cluster, s: State, f: Number) -> None:
    """It came to a broker that is down, does not lead, is in another epoch, or knows of a newer incarnation.

    NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH come to the same: the follower asks again once
    it has replayed more metadata.
    """
    request = s.fetch_requests[f]
    require("a fetch is under way", request.is_some)
    fetch = request.value
    leader = s.brokers[fetch.leader]
    leads = m.is_up(leader) & leader.view.leader.is_(fetch.leader) & leader.view.replicas.has(f)
    other_epoch = leader.view.leader_epoch != fetch.leader_epoch
    require("nobody there can use it", ~leads | other_epoch | is_stale(m, f, fetch, leader))
    s.next.fetch_requests[f] = None


@action("K18", says="what is sent to broker {f} has changed in the sender's log", f="broker")
def read_late(m: Cluster, s: State, f: Number) -> None:
    """An answer names a part of the sender's log, and its bytes are read when they are sent.

    The sender has found itself a follower since, has truncated its log, and has appended other records there.
    """
    require("logs are read late", bool(m.p.late_reads))
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
    """The follower appends, or truncates; its HWM is the lesser of the leader's and its own LEO.

    Only in the leader epoch and at the offset that it asked for: an answer of a former leader would put records there
    that the present one does not have, without anybody noticing. A record of a later leader epoch than that shows that
    the sender's log has changed meanwhile (K18).
    """
    broker, response = s.brokers[f], s.fetch_responses[f]
    require("an answer is under way", response.is_some)
    got = response.value
    in_epoch = under("fetch_response_epoch_check", got.leader_epoch == broker.view.leader_epoch)
    asked_for = in_epoch & under("fetch_response_check", got.offset == broker.log.length)
    current = m.follows(f, broker) & asked_for
    end = logs.truncation_offset(broker.log, got.epoch, got.end)
    appends = got.record.is_some
    if m.p.late_reads:
        appends &= under("appended_epoch_check", got.record.value.epoch <= got.leader_epoch)
    appended = where(appends, broker.log.append(got.record.value), broker.log)
    log = where(got.diverging, broker.log.truncate(end), appended)
    told = where(got.diverging, broker.hwm, got.hwm)
    hwm = least(told, log.length) if m.on("hwm_within_log") else told
    after = broker.replace(log=log, hwm=hwm, flushed=least(broker.flushed, log.length))
    s.next.brokers[f] = where(current, after, broker)
    s.next.fetch_responses[f] = None
