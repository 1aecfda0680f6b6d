"""What the replay of large request logs, and of raft logs, takes.

As a program it replays one, and prints that as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from docs.bench.figures import afresh, spread
from highwater.checker.base.memory import peak_memory
from highwater.traces.messages.raft_replay import replay_raft
from highwater.traces.replay import replay

HEADING = "## Replay of request logs and raft logs"
FETCHES = (100_000, 1_000_000)
"""Lines of fetches of the generated logs; the peak of the memory is compared between them."""
CLUSTERS = "traces/kafka-4.2/clusters"
RECORDING, RAFT = "mixed-requests-elr-4", "raft3-elr"
REPEAT = 1


def replay_logs(directory: Path) -> dict[str, Any]:
    """Replay a directory in this process; what it took, by name."""
    started, processor = time.perf_counter(), time.process_time()
    report = replay(directory)
    return {
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - processor,
        "lines": report.figures["request log lines"],
        "fetches": report.figures["messages explained: send_fetch"],
        "explained": report.figures["messages explained"],
        "changes": report.changes,
        "wrong": report.unexplained_count + sum("line" in f.position for f in report.findings),
        "peak": peak_memory(),
    }


def replay_quorum(directory: Path) -> dict[str, Any]:
    """Replay raft logs in this process, twice: the second time the model's actions are traced already."""
    files, times = sorted(directory.glob("node*/raft.log.gz")), []
    for _ in range(2):
        processor = time.process_time()
        report = replay_raft(files)
        times.append(time.process_time() - processor)
    return {"lines": report.operations, "first": times[0], "second": times[1], "peak": peak_memory()}


def measure(directory: Path) -> dict[str, Any]:
    """Replay a directory in a process started afresh; RuntimeError where it fails or something is not explained."""
    result = afresh("requests", str(directory))
    if result["wrong"]:
        raise RuntimeError(f"{result['wrong']} messages of a generated log are not explained")
    return result


def by_the_model(directory: Path, fetches: int) -> None:
    """A log of runs of the model."""
    from tests.generation.laps import write_runs

    write_runs(directory, fetches)


def by_repetition(directory: Path, fetches: int) -> None:
    """A recorded cluster again and again."""
    from tests import recordings
    from tests.generation.repeated import Repeated

    repeated = Repeated(recordings.folder(CLUSTERS) / RECORDING)
    repeated.write(directory, -(-fetches // repeated.fetches))


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table: logs are generated and then replayed, in processes of their own."""
    kinds: dict[str, Callable[[Path, int], None]] = {
        "runs of the model": by_the_model,
        f"`{RECORDING}` repeated": by_repetition,
    }
    for name, write in kinds.items():
        for fetches in FETCHES:
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder), fetches)
                size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
                runs = [measure(Path(folder)) for _ in range(repeat)]
            yield _row(name, size, runs)
    yield _raft_row()


def _row(name: str, size: int, runs: list[dict[str, Any]]) -> str:
    one = runs[0]
    walls = spread([r["lines"] / r["seconds"] for r in runs], "{:,.0f}")
    busy = spread([r["lines"] / r["processor_seconds"] for r in runs], "{:,.0f}")
    peak = spread([r["peak"] / (1 << 20) for r in runs], "{:.0f} MiB")
    return (
        f"| {name} | {one['lines']:,} | {one['fetches']:,} | {one['changes']:,} | {size / 1e6:,.0f} MB | "
        f"{one['explained']:,} | {walls} | {busy} | {peak} | {os.getloadavg()[0]:.0f} |"
    )


def _raft_row() -> str:
    from tests import recordings

    found = afresh("requests", "--raft", str(recordings.folder(CLUSTERS) / RAFT / "logs"))
    first, second = (found["lines"] / found[n] for n in ("first", "second"))
    return (
        f"| raft logs of `{RAFT}` | {found['lines']:,} | | | | | | {second:,.0f}, the first time "
        f"{first:,.0f} | {found['peak'] / (1 << 20):.0f} MiB | {os.getloadavg()[0]:.0f} |"
    )


def section(rows: list[str], machine: str) -> str:
    """The part of the page about request logs and raft logs."""
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}.",
            "Two kinds of generated logs. Runs of the replication model, one behind the other",
            "(`tests.generation.laps`): four partitions on twelve brokers; in one run of twenty something goes wrong.",
            "And a recorded cluster again and again, with all that its clients asked (`tests.generation.repeated`).",
            "Each run is a process started afresh; the time is that of `replay`, reading and judging together.",
            "Every message is explained. *Fetches* are those of replicas; *load* is how many processes wanted one of",
            "the cores when the run was over.",
            "",
            "To reach: 30,000 lines a second, and memory that does not grow with the log.",
            "",
            "| log | lines | fetches | changes of partitions | size | messages explained | lines a second | "
            "lines a second of processor time | peak memory | load |",
            "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- | ---: |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    asked = replay_quorum(Path(sys.argv[2])) if sys.argv[1] == "--raft" else replay_logs(Path(sys.argv[1]))
    print(json.dumps(asked))
