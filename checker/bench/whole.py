"""A whole command as its user waits for it: wall time, processor time, and the memory of all its processes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_FIRST_SAMPLE, _SLOWER, _LAST_SAMPLE = 0.02, 1.1, 0.5
"""Seconds between two looks at the memory, and how they grow: a look holds a large process up for a moment."""


@dataclass(frozen=True)
class Whole:
    """A command that has ended: seconds of wall and of processor time, bytes of memory, the end of what it said."""

    wall: float
    processor: float
    memory: int
    """The most that its processes were seen to hold at one time, shared pages counted once; 0 without /proc."""
    said: str


def run_whole(
    command: Sequence[str | Path],
    *,
    status: int = 0,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Whole:
    """Run a command to its end. RuntimeError with its last lines where it does not end with the status."""
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
        said = output.read().decode("utf-8", "replace")
    if process.returncode != status:
        last = "\n".join(said.splitlines()[-20:])
        raise RuntimeError(f"{' '.join(map(str, command))} ended with status {process.returncode}:\n{last}")
    return Whole(wall, usage.ru_utime + usage.ru_stime, most, said)


class _Memory:
    """Looks at a process and all below it again and again, on a thread of its own."""

    def __init__(self, pid: int) -> None:
        self._pid, self._most, self._ended = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        pause = _FIRST_SAMPLE
        while not self._ended.wait(pause):
            self._most = max(self._most, sum(map(_held_by, tree(self._pid))))
            pause = min(pause * _SLOWER, _LAST_SAMPLE)

    def end(self) -> int:
        """The most that was seen, in bytes."""
        self._ended.set()
        self._thread.join()
        return self._most


def tree(pid: int) -> Iterator[int]:
    """A process, and all that it or one below it has started and that have not ended."""
    yield pid
    for children in (_PROC / str(pid) / "task").glob("*/children"):
        try:
            below = children.read_text(encoding="ascii").split()
        except OSError:  # it has ended meanwhile
            continue
        for child in below:
            yield from tree(int(child))


def _held_by(pid: int) -> int:
    """A process's proportional share of the pages that it has: one that several share is divided among them."""
    try:
        rollup = (_PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


__all__ = ["Whole", "run_whole", "tree"]
