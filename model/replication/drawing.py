"""How runs of the replication protocol are drawn: the controller and the brokers, and what they send each other."""

from __future__ import annotations

from highwater.model.language import Band, Drawing, Lane, Log, Message, Sign

DRAWING = Drawing(
    lanes=(
        Lane("controller", ("the controller", "the operator", "min.insync.replicas", "the metadata version")),
        Lane("broker {}", ("broker {}", "leader {}"), index="broker", state="brokers"),
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
        Band("takes itself for the leader", "broker", (Sign("leader", "brokers.view.leader"),)),
    ),
)
