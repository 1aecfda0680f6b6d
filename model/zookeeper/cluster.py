"""ZooKeeper mode: the rules of KIP-380 and of earlier checks, the profiles, and the state of the cluster."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Array,
    Band,
    Bool,
    Budgets,
    Drawing,
    Enum,
    Index,
    Int,
    Lane,
    Message,
    Number,
    Only,
    Option,
    OptionValue,
    Parameter,
    Profile,
    Protocol,
    Rule,
    Seq,
    SeqValue,
    Set,
    SetValue,
    Sign,
    Struct,
    StructValue,
    Truth,
    any_of,
    as_bool,
    where,
)
from highwater.model.rulebook import RULEBOOK

KIP_380 = {
    "epoch_per_registration": Rule(
        "380.1",
        "Each registration of a broker has a greater broker epoch. Off: all have the same, as a new node's version.",
    ),
    "leader_and_isr_epoch_check": Rule(
        "380.2", "A broker refuses a LeaderAndIsr with a lower broker epoch than its own: STALE_BROKER_EPOCH."
    ),
    "update_metadata_epoch_check": Rule(
        "380.2",
        "A broker refuses an UpdateMetadata with a lower broker epoch than its own: STALE_BROKER_EPOCH.",
    ),
    "stop_replica_epoch_check": Rule(
        "380.2", "A broker refuses a StopReplica with a lower broker epoch than its own: STALE_BROKER_EPOCH."
    ),
    "newer_epoch_is_obeyed": Rule(
        "380.2",
        "A broker obeys a request with a higher broker epoch than its own: the controller can learn of a "
        "registration before the broker does. Off: it refuses every other epoch.",
    ),
    "shutdown_epoch_check": Rule(
        "380.3",
        "The controller refuses a ControlledShutdown with a lower broker epoch than it knows: STALE_BROKER_EPOCH.",
    ),
    "missing_epoch_is_obeyed": Rule(
        "380.2, 380.3",
        "A broker obeys a request of a version without broker epoch. Off: its −1 counts as the lowest epoch.",
    ),
    "bounce_detection": Rule(
        "380.4",
        "The controller compares broker epochs in the broker list: a changed epoch is a bounced broker. Off: it "
        "compares which brokers there are.",
    ),
    "bounced_broker_fails_first": Rule(
        "380.4", "A bounced broker is handled as failed and then as new. Off: as new only."
    ),
}
"""The rules of KIP-380."""

FENCES = {
    "controller_epoch_check": Rule(
        "ZK1",
        "A broker refuses a request with a lower controller epoch than it has seen since it started.",
    ),
    "leader_epoch_check": Rule(
        "ZK2", "A broker takes a LeaderAndIsr only with a higher leader epoch than its replica's."
    ),
    "decision_bumps_leader_epoch": Rule(
        "ZK3", "Every change of leader or ISR by the controller has the next leader epoch."
    ),
    "controller_epoch_fencing": Rule(
        "ZK4",
        "ZooKeeper takes a controller's write only while its epoch is the one of the controller epoch node; a "
        "controller that is refused resigns.",
    ),
}
"""The rules of checks that are older than KIP-380."""

RULES = {**KIP_380, **FENCES}

_BEFORE = (
    "controller_epoch_check", "leader_epoch_check", "decision_bumps_leader_epoch", "controller_epoch_fencing",
)  # fmt: skip

PROFILES = {
    "kip_380": Profile.of(
        "KIP-380 (Kafka 2.2)",
        *_BEFORE, "epoch_per_registration", "leader_and_isr_epoch_check", "update_metadata_epoch_check",
        "stop_replica_epoch_check", "newer_epoch_is_obeyed", "shutdown_epoch_check", "missing_epoch_is_obeyed",
        "bounce_detection", "bounced_broker_fails_first",
    ),
    "before_kip_380": Profile.of(
        "controller epoch and leader epoch are compared, broker epochs do not exist", *_BEFORE
    ),
}  # fmt: skip
"""The profiles by name. A rule is on only in profiles that name it."""


# The state: ZooKeeper's nodes, controllers with the state that they have read, brokers, and requests in flight.
#
# In ZooKeeper mode the controller sends brokers its decisions as requests. A request is for the process that the
# controller knows, but the broker may have restarted since: as another generation, with the same id and an empty
# memory. With KIP-380 a request carries the broker epoch of its generation.
#
# The actions are functions of (m, s, …) in the other modules. ``m`` is the cluster with its types, parameters and
# rules; ``s`` is the state before the step, ``s.next`` the state after the step.

Status = Enum("Status", "RUNNING SHUTTING_DOWN DOWN")
"""The status of a broker's process."""

Kind = Enum("Kind", "LEADER_AND_ISR UPDATE_METADATA STOP_REPLICA")
"""The kinds of control requests that a controller sends."""

BUDGETS = Budgets(
    {
        "bounces": "crashes of brokers; each can restart immediately",
        "controlled_shutdowns": "controlled shutdowns; the broker can restart immediately",
        "expirations": "ZooKeeper sessions that end while the broker runs on",
        "failovers": "controller failovers; the former controller acts until it learns of it",
        "removals": "replicas that the operator removes from a broker; it can get them back",
        "reconnects": "requests whose answer is lost: sent again on a new connection, the first copy arrives late",
    },
    most=3,
)
"""Faults, controlled shutdowns and removals; a scenario grants a number of each. Recovery steps are never bounded."""


class Cluster(Protocol):
    """Types, the initial state and the predicates that controllers and brokers share.

    A broker epoch counts the broker's registrations from 0, because only the order of creation transaction ids matters.
    A request carries the broker epoch of the generation it is for. Without KIP-380 no broker and no controller compares
    this epoch: it only identifies the request's connection, and properties read it.
    """

    parameters = {
        "brokers": Parameter(2, 2, 3, "brokers, each with a replica of the partition"),
        "metadata": Parameter.switch("whether UpdateMetadata is part of the exploration", default=True),
        "partitions": Parameter(
            1, 1, 2, "partitions with a replica on each broker; the second one has only a checkpoint"
        ),
        "in_flight": Parameter(8, 1, 12, "requests under way to a broker"),
        "max_leader_epoch": Parameter(6, 1, 12, "the last leader epoch"),
        "older_controllers": Parameter(
            0, 0, 15, "controllers whose requests carry no broker epoch, as bits: 1 is controller 0"
        ),
        "older_brokers": Parameter(
            0, 0, 7, "brokers whose ControlledShutdown carries no broker epoch, as bits: 1 is broker 0"
        ),
        **BUDGETS.parameters,
    }
    rules = RULES
    profiles = PROFILES
    rulebook = RULEBOOK

    def define(self) -> Struct:
        """Define the types of the state, sized by the parameters."""
        p = self.p
        self.broker = Index("broker", p.brokers)
        self.controller = Index("controller", p.failovers + 1)
        self.successor = range(1, p.failovers + 1)
        self.position = range(p.in_flight)
        self.again = (False, True) if p.reconnects else (False,)
        self.brokers = Set(self.broker)
        self.some_broker = Option(self.broker)
        generations = p.bounces + p.controlled_shutdowns + p.expirations
        self.epoch = Int(0, generations)
        self.some_epoch = Option(self.epoch)
        self.some_controller = Option(self.controller)
        self.registrations = Array(self.broker, self.some_epoch)
        self.leader_epoch = Int(0, p.max_leader_epoch, bound="max_leader_epoch")
        self.some_leader_epoch = Option(self.leader_epoch)
        leader = self.some_broker, "broker that leads"
        leader_epoch = self.leader_epoch, "count of changes of leadership"
        self.partition = Struct(
            "Partition",
            leader=leader,
            leader_epoch=leader_epoch,
            isr=(self.brokers, "in-sync replicas"),
            replicas=(Only(self.brokers, p.removals > 0), "assigned brokers"),
        )
        self.leadership = Struct("Leadership", leader=leader, leader_epoch=leader_epoch)
        self.some_leadership = Option(self.leadership)
        self.zookeeper = Struct(
            "ZooKeeper",
            registrations=(
                self.registrations,
                "broker epoch of each registered broker; none: not registered",
            ),
            last_epochs=(Array(self.broker, self.epoch), "last broker epoch of each broker"),
            controller=(self.controller, "controller epoch"),
            partition=self.partition,
        )
        self._define_controllers()
        self._define_brokers()
        return Struct(
            "State",
            zookeeper=self.zookeeper,
            controllers=(
                Array(self.controller, self.controller_type),
                "the controllers, by controller epoch",
            ),
            brokers=Array(self.broker, self.broker_type),
            requests=(Array(self.broker, self.channel), "requests under way to each broker, in order"),
            shutdown_requests=(
                Array(self.broker, Option(self.shutdown_request)),
                "the ControlledShutdown under way from each broker",
            ),
            deposed=(
                self.brokers,
                "brokers that lost leadership to a ControlledShutdown of a former generation; for properties",
            ),
            budgets=(BUDGETS.type(p), "how many faults and steps are left"),
        )

    def _define_brokers(self) -> None:
        """Define the type of brokers."""
        p = self.p
        self.broker_type = Struct(
            "Broker",
            status=(Status, "whether the process runs"),
            epoch=(self.epoch, "its broker epoch"),
            controller_epoch=(self.some_controller, "highest controller epoch that it has seen"),
            leader=(self.some_broker, "leader that it knows"),
            leader_epoch=(self.some_leader_epoch, "leader epoch that it knows"),
            stopped_for=(
                self.some_epoch,
                "generation for which a StopReplica stopped the replica; none: not stopped",
            ),
            metadata=(Only(self.some_leadership, p.metadata), "leadership by UpdateMetadata"),
            has_second=(
                Only(Bool, p.partitions > 1),
                "whether a LeaderAndIsr has named the second partition",
            ),
            checkpointed=(
                Only(Bool, p.partitions > 1),
                "whether the HWM of the second partition is in the checkpoint on disk",
            ),
            deleted=(
                Only(Bool, p.removals > 0),
                "whether its log was deleted and the ISR has not taken it in since",
            ),
            led_formerly=(
                self.some_leader_epoch,
                "last leader epoch that a former process led in; for properties",
            ),
            misled=(Bool, "whether it has obeyed a request for a former generation; for properties"),
            reverted=(Bool, "whether it has obeyed a lower epoch than it had seen; for properties"),
        )

    def _define_controllers(self) -> None:
        """Define the types of controllers, and of the requests between controllers and brokers."""
        p = self.p
        # All fields of an inactive controller are zero.
        self.controller_type = Struct(
            "Controller",
            active=(Bool, "whether it is the controller; else all is zero"),
            registrations=(self.registrations, "broker epochs that it knows"),
            shutting_down=(self.brokers, "brokers in controlled shutdown"),
            leadership=(self.leadership, "leader and leader epoch that it knows"),
        )
        # ``controller`` is the controller epoch, too. A StopReplica has no leader and no leader epoch, and can delete
        # the log. A late copy waits on a separate connection. A LeaderAndIsr is about one partition, or about all
        # partitions of the broker.
        self.request = Struct(
            "Request",
            kind=(Kind, "kind of request"),
            controller=(self.controller, "controller epoch of the sender"),
            broker_epoch=(self.epoch, "generation of the broker that it is for"),
            leader=(self.some_broker, "leader; none: StopReplica"),
            leader_epoch=(self.some_leader_epoch, "leader epoch; none: StopReplica"),
            of_all=(Only(Bool, p.partitions > 1), "whether it is about all partitions of the broker"),
            deletes=(Only(Bool, p.removals > 0), "whether the broker deletes the log"),
            late=(Bool, "whether it is a copy on a connection of its own"),
        )
        self.channel = Seq(self.request, p.in_flight, bound="in_flight")
        self.shutdown_request = Struct(
            "ControlledShutdown",
            recipient=(self.controller, "controller epoch of the recipient"),
            broker_epoch=(self.epoch, "broker epoch of the sender"),
        )

    def initial(self) -> list[dict[str, Any]]:
        """The initial state: every broker runs, is registered and in the ISR, and knows that broker 0 leads."""
        p = self.p
        registrations = [0] * p.brokers
        leadership = {"leader": 0, "leader_epoch": 0}
        active = {"active": True, "registrations": registrations, "leadership": leadership}
        broker = {
            "status": "RUNNING",
            "controller_epoch": 0,
            **leadership,
            "metadata": leadership,
            "has_second": True,
            "checkpointed": True,
        }
        return [
            {
                "zookeeper": {
                    "registrations": registrations,
                    "partition": {**leadership, "isr": range(p.brokers), "replicas": range(p.brokers)},
                },
                "controllers": [active] + [self.controller_type.zero()] * p.failovers,
                "brokers": [broker] * p.brokers,
                "budgets": BUDGETS.granted(p),
            }
        ]

    # --- words ------------------------------------------------------------------------------------

    def older(self, epoch: Number, other: Number) -> Truth:
        """380.1. True if broker epoch ``epoch`` is lower than ``other``.

        Always false without the rule ``epoch_per_registration``.
        """
        return (epoch < other) & self.on("epoch_per_registration")

    def is_outdated(self, epoch: Number, known: Number, *, missing: Truth) -> Truth:
        """380.2, 380.3. True if a request's broker epoch ``epoch`` is lower than the broker epoch ``known``.

        ``missing`` is the condition that the request carries no broker epoch. A missing epoch is outdated only if
        ``missing_epoch_is_obeyed`` is off.
        """
        found: Truth = where(missing, not self.on("missing_epoch_is_obeyed"), self.older(epoch, known))
        return found

    def names_no_epoch(self, controller: Number) -> Truth:
        """True if this controller has an older version, whose requests carry no broker epoch."""
        return any_of(controller == c for c in self.controller if self.p.older_controllers >> int(c) & 1)

    def is_up(self, broker: StructValue) -> Truth:
        """True if a broker's process runs, also during its shutdown."""
        return broker.status != "DOWN"

    def leads(self, b: Number, broker: StructValue) -> Truth:
        """True if a broker believes that it leads."""
        return self.is_up(broker) & broker.leader.is_(b) & broker.stopped_for.is_none

    def registered(self, registrations: Any) -> SetValue:
        """The set of brokers in a broker list (``registrations``)."""
        return self.brokers.of(lambda b: registrations[b].is_some)

    def first(self, candidates: SetValue) -> OptionValue:
        """The candidate with the lowest id (the first in the replica list); none if there are no candidates."""
        found: OptionValue = self.some_broker.none()
        for b in reversed(list(self.broker)):
            found = where(candidates.has(b), self.some_broker.some(b), found)
        return found

    def decided(self, p: StructValue, condition: Truth, leader: Any, isr: Any) -> StructValue:
        """The partition ``p`` with this leader and ISR in the next leader epoch, if ``condition`` holds; else ``p``."""
        epoch = p.leader_epoch + (1 if self.on("decision_bumps_leader_epoch") else 0)
        after: StructValue = where(condition, p.replace(leader=leader, leader_epoch=epoch, isr=isr), p)
        return after

    def replicas(self, partition: StructValue) -> SetValue:
        """The brokers that have a replica of the partition."""
        every = self.brokers.lift(list(range(self.p.brokers)))
        found: SetValue = partition.replicas if self.p.removals else every
        return found

    def leadership_of(self, partition: StructValue) -> StructValue:
        """The leader and leader epoch of a partition, which requests carry."""
        return self.leadership(leader=partition.leader, leader_epoch=partition.leader_epoch)


# Requests in flight to a broker, in the order in which they were sent.
#
# A connection belongs to one controller and to the generation of a broker that this controller knows. Requests on one
# connection arrive in order. A late copy of a request waits on a separate connection that the controller has abandoned.


def deliverable(channel: SeqValue, position: int) -> Truth:
    """True if the channel has a request at this position, and the request can arrive next.

    Every earlier request of its controller for its generation must be a late copy, which is on another connection.
    """
    request = channel.at(position)
    before = [channel.at(earlier) for earlier in range(position)]
    waits = any_of(
        ~other.late & (other.controller == request.controller) & (other.broker_epoch == request.broker_epoch)
        for other in before
    )
    return (channel.length > position) & ~waits


def without(channel: SeqValue, position: int) -> SeqValue:
    """The channel without the request at this position, which must exist."""
    last = channel.type.maximum - 1
    nodes = list((channel.length - 1).nodes)
    for i in range(channel.type.maximum):
        if i < position:
            nodes += channel.at(i).nodes
        elif i < last:
            nodes += channel.at(i + 1).nodes
        else:
            nodes += channel.type.element.zero().nodes
    return channel.type.wrap(nodes)


def sent_if(condition: Any, channel: SeqValue, request: StructValue) -> SeqValue:
    """The channel, with the request appended if the condition holds. A step that exceeds ``in_flight`` is pruned."""
    result: SeqValue = where(as_bool(condition), channel.append(request), channel)
    return result


# How pages draw runs: controllers, brokers and their messages. Changes of ZooKeeper's nodes are listed.

DRAWING = Drawing(
    lanes=(
        Lane("controller {}", ("controller {}",), index="controller"),
        Lane("broker {}", ("broker {}",), index="broker"),
    ),
    messages={
        "requests": Message("Request", shows=("kind", "broker_epoch", "leader", "leader_epoch")),
        "shutdown_requests": Message("ControlledShutdown", to="recipient", shows=("broker_epoch",)),
    },
    tells=(
        "zookeeper.registrations",
        "zookeeper.partition",
        "brokers.status",
        "brokers.epoch",
        "brokers.leader",
        "brokers.leader_epoch",
        "brokers.stopped_for",
        "brokers.metadata",
        "controllers.registrations",
        "controllers.shutting_down",
    ),
    bands=(
        Band(
            "as ZooKeeper has it",
            "broker",
            (
                Sign("down", "brokers.status", ("DOWN",)),
                Sign("leader", "zookeeper.partition.leader"),
                Sign("isr", "zookeeper.partition.isr"),
            ),
        ),
        Band("believes that it leads", "broker", (Sign("leader", "brokers.leader"),)),
    ),
)
