"""Promises about the LEOs of ISR and ELR members: the replay finds broken ones and nothing else."""

from __future__ import annotations

import pytest

from tests.traces.broker_lines import Made
from tests.traces.watermarks.scenes import (
    BEHIND,
    ELECTABLE,
    JOINED,
    elect,
)


def test_the_hwm_moves_above_the_leo_of_a_member(made: Made) -> None:
    made.hwm(0, 10, 15)
    made.leo(0, 1, 15)
    assert made.findings() == [], "no later LEO of broker 2 is known"
    made.leo(0, 2, 9)
    found = made.findings()
    assert [(f.rule, f.property) for f in found] == [("B4", BEHIND)]
    assert "5 committed records (offsets 10–14)" in found[0].at_risk, "it may have had 10, as recorded before"


def test_a_member_below_the_hwm_when_the_isr_shrinks(made: Made) -> None:
    made.shrinking(0, "0,1,2", "0,1", 10, 11, 2, 10)
    made.shrinking(0, "0,1,2", "0,1", 10, 11, 2, -1)
    assert made.findings() == []
    made.shrinking(0, "0,1,2", "0,1", 10, 11, 2, 8)
    assert made.properties() == [BEHIND]


@pytest.mark.parametrize(("leo", "expected"), [(15, []), (14, [JOINED])])
def test_a_replica_joins_the_isr_when_it_has_reached_the_hwm(
    made: Made, leo: int, expected: list[str]
) -> None:
    made.alter(isr=(0, 1))
    made.isr(0)
    made.commit(0, 10, 15, (1,))
    made.leo(0, 2, 11)
    made.expand(0, 2)
    made.leo(0, 2, leo)
    assert made.properties() == expected


def test_a_replica_that_had_reached_the_hwm_may_have_been_proposed_for_that(made: Made) -> None:
    made.alter(isr=(0, 1))
    made.isr(0)
    made.leo(0, 2, 10)
    made.expand(0, 2)
    made.leo(0, 2, 3)
    assert made.findings() == []


def test_a_replica_joins_the_isr_when_it_has_reached_the_start_of_the_epoch(made: Made) -> None:
    elect(made, 1, 13, 10, isr=(1, 2))
    made.expand(1, 0)
    made.leo(1, 0, 12)
    assert made.properties() == [JOINED]


@pytest.mark.parametrize(("leo", "expected"), [(10, []), (9, [ELECTABLE])])
@pytest.mark.parametrize("member", ["isr", "elr"])
def test_a_member_with_less_than_was_committed(
    made: Made, member: str, leo: int, expected: list[str]
) -> None:
    made.alter(isr=(1, 0), leader=1) if member == "isr" else made.alter(isr=(1,), elr=(0,), leader=1)
    made.leads(1, 10, 10)
    made.restarted(0, 10)
    made.follows(0, leo)
    found = made.findings()
    assert [f.property for f in found] == expected
    if found:
        assert found[0].rule == ("B5" if member == "isr" else "966.6")
        assert found[0].at_risk.startswith("1 committed record (offset 9)")


def test_a_replica_outside_isr_and_elr_may_have_less(made: Made) -> None:
    elect(made, 1, 10, 10, isr=(1, 2))
    made.follows(0, 3)
    assert made.findings() == []


def test_a_leader_without_logs_in_between_may_have_lost_it_already(made: Made) -> None:
    made.alter(leader=7, isr=(7,))
    made.alter(isr=(7, 1))
    made.alter(leader=None, isr=(7, 1))
    made.follows(1, 4)
    assert made.findings() == []
