"""Latencies in message delays, on protocols small enough to count by hand."""

from __future__ import annotations

from typing import Any

import pytest

from docs.pages.quorum_delays import Delays, Kinds, Time
from highwater.checker.engines.reference import explore
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import (
    Array,
    Enum,
    Index,
    Int,
    Model,
    Protocol,
    State,
    Struct,
    action,
    require,
)

Link = Enum("Link", "IDLE SENT BACK DONE")
KINDS = Kinds(messages=("arrive", "come_back", "chat"), at_once=("send",), timers=("time_out",))


class Echo(Protocol):
    """A party sends to others, who answer: to all at the same time, or with ``relay`` one after the other."""

    name = "echo"
    others, relay = 3, False

    def define(self) -> Struct:
        self.other = Index("other", self.others)
        return Struct("State", links=Array(self.other, Link))

    @action(o="other")
    def send(self, s: State, o: Any) -> None:
        require("nothing was sent", s.links[o] == "IDLE")
        if self.relay and int(o):
            require("the one before is done", s.links[int(o) - 1] == "DONE")
        s.next.links[o] = Link.SENT

    @action(o="other")
    def arrive(self, s: State, o: Any) -> None:
        require("it is under way", s.links[o] == "SENT")
        s.next.links[o] = Link.BACK

    @action(o="other")
    def come_back(self, s: State, o: Any) -> None:
        require("it is on its way back", s.links[o] == "BACK")
        s.next.links[o] = Link.DONE


class Relay(Echo):
    relay = True


Phase = Enum("Phase", "IDLE SENT PARKED ANSWERED")


class Waiting(Protocol):
    """A message sets a timer, and the timer's message arrives, ``rounds`` times."""

    name = "waiting"
    rounds = 1

    def define(self) -> Struct:
        return Struct("State", phase=Phase, rounds=Int(0, 3))

    def goes(self, s: State, before: Any, after: Any) -> None:
        require("it is its turn", s.phase == before)
        s.next.phase = after

    @action()
    def send(self, s: State) -> None:
        require("a round is left", s.rounds < self.rounds)
        self.goes(s, Phase.IDLE, Phase.SENT)

    @action()
    def arrive(self, s: State) -> None:
        self.goes(s, Phase.SENT, Phase.PARKED)

    @action()
    def time_out(self, s: State) -> None:
        self.goes(s, Phase.PARKED, Phase.ANSWERED)

    @action()
    def come_back(self, s: State) -> None:
        self.goes(s, Phase.ANSWERED, Phase.IDLE)
        s.next.rounds = s.rounds + 1


def delays(protocol: Protocol) -> tuple[Delays, Any]:
    model = Model(protocol, ())
    graph = explore(model, SearchOptions())
    return Delays(graph, KINDS), lambda state: model.decode(graph.scalars(state))


def done(decoded: Any, wanted: int) -> Any:
    return lambda state: decoded(state)["links"].count("DONE") >= wanted


@pytest.mark.parametrize("wanted", [1, 3])
def test_messages_that_are_under_way_together_count_once(wanted: int) -> None:
    found, decoded = delays(Echo())
    assert found.span(0, done(decoded, wanted)) == (Time(0, 2), Time(0, 2))


@pytest.mark.parametrize("wanted", [0, 3])
def test_messages_that_wait_for_each_other_count_each(wanted: int) -> None:
    found, decoded = delays(Relay())
    assert found.span(0, done(decoded, wanted)) == (Time(0, 2 * wanted), Time(0, 2 * wanted))


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_timer_counts_for_itself(rounds: int) -> None:
    protocol = Waiting()
    protocol.rounds = rounds
    found, decoded = delays(protocol)
    expected = Time(rounds, 2 * rounds)
    assert found.span(0, lambda state: decoded(state)["rounds"] == rounds) == (expected, expected)


def test_an_event_that_never_happens_has_no_time() -> None:
    found, _ = delays(Waiting())
    assert found.span(0, lambda _: False) == (None, None)
