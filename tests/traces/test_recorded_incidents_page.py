"""docs/recorded-incidents.md agrees with the replay of each recording; fewer lines make it less definite."""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.incidents import LOST, STUCK, Incident
from highwater.traces.reports.report import Report
from tests.slow import all_but
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2
from tests.traces.watermarks.test_high_watermark import lost as lost_offsets

PAGE = Path(__file__).parents[2] / "docs" / "recorded-incidents.md"
_ROW = re.compile(r"^\| ([\w.-]+) \| [^|]+ \| (\d+|–) \| ([\w–]+) \| (.+?)(?: `\+ (\d+)`)? \|$", re.MULTILINE)
_FINAL = re.compile(r'"what":"final (\S+): leader:-1,')
Row = tuple[int, str | None, str | None, int]


def rows() -> dict[str, Row]:
    """By recording: records lost, worst severity, first line, number of incidents."""
    return {
        name: (int(lost), severity, line, 1 + int(more or 0))
        if lost != "–" and severity != "–"
        else (0, None, None, 0)
        if severity == "–"
        else (0, severity, line, 1 + int(more or 0))
        for name, lost, severity, line, more in _ROW.findall(PAGE.read_text())
    }


ROWS = rows()
pytestmark = needs_clusters_4_2


@cache
def replayed(path: Path) -> Report:
    logs = [log for log in sorted(path.glob("logs/node*/*.log.gz")) if log.name[0] in "sc"]
    return replay(path / "__cluster_metadata-0", broker_logs=logs)


def of(name: str) -> tuple[Path, Report]:
    return CLUSTERS_4_2 / name, replayed(CLUSTERS_4_2 / name)


def test_every_recording_has_a_row() -> None:
    assert sorted(ROWS) == NAMES_4_2


@pytest.mark.parametrize("name", ROWS)
def test_the_page_has_what_the_replay_reports(name: str) -> None:
    _, report = of(name)
    first, *_ = [*report.incidents, None]
    lost = sum(i.lost or 0 for i in report.incidents)
    reported = (None, None) if first is None else (first.severity, first.label)
    assert (lost, *reported, len(report.incidents)) == ROWS[name]


@pytest.mark.parametrize("name", ROWS)
def test_losses_are_those_that_a_client_counted(name: str) -> None:
    """losscheck.json counts, for each partition, the acknowledged records that no replica held at the end."""
    path, report = of(name)
    counted = json.loads((path / "losscheck.json").read_text())
    lost = Counter[str]()
    for incident in report.incidents:
        assert (incident.lost is None) == (incident.severity != LOST)
        lost[incident.partition or ""] += incident.lost or 0
    assert +lost == Counter({f"t1-{number}": one["lost"] for number, one in counted.items() if one["lost"]})


@pytest.mark.parametrize("name", ROWS)
def test_lost_offsets_were_acknowledged_before_the_election(name: str) -> None:
    path, report = of(name)
    with (path / "produce-t1.csv").open(encoding="ascii") as file:
        acknowledged = [row for row in csv.DictReader(file) if row["offset_or_error"].isdigit()]
    for finding in (f for f in report.findings if f.property == "leader_completeness"):
        low, high = lost_offsets(finding)
        assert finding.time is not None
        before = {
            int(row["offset_or_error"])
            for row in acknowledged
            if f"t1-{row['partition']}" == finding.partition and int(row["t_done"]) < finding.time
        }
        assert before >= set(range(low, high))


@pytest.mark.parametrize("name", ROWS)
def test_stuck_partitions_are_those_without_a_leader_before_the_shutdown(name: str) -> None:
    path, report = of(name)
    leaderless = set(_FINAL.findall((path / "events.ndjson").read_text()))
    assert {i.partition for i in report.incidents if i.severity == STUCK} == leaderless


@pytest.mark.parametrize("name", ROWS)
def test_no_sentence_of_an_incident_is_long_or_mixes_two_kinds_of_offsets(name: str) -> None:
    _, report = of(name)
    for incident in report.incidents:
        texts = [incident.headline, *incident.cause, *(s.text for s in incident.steps)]
        for sentence in (one for text in texts for one in re.split(r"(?<=[.;:]) ", text)):
            assert len(sentence.split()) <= 30, sentence
            bare = re.findall(r"(?<!metadata )\boffsets? \d", sentence)
            assert not (bare and "metadata offset" in sentence), sentence


# --- fewer lines make a report less definite, never different -----------------------------------------


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
