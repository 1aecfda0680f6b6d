"""Large levels: one job of Spark's with two halves and one shuffle of blocks between them.

``home`` has a row a bucket, held by the executors. ``expand`` reads the states of a bucket, makes their
successors unique and sends one block for each bucket they fall into. Blocks are shuffled by bucket and joined
with ``home``, so that a bucket is merged where its table is. ``merge`` drops what the table has, judges and
writes the rest. What both halves counted comes back as reports.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from highwater.checker.search import EngineError
from highwater.checker.spark import worker
from highwater.checker.spark.checkpoint import Checkpoint, Level, Part, Run
from highwater.checker.spark.driver import Found
from highwater.checker.spark.jobs import Seconds, collect
from highwater.checker.spark.program import RowProgram
from highwater.checker.spark.session import Session

_EXPANDING = "key long, report string, rows binary"
_MERGING = "report string"


@dataclass
class Work:
    """What the tasks said of themselves, summed over all levels: seconds by kind, rows, memory."""

    seconds: dict[str, float] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
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
        self.sent += report.get("sent", 0)
        self.received += report.get("received", 0)
        self.caught_up += report.get("caught_up", 0)
        self.written += report.get("bytes", 0)
        self.resident = max(self.resident, report.get("resident", 0))
        self.tables = max(self.tables, report.get("tables", 0))


class Cluster:
    """Expands levels on a session."""

    def __init__(
        self, session: Session, program: RowProgram, checkpoint: Checkpoint, run: Run, table_bytes: int
    ) -> None:
        self._session, self._program = session, program
        self._checkpoint, self._run, self._table_bytes = checkpoint, run, table_bytes
        self.work = Work()

    def expand(self, level: Level, known: int, stopped: Callable[[], bool]) -> Found | None:
        """The level after one; None where the search was stopped meanwhile. Raises BoundError, EngineError."""
        home, keys = self._session.home(self._run.shift)
        task = worker.LevelTask(
            str(self._checkpoint.directory.resolve()),
            self._run,
            level.number,
            known,
            keys,
            self._table_bytes,
        )
        count = self._run.buckets
        spent = self._session.context.accumulator({}, Seconds())
        blocks = home.mapInArrow(lambda batches: worker.expand(task, batches, spent.add), _EXPANDING)
        arrived = blocks.repartition(count, "key").join(home.hint("shuffle_hash"), "key")
        merged = arrived.mapInArrow(lambda batches: worker.merge(task, batches), _MERGING)
        # Nothing of a level that is not committed counts, so it can be done again as a whole.
        rows = collect(self._session, merged, f"level {level.number + 2}", lambda _: stopped())
        if rows is None:
            return None
        self.work.add({"half": "expand", "seconds": spent.value})
        return self._found(level, self._reports([row.report for row in rows]))

    def _reports(self, texts: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The reports of both halves in the order of buckets; EngineError where one is missing or double."""
        halves: dict[str, dict[int, dict[str, Any]]] = {"expand": {}, "merge": {}}
        for text in texts:
            report = json.loads(text)
            half = halves[report["half"]]
            if half.setdefault(report["bucket"], report) is not report:
                raise EngineError(f"bucket {report['bucket']} was reported twice")
        for half in halves.values():
            if len(half) != self._run.buckets:
                raise EngineError(f"{self._run.buckets - len(half)} buckets were not reported")
        ordered = tuple([half[b] for b in sorted(half)] for half in halves.values())
        for report in (r for half in ordered for r in half):
            if "failure" in report:
                raise EngineError(f"a task of Spark's failed: {report['failure']}")
            if "bound" in report:
                raise self._program.bound_error(report["bound"])
        return ordered[0], ordered[1]

    def _found(self, level: Level, halves: tuple[list[dict[str, Any]], list[dict[str, Any]]]) -> Found:
        expanded, merged = halves
        if sum(r["states"] for r in expanded) != level.size:
            raise EngineError("not every state of a level was expanded")
        self.work.levels += 1
        for report in (*expanded, *merged):
            self.work.add(report)
        if self.work.received != self.work.sent:
            raise EngineError("not every candidate that was sent was received")
        parts: list[Part] = []
        places: dict[str, int] = {}
        base = 0
        for report in merged:
            for name, index in report["places"].items():
                places.setdefault(name, base + index)
            if report["count"]:
                parts.append(Part(report["bucket"], report["file"], report["count"], base))
                base += report["count"]
        stuck = [r["deadlock"] for r in expanded if r["deadlock"] >= 0]
        return Found(
            tuple(parts),
            sum(r["generated"] for r in expanded),
            _sum(r["actions"] for r in expanded),
            _sum(r["cuts"] for r in expanded),
            _sum(r["premises"] for r in merged),
            places,
            min(stuck, default=None),
        )


def _sum(lists: Any) -> list[int]:
    return [sum(column) for column in zip(*lists, strict=True)]


def shift_for(cores: int) -> int:
    """The bits that number the buckets.

    A few for each core even out; a level costs a block for each pair of buckets, so on many cores it is one.
    """
    return max(3, math.ceil(math.log2(min(4 * cores, max(256, cores)))))
