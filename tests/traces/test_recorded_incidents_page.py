"""docs/recorded-incidents.md agrees with the replay of each recording."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.incidents import LOST, STUCK
from highwater.traces.reports.report import Report
from tests.traces.clusters import CLUSTERS
from tests.traces.kafka.made import CLUSTERS_4_2

PAGE = Path(__file__).parents[2] / "docs" / "recorded-incidents.md"
_ROW = re.compile(r"^\| ([\w.-]+) \| [^|]+ \| (\d+|–) \| ([\w–]+) \| (.+?)(?: `\+ (\d+)`)? \|$", re.MULTILINE)
_FINAL = re.compile(r'"what":"final (\S+): leader:-1,')
Row = tuple[int, str | None, str | None, int]


def rows(heading: str) -> dict[str, Row]:
    """By recording of a chapter: records lost, worst severity, first line, number of incidents."""
    chapter = next(c for c in PAGE.read_text(encoding="utf-8").split("\n## ") if c.startswith(heading))
    return {
        name: (int(lost), severity, line, 1 + int(more or 0))
        if lost != "–" and severity != "–"
        else (0, None, None, 0)
        if severity == "–"
        else (0, severity, line, 1 + int(more or 0))
        for name, lost, severity, line, more in _ROW.findall(chapter)
    }


CHAPTERS = {"trunk": (CLUSTERS, rows("apache/kafka trunk")), "4.2": (CLUSTERS_4_2, rows("Kafka 4.2.1"))}
EVERY = [(version, name) for version, (_, found) in CHAPTERS.items() for name in found]


@cache
def replayed(path: Path) -> Report:
    logs = [log for log in sorted(path.glob("logs/node*/*.log.gz")) if log.name[0] in "sc"]
    return replay(path / "__cluster_metadata-0", broker_logs=logs)


def of(version: str, name: str) -> tuple[Path, Report]:
    recordings = CHAPTERS[version][0]
    if not recordings.is_dir():
        pytest.skip(f"{recordings.name}: the recordings are not beside the repository")
    return recordings / name, replayed(recordings / name)


@pytest.mark.parametrize("version", CHAPTERS)
def test_every_recording_has_a_row(version: str) -> None:
    recordings, found = CHAPTERS[version]
    if not recordings.is_dir():
        pytest.skip(f"{recordings.name}: the recordings are not beside the repository")
    assert set(found) == {path.name for path in recordings.iterdir()}


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_the_page_has_what_the_replay_reports(version: str, name: str) -> None:
    _, report = of(version, name)
    first, *_ = [*report.incidents, None]
    lost = sum(i.lost or 0 for i in report.incidents)
    reported = (None, None) if first is None else (first.severity, first.label)
    assert (lost, *reported, len(report.incidents)) == CHAPTERS[version][1][name]


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_losses_are_those_that_a_client_counted(version: str, name: str) -> None:
    path, report = of(version, name)
    counted = json.loads((path / "losscheck.json").read_text(encoding="utf-8"))
    assert sum(i.lost or 0 for i in report.incidents) == sum(one["lost"] for one in counted.values())
    assert all((i.lost is None) == (i.severity != LOST) for i in report.incidents)


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_stuck_partitions_are_those_without_a_leader_before_the_shutdown(version: str, name: str) -> None:
    path, report = of(version, name)
    leaderless = set(_FINAL.findall((path / "events.ndjson").read_text(encoding="utf-8")))
    assert {i.partition for i in report.incidents if i.severity == STUCK} == leaderless


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_no_sentence_of_an_incident_is_long_or_mixes_two_kinds_of_offsets(version: str, name: str) -> None:
    _, report = of(version, name)
    for incident in report.incidents:
        texts = [incident.headline, *incident.cause, *(s.text for s in incident.steps)]
        for sentence in (one for text in texts for one in re.split(r"(?<=[.;:]) ", text)):
            assert len(sentence.split()) <= 30, sentence
            bare = re.findall(r"(?<!metadata )\boffsets? \d", sentence)
            assert not (bare and "metadata offset" in sentence), sentence
