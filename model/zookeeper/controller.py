"""Controllers: how they handle changes of the broker list, ControlledShutdown requests, reassignments and failovers.

A watch notifies a controller only that the broker list changed. The controller reads the list and compares it with the
list that it knows. It writes its decision to ZooKeeper and then sends requests to the brokers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from highwater.model.language import (
    Number,
    SeqValue,
    SetValue,
    State,
    StructValue,
    Truth,
    action,
    as_bool,
    require,
    spend,
    where,
)
from highwater.model.zookeeper import cluster
from highwater.model.zookeeper.cluster import Cluster, Kind

# --- decisions ----------------------------------------------------------------------------------------------


def after_failure(m: Cluster, p: StructValue, failed: SetValue, electable: SetValue) -> StructValue:
    """The partition after brokers failed: the ISR loses them and, if the leader failed, an ISR member becomes leader.

    If all ISR members failed, the ISR becomes the former leader alone; it stays unchanged if there was no leader. The
    new leader is an ISR member in ``electable`` (live and not shutting down). If there is no such member, the partition
    has no leader.
    """
    leaderless = p.leader.is_some & failed.has(p.leader)
    leader = where(leaderless, m.first(p.isr & electable), p.leader)
    rest = p.isr - failed
    last = where(p.leader.is_some, m.brokers.zero().with_(p.leader.value), p.isr)
    isr = where(rest.is_empty, last, rest)
    return m.decided(p, (p.leader != leader) | (p.isr != isr), leader, isr)


def elected(
    m: Cluster, p: StructValue, leaderless: Truth, live: SetValue, electable: SetValue
) -> StructValue:
    """The partition after an election among the ISR members in ``electable``; only live members stay in the ISR.

    The partition is unchanged if ``leaderless`` does not hold or there is no candidate.
    """
    leader = m.first(p.isr & electable)
    return m.decided(p, leaderless & leader.is_some, leader, p.isr & live)


def may_write(m: Cluster, s: State, c: Number) -> Truth:
    """ZK4. True if ZooKeeper accepts a write of controller ``c``."""
    return (s.zookeeper.controller == c) | (not m.on("controller_epoch_fencing"))


# --- requests -----------------------------------------------------------------------------------------------


class Stop(NamedTuple):
    """The StopReplica of a batch: ``broker`` gets it if ``condition`` holds; ``deletes``: it also deletes its log."""

    broker: Number
    condition: Truth
    deletes: bool = False


def send(
    m: Cluster,
    s: State,
    c: Number,
    me: StructValue,
    *,
    leader_and_isr: SetValue,
    update_metadata: Any,
    of_all: SetValue | None = None,
    stop: Stop | None = None,
) -> None:
    """Send a batch of requests: StopReplica, LeaderAndIsr and UpdateMetadata, in this order.

    * ``me``: the state of controller ``c``. The requests have the broker epochs of its broker list (380.2), and its
      leader and leader epoch.
    * ``leader_and_isr``: the brokers that get a LeaderAndIsr.
    * ``update_metadata``: the condition that all brokers in the broker list get an UpdateMetadata.
    * ``of_all``: the brokers that are new to the controller; their LeaderAndIsr is about all partitions.
    """
    for b in m.broker:
        known = me.registrations[b]
        request = m.request.zero().replace(controller=c, broker_epoch=known.value)
        decision = request.replace(leader=me.leadership.leader, leader_epoch=me.leadership.leader_epoch)
        channel: SeqValue = s.requests[b]
        if stop is not None and int(stop.broker) == int(b):
            stops = request.replace(kind=Kind.STOP_REPLICA, deletes=stop.deletes)
            channel = cluster.sent_if(stop.condition, channel, stops)
        everything = of_all is not None and of_all.has(b)
        becomes = decision.replace(kind=Kind.LEADER_AND_ISR, of_all=everything)
        channel = cluster.sent_if(leader_and_isr.has(b), channel, becomes)
        if m.p.metadata:
            informs = decision.replace(kind=Kind.UPDATE_METADATA)
            channel = cluster.sent_if(update_metadata & known.is_some, channel, informs)
        s.next.requests[b] = channel


# --- the broker list ----------------------------------------------------------------------------------------


@action("380.4", says="controller {c} reads the broker list", c="controller")
def read_broker_list(m: Cluster, s: State, c: Number) -> None:
    """A controller reads the broker list after its watch fired, and handles failed, new and bounced brokers.

    380.4: a bounced broker is in the old and in the new list, with different broker epochs. It has lost its memory, so
    the controller handles it as failed and then as new. Otherwise no LeaderAndIsr would reach the bounced broker, and
    its replica would never fetch. ZK4: if ZooKeeper refuses the controller's write, the controller resigns.
    """
    me, now = s.controllers[c], s.zookeeper.registrations
    require("the controller is active", me.active)
    bounced = m.brokers.of(lambda b: has_bounced(m, me.registrations[b], now[b]))
    before, live = m.registered(me.registrations), m.registered(now)
    failed, started = before - live, (live - before) | bounced
    require("the broker list has changed", ~(failed | started).is_empty)
    if m.on("bounced_broker_fails_first"):
        failed = failed | bounced
    known = m.registrations.of(lambda b: where((failed | started).has(b), now[b], me.registrations[b]))
    shutting_down = me.shutting_down - failed
    electable = live - shutting_down
    old = s.zookeeper.partition
    new = after_failure(m, old, failed, electable - started)
    offline = new.leader.is_none | (live - before).has(new.leader)
    new = elected(m, new, offline & ~started.is_empty, live, electable)
    written = new != old
    resigns = written & ~may_write(m, s, c)
    s.next.zookeeper.partition = where(resigns, old, new)
    leadership = where(written, m.leadership_of(new), me.leadership)
    after = me.replace(registrations=known, shutting_down=shutting_down, leadership=leadership)
    s.next.controllers[c] = where(resigns, m.controller_type.zero(), after)
    informed = m.brokers.of(lambda b: ~resigns & live.has(b) & (written | started.has(b)))
    send(m, s, c, after, leader_and_isr=informed & m.replicas(old), update_metadata=~resigns, of_all=started)


def has_bounced(m: Cluster, known: Any, registration: Any) -> Truth:
    """380.4. True if a broker is in the old and in the new list, with a greater broker epoch in the new list.

    Always false without the rule ``bounce_detection``.
    """
    both = known.is_some & registration.is_some
    return both & m.older(known.value, registration.value) & m.on("bounce_detection")


# --- controlled shutdown ------------------------------------------------------------------------------------


@action(
    "380.3",
    says="controller {c} takes broker {b}'s ControlledShutdown",
    c="controller",
    b="broker",
)
def take_controlled_shutdown(m: Cluster, s: State, c: Number, b: Number) -> None:
    """A controller handles a ControlledShutdown: it elects another leader, or stops the broker's follower replica.

    380.3: the broker may have restarted since it sent the request. A request of its former generation must not take
    leadership from the restarted broker. ZK4: if ZooKeeper refuses the controller's write, the controller resigns.
    """
    request = s.shutdown_requests[b].value
    require("a ControlledShutdown is under way", s.shutdown_requests[b].is_some)
    require("it is for this controller", request.recipient == c)
    s.next.shutdown_requests[b] = None
    me, known = s.controllers[c], s.controllers[c].registrations[b]
    missing = as_bool(bool(m.p.older_brokers >> int(b) & 1))
    outdated = m.is_outdated(request.broker_epoch, known.value, missing=missing)
    stale = outdated & m.on("shutdown_epoch_check")
    granted = me.active & known.is_some & ~stale
    shutting_down = me.shutting_down.with_(b)
    live = m.registered(me.registrations)
    old = s.zookeeper.partition
    led = me.leadership.leader.is_(b)
    successor = m.first((old.isr & live) - shutting_down)
    rest = old.isr.without(b)
    moved = m.decided(old, granted & led & successor.is_some, successor, old.isr - shutting_down)
    left = m.decided(old, granted & old.isr.has(b) & ~rest.is_empty, old.leader, rest)
    new = where(led, moved, left)
    written = new != old
    resigns = written & ~may_write(m, s, c)
    s.next.zookeeper.partition = where(resigns, old, new)
    after = me.replace(
        shutting_down=shutting_down,
        leadership=where(written, m.leadership_of(new), me.leadership),
    )
    s.next.controllers[c] = where(resigns, m.controller_type.zero(), where(granted, after, me))
    informed = m.brokers.of(lambda o: live.has(o) & written & ~resigns & (led | (o != b)))
    send(
        m,
        s,
        c,
        after,
        leader_and_isr=informed & m.replicas(old),
        update_metadata=written & ~resigns,
        stop=Stop(b, granted & ~led),
    )
    broker = s.brokers[b]
    leads = m.leads(b, broker) & broker.leader_epoch.is_(old.leader_epoch) & old.leader.is_(b)
    wronged = leads & ~resigns & ~new.leader.is_(b) & (request.broker_epoch < broker.epoch)
    s.next.deposed = where(wronged, s.deposed.with_(b), s.deposed)


# --- the operator -------------------------------------------------------------------------------------------


@action("380.2", says="controller {c} removes broker {b}'s replica", c="controller", b="broker")
def remove_replica(m: Cluster, s: State, c: Number, b: Number) -> None:
    """A reassignment removes a follower from replicas and ISR. A StopReplica makes the follower delete its log."""
    spend(s, "removals")
    old = s.zookeeper.partition
    require("the broker has a replica", m.replicas(old).has(b))
    require("the broker does not lead", old.leader.is_some & ~old.leader.is_(b))
    reassign(m, s, c, b, old.replace(replicas=old.replicas.without(b), isr=old.isr.without(b)), True)


@action("380.2", says="controller {c} adds a replica on broker {b} again", c="controller", b="broker")
def add_replica(m: Cluster, s: State, c: Number, b: Number) -> None:
    """A reassignment adds the broker to the replicas again; its log is empty."""
    old = s.zookeeper.partition
    require("replicas are removed", bool(m.p.removals))
    require("the broker has no replica", ~m.replicas(old).has(b))
    reassign(m, s, c, b, old.replace(replicas=old.replicas.with_(b)), False)


def reassign(m: Cluster, s: State, c: Number, b: Number, changed: StructValue, deletes: bool) -> None:
    """Write the ``changed`` partition in the next leader epoch, and send it to the live replicas.

    ``b`` is the broker whose replica is added or removed. With ``deletes`` this broker gets a StopReplica, if it is
    live.
    """
    me = s.controllers[c]
    require("the controller is active", me.active & may_write(m, s, c))
    new = m.decided(changed, changed.leader == changed.leader, changed.leader, changed.isr)
    s.next.zookeeper.partition = new
    after = me.replace(leadership=m.leadership_of(new))
    s.next.controllers[c] = after
    live = m.registered(me.registrations)
    send(
        m,
        s,
        c,
        after,
        leader_and_isr=live & m.replicas(new),
        update_metadata=True,
        stop=Stop(b, live.has(b) & deletes, deletes),
    )


# --- failover -----------------------------------------------------------------------------------------------


@action("ZK1", says="controller {c} is elected", c="successor")
def fail_over(m: Cluster, s: State, c: int) -> None:
    """Another controller takes the controller node with the next controller epoch, and reads the whole state.

    It elects a leader if the partition has no live leader, and sends the leadership to all live brokers.
    The new controller does not know the former controller's broker list. A bounce that the former controller has not
    handled therefore stays undetected.
    """
    spend(s, "failovers")
    require("this controller is the next one", s.zookeeper.controller == c - 1)
    now, old = s.zookeeper.registrations, s.zookeeper.partition
    live = m.registered(now)
    new = elected(m, old, old.leader.is_none | ~live.has(old.leader), live, live)
    s.next.zookeeper.controller = c
    s.next.zookeeper.partition = new
    me = m.controller_type.zero().replace(active=True, registrations=now, leadership=m.leadership_of(new))
    s.next.controllers[c] = me
    send(
        m,
        s,
        m.controller.lift(c),
        me,
        leader_and_isr=live & m.replicas(new),
        update_metadata=True,
        of_all=live,
    )


@action("ZK4", says="controller {c} learns that it is no longer the controller", c="controller")
def resign(m: Cluster, s: State, c: Number) -> None:
    """A former controller resigns and forgets its state; its requests may still be in flight.

    Before this step two controllers act. Brokers distinguish the two by the controller epoch; ZooKeeper refuses the
    former controller's writes.
    """
    require("the controller is active", s.controllers[c].active)
    require("another controller has the controller node", s.zookeeper.controller != c)
    s.next.controllers[c] = m.controller_type.zero()
