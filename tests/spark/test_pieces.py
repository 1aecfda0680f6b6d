"""The parts of the Spark engine one by one, most without Spark; its search agrees with the native one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines import native
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from tests.checker.conftest import COUNTER
from tests.native.on_disk import assert_same
from tests.slow import slow
from tests.spark.conftest import scenario
from tests.steps.ledger import DEPTHS, ledger

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")


import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater.checker.base.problems import InternalError
from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native.machine import Effort
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.spark import levels
from highwater.checker.engines.spark.checkpoint import (
    SearchIdentity,
    SparkCheckpoint,
)
from highwater.checker.engines.spark.levels import ParquetLevels
from highwater.checker.engines.spark.program import RowBuffers, RowProgram
from highwater.checker.engines.spark.program import compiled as program_of
from highwater.checker.engines.spark.request import SparkOptions, package
from highwater.checker.engines.spark.session import SparkConnection, collect
from highwater.checker.scenarios.search import EngineError
from highwater.checker.tables import count_tables, write
from highwater.model.language import Model
from highwater.model.language.interpreter import BoundError
from tests import zoo
from tests.spark.test_manifests import parts_of
from tests.states.test_tables import content


@pytest.fixture(scope="module")
def program() -> RowProgram:
    return compiled("truncation/kip-101")


def compiled(name: str) -> RowProgram:
    model, _ = scenario(name)
    return RowProgram(model, ModelRequest.of(model, symmetry=False, deadlock=True))


def test_a_request_makes_the_same_program_again(program: RowProgram) -> None:
    model, _ = scenario("truncation/kip-101")
    compiled("truncation/kip-320")  # earlier traces in the process do not matter
    asked = ModelRequest.of(model, symmetry=False, deadlock=True)
    again = ModelRequest.read(asked.text())
    assert again == asked
    assert RowProgram(again.model(), again).content == program.content
    assert compiled("truncation/kip-279").content != program.content


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


# --- the request that a worker gets is enough to trace the model again --------------------------------


def test_a_worker_gets_the_text_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    (tmp_path / "counter.toml").write_text('protocol = "counter.py"\nprofile = "plain"\n')
    model, _ = scenario(str(tmp_path / "counter.toml"))
    asked = ModelRequest.read(ModelRequest.of(model, False, True).text())
    assert (asked.protocol, asked.source) == ("counter.py", COUNTER)
    again = asked.model()
    assert list(map(str, again.instances)) == list(map(str, model.instances))
    assert again.safety == model.safety


# --- both halves of a cluster level in this process, and the driver's checks of task results ----------


BUCKETS = 8
Reports = list[dict[str, Any]]
Change = Callable[[Reports], object]
Halves = Callable[..., tuple[SearchResult, Path]]


class Inline:
    """Stands in for a Spark session: runs each task in this process, one after the other, ``times`` times."""

    master, cores = "local[1]", 2

    def __init__(self, change: Change, times: int) -> None:
        self.context = self.sql = self
        self.change, self.times = change, times

    def range(self, start: int, end: int, step: int, partitions: int) -> Frame:
        assert (start, step, partitions) == (0, 1, end)
        return Frame(self, [[pa.record_batch([pa.array([n])], names=["id"])] for n in range(end)])

    def setJobGroup(self, group: str, what: str, interruptOnCancel: bool) -> None:
        """Jobs have no names here."""

    def cancelJobGroup(self, group: str) -> None:
        """A job has ended when it can be cancelled."""


class Frame:
    """Stands in for a Spark data frame: the batches of its partitions."""

    def __init__(self, session: Inline, partitions: list[list[pa.RecordBatch]]) -> None:
        self._session, self._partitions = session, partitions

    def __getattr__(self, name: str) -> str:
        return name

    def mapInArrow(self, work: Callable[..., Iterator[pa.RecordBatch]], schema: str) -> Frame:
        done = [[list(work(iter(p))) for _ in range(self._session.times)] for p in self._partitions]
        return Frame(self._session, [attempts[-1] for attempts in done])

    def repartitionById(self, count: int, column: str) -> Frame:
        backwards = self._session.times > 1
        partitions = self._partitions[::-1] if backwards else self._partitions
        table = pa.Table.from_batches([batch for p in partitions for batch in (p[::-1] if backwards else p)])
        parts = [table.filter(pc.equal(table.column(column), number)) for number in range(count)]
        return Frame(self._session, [part.to_batches(max_chunksize=3) for part in parts])

    def collect(self) -> list[SimpleNamespace]:
        texts = [t for p in self._partitions for batch in p for t in batch.column("report").to_pylist()]
        reports: Reports = [json.loads(text) for text in reversed(texts)]
        self._session.change(reports)
        return [SimpleNamespace(report=json.dumps(report)) for report in reports]


@pytest.fixture
def halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[SearchResult, Path]]:
    """Search with levels of at least ``small`` states in halves; returns result and levels' directory."""

    def run(
        model: Model,
        options: SearchOptions,
        small: int = 1,
        change: Change = lambda _: None,
        times: int = 1,
        tables: bool = False,
    ) -> tuple[SearchResult, Path]:
        request = ModelRequest.of(model, options.symmetry, options.deadlock, tables)
        program = program_of(model, request, ask=True, effort=Effort.USUAL)
        monkeypatch.setattr(levels, "program", lambda run: program)
        monkeypatch.setattr(levels, "_tables", levels.BucketTables())
        with SparkCheckpoint(tmp_path / f"levels-{len(list(tmp_path.iterdir()))}") as checkpoint:
            checkpoint.take(resume=False)
            identity = SearchIdentity("a run", request.text(), program.content, program.layout.words, BUCKETS)
            checkpoint.begin(identity)
            spark, session = SparkOptions(small=small), cast(SparkConnection, Inline(change, times))
            with closing(ParquetLevels(session, program, checkpoint, identity, spark, None)) as visited:
                return BreadthFirst(model, visited, options, None).explore(), checkpoint.directory

    return run


@pytest.mark.parametrize(
    ("small", "times", "more"),
    [(1, 1, {}), (60, 1, {}), (1, 2, {}), (1, 1, {"symmetry": True}), (1, 1, {"deadlock": True})],
)
def test_halves_find_what_the_native_search_finds(
    halves: Halves, small: int, times: int, more: dict[str, Any]
) -> None:
    """States and violating steps are the same for any buckets, and if each task runs twice."""
    model, options = ledger(terms=1), SearchOptions(workers=1, all_states=True, **more)
    found, _ = halves(model, options, small, times=times)
    expected = native.search(model, options)
    assert_same(found, expected)
    counterexample.follow_all(model, found.violations)
    assert expected.violations != []


@pytest.mark.parametrize("held", [0, 1 << 28])
def test_the_order_in_which_candidates_arrive_does_not_matter(
    halves: Halves, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several ways to a state the least predecessor counts, with candidates in memory or in a file."""
    monkeypatch.setattr("highwater.checker.engines.spark.levels._MOST_HELD_BYTES", held)
    model, options = scenario("truncation/kip-101", "max_records=1")
    levels = [halves(model, options, small=100, times=times)[1] for times in (1, 2)]
    found = [
        [pq.read_table(file).to_pydict() for file in sorted(place.rglob("*.parquet"), key=bucket_of)]
        for place in levels
    ]
    # A discarded attempt has written its files a second time.
    assert len(found[0]) > 20
    assert all(rows in found[1] for rows in found[0])


@pytest.mark.parametrize(("small", "times"), [(1, 2), (1 << 40, 1)])
@pytest.mark.parametrize("symmetry", [False, True])
def test_the_levels_are_the_native_engines_tables(
    halves: Halves, small: int, times: int, symmetry: bool, tmp_path: Path
) -> None:
    """On the cluster, where each task runs twice, and on the driver."""
    model, options = ledger(), SearchOptions(workers=1, all_states=True, symmetry=symmetry)
    found, place = halves(model, options, small, times=times, tables=True)
    assert_same(found, native.search(model, options))
    write(explore(model, options), tmp_path / "native", 1, None)
    written, expected = (
        count_tables(directory, model, found.depth, None) for directory in (place, tmp_path / "native")
    )
    assert {**vars(written), "bytes": 0} == {**vars(expected), "bytes": 0}
    assert {name for name, count in written.violations.items() if count} == set(DEPTHS)
    assert content(place) == content(tmp_path / "native")


def bucket_of(file: Path) -> tuple[str, str]:
    return file.parent.name, file.name[:17]


def test_a_violation_in_any_bucket_has_a_shortest_run(halves: Halves) -> None:
    model, options = scenario("truncation/kip-101", "max_records=1")
    found, _ = halves(model, options, small=100)
    assert_same(found, native.search(model, options))
    assert found.violations != []
    counterexample.follow_all(model, found.violations)


def more(half: str, what: str) -> Change:
    def change(reports: Reports) -> None:
        report = next(report for report in reports if report["half"] == half)
        report[what] += 1

    return change


CONTRADICTIONS: dict[str, tuple[Change, str]] = {
    "one is missing": (list.pop, "reports of"),
    "one twice": (lambda reports: reports.append(reports[0]), "reports of"),
    "one in the place of another": (lambda reports: reports.__setitem__(0, reports[-1]), "reports of"),
    "states more": (more("expand", "states"), "not every state of a level was expanded"),
    "candidates more": (more("merge", "received"), "not every candidate that was sent was received"),
}


@pytest.mark.parametrize("wrong", CONTRADICTIONS)
def test_reports_that_contradict_each_other_are_an_internal_error(halves: Halves, wrong: str) -> None:
    change, said = CONTRADICTIONS[wrong]
    with pytest.raises(InternalError, match=said):
        halves(ledger(), SearchOptions(workers=1), change=change)


@pytest.mark.parametrize("half", ["_expand", "_keep_new"])
@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        (InternalError("no such place"), InternalError, "a task of Spark's: no such place"),
        (
            OSError(28, "No space left on device", "a file"),
            EngineError,
            "a task of Spark's failed: a file: No space",
        ),
    ],
    ids=["internal", "a full disk"],
)
def test_an_exception_of_a_task_is_raised_unchanged(
    halves: Halves, half: str, wrong: Exception, kind: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise wrong

    monkeypatch.setattr(levels, half, fails)
    with pytest.raises(kind, match=said) as told:
        halves(ledger(), SearchOptions(workers=1))
    assert type(told.value) is kind


def test_a_bound_error_equals_the_native_search_s(halves: Halves) -> None:
    model = Model(zoo.Everything({"nodes": 2}, {"undeclared"}), [])
    with pytest.raises(BoundError) as told:
        halves(model, SearchOptions(workers=1))
    with pytest.raises(BoundError) as expected:
        native.search(model, SearchOptions(workers=1))
    assert str(told.value) == str(expected.value)


# --- searches on driver and cluster, step properties and scenarios ------------------------------------


def test_levels_of_the_driver_and_of_the_cluster(on_spark: Callable[..., SearchResult]) -> None:
    model, options = scenario("truncation/kip-279", "max_records=1")
    found, expected = on_spark(model, options, small=1_000), native.search(model, options)
    assert (found.distinct_states, found.depth) == (9_841, 18)
    assert_same(found, expected)
    counterexample.follow_all(model, found.violations)
    # If all levels run on the driver, the run equals the native search's.
    assert on_spark(model, options).violations == expected.violations != []


def test_without_memory_for_tables_they_are_read_from_files(on_spark: Callable[..., SearchResult]) -> None:
    model, options = scenario("truncation/kip-320", "max_records=1")
    found = on_spark(model, options, small=1_500, memory_bytes=1)
    assert found.table_bytes == 0  # no task left its table to the next
    assert_same(found, native.search(model, options))


def test_a_search_goes_on_from_the_last_committed_level(
    on_spark: Callable[..., SearchResult], tmp_path: Path
) -> None:
    model, options = scenario("truncation/kip-320", "max_records=1")
    expected = native.search(model, options)
    place = tmp_path / "levels"
    first = on_spark(model, options, checkpoint=place, limit_states=expected.distinct_states // 2)
    assert first.stopped_by == "states"
    assert first.distinct_states < expected.distinct_states
    # As if killed while committing a level: its files exist, its manifest does not.
    last = sorted(place.glob("level-*.json"))[-1]
    last.rename(place / f".{last.name}.0123456789abcdef.new")
    left = place / "states" / f"{last.stem}-all-0123456789ab.parquet"
    left.write_bytes(b"cut off")
    found = on_spark(model, options, checkpoint=place, resume=True, small=800)
    assert_same(found, expected)
    assert not left.exists()
    # And once more, on a complete search.
    assert_same(on_spark(model, options, checkpoint=place, resume=True), expected)


def test_only_the_same_search_goes_on(on_spark: Callable[..., SearchResult], tmp_path: Path) -> None:
    model, options = scenario("truncation/kip-320", "max_records=1")
    place = tmp_path / "levels"
    on_spark(model, options, checkpoint=place, limit_states=10)
    other, _ = scenario("truncation/kip-320", "max_records=2")
    with pytest.raises(InputError, match="other parameters: max_records was 1, is 2"):
        on_spark(other, options, checkpoint=place, resume=True)
    with pytest.raises(InputError, match="other deadlock"):
        on_spark(model, options, checkpoint=place, resume=True, deadlock=True)
    with pytest.raises(InputError, match="other rules"):
        on_spark(scenario("truncation/kip-279", "max_records=1")[0], options, checkpoint=place, resume=True)


# --- a standard scenario of each kind on spark, on driver and cluster, equals the native search -------


CHOSEN = (
    "truncation/kip-101",  # violated
    "replication/controller/small",
    "replication/large-messages",
    "quorum/large-elections",
    "zookeeper/large-failover",
)
"""Scenarios of each protocol, with and without violations; the kernels are the native search's."""


@slow("complete searches on Spark; fast for small ones")
@pytest.mark.parametrize("name", CHOSEN)
def test_a_standard_scenario(on_spark: Callable[..., SearchResult], tmp_path: Path, name: str) -> None:
    model, options = scenario(name)
    expected = native.search(model, options)
    alone = on_spark(model, options, checkpoint=tmp_path / "levels", small=1 << 40)
    assert_same(alone, expected)
    files = sorted((tmp_path / "levels").glob("level-*.json"))
    manifests = [json.loads(p.read_text().splitlines()[0]) for p in files]  # the second line is a digest
    sizes = sorted((sum(count for _, _, count, *_ in m["parts"]) for m in manifests), reverse=True)
    assert sum(sizes) == expected.distinct_states
    # The two largest levels run on the cluster, and the driver takes over again.
    found = on_spark(model, options, small=sizes[1])
    assert_same(found, expected)
    assert found.spilled_bytes > 0
    counterexample.follow_all(model, found.violations)


# --- step properties on spark -------------------------------------------------------------------------


ALL = SearchOptions(workers=1, all_states=True)


def test_a_violation_that_was_found_is_kept(on_spark: Callable[..., SearchResult], tmp_path: Path) -> None:
    model, place = ledger(), tmp_path / "levels"
    on_spark(model, ALL, checkpoint=place, limit_states=120)
    found = on_spark(model, ALL, checkpoint=place, resume=True, small=1)
    assert_same(found, native.search(model, ALL))
    counterexample.follow_all(model, found.violations)
