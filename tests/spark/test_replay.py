"""Replay on Spark: reports equal the embedded engine's; tables; errors; kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from highwater.checker.cli import cli
from highwater.traces.inputs import inputs
from highwater.traces.replay import replay_input
from tests.generation import write_log
from tests.slow import slow, whole_only
from tests.spark.conftest import MASTER
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2
from tests.traces.metadata.mutations import read
from tests.traces.runs.made import good_run, write
from tests.traces.shares.test_shares import changed, embedded, plain

CLUSTER = "local-cluster[2,1,2048]"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *map(str, arguments)])


def on_spark(*arguments: object) -> Result:
    return run(*arguments, "--engine", "spark", "--spark-master", MASTER)


def reports(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text())
    for report in found:
        report["seconds"] = 0
    return found


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with findings, and with changes that do not conform."""
    folder = tmp_path_factory.mktemp("log")
    write_log(folder / "", partitions=20, records=500, brokers=5, seed=3)
    return changed(read(folder), Random(0)).write(tmp_path_factory.mktemp("changed"))


@pytest.mark.usefixtures("_spark")
@needs_clusters_4_2
def test_many_inputs(tmp_path: Path) -> None:
    names = [CLUSTERS_4_2 / name for name in ("down-elr-unclean-210", "restarts-elr")]
    ours, theirs = tmp_path / "spark.json", tmp_path / "embedded.json"
    assert on_spark(*names, "--quiet", "--json", ours).exit_code == 1
    run(*names, "--quiet", "--json", theirs)
    assert len(reports(ours)) >= 2
    assert reports(ours) == reports(theirs)


@pytest.mark.usefixtures("_spark")
def test_one_log_in_shares(log: Path) -> None:
    from highwater.checker.engines.spark.replay import SparkReplay
    from highwater.checker.engines.spark.session import session

    (report,) = SparkReplay(session(MASTER), None, {}, shares=7, large=0).replay(inputs([log]).found)
    expected = embedded(log)
    assert isinstance(expected, dict)
    assert plain(report) == expected
    assert expected["unexplained_count"] > 0


@pytest.mark.usefixtures("_spark")
@needs_clusters_4_2
def test_a_cluster_with_request_logs_is_replayed_as_by_one_process() -> None:
    from highwater.checker.engines.spark.replay import SparkReplay
    from highwater.checker.engines.spark.session import session

    (found,) = inputs([CLUSTERS_4_2 / "unclean-requests-elr"]).found
    assert len(found.request_logs) > 1
    (report,) = SparkReplay(session(MASTER), None, {}, large=0).replay([found])
    assert {**report.to_json(), "seconds": 0} == {**replay_input(found).to_json(), "seconds": 0}


@pytest.mark.usefixtures("_spark")
def test_tables(log: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "tables"
    assert on_spark(log, "--quiet", "--out", out).exit_code == 1
    expected = embedded(log)
    assert isinstance(expected, dict)
    tables = {name: pq.read_table(out / name) for name in ("changes", "findings", "unexplained")}
    created = sum(before is None for before in tables["changes"]["before"].to_pylist())
    deleted = sum(after is None for after in tables["changes"]["after"].to_pylist())
    assert tables["changes"].num_rows - created - deleted == expected["changes"]
    assert tables["findings"].num_rows == sum(expected["findings_count"].values())
    assert tables["unexplained"].num_rows == expected["unexplained_count"]
    told = sorted((u["position"]["offset"], u["partition"] or "") for u in expected["unexplained"])
    rows = tables["unexplained"].to_pylist()
    assert sorted((row["offset"], row["partition"] or "") for row in rows) == told
    assert not [file for file in out.rglob(".*") if file.is_file()]
    assert "is not empty" in on_spark(log, "--out", out).stderr


@pytest.mark.usefixtures("_spark")
def test_a_damaged_log_is_replayed_up_to_the_damage(log: Path, tmp_path: Path) -> None:
    (segment,) = log.glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / segment.name).write_bytes(data)
    expected = run(tmp_path)
    found = on_spark(tmp_path)
    assert (found.exit_code, found.stderr) == (expected.exit_code, expected.stderr)
    assert found.exit_code == 2
    assert segment.name in found.stderr
    assert "DAMAGED INPUT: " in found.output
    as_tables = on_spark(tmp_path, "--out", tmp_path.parent / "tables-of-damaged")
    assert as_tables.exit_code == 2, "tables are whole, or there are none"
    assert segment.name in as_tables.stderr


@pytest.mark.usefixtures("_spark")
def test_an_input_that_is_wrong_comes_after_those_before_it(tmp_path: Path) -> None:
    good = write(tmp_path / "good.ndjson", good_run())
    bad = tmp_path / "bad.ndjson"
    bad.write_text(good.read_text()[:-40])
    found, expected = on_spark(good, bad, "--quiet"), run(good, bad, "--quiet")
    assert (found.exit_code, found.stderr) == (2, expected.stderr)
    assert found.output.startswith("1 input, ")


def test_options_that_belong_together(tmp_path: Path) -> None:
    assert "these options need --engine spark" in run(tmp_path, "--out", tmp_path / "t").stderr
    assert "only the embedded engine" in run(tmp_path, "--engine", "spark", "--html", tmp_path / "p").stderr


@pytest.mark.usefixtures("_spark")
def test_a_profile_that_does_not_exist(log: Path) -> None:
    for more in ((), ("--out", log.parent / "tables-of-no-profile")):
        found = on_spark(log, "--profile", "kafka", *more)
        assert found.exit_code == 2
        assert "unknown profile of replication.controller 'kafka'" in found.stderr


@pytest.mark.usefixtures("_spark")
def test_interrupted(log: Path) -> None:
    from highwater.checker.engines.spark.replay import ReplayInterrupted, SparkReplay
    from highwater.checker.engines.spark.session import session

    engine = SparkReplay(session(MASTER), None, {}, stopped=lambda: True, shares=2, large=0)
    with pytest.raises(ReplayInterrupted):
        list(engine.replay(inputs([log]).found))


# --- whole commands, killed ---


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")
    folder = tmp_path_factory.mktemp("large")
    write_log(folder, partitions=2_000, records=400_000)
    return folder


@pytest.fixture
def followed(large: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A replay that is following shares, and its result file."""
    from tests.spark.test_survival import start, wait_for

    out, file = tmp_path / "tables", tmp_path / "result.json"
    process = start(large, "--spark-master", CLUSTER, "--out", out, "--json", file, word="replay")
    wait_for(lambda: any((out / "changes").glob(".part-*")), process)
    yield process, file
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@slow("starts a command with its own Spark session, for minutes; test_kills.py kills searches")
@whole_only
def test_a_killed_executor_costs_a_retry(followed: tuple[subprocess.Popen[str], Path], large: Path) -> None:
    from tests.spark.test_survival import descendants

    process, file = followed
    executors = [p for p, line in descendants(process.pid) if "CoarseGrainedExecutorBackend" in line]
    assert len(executors) == 2
    os.kill(executors[0], signal.SIGKILL)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 1, said
    assert "Exception" not in said
    (found,) = reports(file)
    for name in ("beliefs", "steps explained"):
        del found["figures"][name]
    expected = embedded(large)
    assert isinstance(expected, dict)
    for report in (found, expected):
        del report["versions"]  # depends on the libraries that a process has loaded
    assert found == expected
