"""Inputs in the form of public reports: what replay says of each, where it was wrong before."""

from __future__ import annotations

from dataclasses import replace as changed
from pathlib import Path

import pytest

from highwater.checker.base.problems import Status
from highwater.checker.commands.replay import _status
from highwater.traces.replay import replay
from highwater.traces.reports import advice
from highwater.traces.reports.advice import Replicas
from highwater.traces.reports.findings import Doubt
from highwater.traces.reports.observed import Followers, PartitionState
from highwater.traces.reports.report import Report
from highwater.traces.reports.text import brokers
from tests import recordings
from tests.traces.broker_lines import Made

FIELD = recordings.folder("field")
needs_field = recordings.needs("field")


@needs_field
def test_a_partition_with_one_replica_has_a_report() -> None:
    lost = [(i.partition, i.lost, i.standing) for i in replay(FIELD / "one-replica").incidents if i.lost]
    assert lost == [("two-1", 143, "exact")]


def test_a_partition_with_one_replica_has_nothing_to_compare() -> None:
    (step,) = advice.compare(Replicas("t-0", (1,)), 1)
    assert (step.text, step.commands) == ("No other replica of t-0 has a log to compare with.", ())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "no broker"),
        (1, "broker 0"),
        (3, "brokers 0, 1 and 2"),
        (1000, "brokers 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 989 more"),
    ],
)
def test_a_sentence_lists_any_number_of_brokers(number: int, text: str) -> None:
    assert brokers(range(number)) == text


@needs_field
def test_a_good_copy_is_never_given_up() -> None:
    (found,) = replay(FIELD / "info-only" / "info").incidents
    states = {h.broker: (h.state, h.records, h.standing) for h in found.holders}
    assert states == {0: ("has", 54, "at_least"), 1: ("has", 54, "at_least"), 2: ("lacks", 0, "exact")}
    (found,) = replay(FIELD / "count-too-low").incidents
    assert (found.lost, found.standing) == (54, "at_least")


@needs_field
def test_advice_holds_at_the_end_of_the_input() -> None:
    (found,) = replay(FIELD / "stale-advice").incidents
    assert found.steps[0].text.startswith("Brokers 0 and 1 have joined the ISR since the election")
    assert not any("stop" in command for step in found.steps for command in step.commands)


def test_a_broker_that_is_elected_with_its_own_log_has_not_truncated_it() -> None:
    """Broker 1 joins the ISR of leader 2. Broker 0 still has the lost records: another election makes it the leader."""

    def state(epoch: int, leader: int | None, *isr: int) -> PartitionState:
        return PartitionState((0, 1, 2), isr, (), (), leader, epoch, epoch)

    elected, joined, none = state(4, 2, 2), state(4, 2, 1, 2), state(5, None)
    after = Followers.of(elected).after(elected, joined).after(joined, none)
    assert after == Followers(4, frozenset({1, 2}))
    assert after.after(none, state(6, 1, 1)) == after, "its log is that of leader 2"
    assert after.after(none, state(6, 0, 0)) == Followers(6, frozenset({0}))


@needs_field
@pytest.mark.parametrize("layout", ["compose", "json", "kubectl-timestamps", "strimzi"])
def test_a_layout_gives_the_report_of_the_plain_one(layout: str) -> None:
    plain, (found,) = replay(FIELD / "bundle").incidents, replay(FIELD / "layouts" / layout).incidents
    assert [one.to_json() for one in plain] == [found.to_json()]


@needs_field
def test_a_migration_raises_no_false_alarm() -> None:
    report = replay(FIELD / "zk-migration")
    assert (report.unexplained_count, [d.kind for d in report.doubts]) == (0, ["migration"])


@needs_field
def test_a_dump_without_record_metadata_is_read() -> None:
    report = replay(FIELD / "skip-record-metadata" / "dump-4.2.1-skip.txt")
    assert (report.records, report.changes, report.unexplained_count) == (140, 10, 0)


@needs_field
def test_lines_that_cannot_be_read_are_a_caveat(tmp_path: Path) -> None:
    for path in (FIELD / "info-only" / "info").rglob("*.*"):
        place = tmp_path / path.relative_to(FIELD / "info-only" / "info")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path.read_text().replace("[2026-11", "[26-11"))
    doubts = [d for d in replay(tmp_path).doubts if d.kind == "unread lines"]
    assert [d.summary.partition(": ")[0] for d in doubts] == sorted(map(str, tmp_path.rglob("s*.log")))


def test_a_loss_fails_although_the_input_is_incomplete(tmp_path: Path) -> None:
    cluster = Made(tmp_path)
    cluster.lose()
    report = Report("x", "metadata log", "kafka_4_2", figures={"broker logs": 3})
    for one in cluster.findings():
        report.find(changed(one, reliable=False))
    report.doubts.append(Doubt("missing records", "offsets 3 to 5 are missing", {"offset": 6}))
    assert [_status(report, least) for least in ("any", "lost")] == [Status.VIOLATED] * 2
