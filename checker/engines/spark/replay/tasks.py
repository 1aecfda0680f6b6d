"""What Spark's Python workers do in a replay: replay an input, read a range of a log, follow a share of one.

Blocks of bytes travel: one row of Spark for all that a range has for a share. A share's rows come sorted by range, so a
worker holds one range at a time beside the share's image and tables.
"""

from __future__ import annotations

import contextlib
import json
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from highwater.checker.engines.spark.replay.tables import ReplayTables
from highwater.model.language.errors import LanguageError
from highwater.traces.inputs import Input
from highwater.traces.kafka.metadata_log import MetadataLog
from highwater.traces.metadata.replay import rarely_collected
from highwater.traces.metadata.shares.follow import ShareFollower, to_json
from highwater.traces.metadata.shares.plan import Range
from highwater.traces.metadata.shares.route import RangeHead, route
from highwater.traces.metadata.sharing import Share, Stretch
from highwater.traces.reading.errors import TraceError
from highwater.traces.replay import replay_input, replay_part

REPLAYED = "number long, report string"
ROUTED = "key long, share long, part long, head string, block binary"
FOLLOWED = "share long, found string, heads string, work string"
_ROUTED = pa.schema(
    [("key", pa.int64()), ("share", pa.int64()), ("part", pa.int64()), ("head", pa.string()), ("block", pa.binary())]
)  # fmt: skip


@dataclass(frozen=True)
class TaskSettings:
    """What holds for all tasks: the driver's working directory, by which paths are relative, and the rules."""

    directory: str
    profile: str | None
    switched: Mapping[str, bool]


def replay_inputs(
    asked: TaskSettings, inputs: list[Input], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Replay inputs by their numbers; their reports, or what is wrong with them."""
    with contextlib.chdir(asked.directory):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    report = replay_input(inputs[number], asked.profile, asked.switched)
                    said: dict[str, Any] = {"report": report.to_json()}
                except (TraceError, LanguageError) as wrong:
                    said = {"error": str(wrong)}
                columns = [pa.array([number], pa.int64()), pa.array([json.dumps(said)])]
                yield pa.record_batch(columns, names=["number", "report"])


def replay_parts(
    asked: TaskSettings, found: Input, groups: list[list[int]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Replay a cluster with some of its request logs, by the numbers of the groups; or what is wrong with them."""
    with contextlib.chdir(asked.directory):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    said = replay_part(found, asked.profile, asked.switched, groups[number], not number)
                except (TraceError, LanguageError) as wrong:
                    said = {"error": str(wrong), "path": getattr(wrong, "path", "")}
                columns = [pa.array([number], pa.int64()), pa.array([json.dumps(said)])]
                yield pa.record_batch(columns, names=["number", "report"])


def route_ranges(
    asked: TaskSettings,
    log: MetadataLog,
    parts: list[Range],
    keys: tuple[int, ...],
    spent: Callable[[dict[str, float]], None],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Read ranges by their numbers: a row for each share. Nothing in it depends on the attempt."""
    with contextlib.chdir(asked.directory):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                started = time.process_time()
                head, blocks = route(log, parts[number], len(keys))
                said = json.dumps(asdict(head))
                for share, block in enumerate(blocks):
                    columns = [[keys[share]], [share], [number], [said], [block]]
                    yield pa.record_batch(
                        [pa.array(c, f.type) for c, f in zip(columns, _ROUTED, strict=True)], schema=_ROUTED
                    )
                spent({"route": time.process_time() - started})


@dataclass(frozen=True)
class ShareTask:
    """How shares are followed: of how many, with what is known of the others, and where tables go."""

    asked: TaskSettings
    log: MetadataLog
    parts: int
    shares: int
    ends: Mapping[Stretch, int]
    out: str | None


def follow_shares(task: ShareTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Follow shares, each from its first range to its last; what they found, and what it took."""
    with contextlib.chdir(task.asked.directory), rarely_collected():
        for share, rows in groupby(_rows(batches), key=lambda row: row[0]):
            yield _follow(task, share, rows)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, str, bytes]]:
    for batch in batches:
        shares, parts = batch.column("share").to_pylist(), batch.column("part").to_pylist()
        heads, blocks = batch.column("head").to_pylist(), batch.column("block")
        for at, share in enumerate(shares):
            yield share, parts[at], heads[at], blocks[at].as_py()


def _follow(task: ShareTask, share: int, rows: Iterator[tuple[int, int, str, bytes]]) -> pa.RecordBatch:
    started, wall = time.process_time(), time.perf_counter()
    across = Share(share, task.shares, dict(task.ends))
    tables = None if task.out is None else ReplayTables(task.out, share)
    asked, size = task.asked, 0
    heads: list[dict[str, Any]] = []
    follower = ShareFollower(
        task.log,
        across,
        asked.profile,
        asked.switched,
        None if tables is None else tables.change,
        None if tables is None else tables.told,
    )
    for _, part, head, block in rows:
        if part != len(heads):
            raise RuntimeError(f"share {share} has no block of range {len(heads)}")
        heads.append(json.loads(head))
        size += len(block)
        follower.block(part, block)
    if len(heads) != task.parts:
        raise RuntimeError(f"share {share} has the blocks of {len(heads)} of {task.parts} ranges")
    found = follower.end(max(RangeHead(**head).last_time for head in heads))
    if tables is not None:
        tables.close()
    work = {
        "processor_seconds": time.process_time() - started,
        "seconds": time.perf_counter() - wall,
        "bytes": size,
        "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    said = [json.dumps(to_json(found)), json.dumps(heads) if not share else "", json.dumps(work)]
    return pa.record_batch(
        [pa.array([share], pa.int64()), *(pa.array([text]) for text in said)],
        names=["share", "found", "heads", "work"],
    )
