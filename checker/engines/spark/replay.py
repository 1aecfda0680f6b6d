"""Replay of many inputs on Spark: one input a task, by the usual replay."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from highwater.checker.base.problems import InputError
from highwater.checker.engines.spark.session import SparkConnection, collect
from highwater.checker.scenarios.search import EngineError
from highwater.model.language import LanguageError
from highwater.traces.inputs import Input
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay_input
from highwater.traces.reports.report import Report

ANSWERS = "number long, answer binary"


class ReplayInterrupted(Exception):
    """The replay was interrupted."""


def replay(
    session: SparkConnection,
    found: Sequence[Input],
    profile: str | None,
    switched: Mapping[str, bool],
    progress: Callable[[str], None],
    stopped: Callable[[], bool],
) -> Iterator[Report]:
    """Yield the report of each input, in order. ``switched`` are rules that override the profile's.

    Raises InputError if an input cannot be replayed, EngineError if Spark fails, and ReplayInterrupted if ``stopped``
    returned True.
    """
    what = f"{len(found)} inputs"

    def watch(group: str) -> bool:
        progress(f"{what}: {_done(session, group)}")
        return stopped()

    work = functools.partial(_replay_one, os.getcwd(), list(found), profile, dict(switched))
    numbers = session.sql.range(0, len(found), 1, min(len(found), 16 * session.cores))
    rows = collect(session, numbers.mapInArrow(work, ANSWERS), what, watch)
    if rows is None:
        raise ReplayInterrupted
    answers: dict[int, Report | str] = {row.number: pickle.loads(row.answer) for row in rows}
    if len(answers) != len(found):
        raise EngineError(f"{len(answers)} of {len(found)} tasks answered")
    for number in range(len(found)):
        answer = answers[number]
        if isinstance(answer, str):
            raise InputError(answer)
        yield answer


def _done(session: SparkConnection, group: str) -> str:
    """The number of finished tasks and of all tasks in the group, as text."""
    tracker = session.context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            found = tracker.getStageInfo(stage)
            if found is not None:
                done += found.numCompletedTasks
                total += found.numTasks
    return f"{done} of {total} tasks"


def _replay_one(
    directory: str,
    inputs: list[Input],
    profile: str | None,
    switched: Mapping[str, bool],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The task function: yield the pickled report, or the message of the error, for the number of each input.

    The paths of inputs are relative to ``directory``.
    """
    with contextlib.chdir(directory):
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer: Any
                try:
                    answer = replay_input(inputs[number], profile, switched)
                except (TraceError, LanguageError) as wrong:
                    answer = str(wrong)
                columns = [pa.array([number], pa.int64()), pa.array([pickle.dumps(answer)], pa.binary())]
                yield pa.record_batch(columns, names=["number", "answer"])
