"""Both halves of a cluster level in this process, and the driver's checks of task results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater.checker.base.problems import InternalError
from highwater.checker.engines import native
from highwater.checker.engines.breadth_first import BreadthFirst, Totals
from highwater.checker.engines.native.code.machine import Effort
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.spark import levels
from highwater.checker.engines.spark.checkpoint import SearchIdentity, SparkCheckpoint
from highwater.checker.engines.spark.levels import ParquetLevels, joined
from highwater.checker.engines.spark.program import compiled
from highwater.checker.engines.spark.request import ModelRequest, SparkOptions
from highwater.checker.engines.spark.session import SparkConnection
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import DEADLOCK, EngineError, SearchOptions, SearchResult
from highwater.checker.tables.directory import count_tables
from highwater.checker.tables.writing import write
from highwater.model.language import Model
from highwater.model.language.interpreter import BoundError
from tests import zoo
from tests.native.on_disk import assert_same
from tests.spark.conftest import scenario
from tests.states.test_tables import content
from tests.steps.ledger import DEPTHS, ledger

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
        program = compiled(model, request, ask=True, effort=Effort.USUAL)
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


def test_of_several_violations_the_first_is_reported() -> None:
    """The first by index: state violations in the new level, others in the expanded level."""
    expanded = [
        {"states": 2, "steps": [], "generated": 3, "actions": [3], "cuts": [1], "premises": [2], **own}
        for own in (
            {"broken": {"p": (3, 0)}, "deadlock": 3},
            {"broken": {"p": (2, 7)}, "deadlock": 2},
            {"broken": {"p": (2, 8)}, "deadlock": 4},
        )
    ]
    merged = [
        {"file": ["", 3, 1, 0], "premises": [3], **own}
        for own in ({"bucket": 0, "places": {"q": 2}}, {"bucket": 1, "places": {"q": 0, "r": 1}})
    ]
    model = SimpleNamespace(actions=[SimpleNamespace(name="a")], bounds=["b"], safety=["p", "q", "r"])
    level = joined(cast(Model, model), 4, Totals(5, 6, found={"r": (0, 1)}), expanded, merged, 9, 1.0)
    counts = {"a": 9}, {"b": 3}, {"p": 12, "q": 0, "r": 0}
    found = {"p": (3, 2, 7), "q": (4, 2), DEADLOCK: (3, 2), "r": (0, 1)}
    assert level.totals == Totals(11, 15, *counts, found, 1.0)
    assert [part.base for part in level.parts] == [0, 3]


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
