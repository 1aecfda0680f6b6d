"""HWM and LEO in brokers' logs: the replay finds broken properties and nothing else. scenes.txt has the runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.brokers.losses import cut, extend, first_difference
from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.kafka.broker_log import read_broker_log
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.observed import MIN_ISR, TOPIC, SettingChange, SettingInForce
from tests.traces.broker_lines import ID, Made

LOST, READ, UNDER = "leader_completeness", "consumers_read_consistently", "hwm_stands_under_min_isr"
SCENES: dict[str, list[str]] = {}
for scene in Path(__file__).with_name("scenes.txt").read_text(encoding="utf-8").split("\n# ")[1:]:
    title, *lines = scene.strip().split("\n")
    SCENES[title] = lines


def lost(finding: Finding) -> tuple[int, int]:
    """The lost offsets, from the first to before the last."""
    match = re.search(r"\(offsets? (\d+)(?:–(\d+))?\) are lost", finding.at_risk)
    assert match is not None
    return int(match[1]), int(match[2] or match[1]) + 1


def elect(made: Made, broker: int, start: int, hwm: int, **fields: object) -> None:
    made.alter(leader=broker, **fields)
    made.leads(broker, start, hwm)


def value(word: str) -> Any:
    """An argument of a line: a number, none, brokers with commas between them, or another text."""
    if word.startswith("text:"):
        return word.removeprefix("text:")
    if word in ("", "none") or "," in word:
        return None if word == "none" else tuple(int(part) for part in word.split(",") if part)
    return int(word) if word.lstrip("-").isdigit() else word


@pytest.mark.parametrize("title", SCENES)
def test_a_scene(made: Made, title: str) -> None:
    min_isr: int | None = 2
    for line in SCENES[title]:
        what, _, rest = line.partition(" ")
        words = rest.split()
        if what == "min_isr":
            min_isr = value(rest)
        elif what in ("finds", "says", "lost", "ends"):
            judged = made.watermarks()
            found = judged.finish(None if min_isr is None else {"t1-0": min_isr})
            if what == "finds":
                assert [f.property for f in found] == [word for word in words if word != "nothing"]
            elif what == "says":
                assert any(rest in f"{f.rule} {f.summary} {f.at_risk}" for f in found)
            elif what == "lost":
                assert lost(found[0]) == tuple(map(int, words))
            else:
                shown = (f"{end.broker}:{end.leo}{'+' * end.at_least}" for end in judged.ends["t1-0"])
                assert " ".join(shown) == rest
        else:
            given = dict(word.split("=") for word in words if "=" in word)
            plain = [value(word) for word in words if "=" not in word]
            named = {name: value(word) for name, word in given.items()}
            elect(made, *plain, **named) if what == "elect" else getattr(made, what)(*plain, **named)


@pytest.mark.parametrize(
    ("name", "after", "expected"), [("t1-0", -2, []), ("t1-0", -1, [UNDER]), ("t2-0", -2, [UNDER])]
)
def test_a_setting_that_the_metadata_log_says_changed_is_not_judged(
    made: Made, name: str, after: int, expected: list[str]
) -> None:
    """The setting changed between the version with the small ISR and the next one, or after both."""
    made.alter(isr=(0,))
    made.isr(0, "(under-min-isr)")
    made.hwm(0, 10, 12)
    made.alter(isr=(0, 1))
    made.still(0, "leader", 12)
    made.changes[:] = [replace(change, position=10 * change.position) for change in made.changes]
    judged = made.watermarks()
    change = SettingChange(made.changes[after].position + 1, 0, MIN_ISR, TOPIC, "", None, "3")
    judged.setting(name, SettingInForce(change, 3, None))
    assert [f.property for f in judged.finish({"t1-0": 2})] == expected


def test_the_rules_and_places_of_a_loss(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.lose()
    loss, read = made.findings()
    assert (loss.property, loss.rule, loss.kip, loss.certain) == (LOST, "B4, 966.6", "KIP-966", True)
    assert (loss.position, loss.time) == ({"offset": made.changes[2].position}, made.changes[2].time)
    assert read.position["file"].endswith("2-server.log")


@pytest.mark.parametrize(("min_isr", "standing"), [(2, "exact"), (1, "at_least"), (None, "at_least")])
def test_a_loss_is_exact_if_the_last_isr_could_not_commit(
    tmp_path: Path, min_isr: int | None, standing: str
) -> None:
    """Broker 0 is alone in the ISR and writes 5 more records, which are committed only if min ISR is 1."""
    made = Made(tmp_path, min_isr=min_isr)
    made.begin()
    made.alter(isr=(0, 1))
    made.commit(0, 10, 30, (1,))
    made.alter(isr=(0,))
    elect(made, 2, 10, 8, isr=(2,))
    made.follows(1, 30)
    made.follows(0, 35)
    loss = next(f for f in made.findings(min_isr) if f.property == LOST)
    assert (lost(loss), loss.facts["standing"]) == ((10, 30), standing)


# --- time zones, missing files and deleted topics in broker logs --------------------------------------


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


HOUR = 3_600_000


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


def test_a_line_before_the_creation_in_the_metadata_log_changes_no_finding(made: Made) -> None:
    """A follower of a growing log can read a broker's first line before the record of the partition."""
    made.alter(isr=(0,))
    made.isr(0, "(under-min-isr)")
    made.hwm(0, 10, 12)
    made.still(0, "leader", 12)
    events = [event for path in made.paths() for event in read_broker_log(path)]
    first, second, *later = sorted(events, key=lambda event: event.time_ms)
    found = Watermarks(())
    found.take(first)
    for change in made.changes:
        found.change(change)
    found.take(second)
    assert list(found.news(lambda name: 2)) == []
    for event in later:
        found.take(event)
    assert [finding.property for finding in found.news(lambda name: 2)] == made.properties() == [UNDER]


def test_logs_by_epoch() -> None:
    log = extend(extend((), 0, 0), 3, 10)
    assert cut(log, 10) == ((0, 0),)
    assert [first_difference(log, other, 20) for other in (extend(log, 5, 8), extend(log, 5, 30), None)] == [
        8,
        20,
        20,
    ]
    older_is_unknown = first_difference(((7, 100),), ((1, 0),), 90)
    assert older_is_unknown == 90
