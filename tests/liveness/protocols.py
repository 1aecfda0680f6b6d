"""Small protocols with planted livelocks, and without."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Bool,
    Protocol,
    State,
    Struct,
    action,
    eventually,
    leads_to,
    require,
    strong,
    weak,
)


@leads_to("T", fair=weak("deliver"))
def delivered_weakly(m: Protocol, s: State) -> Any:
    """Fails if the link flaps: delivery is not enabled continuously."""
    return s.sent, s.arrived


@leads_to("T", fair=strong("deliver"))
def delivered_if_the_link_stays(m: Protocol, s: State) -> Any:
    """Fails if the link stays down."""
    return s.sent, s.arrived


@leads_to("T", fair=weak("link_up") + strong("deliver"))
def delivered_strongly(m: Protocol, s: State) -> Any:
    """Holds: the link comes up again, and delivery is strongly fair."""
    return s.sent, s.arrived


@eventually("T", fair=weak("link_up") + strong("deliver"))
def sent(m: Protocol, s: State) -> Any:
    """Fails: no action has to send."""
    return s.sent


class Flapping(Protocol):
    """A link that can go up and down forever."""

    name = "flapping"
    liveness = (delivered_weakly, delivered_if_the_link_stays, delivered_strongly, sent)

    def define(self) -> Struct:
        return Struct("State", sent=Bool, up=Bool, arrived=Bool)

    def initial(self) -> list[dict[str, Any]]:
        return [{"sent": False, "up": False, "arrived": False}]

    @action(says="a message is sent")
    def send(self, s: State) -> None:
        require("none is sent", ~s.sent)
        s.next.sent = True

    @action(says="the link goes up")
    def link_up(self, s: State) -> None:
        require("it is down", ~s.up)
        s.next.up = True

    @action(says="the link goes down")
    def link_down(self, s: State) -> None:
        require("it is up", s.up)
        s.next.up = False

    @action(says="the message arrives")
    def deliver(self, s: State) -> None:
        require("it is under way", s.sent & s.up & ~s.arrived)
        s.next.arrived = True
