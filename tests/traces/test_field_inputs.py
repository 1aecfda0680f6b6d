"""Inputs in the form of public reports: fewer lines, other layouts and old tools raise no false alarm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.incidents import Incident
from highwater.traces.reports.observed import Followers, PartitionState
from tests import recordings

FIELD = recordings.folder("field")
pytestmark = recordings.needs("field")


def holders(found: Incident) -> dict[int, tuple[str, int, str]]:
    return {one.broker: (one.state, one.records, one.standing) for one in found.holders}


@pytest.mark.parametrize(
    ("place", "partition", "lost", "standing", "held"),
    [
        ("one-replica", "two-1", 143, "exact", None),
        ("count-too-low", "t1-0", 54, "at_least", None),
        # A good copy is never given up.
        ("info-only/info", "t1-0", 54, "at_least",
         {0: ("has", 54, "at_least"), 1: ("has", 54, "at_least"), 2: ("lacks", 0, "exact")}),
    ],
)  # fmt: skip
def test_a_loss(place: str, partition: str, lost: int, standing: str, held: Any) -> None:
    (found,) = [one for one in replay(FIELD / place).incidents if one.lost]
    assert (found.partition, found.lost, found.standing) == (partition, lost, standing)
    assert held is None or holders(found) == held


@pytest.mark.parametrize("layout", ["compose", "json", "kubectl-timestamps", "strimzi"])
def test_a_layout_gives_the_report_of_the_plain_one(layout: str) -> None:
    plain, (found,) = replay(FIELD / "bundle").incidents, replay(FIELD / "layouts" / layout).incidents
    assert [one.to_json() for one in plain] == [found.to_json()]


@pytest.mark.parametrize(
    ("place", "doubts", "changes"),
    [("zk-migration", ["migration"], None), ("skip-record-metadata/dump-4.2.1-skip.txt", [], 10)],
)
def test_there_is_no_false_alarm(place: str, doubts: list[str], changes: int | None) -> None:
    report = replay(FIELD / place)
    assert (report.unexplained_count, [d.kind for d in report.doubts]) == (0, doubts)
    assert changes in (None, report.changes)


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


def test_lines_that_cannot_be_read_are_a_caveat(tmp_path: Path) -> None:
    for path in (FIELD / "info-only" / "info").rglob("*.*"):
        place = tmp_path / path.relative_to(FIELD / "info-only" / "info")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path.read_text().replace("[2026-11", "[26-11"))
    doubts = [d for d in replay(tmp_path).doubts if d.kind == "unread lines"]
    assert [d.summary.partition(": ")[0] for d in doubts] == sorted(map(str, tmp_path.rglob("s*.log")))
