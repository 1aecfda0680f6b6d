"""How runs of the controller's protocols are drawn: the controller, the brokers, and where each broker stands."""

from __future__ import annotations

from dataclasses import replace

from highwater.model.language import Band, Drawing, Lane, Sign


def _band(title: str, partition: str) -> Band:
    """Where brokers stand in a partition, which is this field of the state."""
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


DRAWING = Drawing(
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
        Lane("broker {}", ("broker {}", "fenced broker {}"), index="broker", state="registrations"),
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
TOPIC_DRAWING = replace(DRAWING, bands=(*DRAWING.bands, _band("in the second partition", "second.partition")))
