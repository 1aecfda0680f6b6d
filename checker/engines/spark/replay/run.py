"""Replay on Spark: many inputs, one a task; a large metadata log in shares of its partitions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.checker.asking.search import EngineError
from highwater.checker.base.problems import InputError
from highwater.checker.engines.spark.jobs import Seconds, collect
from highwater.checker.engines.spark.partition import partition_keys
from highwater.checker.engines.spark.replay import tasks as replay_tasks
from highwater.checker.engines.spark.session import SparkConnection
from highwater.traces.inputs import METADATA_LOG, Input
from highwater.traces.kafka.metadata_log import MetadataLog, can_be_divided, open_metadata_log
from highwater.traces.messages.nodes import SharedNode, divided, in_order
from highwater.traces.messages.request_replay import joined
from highwater.traces.metadata.shares.follow import ShareResult, from_json
from highwater.traces.metadata.shares.plan import MAX_RANGE, Range, ranges
from highwater.traces.metadata.shares.replay import Ends, Unreadable, replay_shares
from highwater.traces.metadata.shares.route import RangeHead
from highwater.traces.reports.report import Report

LARGE = 32 << 20
"""A log of at least so many bytes is divided, unless there are enough inputs for all cores without it."""
Progress = Callable[[str], None]


class ReplayInterrupted(Exception):
    """The replay was asked to stop."""


@dataclass
class ReplayTotals:
    """What the tasks of a divided log said of themselves: processor seconds, bytes that travelled, memory."""

    routing: float = 0.0
    following: list[float] = field(default_factory=list)
    bytes: int = 0
    resident: int = 0


class SparkReplay:
    """Replays on a session. ``stopped`` is asked whether to go on, ``progress`` is told how far it is."""

    def __init__(
        self,
        session: SparkConnection,
        profile: str | None,
        switched: Mapping[str, bool],
        progress: Progress | None = None,
        stopped: Callable[[], bool] = lambda: False,
        shares: int | None = None,
        range_bytes: int = MAX_RANGE,
        large: int = LARGE,
    ) -> None:
        self._session, self._progress, self._stopped = session, progress, stopped
        self._asked = replay_tasks.TaskSettings(os.getcwd(), profile, dict(switched))
        self._shares, self._range_bytes, self._large = shares or session.cores, range_bytes, large
        self.work = ReplayTotals()

    def replay(self, found: Sequence[Input], out: str | None = None) -> Iterator[Report]:
        """The reports of the inputs, in their order. Raises InputError, TraceError, EngineError, Interrupted.

        ``out`` is a directory for tables; each log of several gets one below it.
        """
        logs = {i: log for i in found if (log := self._divisible(i, len(found), out)) is not None}
        requests = [i for i in found if self._has_many_requests(i, len(found))]
        small = [i for i in found if i not in logs and i not in requests]
        reports: dict[Input, dict[str, Any]] = {}
        if small:
            reports = dict(zip(small, self._many(small), strict=True))
        for number, one in enumerate(found):
            if one in logs:
                below = out if out is None or len(found) == 1 else str(Path(out) / f"{number:05}")
                yield self._divided(one, logs[one], below)
            elif one in requests:
                yield self._by_nodes(one)
            else:
                yield _report(reports[one])

    def _divisible(self, one: Input, inputs: int, out: str | None) -> MetadataLog | None:
        """The log of an input that is divided; None where it is replayed by one task."""
        if one.kind != METADATA_LOG or one.broker_logs or one.data_dumps or one.request_logs:
            if out is not None:
                raise InputError(f"{one.path}: --out is for metadata logs without logs of brokers")
            return None
        if out is None and inputs >= 4 * self._session.cores:
            return None
        log = open_metadata_log(one.path)
        if not can_be_divided(log):
            if out is not None:
                raise InputError(
                    f"{one.path}: --out is for metadata logs that are no dumps and not compressed"
                )
            return None
        return log if out is not None or log.bytes_total >= self._large else None

    def _has_many_requests(self, one: Input, inputs: int) -> bool:
        """Whether the request logs of an input are divided among tasks."""
        size = sum(path.stat().st_size for path in one.request_logs)
        return inputs < 4 * self._session.cores and len(one.request_logs) > 1 and size >= self._large

    def _by_nodes(self, one: Input) -> Report:
        """A cluster by a task for each group of nodes: each follows the metadata log and the controllers' requests."""
        started, asked = time.perf_counter(), self._asked
        paths = in_order(one.request_logs)
        groups = divided(paths, self._shares)
        numbers = self._session.sql.range(0, len(groups), 1, len(groups))
        frame = numbers.mapInArrow(
            lambda batches: replay_tasks.replay_parts(asked, one, groups, batches), replay_tasks.REPLAYED
        )
        rows = self._collect(frame, f"{one.path.name}: request logs")
        said = {row.number: json.loads(row.report) for row in rows}
        parts = [said[number] for number in range(len(groups))]
        wrong = {part["path"]: part["error"] for part in parts if "error" in part}
        if wrong:
            # The one that a replay of all of them would have come to first.
            order = {str(path): number for number, path in enumerate(paths)}
            raise InputError(wrong[min(wrong, key=lambda path: order.get(path, -1))])
        try:
            report = joined(one.request_logs, parts)
        except SharedNode:
            return _report(self._many([one])[0])
        report.notes[:0] = one.notes
        report.seconds = time.perf_counter() - started
        return report

    def _many(self, found: list[Input]) -> list[dict[str, Any]]:
        asked, sql = self._asked, self._session.sql
        numbers = sql.range(0, len(found), 1, min(len(found), 16 * self._session.cores))
        frame = numbers.mapInArrow(
            lambda batches: replay_tasks.replay_inputs(asked, found, batches), replay_tasks.REPLAYED
        )
        rows = self._collect(frame, f"{len(found)} inputs")
        said = {row.number: json.loads(row.report) for row in rows}
        return [said[number] for number in range(len(found))]

    def _divided(self, one: Input, log: MetadataLog, out: str | None) -> Report:
        started = time.perf_counter()
        try:
            report, own = replay_shares(
                log, ranges(log, self._range_bytes), lambda parts, ends: self._run(log, parts, ends, out)
            )
        except Unreadable as wrong:
            if out is not None:
                raise InputError(str(wrong)) from None
            # Up to where it can be read, by one task: shares know nothing of each other's damage.
            return _report(self._many([one])[0])
        finally:
            # Of attempts that were lost or interrupted.
            for file in Path(out).glob("*/.part-*") if out is not None else ():
                file.unlink(missing_ok=True)
        if out is not None:
            from highwater.checker.engines.spark.replay.tables import ReplayTables

            tables = ReplayTables(out, None)
            for line in own:
                tables.told(line)
            tables.close()
        report.notes[:0] = one.notes
        report.seconds = time.perf_counter() - started
        return report

    def _run(
        self, log: MetadataLog, parts: Sequence[Range], ends: Ends, out: str | None
    ) -> tuple[list[RangeHead], list[ShareResult]]:
        asked, count, listed = self._asked, self._shares, list(parts)
        keys = partition_keys(count)
        spent = self._session.context.accumulator({}, Seconds())
        task = replay_tasks.ShareTask(asked, log, len(parts), count, dict(ends), out)
        routed = self._session.sql.range(0, len(parts), 1, len(parts)).mapInArrow(
            lambda batches: replay_tasks.route_ranges(asked, log, listed, keys, spent.add, batches),
            replay_tasks.ROUTED,
        )
        arrived = routed.repartition(count, "key").sortWithinPartitions("share", "part")
        frame = arrived.mapInArrow(
            lambda batches: replay_tasks.follow_shares(task, batches), replay_tasks.FOLLOWED
        )
        rows = sorted(self._collect(frame, log.path.name), key=lambda row: row.share)
        if [row.share for row in rows] != list(range(count)):
            raise EngineError(f"{len(rows)} of {count} shares were reported")
        self.work = ReplayTotals(spent.value.get("route", 0.0))
        for work in (json.loads(row.work) for row in rows):
            self.work.following.append(work["processor_seconds"])
            self.work.bytes += work["bytes"]
            self.work.resident = max(self.work.resident, work["resident"])
        heads = [RangeHead(**head) for head in json.loads(rows[0].heads)]
        return heads, [from_json(json.loads(row.found)) for row in rows]

    def _collect(self, frame: Any, what: str) -> list[Any]:
        """The rows of a job. Raises Interrupted, EngineError."""

        def watch(group: str) -> bool:
            if self._stopped():
                return True
            if self._progress is not None:
                self._progress(f"{what}: {self._done(group)}")
            return False

        rows = collect(self._session, frame, what, watch)
        if rows is None:
            raise ReplayInterrupted
        return rows

    def _done(self, group: str) -> str:
        """How many tasks of the group's job are done."""
        tracker = self._session.context.statusTracker()
        done = total = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                found = tracker.getStageInfo(stage)
                if found is not None:
                    done += found.numCompletedTasks
                    total += found.numTasks
        return f"{done} of {total} tasks"


def _report(said: dict[str, Any]) -> Report:
    """A report that a task gave. Raises InputError."""
    if "error" in said:
        raise InputError(said["error"])
    return Report.from_json(said["report"])
