"""The number of message delays until the replicas of the quorum know a new high watermark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from docs.pages import quorum_delays
from docs.pages.kept import answer, source
from docs.pages.quorum_delays import Delays, Kinds, Time
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language.model import Model
from highwater.model.quorum import Quorum

KINDS = Kinds(messages=("receive_fetch", "take_answer"), at_once=("send_fetch",), timers=("park_timer",))

Span = tuple[Time | None, Time | None]
"""The least time (None: never) and the most time (None: not in every run)."""


@dataclass(frozen=True)
class Latency:
    """The times from the leader's append of a record until a replica knows that the record is committed.

    ``leader`` is for the leader, ``replicas`` for each other replica, and ``all`` for the last replica.
    """

    leader: Span
    replicas: tuple[Span, ...]
    all: Span
    states: int


@dataclass(frozen=True)
class Case:
    """A row of the table of latencies: a quorum, a profile, and the rules of the profile that are off."""

    says: str
    profile: str
    parameters: tuple[tuple[str, int], ...]
    off: tuple[str, ...] = ()


_QUORUMS: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = (
    ("3 voters", (("voters", 3),)),
    ("5 voters", (("voters", 5),)),
    ("3 voters, 1 observer", (("voters", 3), ("observers", 1))),
)
_RULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("kip_1166", ()),
    ("before_kip_1166", ()),
    ("before_kip_1166", ("timer_answers_as_parked",)),
)
CASES = (
    *(Case(says, profile, parameters, off) for says, parameters in _QUORUMS for profile, off in _RULES),
    Case("3 voters, member 2 below version 18", "kip_1166", (("voters", 3), ("older", 4))),
    Case("3 voters, the leader below version 18", "kip_1166", (("voters", 3), ("older", 1))),
)
"""The rows of the table of latencies."""


def latency(case: Case) -> Latency:
    """The latency of a case. At the append, the quorum is at rest: every fetch is parked and every HWM is known."""
    rules = Quorum.profiles[case.profile].rules - set(case.off)
    model = Model(Quorum({"settled": 1, "appends": 1, **dict(case.parameters)}, rules), ())
    said = answer(
        "delays", [model], source(quorum_delays, sys.modules[__name__]), lambda: _plain(_latency(model))
    )
    *spans, states = said
    leader, *replicas, all_ = (_span(one) for one in spans)
    return Latency(leader, tuple(replicas), all_, states)


def _plain(found: Latency) -> list[Any]:
    return [*map(_times, (found.leader, *found.replicas, found.all)), found.states]


def _times(span: Span) -> list[list[int] | None]:
    return [None if time is None else [time.waits, time.delays] for time in span]


def _span(said: list[list[int] | None]) -> Span:
    least, most = (None if time is None else Time(*time) for time in said)
    return least, most


def _latency(model: Model) -> Latency:
    graph = explore(model, SearchOptions(workers=1))
    delays = Delays(graph, KINDS)
    names = [instance.action.name for instance in model.instances]
    moving = {*KINDS.messages, *KINDS.at_once}

    @cache
    def hwms(state: int) -> tuple[int, ...]:
        return tuple(member["hwm"] for member in model.decode(graph.scalars(state))["members"])

    def at_rest() -> Iterator[int]:
        for state in range(len(graph.states)):
            steps = delays.steps(state)
            taken = {names[i]: target for i, target in steps.items()}
            if "append" in taken and not moving & taken.keys():
                yield taken["append"]

    def knows(member: int) -> Callable[[int], bool]:
        return lambda state: hwms(state)[member] == 2

    (start,) = at_rest()
    members = range(len(hwms(start)))
    return Latency(
        delays.span(start, knows(0)),
        tuple(delays.span(start, knows(m)) for m in members[1:]),
        delays.span(start, lambda state: set(hwms(state)) == {2}),
        len(graph.states),
    )


def told(time: Time | None) -> str:
    """A time as text: T is the period of the park timer, and a number counts message delays."""
    if time is None:
        return "never"
    waits = "" if time.waits == 0 else "T + " if time.waits == 1 else f"{time.waits}T + "
    return f"{waits}{time.delays}"


def latency_table(cases: Iterable[Case] = CASES) -> list[str]:
    """The lines of the table of latencies for these cases."""
    lines = [
        "| quorum | profile | committed | a replica, least | a replica, most | all replicas | states |",
        "| --- | --- | --- | --- | --- | --- | ---: |",
    ]
    for case in cases:
        found = latency(case)
        least = min((t for t, _ in found.replicas if t is not None), default=None)
        late = [t for _, t in found.replicas]
        most = None if None in late else max(t for t in late if t is not None)
        off = "".join(f", `{rule}` off" for rule in case.off)
        cells = (_range(found.leader), told(least), told(most), _range(found.all))
        lines.append(f"| {case.says} | `{case.profile}`{off} | {' | '.join(cells)} | {found.states:,} |")
    return lines


def _range(span: Span) -> str:
    least, most = told(span[0]), told(span[1])
    return least if least == most else f"{least} to {most}"
