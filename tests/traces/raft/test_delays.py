"""Delays of commits, measured on made events."""

from __future__ import annotations

from pathlib import Path

from highwater.traces.messages.raft_events import Appended, Event, Hwm, What
from highwater.traces.messages.raft_replay import Delays
from highwater.traces.reading import Place


def figures(*events: tuple[int, int, What]) -> dict[str, int]:
    """The delays of events: (node, time in ms, event)."""
    delays = Delays()
    for node, time, what in events:
        delays.take(Event(node, time, Place(Path("log"), 1), what))
    return delays.figures()


def test_an_append_is_committed_when_the_leaders_hwm_reaches_its_end() -> None:
    """Neither a follower's HWM nor a line that repeats the leader's HWM counts."""
    assert figures(
        (1, 0, Appended(4, 5, 1)), (1, 10, Appended(5, 6, 1)), (2, 15, Hwm(5, False)), (1, 20, Hwm(4, True)),
        (1, 21, Hwm(5, True)), (1, 30, Appended(6, 7, 1)), (1, 35, Hwm(7, True)), (1, 90, Hwm(7, True)),
    ) == {"commit, median ms": 21, "commit, longest ms": 25}  # fmt: skip


def test_appends_of_a_former_leader_are_given_up() -> None:
    assert figures((1, 0, Appended(4, 5, 1)), (2, 10, Appended(5, 6, 2)), (2, 30, Hwm(6, True))) == {
        "commit, median ms": 20, "commit, longest ms": 20
    }  # fmt: skip
    assert figures((1, 0, Appended(4, 5, 1)), (1, 5, Hwm(4, True))) == {}
