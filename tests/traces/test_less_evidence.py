"""Fewer lines make a report less definite, never different: a bound is never told as a fact.

The losses of the recorded clusters, reported from all lines, are held against reports from INFO lines alone, from logs
that end soon after the election, and from logs that lack lines at random.
"""

from __future__ import annotations

import gzip
import random
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.incidents import Incident
from tests.slow import all_but
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2

pytestmark = needs_clusters_4_2

LINE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] (\w+) ")
RECORD = re.compile(r"baseOffset: .* CreateTime: (\d+) ")
NAMES = sorted(path.name for path in CLUSTERS_4_2.glob("*")) if CLUSTERS_4_2.is_dir() else []
Logs = dict[str, list[tuple[int, str, str]]]
"""By file: each line with its time in ms since the epoch and its level."""


@cache
def logs(cluster: str) -> Logs:
    found: Logs = {}
    for path in sorted((CLUSTERS_4_2 / cluster / "logs").glob("node[0-9]/s*.log.gz")):
        time, level, lines = 0, "", []
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            if head := LINE.match(line):
                moment = datetime.strptime(head[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
                time, level = int(moment.timestamp() * 1000), head[2]
            lines.append((time, level, line))
        found[f"{path.parent.name}/{path.stem}"] = lines
    return found


@cache
def metadata(cluster: str) -> list[tuple[int, str, str]]:
    (dump,) = (CLUSTERS_4_2 / cluster).glob("dump-*.log.txt.gz")
    time, lines = 0, []
    for line in gzip.decompress(dump.read_bytes()).decode().splitlines():
        time = int(found[1]) if (found := RECORD.match(line)) else time
        lines.append((time, "", line))
    return lines


def losses(folder: Path, cluster: str, brokers: Logs, until: float = float("inf")) -> dict[str, Incident]:
    """The losses in a report on these lines up to a time, by partition and leader epoch."""
    for name, lines in {"dump.txt": metadata(cluster), **brokers}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for time, _, line in lines if time <= until))
    report = replay(folder)
    assert report.unexplained_count == 0
    return {f"{i.partition} {i.leader_epoch}": i for i in report.incidents if i.severity == "lost"}


def compare(less: dict[str, Incident], whole: dict[str, Incident]) -> None:
    for name, found in less.items():
        true = whole[name]
        assert found.lost is not None
        assert true.lost is not None
        if found.standing == "exact":
            assert (found.lost, found.first_lost) == (true.lost, true.first_lost)
        else:
            assert found.standing == "at_least"
            assert found.lost <= true.lost
        known = {holder.broker: holder for holder in true.holders}
        for holder in found.holders:
            its = known[holder.broker]
            if holder.state == "lacks":
                assert its.records == 0, f"{name}: broker {holder.broker} has {its.records} of the records"
            assert holder.records <= max(its.records, its.records if its.state == "lacks" else true.lost)
            if holder.state == "truncated":
                assert its.state in ("truncated", "lacks")


@pytest.mark.parametrize(
    "cluster", all_but(("down-elr-unclean-210", "mixed-elr-1"), NAMES, "every recorded cluster")
)
def test_less_evidence_never_contradicts_more(cluster: str, tmp_path: Path) -> None:
    brokers = logs(cluster)
    whole = losses(tmp_path / "whole", cluster, brokers)
    informed = {
        name: [line for line in lines if line[1] not in ("DEBUG", "TRACE")] for name, lines in brokers.items()
    }
    compare(losses(tmp_path / "info", cluster, informed), whole)
    for number, lost in enumerate(whole.values()):
        assert lost.time is not None
        for step in range(10):
            until = lost.time + 2 ** (step + 6)  # 64 ms to 32 s
            folder = tmp_path / f"{number}-{step}"
            compare(losses(folder / "all", cluster, brokers, until), whole)
            compare(losses(folder / "info", cluster, informed, until), whole)
    chance = random.Random(cluster)
    for number in range(10):
        share = chance.random()
        fewer = {name: [line for line in lines if chance.random() < share] for name, lines in brokers.items()}
        compare(losses(tmp_path / f"fewer-{number}", cluster, fewer), whole)
