"""Brokers: how they handle control requests, change the ISR, stop, and restart as a new generation.

A request can outlive the broker's process, because it waits in the controller's queue or is resent on a new
connection. Each handler must therefore decide whether the request is for the current generation of the broker.
"""

from __future__ import annotations

from typing import Any

from highwater.model.language import Number, State, StructValue, Truth, action, require, spend, where
from highwater.model.zookeeper import cluster
from highwater.model.zookeeper.cluster import Cluster, Kind

# --- control requests ---------------------------------------------------------------------------------------


def arrives(m: Cluster, s: State, b: Number, position: int, kind: Number, again: bool) -> StructValue:
    """Take the request at ``position`` from the channel of broker ``b``, and return the request.

    Guards: the request exists, has the kind ``kind`` and can arrive next, and the broker runs. With ``again`` the
    response is lost: a late copy of the request stays in the channel, and the step spends the budget ``reconnects``.
    """
    channel = s.requests[b]
    request: StructValue = channel.at(position)
    require(
        "there is a request of this kind at the position",
        (channel.length > position) & (request.kind == kind),
    )
    require("no earlier request is on the same connection", cluster.deliverable(channel, position))
    require("the broker runs", m.is_up(s.brokers[b]))
    if again:
        require("the request is not a late copy itself", ~request.late)
        spend(s, "reconnects")
        s.next.requests[b][position].late = True
    else:
        s.next.requests[b] = cluster.without(channel, position)
    return request


def refused(m: Cluster, broker: StructValue, request: StructValue, rule: str) -> Truth:
    """380.2. True if the broker answers a request with STALE_BROKER_EPOCH or STALE_CONTROLLER_EPOCH.

    ``rule`` is the switch for the check of the broker epoch.
    """
    missing = m.names_no_epoch(request.controller)
    stale: Any = m.is_outdated(request.broker_epoch, broker.epoch, missing=missing) & m.on(rule)
    if not m.on("newer_epoch_is_obeyed"):
        stale = stale | (m.older(broker.epoch, request.broker_epoch) & ~missing & m.on(rule))
    if m.on("controller_epoch_check"):
        stale = stale | of_former_controller(broker, request)
    return stale


def of_former_controller(broker: StructValue, request: StructValue) -> Truth:
    """True if the request's controller epoch is below the highest controller epoch that the broker has seen."""
    seen = broker.controller_epoch
    return seen.is_some & (request.controller < seen.value)


def take(
    m: Cluster,
    s: State,
    b: Number,
    request: StructValue,
    heard: Truth,
    accepted: StructValue,
    obeys: Truth,
    executed: StructValue,
) -> None:
    """Write the state of broker ``b`` after a request.

    * ``heard``: the broker accepts the request, and stores its controller epoch; its state is then ``accepted``.
    * ``obeys``: the broker also executes the request; its state is then ``executed``.

    For the properties, the state records an executed request that the broker should refuse. ``misled``: it is for a
    former generation. ``reverted``: it is from a former controller.
    """
    broker = s.brokers[b]
    former = (request.broker_epoch < broker.epoch) & ~m.names_no_epoch(request.controller)
    executed = executed.replace(
        misled=executed.misled | former,
        reverted=executed.reverted | of_former_controller(broker, request),
    )
    seen = m.some_controller.some(request.controller)
    after = where(obeys, executed, accepted).replace(controller_epoch=seen)
    s.next.brokers[b] = where(heard, after, broker)


@action(
    "380.2",
    says="broker {b} takes a LeaderAndIsr",
    b="broker",
    position="position",
    again="again",
)
def take_leader_and_isr(m: Cluster, s: State, b: Number, position: int, again: bool) -> None:
    """A broker takes a LeaderAndIsr: its replica becomes leader or follower.

    The broker refuses a stale broker epoch, controller epoch or leader epoch. The check of the leader epoch alone does
    not suffice. A new generation of the broker knows no leader epoch, so it would obey a request for its former
    generation. ``arrives`` explains ``position`` and ``again``.
    """
    request = arrives(m, s, b, position, Kind.LEADER_AND_ISR, again)
    broker = s.brokers[b]
    heard = ~refused(m, broker, request, "leader_and_isr_epoch_check")
    known = broker.leader_epoch
    obeys = heard
    if m.on("leader_epoch_check"):
        obeys = heard & (known.is_none | (known.value < request.leader_epoch.value))
    # After the first LeaderAndIsr the process overwrites the checkpoint with the HWMs of the replicas that it has.
    # The HWM of a replica that is not in the checkpoint starts from 0.
    has_second = broker.has_second | request.of_all
    accepted = broker.replace(has_second=has_second, checkpointed=broker.checkpointed & has_second)
    moves_back = known.is_some & (request.leader_epoch.value < known.value)
    executed = accepted.replace(
        leader=request.leader,
        leader_epoch=request.leader_epoch,
        stopped_for=None,
        reverted=broker.reverted | moves_back,
    )
    take(m, s, b, request, heard, accepted, obeys, executed)


@action(
    "380.2",
    says="broker {b} takes an UpdateMetadata",
    b="broker",
    position="position",
    again="again",
)
def take_update_metadata(m: Cluster, s: State, b: Number, position: int, again: bool) -> None:
    """A broker takes an UpdateMetadata and reports its content to clients. The broker compares no leader epochs.

    The last request to arrive therefore wins: a late copy can send clients to a former leader.
    ``arrives`` explains ``position`` and ``again``.
    """
    require("UpdateMetadata is part of the exploration", m.p.metadata)
    request = arrives(m, s, b, position, Kind.UPDATE_METADATA, again)
    broker = s.brokers[b]
    obeys = ~refused(m, broker, request, "update_metadata_epoch_check")
    content = m.leadership(leader=request.leader, leader_epoch=request.leader_epoch.value)
    informed = broker.replace(metadata=m.some_leadership.some(content))
    take(m, s, b, request, obeys, broker, obeys, informed)


@action(
    "380.2",
    says="broker {b} takes a StopReplica",
    b="broker",
    position="position",
    again="again",
)
def take_stop_replica(m: Cluster, s: State, b: Number, position: int, again: bool) -> None:
    """A broker takes a StopReplica: its replica stops fetching and serving. The broker compares no leader epochs.

    A controlled shutdown ends with a StopReplica. If a restarted broker obeys a late StopReplica, it stops a replica
    that the controller considers live, and no request starts the replica again. Or it deletes the log of a replica
    that was added again.
    ``arrives`` explains ``position`` and ``again``.
    """
    request = arrives(m, s, b, position, Kind.STOP_REPLICA, again)
    broker = s.brokers[b]
    heard = ~refused(m, broker, request, "stop_replica_epoch_check")
    obeys = heard & broker.leader_epoch.is_some
    deletes = request.deletes
    stopped = broker.replace(
        stopped_for=where(deletes, None, m.some_epoch.some(request.broker_epoch)),
        leader=where(deletes, None, broker.leader),
        leader_epoch=where(deletes, None, broker.leader_epoch),
        deleted=broker.deleted | deletes,
    )
    take(m, s, b, request, heard, broker, obeys, stopped)


# --- the ISR ------------------------------------------------------------------------------------------------


@action(
    "ZK3",
    says="broker {leader} takes broker {follower} into the ISR",
    leader="broker",
    follower="broker",
)
def expand_isr(m: Cluster, s: State, leader: Number, follower: Number) -> None:
    """A leader adds to the ISR a follower that fetches in the leader's epoch; ZooKeeper checks the node's version.

    Each controller write has a new leader epoch, so the model compares leader epochs in place of versions.
    """
    require("the follower is another broker", leader != follower)
    partition, me, other = s.zookeeper.partition, s.brokers[leader], s.brokers[follower]
    require("the follower is not in the ISR", ~partition.isr.has(follower))
    require("the follower is a replica", m.replicas(partition).has(follower))
    require("the broker leads", m.leads(leader, me) & partition.leader.is_(leader))
    require("the leader knows the leader epoch of the node", me.leader_epoch.is_(partition.leader_epoch))
    require("the leader's session is alive", s.zookeeper.registrations[leader].is_some)
    fetches = m.is_up(other) & other.stopped_for.is_none
    require("the follower fetches", fetches & other.leader.is_(leader))
    require("the follower is in the same leader epoch", other.leader_epoch == me.leader_epoch)
    s.next.zookeeper.partition.isr = partition.isr.with_(follower)
    s.next.brokers[follower].deleted = False


# --- generations --------------------------------------------------------------------------------------------


def down(m: Cluster, s: State, b: Number) -> None:
    """The broker's process ends: the broker's memory, session and registration are gone; its disk stays."""
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
    """A broker crashes, and its session ends immediately.

    A session that lasts longer has the same effect as a controller that reads late. If the broker restarts before the
    controller reads the broker list, the list has the same brokers as before.
    """
    spend(s, "bounces")
    require("the broker runs", s.brokers[b].status == "RUNNING")
    down(m, s, b)


@action("380.3", says="broker {b} requests a controlled shutdown", b="broker")
def begin_shutdown(m: Cluster, s: State, b: Number) -> None:
    """A broker requests a controlled shutdown from the controller that the controller node names.

    The broker does not wait forever, so the controller may handle the request after the broker stopped or restarted.
    """
    spend(s, "controlled_shutdowns")
    broker = s.brokers[b]
    require("the broker runs", broker.status == "RUNNING")
    require("the broker's session is alive", s.zookeeper.registrations[b].is_(broker.epoch))
    require("no ControlledShutdown is under way", s.shutdown_requests[b].is_none)
    s.next.brokers[b].status = "SHUTTING_DOWN"
    ask(m, s, b)


@action("380.3", says="broker {b} repeats its controlled shutdown request", b="broker")
def ask_again(m: Cluster, s: State, b: Number) -> None:
    """A broker without a response to its ControlledShutdown repeats the request to the current controller.

    The current controller may differ from the recipient of the first request.
    """
    spend(s, "reconnects")
    require("the broker is shutting down", s.brokers[b].status == "SHUTTING_DOWN")
    require("no ControlledShutdown is under way", s.shutdown_requests[b].is_none)
    ask(m, s, b)


def ask(m: Cluster, s: State, b: Number) -> None:
    """380.3. The broker sends a ControlledShutdown, with its broker epoch, to the current controller."""
    s.next.shutdown_requests[b] = m.shutdown_request(
        recipient=s.zookeeper.controller, broker_epoch=s.brokers[b].epoch
    )


@action("380.3", says="broker {b} stops, and its session ends", b="broker")
def finish_shutdown(m: Cluster, s: State, b: Number) -> None:
    """A broker stops after a response or enough attempts; its ControlledShutdown may still be in flight.

    380.3: the request carries the broker epoch, so it cannot take leaderships from the broker's next generation.
    """
    require("the broker is shutting down", s.brokers[b].status == "SHUTTING_DOWN")
    down(m, s, b)


def register(s: State, b: Number) -> Number:
    """380.1. Register a broker, and return its new broker epoch."""
    epoch: Number = s.zookeeper.last_epochs[b] + 1
    s.next.zookeeper.last_epochs[b] = epoch
    s.next.zookeeper.registrations[b] = epoch
    return epoch


@action("380.1", says="broker {b} starts and registers", b="broker")
def start(m: Cluster, s: State, b: Number) -> None:
    """A broker starts as a new generation with an empty memory and registers.

    Each registration has a greater broker epoch, by which controller and broker distinguish generations.
    """
    require("the broker is down", ~m.is_up(s.brokers[b]))
    s.next.brokers[b].epoch = register(s, b)
    s.next.brokers[b].status = "RUNNING"


@action("380.1", says="broker {b}'s session expires while it runs", b="broker")
def expire(m: Cluster, s: State, b: Number) -> None:
    """A broker's session expires while its process runs: its registration is gone.

    The controller considers the broker failed. The broker does not notice and continues.
    """
    spend(s, "expirations")
    require("the broker runs", s.brokers[b].status == "RUNNING")
    require("the broker's session is alive", s.zookeeper.registrations[b].is_some)
    s.next.zookeeper.registrations[b] = None


@action("380.1", says="broker {b} registers again", b="broker")
def register_again(m: Cluster, s: State, b: Number) -> None:
    """A broker whose session expired registers again: a new generation that does not know its broker epoch yet.

    Until it learns that epoch, requests for the new generation carry a higher broker epoch than the broker knows. The
    broker obeys these requests if the rule ``newer_epoch_is_obeyed`` is on.
    """
    require("sessions can expire while brokers run", bool(m.p.expirations))
    require("the session has expired", s.zookeeper.registrations[b].is_none)
    require("the broker runs", s.brokers[b].status == "RUNNING")
    register(s, b)


@action("380.1", says="broker {b} learns its new broker epoch", b="broker")
def learn_epoch(m: Cluster, s: State, b: Number) -> None:
    """A broker learns its new broker epoch from ZooKeeper and keeps its replica.

    After this step the broker refuses requests for its former generation.
    """
    require("sessions can expire while brokers run", bool(m.p.expirations))
    registration = s.zookeeper.registrations[b]
    require("the broker is registered", registration.is_some)
    require("the registered epoch is another one", registration.value != s.brokers[b].epoch)
    require("the broker runs", m.is_up(s.brokers[b]))
    s.next.brokers[b].epoch = registration.value
