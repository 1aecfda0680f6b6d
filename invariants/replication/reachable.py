"""Liveness of replication once faults have stopped, and reachability goals.

Budgets bound the faults, and fairness never requires a fault, so an infinite run has a last fault. Each liveness
property names the smallest set of fair actions that suffices; the page on liveness shows the effect of leaving one out.
The goals are ISR changes, recoveries, and abandoned, delayed or refused messages.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater.invariants.replication.commits import has_value
from highwater.model.language import (
    Number,
    State,
    StructValue,
    Truth,
    all_of,
    always_eventually,
    any_of,
    as_bool,
    either,
    implies,
    reachable,
    size,
    total,
    weak,
)
from highwater.model.replication import logs as log_rules
from highwater.model.replication.controller.elections import electable
from highwater.model.replication.high_watermark import tells_end
from highwater.model.replication.isr import is_eligible
from highwater.model.replication.protocol import Replication


def broker_is_down(m: Replication, s: State, b: Number) -> Truth:
    """True while a broker is down: its session ends, so fairness requires that it is fenced.

    Fencing a running broker is a fault, and no fairness requires it.
    """
    return ~m.is_up(s.brokers[b])


_FENCE = weak("fence_broker", when=broker_is_down)
_START = _FENCE + weak("start_broker")
_REPLAY = weak(either("replay_metadata", "send_metadata"), by=["b"])
_FETCH = (
    weak("send_fetch") + weak(either("answer_fetch", "refuse_fetch"), by=["f"]) + weak("take_fetch_answer")
)
_ALTER = weak("handle_alter_partition", again=False) + weak("retry_alter_partition", "take_alter_answer")
_RETURN = weak("finish_shutdown") + _START + weak("unfence_broker")
_RECOVER = weak("send_log_info", "take_log_info") + weak("finish_recovery", by=[])


@always_eventually("631.1", fair=_START)
def brokers_run(m: Replication, s: State) -> Truth:
    """A broker that is down eventually runs: its session ends, and it is started."""
    return all_of(m.is_up(s.brokers[b]) for b in m.broker)


@always_eventually("631.2", fair=weak("unfence_broker"))
def running_brokers_are_unfenced(m: Replication, s: State) -> Truth:
    """A running broker that is not shutting down is eventually unfenced by a heartbeat."""
    return all_of(implies(s.brokers[b].status == "RUNNING", ~s.registrations[b].fenced) for b in m.broker)


@always_eventually("B8", fair=_REPLAY)
def metadata_views_converge(m: Replication, s: State) -> Truth:
    """Every running broker eventually knows the controller's state."""
    latest = m.latest_view(s)
    return all_of(implies(m.is_up(s.brokers[b]), s.brokers[b].view == latest) for b in m.broker)


@always_eventually("B7, 841.3", fair=_REPLAY + _ALTER)
def proposals_are_settled(m: Replication, s: State) -> Truth:
    """Every pending AlterPartition is eventually answered or superseded by newer metadata."""
    return all_of(s.brokers[b].proposed.is_none for b in m.broker)


@always_eventually("841.1, 841.3", fair=_REPLAY + _ALTER + weak("propose_expand"))
def proposals_come_to_rest(m: Replication, s: State) -> Truth:
    """Infinitely often no leader has an AlterPartition to send: no leader repeats a rejected proposal forever.

    Heartbeats are not assumed to be fair. So a follower may stay fenced forever although its fetches reach the leader.
    """

    def may_join(b: Number, f: Number) -> Truth:
        view = s.brokers[b].view
        outside = view.replicas.has(f) & ~view.isr.has(f)
        return m.leads(b, s.brokers[b]) & outside & is_eligible(m, s.brokers[b], f)

    return all_of(
        s.brokers[b].proposed.is_none & ~any_of(may_join(b, f) for f in m.broker if int(f) != int(b))
        for b in m.broker
    )


@always_eventually(
    "B6",
    fair=_RETURN + _REPLAY + _FETCH + _ALTER + weak("propose_expand") + weak("acknowledge"),
)
def writes_are_answered(m: Replication, s: State) -> Truth:
    """An acks=all write is eventually answered: the leader acknowledges it, or no longer leads."""
    return all_of(
        ~any_of(
            (s.brokers[b].log.length > o)
            & (s.brokers[b].log.at(o).value == v)
            & (s.brokers[b].log.at(o).epoch == s.brokers[b].view.leader_epoch)
            for o in m.offsets
        )
        | ~m.leads(b, s.brokers[b])
        | (s.writes[v] != "PENDING")
        for b in m.broker
        for v in m.value
    )


@always_eventually("B4, 207.1, 966.1", fair=_RETURN + _REPLAY + _FETCH + _ALTER + weak("propose_expand"))
def hwm_comes_to_cover_what_is_committed(m: Replication, s: State) -> Truth:
    """A leader's HWM eventually covers all committed records of its log, so that consumers can read them.

    The leader then tells consumers the end of the log, even if no producer writes (207.1).
    """
    return all_of(
        ~m.leads(b, s.brokers[b])
        | tells_end(m, s.brokers[b])
        & all_of(
            (s.brokers[b].hwm > o) | ~log_rules.same_record(s.brokers[b].log, s.committed, o)
            for o in m.offsets
        )
        for b in m.broker
    )


@always_eventually("B1, B6", fair=_RETURN + _RECOVER + _REPLAY + _FETCH)
def acknowledged_writes_reach_all_replicas(m: Replication, s: State) -> Truth:
    """Every replica's log eventually contains all acknowledged records."""
    return all_of(
        implies(
            (s.writes[v] == "ACKNOWLEDGED") & m.latest_view(s).replicas.has(b),
            has_value(m, s, b, v),
        )
        for b in m.broker
        for v in m.value
    )


@always_eventually("966.9", fair=weak("unfence_broker") + _REPLAY + _FETCH + _ALTER + weak("propose_expand"))
def reassignments_complete(m: Replication, s: State) -> Truth:
    """A reassignment eventually ends: no replica is being added or removed."""
    return s.partition.adding.is_empty & s.partition.removing.is_empty


@always_eventually("966.13", fair=_FENCE + weak("unfence_broker"))
def electable_replicas_lead(m: Replication, s: State) -> Truth:
    """A partition with a running ISR or ELR member eventually has a running leader."""
    partition = s.partition
    electable = partition.isr | partition.elr
    alive = any_of(electable.has(b) & (s.brokers[b].status == "RUNNING") for b in m.broker)
    led = any_of(partition.leader.is_(b) & m.is_up(s.brokers[b]) for b in m.broker)
    return implies(alive, led)


# --- the ISR ----------------------------------------------------------------------------------------------------


def _proposes(m: Replication, before: State, after: State, leader: Number, f: Number, joins: bool) -> Truth:
    """True if a leader starts to propose an ISR with follower ``f`` added (``joins``) or removed."""
    old, new = before.brokers[leader], after.brokers[leader]
    begins = m.leads(leader, old) & old.proposed.is_none & new.proposed.is_some
    there, proposed = old.view.isr.has(f), new.proposed.value.has(f)
    return begins & (~there & proposed if joins else there & ~proposed)


_Known = Callable[[StructValue, StructValue], Truth]
"""A condition on a leader and its fetch state of a follower."""


def _proposed(
    m: Replication, before: State, after: State, joins: bool, about: _Known, least: int = 1
) -> Truth:
    """True if a leader proposes that at least ``least`` followers, or exactly one, join (``joins``) or leave the ISR.

    Each of these followers must satisfy ``about``, a condition on the leader and on the leader's fetch state of the
    follower.
    """
    found = []
    for leader in m.broker:
        broker = before.brokers[leader]
        each = [
            _proposes(m, before, after, leader, f, joins) & about(broker, broker.followers[f])
            for f in m.broker
        ]
        found.append(total(each) == 1 if least == 1 else total(each) >= least)
    return any_of(found)


@reachable("B5")
def a_follower_at_the_hwm_is_proposed(m: Replication, before: State, after: State) -> Truth:
    """A leader proposes to add a follower that has exactly the records below the leader's HWM, and has more itself."""

    def at_the_hwm(leader: StructValue, known: StructValue) -> Truth:
        return known.leo.is_(leader.hwm) & (leader.log.length > leader.hwm)

    return _proposed(m, before, after, True, at_the_hwm)


@reachable("B7")
def a_member_that_has_fetched_lags(m: Replication, before: State, after: State) -> Truth:
    """A leader proposes to remove a member that has fetched from it."""
    return _proposed(m, before, after, False, lambda _, known: known.leo.is_some)


@reachable("B7")
def a_member_that_never_fetched_lags(m: Replication, before: State, after: State) -> Truth:
    """A leader proposes to remove a member that has not fetched from it."""
    return _proposed(m, before, after, False, lambda _, known: known.leo.is_none)


@reachable("B7")
def a_member_lags_while_the_log_is_empty(m: Replication, before: State, after: State) -> Truth:
    """A leader with an empty log proposes to remove a member that has not fetched from it."""
    return _proposed(
        m, before, after, False, lambda leader, known: known.leo.is_none & (leader.log.length == 0)
    )


@reachable("B7")
def two_members_lag_together(m: Replication, before: State, after: State) -> Truth:
    """A leader proposes to remove at least two members that have not fetched from it."""
    return _proposed(m, before, after, False, lambda _, known: known.leo.is_none, 2)


@reachable("B5, B7")
def two_followers_join_together(m: Replication, before: State, after: State) -> Truth:
    """A leader proposes to add at least two followers that have all its records."""
    return _proposed(m, before, after, True, lambda leader, known: known.leo.is_(leader.log.length), 2)


# --- elections and recoveries -----------------------------------------------------------------------------------


def _wins_over_a_longer_log(
    m: Replication, before: State, after: State, is_it: Callable[[StructValue, StructValue], Truth]
) -> Truth:
    """True if a recovery elects a replica although a replica for which ``is_it`` holds has a longer log.

    ``is_it`` is a function of the registration and the log info of the replica with the longer log.
    """
    old, new = before.partition, after.partition
    by_log = all_of(after.log_infos[b].is_none for b in m.broker)
    over = []
    for winner in m.broker:
        mine = before.log_infos[winner]
        wins = new.leader.is_(winner) & mine.is_some
        for b in m.broker:
            answer = before.log_infos[b]
            longer = answer.is_some & (answer.value.end > mine.value.end)
            over.append(wins & longer & is_it(before.registrations[b], answer.value))
    return old.leader.is_none & new.leader.is_some & by_log & any_of(over)


@reachable("966.14", rule="unclean_recovery")
def a_recovery_elects_over_a_fenced_longer_log(m: Replication, before: State, after: State) -> Truth:
    """A recovery on request elects a replica while a fenced replica has answered with a longer log.

    If the parameter ``recovery`` is off, any requested election in a partition without a leader reaches the goal.
    """
    on_request = before.budgets.elections > after.budgets.elections
    if not m.p.recovery:
        return before.partition.leader.is_none & after.partition.leader.is_some & on_request
    return on_request & _wins_over_a_longer_log(
        m, before, after, lambda registration, answer: registration.fenced
    )


def _requested_outsider(before: State, after: State, by_log: bool) -> Truth:
    """True if a request elects a leader from outside ISR and ELR, ``by_log`` or without a look at the log infos."""
    old, leader = before.partition, after.partition.leader
    on_request = before.budgets.elections > after.budgets.elections
    outside = on_request & old.leader.is_none & leader.is_some & ~electable(old).has(leader)
    return outside & ((before.log_infos != after.log_infos) == by_log)


@reachable("966.17", rule="unclean_recovery", needs="recovery")
def a_request_designates_an_outsider(m: Replication, before: State, after: State) -> Truth:
    """An operator designates a leader that is no last known ELR member, while there are such members."""
    known = before.partition.last_known_elr
    outside = ~known.is_empty & ~known.has(after.partition.leader)
    return _requested_outsider(before, after, by_log=False) & outside


@reachable("966.17", rule="unclean_recovery", needs="recovery")
def a_request_by_log_ignores_the_elr(m: Replication, before: State, after: State) -> Truth:
    """A LONGEST_LOG_AGGRESSIVE election elects a replica from outside the ELR while the ELR has members."""
    return _requested_outsider(before, after, by_log=True) & ~before.partition.elr.is_empty


@reachable("966.13", rule="clean_election_picks_any")
def a_later_isr_member_is_elected(m: Replication, before: State, after: State) -> Truth:
    """The controller elects an ISR member although another active ISR member precedes it in the order of brokers."""
    p, then = before.partition, after.partition
    able = then.isr & m.t.active(after.registrations)
    later = [then.leader.is_(b) & any_of(able.has(x) for x in m.broker if int(x) < int(b)) for b in m.broker]
    return then.leader.is_some & (p.leader != then.leader) & any_of(later)


@reachable("966.14", rule="unclean_recovery", needs="recovery")
def a_recovery_elects_over_a_longer_log(m: Replication, before: State, after: State) -> Truth:
    """A recovery elects a replica while another live replica has answered with a longer log."""

    def is_live(registration: StructValue, answer: StructValue) -> Truth:
        return (answer.broker_epoch == registration.epoch) & ~registration.fenced

    return _wins_over_a_longer_log(m, before, after, is_live)


def _recovers(m: Replication, before: State, after: State) -> Truth:
    """True if a leaderless partition elects a replica whose log info the controller has."""
    old, new = before.partition, after.partition
    return old.leader.is_none & any_of(new.leader.is_(b) & before.log_infos[b].is_some for b in m.broker)


@reachable("966.14", rule="unclean_recovery", needs="unclean_election")
def a_recovery_elects_before_all_answer(m: Replication, before: State, after: State) -> Truth:
    """An Aggressive recovery elects a leader while the controller lacks the answer of another live replica."""
    if not m.p.recovery:
        return as_bool(False)
    live = m.t.active(before.registrations)
    missing = any_of(live.has(b) & before.log_infos[b].is_none for b in m.broker)
    return _recovers(m, before, after) & missing


@reachable("966.14, 966.18", rule="unclean_recovery", needs="recovery")
def a_recovery_elects_before_the_remembered_answer(m: Replication, before: State, after: State) -> Truth:
    """A recovery elects a leader while the log info of a last known ELR member is missing."""
    remembered = before.partition.last_known_elr
    missing = any_of(remembered.has(b) & before.log_infos[b].is_none for b in m.broker)
    return _recovers(m, before, after) & missing


@reachable("966.14", rule="unclean_recovery", needs="recovery")
def a_failover_forgets_the_first_answers(m: Replication, before: State, after: State) -> Truth:
    """The controller fails over while some replicas have answered a recovery, and others have not."""
    answers = total(before.log_infos[b].is_some for b in m.broker)
    return (before.budgets.failovers > after.budgets.failovers) & (answers > 0) & (answers < m.p.brokers)


@reachable("966.8", needs="min_isr_changes")
def a_min_isr_change_empties_the_elr(m: Replication, before: State, after: State) -> Truth:
    """The operator changes min.insync.replicas while the ELR has members, and the ELR becomes empty."""
    changed = before.min_insync_replicas != after.min_insync_replicas
    return changed & ~before.partition.elr.is_empty & after.partition.elr.is_empty


# --- controlled shutdowns ---------------------------------------------------------------------------------------


@reachable("841.5")
def a_controlled_shutdown_is_granted(m: Replication, before: State, after: State) -> Truth:
    """The controller accepts a broker's request for a controlled shutdown."""
    return any_of(
        ~before.registrations[b].in_controlled_shutdown & after.registrations[b].in_controlled_shutdown
        for b in m.broker
    )


@reachable("841.5, 966.3")
def the_last_isr_member_shuts_down(m: Replication, before: State, after: State) -> Truth:
    """The controller accepts a controlled shutdown of the only ISR member."""
    return any_of(
        (before.partition.isr == m.t.brokers.zero().with_(b))
        & ~before.registrations[b].in_controlled_shutdown
        & after.registrations[b].in_controlled_shutdown
        for b in m.broker
    )


@reachable("841.5")
def a_follower_fetches_while_shutting_down(m: Replication, before: State, after: State) -> Truth:
    """A follower in a controlled shutdown sends a fetch."""
    return any_of(
        before.fetch_requests[f].is_none
        & after.fetch_requests[f].is_some
        & (before.brokers[f].status == "SHUTTING_DOWN")
        for f in m.broker
    )


@reachable("B6, 966.1", needs="weak_writes")
def a_record_is_appended_under_min_isr(m: Replication, before: State, after: State) -> Truth:
    """A leader appends a record with acks 0 or 1 while its ISR has fewer than min ISR members."""
    found = []
    for b in m.broker:
        broker = before.brokers[b]
        appends = m.leads(b, broker) & (after.brokers[b].log.length > broker.log.length)
        written = any_of((before.writes[v] == "UNUSED") & (after.writes[v] == "WRITTEN") for v in m.value)
        found.append(written & appends & (size(broker.view.isr) < m.min_isr_in(broker.view)))
    return any_of(found)


# --- messages ---------------------------------------------------------------------------------------------------


@reachable("B8, F1", needs="late_proposals")
def a_proposal_arrives_late(m: Replication, before: State, after: State) -> Truth:
    """An AlterPartition arrives after its leader has abandoned it."""
    return any_of(before.late_proposals[b].is_some & after.late_proposals[b].is_none for b in m.broker)


@reachable("B7, B8")
def a_proposal_ends_by_known_metadata(m: Replication, before: State, after: State) -> Truth:
    """A leader drops its pending proposal without an answer, and its metadata view stays the same."""

    def ends(b: Number) -> Truth:
        old, new = before.brokers[b], after.brokers[b]
        answered = before.alter_responses[b].is_some & after.alter_responses[b].is_none
        return old.proposed.is_some & new.proposed.is_none & (old.view == new.view) & ~answered

    return any_of(ends(b) for b in m.broker)


@reachable("F1", needs="late_fetches")
def a_fetch_arrives_late(m: Replication, before: State, after: State) -> Truth:
    """A fetch arrives late, after its sender has abandoned it."""

    def arrives(f: Number) -> Truth:
        late, new = before.late_fetches[f], after.fetch_requests[f]
        free = after.late_fetches[f].is_none & before.fetch_requests[f].is_none
        return late.is_some & free & (new == late)

    return any_of(arrives(f) for f in m.broker)


@reachable("B1")
def a_fetch_of_this_incarnation_is_given_up(m: Replication, before: State, after: State) -> Truth:
    """A follower sends a fetch while its earlier fetch of the same broker epoch is in flight."""

    def anew(f: Number) -> Truth:
        old, new = before.fetch_requests[f], after.fetch_requests[f]
        replaced = old.is_some & new.is_some & (old != new)
        return replaced & (old.value.broker_epoch == new.value.broker_epoch)

    return any_of(anew(f) for f in m.broker)


_Fetch = Callable[[Number, StructValue, StructValue], Truth]
"""A condition on a follower, its fetch, and the fetch's recipient."""


def _is_refused(m: Replication, before: State, after: State, about: _Fetch) -> Truth:
    """True if a broker drops a fetch that satisfies ``about``: it sends no answer and keeps its state."""

    def refused(f: Number) -> Truth:
        request, fetch = before.fetch_requests[f], before.fetch_requests[f].value
        old, new = before.brokers[fetch.leader], after.brokers[fetch.leader]
        gone = request.is_some & after.fetch_requests[f].is_none
        return gone & after.fetch_responses[f].is_none & (old == new) & about(f, fetch, old)

    return any_of(refused(f) for f in m.broker)


def _leads_it(m: Replication, f: Number, fetch: StructValue, broker: StructValue) -> Truth:
    """True if the fetch's recipient believes that it leads, and knows the sender ``f`` as a replica."""
    return m.leads(fetch.leader, broker) & broker.view.replicas.has(f)


@reachable("B2")
def a_broker_that_is_down_refuses_a_fetch(m: Replication, before: State, after: State) -> Truth:
    """A fetch for a broker that is down ends without an answer."""
    return _is_refused(m, before, after, lambda f, fetch, broker: ~m.is_up(broker))


@reachable("B2")
def a_fetch_of_a_former_epoch_is_refused(m: Replication, before: State, after: State) -> Truth:
    """A leader refuses a fetch of an earlier leader epoch than its own."""

    def is_former(f: Number, fetch: StructValue, broker: StructValue) -> Truth:
        return _leads_it(m, f, fetch, broker) & (fetch.leader_epoch < broker.view.leader_epoch)

    return _is_refused(m, before, after, is_former)


@reachable("B2")
def a_fetch_of_a_later_epoch_is_refused(m: Replication, before: State, after: State) -> Truth:
    """A leader refuses a fetch of a later leader epoch than its own."""

    def is_later(f: Number, fetch: StructValue, broker: StructValue) -> Truth:
        return _leads_it(m, f, fetch, broker) & (fetch.leader_epoch > broker.view.leader_epoch)

    return _is_refused(m, before, after, is_later)


@reachable("K2")
def a_fetch_of_a_former_incarnation_is_refused(m: Replication, before: State, after: State) -> Truth:
    """A leader refuses a fetch of its own leader epoch from a replica that has registered again since."""

    def is_former(f: Number, fetch: StructValue, broker: StructValue) -> Truth:
        same = fetch.leader_epoch == broker.view.leader_epoch
        return _leads_it(m, f, fetch, broker) & same & (fetch.broker_epoch < broker.view.epochs[f])

    return _is_refused(m, before, after, is_former)


@reachable("K2")
def a_fetch_of_a_former_incarnation_counts(m: Replication, before: State, after: State) -> Truth:
    """A leader updates a replica's fetch state from a fetch that was sent before the replica registered again."""

    def counts(f: Number) -> Truth:
        request, fetch = before.fetch_requests[f], before.fetch_requests[f].value
        old, new = before.brokers[fetch.leader], after.brokers[fetch.leader]
        taken = request.is_some & after.fetch_requests[f].is_none & (old.view == new.view)
        former = fetch.broker_epoch < old.view.epochs[f]
        return taken & former & (old.followers[f] != new.followers[f])

    return any_of(counts(f) for f in m.broker)


@reachable("841.4")
def a_fetch_of_a_fenced_follower_counts(m: Replication, before: State, after: State) -> Truth:
    """A leader updates its fetch state of a follower that its metadata shows fenced or shutting down."""
    return any_of(
        m.leads(b, before.brokers[b])
        & (before.brokers[b].view == after.brokers[b].view)
        & ~before.brokers[b].view.active.has(f)
        & (before.brokers[b].followers[f] != after.brokers[b].followers[f])
        for b in m.broker
        for f in m.broker
    )


@reachable("966.18", needs="upgrades")
def an_upgrade_begins_under_min_isr(m: Replication, before: State, after: State) -> Truth:
    """The metadata version is upgraded while the ISR is under min ISR."""
    return ~before.elr_level & after.elr_level & (size(before.partition.isr) < m.min_isr(before))


@reachable("B6", needs="waiting_producers")
def a_producer_waits_through_a_re_election(m: Replication, before: State, after: State) -> Truth:
    """A leader is elected again, and a producer goes on waiting at it."""
    return any_of(
        m.leads(b, before.brokers[b])
        & m.leads(b, after.brokers[b])
        & (before.brokers[b].view.leader_epoch != after.brokers[b].view.leader_epoch)
        & after.waiting[v].is_some
        & (after.waiting[v].value.leader == b)
        for b in m.broker
        for v in m.value
    )


@reachable("B2, 966.9")
def a_fetch_of_a_new_replica_is_refused(m: Replication, before: State, after: State) -> Truth:
    """A leader refuses a fetch of its own leader epoch from a broker that is not a replica in the leader's metadata."""

    def is_new(f: Number, fetch: StructValue, broker: StructValue) -> Truth:
        leads = m.leads(fetch.leader, broker) & (fetch.leader_epoch == broker.view.leader_epoch)
        return leads & ~broker.view.replicas.has(f)

    return _is_refused(m, before, after, is_new)
