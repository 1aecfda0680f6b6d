"""How runs of the quorum are drawn: its members, and the fetches between them."""

from __future__ import annotations

from highwater.model.language import Band, Drawing, Lane, Log, Message, Sign

DRAWING = Drawing(
    lanes=(Lane("member {}", ("member {}", "leader {}"), index="member", state="members"),),
    messages={
        "requests": Message("Fetch", to="leader", shows=("offset", "last_epoch", "epoch", "hwm")),
        "responses": Message("Fetch answer", shows=("record", "hwm", "epoch", "diverging", "timed_out")),
    },
    tells=(
        "members.epoch",
        "members.leader",
        "members.log",
        "members.hwm",
        "parked",
        "committed",
    ),
    logs=(
        Log("member {}", "members.log", {"HWM": "members.hwm"}, shows=("epoch",)),
        Log("committed", "committed", shows=("epoch",)),
    ),
    bands=(Band("takes itself for the leader", "member", (Sign("leader", "members.leader"),)),),
)
