"""Promises about the HWM and min ISR: the replay finds broken ones and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.traces.brokers.broker_view import MAX_RANGES, Ranges
from highwater.traces.brokers.losses import cut, extend, first_difference
from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.kafka.broker_log import read_broker_log
from highwater.traces.reports.observed import MIN_ISR, TOPIC, SettingChange, SettingInForce
from highwater.traces.reports.text import records
from tests.traces.broker_lines import ID, Made
from tests.traces.watermarks.scenes import (
    BACK,
    BEHIND,
    ELECTABLE,
    GONE,
    JOINED,
    LOST,
    READ,
    UNDER,
    elect,
    lost,
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


# --- promises about the leos of isr and elr members ---------------------------------------------------


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


# --- losses of committed records ----------------------------------------------------------------------


def test_an_unclean_election_loses_what_the_new_leader_lacks(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.lose()
    found = {finding.property: finding for finding in made.findings()}
    assert set(found) == {LOST, READ}
    loss = found[LOST]
    assert (loss.rule, loss.kip, loss.certain) == ("B4, 966.6", "KIP-966", True)
    assert loss.position == {"offset": made.changes[2].position}
    assert loss.time == made.changes[2].time
    assert "outside ISR and ELR" in loss.summary
    assert loss.at_risk.startswith(
        "20 committed records (offsets 10–29) are lost; broker 0 had 20 of them (LEO 30); broker 1 had 4 of them"
    )
    assert found[READ].position["file"].endswith("2-server.log")


def test_consumers_see_nothing_of_a_loss_while_the_new_leader_answers_nothing(made: Made) -> None:
    elect(made, 2, 5, 3, isr=(2,))
    assert READ not in made.properties()
    made.hwm(2, 3, 5)
    assert READ in made.properties()


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


@pytest.mark.parametrize(
    ("followers", "gone"),
    [
        ((4, 6), (6, 10)),
        ((3, 2), (4, 10)),
        ((9, 0), (9, 10)),
        # Followers still have the records until they truncate to the new leader's log, and one may be down.
        ((10, 10), None),
        ((4,), None),
    ],
)
def test_records_that_no_replica_has_are_gone(
    made: Made, followers: tuple[int, ...], gone: tuple[int, int] | None
) -> None:
    elect(made, 2, 4, 4, isr=(2,))
    for broker, leo in enumerate(followers):
        made.follows(broker, leo)
    findings = {f.property: f for f in made.findings()}
    assert lost(findings[LOST]) == (4, 10)
    assert (GONE in findings) == (gone is not None)
    if gone is not None:
        assert findings[GONE].at_risk.startswith(f"no replica has {records(*gone)} any more")
        assert (findings[GONE].rule, findings[GONE].kip) == ("P1", "KIP-966")


def test_a_member_of_isr_or_elr_that_is_elected_with_less(made: Made) -> None:
    made.alter(isr=(), elr=(0, 1), leader=None)
    elect(made, 1, 7, 7, isr=(1,), elr=(0,))
    findings = made.findings()
    assert [f.property for f in findings] == [LOST, ELECTABLE, READ]
    assert findings[1].rule == "966.6"
    assert "3 committed records (offsets 7–9)" in findings[1].at_risk


def test_a_leader_that_restarts_in_its_epoch_with_less(made: Made) -> None:
    made.restarted(0, 10)
    made.leads(0, 10, 10)
    assert made.findings() == []
    made.restarted(0, 9)
    made.leads(0, 9, 9)
    loss = next(f for f in made.findings() if f.property == LOST)
    assert "restarted in leader epoch 0" in loss.summary
    assert loss.position["file"].endswith("0-state-change.log")


def test_a_longer_log_that_lacks_what_was_committed(made: Made) -> None:
    """Broker 0 has 25 records of epoch 0, 10 of them committed; epoch 1 commits others from offset 10."""
    elect(made, 1, 10, 10, isr=(1,))
    made.min_isr = 1
    made.hwm(1, 10, 14)
    made.alter(leader=None)
    made.restarted(0, 10)
    made.follows(0, 25, 10)
    elect(made, 0, 25, 10, isr=(0,))
    loss = next(f for f in made.findings(None) if f.property == LOST)
    assert "its log diverges at offset 10" in loss.summary
    assert loss.at_risk.startswith("4 committed records (offsets 10–13)")


def test_a_log_that_grew_without_a_leader_is_unknown(made: Made) -> None:
    elect(made, 1, 10, 10, isr=(1, 2))
    made.commit(1, 10, 14, (2,))
    made.alter(leader=None)
    made.follows(0, 12, 10)
    elect(made, 0, 14, 10, isr=(0,))
    assert made.findings() == []


def test_moves_in_the_ms_in_which_a_leader_follows_count(made: Made) -> None:
    made.leo(0, 1, 12)
    made.leo(0, 2, 12)
    made.alter(leader=1)
    made.hwm(0, 10, 12)
    made.follows(0, 12, after_ms=0)
    made.leads(1, 11, 10)
    assert made.properties() == [LOST, ELECTABLE]


def test_a_log_that_is_loaded_in_the_ms_in_which_its_leader_starts(made: Made) -> None:
    made.restarted(0, 10)
    made.leads(0, 10, 10, after_ms=0)
    made.hwm(0, 10, 12)
    elect(made, 1, 11, 10)
    assert lost(made.findings()[0]) == (11, 12)


@pytest.mark.parametrize(("lines", "expected"), [(0, [LOST, READ]), (1, [LOST, READ]), (2, [])])
def test_hwm_moves_count_if_their_tenure_is_known(made: Made, lines: int, expected: list[str]) -> None:
    """A broker logs a metadata replay in one file and its new role in another. Here the other file ends early."""
    made.alter(isr=(0, 1))
    made.still(0, "leader", 10)
    for _ in range(lines):
        made.removed(0)
    made.hwm(0, 10, 15)
    elect(made, 2, 10, 10)
    made.follows(0, 15)
    assert made.properties() == expected


def test_hwm_moves_after_the_last_known_role_change_do_not_count(made: Made) -> None:
    made.removed(0)
    made.hwm(0, 10, 15)
    elect(made, 2, 10, 10)
    assert made.findings() == []


def test_a_leader_that_restarts_with_less_cuts_its_followers(made: Made) -> None:
    """The LEO 10 that broker 0 recorded before is no bound for the end of broker 1's log."""
    made.restarted(0, 9)
    made.leads(0, 9, 9)
    made.follows(1, 10)
    made.truncating(1, 0, 9)
    found = made.watermarks()
    found.finish({"t1-0": 2})
    ends = {end.broker: (end.leo, end.at_least) for end in found.ends["t1-0"]}
    assert ends == {0: (9, True), 1: (9, True), 2: (10, True)}


def test_an_end_is_exact_while_there_is_no_leader(made: Made) -> None:
    """Broker 1 logs nothing of the later leader: it may have followed that leader since."""

    def ends() -> dict[int, tuple[int, bool]]:
        found = made.watermarks()
        found.finish({"t1-0": 2})
        return {end.broker: (end.leo, end.at_least) for end in found.ends["t1-0"]}

    made.alter(leader=None)
    made.follows(1, 12)
    assert ends()[1] == (12, False)
    made.alter(leader=0)
    assert ends()[1] == (12, True)
    made.leads(0, 12, 12)
    made.shrinking(0, "0,1,2", "0,2", 14, 20, 1, 15)
    assert ends() == {0: (20, True), 1: (15, True), 2: (10, True)}, "the leader logs both ends"
    elect(made, 2, 10, 10, isr=(2,))
    assert lost(made.findings()[0]) == (10, 14)


def test_logs_by_epoch() -> None:
    log = extend(extend((), 0, 0), 3, 10)
    assert cut(log, 10) == ((0, 0),)
    assert first_difference(log, extend(log, 5, 8), 20) == 8
    assert first_difference(log, extend(log, 5, 30), 20) == 20
    assert first_difference(log, None, 20) == 20
    assert first_difference(((7, 100),), ((1, 0),), 90) == 90, (
        "what is older than the log tells is no difference"
    )
