"""Made request logs: at the time limits, allowed at one millisecond, reported one later; acknowledged writes (B6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.messages.context import CLOCKS_MS, OWN_MS
from highwater.traces.messages.nodes import FENCED_EPOCH, NOT_LEADER, UNKNOWN_EPOCH
from tests.generation.requests import FIRST
from tests.traces.requests.small import Small, conforms, limit, report_of, said, told

ANSWERED, REFUSED = "answer_fetch", "refuse_fetch"
OWN, CLOCKS = int(OWN_MS), int(CLOCKS_MS)
TOOK = 2
"""Default time from request to answer, in ms."""


@limit(OWN + TOOK - 1, [REFUSED])
def test_a_leader_does_not_deny_leading_in_an_epoch_that_it_answered_in(small: Small, wait: int) -> None:
    """B2: the leader may have refused an earlier fetch before it knew that it leads."""
    small.follows()
    small.fetch(3, -1, 0, wait, error=NOT_LEADER)


@limit(OWN + TOOK - 1, [REFUSED])
def test_a_leader_knows_an_epoch_that_it_answered_in(small: Small, wait: int) -> None:
    small.follows()
    small.fetch(3, -1, 0, wait, error=UNKNOWN_EPOCH)


@limit(CLOCKS, [REFUSED])
def test_a_former_leader_epoch_is_refused_once_there_is_a_later_one(small: Small, wait: int) -> None:
    """B2: the next leader epoch begins ``wait`` ms after the answer, by the controller's clock."""
    small.follows()
    small.fetch(3, -1, 0, error=FENCED_EPOCH)
    small.made.now += wait
    small.change(leader=0)


def test_a_refused_proposal_does_not_set_the_time_zone(tmp_path: Path) -> None:
    """The refused proposal has the partition epoch of the creation, one hour earlier."""

    def happens(small: Small) -> None:
        small.follows()
        small.made.now += 3_600_000
        small.alter(42, (0, 7))
        small.fetch(3, 2)

    assert ANSWERED not in told(tmp_path, happens)


@limit(CLOCKS, ["903.3"], replicas=(0, 1, 2), isr=(0, 1))
def test_a_member_is_proposed_with_an_epoch_that_it_fetched_with(small: Small, wait: int) -> None:
    """903.3: the proposal names broker 2's new epoch ``wait`` ms before the first fetch with it."""
    small.fetch(0, 0)
    small.fetch(0, 0, f=2)
    small.made.now += 1000
    small.epochs[2] = small.made.register(2)
    small.made.now += 1000
    small.change(isr=[0, 1, 2])
    small.alter((0, 0, [0, 1, 2], 1), (0, 1, 2))
    small.fetch(0, 0, 70, wait, f=2)


def test_a_partition_that_a_topic_does_not_have_is_outside(tmp_path: Path) -> None:
    def happens(small: Small) -> None:
        small.follows()
        small.made.fetch(0, 1, small.epochs[1], 0, 0, -1, 0, of=FIRST._replace(number=7))

    report = report_of(tmp_path, happens)
    assert said(report) == []
    assert report.figures["messages outside: partition that the metadata log does not have"] == 1


@pytest.mark.parametrize(("count", "outside"), [(8, 0), (9, 1)])
def test_the_number_of_brokers_of_a_proposal_is_bounded(count: int, outside: int, tmp_path: Path) -> None:
    def happens(small: Small) -> None:
        small.alter(42, (0, 1, 77))

    report = report_of(tmp_path, happens, replicas=range(count - 1), isr=(0, 1))
    figures = report.figures
    assert figures.get("messages outside: AlterPartition of a partition with too many brokers", 0) == outside
    assert figures.get("messages explained: handle_alter_partition", 0) == 1 - outside


@pytest.mark.parametrize(
    ("errors", "members"), [((95,), (0, 2)), ((41, 107), (0, 1, 2))], ids=["other members", "after an end"]
)
def test_another_proposal_names_its_own_epochs(
    errors: tuple[int, ...], members: tuple[int, ...], tmp_path: Path
) -> None:
    """903.3: a proposal need not keep the epochs of an earlier one with other members, or of one that has ended.

    841.3: INELIGIBLE_REPLICA (107) ends a proposal with all its sendings.
    """

    def happens(small: Small) -> None:
        small.fetch(0, 0)
        small.fetch(0, 0, f=2)
        for error in errors:
            small.alter(error, (0, 1, 2), wait=1000)
        small.made.now += 1000
        small.epochs[2] = small.made.register(2)
        small.fetch(0, 0, wait=1000, f=2)
        small.alter(41, members, wait=1000)

    assert "903.3" not in told(tmp_path, happens, replicas=(0, 1, 2), isr=(0, 1))


# --- acknowledged writes ------------------------------------------------------------------------------


"""Default time from request to answer, in ms."""
UNDER_WAY = "messages guessed: a fetch that was under way where the log ends"


@pytest.mark.parametrize(("error", "expected"), [(0, ["acknowledge"]), (6, []), (19, []), (45, [])])
def test_a_broker_that_does_not_lead_acknowledges_nothing(
    error: int, expected: list[str], tmp_path: Path
) -> None:
    def happens(small: Small) -> None:
        small.made.produce(1, 0 if not error else -1, error=error)

    report = report_of(tmp_path, happens)
    assert said(report) == expected
    assert report.figures.get(f"messages outside: write answered with error {error}", 0) >= (error > 0)


@limit(OWN + TOOK, ["B6"], replicas=(0, 1, 2))
def test_an_acknowledged_record_is_on_the_whole_isr(small: Small, wait: int) -> None:
    """Member 2 is at 0; ``wait`` decides if its next fetch came before the acknowledgement."""
    small.fetch(0, 0)
    small.fetch(0, 0, f=2)
    small.fetch(1, 0, 0)
    small.made.produce(0, 0)
    small.fetch(1, 1, 0, wait, f=2)


@conforms(replicas=(0, 1, 2))
def test_a_fetch_that_came_earlier_may_be_logged_later(small: Small) -> None:
    """The fetch that shows the second copy is parked, and its line follows the acknowledgement by 500 ms."""
    small.fetch(0, 0)
    small.fetch(1, 0, 0, f=2)
    small.made.produce(0, 0)
    small.fetch(1, 1, 0, 500, took=510)


@pytest.mark.parametrize("error", [6, 74])
def test_a_fetch_that_is_refused_at_the_end_of_the_epoch_shows_a_copy(error: int, tmp_path: Path) -> None:
    """The leader read the fetch, acknowledged the write, learned of the next leader epoch, and refused the fetch."""

    def happens(small: Small) -> None:
        small.fetch(0, 0)
        small.made.produce(0, 0)
        small.change(leader=1)
        small.fetch(1, -1, 0, 100, error=error, took=110)

    assert told(tmp_path, happens) == []


@conforms()
def test_a_leader_that_stays_the_leader_knows_its_followers(small: Small) -> None:
    """The leader acknowledges a record in its second leader epoch; the follower fetched the record in the first."""
    small.fetch(0, 0)
    small.fetch(1, 0, 0)
    small.made.now += 1000
    small.change(leader=0)
    small.made.now += 1000
    small.made.produce(0, 0)


@conforms()
def test_an_earlier_leader_can_have_appended_what_is_acknowledged(small: Small) -> None:
    """A producer sends a batch again after an election. The follower has it, and fetches from the leader later."""
    small.fetch(0, 0)
    small.change(leader=1)
    small.made.now += 1000
    small.change(leader=0)
    small.made.now += 1000
    small.made.produce(0, 0)
    small.fetch(1, 1, 0, 500, epoch=2)


@limit(CLOCKS - 2, ["B6"], min_isr=2, isr=(0, 1))
def test_a_leader_may_use_the_previous_isr_until_it_certainly_knows_the_new_one(
    small: Small, wait: int
) -> None:
    """Broker 1 leaves the ISR, which is then too small. The leader's heartbeat confirms it before the write."""
    small.fetch(0, 0)
    small.fetch(1, 0, 0)
    small.made.now += 1000
    small.change(isr=[0])
    small.made.heartbeat(0, small.epochs[0], small.made.metadata.offset - 1)
    small.made.now += wait
    small.made.produce(0, 0, took=1.0)


def test_requests_under_way_when_a_leader_died_are_not_judged(tmp_path: Path) -> None:
    """The leader died before it logged the fetch that shows the copy."""

    def happens(small: Small) -> None:
        small.fetch(0, 0)
        small.made.produce(0, 0)
        small.made.now += 1000
        fenced = {"brokerId": 0, "brokerEpoch": small.epochs[0], "fenced": 1}
        small.change(isr=[1], leader=1)
        small.made.records(("BROKER_REGISTRATION_CHANGE_RECORD", fenced))
        small.made.register(0)

    report = report_of(tmp_path, happens)
    assert (said(report), report.figures.get(UNDER_WAY)) == ([], 1)


@pytest.mark.parametrize("acks", [0, 1])
def test_only_writes_with_acks_all_wait_for_the_isr(acks: int, tmp_path: Path) -> None:
    def happens(small: Small) -> None:
        small.fetch(0, 0)
        small.made.produce(0, 0, acks=acks)

    assert told(tmp_path, happens) == []


@conforms(whole=False)
def test_a_follower_may_have_fetched_before_the_log_begins(small: Small) -> None:
    small.made.produce(0, 7)
