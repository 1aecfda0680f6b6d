"""The recorded clusters' request logs conform and break no promise."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.report import Report
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2

pytestmark = needs_clusters_4_2

EXPLAINED = {
    "send_fetch": (1735, 2814, 3010, 562),
    "answer_fetch": (1883, 2736, 3395, 527),
    "answer_fetch where logs diverge": (1, 1, 3, 4),
    "refuse_fetch": (10, 7, 12, 0),
    "take_fetch_answer": (1874, 2715, 3366, 525),
    "write_acks_all": (1436, 1290, 1916, 341),
    "acknowledge": (1437, 1286, 1916, 339),
    "write refused": (24, 284, 99, 38),
    "propose_expand or propose_shrink": (22, 36, 34, 8),
    "handle_alter_partition": (27, 37, 36, 8),
    "start_broker": (10, 6, 12, 7),
}
"""By action: the number of messages that it explains in each recording of NAMES."""
NAMES = ("requests-elr", "mixed-requests-elr-4", "mixed-requests-elr-6", "unclean-requests-elr")


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    return {}


def report_of(name: str, reports: dict[str, Report]) -> Report:
    if name not in reports:
        below = CLUSTERS_4_2 / name
        logs = sorted(below.glob("logs/*/kafka-request.log.gz"))
        reports[name] = replay(below / "__cluster_metadata-0", broker_logs=logs)
    return reports[name]


@pytest.mark.parametrize("name", NAMES)
def test_every_message_is_explained(name: str, reports: dict[str, Report]) -> None:
    """These clusters lost records by elections only, so no promise about messages is broken."""
    report = report_of(name, reports)
    assert report.unexplained_count == 0, report.unexplained[:3]
    assert [f for f in report.findings if "line" in f.position] == []
    column = NAMES.index(name)
    assert {
        action: report.figures[f"messages explained: {action}"]
        for action in EXPLAINED
        if EXPLAINED[action][column]
    } == {action: counts[column] for action, counts in EXPLAINED.items() if counts[column]}


@pytest.mark.parametrize("name", NAMES)
def test_little_is_guessed(name: str, reports: dict[str, Report]) -> None:
    """The replay guesses fewer than 1 % as many messages as it explains."""
    figures = report_of(name, reports).figures
    assert 0 < figures["messages guessed"] < figures["messages explained"] / 100


def test_logs_of_some_nodes_are_enough(reports: dict[str, Report]) -> None:
    """A broker's log conforms without the controller's; the replay guesses what is missing."""
    below = CLUSTERS_4_2 / "mixed-requests-elr-4"
    logs = [below / "logs" / "node0" / "kafka-request.log.gz"]
    report = replay(below / "__cluster_metadata-0", broker_logs=logs)
    assert report.unexplained_count == 0, report.unexplained[:3]
    assert report.figures["messages explained: answer_fetch"] > 1000
    assert report.figures.get("messages explained: handle_alter_partition", 0) == 0


def test_a_copy_of_a_log_is_read_once(tmp_path: Path) -> None:
    """Of a rotated log the input can have an older, shorter copy, or the same lines plain and compressed."""
    below = CLUSTERS_4_2 / "unclean-requests-elr"
    logs = sorted(below.glob("logs/*/kafka-request.log.gz"))
    lines = gzip.decompress(logs[0].read_bytes())
    copies = [tmp_path / "node0" / "plain.log", tmp_path / "node0" / "older.log"]
    copies[0].parent.mkdir()
    copies[0].write_bytes(lines)
    copies[1].write_bytes(lines[: len(lines) // 2])
    report = replay(below / "__cluster_metadata-0", broker_logs=[copies[1], *logs, copies[0]])
    assert report.unexplained_count == 0, report.unexplained[:3]
    assert sum("has the same lines" in note for note in report.notes) == 2
    assert report.figures["request log lines"] == 2283


@pytest.mark.parametrize("skipped", [500, 2000])
def test_a_window_of_a_log_is_explained(skipped: int, tmp_path: Path) -> None:
    """The log begins in the middle of fetch sessions and leader epochs."""
    below = CLUSTERS_4_2 / "mixed-requests-elr-4"
    text = gzip.decompress((below / "logs" / "node0" / "kafka-request.log.gz").read_bytes()).splitlines(
        keepends=True
    )
    window = tmp_path / "node0" / "kafka-request.log"
    window.parent.mkdir()
    window.write_bytes(b"".join(text[skipped:]))
    controller = below / "logs" / "node100" / "kafka-request.log.gz"
    report = replay(below / "__cluster_metadata-0", broker_logs=[window, controller])
    assert report.unexplained_count == 0, report.unexplained[:3]
    assert [f for f in report.findings if "line" in f.position] == []


def test_files_that_were_rolled_are_read_in_their_order(tmp_path: Path) -> None:
    """Kafka rolls the file hourly; in name order, the newest comes first."""
    below = CLUSTERS_4_2 / "requests-elr"
    text = gzip.decompress((below / "logs" / "node1" / "kafka-request.log.gz").read_bytes()).splitlines(
        keepends=True
    )
    newest, older = (
        tmp_path / "node1" / "kafka-request.log",
        tmp_path / "node1" / "kafka-request.log.2026-11-21-23",
    )
    newest.parent.mkdir()
    newest.write_bytes(b"".join(text[700:]))
    older.write_bytes(b"".join(text[:700]))
    controller = below / "logs" / "node100" / "kafka-request.log.gz"
    figures = []
    for logs in (
        [newest, older, controller],
        [below / "logs" / "node1" / "kafka-request.log.gz", controller],
    ):
        report = replay(below / "__cluster_metadata-0", broker_logs=logs)
        assert report.unexplained_count == 0, report.unexplained[:3]
        figures.append(
            {name: n for name, n in report.figures.items() if name.startswith("messages explained")}
        )
    assert figures[0] == figures[1]


def test_nodes_can_be_in_one_file(tmp_path: Path) -> None:
    """One file has all nodes' lines in time order; the listener address names the node of each."""
    below = CLUSTERS_4_2 / "requests-elr"
    lines: list[bytes] = []
    for log in sorted(below.glob("logs/*/kafka-request.log.gz")):
        lines += bytes(gzip.decompress(log.read_bytes())).splitlines(keepends=True)
    together = tmp_path / "kafka-request.log"
    together.write_bytes(b"".join(sorted(lines, key=lambda line: bytes(line)[:24])))
    report = replay(below / "__cluster_metadata-0", broker_logs=[together])
    assert report.unexplained_count == 0, report.unexplained[:3]
    assert [f for f in report.findings if "line" in f.position] == []
    assert report.figures["messages explained: answer_fetch"] == EXPLAINED["answer_fetch"][0]
