"""What the replay of a large request log takes. As a program it replays one directory, and prints that as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from docs.bench.figures import afresh, spread
from highwater.checker.base.memory import peak_memory
from highwater.traces.replay import replay
from tests.generation.requests import write_fetches

HEADING = "## Replay of request logs"
FETCHES = (200_000, 1_000_000)
"""Fetches of the generated logs; the peak of the memory is compared between them."""
REPEAT = 3


def replay_logs(directory: Path) -> dict[str, Any]:
    """Replay a directory in this process; what it took, by name."""
    started, processor = time.perf_counter(), time.process_time()
    report = replay(directory)
    return {
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - processor,
        "lines": report.figures["request log lines"],
        "explained": report.figures["messages explained"],
        "wrong": report.unexplained_count + sum(report.findings_count.values()),
        "peak": peak_memory(),
    }


def measure(directory: Path) -> dict[str, Any]:
    """Replay a directory in a process started afresh; RuntimeError where it fails or something is not explained."""
    result = afresh("requests", str(directory))
    if result["wrong"]:
        raise RuntimeError(f"{result['wrong']} messages of a generated log are not explained")
    return result


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table: logs are generated and then replayed, in processes of their own."""
    for fetches in FETCHES:
        with tempfile.TemporaryDirectory() as folder:
            write_fetches(Path(folder), fetches)
            size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
            runs = [measure(Path(folder)) for _ in range(repeat)]
        walls = spread([r["lines"] / r["seconds"] for r in runs], "{:,.0f}")
        busy = spread([r["lines"] / r["processor_seconds"] for r in runs], "{:,.0f}")
        yield (
            f"| {fetches:,} | {runs[0]['lines']:,} | {size / 1e6:.0f} MB | {runs[0]['explained']:,} | {walls} | "
            f"{busy} | {spread([r['peak'] / (1 << 20) for r in runs], '{:.0f} MiB')} |"
        )


def section(rows: list[str], machine: str) -> str:
    """The part of the page about request logs."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}.",
            "The log is a generated one (`tests.generation.requests.write_fetches`): a leader, two",
            "followers, a write for every two fetches, lines of 700 to 1,000 bytes. Each run is a process started",
            "afresh; the time is that of `replay`, reading and judging together, without the start of Python.",
            "Everything in it is explained.",
            "",
            "To reach: 30,000 lines a second, and memory that does not grow with the log.",
            "",
            "| fetches | lines | size | messages explained | lines a second | lines a second of processor time | "
            "peak memory |",
            "| ---: | ---: | ---: | ---: | --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    print(json.dumps(replay_logs(Path(sys.argv[1]))))
