"""Setting changes in a partition's timeline, with their level and the value in force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.replay import Reading
from highwater.traces.replay import replay
from highwater.traces.reports.observed import SettingChange
from highwater.traces.reports.page import write_page
from highwater.traces.reports.report import LIMIT_CHANGES, Report, Timeline
from tests.traces.metadata.made_logs import beginning, change, default, loss, setting, together, write
from tests.traces.test_page import text_of

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


def test_a_topics_setting_concerns_its_partitions_alone(tmp_path: Path) -> None:
    found = timelines(tmp_path, setting(MIN_ISR, "1", "u"))
    assert [len(found[name].settings) for name in ("t-0", "u-0")] == [0, 1]


def test_the_effective_min_isr_is_at_most_the_replicas(tmp_path: Path) -> None:
    (found,) = timelines(tmp_path, setting(MIN_ISR, "9"))["t-0"].settings
    assert (found.change.value, found.min_isr) == ("9", 3)


def test_the_own_setting_of_a_node_leaves_the_value_in_force_unknown(tmp_path: Path) -> None:
    values = [default("true", UNCLEAN, "7"), default("false", UNCLEAN)]
    found = timelines(tmp_path, *values)["t-0"].settings
    assert [(s.change.level, s.change.resource, s.unclean_election) for s in found] == [
        ("broker", "7", None),
        ("cluster", "", None),
    ]


def test_the_number_of_kept_settings_is_bounded(tmp_path: Path) -> None:
    values = [setting(MIN_ISR, str(1 + i % 2)) for i in range(LIMIT_CHANGES + 5)]
    assert len(timelines(tmp_path, *values)["t-0"].settings) == LIMIT_CHANGES


def test_findings_have_the_settings_in_force_as_facts(tmp_path: Path) -> None:
    log = write(tmp_path, [*beginning(), default("true", UNCLEAN), *loss()])
    (found,) = (f for f in replay(log).findings if f.property == "leader_elected_cleanly")
    facts = found.facts
    assert (facts["min_isr"], facts["unclean_election"], facts["leader_epoch"]) == (2, True, 1)
    assert facts["before"] == {
        "replicas": [0, 1, 2],
        "leader": 0,
        "isr": [0, 1],
        "elr": [],
        "last_known_elr": [],
    }
    assert facts["after"]["leader"] == 2
    change = SettingChange.from_json(facts["settings"][UNCLEAN])
    assert (change.position, change.level, change.before, change.value) == (13, "cluster", None, "true")
    assert change.to_json() == facts["settings"][UNCLEAN]
    assert facts["settings"][MIN_ISR]["level"] == "topic"


def test_the_page_has_the_setting_changes(tmp_path: Path) -> None:
    log = write(tmp_path / "log", [*beginning(), setting(MIN_ISR, "1"), change(0, isr=[0])])
    write_page([replay(log, timelines=True)], tmp_path / "page.html")
    data = json.loads(text_of(tmp_path / "page.html", "script", type="application/json", id="data"))
    rows = {row[0]: row for row in data["reports"][0]["timelines"]}
    assert rows["t-0"][3:] == [[[13, 1013, MIN_ISR, "topic", "t", "2", "1", 1, -1]], [], []]
    assert len(rows["u-0"]) == 3, "nothing is written where there is nothing"


def test_a_finding_knows_the_partition_before_its_own_record(tmp_path: Path) -> None:
    """One decision has two records of the partition."""
    log = write(tmp_path, [*beginning(), *together(*loss())])
    (found,) = (f for f in replay(log).findings if f.property == "leader_elected_cleanly")
    assert found.facts["before"]["isr"] == [0, 1]


def test_a_long_log_has_the_timelines_of_the_partitions_that_the_report_mentions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, inputs = write(tmp_path, [*beginning(), *loss()]), set[str]()
    short = replay(log, timelines=True)
    monkeypatch.setattr("highwater.traces.replay.SMALL", 0)
    long = replay(log, timelines=True, progress=lambda report: inputs.add(report.input))
    assert long.timelines == {"t-0": short.timelines["t-0"]}
    assert inputs == {str(log)}, "it is read once"


SHRUNK, GROWN = change(0, isr=[0]), change(0, isr=[0, 1])


@pytest.mark.parametrize(
    ("more", "counts"),
    [([], True), ([GROWN], False), ([[setting("retention.ms", "5"), GROWN]], False)],
    ids=["small", "grown", "grown in a batch with another record"],
)
def test_a_smaller_min_isr_counts_until_the_isr_is_large_enough_again(
    tmp_path: Path, more: list[bytes | list[bytes]], counts: bool
) -> None:
    """Also if the ISR grows by a cached transition."""
    values = [GROWN, SHRUNK, GROWN, SHRUNK, setting(MIN_ISR, "2"), setting(MIN_ISR, "1"), *more]
    log, report = open_metadata_log(write(tmp_path, [*beginning(min_isr="1"), *values])), Report("", "", "")
    follower = MetadataFollower(report)
    for _ in Reading(log, follower, report).followed():
        pass
    assert not report.unexplained_count
    assert (follower.image.names["t"].partitions[0].resized is not None) == counts
