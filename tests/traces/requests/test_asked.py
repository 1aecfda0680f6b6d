"""What the controllers' request logs say, looked up: what brokers had replayed, decisions that were told, clocks."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.traces.messages.context import ControllerRequests
from highwater.traces.messages.metadata_index import MetadataIndex, Version
from highwater.traces.messages.request_lines import HEARTBEAT, Heartbeat, Proposal, RequestLine
from tests.traces.requests.test_metadata_index import ID, called, followed, state

FIRST, SECOND = Path("a"), Path("b")


def line(time: float, path: Path = FIRST) -> RequestLine:
    return RequestLine(path, 1, HEARTBEAT, time, time, time, time, False, "", "", None)


def of_changes() -> ControllerRequests:
    """Of a partition that changes at 2, 5 and 9, a second for each offset."""
    index: MetadataIndex = followed(
        (2, None, state(0, 0)), (5, state(0, 0), state(0, 1)), (9, state(0, 1), state(1, 2))
    )
    called(index, ID, 0)
    return ControllerRequests(index)


def heard(asked: ControllerRequests, path: Path, *told: tuple[float, int]) -> None:
    for time, offset in told:
        asked.add_heartbeat(Heartbeat(line(time, path), 1, 7, offset, 0))


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ([(10, 3), (20, 4), (30, 5), (40, 8), (50, 9), (60, 100)], [(3, 10), (5, 30), (9, 50)]),
        ([(10, 1), (20, 2), (30, 12)], [(1, 10), (2, 20), (12, 30)]),
    ],
)
def test_heartbeats_are_kept_where_something_changed(
    told: list[tuple[float, int]], kept: list[tuple[int, float]]
) -> None:
    """Those before which nothing did say nothing new of a partition; an offset that is told was replayed itself."""
    asked = of_changes()
    heard(asked, FIRST, *told)
    asked.settle(lambda path: 0)
    for offset, time in kept:
        assert asked.knew(1, offset) == time
        assert asked.had_replayed(1, offset, time)
        assert not asked.had_replayed(1, offset, time - 1)
        assert not asked.had_replayed(1, offset + 1, time)
    assert asked.knew(1, 1000) == asked.knew(1, None) == asked.knew(2, 0) == float("inf")
    assert len(asked._heartbeats) == len(kept)


def test_heartbeats_of_two_controllers_are_put_in_order() -> None:
    """With the second one's clock taken out, and what is said later and is less left out."""
    asked = of_changes()
    heard(asked, FIRST, (10, 3), (60, 9))
    heard(asked, SECOND, (1030, 5), (1070, 8))
    asked.settle(lambda path: 1000 if path == SECOND else 0)
    assert [asked.knew(1, offset) for offset in (3, 5, 8, 9)] == [10, 30, 60, 60]


def proposal(
    time: float, epoch: int, partition_epoch: int, made: int, error: int = 0, path: Path = FIRST
) -> Proposal:
    return Proposal(
        line(time, path), 0, 7, (ID, 0), epoch, partition_epoch, ((0, 7),), False, 3, error, 0, epoch, (0,), made
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (proposal(0, 0, 1, 2), True),
        (proposal(0, 1, 1, 2), True),
        (proposal(0, 2, 1, 2), False),
        (proposal(0, 0, 1, 3), False),
        (proposal(0, 0, 1, 2, error=95), False),
        (proposal(0, 0, 1, -1, error=108), True),
        (proposal(0, 0, 2, -1, error=108), False),
    ],
)
def test_an_answer_tells_of_a_version(told: Proposal, expected: bool) -> None:
    """In its leader epoch, or the one before, where the change made a new one; or that somebody else leads by then."""
    asked = of_changes()
    asked.add_proposal(told)
    asked.settle(lambda path: 0)
    version = Version(9, 9000, state(1, 2), None, None)
    assert (asked.made(1, version), asked.made(2, version)) == (expected, False)


@pytest.mark.parametrize(("times", "middle"), [((5100, 5700, 5200), 200), ((5100, 5700, 5200, 5400), 300)])
def test_how_far_a_clock_is_ahead_is_the_middle_of_its_decisions(
    times: tuple[int, ...], middle: float
) -> None:
    asked = of_changes()
    for time in (*times, 99_999):
        asked.add_proposal(proposal(time, 0, 0, 1 if time < 99_999 else 4))
    for time in (7000, 5000):
        asked.add_proposal(proposal(time, 0, 0, 1, path=SECOND))
    assert list(asked.apart()) == [(FIRST, len(times), middle), (SECOND, 2, 1000)]


def test_proposals_are_in_the_order_in_which_they_arrived() -> None:
    """Of two logs, with a clock taken out; those of a leader epoch by themselves; of no partition only counted."""
    asked = of_changes()
    for time, epoch, path in ((30, 0, FIRST), (50, 1, FIRST), (1040, 0, SECOND), (1010, 0, SECOND)):
        asked.add_proposal(proposal(time, epoch, 0, 1, path=path))
    asked.add_proposal(replace(proposal(0, 0, 0, 1), key=("other", 0)))
    asked.settle(lambda path: 1000 if path == SECOND else 0)
    assert [p.line.arrived for p in asked.proposals()] == [10, 30, 40, 50]
    assert [p.line.answered for p in asked.proposed(0, 1, 0)] == [10, 30, 40]
    assert [p.line.path for p in asked.proposed(0, 1, 0)] == [SECOND, FIRST, SECOND]
    assert (asked.unknown, asked.topics()) == (1, ["other", ID])
