"""Time zones, missing files and deleted topics in broker logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.traces.broker_lines import ID, Made
from tests.traces.watermarks.scenes import (
    LOST,
    elect,
    lost,
)

HOUR = 3_600_000


@pytest.mark.parametrize("quarters", [0, 4, 23, -14, 56])
def test_local_time_is_told_apart_from_utc(tmp_path: Path, quarters: int) -> None:
    made = Made(tmp_path, zone_ms=quarters * 900_000)
    made.begin()
    made.hwm(0, 10, 9)
    judged = made.watermarks()
    found = judged.finish()
    assert judged.utc_offset_ms(0) == quarters * 900_000
    assert [f.time for f in found] == [made.now]


def test_without_the_file_of_state_changes_a_note_says_what_is_missing(made: Made) -> None:
    elect(made, 2, 5, 3, isr=(2,))
    judged = made.watermarks([p for p in made.paths() if "state" not in p.name])
    assert judged.finish() == []
    assert judged.notes == [
        f"broker {b} has no state-change.log, which says when it leads: replay checks little of it"
        for b in (0,)
    ]


def test_topics_of_one_name_are_told_apart_by_their_ids(made: Made) -> None:
    elect(made, 2, 5, 3, isr=(2,))
    first = [replace(change, topic_id=ID) for change in made.changes]
    last = first[-1]
    gone = replace(last, position=98, before=last.after, after=None)
    again = replace(first[0], position=99, topic_id="another")
    for changes in ([*first, gone], [*first, gone, again], [again, *first]):
        made.changes[:] = changes
        judged = made.watermarks()
        loss, *others = judged.finish()
        assert (loss.property, loss.position) == (LOST, {"offset": last.position})
        assert {found.facts["topic_id"] for found in (loss, *others)} == {ID}
        assert ("t1-0" in judged.ends) == (changes[-1] is last)
    made.lines = {
        key: [line.replace(f"Some({ID})", "None") for line in kept] for key, kept in made.lines.items()
    }
    made.changes[:] = [*first, gone, again]
    judged = made.watermarks()
    assert judged.finish() == []
    assert "t1-0 was created again" in judged.notes[0]


def test_a_partition_that_the_metadata_log_does_not_know(made: Made) -> None:
    elect(made, 2, 5, 3, isr=(2,))
    made.changes.clear()
    found = made.findings()
    assert [f.property for f in found] == [LOST]
    assert found[0].position["file"].endswith("2-state-change.log")


def test_the_end_of_daylight_saving_within_a_file_moves_no_time(tmp_path: Path) -> None:
    """All clocks go back by an hour just before the election. Each file shows it."""
    made = Made(tmp_path, zone_ms=2 * HOUR)
    made.begin()
    for broker in (0, 1, 2):
        made.hwm(broker, 10, 10)
    made.alter(isr=(0, 1))
    made.isr(0)
    made.commit(0, 10, 30, (1,))
    made.zone_ms -= HOUR
    made.alter(leader=2, isr=(2,))
    made.leads(2, 10, 8)
    made.follows(0, 30)
    made.now += HOUR // 2
    made.truncating(0, 2, 10)
    at = made.now
    made.still(2, "leader", 10)
    judged = made.watermarks()
    first, *_ = judged.finish()
    assert (first.property, lost(first)) == (LOST, (10, 30))
    end = next(end for end in judged.ends["t1-0"] if end.broker == 0)
    assert [(cut.to, cut.time) for cut in end.truncations] == [(10, at)]
    assert not judged.set_clocks


def test_a_clock_that_was_set_between_lines_is_a_caveat(tmp_path: Path) -> None:
    """The lines of broker 0's state changes are an hour apart. So no line shows that the clock went back."""
    made = Made(tmp_path, zone_ms=2 * HOUR)
    made.begin()
    for _ in range(2):
        made.alter()
        made.isr(0)
    made.now += HOUR
    made.zone_ms -= HOUR
    for _ in range(2):
        made.alter()
        made.isr(0)
    judged = made.watermarks()
    judged.finish()
    assert judged.set_clocks == {0: {"t1-0"}}
    assert judged.utc_offset_ms(0) is None
    assert [end.broker for end in judged.ends["t1-0"]] == [1, 2]
