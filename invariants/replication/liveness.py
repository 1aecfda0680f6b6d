"""Liveness of replication once faults have stopped, and the fair actions that each property needs.

Budgets bound the faults, and fairness never requires a fault, so an infinite run has a last fault. Each property names
the smallest set of fair actions that suffices; the page on liveness shows the effect of leaving one out.
"""

from __future__ import annotations

from highwater.invariants.replication.histories import has_value
from highwater.model.language import (
    Number,
    State,
    Truth,
    all_of,
    always_eventually,
    any_of,
    either,
    implies,
    weak,
)
from highwater.model.replication import Replication
from highwater.model.replication import logs as log_rules
from highwater.model.replication.isr import is_eligible


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


@always_eventually("B4, 966.1", fair=_RETURN + _REPLAY + _FETCH + _ALTER + weak("propose_expand"))
def hwm_comes_to_cover_what_is_committed(m: Replication, s: State) -> Truth:
    """A leader's HWM eventually covers all committed records of its log, so that consumers can read them."""
    return all_of(
        ~m.leads(b, s.brokers[b])
        | all_of(
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
