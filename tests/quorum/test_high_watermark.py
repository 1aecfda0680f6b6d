"""HWM and election rules, compared with counting by hand and with pairwise comparison."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.model.language import Int, Seq, SeqValue, Struct, Truth
from highwater.model.language.function import Function
from highwater.model.quorum import Quorum
from highwater.model.quorum.elections import is_up_to_date
from highwater.model.quorum.leadership import epoch_start, replicated_offset

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
