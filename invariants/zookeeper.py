"""Properties of the control plane in ZooKeeper mode: what KIP-380 is there for, and what the fences beside it are."""

from __future__ import annotations

from highwater.invariants import statements
from highwater.invariants.zookeeper_reachable import REACHABLE
from highwater.invariants.zookeeper_requests import WATCHED as OF_REQUESTS
from highwater.invariants.zookeeper_steps import WATCHED as OF_DECISIONS
from highwater.model.language import (
    State,
    all_of,
    always_eventually,
    any_of,
    either,
    implies,
    invariant,
    weak,
)
from highwater.model.language.values import Number, Truth, as_bool
from highwater.model.zookeeper import ZooKeeperMode


@invariant("380.2")
def former_requests_are_refused(m: ZooKeeperMode, s: State) -> Truth:
    """No broker obeys a request that was meant for its former generation.

    What the controller decided for that one need not be true of this one.
    """
    return all_of(implies(s.brokers[b].epoch > 0, ~s.brokers[b].misled) for b in m.broker)


@invariant("380.2")
def replicas_are_stopped_by_their_own_requests(m: ZooKeeperMode, s: State) -> Truth:
    """A replica that is stopped was stopped by a request meant for this generation of its broker, or a later one.

    Else nobody starts it again: the controller takes it for one that runs.
    """
    return all_of(
        implies(s.brokers[b].stopped_for.is_some, s.brokers[b].stopped_for.value >= s.brokers[b].epoch)
        for b in m.broker
    )


@invariant("380.2")
def checkpoints_keep_every_partition(m: ZooKeeperMode, s: State) -> Truth:
    """No broker writes its checkpoint of HWMs without a partition that it has.

    The HWM of that one would be 0 to the process that reads it: as a leader it takes back what consumers were told, and
    as a follower, before KIP-101, it truncates its whole log.
    """
    if m.p.partitions == 1:
        return as_bool(True)
    return all_of(s.brokers[b].checkpointed for b in m.broker)


@invariant("380.2")
def isr_members_keep_their_log(m: ZooKeeperMode, s: State) -> Truth:
    """No member of the ISR has had its log deleted since it joined: a StopReplica from before comes too late.

    It would be elected with an empty log.
    """
    isr = s.zookeeper.partition.isr
    return all_of(
        implies(isr.has(b) & (m.p.removals > s.budgets.removals), ~s.brokers[b].deleted) for b in m.broker
    )


@invariant("380.3")
def former_shutdowns_take_no_leadership(m: ZooKeeperMode, s: State) -> Truth:
    """A restarted broker does not lose leadership to its former generation's ControlledShutdown."""
    return implies(m.p.controlled_shutdowns > s.budgets.controlled_shutdowns, s.deposed.is_empty)


@invariant("380.3")
def only_who_asked_is_shut_down(m: ZooKeeperMode, s: State) -> Truth:
    """Who counts as shutting down for the active controller has asked for it in the generation that it knows.

    Such a broker is not elected until it has failed.
    """
    me = s.controllers[s.zookeeper.controller]
    return all_of(
        implies(
            me.shutting_down.has(b) & m.is_up(s.brokers[b]) & me.registrations[b].is_(s.brokers[b].epoch),
            s.brokers[b].status == "SHUTTING_DOWN",
        )
        for b in m.broker
    )


@invariant("ZK1, ZK2")
def epochs_never_go_back(m: ZooKeeperMode, s: State) -> Truth:
    """No process obeys a request of a lower controller epoch or leader epoch than one that it has obeyed before."""
    return all_of(implies(m.is_up(s.brokers[b]), ~s.brokers[b].reverted) for b in m.broker)


@statements.one_leader_per_epoch.seen("ZK3")
def one_leader_per_epoch(m: ZooKeeperMode, s: State) -> Truth:
    """By what each broker has been told."""
    return statements.one_leader_per_epoch(
        [(m.leads(b, s.brokers[b]), s.brokers[b].leader_epoch) for b in m.broker]
    )


@invariant("380.4")
def one_generation_per_leader_epoch(m: ZooKeeperMode, s: State) -> Truth:
    """A restarted broker does not lead in a leader epoch in which its former process led.

    It may have lost records that followers of that leader epoch have, and no epoch tells the two logs apart.
    """
    return all_of(
        implies(
            m.leads(b, s.brokers[b]) & s.brokers[b].led_formerly.is_some,
            s.brokers[b].leader_epoch.value > s.brokers[b].led_formerly.value,
        )
        for b in m.broker
    )


@invariant("ZK4")
def the_active_controller_decides(m: ZooKeeperMode, s: State) -> Truth:
    """Leader and leader epoch in ZooKeeper are those that the active controller decided and tells brokers.

    Else brokers never hear of a decision that is in ZooKeeper.
    """
    me = s.controllers[s.zookeeper.controller]
    return me.leadership == m.leadership_of(s.zookeeper.partition)


@invariant("ZK2, ZK4")
def nobody_is_ahead_of_zookeeper(m: ZooKeeperMode, s: State) -> Truth:
    """No broker is in a leader epoch that ZooKeeper has not, and in ZooKeeper's it has ZooKeeper's leader."""
    p = s.zookeeper.partition
    return all_of(
        implies(
            s.brokers[b].leader_epoch.is_some,
            (s.brokers[b].leader_epoch.value < p.leader_epoch)
            | (s.brokers[b].leader_epoch.is_(p.leader_epoch) & (s.brokers[b].leader == p.leader)),
        )
        for b in m.broker
    )


INVARIANTS = (
    former_requests_are_refused,
    replicas_are_stopped_by_their_own_requests,
    checkpoints_keep_every_partition,
    isr_members_keep_their_log,
    former_shutdowns_take_no_leadership,
    only_who_asked_is_shut_down,
    epochs_never_go_back,
    one_leader_per_epoch,
    one_generation_per_leader_epoch,
    the_active_controller_decides,
    nobody_is_ahead_of_zookeeper,
)
"""What must hold of the control plane."""

WATCHED = (*OF_DECISIONS, *OF_REQUESTS)
"""What must hold of every step, in explorations that ask it."""

DELIVERY = weak(
    either("take_leader_and_isr", "take_update_metadata", "take_stop_replica"), by=["b"], again=False
)
"""Requests to a broker that runs arrive."""

LOOKS = weak("read_broker_list")
"""A controller that has been told of a change of the broker list reads it."""

SESSIONS = weak("register_again", "learn_epoch")
"""A broker that has lost its session registers again, and learns its new broker epoch."""


def _is_live(m: ZooKeeperMode, s: State, b: Number) -> Truth:
    """Whether a broker runs, is registered, and does not want to stop."""
    return (s.brokers[b].status == "RUNNING") & s.zookeeper.registrations[b].is_(s.brokers[b].epoch)


@always_eventually("380.4", fair=DELIVERY + LOOKS)
def live_brokers_hear_what_was_decided(m: ZooKeeperMode, s: State) -> Truth:
    """Every live broker comes to have the leader and leader epoch that the controller decided, and a running replica.

    The same of a second partition: it comes to be told of it. A broker that its controller tells nothing serves nobody,
    and fetches from nobody.
    """
    p = s.zookeeper.partition
    return all_of(
        ~_is_live(m, s, b)
        | ~m.replicas(p).has(b)
        | (
            (s.brokers[b].leader == p.leader)
            & s.brokers[b].leader_epoch.is_(p.leader_epoch)
            & s.brokers[b].stopped_for.is_none
            & (s.brokers[b].has_second if m.p.partitions > 1 else True)
        )
        for b in m.broker
    )


@always_eventually("380.4", fair=DELIVERY + LOOKS)
def live_brokers_know_the_leader(m: ZooKeeperMode, s: State) -> Truth:
    """Every live broker comes to tell clients of the leader that the controller decided."""
    if not m.p.metadata:
        return as_bool(True)
    leadership = m.leadership_of(s.zookeeper.partition)
    return all_of(~_is_live(m, s, b) | s.brokers[b].metadata.is_(leadership) for b in m.broker)


@always_eventually("380.3", fair=LOOKS)
def a_live_isr_member_leads(m: ZooKeeperMode, s: State) -> Truth:
    """While there is a live broker in the ISR, the partition comes to have a leader that is registered."""
    p = s.zookeeper.partition
    nobody = ~any_of(p.isr.has(b) & _is_live(m, s, b) for b in m.broker)
    return nobody | m.registered(s.zookeeper.registrations).has(p.leader)


@always_eventually("380.1", fair=SESSIONS)
def sessions_come_back(m: ZooKeeperMode, s: State) -> Truth:
    """A broker that runs comes to be registered, and to know its broker epoch."""
    return all_of((s.brokers[b].status != "RUNNING") | _is_live(m, s, b) for b in m.broker)


LIVENESS = (
    live_brokers_hear_what_was_decided,
    live_brokers_know_the_leader,
    a_live_isr_member_leads,
    sessions_come_back,
)
"""What must happen in the end."""

__all__ = ["INVARIANTS", "LIVENESS", "REACHABLE", "WATCHED"]
