"""Clocks that differ by seconds: the replay corrects a controller's and reports a caveat for a broker's."""

from __future__ import annotations

import gzip
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.report import Report
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2

pytestmark = needs_clusters_4_2
RECORDING = CLUSTERS_4_2 / "requests-elr"


def shifted(directory: Path, node: str, seconds: float) -> Report:
    """Replay a broker's and the controller's log, with the timestamps of ``node`` shifted.

    No reported clock difference may exceed the real one.
    """

    def shift(stamp: re.Match[str]) -> str:
        then = datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S,%f") + timedelta(seconds=seconds)
        return then.strftime("[%Y-%m-%d %H:%M:%S,%f")[:-3] + "]"

    logs = []
    for one in ("node1" if node == "node100" else node, "node100"):
        text = gzip.decompress((RECORDING / "logs" / one / "kafka-request.log.gz").read_bytes()).decode()
        if one == node:
            text = re.sub(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]", shift, text, flags=re.MULTILINE)
        logs.append(directory / one / "kafka-request.log")
        logs[-1].parent.mkdir()
        logs[-1].write_text(text, encoding="utf-8")
    report = replay(RECORDING / "__cluster_metadata-0", broker_logs=logs)
    for doubt in report.doubts:
        (said,) = re.findall(r"by (\d+\.\d) s or more", doubt.summary)
        assert 0 < float(said) <= abs(seconds)
    return report


@pytest.mark.parametrize("seconds", [2, -2])
def test_a_controller_whose_clock_is_off_is_explained(seconds: float, tmp_path: Path) -> None:
    report = shifted(tmp_path, "node100", seconds)
    assert report.unexplained_count == 0, report.unexplained[:3]
    assert not report.doubts
    (note,) = (n for n in report.notes if "clock" in n)
    assert f"is {seconds}." in note or f"is {seconds + 1}.9" in note


def test_a_broker_whose_clock_is_behind_is_a_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines that do not conform are unreliable, and so are those that the report only counts."""
    monkeypatch.setattr("highwater.traces.reports.report.LIMIT", 1)
    report = shifted(tmp_path, "node1", -2)
    (doubt,) = report.doubts
    assert doubt.kind == "clocks"
    assert "broker 1 is behind" in doubt.summary
    assert report.unexplained_count > len(report.unexplained) == 1
    assert not report.unexplained[0].reliable
    assert report.unreliable_count == report.unexplained_count


def test_a_broker_whose_clock_is_ahead_can_look_like_a_late_one(tmp_path: Path) -> None:
    """No caveat names the clock, but four refused writes do not conform."""
    report = shifted(tmp_path, "node1", 2)
    assert [c.action for u in report.unexplained for c in u.candidates] == ["write refused"] * 4
    assert not report.doubts


def test_a_broker_whose_clock_is_ahead_is_a_doubt_if_it_answers_in_ended_epochs(
    tmp_path: Path,
) -> None:
    report = shifted(tmp_path, "node2", 2)
    (doubt,) = report.doubts
    assert doubt.kind == "clocks"
    assert "broker 2 is ahead of that of the metadata log" in doubt.summary
    assert "after it reported that it knows the next ones" in doubt.summary
    (own,) = {f.position["file"] for f in report.findings if "line" in f.position}
    assert own.endswith("node2/kafka-request.log")
    assert not any(f.reliable for f in report.findings if "line" in f.position)


@pytest.mark.parametrize(("seconds", "told"), [(2, True), (0, False)])
def test_a_broker_ahead_is_a_doubt_if_its_proposals_come_before_the_fetches(
    seconds: float, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.RECORDING", CLUSTERS_4_2 / "unclean-requests-elr")
    summaries = [doubt.summary for doubt in shifted(tmp_path, "node0", seconds).doubts]
    assert [
        "came before the fetches that make the new members eligible" in summary for summary in summaries
    ] == [True] * told
