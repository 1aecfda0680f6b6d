"""Logs of nodes that are judged apart come to what one replay of all of them says."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.inputs import Input, inputs
from highwater.traces.messages import context
from highwater.traces.messages.nodes import NodeEnds, NodesPart, SharedNode, divided, in_order, join
from highwater.traces.messages.request_replay import joined
from highwater.traces.replay import replay, replay_part
from highwater.traces.reports.report import Report
from tests.generation.laps import laps, write_runs
from tests.generation.requests import write_fetches
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2


def one_input(directory: Path) -> Input:
    (found,) = inputs([directory]).found
    return found


def apart(found: Input, groups: Sequence[Sequence[int]]) -> Report:
    """The report of parts, each of which went through JSON."""
    parts = [replay_part(found, None, {}, numbers, not at) for at, numbers in enumerate(groups)]
    report = joined(found.request_logs, [json.loads(json.dumps(part)) for part in parts])
    report.notes[:0] = found.notes
    return report


def same(report: Report) -> dict[str, Any]:
    return {**report.to_json(), "seconds": 0}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One node tells HWMs that are too high, one gets fetches of lives that never were, and both break off."""
    directory = tmp_path_factory.mktemp("damaged")
    write_runs(directory, 300, partitions=2, known=laps(1, 1))
    for node, name in (("node1", "highWatermark"), ("node4", "replicaEpoch")):
        log = directory / "logs" / node / "kafka-request.log"
        lines = log.read_text("utf-8").splitlines(keepends=True)
        for number in range(5, len(lines), 3):
            lines[number] = re.sub(rf'"{name}":(\d)', rf'"{name}":9\1', lines[number])
        lines[-1] = lines[-1][:200]
        log.write_text("".join(lines), "utf-8")
    return directory


@pytest.mark.parametrize(("count", "limit"), [(1, 1000), (2, 5), (16, 1000)])
def test_parts_come_to_the_whole(
    count: int, limit: int, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not explained, findings and counts, in their order, those over the limit left out."""
    monkeypatch.setattr(context, "LIMIT", limit)
    found = one_input(damaged)
    whole = replay(damaged)
    assert whole.unexplained_count > 10
    assert sum(whole.findings_count.values()) > 5
    assert any("cut off" in note for note in whole.notes)
    groups = divided(in_order(found.request_logs), count)
    assert len(groups) == min(count, len(found.request_logs))
    assert same(apart(found, groups)) == same(whole)
    assert same(apart(found, groups[::-1])) == same(whole)


def test_files_of_a_node_stay_together(tmp_path: Path) -> None:
    """By size the largest first; what names no node stands for itself."""
    files = {"node1/a": 50, "node1/b": 60, "node2/a": 70, "x/a": 30, "y/a": 20}
    for name, size in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    paths = [tmp_path / name for name in files]
    assert divided(paths, 2) == [[0, 1], [2, 3, 4]]
    assert divided(paths, 9) == [[0, 1], [2], [3], [4]]


def test_lines_of_a_node_in_files_of_two_parts_are_noticed(tmp_path: Path) -> None:
    write_fetches(tmp_path, 6)
    log = tmp_path / "logs" / "node1" / "kafka-request.log"
    lines = log.read_text("utf-8").splitlines(keepends=True)
    log.write_text("".join(lines[::2]), "utf-8")
    other = tmp_path / "logs" / "elsewhere"
    other.mkdir()
    (other / "kafka-request.log").write_text("".join(lines[1::2]), "utf-8")
    found = one_input(tmp_path)
    with pytest.raises(SharedNode):
        apart(found, divided(found.request_logs, 9))


@needs_clusters_4_2
def test_a_recorded_cluster_in_parts_says_the_same() -> None:
    found = one_input(CLUSTERS_4_2 / "unclean-requests-elr")
    groups = divided(in_order(found.request_logs), 4)
    assert len(groups) == 4
    assert same(apart(found, groups)) == same(replay(CLUSTERS_4_2 / "unclean-requests-elr"))


def ends(broker: int, place: tuple[int, int], guessed: int) -> NodeEnds:
    told = context.Verdicts(guessed=Counter({"at the end": guessed}), unexplained_count=guessed)
    return NodeEnds(broker, place, told, None, (), 0)


def test_what_was_open_at_the_ends_is_joined_in_the_order_in_which_nodes_came() -> None:
    """And the first cut is that of the file that begins first, whichever part has it."""
    first, second = NodesPart(), NodesPart()
    first.nodes, second.nodes = [ends(2, (1, 1), 1)], [ends(1, (2, 2), 2), ends(3, (0, 0), 4)]
    for part, name, line in ((first, "b", 7), (second, "a", 9)):
        part.counted.lines = 10
        part.counted.cut_off(Path(name), line)
    whole = context.Verdicts(guessed=Counter({"before": 1}))
    found = join(
        whole,
        [context.from_json(context.to_json(part), NodesPart) for part in (first, second)],
        [Path("a"), Path("b")],
    )
    assert [node.broker for node in found.nodes] == [3, 2, 1]
    assert (whole.guessed, whole.unexplained_count) == ({"before": 1, "at the end": 7}, 7)
    assert (found.counted.first_cut, found.counted.cut, found.counted.lines) == ((Path("a"), 9), 2, 20)
