"""The timeline of a partition: HWM and LEO series, changes of settings with their level, and shortened paths."""

from __future__ import annotations

import json
import random
from itertools import accumulate
from pathlib import Path
from typing import Any

from highwater.traces.kafka.broker_log import (
    BecameFollower,
    BrokerEvent,
    HwmLowered,
    HwmMoved,
    LeoRecorded,
    Truncating,
)
from highwater.traces.replay import SMALL, replay
from highwater.traces.reports.observed import HWM, LEO, MAX_POINTS, UNKNOWN, Course, Courses
from highwater.traces.reports.page import write_page
from highwater.traces.reports.report import LIMIT_CHANGES, Timeline
from tests.generation import records
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2
from tests.traces.metadata.made_logs import (
    TOPICS,
    beginning,
    change,
    default,
    loss,
    partition,
    setting,
    together,
    write,
)
from tests.traces.test_page import text_of


def event(kind: type, time: int, broker: int, *rest: object) -> BrokerEvent:
    made: BrokerEvent = kind(Path("server.log"), 1, time, broker, "t", 0, *rest)
    return made


def lines(courses: Courses, ahead: dict[int, int | None]) -> dict[tuple[int, str], list[tuple[int, int]]]:
    return {(c.broker, c.kind): c.points for c in courses.of("t-0", lambda broker: ahead[broker])}


def test_events_give_the_hwm_and_leo_of_brokers() -> None:
    courses = Courses()
    courses.take(event(HwmMoved, 110, 0, 3, 5))
    courses.take(event(LeoRecorded, 120, 0, 1, 7))
    courses.take(event(BecameFollower, 230, 1, 4, 6, 9, 2, 0))
    courses.take(event(Truncating, 240, 1, 0, 3))
    assert lines(courses, {0: 100, 1: 200}) == {
        (0, HWM): [(10, 5)],
        (0, LEO): [(10, 5)],
        (1, LEO): [(20, 7), (30, 6), (40, 3)],
    }


def test_a_follower_s_hwm_is_not_known_until_it_leads() -> None:
    """Kafka logs no HWM moves of followers, so the value logged when following starts is soon outdated."""
    courses = Courses()
    courses.take(event(HwmMoved, 10, 0, 3, 5))
    courses.take(event(BecameFollower, 20, 0, 4, 6, 9, 5, 0))
    courses.take(event(HwmLowered, 30, 0, 5, 4))
    courses.take(event(HwmMoved, 40, 0, 8, 9))
    assert lines(courses, {0: 0})[0, HWM] == [(10, 5), (20, UNKNOWN), (40, 9)]


def test_a_long_line_is_thinned_and_keeps_its_ends_and_falls() -> None:
    course, rng, offset = Course(0, HWM), random.Random(1), 0
    falls = []
    for time in range(20_000):
        if time in (7000, 13_000):
            falls.append((offset, offset - 50))
            offset -= 50
        offset += rng.randint(0, 3)
        course.add(time, offset)
    assert len(course.points) <= MAX_POINTS + 1
    assert course.points[0][0] == 0
    assert course.points[-1][0] > 19_800
    steps = list(zip(course.points, course.points[1:], strict=False))
    assert all(a[0] <= b[0] for a, b in steps)
    assert sum(b[1] < a[1] for a, b in steps) == len(falls) == 2


@needs_clusters_4_2
def test_a_recorded_cluster(tmp_path: Path) -> None:
    cluster = CLUSTERS_4_2 / "down-elr-unclean-210"
    logs = sorted(cluster.glob("logs/node*/*.log.gz"))
    report = replay(cluster / "__cluster_metadata-0", broker_logs=logs, timelines=True)
    timeline = report.timelines["t1-0"]
    election = next(c.time for c in timeline.changes if c.position == 78)
    at = {
        (c.broker, c.kind): max(p for p in c.points if p[0] <= election)[1]
        for c in timeline.courses
        if c.points[0][0] <= election
    }
    assert {b: at[b, LEO] for b in (0, 1)} == {0: 91, 1: 90}, "before the election of broker 2, which had 36"
    assert at.get((1, HWM), UNKNOWN) == UNKNOWN, "its last line about its HWM is of its start, 16 s before"
    write_page([report], tmp_path / "page.html")
    data = json.loads(text_of(tmp_path / "page.html", "script", type="application/json", id="data"))
    (row,) = data["reports"][0]["timelines"]
    assert {(broker, 1) for broker in range(3)} <= {(broker, kind) for broker, kind, _ in row[4]}
    for course, (_, _, flat) in zip(timeline.courses, row[4], strict=True):
        assert list(zip(accumulate(flat[::2]), accumulate(flat[1::2]), strict=True)) == course.points
    assert replay(cluster / "__cluster_metadata-0", broker_logs=logs).timelines == {}


# --- setting changes ----------------------------------------------------------------------------------


REMOVED = records.removed_topic(TOPICS["t"])
UNCLEAN, MIN_ISR = "unclean.leader.election.enable", "min.insync.replicas"


def timelines(folder: Path, *values: Any, **options: Any) -> dict[str, Timeline]:
    return replay(write(folder, [*beginning(), *values]), timelines=True, **options).timelines


def test_each_change_of_a_setting_with_what_is_in_force_then(tmp_path: Path) -> None:
    values = [
        setting(MIN_ISR, "3"), default("1"), default("true", UNCLEAN), setting(UNCLEAN, "false"),
        setting(UNCLEAN, None), setting(MIN_ISR, None), setting("retention.ms", "5"), change(0, isr=[0, 1]),
    ]  # fmt: skip
    found = timelines(tmp_path, *values)["t-0"]
    said = [
        (s.change.position, s.change.level, s.change.before, s.change.value, s.min_isr, s.unclean_election)
        for s in found.settings
    ]
    assert said == [
        (13, "topic", "2", "3", 3, None),
        (14, "cluster", None, "1", 3, None),
        (15, "cluster", None, "true", 3, True),
        (16, "topic", None, "false", 3, False),
        (17, "topic", "false", None, 3, True),
        (18, "topic", "3", None, 1, True),
    ]
    assert [s.change.time for s in found.settings] == [1000 + row[0] for row in said]
    assert found.settings[0].change.resource == "t"
    assert (found.changes[-1].min_isr, found.changes[-1].unclean_election) == (1, True)


def test_a_setting_concerns_its_topic_and_min_isr_is_at_most_the_replicas(tmp_path: Path) -> None:
    found = timelines(tmp_path, setting(MIN_ISR, "9"))
    ((one,), none) = found["t-0"].settings, found["u-0"].settings
    assert (one.change.value, one.min_isr, none) == ("9", 3, [])


def test_the_own_setting_of_a_node_leaves_the_value_in_force_unknown(tmp_path: Path) -> None:
    values = [default("true", UNCLEAN, "7"), default("false", UNCLEAN)]
    found = timelines(tmp_path, *values)["t-0"].settings
    assert [(s.change.level, s.change.resource, s.unclean_election) for s in found] == [
        ("broker", "7", None),
        ("cluster", "", None),
    ]


def test_a_finding_knows_the_partition_before_its_own_record(tmp_path: Path) -> None:
    """One decision has two records of the partition."""
    log = write(tmp_path, [*beginning(), *together(*loss())])
    (found,) = (f for f in replay(log).findings if f.property == "leader_elected_cleanly")
    assert found.facts["before"]["isr"] == [0, 1]


def test_a_large_log_has_the_timelines_of_the_partitions_that_the_report_mentions(tmp_path: Path) -> None:
    """The topic is deleted and created again: its timeline has both incarnations."""
    again = [REMOVED, records.topic("t", TOPICS["t"]), partition(0), change(0, isr=[0, 2]), default("1")]
    log = write(tmp_path, [*beginning(), *loss(), *again])
    small = replay(log, timelines=True).timelines
    assert [change.after is None for change in small["t-0"].changes].count(True) == 1
    fill = [setting("retention.ms", "5" * (1 << 20), "u")] * (1 + (SMALL >> 20))
    large = replay(write(log, [*beginning(), *loss(), *again, *fill]), timelines=True).timelines
    assert (set(small), large) == ({"t-0", "u-0"}, {"t-0": small["t-0"]})


def test_the_number_of_changes_and_settings_in_a_timeline_is_bounded(tmp_path: Path) -> None:
    """Only the number of later changes is kept."""
    values = [
        record for n in range(LIMIT_CHANGES + 3)
        for record in (change(0, isr=[0, 1, 2][: 2 + n % 2]), setting(MIN_ISR, str(1 + n % 2)))
    ]  # fmt: skip
    found = timelines(tmp_path, *values)["t-0"]
    assert (len(found.changes), len(found.settings), found.total) == (500, 500, 504)


def test_the_settings_and_epochs_of_a_topic_that_is_created_again_are_its_own(tmp_path: Path) -> None:
    values = [
        change(0, isr=[0, 1]), setting(MIN_ISR, "3"), REMOVED, default("1"),
        records.topic("t", TOPICS["t"]), partition(0), change(0, isr=[0, 2]), default("2"), change(0, isr=[0, 1, 2]),
    ]  # fmt: skip
    found = timelines(tmp_path, *values)["t-0"]
    assert [s.change.value for s in found.settings] == ["3", "2"]
    created = found.changes[3]
    assert (created.before, created.cause, created.min_isr) == (None, "create", 1)
    assert [c.state.partition_epoch for c in found.changes[3:]] == [0, 1, 2]
