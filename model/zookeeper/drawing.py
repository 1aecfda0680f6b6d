"""How runs are drawn: controllers and brokers, and what they send each other. ZooKeeper's nodes are told as changes."""

from __future__ import annotations

from highwater.model.language import Band, Drawing, Lane, Message, Sign

DRAWING = Drawing(
    lanes=(
        Lane("controller {}", ("controller {}",), index="controller", state="controllers"),
        Lane("broker {}", ("broker {}",), index="broker", state="brokers"),
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
        Band("takes itself for the leader", "broker", (Sign("leader", "brokers.leader"),)),
    ),
)
