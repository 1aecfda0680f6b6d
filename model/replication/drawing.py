"""Drawings of runs for HTML pages: of ``replication`` with its messages, and of the controller's protocols."""

from __future__ import annotations

from dataclasses import replace

from highwater.model.language import Band, Drawing, Lane, Log, Message, Sign

DRAWING = Drawing(
    lanes=(
        Lane("controller", ("the controller", "the operator", "min.insync.replicas", "the metadata version")),
        Lane("broker {}", ("broker {}", "leader {}"), index="broker"),
        Lane("clients", ("value",), outside=True),
    ),
    messages={
        "fetch_requests": Message(
            "Fetch",
            to="leader",
            shows=("offset", "last_epoch", "leader_epoch", "broker_epoch"),
            also=("late_fetches",),
        ),
        "fetch_responses": Message("Fetch answer", shows=("record", "hwm", "diverging", "leader_epoch")),
        "alter_requests": Message(
            "AlterPartition", to="controller", shows=("isr", "leader_epoch", "partition_epoch", "epochs")
        ),
        "alter_responses": Message("AlterPartition answer", shows=("outcome", "isr", "partition_epoch")),
        "log_infos_sent": Message(
            "ReplicaLogInfo", to="controller", shows=("end", "last_epoch", "broker_epoch", "leader_epoch")
        ),
        "metadata": Message(
            "metadata", shows=("leader", "leader_epoch", "partition_epoch", "isr", "min_isr")
        ),
    },
    tells=(
        "partition.leader",
        "partition.leader_epoch",
        "partition.replicas",
        "partition.isr",
        "partition.elr",
        "partition.last_known_elr",
        "partition.last_known_leader",
        "min_insync_replicas",
        "brokers.epoch",
        "brokers.log",
        "brokers.hwm",
        "brokers.view.leader",
        "brokers.view.isr",
        "brokers.proposed",
        "committed",
        "writes",
    ),
    logs=(
        Log("broker {}", "brokers.log", {"HWM": "brokers.hwm"}, shows=("value", "epoch")),
        Log("committed", "committed", shows=("value", "epoch")),
    ),
    bands=(
        Band(
            "as the controller has it",
            "broker",
            (
                Sign("down", "brokers.status", ("STOPPED", "CRASHED")),
                Sign("leader", "partition.leader"),
                Sign("isr", "partition.isr"),
                Sign("elr", "partition.elr"),
                Sign("fenced", "registrations.fenced"),
                Sign("known", "partition.last_known_elr"),
            ),
        ),
        Band("believes that it leads", "broker", (Sign("leader", "brokers.view.leader"),)),
    ),
)


def _band(title: str, partition: str) -> Band:
    """A band of the drawing: each broker's role in the partition that the state field ``partition`` holds."""
    return Band(
        title,
        "broker",
        (
            Sign("leader", f"{partition}.leader"),
            Sign("isr", f"{partition}.isr"),
            Sign("elr", f"{partition}.elr"),
            Sign("fenced", "registrations.fenced"),
            Sign("known", f"{partition}.last_known_elr"),
        ),
    )


CONTROLLER_DRAWING = Drawing(
    lanes=(
        Lane(
            "controller",
            (
                "the controller",
                "the operator",
                "the leader",
                "the partition",
                "the reassignment",
                "election",
                "unclean recovery",
                "min.insync.replicas",
                "unclean.leader.election.enable",
                "unclean.recovery.strategy",
                "eligible.leader.replicas.version",
                "the topic's first partition",
                "partition",
            ),
        ),
        Lane("broker {}", ("broker {}", "fenced broker {}"), index="broker"),
    ),
    tells=(
        "registrations.registered",
        "registrations.epoch",
        "registrations.fenced",
        "registrations.in_controlled_shutdown",
        "partition",
        "second.partition",
        "min_insync_replicas",
        "unclean_election",
        "recovery_strategy",
        "complete",
    ),
    bands=(_band("in the partition", "partition"),),
)
TOPIC_DRAWING = replace(
    CONTROLLER_DRAWING,
    bands=(*CONTROLLER_DRAWING.bands, _band("in the second partition", "second.partition")),
)
