"""P2: delays of commits and HWMs, measured on made events."""

from __future__ import annotations

from pathlib import Path

from highwater.traces.messages.raft_events import (
    Answered,
    Appended,
    Event,
    Fetch,
    FetchAnswer,
    Hwm,
    Received,
    Started,
    What,
)
from highwater.traces.messages.raft_replay import Delays
from highwater.traces.reading import Place

ANSWER = FetchAnswer(0, 1, 1, 5, 0, None, None)


def fed(*told: tuple[int, int, What, bool]) -> Delays:
    """The delays of events: (node, time in ms, event, whether a park timer sent it)."""
    delays = Delays()
    for node, time, what, timed_out in told:
        delays.take(Event(node, time, Place(Path("log"), 1), what), None, timed_out)
    return delays


def fetch(f: int) -> Fetch:
    return Fetch(f, 1, 5, 1, None)


def test_messages_time_and_timers_between_the_append_and_the_hwm() -> None:
    """Leader 1 appends to offset 5, and node 2's fetch commits it. Node 3 learns it when its park timer expires."""
    delays = fed(
        (1, 0, Appended(4, 5, 1), False),
        (1, 10, Received(fetch(3), 1, 18), False),
        (1, 20, Received(fetch(2), 1, 18), False), (1, 21, Hwm(5, True), False),
        (1, 22, Answered(ANSWER, 1, fetch(2)), False),
        (2, 30, Hwm(4, False), False), (2, 31, Hwm(5, False), False), (2, 32, Hwm(6, False), False),
        (1, 510, Answered(ANSWER, 1, fetch(3)), True), (3, 520, Hwm(5, False), False),
    )  # fmt: skip
    assert delays.figures() == {
        "commit, median ms": 21, "commit, 90 % ms": 21, "commit, longest ms": 21, "commit, in 1 messages": 1,
        "commit, with a park timer": 0,
        "hwm at members, median ms": 520, "hwm at members, 90 % ms": 520, "hwm at members, longest ms": 520,
        "hwm at members, in 2 messages": 2, "hwm at members, with a park timer": 1,
    }  # fmt: skip


def test_records_appended_while_a_process_was_down_are_no_delay() -> None:
    delays = fed(
        (1, 0, Appended(4, 5, 1), False), (2, 5, Started((1, 2, 3)), False),
        (1, 20, Received(fetch(2), 1, 18), False), (2, 30, Hwm(5, False), False),
        (1, 40, Appended(5, 6, 1), False), (2, 70, Hwm(6, False), False),
    )  # fmt: skip
    assert delays.members[2].ms == [30]


def test_appends_of_a_former_leader_are_given_up() -> None:
    delays = fed(
        (1, 0, Appended(4, 5, 1), False), (2, 10, Appended(5, 6, 2), False),
        (2, 20, Received(fetch(1), 1, 18), False), (2, 30, Hwm(6, True), False), (1, 40, Hwm(6, False), False),
    )  # fmt: skip
    assert (delays.committed.ms, delays.members[1].ms) == ([20], [30])
