"""Replay on Spark: many inputs, one per task; or one large log, whose partitions are divided into shares.

Every task runs the usual replay, on an input or on a metadata log with a filter of partitions
(``traces/metadata/shares.py``). The driver joins the results of all shares into one report.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checker.base.problems import InputError
from highwater.checker.engines.spark.session import SparkConnection, collect
from highwater.checker.scenarios.search import EngineError
from highwater.model.language.errors import LanguageError
from highwater.traces.inputs import METADATA_LOG, Input
from highwater.traces.kafka.metadata_log import MetadataLog, open_metadata_log
from highwater.traces.metadata.shares import ShareFollower, ShareResult, Unreadable, replay_shares
from highwater.traces.metadata.sharing import Share, Stretch
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay_input
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.observed import PartitionChange, PartitionState
from highwater.traces.reports.report import Report

LARGE = 32 << 20
"""A log is divided if it has at least this many bytes, and if other inputs do not keep all cores busy.

With tables (``out``), every log is divided.
"""
ANSWERS = "number long, answer binary"
Progress = Callable[[str], None]
Work = Callable[[int], Any]
"""The function that a task runs on a number. Its result can be pickled."""


class ReplayInterrupted(Exception):
    """The replay was interrupted."""


@dataclass(frozen=True)
class TaskSettings:
    """The settings of all tasks: the driver's working directory (for relative paths), profile, and switched rules."""

    directory: str
    profile: str | None
    switched: Mapping[str, bool]


class SparkReplay:
    """Replays inputs in a Spark session.

    - ``switched``: rules that override the profile's
    - ``progress``: called with a line of text
    - ``stopped``: returns True to stop the replay
    - ``shares``: the number of shares of a divided log; None: one per core
    - ``large``: a log with fewer bytes is not divided, except for tables
    """

    def __init__(
        self,
        session: SparkConnection,
        profile: str | None,
        switched: Mapping[str, bool],
        progress: Progress | None = None,
        stopped: Callable[[], bool] = lambda: False,
        shares: int | None = None,
        large: int = LARGE,
    ) -> None:
        self._session, self._progress, self._stopped = session, progress, stopped
        self._settings = TaskSettings(os.getcwd(), profile, dict(switched))
        self._shares, self._large = shares or session.cores, large

    def replay(self, found: Sequence[Input], out: str | None = None) -> Iterator[Report]:
        """Yield the report of each input, in order.

        ``out`` is a directory for tables. With several inputs, each log has a subdirectory. Raises InputError or
        TraceError if an input cannot be replayed, EngineError if Spark fails, and ReplayInterrupted if ``stopped``
        returned True.
        """
        logs = {i: log for i in found if (log := self._divisible(i, len(found), out)) is not None}
        small = [i for i in found if i not in logs]
        reports: dict[Input, dict[str, Any]] = {}
        if small:
            reports = dict(zip(small, self._many(small), strict=True))
        for number, one in enumerate(found):
            if one in logs:
                below = out if out is None or len(found) == 1 else str(Path(out) / f"{number:05}")
                yield self._in_shares(one, logs[one], below)
            else:
                yield _report(reports[one])

    def _divisible(self, one: Input, inputs: int, out: str | None) -> MetadataLog | None:
        """The metadata log of an input that is worth dividing into shares; None if one task should replay the input.

        ``inputs`` is the number of all inputs. Raises InputError if tables are requested (``out``), but the input is
        not a metadata log alone.
        """
        if one.kind != METADATA_LOG or one.broker_logs or one.data_dumps or one.request_logs:
            if out is not None:
                raise InputError(f"{one.path}: --out is for metadata logs without logs of brokers")
            return None
        if out is None and inputs >= 4 * self._session.cores:
            return None
        log = open_metadata_log(one.path)
        return log if out is not None or log.bytes_total >= self._large else None

    def _many(self, found: list[Input]) -> list[dict[str, Any]]:
        work = functools.partial(_replay_one, self._settings, found)
        return self._run(work, len(found), f"{len(found)} inputs")

    def _in_shares(self, one: Input, log: MetadataLog, out: str | None) -> Report:
        started = time.perf_counter()

        def run(ends: Mapping[Stretch, int]) -> list[ShareResult]:
            work = functools.partial(_follow_share, self._settings, log, self._shares, dict(ends), out)
            return self._run(work, self._shares, log.path.name)

        try:
            report, own = replay_shares(log, run)
        except Unreadable as wrong:
            if out is not None:
                raise InputError(str(wrong)) from None
            # One task replays the log up to the damage, because shares cannot coordinate.
            return _report(self._many([one])[0])
        finally:
            # Remove the files of attempts that were lost or interrupted.
            for file in Path(out).glob("*/.part-*") if out is not None else ():
                file.unlink(missing_ok=True)
        if out is not None:
            tables = ReplayTables(out, None)
            for line in own:
                tables.add_line(line)
            tables.close()
        report.notes[:0] = one.notes
        report.seconds = time.perf_counter() - started
        return report

    def _run(self, work: Work, count: int, what: str) -> list[Any]:
        """Run ``work`` on the numbers below ``count`` as a Spark job, and return the results in order.

        ``what`` describes the job in Spark, in progress and in errors. Raises ReplayInterrupted if ``stopped``
        returned True, and EngineError if the job fails.
        """

        def watch(group: str) -> bool:
            if self._stopped():
                return True
            if self._progress is not None:
                self._progress(f"{what}: {self._done(group)}")
            return False

        directory, sql = self._settings.directory, self._session.sql
        numbers = sql.range(0, count, 1, min(count, 16 * self._session.cores))
        frame = numbers.mapInArrow(lambda batches: answered(work, directory, batches), ANSWERS)
        rows = collect(self._session, frame, what, watch)
        if rows is None:
            raise ReplayInterrupted
        answers = {row.number: pickle.loads(row.answer) for row in rows}
        if len(answers) != count:
            raise EngineError(f"{len(answers)} of {count} tasks answered")
        return [answers[number] for number in range(count)]

    def _done(self, group: str) -> str:
        """The number of finished tasks and of all tasks in the group, as text."""
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
    """The report in a task's result. Raises InputError if the task could not replay its input."""
    if "error" in said:
        raise InputError(said["error"])
    return Report.from_json(said["report"])


# --- tasks ----------------------------------------------------------------------------------------


def answered(work: Work, directory: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Call ``work`` with each number of a task, in the driver's working directory, and yield the pickled results."""
    with contextlib.chdir(directory):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                columns = [
                    pa.array([number], pa.int64()),
                    pa.array([pickle.dumps(work(number))], pa.binary()),
                ]
                yield pa.record_batch(columns, names=["number", "answer"])


def _replay_one(settings: TaskSettings, inputs: list[Input], number: int) -> dict[str, Any]:
    try:
        return {"report": replay_input(inputs[number], settings.profile, settings.switched).to_json()}
    except (TraceError, LanguageError) as wrong:
        return {"error": str(wrong)}


def _follow_share(
    settings: TaskSettings,
    log: MetadataLog,
    shares: int,
    ends: Mapping[Stretch, int],
    out: str | None,
    number: int,
) -> ShareResult:
    """Replay share ``number`` of a log that is divided into ``shares`` shares.

    ``ends`` has the offsets at which decisions end, joined from an earlier pass of all shares (``join_reaches``); empty
    in the first pass.
    """
    tables = None if out is None else ReplayTables(out, number)
    listeners = (None, None) if tables is None else (tables.add_change, tables.add_line)
    share = Share(number, shares, dict(ends))
    found = ShareFollower(log, share, settings.profile, settings.switched, *listeners).replay()
    if tables is not None:
        tables.close()
    return found


# --- tables ---------------------------------------------------------------------------------------

_IDS = pa.list_(pa.int32())
_STATE = pa.struct(
    [
        *((name, _IDS) for name in ("replicas", "isr", "elr", "last_known_elr", "adding", "removing")),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("partition_epoch", pa.int32()),
        ("leader_recovery_state", pa.string()),
    ]
)
SCHEMAS = {
    "changes": pa.schema(
        [
            ("offset", pa.int64()),
            ("time", pa.timestamp("ms", "UTC")),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("cause", pa.string()),
            ("min_isr", pa.int32()),
            ("unclean_election", pa.bool_()),
            ("before", _STATE),
            ("after", _STATE),
        ]
    ),
    "findings": pa.schema(
        [
            ("offset", pa.int64()),
            ("time", pa.timestamp("ms", "UTC")),
            ("partition", pa.string()),
            ("rule", pa.string()),
            ("property", pa.string()),
            ("kip", pa.string()),
            ("certain", pa.bool_()),
            ("reliable", pa.bool_()),
            ("summary", pa.string()),
            ("at_risk", pa.string()),
        ]
    ),
    "unexplained": pa.schema(
        [
            ("offset", pa.int64()),
            ("time", pa.timestamp("ms", "UTC")),
            ("partition", pa.string()),
            ("nearest", pa.string()),
            ("refused_by", pa.list_(pa.string())),
            ("reliable", pa.bool_()),
            ("before", pa.string()),
            ("candidates", pa.string()),
        ]
    ),
}
"""The columns of each table. In ``unexplained``, ``before`` and ``candidates`` are JSON, as in the report."""
GROUP = 20_000
"""The number of rows that are written together."""


class ReplayTables:
    """Writes the tables of a replay: the files of one share, or the driver's files (``share`` None).

    A file gets its final name when it is complete.
    """

    def __init__(self, directory: str, share: int | None) -> None:
        self._parts = {
            name: _Part(Path(directory) / name, schema, "last" if share is None else f"{share:05}")
            for name, schema in SCHEMAS.items()
        }

    def add_change(self, change: PartitionChange) -> None:
        """Add a row for a change of a partition's state."""
        same = ("time", "topic", "partition", "cause", "min_isr", "unclean_election")
        row: dict[str, Any] = {name: getattr(change, name) for name in same}
        states = {"before": _state(change.before), "after": _state(change.after)}
        self._parts["changes"].add({"offset": change.position, **row, **states})

    def add_line(self, line: Unexplained | Finding) -> None:
        """Add a row for a finding, or for a change that does not conform."""
        row = {"offset": line.position["offset"], "time": line.time, "partition": line.partition}
        row["reliable"] = line.reliable
        if isinstance(line, Finding):
            for name in ("rule", "property", "kip", "certain", "summary", "at_risk"):
                row[name] = getattr(line, name)
            self._parts["findings"].add(row)
            return
        nearest = line.candidates[0] if line.candidates else None
        row["nearest"] = None if nearest is None else nearest.action
        row["refused_by"] = [] if nearest is None else list(nearest.refused_by)
        row["before"] = json.dumps(dict(line.before))
        row["candidates"] = json.dumps([c.to_json() for c in line.candidates])
        self._parts["unexplained"].add(row)

    def close(self) -> None:
        """Write the remaining rows, and give the files their final names."""
        for part in self._parts.values():
            part.close()


def _state(state: PartitionState | None) -> dict[str, Any] | None:
    return None if state is None else {field.name: getattr(state, field.name) for field in _STATE}


class _Part:
    def __init__(self, directory: Path, schema: pa.Schema, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"part-{name}.parquet"
        # Another attempt at the same share may be running.
        self._unfinished = directory / f".part-{name}-{uuid.uuid4().hex}"
        self._schema, self._rows = schema, list[dict[str, Any]]()
        self._writer = pq.ParquetWriter(self._unfinished, schema, compression="zstd")

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= GROUP:
            self._write()

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []

    def close(self) -> None:
        if self._rows:
            self._write()
        self._writer.close()
        os.replace(self._unfinished, self._path)
