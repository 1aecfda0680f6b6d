"""Another controller: index entries that it can lack, and decisions that its predecessor left incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.traces.kafka.values import encode
from highwater.traces.metadata.follow import SPLIT
from tests.traces.metadata.made_logs import (
    OFF,
    ON,
    SHRUNK,
    Controller,
    beginning,
    change,
    clear,
    partition,
    registration,
    registration_change,
    report_on,
    setting,
    unexplained,
    write,
)

START = len(beginning(*ON))
INCARNATION = "AAAAAAAAAAAAAAAAAAAAEA"
NEXT = Controller(2)
Values = Sequence[bytes | Sequence[bytes] | Controller]


def wrong(
    folder: Path, *values: bytes | Sequence[bytes] | Controller, start: Sequence[bytes] | None = None
) -> list[tuple[int, str | None]]:
    """The records that do not conform: offsets from the beginning's end on."""
    begun = beginning(*ON) if start is None else start
    path = write(folder / str(len(list(folder.iterdir()))), [*begun, *values])
    report = report_on(path)
    assert not report.doubts
    return unexplained(report, len(begun))


def offset(values: Values) -> int:
    """The offset behind these values."""
    return START + sum(len(v) if isinstance(v, list | tuple) else 1 for v in values)


# --- the index of ELR members --------------------------------------------------------------------------------

CLEARED: Values = (
    *SHRUNK,
    [setting("min.insync.replicas", "3"), clear()],
    change(0, isr=[0, 1]),
    [
        change(0, isr=[0], eligibleLeaderReplicas=[1]),
        change(0, "u", isr=[0, 2]),
        registration_change(1, 4, fenced=1),
    ],
)
"""Broker 1 has two index entries for t-0: one from before its ELR was cleared, one from its return to the ELR."""
EMPTIED = change(0, eligibleLeaderReplicas=[])


@pytest.mark.parametrize("controller", [(), (Controller(1),), (NEXT, Controller(3))])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_new_controller_can_lack_entries_of_the_index(
    tmp_path: Path, controller: tuple[Controller, ...], times: int
) -> None:
    """A registration visits t-0 for each entry. A new controller may have one entry left, or both."""
    before = (*CLEARED, *controller)
    new = registration(1, offset(before), incarnationId=INCARNATION)
    is_new = controller not in ((), (Controller(1),))
    found = wrong(tmp_path, *before, [*[EMPTIED] * times, new])
    assert (found == []) == (times == 2 or (times == 1 and is_new))


def test_a_registration_shows_how_many_entries_there_were(tmp_path: Path) -> None:
    """The first registration shows whether there was one entry or two; none comes back."""
    before = (*CLEARED, NEXT)
    registered = [EMPTIED, registration(1, offset(before), incarnationId=INCARNATION)]
    unfenced = registration_change(1, offset(before), fenced=-1)
    after = (*before, registered, unfenced, *SHRUNK)
    last = registration(1, offset(after), incarnationId="AAAAAAAAAAAAAAAAAAAAEg")
    assert wrong(tmp_path, *after, [EMPTIED, last]) == []
    assert wrong(tmp_path, *after, [EMPTIED, EMPTIED, last]) != []


def test_a_stray_entry_counts_for_the_first_partition(tmp_path: Path) -> None:
    """Broker 1 has two index entries for t-1 and leaves its ELR. The other entry causes one more visit of t-0."""
    start = [*beginning(*ON), partition(1)]
    in_elr = change(1, isr=[0], eligibleLeaderReplicas=[1])
    twice = (
        change(1, isr=[0, 1]),
        in_elr,
        [setting("min.insync.replicas", "3"), clear()],
        change(1, isr=[0, 1]),
        in_elr,
    )
    fenced = [
        change(0, isr=[0, 2], eligibleLeaderReplicas=[1]),
        in_elr,
        change(0, "u", isr=[0, 2]),
        registration_change(1, 4, fenced=1),
    ]
    before = (*twice, change(1, isr=[0, 1], eligibleLeaderReplicas=[]), fenced)
    new = registration(1, offset(before) + 1, incarnationId=INCARNATION)
    emptied = change(1, eligibleLeaderReplicas=[])
    assert wrong(tmp_path, *before, [EMPTIED, EMPTIED, emptied, new], start=start) == []
    assert wrong(tmp_path, *before, [EMPTIED, emptied, new], start=start) != []


# --- a registration in part ----------------------------------------------------------------------------------


def full(*records: bytes) -> list[bytes]:
    """A batch of Kafka's largest size that ends with these records."""
    return [*[encode("NO_OP_RECORD", 0, {})] * (SPLIT - len(records)), *records]


MORE = SPLIT - 2
OF_1 = full(change(0, "u", isr=[0, 2]), EMPTIED)
"""The changes by the registration of 1 after a crash; the record of the broker follows them."""


def registered(before: Values, more: int = 0) -> bytes:
    """The registration of 1, whose decision begins ``more`` records behind these values."""
    return registration(1, offset(before) + more, incarnationId=INCARNATION)


def test_an_incomplete_registration_is_explained_if_its_controller_failed(tmp_path: Path) -> None:
    """The controller fails behind the first batch; the broker registers with the next one, which changes no more."""
    again = [registered((*SHRUNK, OF_1, NEXT))]
    assert wrong(tmp_path, *SHRUNK, OF_1, NEXT, again) == []
    assert wrong(tmp_path, *SHRUNK, OF_1) == []
    assert wrong(tmp_path, *SHRUNK, OF_1, registered(SHRUNK, MORE)) == []
    assert wrong(tmp_path, *SHRUNK, OF_1, registered((*SHRUNK, OF_1))) != []
    assert (3 + MORE, "t-0") in wrong(tmp_path, *SHRUNK, OF_1, setting("min.insync.replicas", "1", "u"))
    assert (3 + MORE, "t-0") in wrong(tmp_path, *SHRUNK, OF_1, Controller(1), again)


@pytest.mark.parametrize(
    "last",
    [
        change(0, eligibleLeaderReplicas=[2]),
        change(0, isr=[], leader=-1, eligibleLeaderReplicas=[0]),
        change(0, eligibleLeaderReplicas=[], leader=0),
    ],
)
def test_changes_that_no_registration_writes_are_reported(tmp_path: Path, last: bytes) -> None:
    assert (3 + MORE, "t-0") in wrong(tmp_path, *SHRUNK, full(OF_1[-2], last), NEXT)


def test_a_registration_that_is_smaller_than_a_batch_is_written_as_a_whole(tmp_path: Path) -> None:
    assert (2, "t-0") in wrong(tmp_path, *SHRUNK, [EMPTIED], NEXT)


def test_with_elr_off_an_incomplete_registration_removes_the_leader(tmp_path: Path) -> None:
    """Only an incomplete registration explains a change that removes the leader."""
    start = beginning(*OFF)
    first = [change(0, isr=[0]), change(0, "u", isr=[0])]
    gone = full(change(0, leader=-1), change(0, "u", leader=-1))
    assert wrong(tmp_path, first, gone, NEXT, start=start) == []
    assert (3 + MORE, "u-0") in wrong(tmp_path, first, gone, change(0, "u", leader=0), start=start)
