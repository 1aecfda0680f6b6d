"""Brokers: how they take control requests, change the ISR, stop, and come back as another generation.

Everything here asks one question: was this said to me, or to the broker that I was? A request can outlive the broker
that it was meant for, as it waits in the controller's queue or is sent again on a new connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater.model.language import Number, State, StructValue, Truth, action, require, spend, where
from highwater.model.zookeeper import cluster
from highwater.model.zookeeper.cluster import Cluster, Kind

# --- control requests ---------------------------------------------------------------------------------------


def arrives(m: Cluster, s: State, b: Number, position: int, kind: Number, again: bool) -> StructValue:
    """A request of this kind arrives; with ``again`` its answer is lost and a copy of it arrives later."""
    channel = s.requests[b]
    request: StructValue = channel.at(position)
    require("it is such a request", (channel.length > position) & (request.kind == kind))
    require("nothing before it is on the same connection", cluster.deliverable(channel, position))
    require("the broker runs", m.is_up(s.brokers[b]))
    if again:
        require("it is not such a copy itself", ~request.late)
        spend(s, "reconnects")
        s.next.requests[b][position].late = True
    else:
        s.next.requests[b] = cluster.without(channel, position)
    return request


def refused(m: Cluster, broker: StructValue, request: StructValue, rule: str) -> Truth:
    """380.2 and the controller epoch: whether the answer is STALE_BROKER_EPOCH or STALE_CONTROLLER_EPOCH."""
    missing = m.names_no_epoch(request.controller)
    stale: Any = m.is_outdated(request.broker_epoch, broker.epoch, missing=missing) & m.on(rule)
    if not m.on("newer_epoch_is_obeyed"):
        stale = stale | (m.older(broker.epoch, request.broker_epoch) & ~missing & m.on(rule))
    if m.on("controller_epoch_check"):
        stale = stale | of_former_controller(broker, request)
    return stale


def of_former_controller(broker: StructValue, request: StructValue) -> Truth:
    """Whether the sender's controller epoch is lower than one that the process has seen."""
    seen = broker.controller_epoch
    return seen.is_some & (request.controller < seen.value)


def take(
    m: Cluster,
    s: State,
    b: Number,
    request: StructValue,
    heard: Truth,
    obeys: Truth,
    *,
    back: Any = False,
    besides: Mapping[str, Any] | None = None,
    **changes: Any,
) -> None:
    """The broker after a request: it remembers the controller epoch of one heard, and is changed by one obeyed.

    Properties look at whether it should have obeyed. ``back``: the request takes its replica back. ``besides``: what
    one that is heard changes of other partitions.
    """
    broker = s.brokers[b]
    former = (request.broker_epoch < broker.epoch) & ~m.names_no_epoch(request.controller)
    after = broker.replace(
        misled=broker.misled | (obeys & former),
        reverted=broker.reverted | (obeys & (of_former_controller(broker, request) | back)),
        **changes,
    )
    seen = where(heard, m.some_controller.some(request.controller), broker.controller_epoch)
    others = {name: where(heard, value, getattr(broker, name)) for name, value in (besides or {}).items()}
    s.next.brokers[b] = where(obeys, after, broker).replace(controller_epoch=seen, **others)


@action(
    "380.2",
    says="broker {b} takes a LeaderAndIsr",
    b="broker",
    position="position",
    again="again",
)
def take_leader_and_isr(m: Cluster, s: State, b: Number, position: int, again: bool) -> None:
    """The replica becomes leader or follower, unless an epoch is stale: broker, controller, leader epoch.

    The leader epoch alone is no protection: a new generation has seen none, so that an old request is news to it. It
    would lead, or follow, by a decision that was taken about a broker that is gone.
    """
    request = arrives(m, s, b, position, Kind.LEADER_AND_ISR, again)
    broker = s.brokers[b]
    heard = ~refused(m, broker, request, "leader_and_isr_epoch_check")
    known = broker.leader_epoch
    obeys = heard
    if m.on("leader_epoch_check"):
        obeys = heard & (known.is_none | (known.value < request.leader_epoch.value))
    back = known.is_some & (request.leader_epoch.value < known.value)
    # From the first LeaderAndIsr on the process writes the HWMs of the replicas that it has into the checkpoint, and
    # nothing else: the others start from 0.
    has_second = broker.has_second | request.of_all
    take(
        m,
        s,
        b,
        request,
        heard,
        obeys,
        back=back,
        leader=request.leader,
        leader_epoch=request.leader_epoch,
        stopped_for=None,
        besides={"has_second": has_second, "checkpointed": broker.checkpointed & has_second},
    )


@action(
    "380.2",
    says="broker {b} takes an UpdateMetadata",
    b="broker",
    position="position",
    again="again",
)
def take_update_metadata(m: Cluster, s: State, b: Number, position: int, again: bool) -> None:
    """The broker tells clients from now on what the request says. No leader epoch is compared.

    So what arrives last counts, be it the older: a late copy sends clients to a broker that leads no more.
    """
    require("UpdateMetadata is part of the exploration", bool(m.p.metadata))
    request = arrives(m, s, b, position, Kind.UPDATE_METADATA, again)
    broker = s.brokers[b]
    obeys = ~refused(m, broker, request, "update_metadata_epoch_check")
    content = m.leadership(leader=request.leader, leader_epoch=request.leader_epoch.value)
    take(m, s, b, request, obeys, obeys, metadata=m.some_leadership.some(content))


@action(
    "380.2",
    says="broker {b} takes a StopReplica",
    b="broker",
    position="position",
    again="again",
)
def take_stop_replica(m: Cluster, s: State, b: Number, position: int, again: bool) -> None:
    """The replica stops to fetch and to serve, where the process has one. No leader epoch is compared.

    It is the last request of a controlled shutdown. A restarted broker that obeys it stops a replica that everybody
    takes for alive, and nothing starts it again. Or it deletes the log of a replica that it has got anew.
    """
    request = arrives(m, s, b, position, Kind.STOP_REPLICA, again)
    broker = s.brokers[b]
    heard = ~refused(m, broker, request, "stop_replica_epoch_check")
    obeys = heard & broker.leader_epoch.is_some
    deletes = request.deletes
    take(
        m,
        s,
        b,
        request,
        heard,
        obeys,
        stopped_for=where(deletes, None, m.some_epoch.some(request.broker_epoch)),
        leader=where(deletes, None, broker.leader),
        leader_epoch=where(deletes, None, broker.leader_epoch),
        deleted=broker.deleted | deletes,
    )


# --- the ISR ------------------------------------------------------------------------------------------------


@action(
    "ZK3",
    says="broker {leader} takes broker {follower} into the ISR",
    leader="broker",
    follower="broker",
)
def expand_isr(m: Cluster, s: State, leader: Number, follower: Number) -> None:
    """A follower that fetches in the leader's epoch is back; the leader writes the ISR by the node's version.

    Every write of a controller has another leader epoch, so that comparing those is comparing versions.
    """
    require("the follower is another broker", leader is not follower)
    partition, me, other = s.zookeeper.partition, s.brokers[leader], s.brokers[follower]
    require("the follower is not in the ISR", ~partition.isr.has(follower))
    require("it is a replica", m.replicas(partition).has(follower))
    require("the broker leads", m.leads(leader, me) & partition.leader.is_(leader))
    require("in the leader epoch of the node", me.leader_epoch.is_(partition.leader_epoch))
    require("the leader's session lives", s.zookeeper.registrations[leader].is_some)
    fetches = m.is_up(other) & other.stopped_for.is_none
    require("the follower fetches", fetches & other.leader.is_(leader))
    require("in the same leader epoch", other.leader_epoch == me.leader_epoch)
    s.next.zookeeper.partition.isr = partition.isr.with_(follower)
    s.next.brokers[follower].deleted = False


# --- generations --------------------------------------------------------------------------------------------


def down(m: Cluster, s: State, b: Number) -> None:
    """The process is gone, its memory too; its session ends, so that its registration is gone as well."""
    broker = s.brokers[b]
    led = broker.leader_epoch.is_some & m.leads(b, broker)
    s.next.brokers[b] = m.broker_type.zero().replace(
        status="DOWN",
        led_formerly=where(led, broker.leader_epoch, broker.led_formerly),
        checkpointed=broker.checkpointed,
        deleted=broker.deleted,
    )
    s.next.zookeeper.registrations[b] = None


@action("380.4", says="broker {b} crashes, and its session ends", b="broker")
def crash(m: Cluster, s: State, b: Number) -> None:
    """A crash. That the session lasts a while longer is not told apart from a controller that looks late.

    The broker can be back before the controller looks: then the list that it reads is as it was before.
    """
    spend(s, "bounces")
    require("the broker runs", s.brokers[b].status == "RUNNING")
    down(m, s, b)


@action("380.3", says="broker {b} asks for a controlled shutdown", b="broker")
def begin_shutdown(m: Cluster, s: State, b: Number) -> None:
    """The broker asks the controller that the controller node names.

    It does not wait for ever for the answer: the request can be taken when the broker has stopped, or has come back.
    """
    spend(s, "controlled_shutdowns")
    broker = s.brokers[b]
    require("the broker runs", broker.status == "RUNNING")
    require("its session lives", s.zookeeper.registrations[b].is_(broker.epoch))
    require("no ControlledShutdown is under way", s.shutdown_requests[b].is_none)
    s.next.brokers[b].status = "SHUTTING_DOWN"
    ask(m, s, b)


@action("380.3", says="broker {b} asks again for its controlled shutdown", b="broker")
def ask_again(m: Cluster, s: State, b: Number) -> None:
    """The broker has no answer, and asks the controller that the controller node names now.

    It can be another one than it asked before: that one has taken the request, or was the controller no more.
    """
    spend(s, "reconnects")
    require("the broker is shutting down", s.brokers[b].status == "SHUTTING_DOWN")
    require("no ControlledShutdown is under way", s.shutdown_requests[b].is_none)
    ask(m, s, b)


def ask(m: Cluster, s: State, b: Number) -> None:
    """380.3. The broker sends a ControlledShutdown, with its broker epoch, to the controller in office."""
    s.next.shutdown_requests[b] = m.shutdown_request(
        recipient=s.zookeeper.controller, broker_epoch=s.brokers[b].epoch
    )


@action("380.3", says="broker {b} stops, and its session ends", b="broker")
def finish_shutdown(m: Cluster, s: State, b: Number) -> None:
    """It has its answer, or has asked often enough; its request can still be under way.

    A new generation could lose its leaderships to it: that is why it carries the broker epoch (380.3).
    """
    require("the broker is shutting down", s.brokers[b].status == "SHUTTING_DOWN")
    down(m, s, b)


def register(s: State, b: Number) -> Number:
    """380.1. A new registration; its epoch."""
    epoch: Number = s.zookeeper.last_epochs[b] + 1
    s.next.zookeeper.last_epochs[b] = epoch
    s.next.zookeeper.registrations[b] = epoch
    return epoch


@action("380.1", says="broker {b} starts and registers", b="broker")
def start(m: Cluster, s: State, b: Number) -> None:
    """A new generation, which knows nothing yet.

    ZooKeeper gives each registration an epoch of its own, and a greater one each time: by that alone the controller and
    the broker can tell generations apart, without a clock.
    """
    require("the broker is down", ~m.is_up(s.brokers[b]))
    s.next.brokers[b].epoch = register(s, b)
    s.next.brokers[b].status = "RUNNING"


@action("380.1", says="broker {b} loses its session and runs on", b="broker")
def expire(m: Cluster, s: State, b: Number) -> None:
    """The registration is gone, the process is not.

    To the controller it has failed; it goes on as it was, and does not know.
    """
    spend(s, "expirations")
    require("the broker runs", s.brokers[b].status == "RUNNING")
    require("its session lives", s.zookeeper.registrations[b].is_some)
    s.next.zookeeper.registrations[b] = None


@action("380.1", says="broker {b} registers again", b="broker")
def register_again(m: Cluster, s: State, b: Number) -> None:
    """A new generation of the same process, which does not yet know its epoch.

    Until it does, requests for the new generation reach it with an epoch that is greater than its own. They are meant
    for it, so it obeys them.
    """
    require("sessions end while brokers run", bool(m.p.expirations))
    require("the session is over", s.zookeeper.registrations[b].is_none)
    require("the broker runs", s.brokers[b].status == "RUNNING")
    register(s, b)


@action("380.1", says="broker {b} learns its new broker epoch", b="broker")
def learn_epoch(m: Cluster, s: State, b: Number) -> None:
    """The answer of ZooKeeper to the registration. The process keeps its replica.

    From here on it refuses what was meant for the generation before.
    """
    require("sessions end while brokers run", bool(m.p.expirations))
    registration = s.zookeeper.registrations[b]
    require("the broker is registered", registration.is_some)
    require("under another epoch", registration.value != s.brokers[b].epoch)
    require("the broker runs", m.is_up(s.brokers[b]))
    s.next.brokers[b].epoch = registration.value
