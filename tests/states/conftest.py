"""The command `highwater states` in this process, and the shared Spark session of tests/spark."""

from __future__ import annotations

from tests.command import highwater
from tests.spark.conftest import _spark

__all__ = ["_spark"]


def run(*arguments: object) -> tuple[int, str]:
    """The exit status and the output."""
    found = highwater("states", *arguments)
    return found.status, found.output
