"""Fetches step by step, by KIP-1166 and Raft, on quorums small enough to follow by hand."""

from __future__ import annotations

from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.model.language import Int, Model, Seq, SeqValue, Struct, Truth
from highwater.model.language.function import Function
from highwater.model.quorum import Quorum
from highwater.model.quorum.elections import is_up_to_date
from highwater.model.quorum.leadership import epoch_start, replicated_offset
from tests import runs


class Run(runs.Run):
    """A run of the quorum. Member 0 is leader, with its epoch's first record appended."""

    def __init__(self, off: str = "", **parameters: int) -> None:
        rules = Quorum.profiles["kip_1166"].rules - set(off.split())
        super().__init__(Model(Quorum(parameters, rules)))

    def fetch(self, *members: int, leader: int = 0) -> Self:
        """Each member sends a fetch, and the leader receives it."""
        for f in members:
            self.take("send_fetch", f=f).take("receive_fetch", leader=leader, f=f)
        return self

    def take_answers(self, *members: int) -> Self:
        """Each member receives the response to its fetch."""
        for f in members:
            self.take("take_answer", f=f)
        return self

    def replicate(self, *members: int, leader: int = 0) -> Self:
        """Each member fetches a record and appends it; the leader does not know yet."""
        return self.fetch(*members, leader=leader).take_answers(*members)

    @property
    def hwm(self) -> list[int]:
        return [member["hwm"] for member in self.state["members"]]

    @property
    def parked(self) -> list[int]:
        return [f for f, fetch in enumerate(self.state["parked"]) if fetch]

    def answer(self, f: int) -> Any:
        """The response in flight to a member: (epoch of its record or None, HWM)."""
        found = self.state["responses"][f]
        return found and (found["record"] and found["record"]["epoch"], found["hwm"])


def test_1166_2_a_fetch_without_news_is_parked() -> None:
    run = Run(settled=1).fetch(1)
    assert run.parked == [1]
    assert run.answer(1) is None


def test_1166_2_a_fetch_with_a_smaller_hwm_is_answered() -> None:
    run = Run().replicate(1)
    assert run.hwm == [-1, -1, -1]
    run.fetch(1)
    assert run.hwm == [1, -1, -1]
    assert run.answer(1) == (None, 1)
    assert run.take_answers(1).hwm == [1, 1, -1]
    assert run.fetch(1).parked == [1]


def test_1166_3_a_new_hwm_completes_the_fetches_of_everyone() -> None:
    run = Run(voters=5, observers=1).replicate(1, 2, 5).fetch(1, 5)
    assert run.parked == [1, 5]
    run.fetch(2)
    assert run.hwm[0] == 1, "three of five have it"
    assert run.parked == []
    assert run.answer(1) == run.answer(2) == run.answer(5) == (None, 1)


def test_new_records_complete_the_fetches_of_everyone() -> None:
    run = Run(settled=1, observers=1).fetch(1, 2, 3)
    assert run.parked == [1, 2, 3]
    run.take("append", leader=0)
    assert run.parked == []
    assert run.answer(1) == run.answer(2) == run.answer(3) == (0, 1)


def test_1166_1_a_fetch_carries_the_hwm_or_that_none_is_known() -> None:
    run = Run(settled=1).take("send_fetch", f=1)
    assert run.state["requests"][1]["hwm"] == 1
    run = Run().take("send_fetch", f=1)
    assert run.state["requests"][1]["hwm"] == -1


def test_1166_1_a_restarted_member_gets_the_hwm_by_its_first_fetch() -> None:
    run = Run(settled=1, restarts=1).take("restart", m=1)
    assert run.hwm == [1, -1, 1]
    assert not run.can("send_fetch", f=1), "it knows no leader"
    run.take("learn", m=1, epoch=0).fetch(1)
    assert run.answer(1) == (None, 1)


def test_1166_4_an_older_sender_leaves_the_hwm_out_and_waits_as_before() -> None:
    run = Run(older=0b10).replicate(1).take("send_fetch", f=1)
    assert run.state["requests"][1]["hwm"] is None
    run.take("receive_fetch", leader=0, f=1)
    assert run.hwm == [1, -1, -1]
    assert run.parked == [1]


def test_1166_4_an_older_leader_does_not_look_at_the_hwm_nor_completes_fetches_when_its_own_grows() -> None:
    run = Run(voters=5, older=0b1).replicate(1, 2).fetch(1, 2)
    assert run.hwm[0] == 1
    assert run.parked == [1, 2]


@pytest.mark.parametrize(("off", "told"), [("", -1), ("timer_answers_as_parked", 1)])
def test_the_park_timer_answers_with_the_hwm_of_then_or_of_now(off: str, told: int) -> None:
    run = Run(off, voters=5, older=0b1).replicate(1, 2).fetch(1, 2)
    run.take("park_timer", leader=0, f=1).take("park_timer", leader=0, f=2)
    assert run.answer(1) == (None, told)
    assert run.answer(2) == (None, 1)


def test_the_park_timer_answers_as_if_no_record_had_come() -> None:
    run = Run("records_complete", settled=1).fetch(1).take("append", leader=0)
    assert run.take("park_timer", leader=0, f=1).answer(1) == (None, 1)


def test_an_hwm_is_not_past_the_end_of_the_members_own_log() -> None:
    run = Run().take("append", leader=0).replicate(1).replicate(1).fetch(1)
    assert run.hwm[0] == 2
    assert run.replicate(2).hwm[2] == 1


def test_a_record_is_committed_by_fetches_of_a_majority_of_voters() -> None:
    run = Run(voters=5, observers=1).replicate(1, 2, 5).fetch(5)
    assert run.hwm[0] == -1, "an observer does not count"
    assert run.fetch(1).hwm[0] == -1
    assert run.fetch(2).hwm[0] == 1


def test_a_new_leader_commits_with_the_first_record_of_its_own_epoch_and_not_before() -> None:
    run = Run(settled=1, elections=1).take("elect", candidate=1, electorate=[1, 2])
    assert run.hwm == [1, -1, 1], "it forgets what it knew"
    run.take("learn", m=2, epoch=1).fetch(2, leader=1)
    assert run.hwm[1] == -1, "all have the record of epoch 0"
    assert run.answer(2) == (1, -1)
    assert run.take_answers(2).hwm[2] == 1, "a leader that knows no HWM takes nothing back"
    assert run.fetch(2, leader=1).hwm[1] == 2


def test_b3_a_former_leader_truncates_what_the_new_one_has_not() -> None:
    run = Run(settled=1, elections=1).take("append", leader=0).take("elect", candidate=1, electorate=[1, 2])
    assert [r["epoch"] for r in run.state["members"][0]["log"]] == [0, 0]
    run.take("learn", m=0, epoch=1).fetch(0, leader=1)
    assert run.state["responses"][0]["diverging"]
    run.take_answers(0)
    assert [r["epoch"] for r in run.state["members"][0]["log"]] == [0]
    assert run.replicate(0, leader=1).hwm[0] == 1
    assert [r["epoch"] for r in run.state["members"][0]["log"]] == [0, 1]


def test_a_fetch_to_a_former_leader_is_refused() -> None:
    run = Run(settled=1, elections=1).take("send_fetch", f=2)
    assert not run.can("refuse_fetch", f=2)
    run.take("elect", candidate=1, electorate=[0, 1])
    assert not run.can("receive_fetch", leader=0, f=2)
    assert run.can("refuse_fetch", f=2)


# --- hwm and election rules, compared with counting by hand and with pairwise comparison --------------


MOST = 5
OFFSET, EPOCH = Int(-1, MOST), Int(0, 4)
LOG = Seq(Struct("Record", epoch=EPOCH), MOST)

replicated = {
    (voters, count): Function(
        lambda count=count, **ends: replicated_offset(list(ends.values()), count),
        **{f"voter{v}": OFFSET for v in range(voters)},
    )
    for voters in range(1, 6)
    for count in range(1, voters + 1)
}
start = Function(epoch_start, log=LOG, epoch=EPOCH)

Log = list[dict[str, int]]
logs = st.lists(st.integers(0, 4), max_size=MOST).map(lambda epochs: [{"epoch": e} for e in sorted(epochs)])


@given(st.lists(st.integers(-1, MOST), min_size=1, max_size=5), st.data())
def test_an_offset_is_replicated_where_so_many_have_it(ends: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(ends)))
    found = replicated[len(ends), count](**{f"voter{v}": end for v, end in enumerate(ends)})
    possible = [offset for offset in range(MOST + 1) if sum(end >= offset for end in ends) >= count]
    assert found == max(possible, default=-1)


@given(logs, st.integers(0, 4))
def test_an_epoch_starts_behind_the_earlier_ones(log: Log, epoch: int) -> None:
    found = start(log=log, epoch=epoch)
    assert all(record["epoch"] < epoch for record in log[:found])
    assert all(record["epoch"] >= epoch for record in log[found:])


def _up_to_date() -> Function:
    protocol = Quorum({"elections": 3, "appends": 3}, Quorum.profiles["kip_1166"].rules)
    member = protocol.member_type
    fields = {"epoch": 0, "leader": None, "hwm": -1, "peak": -1, "fetched": [-1, -1, -1]}

    def up_to_date(candidate: SeqValue, voter: SeqValue) -> Truth:
        return is_up_to_date(member(**fields, log=candidate), member(**fields, log=voter))

    log: Any = member.fields["log"]
    return Function(up_to_date, candidate=log, voter=log)


up_to_date = _up_to_date()
short_logs = st.lists(st.integers(0, 3), max_size=7).map(
    lambda epochs: [{"epoch": e} for e in sorted(epochs)]
)


@settings(max_examples=30)
@given(short_logs, short_logs)
def test_logs_are_compared_by_last_epoch_and_then_by_length(candidate: Log, voter: Log) -> None:
    def key(log: Log) -> tuple[int, int]:
        return (log[-1]["epoch"] if log else -1, len(log))

    assert up_to_date(candidate=candidate, voter=voter) == (key(candidate) >= key(voter))
