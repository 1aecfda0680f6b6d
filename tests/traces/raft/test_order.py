"""The order of several nodes' lines, and the request that each line belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.messages import raft_events
from highwater.traces.messages.quorum import Belief, Log, Window
from highwater.traces.messages.raft_events import (
    SLACK_MS,
    Answered,
    Event,
    Fetch,
    FetchAnswer,
    GotAnswer,
    Message,
    Order,
    Received,
    Sent,
    Started,
    Vote,
    What,
)
from highwater.traces.reading import Place

A, B, C = (Fetch(1, 1, offset, 1, None) for offset in (1, 2, 3))
VOTE = Vote(1, 2, 1, 1, 1, pre=False)
ANSWER = FetchAnswer(0, 2, 1, 0, 0, None, None)


def at(node: int, time: int, what: What) -> Event:
    return Event(node, time, Place(Path("log"), time), what)


def ordered(
    *events: Event, nodes: tuple[int, ...] = (1, 2)
) -> list[tuple[What, raft_events.Exchange | None]]:
    logs = [(node, [event for event in events if event.node == node]) for node in nodes]
    return [(event.what, exchange) for event, exchange in Order(logs)]


@pytest.mark.parametrize(("late", "waits"), [(SLACK_MS, True), (SLACK_MS + 1, False)])
def test_a_request_waits_for_the_line_that_sent_it_for_a_while(late: int, waits: bool) -> None:
    sent, received = Sent(A, 7, 2), Received(A, 1, 18)
    found = ordered(at(2, 0, received), at(1, late, sent))
    assert [what for what, _ in found] == ([sent, received] if waits else [received, sent])
    assert (dict(found)[received] is not None) == waits


def test_an_answer_does_not_wait_for_a_log_that_has_ended() -> None:
    got, later = GotAnswer(ANSWER, 7, 2, failed=False), Sent(VOTE, 8, 1)
    found = ordered(at(1, 0, Sent(A, 7, 2)), at(1, 10, got), at(3, 20, later), nodes=(1, 2, 3))
    assert [what for what, _ in found] == [Sent(A, 7, 2), got, later]


def test_earlier_requests_on_the_same_way_were_lost() -> None:
    """B arrives, so the earlier fetch A was lost; the earlier vote and the later fetch can still arrive."""
    first: tuple[Message, ...] = (A, VOTE, B, C)
    then: tuple[Message, ...] = (B, VOTE, C, A)
    sent = [at(1, n, Sent(message, n, 2)) for n, message in enumerate(first)]
    came = [at(2, 10 + n, Received(message, n, 18)) for n, message in enumerate(then)]
    found = ordered(*sent, *came, at(1, 5000, Sent(C, 99, 2)))
    of = {
        what.message: None if exchange is None else exchange.correlation
        for what, exchange in found
        if isinstance(what, Received)
    }
    assert [of[m] for m in (B, VOTE, C, A)] == [2, 1, 3, None]


def test_a_process_that_starts_knows_of_no_request() -> None:
    started = Started((1, 2))
    found = ordered(
        at(1, 0, Sent(A, 7, 2)), at(2, 1, Received(A, 5, 18)), at(1, 2, started),
        at(1, 3, GotAnswer(ANSWER, 7, 2, failed=False)),
        at(2, 4, started), at(2, 5, Answered(ANSWER, 5, A)),
    )  # fmt: skip
    exchanges = [exchange for _, exchange in found]
    assert exchanges[0] is not None
    assert exchanges[0] is exchanges[1]
    assert exchanges[0].is_lost
    assert exchanges[2:] == [None] * 4


def test_the_oldest_of_too_many_requests_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_events, "MAX_OPEN", 2)
    found = ordered(*(at(1, n, Sent(A, n, 2)) for n in range(3)))
    assert [exchange and exchange.is_lost for _, exchange in found] == [True, False, False]


def test_epochs_without_comparison_are_merged() -> None:
    """Only epoch 4 is compared, so epochs 1 and 2 merge into one; otherwise both stay."""
    belief = Belief(voters=(1,))
    belief.node(1).log, belief.node(1).epoch = Log([(0, 1), (3, 2), (5, 4)], 7), 4
    window = Window(belief, [1], (), [4], fetches=False)
    assert window.logs[1].cuts == [(0, 2), (5, 4)]
    # The merged epoch keeps its rank below epoch 4.
    assert window.epochs.values == [0, 2, 4]
    assert [window.epochs.rank(window.logs[1].epoch_at(offset)) for offset in (0, 4, 5)] == [1, 1, 2]
    assert Window(belief, [1], (), [1, 4], fetches=False).logs[1].cuts == [(0, 1), (3, 2), (5, 4)]
