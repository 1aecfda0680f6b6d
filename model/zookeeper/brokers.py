"""Brokers: how they take control requests, change the ISR, stop, and come back as another generation."""

from __future__ import annotations

from typing import Any

from highwater.model.language import State, action, require, spend, where
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.zookeeper import channels
from highwater.model.zookeeper.cluster import Cluster, Kind


class Brokers(Cluster):
    """Actions of brokers."""

    # --- control requests -------------------------------------------------------------------------

    def arrives(self, s: State, b: Number, position: int, kind: Number, again: bool) -> StructValue:
        """A request of this kind arrives; with ``again`` its answer is lost and a copy of it arrives later."""
        channel = s.requests[b]
        request: StructValue = channel.at(position)
        require("it is such a request", (channel.length > position) & (request.kind == kind))
        require("nothing before it is on the same connection", channels.deliverable(channel, position))
        require("the broker runs", self.is_up(s.brokers[b]))
        if again:
            require("it is not such a copy itself", ~request.late)
            spend(s, "reconnects")
            s.next.requests[b][position].late = True
        else:
            s.next.requests[b] = channels.without(channel, position)
        return request

    def refused(self, broker: StructValue, request: StructValue, rule: str) -> Truth:
        """380.2 and the controller epoch: whether the answer is STALE_BROKER_EPOCH or STALE_CONTROLLER_EPOCH."""
        stale: Any = self.older(request.broker_epoch, broker.epoch) & self.on(rule)
        if not self.on("newer_epoch_is_obeyed"):
            stale = stale | (self.older(broker.epoch, request.broker_epoch) & self.on(rule))
        if self.on("controller_epoch_check"):
            stale = stale | self.of_former_controller(broker, request)
        return stale

    def of_former_controller(self, broker: StructValue, request: StructValue) -> Truth:
        """Whether the sender's controller epoch is lower than one that the process has seen."""
        seen = broker.controller_epoch
        return seen.is_some & (request.controller < seen.value)

    def take(
        self,
        s: State,
        b: Number,
        request: StructValue,
        heard: Truth,
        obeys: Truth,
        *,
        back: Any = False,
        **changes: Any,
    ) -> None:
        """The broker after a request: it remembers the controller epoch of one heard, and is changed by one obeyed.

        Properties look at whether it should have obeyed. ``back``: the request takes its replica back.
        """
        broker = s.brokers[b]
        former = request.broker_epoch < broker.epoch
        after = broker.replace(
            misled=broker.misled | (obeys & former),
            reverted=broker.reverted | (obeys & (self.of_former_controller(broker, request) | back)),
            **changes,
        )
        seen = where(heard, self.some_controller.some(request.controller), broker.controller_epoch)
        s.next.brokers[b] = where(obeys, after, broker).replace(controller_epoch=seen)

    @action(
        "380.2",
        says="broker {b} takes a LeaderAndIsr",
        b="broker",
        position="position",
        again="again",
    )
    def take_leader_and_isr(self, s: State, b: Number, position: int, again: bool) -> None:
        """The replica becomes leader or follower, unless an epoch is stale: broker, controller, leader epoch."""
        request = self.arrives(s, b, position, Kind.LEADER_AND_ISR, again)
        broker = s.brokers[b]
        heard = ~self.refused(broker, request, "leader_and_isr_epoch_check")
        known = broker.leader_epoch
        obeys = heard
        if self.on("leader_epoch_check"):
            obeys = heard & (known.is_none | (known.value < request.leader_epoch.value))
        back = known.is_some & (request.leader_epoch.value < known.value)
        self.take(
            s,
            b,
            request,
            heard,
            obeys,
            back=back,
            leader=request.leader,
            leader_epoch=request.leader_epoch,
            stopped_for=None,
        )

    @action(
        "380.2",
        says="broker {b} takes an UpdateMetadata",
        b="broker",
        position="position",
        again="again",
    )
    def take_update_metadata(self, s: State, b: Number, position: int, again: bool) -> None:
        """The broker tells clients from now on what the request says. No leader epoch is compared."""
        if not self.p.metadata:
            require("UpdateMetadata is part of the exploration", False)
            return
        request = self.arrives(s, b, position, Kind.UPDATE_METADATA, again)
        broker = s.brokers[b]
        obeys = ~self.refused(broker, request, "update_metadata_epoch_check")
        content = self.leadership(leader=request.leader, leader_epoch=request.leader_epoch.value)
        self.take(s, b, request, obeys, obeys, metadata=self.some_leadership.some(content))

    @action(
        "380.2",
        says="broker {b} takes a StopReplica",
        b="broker",
        position="position",
        again="again",
    )
    def take_stop_replica(self, s: State, b: Number, position: int, again: bool) -> None:
        """The replica stops to fetch and to serve, where the process has one. No leader epoch is compared."""
        request = self.arrives(s, b, position, Kind.STOP_REPLICA, again)
        broker = s.brokers[b]
        heard = ~self.refused(broker, request, "stop_replica_epoch_check")
        obeys = heard & broker.leader_epoch.is_some
        self.take(s, b, request, heard, obeys, stopped_for=self.some_epoch.some(request.broker_epoch))

    # --- the ISR ----------------------------------------------------------------------------------

    @action(
        "ZK3",
        says="broker {leader} takes broker {follower} into the ISR",
        leader="broker",
        follower="broker",
    )
    def expand_isr(self, s: State, leader: Number, follower: Number) -> None:
        """A follower that fetches in the leader's epoch is back; the leader writes the ISR by the node's version.

        Every write of a controller has another leader epoch, so that comparing those is comparing versions.
        """
        if leader is follower:
            require("the follower is another broker", False)
        partition, me, other = s.zookeeper.partition, s.brokers[leader], s.brokers[follower]
        require("the follower is not in the ISR", ~partition.isr.has(follower))
        require("the broker leads", self.leads(leader, me) & partition.leader.is_(leader))
        require("in the leader epoch of the node", me.leader_epoch.is_(partition.leader_epoch))
        require("the leader's session lives", s.zookeeper.registrations[leader].is_some)
        fetches = self.is_up(other) & other.stopped_for.is_none
        require("the follower fetches", fetches & other.leader.is_(leader))
        require("in the same leader epoch", other.leader_epoch == me.leader_epoch)
        s.next.zookeeper.partition.isr = partition.isr.with_(follower)

    # --- generations ------------------------------------------------------------------------------

    def down(self, s: State, b: Number) -> None:
        """The process is gone, its memory too; its session ends, so that its registration is gone as well."""
        broker = s.brokers[b]
        led = broker.leader_epoch.is_some & self.leads(b, broker)
        s.next.brokers[b] = self.broker_type.zero().replace(
            status="DOWN", led_formerly=where(led, broker.leader_epoch, broker.led_formerly)
        )
        s.next.zookeeper.registrations[b] = None

    @action("380.4", says="broker {b} crashes, and its session ends", b="broker")
    def crash(self, s: State, b: Number) -> None:
        """A crash. That the session lasts a while longer is not told apart from a controller that looks late."""
        spend(s, "bounces")
        require("the broker runs", s.brokers[b].status == "RUNNING")
        self.down(s, b)

    @action("380.3", says="broker {b} asks for a controlled shutdown", b="broker")
    def begin_shutdown(self, s: State, b: Number) -> None:
        """The broker asks the controller that the controller node names."""
        spend(s, "controlled_shutdowns")
        broker = s.brokers[b]
        require("the broker runs", broker.status == "RUNNING")
        require("its session lives", s.zookeeper.registrations[b].is_(broker.epoch))
        require("no ControlledShutdown is under way", s.shutdown_requests[b].is_none)
        s.next.brokers[b].status = "SHUTTING_DOWN"
        s.next.shutdown_requests[b] = self.shutdown_request(
            recipient=s.zookeeper.controller, broker_epoch=broker.epoch
        )

    @action("380.3", says="broker {b} stops, and its session ends", b="broker")
    def finish_shutdown(self, s: State, b: Number) -> None:
        """It has its answer, or has asked often enough; its request can still be under way."""
        require("the broker is shutting down", s.brokers[b].status == "SHUTTING_DOWN")
        self.down(s, b)

    def register(self, s: State, b: Number) -> Number:
        """380.1. A new registration; its epoch."""
        epoch: Number = s.zookeeper.last_epochs[b] + 1
        s.next.zookeeper.last_epochs[b] = epoch
        s.next.zookeeper.registrations[b] = epoch
        return epoch

    @action("380.1", says="broker {b} starts and registers", b="broker")
    def start(self, s: State, b: Number) -> None:
        """A new generation, which knows nothing yet."""
        require("the broker is down", ~self.is_up(s.brokers[b]))
        s.next.brokers[b].epoch = self.register(s, b)
        s.next.brokers[b].status = "RUNNING"

    @action("380.1", says="broker {b} loses its session and runs on", b="broker")
    def expire(self, s: State, b: Number) -> None:
        """The registration is gone, the process is not."""
        spend(s, "expirations")
        require("the broker runs", s.brokers[b].status == "RUNNING")
        require("its session lives", s.zookeeper.registrations[b].is_some)
        s.next.zookeeper.registrations[b] = None

    @action("380.1", says="broker {b} registers again", b="broker")
    def register_again(self, s: State, b: Number) -> None:
        """A new generation of the same process, which does not yet know its epoch."""
        if not self.p.expirations:
            require("sessions end while brokers run", False)
        require("the session is over", s.zookeeper.registrations[b].is_none)
        require("the broker runs", s.brokers[b].status == "RUNNING")
        self.register(s, b)

    @action("380.1", says="broker {b} learns its new broker epoch", b="broker")
    def learn_epoch(self, s: State, b: Number) -> None:
        """The answer of ZooKeeper to the registration. The process keeps its replica."""
        if not self.p.expirations:
            require("sessions end while brokers run", False)
        registration = s.zookeeper.registrations[b]
        require("the broker is registered", registration.is_some)
        require("under another epoch", registration.value != s.brokers[b].epoch)
        require("the broker runs", self.is_up(s.brokers[b]))
        s.next.brokers[b].epoch = registration.value


__all__ = ["Brokers"]
