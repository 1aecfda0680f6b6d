"""How runs of log truncation are drawn: the controller and the replicas, and what the controller's requests say.

A LeaderAndIsr request stays, for whoever takes it late or again; records and offsets pass within a step.
"""

from __future__ import annotations

from highwater.model.language import Band, Delivery, Drawing, Lane, Log, Sign

_REQUEST = Delivery("LeaderAndIsr", "controller", "replica", left="requests", by="epoch")
_ISR = Delivery("ISR", "leader", "controller")

DRAWING = Drawing(
    lanes=(
        Lane("controller", ("the controller",), state="quorum"),
        Lane("replica {}", ("replica {}",), index="replica", state="replicas"),
    ),
    deliveries={
        "become_leader": _REQUEST,
        "become_follower": _REQUEST,
        "follower_fetch": Delivery("record", "leader", "follower"),
        "follower_truncate": Delivery("end of epoch", "leader", "follower"),
        "leader_shrink_isr": _ISR,
        "leader_expand_isr": _ISR,
    },
    tells=("quorum", "replicas.hwm", "replicas.isr", "logs"),
    logs=(Log("replica {}", "logs", {"HWM": "replicas.hwm"}, shows=("id", "epoch")),),
    bands=(
        Band(
            "as the controller has it",
            "replica",
            (Sign("leader", "quorum.leader"), Sign("isr", "quorum.isr")),
        ),
        Band("takes itself for the leader", "replica", (Sign("leader", "replicas.leader"),)),
    ),
)
