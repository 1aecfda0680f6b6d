"""Promises about the HWM and min ISR: the replay finds broken ones and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.traces.brokers.broker_view import MAX_RANGES, Ranges
from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.kafka.broker_log import read_broker_log
from highwater.traces.reports.observed import MIN_ISR, TOPIC, SettingChange, SettingInForce
from tests.traces.broker_lines import Made
from tests.traces.watermarks.scenes import (
    BACK,
    UNDER,
    elect,
)


def test_lines_that_threads_swapped_are_no_move_back(made: Made) -> None:
    made.leo(0, 1, 12)
    made.leo(0, 2, 12)
    made.hwm(0, 11, 12)
    made.hwm(0, 10, 11)
    assert made.findings() == []


def test_the_hwm_moves_over_the_same_offsets_twice(made: Made) -> None:
    made.hwm(0, 6, 10)
    made.leo(0, 1, 10)
    found = made.findings()
    assert [f.property for f in found] == [BACK]
    assert found[0].rule == "B4"
    assert "4 records (offsets 6–9)" in found[0].at_risk


def test_moves_after_a_change_that_may_not_be_replayed_are_not_judged(made: Made) -> None:
    made.hwm(0, 6, 10)
    made.alter(isr=(0, 1))
    assert made.findings() == []
    made.still(0, "leader", 10)
    assert made.properties() == [BACK]


def test_the_hwm_of_a_leader_is_lower_when_it_replays_a_change(made: Made) -> None:
    made.alter(isr=(0, 1))
    made.still(0, "leader", 10)
    assert made.findings() == []
    made.alter(isr=(0, 1, 2))
    made.still(0, "leader", 9)
    assert made.properties() == [BACK]


def test_the_hwm_moves_from_below_what_it_was_at_the_start(made: Made) -> None:
    elect(made, 1, 10, 8)
    made.hwm(1, 8, 9)
    assert made.findings() == []
    elect(made, 2, 10, 8)
    made.hwm(2, 5, 7)
    found = made.findings()
    assert [f.property for f in found] == [BACK]
    assert "(offsets 5–7)" in found[0].at_risk


def test_a_file_that_is_given_twice_changes_nothing(made: Made) -> None:
    paths = made.paths()
    assert made.watermarks(paths + paths).finish({"t1-0": 2}) == []


def test_ranges_are_bounded() -> None:
    ranges = Ranges()
    for i in range(0, 100_000, 10):
        assert ranges.add(i, i + 5) is None
    assert len(ranges._ranges) == MAX_RANGES
    assert ranges.add(99_992, 99_994) == (99_990, 99_995)
    assert ranges.top == 99_995


def alone(made: Made, under: str = "(under-min-isr)") -> None:
    made.alter(isr=(0,))
    made.isr(0, under)


def test_the_hwm_stands_while_the_isr_is_too_small(made: Made) -> None:
    alone(made)
    made.alter(isr=(0, 1))
    made.isr(0)
    made.still(0, "leader", 10)
    made.commit(0, 10, 12, (1,))
    assert made.findings() == []


def test_the_hwm_moves_while_the_isr_is_too_small(made: Made) -> None:
    alone(made)
    made.hwm(0, 10, 12)
    made.hwm(0, 12, 15)
    found = made.findings()
    assert [f.property for f in found] == [UNDER]
    assert (found[0].rule, found[0].kip) == ("966.1", "KIP-966")
    assert found[0].at_risk == "5 records committed on 1 replica, fewer than 2"


def test_after_the_last_change_966_1_needs_the_min_isr(made: Made) -> None:
    alone(made)
    made.hwm(0, 10, 12)
    assert made.properties(min_isr=None) == []
    assert made.properties(min_isr=1) == []


def test_a_leader_that_does_not_say_that_its_isr_is_too_small_goes_by_other_settings(made: Made) -> None:
    alone(made, under="")
    made.hwm(0, 10, 12)
    assert made.findings() == []


def test_a_lower_min_isr_lets_the_hwm_move(made: Made) -> None:
    """As in a recorded cluster, min ISR is lowered and raised while the partition does not change."""
    alone(made)
    made.configured(0, 1)
    made.hwm(0, 10, 12)
    made.configured(0, 2)
    assert made.findings() == []


def test_a_higher_min_isr_holds_once_the_leader_has_replayed_another_change(made: Made) -> None:
    made.alter(isr=(0, 1))
    made.still(0, "leader", 10)
    made.configured(0, 3)
    made.commit(0, 10, 12, (1,))
    assert made.findings() == [], "the settings were announced, and may not yet be in use"
    made.alter(elr=(2,))
    made.still(0, "leader", 12)
    made.commit(0, 12, 14, (1,))
    assert made.properties() == [UNDER]


def test_settings_that_a_broker_had_before_it_restarted_do_not_count(made: Made) -> None:
    made.configured(0, 3)
    made.alter(isr=(0, 1))
    made.restarted(0, 10)
    made.leads(0, 10, 10)
    made.alter(elr=(2,))
    made.still(0, "leader", 10)
    made.commit(0, 10, 12, (1,))
    assert made.findings() == []


@pytest.mark.parametrize(
    ("name", "after", "expected"), [("t1-0", -2, []), ("t1-0", -1, [UNDER]), ("t2-0", -2, [UNDER])]
)
def test_a_setting_that_the_metadata_log_says_changed_is_not_judged(
    made: Made, name: str, after: int, expected: list[str]
) -> None:
    """The setting changed between the version with the small ISR and the next one, or after both."""
    alone(made)
    made.hwm(0, 10, 12)
    made.alter(isr=(0, 1))
    made.still(0, "leader", 12)
    made.changes[:] = [replace(change, position=10 * change.position) for change in made.changes]
    judged = made.watermarks()
    change = SettingChange(made.changes[after].position + 1, 0, MIN_ISR, TOPIC, "", None, "3")
    judged.setting(name, SettingInForce(change, 3, None))
    assert [f.property for f in judged.finish({"t1-0": 2})] == expected


def test_settings_without_a_change_between_them_take_no_memory(made: Made) -> None:
    alone(made)
    judged, last = made.watermarks(), made.changes[-1].position
    for position in range(last + 1, last + 100):
        judged.setting(
            "t1-0", SettingInForce(SettingChange(position, 0, MIN_ISR, TOPIC, "", None, "3"), 3, None)
        )
    assert judged._partitions["t1-0"][""].settings == [last + 1]


def test_two_files_in_the_same_ms_are_in_no_order(made: Made) -> None:
    made.alter(isr=(0,))
    made.still(0, "leader", 10)
    made.hwm(0, 10, 12, after_ms=0)
    assert made.findings() == []
    made.hwm(0, 12, 14)
    assert made.properties() == [UNDER]


def test_a_line_before_the_creation_in_the_metadata_log_changes_no_finding(made: Made) -> None:
    """A follower of a growing log can read a broker's first line before the record of the partition."""
    alone(made)
    made.hwm(0, 10, 12)
    made.still(0, "leader", 12)
    events = [event for path in made.paths() for event in read_broker_log(path)]
    first, *later = sorted(events, key=lambda event: event.time_ms)
    found = Watermarks(())
    found.take(first)
    for change in made.changes:
        found.change(change)
    found.take(later[0])
    assert list(found.news(lambda name: 2)) == []
    for event in later[1:]:
        found.take(event)
    properties = [finding.property for finding in found.news(lambda name: 2)]
    assert properties == made.properties() == [UNDER]
