"""Histories have the same timelines, compactly, as a watch that collects every change."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.kafka.metadata_log import PARTITION
from highwater.traces.metadata.histories import Histories
from highwater.traces.metadata.reporting import Watch
from highwater.traces.replay import replay
from highwater.traces.reports.observed import PartitionChange, SettingInForce
from highwater.traces.reports.report import LIMIT_CHANGES, Report, Timeline
from tests.generation import records, write_log
from tests.slow import all_but
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2
from tests.traces.metadata.made_logs import (
    MIN_ISR,
    TOPICS,
    beginning,
    change,
    default,
    loss,
    partition,
    report_on,
    setting,
    write,
)


def compact(log: Path, keep_deleted: bool = False) -> dict[str, Timeline]:
    """The timelines of all partitions by histories."""
    found = Histories(keep_deleted)
    report_on(log, Watch(histories=found))
    return found.timelines(found.names)


def collected(log: Path) -> tuple[Report, dict[str, Timeline]]:
    """The report, and the timelines of all partitions by a watch that collects every change."""
    found: dict[str, Timeline] = {}

    def change(change: PartitionChange) -> None:
        timeline = found.setdefault(change.name, Timeline(change.name))
        timeline.total += 1
        timeline.changes.append(change)

    def setting(name: str, setting: SettingInForce) -> None:
        found[name].settings.append(setting)

    return report_on(log, Watch([change], [setting])), found


def check_same(log: Path) -> dict[str, Timeline]:
    """Compare both ways. The timelines of the partitions that exist, or have a line in the report."""
    report, every = collected(log)
    assert list(every.items()) == list(compact(log, keep_deleted=True).items())
    mentioned = {*(u.partition for u in report.unexplained), *(f.partition for f in report.findings)}
    found = {n: t for n, t in every.items() if n in mentioned or t.changes[-1].after is not None}
    assert list(found.items()) == list(compact(log).items())
    return found


@needs_clusters_4_2
@pytest.mark.parametrize(
    "name", all_but(NAMES_4_2[::4], NAMES_4_2, "the other recorded clusters; the fast ones have all causes")
)
def test_the_timelines_of_recorded_clusters(name: str) -> None:
    assert check_same(CLUSTERS_4_2 / name / PARTITION)


def test_the_timelines_of_a_generated_log(tmp_path: Path) -> None:
    write_log(tmp_path, partitions=30, records=700, brokers=5, seed=1)
    assert len(check_same(tmp_path)) == 30, "of 84 partitions, 54 are deleted"


def test_the_number_of_changes_and_settings_in_a_timeline_is_bounded(tmp_path: Path) -> None:
    """Only the number of later changes is kept."""
    values = [
        record for n in range(LIMIT_CHANGES + 3)
        for record in (change(0, isr=[0, 1, 2][: 2 + n % 2]), setting(MIN_ISR, str(1 + n % 2)))
    ]  # fmt: skip
    found = compact(write(tmp_path, [*beginning(), *values]))["t-0"]
    assert (len(found.changes), len(found.settings), found.total) == (500, 500, 504)
    assert found.changes[-1].position == found.changes[-2].position + 2


REMOVED = records.removed_topic(TOPICS["t"])
CREATED = records.topic("t", TOPICS["t"])


def test_a_deleted_partition_with_a_finding_is_kept(tmp_path: Path) -> None:
    values = [*loss(), REMOVED, CREATED, partition(0), change(0, isr=[0, 2]), default("1")]
    found = check_same(write(tmp_path, [*beginning(), *values]))["t-0"]
    assert [change.after is None for change in found.changes].count(True) == 1
    assert len(found.settings) == 1


def test_a_partition_that_is_created_again_has_its_own_history(tmp_path: Path) -> None:
    values = [
        change(0, isr=[0, 1]), setting(MIN_ISR, "3"), REMOVED, default("1"),
        CREATED, partition(0), change(0, isr=[0, 2]), default("2"), change(0, isr=[0, 1, 2]),
    ]  # fmt: skip
    log = write(tmp_path, [*beginning(), *values])
    found, full = compact(log)["t-0"], replay(log, timelines=True).timelines["t-0"]
    assert (found.changes, found.settings) == (full.changes[-3:], full.settings[-1:])
    assert (found.total, full.total) == (3, 6)


def test_a_small_log_keeps_deleted_partitions(tmp_path: Path) -> None:
    log = write(tmp_path, [*beginning(), change(0, isr=[0, 1]), REMOVED])
    assert replay(log, timelines=True).timelines["t-0"].changes[-1].after is None
    assert "t-0" not in compact(log)


def test_offsets_and_times_that_are_far_apart(tmp_path: Path) -> None:
    """Their differences do not fit into the entries."""
    folder = write(tmp_path, [*beginning(), change(0, isr=[0, 1])])
    end = 1 << 40
    write(folder, [change(0, isr=[0, 1, 2]), change(0, isr=[0, 1])], base=end)
    found = check_same(folder)["t-0"]
    assert [c.position for c in found.changes[-2:]] == [end, end + 1]
    assert [c.time for c in found.changes[-2:]] == [1000 + end, 1001 + end]
