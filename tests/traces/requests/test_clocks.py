"""Clocks that differ by seconds: what the replay reports is then unreliable."""

from __future__ import annotations

import gzip
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from highwater.traces.messages.context import Clocks
from highwater.traces.replay import replay
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.report import Report
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2

pytestmark = needs_clusters_4_2
RECORDING = CLUSTERS_4_2 / "requests-elr"


def shifted(directory: Path, node: str, seconds: float) -> Report:
    """Replay a broker's and the controller's log, with the timestamps of ``node`` shifted."""

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
        logs[-1].write_text(text)
    return replay(RECORDING / "__cluster_metadata-0", broker_logs=logs)


@pytest.mark.parametrize(
    ("node", "seconds"), [("node1", 2), ("node1", -2), ("node2", -2), ("node100", 2), ("node100", -2)]
)
def test_a_clock_that_is_off_is_a_doubt(
    node: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is reported about request logs is unreliable, and so is what the report only counts."""
    monkeypatch.setattr("highwater.traces.reports.report.LIMIT", 1)
    report = shifted(tmp_path, node, seconds)
    (doubt,) = report.doubts
    (said,) = re.findall(r"clocks differ .*/(node\d+)/kafka-request.log by ([-+]\d)", doubt.summary)
    assert (doubt.kind, said[0], said[1][0]) == ("clocks", node, f"{seconds:+}"[0])
    shown: list[Unexplained | Finding] = [*report.unexplained, *report.findings]
    shown = [one for one in shown if "line" in one.position]
    assert shown
    assert not any(one.reliable for one in shown)
    of_metadata = sum("line" not in one.position for one in report.findings)
    counted = report.unexplained_count + sum(report.findings_count.values())
    assert report.unreliable_count == counted - of_metadata > len(shown)


def test_clocks_that_agree_are_no_doubt(tmp_path: Path) -> None:
    report = shifted(tmp_path, "node1", 0)
    assert (report.doubts, report.unexplained) == ([], [])


def test_one_wrong_epoch_does_not_make_a_clock_wrong() -> None:
    clocks = Clocks()
    for ahead_ms in (-9000, 20, 30, 40_000):
        clocks.add(Path("one.log"), ahead_ms)
    assert clocks.doubt() is None
    clocks.add(Path("one.log"), -9000)
    doubt = clocks.doubt()
    assert doubt is not None
    assert "one.log by -9.0 s" in doubt.summary
