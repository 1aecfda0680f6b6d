"""What the replay of a large metadata log takes. As a program it replays one log, and prints that as JSON.

The process that is measured imports nothing else, so that its memory is that of a replay.
"""

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
from highwater.traces.kafka.metadata_log import open_metadata_log
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.reports.report import Report
from tests.generation import write_log

HEADING = "## Replay of a metadata log"
REPLAYED = (1_000_000, 5_000_000)
"""Records of the generated logs; the peak of the memory is compared between them."""
REPEAT = 3


def replay_log(directory: Path) -> dict[str, Any]:
    """Replay a metadata log in this process; what it took, by name."""
    log = open_metadata_log(directory)
    report = Report(str(directory), log.kind, "")
    processor = time.process_time()
    replay_metadata(log, report)
    return {
        "seconds": report.seconds,
        "processor_seconds": time.process_time() - processor,
        "records": report.records,
        "changes": report.changes,
        "unexplained": report.unexplained_count,
        "beliefs": report.figures["beliefs"],
        "peak": peak_memory(),
    }


def measure_replay(directory: Path) -> dict[str, Any]:
    """Replay a log in a process started afresh; RuntimeError where it fails or something is not explained."""
    result = afresh("replay", str(directory))
    if result["unexplained"]:
        raise RuntimeError(f"{result['unexplained']} records of a generated log are not explained")
    return result


def rows(repeat: int) -> Iterator[str]:
    """The rows of the replay table: a log is generated and then replayed, in processes of their own."""
    for records in REPLAYED:
        with tempfile.TemporaryDirectory() as folder:
            written = write_log(Path(folder), records=records)
            size = sum(f.stat().st_size for f in Path(folder).iterdir())
            runs = [measure_replay(Path(folder)) for _ in range(repeat)]
        rates = spread([r["records"] / r["seconds"] for r in runs], "{:,.0f}")
        yield (
            f"| {written.records:,} | {size / 1e6:.0f} MB | {written.records / written.batches:.1f} | "
            f"{runs[0]['changes']:,} | {runs[0]['beliefs']:,} | {rates} | "
            f"{spread([r['processor_seconds'] for r in runs], '{:.1f} s')} | "
            f"{spread([r['peak'] / (1 << 20) for r in runs], '{:.0f} MiB')} |"
        )


def section(rows: list[str], machine: str) -> str:
    """The part of the page about replay."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}.",
            "The log is a generated one (`tests.generation.write_log`): 10,000 partitions on 12 brokers,",
            "ELR on, restarts, crashes, slow followers, reassignments. It is replayed by one process started",
            "afresh for each run; the time is that of `replay_metadata`, without the start of Python.",
            "Everything in it is explained.",
            "",
            "To reach: 200,000 records a second, and memory below 1 GiB that does not grow with the log's length.",
            "",
            "| records | size | records a batch | partition changes | beliefs | records a second | processor time | "
            "peak memory |",
            "| ---: | ---: | ---: | ---: | ---: | --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    print(json.dumps(replay_log(Path(sys.argv[1]))))
