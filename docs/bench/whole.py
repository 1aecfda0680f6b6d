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
SAMPLE_SECONDS = 0.02
"""How often a running command is looked at."""
_SLOWER, _LONGEST_PAUSE = 1.1, 0.5
"""How the seconds between two looks at the memory grow: such a look holds a large process up for a moment."""


@dataclass(frozen=True)
class Whole:
    """A command that has ended: seconds of wall and of processor time, bytes of memory, the end of what it said."""

    wall: float
    processor: float
    memory: int
    """The most that its processes were seen to hold at one time, shared pages counted once; 0 without /proc."""
    said: str
    marks: tuple[float | None, ...] = ()
    """For each text that was looked for in what it says, after how many seconds it was there; None: never."""


def run_whole(
    command: Sequence[str | Path],
    *,
    status: int = 0,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    marks: Sequence[str] = (),
) -> Whole:
    """Run a command to its end, and note when it says each of ``marks``.

    RuntimeError with its last lines where it does not end with the status.
    """
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
        memory = _Memory(process.pid, _Marks(output.fileno(), started, marks))
        _, ended, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(ended)
        most = memory.end()
        memory.marks.look(wall)
        output.seek(max(0, output.seek(0, os.SEEK_END) - (1 << 16)))
        said = output.read().decode("utf-8", "replace")
    if process.returncode != status:
        last = "\n".join(said.splitlines()[-20:])
        raise RuntimeError(f"{' '.join(map(str, command))} ended with status {process.returncode}:\n{last}")
    return Whole(wall, usage.ru_utime + usage.ru_stime, most, said, tuple(memory.marks.seen.values()))


class _Marks:
    """Texts that are looked for in a file that grows, and when each was there first."""

    def __init__(self, file: int, started: float, marks: Sequence[str]) -> None:
        self._file, self._started, self._read = file, started, b""
        self.seen: dict[str, float | None] = dict.fromkeys(marks)

    def look(self, now: float | None = None) -> None:
        """Read what is new; ``now`` is the time where it is known, in seconds since the start."""
        if all(seconds is not None for seconds in self.seen.values()):
            return
        self._read += os.pread(self._file, 1 << 20, len(self._read))
        for mark, seconds in self.seen.items():
            if seconds is None and mark.encode() in self._read:
                self.seen[mark] = time.perf_counter() - self._started if now is None else now


class _Memory:
    """Looks at a process and all below it again and again, on a thread of its own; and at what it says."""

    def __init__(self, pid: int, marks: _Marks) -> None:
        self._pid, self._most, self._ended = pid, 0, threading.Event()
        self.marks = marks
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        pause, due = SAMPLE_SECONDS, time.perf_counter()
        while not self._ended.wait(SAMPLE_SECONDS):
            self.marks.look()
            if time.perf_counter() >= due:
                self._most = max(self._most, sum(map(_held_by, tree(self._pid))))
                pause = min(pause * _SLOWER, _LONGEST_PAUSE)
                due = time.perf_counter() + pause

    def end(self) -> int:
        """The most that was seen, in bytes."""
        self._ended.set()
        self._thread.join()
        return self._most


def tree(pid: int) -> Iterator[int]:
    """A process, and all that it or one below it has started and that have not ended."""
    yield pid
    try:
        tasks = sorted((_PROC / str(pid) / "task").iterdir())
    except OSError:  # it has ended meanwhile
        return
    for task in tasks:
        try:
            below = (task / "children").read_text(encoding="ascii").split()
        except OSError:  # this thread has
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
