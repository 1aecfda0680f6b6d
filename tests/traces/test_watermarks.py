"""HWM and LEO in brokers' logs: each promise broken on purpose and found, the same kept and nothing found."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.traces.brokers.broker_view import BrokerView
from highwater.traces.brokers.lineage import cut, extend, first_difference
from highwater.traces.brokers.stints import MAX_RANGES, Ranges
from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.kafka import broker_events as events
from highwater.traces.kafka.broker_events import HwmMoved
from highwater.traces.kafka.broker_log import read_broker_log
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.observed import PartitionChange, PartitionState
from tests.traces.broker_lines import Made
from tests.traces.broker_runs import Run
from tests.traces.clusters import CLUSTERS, SCENARIOS, Metadata, broker_logs, needs_clusters

LOST = "leader_completeness"
GONE = "committed_records_survive"
READ = "consumers_read_consistently"
BACK = "hwm_never_moves_back"
UNDER = "hwm_stands_under_min_isr"
BEHIND = "hwm_waits_for_isr"
JOINED = "isr_joined_caught_up"
ELECTABLE = "electable_completeness"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    cluster = Made(tmp_path)
    cluster.begin()
    return cluster


# --- losses -----------------------------------------------------------------------------------------------


def elect(made: Made, broker: int, start: int, hwm: int, **fields: object) -> None:
    made.alter(leader=broker, **fields)
    made.leads(broker, start, hwm)


def test_a_new_leader_with_all_that_was_committed(made: Made) -> None:
    elect(made, 1, 10, 4, isr=(1, 2))
    made.follows(0, 12)
    made.follows(2, 10)
    made.truncating(0, 1, 10)
    made.commit(1, 10, 20, (2,))
    assert made.findings() == []


def test_an_unclean_election_loses_what_the_new_leader_lacks(made: Made) -> None:
    made.alter(isr=(0, 1))
    made.isr(0)
    made.commit(0, 10, 30, (1,))
    elect(made, 2, 10, 8, isr=(2,))
    made.alter(isr=(2, 0, 1))
    made.isr(2)
    made.hwm(2, 8, 10)
    made.follows(0, 30)
    found = {finding.property: finding for finding in made.findings()}
    assert set(found) == {LOST, READ}
    loss = found[LOST]
    assert (loss.rule, loss.kip, loss.certain) == ("B4, 966.6", "KIP-966", True)
    assert loss.position == {"offset": made.changes[2].position}
    assert loss.time == made.changes[2].time
    assert "outside ISR and ELR" in loss.summary
    assert loss.at_risk.startswith(
        "20 committed offsets, [10, 30), are lost; broker 0 had 20 of them (LEO 30); broker 1"
    )
    assert found[READ].position["file"].endswith("2-server.log")


def test_consumers_see_nothing_of_a_loss_while_the_new_leader_answers_nothing(made: Made) -> None:
    elect(made, 2, 5, 3, isr=(2,))
    assert READ not in made.properties()
    made.hwm(2, 3, 5)
    assert READ in made.properties()


def test_records_that_some_replica_has_yet_survive(made: Made) -> None:
    """The leader lacks them, and followers truncate to it; but until then they are there."""
    elect(made, 2, 4, 4, isr=(2,))
    made.follows(0, 10)
    made.follows(1, 10)
    assert GONE not in made.properties()


@pytest.mark.parametrize(("first", "second", "gone"), [(4, 6, (6, 10)), (3, 2, (4, 10)), (9, 0, (9, 10))])
def test_records_that_no_replica_has_are_gone(
    made: Made, first: int, second: int, gone: tuple[int, int]
) -> None:
    elect(made, 2, 4, 4, isr=(2,))
    made.follows(0, first)
    made.follows(1, second)
    findings = {f.property: f for f in made.findings()}
    assert lost(findings[LOST]) == (4, 10)
    low, high = gone
    assert findings[GONE].at_risk.startswith(
        f"{high - low} committed offsets, [{low}, {high}), are in the log of no"
    )
    assert (findings[GONE].rule, findings[GONE].kip) == ("P1", "KIP-966")


def test_of_a_replica_that_has_not_come_back_it_is_not_known_what_it_has(made: Made) -> None:
    elect(made, 2, 4, 4, isr=(2,))
    made.follows(0, 4)
    assert LOST in made.properties()
    assert GONE not in made.properties()


def test_a_loss_is_counted_once(made: Made) -> None:
    elect(made, 2, 4, 4, isr=(2,))
    elect(made, 2, 4, 4)
    elect(made, 1, 6, 4, isr=(1,))
    assert [f.at_risk.split(";")[0] for f in made.findings() if f.property == LOST] == [
        "6 committed offsets, [4, 10), are lost"
    ]


def test_a_member_of_isr_or_elr_that_is_elected_with_less(made: Made) -> None:
    made.alter(isr=(), elr=(0, 1), leader=None)
    elect(made, 1, 7, 7, isr=(1,), elr=(0,))
    findings = made.findings()
    assert [f.property for f in findings] == [LOST, ELECTABLE, READ]
    assert findings[1].rule == "966.6"
    assert "3 committed offsets, [7, 10)" in findings[1].at_risk


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
    """Broker 0 has 25 records of epoch 0, 10 of them committed; epoch 1 commits other records from 10 on."""
    elect(made, 1, 10, 10, isr=(1,))
    made.min_isr = 1
    made.hwm(1, 10, 14)
    made.alter(leader=None)
    made.restarted(0, 10)
    made.follows(0, 25, 10)
    elect(made, 0, 25, 10, isr=(0,))
    loss = next(f for f in made.findings(None) if f.property == LOST)
    assert "its log differs from offset 10 on" in loss.summary
    assert loss.at_risk.startswith("4 committed offsets, [10, 14)")


def test_a_follower_that_took_over_the_leaders_log_lacks_nothing(made: Made) -> None:
    elect(made, 1, 10, 10, isr=(1, 2))
    made.restarted(0, 10)
    made.follows(0, 25, 10)
    made.truncating(0, 1, 10)
    made.commit(1, 10, 14, (2,))
    elect(made, 0, 14, 12, isr=(0, 1, 2))
    assert made.findings() == []


def test_a_follower_that_was_cut_and_grew_to_the_same_length_has_its_leaders_log(made: Made) -> None:
    elect(made, 1, 10, 10, isr=(1, 2))
    made.restarted(0, 10)
    made.follows(0, 14, 10)
    made.truncating(0, 1, 10)
    made.commit(1, 10, 14, (2,))
    elect(made, 0, 14, 12, isr=(0,))
    assert made.findings() == []


def test_a_follower_that_was_not_cut_has_its_own_log(made: Made) -> None:
    elect(made, 1, 10, 10, isr=(1, 2))
    made.restarted(0, 10)
    made.follows(0, 14, 10)
    made.commit(1, 10, 14, (2,))
    elect(made, 0, 14, 12, isr=(0,))
    loss = next(f for f in made.findings() if f.property == LOST)
    assert lost(loss) == (10, 14)


def test_of_a_log_that_grew_without_a_leader_nothing_is_known(made: Made) -> None:
    elect(made, 1, 10, 10, isr=(1, 2))
    made.commit(1, 10, 14, (2,))
    made.alter(leader=None)
    made.follows(0, 12, 10)
    elect(made, 0, 14, 10, isr=(0,))
    assert made.findings() == []


def test_what_a_leader_moves_in_the_ms_in_which_it_follows_counts(made: Made) -> None:
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
def test_moves_count_where_it_is_known_whose_they_are(made: Made, lines: int, expected: list[str]) -> None:
    """A broker that replays a change says so in one file, and what it becomes in the other. Here that one ends."""
    made.alter(isr=(0, 1))
    made.still(0, "leader", 10)
    for _ in range(lines):
        made.removed(0)
    made.hwm(0, 10, 15)
    elect(made, 2, 10, 10)
    made.follows(0, 15)
    assert made.properties() == expected


def test_moves_after_the_last_change_of_state_that_is_known_do_not_count(made: Made) -> None:
    made.removed(0)
    made.hwm(0, 10, 15)
    elect(made, 2, 10, 10)
    assert made.findings() == []


def test_logs_by_epoch() -> None:
    log = extend(extend((), 0, 0), 3, 10)
    assert cut(log, 10) == ((0, 0),)
    assert first_difference(log, extend(log, 5, 8), 20) == 8
    assert first_difference(log, extend(log, 5, 30), 20) == 20
    assert first_difference(log, None, 20) == 20
    assert first_difference(((7, 100),), ((1, 0),), 90) == 90, (
        "what is older than the log tells is no difference"
    )


# --- the HWM of one leader ----------------------------------------------------------------------------------


def test_lines_that_threads_swapped_are_no_move_back(made: Made) -> None:
    made.leo(0, 1, 12)
    made.leo(0, 2, 12)
    made.hwm(0, 11, 12)
    made.hwm(0, 10, 11)
    assert made.findings() == []


def test_the_hwm_moves_back_in_one_line(made: Made) -> None:
    made.hwm(0, 10, 9)
    assert made.properties() == [BACK]


def test_the_hwm_moves_over_the_same_offsets_twice(made: Made) -> None:
    made.hwm(0, 6, 10)
    made.leo(0, 1, 10)
    found = made.findings()
    assert [f.property for f in found] == [BACK]
    assert found[0].rule == "B4"
    assert "4 offsets, [6, 10)" in found[0].at_risk


def test_what_a_leader_does_after_a_change_it_is_not_known_to_have_replayed_is_not_judged(made: Made) -> None:
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


def test_a_new_tenure_may_start_lower(made: Made) -> None:
    """B5: the HWM of a new leader lags."""
    elect(made, 1, 10, 3)
    made.follows(0, 10)
    made.hwm(1, 3, 10)
    elect(made, 0, 10, 4)
    made.follows(1, 10)
    made.hwm(0, 4, 10)
    assert made.findings() == []


def test_the_hwm_moves_from_below_what_it_was_at_the_start(made: Made) -> None:
    elect(made, 1, 10, 8)
    made.hwm(1, 8, 9)
    assert made.findings() == []
    elect(made, 2, 10, 8)
    made.hwm(2, 5, 7)
    found = made.findings()
    assert [f.property for f in found] == [BACK]
    assert "[5, 8)" in found[0].at_risk


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


# --- min ISR --------------------------------------------------------------------------------------------------


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
    assert found[0].at_risk == "5 offsets were committed on 1 of at least 2 replicas"


def test_of_the_last_change_the_min_isr_must_be_given(made: Made) -> None:
    alone(made)
    made.hwm(0, 10, 12)
    assert made.properties(min_isr=None) == []
    assert made.properties(min_isr=1) == []


def test_a_leader_that_does_not_say_that_its_isr_is_too_small_goes_by_other_settings(made: Made) -> None:
    alone(made, under="")
    made.hwm(0, 10, 12)
    assert made.findings() == []


def test_a_lower_min_isr_lets_the_hwm_move(made: Made) -> None:
    """As in a recorded cluster: the setting goes down and up again while the partition stays as it is."""
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


def test_a_setting_that_the_metadata_log_says_changed_is_not_judged(made: Made) -> None:
    alone(made)
    made.hwm(0, 10, 12)
    judged = made.watermarks()
    judged.setting_changed("t2")
    assert [f.property for f in judged.finish({"t1-0": 2})] == [UNDER]
    judged = made.watermarks()
    judged.setting_changed("t1")
    assert judged.finish({"t1-0": 2}) == []


def test_two_files_in_the_same_ms_are_in_no_order(made: Made) -> None:
    made.alter(isr=(0,))
    made.still(0, "leader", 10)
    made.hwm(0, 10, 12, after_ms=0)
    assert made.findings() == []
    made.hwm(0, 12, 14)
    assert made.properties() == [UNDER]


# --- members of ISR and ELR ----------------------------------------------------------------------------------


def test_the_hwm_moves_above_the_leo_of_a_member(made: Made) -> None:
    made.hwm(0, 10, 15)
    made.leo(0, 1, 15)
    assert made.findings() == [], "no later LEO of broker 2 is known"
    made.leo(0, 2, 9)
    found = made.findings()
    assert [(f.rule, f.property) for f in found] == [("B4", BEHIND)]
    assert "5 offsets, [10, 15)" in found[0].at_risk, "it may have had 10, as recorded before"


def test_the_line_of_a_leo_may_come_after_the_move_that_it_allows(made: Made) -> None:
    made.hwm(0, 10, 15)
    made.leo(0, 1, 15)
    made.leo(0, 2, 15)
    assert made.findings() == []


def test_who_is_not_in_the_isr_may_be_behind(made: Made) -> None:
    made.alter(isr=(0, 1))
    made.isr(0)
    made.hwm(0, 10, 15)
    made.leo(0, 1, 15)
    made.leo(0, 2, 12)
    assert made.findings() == []


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
        assert found[0].at_risk.startswith("1 committed offsets, [9, 10)")


def test_who_is_no_member_may_have_less(made: Made) -> None:
    elect(made, 1, 10, 10, isr=(1, 2))
    made.follows(0, 3)
    assert made.findings() == []


def test_a_leader_without_logs_in_between_may_have_lost_it_already(made: Made) -> None:
    made.alter(leader=7, isr=(7,))
    made.alter(isr=(7, 1))
    made.alter(leader=None, isr=(7, 1))
    made.follows(1, 4)
    assert made.findings() == []


# --- times, files, topics -----------------------------------------------------------------------------------


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
        f"the logs of broker {b} do not say when it leads (state-change.log): little is looked at"
        for b in (0,)
    ]


def test_a_topic_that_was_deleted_is_not_judged(made: Made) -> None:
    elect(made, 2, 5, 3, isr=(2,))
    last = made.changes[-1]
    made.changes.append(type(last)(99, last.time, "t1", 0, last.after, None))
    judged = made.watermarks()
    assert judged.finish() == []
    assert "t1-0 was deleted" in judged.notes[0]


def test_a_partition_that_the_metadata_log_does_not_know(made: Made) -> None:
    elect(made, 2, 5, 3, isr=(2,))
    made.changes.clear()
    found = made.findings()
    assert [f.property for f in found] == [LOST]
    assert found[0].position["file"].endswith("2-state-change.log")


def test_many_moves_need_little_memory() -> None:
    view = BrokerView(0, lambda epoch: (2, 3))
    for i in range(20_000):
        view.take(HwmMoved(Path("x"), i, i, 0, "t1", 0, i, i + 1))
    assert not view.seen
    assert not view.stints


# --- at random ----------------------------------------------------------------------------------------------


def run(folder: Path, seed: int, unclean: bool, steps: int = 150) -> Run:
    found = Run(folder, seed, unclean)
    for _ in range(steps):
        found.step()
    return found


@pytest.mark.parametrize("seed", range(40))
def test_runs_that_keep_the_rules_have_no_finding(tmp_path: Path, seed: int) -> None:
    made = run(tmp_path, seed, unclean=False).made
    judged = made.watermarks()
    assert judged.finish({"t1-0": 1}) == []
    assert judged.figures["HWM moves"] > 0


@pytest.mark.parametrize("seed", range(60))
def test_runs_with_unclean_elections_lose_what_is_found(tmp_path: Path, seed: int) -> None:
    made = run(tmp_path, seed, unclean=True)
    findings = made.made.findings(1)
    assert [lost(f) for f in findings if f.property == LOST] == made.lost
    assert {f.property for f in findings} <= {LOST, READ}


SMALL = st.integers(0, 6)
IDS = st.lists(st.integers(0, 3), max_size=3, unique=True).map(tuple)
PLACE = (st.just(Path("x")) | st.just(Path("y")), SMALL, SMALL, st.integers(0, 2), st.just("t1"), st.just(0))
EVENTS = st.one_of(
    st.builds(events.HwmMoved, *PLACE, SMALL, SMALL),
    st.builds(events.HwmLowered, *PLACE, SMALL, SMALL),
    st.builds(events.LeoRecorded, *PLACE, st.integers(0, 3), SMALL, SMALL),
    st.builds(events.IsrUpdated, *PLACE, IDS, SMALL, st.booleans()),
    st.builds(
        events.IsrShrinking, *PLACE, IDS, IDS, SMALL, SMALL, st.lists(st.tuples(SMALL, SMALL)).map(tuple)
    ),
    st.builds(events.IsrSubmitted, *PLACE, SMALL, SMALL, IDS, IDS, st.none() | SMALL, IDS),
    st.builds(events.BecameLeader, *PLACE, SMALL, SMALL, SMALL, SMALL, IDS, st.booleans()),
    st.builds(events.StillLeader, *PLACE, SMALL, SMALL, SMALL, IDS),
    st.builds(events.BecameFollower, *PLACE, SMALL, SMALL, SMALL, SMALL, st.none() | SMALL),
    st.builds(events.StillFollower, *PLACE, SMALL, SMALL, IDS),
    st.builds(events.FetcherRemoved, *PLACE),
    st.builds(events.Truncating, *PLACE, SMALL, SMALL),
    st.builds(events.InitialHwm, *PLACE, SMALL),
    st.builds(events.LogLoaded, *PLACE, SMALL, SMALL),
    st.builds(events.TopicConfigured, *PLACE, st.none() | st.integers(1, 3)),
)
STATES = st.builds(
    PartitionState,
    replicas=IDS,
    isr=IDS,
    elr=IDS,
    leader=st.none() | SMALL,
    leader_epoch=SMALL,
    partition_epoch=SMALL,
)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.lists(EVENTS, max_size=15), max_size=3),
    st.lists(st.tuples(st.none() | STATES, STATES), max_size=6),
)
def test_whatever_is_said_is_judged(
    sources: list[list[events.BrokerEvent]], states: list[tuple[PartitionState | None, PartitionState]]
) -> None:
    judged = Watermarks(sources)
    for position, (before, after) in enumerate(states):
        judged.change(PartitionChange(position, position, "t1", 0, before, after, None, 2))
    for finding in judged.finish({"t1-0": 2}):
        assert finding.summary
        assert finding.at_risk
        json.dumps(finding.to_json())


# --- recorded clusters ----------------------------------------------------------------------------------------


def judge(scenario: str, paths: list[Path] | None = None) -> tuple[Watermarks, list[Finding]]:
    metadata = Metadata()
    judged = Watermarks([read_broker_log(path) for path in paths or broker_logs(scenario)])
    for change in metadata.changes(scenario):
        judged.change(change)
    return judged, judged.finish(metadata.effective())


def lost(finding: Finding) -> tuple[int, int]:
    match = re.search(r"\[(\d+), (\d+)\), are lost", finding.at_risk)
    assert match is not None
    return int(match[1]), int(match[2])


@needs_clusters
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_losses_are_those_that_were_counted_at_the_end(scenario: str) -> None:
    """The log of each cluster counts records that were acknowledged and that no replica held at the end."""
    counted = json.loads((CLUSTERS / scenario / "losscheck.json").read_text())
    judged, findings = judge(scenario)
    found = {f"t1-{partition}": 0 for partition in counted}
    with (CLUSTERS / scenario / "produce-t1.csv").open(encoding="ascii") as file:
        acknowledged = [row for row in csv.DictReader(file) if row["offset_or_error"].isdigit()]
    for finding in findings:
        if finding.property == LOST:
            low, high = lost(finding)
            assert finding.partition is not None
            assert finding.time is not None
            found[finding.partition] += high - low
            rows = [
                row
                for row in acknowledged
                if f"t1-{row['partition']}" == finding.partition
                and low <= int(row["offset_or_error"]) < high
                and int(row["t_done"]) < finding.time
            ]
            assert len(rows) == high - low, "each of these offsets was acknowledged before"
    assert found == {f"t1-{partition}": count["lost"] for partition, count in counted.items()}
    assert judged.notes == []
    assert judged.figures["HWM moves held against min ISR"] > 0.99 * judged.figures["HWM moves"] > 200
    assert {judged.utc_offset_ms(broker) for broker in judged._brokers} == {0}


EXPECTED = {
    "down-elr-unclean-210": [LOST, READ],
    "down-noelr-unclean-210": [LOST, READ],
    "reassigns-elr": [ELECTABLE, ELECTABLE],
}
"""In reassigns-elr brokers 1 and 3 stay in the ELR though they are no replicas any more and drop their logs (966.9)."""


@needs_clusters
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_is_found_in_recorded_clusters(scenario: str) -> None:
    _, findings = judge(scenario)
    assert [f.property for f in findings] == EXPECTED.get(scenario, [])
    assert all(f.certain and f.at_risk and f.time for f in findings)


@needs_clusters
def test_the_order_of_files_does_not_matter() -> None:
    paths = broker_logs("mixed-elr-2")
    assert judge("mixed-elr-2", paths)[1] == judge("mixed-elr-2", paths[::-1])[1]
    paths = broker_logs("down-elr-unclean-210")
    assert judge("down-elr-unclean-210", paths)[1] == judge("down-elr-unclean-210", paths[::-1])[1]


@needs_clusters
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (rb"(Leader t1-\d .*starts at leader epoch [1-9]\d* from offset )\d{2,}", rb"\g<1>7", LOST),
        (rb"High watermark updated from \(offset=\d\d+,", b"High watermark updated from (offset=3,", BACK),
        (rb"(Recorded replica \d log end offset \(LEO\) position )[1-9]\d*", rb"\g<1>0", BEHIND),
        (rb"(Follower t1-\d starts at leader epoch [1-9]\d* from offset )\d{2,}", rb"\g<1>1", ELECTABLE),
        (rb"(ISR updated to )\d,\d  (and version)", rb"\g<1>1 \g<2>", None),
        (rb"(ISR updated to )\d,\d  (and version)", rb"\g<1>1 (under-min-isr) \g<2>", UNDER),
        (rb"(Out of sync replicas: \(brokerId: \d, endOffset: )\d+", rb"\g<1>1", BEHIND),
    ],
)
def test_recorded_lines_that_are_changed_are_found(
    tmp_path: Path, old: bytes, new: bytes, expected: str | None
) -> None:
    """Every line of a kind is changed in a cluster that has no finding."""
    paths = []
    for path in broker_logs("mixed-elr-1"):
        text = gzip.decompress(path.read_bytes())
        paths.append(tmp_path / f"{path.parent.name}-{path.name}")
        paths[-1].write_bytes(gzip.compress(re.sub(old, new, text), 1))
    found = {f.property for f in judge("mixed-elr-1", paths)[1]}
    assert (expected in found) if expected else not found - {JOINED, BEHIND}
