"""The page of recorded incidents: each first sentence is what the replay says, each loss what was counted then."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from tests.slow import slow
from tests.traces.clusters import CLUSTERS
from tests.traces.kafka.made import CLUSTERS_4_2

PAGE = Path(__file__).parents[2] / "docs" / "recorded-incidents.md"
_ROW = re.compile(r"^\| ([\w.-]+) \| [^|]+ \| (\d+|–) \| (.+?)(?: `\+ (\d+)`)? \|$", re.M)
Row = tuple[int, str | None, int]


def rows(heading: str) -> dict[str, Row]:
    """Of each recording of a chapter: what was lost, the first sentence (None for none), and how many there are."""
    chapter = next(c for c in PAGE.read_text(encoding="utf-8").split("\n## ") if c.startswith(heading))
    return {
        name: (int(lost) if lost != "–" else 0, None if said == "–" else said, (said != "–") + int(more or 0))
        for name, lost, said, more in _ROW.findall(chapter)
    }


CHAPTERS = {"trunk": (CLUSTERS, rows("apache/kafka trunk")), "4.2": (CLUSTERS_4_2, rows("Kafka 4.2.1"))}
EVERY = [(version, name) for version, (_, found) in CHAPTERS.items() for name in found]


@pytest.mark.parametrize("version", CHAPTERS)
def test_sentences_are_those_that_are_held_word_for_word(version: str) -> None:
    """The fast counterpart: these the tests of incidents hold against the recordings."""
    held = tomllib.loads(Path(__file__).with_name("incidents.toml").read_text(encoding="utf-8"))[version]
    for name, known in held.items():
        sentences = [incident["sentence"] for incident in known["incident"]]
        _, said, count = CHAPTERS[version][1][name]
        assert (said, count) == (sentences[0] if sentences else None, len(sentences)), name


@pytest.mark.parametrize("version", CHAPTERS)
def test_every_recording_has_a_row_and_its_loss(version: str) -> None:
    recordings, found = CHAPTERS[version]
    if not recordings.is_dir():
        pytest.skip(f"{recordings.name}: the recordings are not beside the repository")
    assert set(found) == {path.name for path in recordings.iterdir()}
    for name, (lost, _, _) in found.items():
        counted = json.loads((recordings / name / "losscheck.json").read_text(encoding="utf-8"))
        assert lost == sum(partition["lost"] for partition in counted.values()), name


@slow("replays all 36 recordings; the fast tests of incidents replay a dozen of them")
@pytest.mark.parametrize(("version", "name"), EVERY)
def test_what_the_replay_says_is_on_the_page(version: str, name: str) -> None:
    recordings, found = CHAPTERS[version]
    if not recordings.is_dir():
        pytest.skip(f"{recordings.name}: the recordings are not beside the repository")
    path = recordings / name
    logs = [log for log in sorted(path.glob("logs/node*/*.log.gz")) if log.name != "raft.log.gz"]
    incidents = replay(path / "__cluster_metadata-0", broker_logs=logs).incidents
    said = (incidents[0].sentence if incidents else None, len(incidents))
    assert said == found[name][1:]
    assert sum(incident.lost or 0 for incident in incidents) == found[name][0]
