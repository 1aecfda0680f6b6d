"""The recorded raft cluster (three controllers, two brokers) conforms and shows K25."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from functools import cache

import pytest

from highwater.traces.inputs import RAFT_LOG, inputs
from highwater.traces.messages.raft_replay import replay_raft
from highwater.traces.reports.report import Report
from tests.slow import slow
from tests.traces.raft.changes import NODES, RECORDED

pytestmark = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="shared/traces/kafka-4.2/clusters/raft3-elr is not beside the repository"
)
FILES = [RECORDED / f"node{node}" / "raft.log.gz" for node in NODES]


@cache
def replayed() -> Report:
    return replay_raft(FILES)


def test_every_line_is_explained() -> None:
    report = replayed()
    assert report.unexplained == []
    assert report.operations == 5967
    figures = {
        name.removeprefix("explained: "): n for name, n in report.figures.items() if "explained" in name
    }
    told = ("send_fetch", "append", "win", "win_pre_votes", "stand", "drain_nothing", "restart", "learn")
    assert {name: figures[name] for name in told} == {
        "send_fetch": 817, "append": 113, "win": 2, "win_pre_votes": 4, "stand": 11, "drain_nothing": 2,
        "restart": 2, "learn": 8,
    }  # fmt: skip


def test_answers_without_news_are_found() -> None:
    report = replayed()
    assert set(report.findings_count) == {"answers_bring_news"}
    assert {f.rule for f in report.findings} == {"1166.2, 1166.4"}


def test_messages_outside_the_model_are_counted_line_by_line() -> None:
    """The skipped counts equal the recorded lines of other messages, client-made answers and errors."""
    counts: Counter[str] = Counter()
    said = re.compile(
        r"(?:Sent outbound request: |Received inbound message |Sent response )\w+\(.*?\bdata=(\w+)Data\("
    )
    for file in FILES:
        for line in gzip.decompress(file.read_bytes()).decode().splitlines():
            found = said.search(line)
            if found is None:
                continue
            if not found[1].startswith(("Fetch", "Vote", "BeginQuorumEpoch")):
                counts[f"a message that the model has not: {found[1]}"] += 1
            elif "message InboundResponse" in line and re.match(
                r"(throttleTimeMs=0, )?errorCode=8,", line[found.end() :]
            ):
                counts["an answer of the own client: the other could not be reached"] += 1
            elif "message InboundResponse" in line and re.search(
                r"partitionIndex=0, errorCode=[1-9].*high", line
            ):
                counts["an answer that is an error: it tells an epoch and a leader only"] += 1
    assert replayed().skipped == counts
    assert replayed().bytes_total == replayed().bytes_read == sum(file.stat().st_size for file in FILES)


@slow("replays the recording with other rules")
def test_without_empty_drain_completes_the_recording_does_not_conform() -> None:
    report = replay_raft(FILES, rules={"empty_drain_completes": False})
    assert {u.candidates[0].action for u in report.unexplained} == {"complete_parked", "park_timer"}


def test_the_delay_of_commits_is_measured() -> None:
    figures = replayed().figures
    assert 0 < figures["commit, median ms"] < figures["commit, longest ms"]


def test_a_directory_has_the_raft_logs_of_a_cluster_beside_its_metadata_logs() -> None:
    found = [i for i in inputs([RECORDED.parent]).found if i.kind == RAFT_LOG]
    assert [i.path for i in found] == [RECORDED]
    assert sorted(found[0].raft_logs) == sorted(FILES)
