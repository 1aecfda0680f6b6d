"""Both halves of the cluster's levels in this process: what they find together, and what the driver believes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

from highwater.checker.asking.search import EngineError, SearchOptions, SearchResult
from highwater.checker.base.problems import InternalError
from highwater.checker.engines import native
from highwater.checker.engines.spark.levels import worker
from highwater.checker.engines.spark.levels.checkpoint import (
    CommittedLevel,
    LevelFile,
    SearchIdentity,
    SparkCheckpoint,
    Totals,
)
from highwater.checker.engines.spark.levels.cluster import LargeLevels
from highwater.checker.engines.spark.levels.sent import SentFingerprints
from highwater.checker.engines.spark.levels.visited import VisitedTables
from highwater.checker.engines.spark.options import SparkOptions
from highwater.checker.engines.spark.program import RowProgram
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.engines.spark.search import Exploration
from highwater.checker.engines.spark.session import SparkConnection
from highwater.checker.telling import counterexample
from highwater.model.language import Model
from highwater.model.language.interpreter import BoundError
from tests import zoo
from tests.spark.conftest import scenario
from tests.spark.test_search import same_counts
from tests.steps.ledger import ledger

SHIFT = 3
Reports = list[dict[str, Any]]
Change = Callable[[Reports], object]


class Inline:
    """Stands for a session of Spark's: a task a bucket, one after the other, in this process, or each so many times."""

    master, cores = "local[1]", 1

    def __init__(self, change: Change, times: int) -> None:
        self.context, self._change, self._times = self, change, times
        self._work: Callable[[Iterable[int]], Iterator[str]] = lambda buckets: iter(())
        self._buckets = 0

    def places(self, buckets: int) -> Inline:
        self._buckets = buckets
        return self

    def mapPartitions(self, work: Callable[[Iterable[int]], Iterator[str]]) -> Inline:
        self._work = work
        return self

    def collect(self) -> list[str]:
        reports: Reports = []
        for bucket in reversed(range(self._buckets)):
            for _ in range(self._times):
                (last,) = self._work([bucket])
            reports.append(json.loads(last))
        self._change(reports)
        return [json.dumps(report) for report in reports]

    def setJobGroup(self, group: str, what: str, interruptOnCancel: bool) -> None:
        """Jobs have no names here."""

    def cancelJobGroup(self, group: str) -> None:
        """A job has ended when it can be cancelled."""


@pytest.fixture
def halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[SearchResult, Path]]:
    """Search with levels from ``small`` states on in halves; the result, and where the levels are."""

    def run(
        model: Model, options: SearchOptions, small: int = 1, change: Change = lambda _: None, times: int = 1
    ) -> tuple[SearchResult, Path]:
        request = ModelRequest.of(model, options.symmetry, options.deadlock)
        program = RowProgram(model, request)
        monkeypatch.setattr(worker, "program", lambda run: program)
        monkeypatch.setattr(worker, "_visited", VisitedTables())
        monkeypatch.setattr(worker, "_sent", SentFingerprints())
        with SparkCheckpoint(tmp_path / "levels") as checkpoint:
            checkpoint.take(resume=False)
            identity = SearchIdentity("a run", request.text(), program.content, program.layout.words, SHIFT)
            checkpoint.begin(identity)
            spark, session = SparkOptions(small=small), cast(SparkConnection, Inline(change, times))
            found = Exploration(session, program, checkpoint, identity, [], options, spark, None)
            try:
                return found.explore(), checkpoint.directory
            finally:
                found.close()

    return run


Halves = Callable[..., tuple[SearchResult, Path]]


@pytest.mark.parametrize(("small", "times"), [(1, 1), (60, 1), (1, 2)])
def test_halves_find_what_the_native_search_finds(halves: Halves, small: int, times: int) -> None:
    """States, and the steps that violate, in whichever bucket, also where each task is done twice.

    The candidates of a level are gone when it is done.
    """
    model, options = ledger(), SearchOptions(workers=1, all_states=True)
    found, levels = halves(model, options, small, times=times)
    expected = native.search(model, options)
    same_counts(found, expected)
    counterexample.follow_all(model, found.violations)
    assert expected.violations != []
    assert not list(levels.glob("exchange-*"))


def test_a_violation_in_any_bucket_has_a_shortest_run(halves: Halves) -> None:
    model, options = scenario("truncation/kip-101", "max_records=1")
    found, _ = halves(model, options, small=100)
    same_counts(found, native.search(model, options))
    assert found.violations != []
    counterexample.follow_all(model, found.violations)


def test_of_several_violations_the_first_is_told() -> None:
    """By its index in the level: of states in the level found, of steps and of what is stuck in the one expanded."""
    identity, nothing = SearchIdentity("a run", "{}", "content", 2, 1), cast(Any, None)
    level = CommittedLevel(4, (LevelFile(None, "a file", 6),), Totals())
    expanded = [
        {"states": 2, "generated": 3, "actions": [3], "cuts": [1], "premises": [2], "seconds": {}, **own}
        for own in (
            {"broken": {"p": (3, 0)}, "deadlock": 3},
            {"broken": {"p": (2, 7)}, "deadlock": 2},
            {"broken": {"p": (2, 8)}, "deadlock": 4},
        )
    ]
    merged = [
        {
            "received": 3,
            "count": 3,
            "file": "",
            "bytes": 1,
            "checksum": 0,
            "premises": [3],
            "seconds": {},
            **own,
        }
        for own in ({"bucket": 0, "places": {"q": 2}}, {"bucket": 1, "places": {"q": 0, "r": 1}})
    ]
    for half, reports in (("expand", expanded), ("merge", merged)):
        for report in reports:
            report["half"] = half
    found = LargeLevels(nothing, nothing, nothing, identity, 0)._found(level, expanded, merged, sent=6)
    assert (found.broken, found.stuck) == ({"p": (2, 7)}, 2)
    assert found.places == {"q": 2, "r": 4}
    assert [part.base for part in found.parts] == [0, 3]
    assert (found.generated, found.actions, found.cuts, found.premises) == (9, [9], [3], [12])


def of_half(half: str, change: Change) -> Change:
    return lambda reports: change(reports) if reports[0]["half"] == half else None


def more(what: str) -> Change:
    return lambda reports: reports[0].update({what: reports[0][what] + 1})


CONTRADICTIONS: dict[str, tuple[Change, str]] = {
    "one is missing": (list.pop, "1 buckets were not reported"),
    "one twice": (lambda reports: reports.append(reports[0]), "bucket 7 was reported twice"),
    "one in the place of another": (
        lambda reports: reports.__setitem__(0, reports[1]),
        "bucket 6 was reported twice",
    ),
    "states more": (of_half("expand", more("states")), "not every state of a level was expanded"),
    "candidates more": (of_half("merge", more("received")), "not every candidate that was sent was received"),
}


@pytest.mark.parametrize("wrong", CONTRADICTIONS)
def test_reports_that_contradict_each_other_are_an_internal_error(halves: Halves, wrong: str) -> None:
    change, said = CONTRADICTIONS[wrong]
    with pytest.raises(InternalError, match=said):
        halves(ledger(), SearchOptions(workers=1), change=change)


@pytest.mark.parametrize("half", ["_expand_bucket", "_merge_bucket"])
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
def test_what_is_wrong_with_a_task_is_told_as_what_it_is(
    halves: Halves, half: str, wrong: Exception, kind: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise wrong

    monkeypatch.setattr(worker, half, fails)
    with pytest.raises(kind, match=said) as told:
        halves(ledger(), SearchOptions(workers=1))
    assert type(told.value) is kind


def test_a_step_out_of_its_type_is_told_of_the_model(halves: Halves) -> None:
    model = Model(zoo.Everything({"nodes": 2}, {"undeclared"}), [])
    with pytest.raises(BoundError) as told:
        halves(model, SearchOptions(workers=1))
    with pytest.raises(BoundError) as expected:
        native.search(model, SearchOptions(workers=1))
    assert str(told.value) == str(expected.value)
