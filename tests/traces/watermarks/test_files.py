"""Time zones, missing files and deleted topics in broker logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.traces.broker_lines import ID, Made
from tests.traces.watermarks.scenes import (
    LOST,
    elect,
)


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
