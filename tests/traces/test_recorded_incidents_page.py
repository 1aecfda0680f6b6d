"""docs/recorded-incidents.md agrees with the replay of each recording."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.incidents import LOST, STUCK
from highwater.traces.reports.report import Report
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2
from tests.traces.watermarks.scenes import lost as lost_offsets

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
