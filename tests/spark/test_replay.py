"""Replay on Spark: reports equal the embedded engine's; errors; kills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.inputs import inputs
from tests.command import Run
from tests.generation import write_log
from tests.spark.conftest import MASTER
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2
from tests.traces.test_inputs import run


def on_spark(*arguments: object) -> Run:
    return run(*arguments, "--engine", "spark", "--spark-master", MASTER)


def reports(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text())
    for report in found:
        report["seconds"] = 0
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with findings."""
    folder = tmp_path_factory.mktemp("log")
    write_log(folder, partitions=20, records=500, brokers=5, seed=3)
    return folder


@pytest.mark.usefixtures("_spark")
@needs_clusters_4_2
def test_many_inputs(tmp_path: Path) -> None:
    names = [CLUSTERS_4_2 / name for name in ("down-elr-unclean-210", "restarts-elr")]
    ours, theirs = tmp_path / "spark.json", tmp_path / "embedded.json"
    assert on_spark(*names, "--quiet", "--json", ours).status == 1
    run(*names, "--quiet", "--json", theirs)
    assert len(reports(ours)) == 2
    assert reports(ours) == reports(theirs)


@pytest.mark.usefixtures("_spark")
def test_a_damaged_log_is_replayed_up_to_the_damage(log: Path, tmp_path: Path) -> None:
    (segment,) = log.glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / segment.name).write_bytes(data)
    expected = run(tmp_path)
    found = on_spark(tmp_path)
    assert (found.status, found.err) == (expected.status, expected.err)
    assert found.status == 2
    assert segment.name in found.err
    assert "DAMAGED INPUT: " in found.output


def test_options_that_belong_together(tmp_path: Path) -> None:
    assert "an option of --engine spark" in run(tmp_path, "--spark-master", MASTER).err
    assert "only the embedded engine" in run(tmp_path, "--engine", "spark", "--html", tmp_path / "p").err


@pytest.mark.usefixtures("_spark")
def test_a_profile_that_does_not_exist(log: Path) -> None:
    found = on_spark(log, "--profile", "kafka")
    assert found.status == 2
    assert "unknown profile of replication.controller 'kafka'" in found.err


@pytest.mark.usefixtures("_spark")
def test_interrupted(log: Path) -> None:
    from highwater.checker.engines.spark.replay import ReplayInterrupted, replay
    from highwater.checker.engines.spark.session import session

    with pytest.raises(ReplayInterrupted):
        list(replay(session(MASTER), inputs([log]).found, None, {}, lambda _: None, lambda: True))
