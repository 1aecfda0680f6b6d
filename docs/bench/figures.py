"""What benchmarks measure, and how a figure that was measured several times is written.

As a program it runs one command of ``highwater`` and writes down the most memory that the process had.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwater.checker.base.memory import peak_memory


@dataclass(frozen=True)
class Run:
    """One process: seconds from start to end, processor seconds with its children, peak resident bytes, its results."""

    wall: float
    processor: float
    peak: int
    results: list[dict[str, Any]]


def measure(arguments: Sequence[str], status: int = 0) -> Run:
    """Run ``highwater`` once, in a process started afresh; RuntimeError where it does not end with the status."""
    with tempfile.TemporaryDirectory() as folder:
        output, memory = Path(folder) / "result.json", Path(folder) / "peak"
        options = [*arguments, "--quiet", "--json", str(output)]
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "docs.bench.figures", str(memory), *options],
            stdout=subprocess.DEVNULL,
        )
        _, ended, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(ended)
        if process.returncode != status:
            raise RuntimeError(f"highwater {' '.join(options)} ended with status {process.returncode}")
        peak = int(memory.read_text(encoding="ascii"))
        results = json.loads(output.read_text(encoding="utf-8"))
    return Run(wall, usage.ru_utime + usage.ru_stime, peak, results)


def afresh(part: str, *arguments: str) -> dict[str, Any]:
    """What a part of the benchmarks measures in a process started afresh, by name: the last line that it writes.

    RuntimeError where it fails.
    """
    command = [sys.executable, "-m", f"docs.bench.{part}", *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def spread(values: Sequence[float], form: str) -> str:
    """The median of some runs, and the least and the most of them; ``form`` is a format with its unit behind it."""
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    number = form.split("}")[0] + "}"
    return f"{middle} ({number.format(min(values))} to {number.format(max(values))}, {len(values)} runs)"


def _main(memory: str, *arguments: str) -> None:
    from highwater.checker.cli import cli

    try:
        cli(arguments, prog_name="highwater")
    finally:
        Path(memory).write_text(str(peak_memory()), encoding="ascii")


if __name__ == "__main__":
    _main(*sys.argv[1:])
