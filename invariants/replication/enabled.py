"""Steps that nobody refuses: if the proposals allow a step, the step is enabled.

A guard that is too strict violates no property of results. It violates one of these.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater.model.language import (
    State,
    Truth,
    all_of,
    any_of,
    as_bool,
    enabled,
    greatest,
    implies,
    invariant,
    least,
    size,
)
from highwater.model.language.containers import members_of
from highwater.model.replication.protocol import Replication
from highwater.model.replication.recovery import has_answered


@invariant("B2, B3, B8, 841.3, F1")
def messages_are_received(m: Replication, s: State) -> Iterator[Truth]:
    """A message in flight can be received: a fetch is answered or refused, and any other message is handled."""
    for b in m.broker:
        fetch, got = s.fetch_requests[b], s.fetch_responses[b]
        received = enabled("answer_fetch", f=b) | enabled("refuse_fetch", f=b)
        yield implies(fetch.is_some & got.is_none, received)
        yield implies(got.is_some, enabled("take_fetch_answer", f=b))
        asked, answer = s.alter_requests[b], s.alter_responses[b]
        yield implies(asked.is_some & answer.is_none, enabled("handle_alter_partition", b=b))
        yield implies(answer.is_some, enabled("take_alter_answer", leader=b))


@invariant("B1, B5, B7, 841.1, 841.4, 903.2")
def replication_goes_on(m: Replication, s: State) -> Iterator[Truth]:
    """A follower can fetch, fenced or not. A leader can propose a caught-up replica, or the removal of one that lags.

    A replica is caught up if its last fetch has reached the HWM and the leader epoch start offset. The leader's
    metadata shows it active with the broker epoch of this fetch. A leader can repeat its proposal.
    """
    for b in m.broker:
        leader, view = s.brokers[b], s.brokers[b].view
        silent = s.fetch_requests[b].is_none & s.fetch_responses[b].is_none
        yield implies(m.follows(b, leader) & silent, enabled("send_fetch", f=b))
        able = m.leads(b, leader) & s.alter_requests[b].is_none & s.alter_responses[b].is_none
        yield implies(able & leader.proposed.is_some, enabled("retry_alter_partition", leader=b))
        able &= leader.proposed.is_none
        for f in m.broker:
            known = leader.followers[f]
            reached = known.leo.is_some & (known.leo.value >= greatest(leader.hwm, leader.leso))
            reached &= known.in_epoch | m.on("re_election_forgets_fetches")
            eligible = (view.replicas & view.active).has(f) & (known.broker_epoch == view.epochs[f])
            joins = able & ~view.isr.has(f) & (f != b) & reached & eligible
            yield implies(joins, enabled("propose_expand", leader=b, f=f))
            lags = view.isr.has(f) & (f != b) & ~known.leo.is_(leader.log.length)
            yield implies(able & lags & (s.budgets.shrinks > 0), enabled("propose_shrink", leader=b, f=f))


@invariant("631.1, 631.2, 841.5, 966.5")
def brokers_can_come_and_go(m: Replication, s: State) -> Iterator[Truth]:
    """The controller can fence a broker that is down, and the broker can then start.

    The controller can unfence a broker that has replayed all metadata. A broker can replay metadata while it shuts
    down, too, and can stop once it leads nothing.
    """
    latest = m.latest_view(s)
    for b in m.broker:
        broker, known = s.brokers[b], s.registrations[b]
        runs, ends = broker.status == "RUNNING", broker.status == "SHUTTING_DOWN"
        yield implies(~runs & ~ends, enabled("fence_broker", b=b) | enabled("start_broker", b=b))
        yield implies(runs & known.fenced & (broker.view == latest), enabled("unfence_broker", b=b))
        asks = runs & (s.budgets.controlled_shutdowns > 0)
        if m.p.shutdown_requests:
            yield implies(asks, enabled("ask_for_shutdown", b=b))
            asks = ends & ~known.in_controlled_shutdown
        yield implies(asks & ~known.fenced, enabled("begin_shutdown", b=b))
        leaves = ends & known.in_controlled_shutdown & ~s.partition.leader.is_(b)
        yield implies(leaves, enabled("finish_shutdown", b=b))
        if m.on("listens_while_shutting_down"):
            news = (runs | ends) & (broker.view != latest)
            if m.p.metadata_in_flight:
                yield implies(news & s.metadata[b].is_none, enabled("send_metadata", b=b))
                news = s.metadata[b].is_some
            yield implies(news, enabled("replay_metadata", b=b))


@invariant("B6, 966.1")
def clients_are_served(m: Replication, s: State) -> Iterator[Truth]:
    """A leader takes a record with acks 0 or 1 whatever its ISR is, and one with acks=all if the ISR is large enough.

    It acknowledges a committed record of its epoch if the maximal ISR is large enough.
    """
    for b in m.broker:
        leader, view = s.brokers[b], s.brokers[b].view
        enough, enough_to_answer = (
            (size(isr) >= view.min_isr) | (view.replicas <= isr) for isr in (view.isr, m.maximal_isr(leader))
        )
        room = m.leads(b, leader) & (leader.log.length < m.p.records)
        for v in m.value:
            written = all_of(s.writes[x] != "UNUSED" for x in m.value if int(x) < int(v))
            takes = room & written & (s.writes[v] == "UNUSED")
            yield implies(takes & enough, enabled("write_acks_all", leader=b, value=v))
            yield implies(takes & (s.budgets.weak_writes > 0), enabled("write_acks_one", leader=b, value=v))
            committed = m.leads(b, leader) & any_of(
                (leader.hwm > o) & (leader.log.at(o) == m.record(value=v, epoch=view.leader_epoch))
                for o in m.offsets
            )
            if not m.p.waiting_producers:
                waits = committed & (s.writes[v] == "PENDING") & enough_to_answer
                yield implies(waits, enabled("acknowledge", leader=b, value=v))


@invariant("966.17", needs="elections")
def requested_elections_are_held(m: Replication, s: State) -> Iterator[Truth]:
    """The operator can elect an active ISR member that is the preferred replica, whatever ELR and reassignments are.

    In a partition without a leader the operator can elect any live replica, by DESIGNATION if there is unclean
    recovery.
    """
    p, live = s.partition, m.t.active(s.registrations)
    replicas, first = members_of(p.replicas, m.t.brokers), p.replicas.at(0)
    asked = s.budgets.elections > 0
    preferred = (p.isr & live).has(first) & ~p.leader.is_(first)
    yield implies(asked & preferred, enabled("elect_preferred_leader"))
    risks = asked & bool(m.p.risky_elections) & p.leader.is_none
    uncleanly = risks & ~m.has_recovery(s) & ~(replicas & live).is_empty
    yield implies(uncleanly, enabled("elect_uncleanly"))
    for b in m.broker:
        named = risks & m.has_recovery(s) & (replicas & live).has(b)
        yield implies(named, enabled("designate_leader", b=b))


@invariant("966.13, 966.14", needs="recovery")
def recoveries_wait_for_answers_only(m: Replication, s: State) -> Iterator[Truth]:
    """In an unclean recovery each live replica can answer, and the controller can elect once the answers are there.

    Balanced waits for the last known ELR and an empty ELR, Aggressive for one replica. The partition has no leader and
    no live ISR or ELR member. Only Aggressive passes over a member that stays in the ISR because the ELR is off.
    """
    p, live, balanced = m.as_read(s), m.t.active(s.registrations), not m.p.unclean_election
    passes_over = as_bool(not balanced) & ~m.has_elr(s)
    stuck = p.leader.is_none & ((p.isr | p.elr) & live).is_empty & (p.isr.is_empty | passes_over)
    awaited = p.last_known_elr if balanced else m.t.brokers.zero()
    if balanced:
        stuck &= p.elr.is_empty & (awaited <= live)
    recovers = stuck & m.has_recovery(s) & bool(m.p.recovers_by_itself)
    replicas = members_of(p.replicas, m.t.brokers) & live
    for b in m.broker:
        silent = m.is_up(s.brokers[b]) & s.log_infos_sent[b].is_none & ~has_answered(m, s, b)
        yield implies(recovers & replicas.has(b) & silent, enabled("send_log_info", b=b))
    ready = m.t.brokers.of(lambda b: live.has(b) & has_answered(m, s, b))
    yield implies(recovers & ~ready.is_empty & (awaited <= ready), enabled("finish_recovery"))


@invariant("966.9", needs="reassignments")
def reassignments_are_carried_out(m: Replication, s: State) -> Iterator[Truth]:
    """The operator can reassign the partition to other replicas at any time, and cancel if min ISR members are left."""
    p, asked = s.partition, s.budgets.reassignments > 0
    replicas = members_of(p.replicas, m.t.brokers)
    for target in m.targets:
        wanted = members_of(target, m.t.brokers)
        other = (wanted != replicas) & (wanted != replicas - p.removing)
        yield implies(asked & other, enabled("reassign", target=target))
    kept = size(p.isr - p.adding) >= least(s.min_insync_replicas, size(replicas - p.adding))
    going = ~(p.adding | p.removing).is_empty
    yield implies(asked & going & kept, enabled("cancel_reassignment"))


@invariant("966.8", needs="min_isr_changes")
def min_isr_changes_are_carried_out(m: Replication, s: State) -> Iterator[Truth]:
    """The operator can set min.insync.replicas to another value at any time, with or without a leader."""
    for n in m.min_isr_values:
        changes = (s.budgets.min_isr_changes > 0) & (s.min_insync_replicas != n)
        yield implies(changes, enabled("change_min_isr", value=n))
