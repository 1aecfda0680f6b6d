"""Large levels: two jobs of Spark's, between which candidates lie in files.

Each has a task a bucket. ``expand`` reads the states of a bucket, makes their successors unique and writes them down,
divided by the buckets they fall into. ``merge`` reads what fell into its bucket, drops what the bucket's table has,
judges and writes the rest; it runs on the executor that merged the bucket before, and has its table. What both counted
comes back as reports.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from highwater.checker.base.problems import InternalError
from highwater.checker.engines.spark.jobs import collect
from highwater.checker.engines.spark.levels import exchange, worker
from highwater.checker.engines.spark.levels.checkpoint import (
    CommittedLevel,
    LevelFile,
    SearchIdentity,
    SparkCheckpoint,
)
from highwater.checker.engines.spark.levels.driver import Known, NextLevel
from highwater.checker.engines.spark.program import RowProgram
from highwater.checker.engines.spark.session import SparkConnection


@dataclass
class LevelTotals:
    """What the tasks said of themselves, summed over all levels: seconds by kind, rows, memory."""

    seconds: dict[str, float] = field(default_factory=dict)
    sent: int = 0
    caught_up: int = 0
    resident: int = 0
    tables: int = 0
    written: int = 0
    levels: int = 0

    def add(self, report: dict[str, Any]) -> None:
        """Take a report in."""
        for key, spent in report.get("seconds", {}).items():
            name = f"{report['half']}: {key}"
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
        self.caught_up += report.get("caught_up", 0)
        self.written += report.get("bytes", 0)
        self.resident = max(self.resident, report.get("resident", 0))
        self.tables = max(self.tables, report.get("tables", 0))


class LargeLevels:
    """Expands levels on a session."""

    def __init__(
        self,
        session: SparkConnection,
        program: RowProgram,
        checkpoint: SparkCheckpoint,
        run: SearchIdentity,
        table_bytes: int,
    ) -> None:
        self._session, self._program = session, program
        self._checkpoint, self._run, self._table_bytes = checkpoint, run, table_bytes
        self.work = LevelTotals()

    def expand(self, level: CommittedLevel, known: Known, stopped: Callable[[], bool]) -> NextLevel | None:
        """The level after one; None where the search was stopped meanwhile.

        Raises BoundError, EngineError where a task failed, InternalError where reports contradict each other.
        """
        directory = self._checkpoint.directory.resolve()
        task = worker.LevelTask(str(directory), self._run, level.number, known, self._table_bytes)
        try:
            # Nothing of a level that is not committed counts, so it can be done again as a whole.
            expanded = self._half(lambda buckets: worker.expand(task, buckets), "expand", level, stopped)
            if expanded is None:
                return None
            files = {name: rows for report in expanded for name, rows in report["files"].items()}
            merged = self._half(
                lambda buckets: worker.merge(task, [*files], buckets), "merge", level, stopped
            )
            return None if merged is None else self._found(level, expanded, merged, sum(files.values()))
        finally:
            exchange.tidy(self._checkpoint, level.number)

    def _half(
        self,
        work: Callable[[Iterable[int]], Iterator[str]],
        name: str,
        level: CommittedLevel,
        stopped: Callable[[], bool],
    ) -> list[dict[str, Any]] | None:
        """The reports of one half, in the order of buckets; None where it was stopped."""
        job = self._session.places(self._run.buckets).mapPartitions(work)
        texts = collect(self._session, job, f"level {level.number + 2}, {name}", lambda _: stopped())
        return None if texts is None else self._reports(texts)

    def _reports(self, texts: list[str]) -> list[dict[str, Any]]:
        """The reports of a half in the order of buckets; InternalError where one is missing or double."""
        half: dict[int, dict[str, Any]] = {}
        for text in texts:
            report = json.loads(text)
            if half.setdefault(report["bucket"], report) is not report:
                raise InternalError(f"bucket {report['bucket']} was reported twice")
        if len(half) != self._run.buckets:
            raise InternalError(f"{self._run.buckets - len(half)} buckets were not reported")
        ordered = [half[bucket] for bucket in sorted(half)]
        worker.raise_refusals(ordered)
        for report in ordered:
            if "bound" in report:
                raise self._program.bound_error(report["bound"])
        return ordered

    def _found(
        self, level: CommittedLevel, expanded: list[dict[str, Any]], merged: list[dict[str, Any]], sent: int
    ) -> NextLevel:
        if sum(r["states"] for r in expanded) != level.size:
            raise InternalError("not every state of a level was expanded")
        if sum(r["received"] for r in merged) != sent:
            raise InternalError("not every candidate that was sent was received")
        self.work.levels += 1
        self.work.sent += sent
        for report in (*expanded, *merged):
            self.work.add(report)
        parts: list[LevelFile] = []
        places: dict[str, int] = {}
        base = 0
        for report in merged:
            for name, index in report["places"].items():
                places.setdefault(name, base + index)
            if report["count"]:
                found = report["file"], report["count"], base, report["bytes"], report["checksum"]
                parts.append(LevelFile(report["bucket"], *found))
                base += report["count"]
        broken: dict[str, tuple[int, int]] = {}
        for report in expanded:
            for name, (index, instance) in report["broken"].items():
                broken[name] = min(broken.get(name, (index, instance)), (index, instance))
        stuck = [r["deadlock"] for r in expanded if r["deadlock"] >= 0]
        return NextLevel(
            tuple(parts),
            sum(r["generated"] for r in expanded),
            _sum(r["actions"] for r in expanded),
            _sum(r["cuts"] for r in expanded),
            _sum(r["premises"] for r in (*expanded, *merged)),
            places,
            broken,
            min(stuck, default=None),
        )


def _sum(lists: Any) -> list[int]:
    return [sum(column) for column in zip(*lists, strict=True)]


def shift_for(cores: int) -> int:
    """The bits that number the buckets.

    A few for each core even out; a level costs a block for each pair of buckets, so on many cores it is one.
    """
    return max(3, math.ceil(math.log2(min(4 * cores, max(256, cores)))))
