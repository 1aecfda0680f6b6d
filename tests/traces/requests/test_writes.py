"""Writes in made request logs: unfounded errors and answers, and allowed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.traces.requests.small import Small, conforms, limit, report_of, said, told

NOT_LEADER, TIMED_OUT, NOT_ENOUGH, NOT_ENOUGH_AFTER = 6, 7, 19, 20
REFUSED, WRITTEN, ACKNOWLEDGED = "write refused", "write_acks_all", "acknowledge"


@pytest.mark.parametrize(
    ("error", "expected", "figure"),
    [
        (NOT_LEADER, [], "explained: write refused"),
        (3, [], "explained: write refused"),
        (100, [], "explained: write refused"),
        (0, [WRITTEN], None),
        (NOT_ENOUGH, [WRITTEN], None),
        (45, [], "outside: write answered with error 45"),
    ],
)
def test_a_broker_that_does_not_lead_writes_nothing(
    error: int, expected: list[str], figure: str | None, tmp_path: Path
) -> None:
    def happens(small: Small) -> None:
        small.made.produce(1, 0 if not error else -1, error=error)

    report = report_of(tmp_path, happens)
    assert said(report) == expected
    assert figure is None or report.figures[f"messages {figure}"] >= 1


@limit(101, [REFUSED])
def test_a_leader_does_not_answer_that_it_is_no_leader(small: Small, wait: int) -> None:
    """Up to 101 ms after the leader's answer, the error is allowed: the write may have come earlier."""
    small.follows()
    small.made.now += wait
    small.made.produce(0, -1, error=NOT_LEADER)


@limit(250, [REFUSED])
def test_a_leader_may_deny_leading_once_its_epoch_has_ended(small: Small, wait: int) -> None:
    """The next leader epoch begins ``wait`` ms after the answer, by the controller's clock."""
    small.follows()
    small.made.now += 500
    small.made.produce(0, -1, error=NOT_LEADER)
    small.made.now += wait
    small.change(leader=1)


@conforms()
def test_a_leader_may_deny_leading_to_a_write_from_before(small: Small) -> None:
    """The write arrived 500 ms ago, before the first fetch was answered."""
    small.fetch(0, 0)
    small.made.now += 100
    small.made.produce(0, -1, error=NOT_LEADER, took=500)


@conforms()
def test_a_denied_write_with_an_offset_is_in_the_log(small: Small) -> None:
    small.follows(2)
    small.change(leader=1)
    small.made.produce(0, 2, error=NOT_LEADER)
    small.fetch(2, 1)
    small.made.produce(0, 3, acks=1)


@pytest.mark.parametrize(
    ("acks", "transaction", "expected"),
    [(1, None, ["take_fetch_answer"]), (0, None, []), (1, "t", [])],
)
def test_a_follower_fetches_from_the_start_of_a_batch(
    acks: int, transaction: str | None, expected: list[str], tmp_path: Path
) -> None:
    """Writes with acks=0 and transaction markers append records without a logged offset, so they allow gaps."""

    def happens(small: Small) -> None:
        small.made.produce(0, 0 if acks else -1, acks=acks, transaction=transaction)
        small.fetch(0, 0)
        small.made.produce(0, 1, acks=1)
        small.made.produce(0, 5, acks=1)
        small.fetch(1, 0)
        small.fetch(3, 1)
        small.go_on()
        small.fetch(5, 3)

    assert told(tmp_path, happens) == expected


@pytest.mark.parametrize(
    ("error", "offset", "expected"),
    [
        (TIMED_OUT, 0, []),
        (NOT_ENOUGH_AFTER, 0, []),
        (NOT_ENOUGH_AFTER, 1, [WRITTEN]),
        (0, 1, [WRITTEN, ACKNOWLEDGED]),
    ],
)
def test_a_batch_that_is_sent_again_is_not_written_again(
    error: int, offset: int, expected: list[str], tmp_path: Path
) -> None:
    """Below min ISR, the leader may still answer for a batch that it has, but not append a new one."""

    def happens(small: Small) -> None:
        small.made.produce(0, 0)
        small.made.now += 500
        small.change(isr=[0])
        small.made.now += 1000
        small.made.heartbeat(0, small.epochs[0], small.made.metadata.offset - 1)
        small.made.now += 1000
        small.made.produce(0, offset, error=error)

    assert told(tmp_path, happens, min_isr=2)[: len(expected) + 1] == expected


@pytest.mark.parametrize(("hwm", "expected"), [(0, ["answer_fetch"]), (1, [])])
def test_an_acknowledged_record_is_below_the_hwm(hwm: int, expected: list[str], tmp_path: Path) -> None:
    """500 ms after the acknowledgement, the HWM must include it. Earlier fetches are not in the log."""

    def happens(small: Small) -> None:
        small.made.produce(0, 0)
        small.made.now += 500
        small.fetch(1, hwm)

    assert told(tmp_path, happens, whole=False) == expected
