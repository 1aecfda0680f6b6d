"""A job of Spark's, run beside the thread that asked for it: watched, cancelled, and started again."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from highwater.checker.asking.search import EngineError
from highwater.checker.engines.spark.session import SparkConnection, cause

_REFRESH = 0.2
_ATTEMPTS = 3
"""Jobs for one frame, beside the attempts that Spark gives each task."""
Watch = Callable[[str], bool]


def collect(session: SparkConnection, frame: Any, what: str, watch: Watch) -> list[Any] | None:
    """The rows of a frame; None where the job was cancelled. ``what`` it is about is told to Spark, and in errors.

    ``watch`` is called again and again with the name of the job's group, and says whether to cancel it. A job that
    Spark gives up because of the cluster is started again, so what its tasks leave must not depend on the attempt.
    Raises EngineError where Spark gives up all the same.
    """
    context = session.context

    def rows(group: str) -> list[Any]:
        context.setJobGroup(group, what, interruptOnCancel=True)
        return list(frame.collect())

    with ThreadPoolExecutor(1, thread_name_prefix="spark-job") as pool:
        for attempt in range(1, _ATTEMPTS + 1):
            group = f"highwater-{uuid.uuid4().hex}"
            job, cancelled = pool.submit(rows, group), False
            while not job.done():
                wait([job], timeout=_REFRESH)
                if watch(group):
                    # Again and again: the job may not have begun yet.
                    cancelled = True
                    context.cancelJobGroup(group)
            wrong = job.exception()
            if cancelled:
                return None
            if wrong is None:
                return job.result()
            if attempt == _ATTEMPTS or not may_pass(wrong):
                raise EngineError(f"Spark gave up on {what}: {cause(wrong)}") from None
    raise AssertionError


def may_pass(wrong: BaseException) -> bool:
    """Whether an error is of the cluster and not of the program: a lost executor, blocks that are gone."""
    return "PythonException" not in f"{type(wrong).__name__} {wrong}" and "SparkException" in str(wrong)


class Seconds:
    """Adds up seconds by name, for Spark's accumulators (its AccumulatorParam, without its import)."""

    def zero(self, value: dict[str, float]) -> dict[str, float]:
        """Nothing yet."""
        return {}

    def addInPlace(self, value: dict[str, float], more: dict[str, float]) -> dict[str, float]:
        """Both together."""
        for key, spent in more.items():
            value[key] = value.get(key, 0.0) + spent
        return value
