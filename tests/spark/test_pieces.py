"""The parts of the Spark engine one by one; all but one need no Spark."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import closing
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from highwater.checker.engines.spark.request import ModelRequest
from highwater.model import registry
from highwater.model.language.model import Model
from tests.checker.conftest import COUNTER
from tests.spark.conftest import scenario

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")


from highwater.checker.base.problems import InputError
from highwater.checker.engines.breadth_first import Totals
from highwater.checker.engines.spark import request
from highwater.checker.engines.spark.checkpoint import (
    CommittedLevel,
    Fingerprints,
    SearchIdentity,
    SparkCheckpoint,
)
from highwater.checker.engines.spark.program import RowBuffers, RowProgram
from highwater.checker.engines.spark.request import SparkOptions, package
from highwater.checker.engines.spark.search import search
from highwater.checker.engines.spark.session import SparkConnection, cause, collect
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import EngineError
from tests.spark.conftest import MASTER
from tests.spark.test_manifests import parts_of


@pytest.fixture(scope="module")
def program() -> RowProgram:
    return compiled("truncation/kip-101")


def compiled(name: str) -> RowProgram:
    model, _ = scenario(name)
    return RowProgram(model, ModelRequest.of(model, symmetry=False, deadlock=True))


def test_the_digest_of_sources_covers_model_and_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "files", lambda anchor: tmp_path)
    counts = {"model/a.py": True, "invariants/b/c.py": True, "checker/engines/native/d.py": True,
              "checker/engines/spark/e.py": True, "checker/report/summary.py": False, "model/f.txt": False}  # fmt: skip
    for name in counts:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for name, decides in counts.items():
        before = request.sources.__wrapped__()
        (tmp_path / name).write_text("other")
        assert (request.sources.__wrapped__() != before) == decides, name


def test_a_request_makes_the_same_program_again(program: RowProgram) -> None:
    model, _ = scenario("truncation/kip-101")
    compiled("truncation/kip-320")  # earlier traces in the process do not matter
    asked = ModelRequest.of(model, symmetry=False, deadlock=True)
    again = ModelRequest.read(asked.text())
    assert again == asked
    assert RowProgram(again.model(), again).content == program.content
    assert compiled("truncation/kip-279").content != program.content


def test_levels_are_read_as_they_were_written(tmp_path: Path) -> None:
    checkpoint = SparkCheckpoint(tmp_path / "new")
    run = SearchIdentity("name", "{}", "content", 2, 3)
    checkpoint.take(resume=False)
    checkpoint.begin(run)
    assert checkpoint.run() == run
    draw = np.random.default_rng(7)
    rows = draw.integers(0, 1 << 63, (1_000, 4), dtype=np.uint64)
    parts = parts_of(checkpoint, 0, *np.array_split(rows, 3))
    level = CommittedLevel(
        0, parts, Totals(1_000, 1_000, {"a": 1}, {}, {"p": 2}, {"p": (0, 5), "s": (0, 5, 3)}, 1.5)
    )
    assert checkpoint.levels() == []
    checkpoint.commit(level)
    assert checkpoint.levels() == [level]
    checkpoint.close()
    states = np.concatenate([s for part in level.parts for s in checkpoint.states(part, known(rows))])
    assert (states == rows[:, 2:]).all()
    for index in random.Random(1).sample(range(1_000), 50):
        packed = int(rows[index, 1])
        assert checkpoint.origin(level, index) == (packed >> 24, packed & 0xFFFFFF)


def known(rows: Words) -> Fingerprints:
    """A fingerprint function for rows that are no states."""
    known = {tuple(row[2:]): row[0] for row in rows.tolist()}
    return lambda states: np.array([known[tuple(state)] for state in states.tolist()], dtype=np.uint64)


def test_states_whose_fingerprints_are_others_are_not_taken(program: RowProgram, tmp_path: Path) -> None:
    """The checksum is correct, but the written fingerprints were wrong."""
    checkpoint = SparkCheckpoint(tmp_path)
    with closing(program.table(10)) as table:
        rows = np.concatenate([r.copy() for r in RowBuffers(program).admit(table, program.initial())])
    (good,) = parts_of(checkpoint, 0, rows, divided=False)
    rows[-1, 0] ^= np.uint64(1 << 17)
    (bad,) = parts_of(checkpoint, 1, rows, divided=False)
    found = list(checkpoint.states(good, program.fingerprints))
    assert np.concatenate(found).tolist() == rows[:, 2:].tolist()
    with pytest.raises(InputError, match=r"states/level-00001-all-\w+.parquet is damaged"):
        list(checkpoint.states(bad, program.fingerprints))


def test_the_cause_of_an_error_is_its_innermost_one() -> None:
    text = "An error occurred\n: org.apache.spark.SparkException: Job aborted\n\tat a.B\n"
    text += "Caused by: java.io.IOException: No space left on device\n\tat c.D\n"
    assert cause(RuntimeError(text)) == "No space left on device"
    assert cause(RuntimeError("")) == "RuntimeError"


class Cluster:
    """Stands in for Spark: session, context and data frame; each attempt ends as given in ``ends``."""

    def __init__(self, *ends: object) -> None:
        self.groups: list[str] = []
        self.cancelled: list[str] = []
        self.context, self.ends = self, list(ends)

    def setJobGroup(self, group: str, what: str, interruptOnCancel: bool) -> None:
        self.groups.append(group)

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)

    def collect(self) -> list[object]:
        end = self.ends.pop(0)
        if end == "cancelled":
            while len(self.cancelled) < 2:  # the first time the job had not begun yet
                time.sleep(0.01)
            raise RuntimeError("SparkException: cancelled")
        if isinstance(end, Exception):
            raise end
        return [end]


LOST = RuntimeError("org.apache.spark.SparkException: Job aborted due to stage failure: an executor was lost")


@pytest.mark.parametrize(("lost", "found"), [(0, [7]), (2, [7]), (3, None)])
def test_a_job_that_the_cluster_failed_is_started_again(lost: Any, found: Any) -> None:
    spark = Cluster(*[LOST] * lost, 7)
    if found is None:
        with pytest.raises(EngineError, match="gave up on level 3: an executor was lost"):
            collect(cast(SparkConnection, spark), spark, "level 3", lambda group: False)
    else:
        assert collect(cast(SparkConnection, spark), spark, "level 3", lambda group: False) == found
    assert len(set(spark.groups)) == min(lost + 1, 3)


def test_a_job_whose_program_is_wrong_is_not_started_again() -> None:
    wrong = type("PythonException", (Exception,), {})("SparkException\nValueError: a defect")
    spark = Cluster(wrong, 7)
    with pytest.raises(EngineError, match="a defect"):
        collect(cast(SparkConnection, spark), spark, "level 3", lambda group: False)
    assert spark.ends == [7]


def test_a_job_is_cancelled_until_it_has_ended() -> None:
    spark = Cluster("cancelled", 7)
    assert collect(cast(SparkConnection, spark), spark, "level 3", lambda group: True) is None
    assert set(spark.cancelled) == set(spark.groups)
    assert len(spark.cancelled) >= 2
    assert spark.ends == [7]


def test_a_protocol_is_traced_from_the_archive(tmp_path: Path) -> None:
    """An executor has only this archive; rule numbers must be found in it too."""
    archive = package(tmp_path)
    program = (
        "import highwater; from highwater.checker.scenarios import catalogue;"
        "from highwater.model.language import Model;"
        "found = catalogue.load('replication.controller');"
        "Model(found.protocol(None, ()), found.invariants); print(highwater.__file__)"
    )
    run = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(str(archive))


# --- a search with all levels on the driver: it needs no cluster ----------------------------------


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stub session; the fixture lists the requested masters."""
    asked: list[str] = []

    def session(master: str) -> object:
        asked.append(master)
        return SimpleNamespace(cores=2, master=master)

    monkeypatch.setattr(sys.modules[search.__module__], "session", session)
    return asked


def test_a_second_driver_is_refused(without_spark: list[str], tmp_path: Path) -> None:
    model, options = scenario("truncation/kip-101", "max_records=1")
    refused: list[str] = []

    def meanwhile(progress: object) -> None:
        for resume in (True, False) if not refused else ():
            with pytest.raises(InputError) as wrong:
                search(model, options, None, SparkOptions(MASTER, str(tmp_path), resume))
            refused.append(str(wrong.value))

    found = search(model, options, meanwhile, SparkOptions(MASTER, str(tmp_path)))
    assert found.complete
    assert any("another search is using it" in said for said in refused)
    assert search(model, options, None, SparkOptions(MASTER, str(tmp_path), resume=True)).complete


def test_damage_is_reported_before_spark_starts(without_spark: list[str], tmp_path: Path) -> None:
    model, options = scenario("truncation/kip-101", "max_records=1")
    search(model, options, None, SparkOptions(MASTER, str(tmp_path)))
    without_spark.clear()
    (file,) = (tmp_path / "states").glob("level-00003-*.parquet")
    honest = file.read_bytes()
    for change, said in ((honest[:-1], "damaged"), (b"", "damaged"), (None, "is not there")):
        file.write_bytes(change) if change is not None else file.unlink()
        with pytest.raises(InputError, match=rf"states/{file.name} is {said.removeprefix('is ')}"):
            search(model, options, None, SparkOptions(MASTER, str(tmp_path), resume=True))
    file.write_bytes(honest)
    (tmp_path / "level-00002.json").unlink()
    with pytest.raises(InputError, match=r"level-00002.json is not there"):
        search(model, options, None, SparkOptions(MASTER, str(tmp_path), resume=True))
    assert without_spark == []


# --- the request that a worker gets is enough to trace the model again --------------------------------


@pytest.mark.parametrize("name", ["promise", "replication.controller"])
def test_a_worker_finds_the_protocol_by_its_name(name: str) -> None:
    """The protocol may be defined in a module below its package."""
    model = Model(registry.protocol_of(name)({}, ()), ())
    asked = ModelRequest.read(ModelRequest.of(model, False, False).text())
    assert (asked.protocol, asked.source) == (name, None)
    assert type(asked.model().protocol) is registry.protocol_of(name)


def test_a_worker_gets_the_text_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    (tmp_path / "counter.toml").write_text('protocol = "counter.py"\nprofile = "plain"\n')
    model, _ = scenario(str(tmp_path / "counter.toml"))
    asked = ModelRequest.read(ModelRequest.of(model, False, True).text())
    assert (asked.protocol, asked.source) == ("counter.py", COUNTER)
    again = asked.model()
    assert list(map(str, again.instances)) == list(map(str, model.instances))
    assert again.safety == model.safety
