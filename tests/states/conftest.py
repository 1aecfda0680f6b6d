"""The command `highwater states` in this process, and the shared Spark session of tests/spark."""

from __future__ import annotations

from click.testing import CliRunner

from highwater.checker.cli import cli
from tests.spark.conftest import _spark

__all__ = ["_spark"]


def run(*arguments: object) -> tuple[int, str]:
    """The exit status and the output."""
    found = CliRunner().invoke(cli, ["states", *map(str, arguments)])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.output
