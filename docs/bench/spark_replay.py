"""What the replay of a large log takes on Spark: ``python -m docs.bench --only spark-replay``."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from docs.bench.figures import afresh, spread
from highwater.checker.engines.spark.replay import SparkReplay
from highwater.checker.engines.spark.session import close, session
from highwater.traces.inputs import inputs
from tests.generation import write_log

RECORDS = 5_000_000
MASTER = "local[2]"
REPEAT = 3


def measure(directory: Path, master: str) -> dict[str, Any]:
    """Replay a log in as many shares as the master has cores; what it took, without the start of Spark."""
    engine = SparkReplay(session(master), None, {}, large=0)
    (report,) = engine.replay(inputs([directory]).found)
    work = engine.work
    close()
    return {
        "seconds": report.seconds,
        "records": report.records,
        "unexplained": report.unexplained_count,
        "following": work.following,
        "resident": work.resident,
    }


def lines(repeat: int = REPEAT, master: str = MASTER) -> list[str]:
    """The figures as lines: medians with the least and the most, each run by a driver started afresh."""
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder), records=RECORDS)
        runs = [afresh("spark_replay", folder, master) for _ in range(repeat)]
    if any(run["unexplained"] for run in runs):
        raise RuntimeError("records of a generated log are not explained")
    return [
        f"{runs[0]['records']:,} records on {master}, {len(runs[0]['following'])} shares, {repeat} runs",
        f"records a second: {spread([r['records'] / r['seconds'] for r in runs], '{:,.0f}')}",
        f"seconds: {spread([r['seconds'] for r in runs], '{:.1f}')}",
        f"processor seconds, longest share: {spread([max(r['following']) for r in runs], '{:.1f}')}",
        f"most memory of a Python worker, MiB: {spread([r['resident'] / (1 << 20) for r in runs], '{:.0f}')}",
    ]


if __name__ == "__main__":
    click.echo(json.dumps(measure(Path(sys.argv[1]), sys.argv[2])))
