"""The HWM and LEO series of a timeline, and shortened file paths."""

from __future__ import annotations

import json
import random
from itertools import accumulate
from pathlib import Path

import pytest

from highwater.traces.kafka.broker_log import (
    BecameFollower,
    BrokerEvent,
    HwmLowered,
    HwmMoved,
    LeoRecorded,
    Truncating,
)
from highwater.traces.replay import replay
from highwater.traces.reports.observed import HWM, LEO, MAX_POINTS, UNKNOWN, Course, Courses
from highwater.traces.reports.page import write_page
from highwater.traces.reports.text import apart
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2
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


def test_events_without_a_time_in_utc_are_left_out() -> None:
    courses = Courses()
    courses.take(event(LeoRecorded, 120, 0, 1, 7))
    courses.take(event(LeoRecorded, 120, 2, 1, 8))
    assert lines(courses, {0: None, 2: 0}) == {(1, LEO): [(120, 8)]}


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


@pytest.mark.parametrize(
    ("paths", "shown"),
    [
        ([], []),
        (["/a/b/logs/node2/server.log"], ["node2/server.log"]),
        (["/a/logs/node1/server.log", "/a/logs/node2/server.log"], ["node1/server.log", "node2/server.log"]),
        (["/x/a/n1/s.log", "/x/b/n1/s.log"], ["a/n1/s.log", "b/n1/s.log"]),
        (["/n1/s.log", "/n1/t.log"], ["n1/s.log", "n1/t.log"]),
        (["server.log"], ["server.log"]),
        (["/server.log"], ["server.log"]),
    ],
)
def test_paths_are_shortened_to_what_tells_them_apart(paths: list[str], shown: list[str]) -> None:
    assert list(apart(paths).values()) == shown
