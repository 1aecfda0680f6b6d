"""Small protocols with planted livelocks, and without."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Bool,
    Enum,
    Int,
    Parameter,
    Protocol,
    State,
    Struct,
    action,
    always_eventually,
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


@always_eventually("T", fair=weak("fetch", "answer", "give_up"))
def progress(m: Protocol, s: State) -> Any:
    """A fetch must end with a record."""
    return s.offset == m.p.records


class ErrorLoop(Protocol):
    """A follower whose fetch gets an error and is retried; if ``planted``, forever."""

    name = "error-loop"
    parameters = {"records": Parameter(1, 1, 3, "."), "planted": Parameter(1, 0, 1, ".")}
    liveness = (progress,)
    Answer = Enum("Answer", "NONE ASKED RECORD ERROR")

    def define(self) -> Struct:
        return Struct("State", answer=self.Answer, offset=Int(0, self.p.records, bound="records"))

    def initial(self) -> list[dict[str, Any]]:
        return [{"answer": "NONE", "offset": 0}]

    @action(says="the follower fetches")
    def fetch(self, s: State) -> None:
        require("nothing is under way", s.answer == "NONE")
        s.next.answer = "ASKED"

    @action(says="the leader answers")
    def answer(self, s: State) -> None:
        require("it is asked", s.answer == "ASKED")
        s.next.answer = "ERROR" if self.p.planted else "RECORD"

    @action(says="the follower takes the answer")
    def give_up(self, s: State) -> None:
        require("an answer is there", (s.answer == "ERROR") | (s.answer == "RECORD"))
        s.next.answer = "NONE"
        if not self.p.planted:
            require("there is room", s.offset < self.p.records)
            s.next.offset = s.offset + 1


@eventually("T", fair=weak("count"))
def high(m: Protocol, s: State) -> Any:
    """Undecided: beyond the bound, the count exceeds ``top``."""
    return s.count > m.p.top


class Cut(Protocol):
    """A counter whose fair step is enabled at the bound."""

    name = "cut"
    parameters = {"top": Parameter(3, 1, 9, ".")}
    liveness = (high,)

    def define(self) -> Struct:
        return Struct("State", count=Int(0, self.p.top, bound="top"), flag=Bool)

    def initial(self) -> list[dict[str, Any]]:
        return [{"count": 0, "flag": False}]

    @action(says="count")
    def count(self, s: State) -> None:
        s.next.count = s.count + 1

    @action(says="flip")
    def flip(self, s: State) -> None:
        s.next.flag = ~s.flag
