"""Measure one command: wall time, processor time, the memory of all its processes, and its JSON result."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HIGHWATER = (sys.executable, "-m", "highwater")
_PROC = Path("/proc")
_SHORTEST_PAUSE, _LONGEST_PAUSE, _SLOWER = 0.02, 0.5, 1.1
"""The shortest and the longest seconds between two memory samples, and their growth factor.

Sampling stops a large process for a moment."""


@dataclass(frozen=True)
class Run:
    """A command that has ended: seconds of wall and processor time, the end of its output, and its results."""

    wall: float
    processor: float
    memory: int
    """The most bytes that its processes held at one time (proportional set size); 0 without /proc."""
    output: str
    results: tuple[dict[str, Any], ...] = ()


def run(
    command: Sequence[str | Path],
    status: int = 0,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Run a command to its end. Raises RuntimeError, with the last lines, if the exit status is not ``status``."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=directory,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        memory = _Memory(process.pid)
        _, ended, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(ended)
        most = memory.end()
        output.seek(max(0, output.seek(0, os.SEEK_END) - (1 << 16)))
        text = output.read().decode("utf-8", "replace")
    if process.returncode != status:
        last = "\n".join(text.splitlines()[-20:])
        raise RuntimeError(f"{' '.join(map(str, command))} ended with status {process.returncode}:\n{last}")
    return Run(wall, usage.ru_utime + usage.ru_stime, most, text)


def highwater(arguments: Sequence[str], status: int = 0, environment: Mapping[str, str] | None = None) -> Run:
    """Run a command of ``highwater`` and read its JSON result. Raises the RuntimeError of ``run``."""
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as folder:
        result = Path(folder) / "result.json"
        line = [*HIGHWATER, *arguments, "--quiet", "--json", str(result)]
        ended = run(line, status, environment=environment)
        found = json.loads(result.read_text(encoding="utf-8"))
        results = found if isinstance(found, list) else [found]
    return Run(ended.wall, ended.processor, ended.memory, ended.output, tuple(results))


def follow(log: Path, idle: float = 10.0) -> Run:
    """Follow a log to its end, and ``idle`` seconds longer.

    The result has the number of records, the processor seconds until all records were followed, and the share of a
    core that the idle follower takes. Raises RuntimeError if the follower ends by itself.
    """
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as folder:
        metrics, started = Path(folder) / "metrics", time.perf_counter()
        process = subprocess.Popen(
            [*HIGHWATER, "replay", "--follow", str(log), "--metrics", str(metrics), "--quiet"],
            stdin=subprocess.DEVNULL,
        )
        memory, records, busy, since = _Memory(process.pid), 0, 0.0, started
        try:
            while not records or time.perf_counter() - since < idle:
                time.sleep(0.1)
                if process.poll() is not None:
                    raise RuntimeError(f"the follower ended with status {process.returncode}")
                if (now := _followed(metrics)) != records:
                    records, busy, since = now, _processor(process.pid), time.perf_counter()
            share = (_processor(process.pid) - busy) / (time.perf_counter() - since)
        finally:
            process.terminate()
            process.wait()
            most = memory.end()
    return Run(since - started, busy, most, "", ({"records": records, "seconds": busy, "idle": share},))


def _followed(metrics: Path) -> int:
    """The records that were followed, by the follower's metrics; 0 before it writes them."""
    found = re.search(
        r"^highwater_records (\S+)", metrics.read_text() if metrics.exists() else "", re.MULTILINE
    )
    return int(float(found[1])) if found else 0


def _processor(pid: int) -> float:
    """The processor time of a process so far, in seconds."""
    fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Memory:
    """A thread that samples the memory of a process and of all its descendants."""

    def __init__(self, pid: int) -> None:
        self._pid, self._most, self._ended = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        pause = _SHORTEST_PAUSE
        while not self._ended.wait(pause):
            self._most = max(self._most, sum(map(_resident, descendants(self._pid))))
            pause = min(pause * _SLOWER, _LONGEST_PAUSE)

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        return self._most


def descendants(pid: int) -> Iterator[int]:
    """The ids of a process and of all its running descendants."""
    yield pid
    try:
        tasks = sorted((_PROC / str(pid) / "task").iterdir())
    except OSError:  # the process has ended
        return
    for task in tasks:
        try:
            children = (task / "children").read_text(encoding="ascii").split()
        except OSError:  # the thread has ended
            continue
        for child in children:
            yield from descendants(int(child))


def _resident(pid: int) -> int:
    try:
        rollup = (_PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def spread(values: Sequence[float], form: str) -> str:
    """The median, the minimum and the maximum of the values, as text. ``form`` is a number format and a unit."""
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    number = form.split("}")[0] + "}"
    return f"{middle} ({number.format(min(values))} to {number.format(max(values))})"


def machine() -> str:
    """The processor, memory and load of this machine, and the Python version, as text."""
    model = next((v for k, v in _table("/proc/cpuinfo") if k == "model name"), platform.processor())
    total = next((int(v.split()[0]) for k, v in _table("/proc/meminfo") if k == "MemTotal"), 0)
    return (
        f"{len(os.sched_getaffinity(0))} cores of {model}, {total / (1 << 20):.0f} GiB of memory, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )


def _table(path: str) -> Iterator[tuple[str, str]]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        return
    for line in text.splitlines():
        key, _, value = line.partition(":")
        yield key.strip(), value.strip()
