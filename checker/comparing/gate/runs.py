"""Running entries on all cores, in an order, within a budget, with a line of progress.

Each core has a process that runs one entry after the other: most of an entry's time is compiling, which one thread
does. Only names go to it and results come back.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from highwater.checker.base.memory import available_memory
from highwater.checker.base.problems import InternalError
from highwater.checker.comparing.gate import facts
from highwater.checker.comparing.gate.entries import GateEntry
from highwater.checker.comparing.gate.facts import Ran

_SAID = {"run": "run", "image": "of the other revision run", "fingerprint": "traced"}
_PLAIN_SECONDS = 5.0


class GateProgress:
    """Says how far the gate is: a live line in a terminal, elsewhere a line every few seconds."""

    def __init__(self, total: int, *, quiet: bool = False, word: str = "run") -> None:
        self.total, self.done, self.word = total, 0, word
        self._quiet, self._terminal = quiet, sys.stderr.isatty()
        self._started = time.perf_counter()
        self._next = 1.0

    def __call__(self, done: int, running: Sequence[str]) -> None:
        """Say it, where it is time to."""
        seconds = time.perf_counter() - self._started
        if self._quiet or (not self._terminal and seconds < self._next):
            return
        self._next = seconds + _PLAIN_SECONDS
        line = f"gate: {done} of {self.total} {self.word}, {seconds:.0f} s: {', '.join(running)}"
        if self._terminal:
            print(f"\r\033[K{line[:110]}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the live line away."""
        if self._terminal and not self._quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class GateInterrupted(Exception):
    """Ctrl-C, after which what was found so far is still told."""


def run_all(
    entries: Sequence[GateEntry],
    *,
    processes: int | None = None,
    budget: float | None = None,
    quiet: bool = False,
) -> Iterator[tuple[GateEntry, Ran | None]]:
    """Run entries in their order and give each with its result; None for those that the budget left no time for.

    Raises Interrupted where Ctrl-C ended it.
    """
    deadline = None if budget is None else time.perf_counter() + budget
    yield from _all("run", entries, processes, deadline, quiet)


def run_images(
    images: Mapping[tuple[str, str], Mapping[str, Any]],
    entries: Sequence[GateEntry],
    *,
    processes: int | None = None,
    budget: float | None = None,
    quiet: bool = False,
) -> Iterator[tuple[GateEntry, Ran | None]]:
    """Run entries as another revision has them, from their images."""
    deadline = None if budget is None else time.perf_counter() + budget
    yield from _all("image", entries, processes, deadline, quiet, images)


def fingerprints(
    entries: Sequence[GateEntry], *, processes: int | None = None, quiet: bool = False
) -> dict[tuple[str, str], str | None]:
    """The fingerprint of each entry's model."""
    return {e.key: found for e, found in _all("fingerprint", entries, processes, None, quiet)}


def _all(
    word: str,
    entries: Sequence[GateEntry],
    processes: int | None,
    deadline: float | None,
    quiet: bool,
    images: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
) -> Iterator[tuple[GateEntry, Any]]:
    count = min(len(entries), processes or len(os.sched_getaffinity(0)))
    left = list(reversed(entries))
    progress = GateProgress(len(entries), quiet=quiet, word=_SAID[word])
    done = 0
    with _workers(count) as workers:
        running: dict[Connection, GateEntry] = {}
        idle = list(workers)
        try:
            while left or running:
                while left and idle:
                    seconds = None if deadline is None else deadline - time.perf_counter()
                    if seconds is not None and seconds <= 0:
                        yield from ((entry, None) for entry in reversed(left))
                        left = []
                        break
                    connection = idle.pop()
                    entry = running[connection] = left.pop()
                    connection.send((word, entry, seconds, images and images[entry.key]))
                for ready in wait(list(running), timeout=0.5):
                    assert isinstance(ready, Connection)
                    entry = running.pop(ready)
                    try:
                        found = ready.recv()
                        idle.append(ready)
                    except (EOFError, ConnectionError):
                        found = Ran(error="the process that ran it was ended, perhaps for its memory")
                        idle.append(workers.again(ready))
                    if isinstance(found, InternalError):
                        raise found
                    done += 1
                    yield entry, found
                progress(done, [e.name for e in running.values()])
        except KeyboardInterrupt:
            raise GateInterrupted from None
        finally:
            progress.end()


class _Workers(list[Connection]):
    """The processes, by their connections."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.context = get_context("spawn")
        self.processes: dict[Connection, Any] = {}
        self.memory = int(available_memory() * 0.8) // max(1, count)
        for _ in range(count):
            self.append(self._start())

    def _start(self) -> Connection:
        here, there = self.context.Pipe()
        process = self.context.Process(target=_work, args=(there, self.memory), daemon=True)
        process.start()
        there.close()
        self.processes[here] = process
        return here

    def again(self, ended: Connection) -> Connection:
        """A process in the place of one that has ended."""
        self.processes.pop(ended).join()
        return self._start()

    def close(self) -> None:
        """End all of them, also at work."""
        for connection, process in self.processes.items():
            connection.close()
            process.terminate()
            process.join()


@contextmanager
def _workers(count: int) -> Iterator[_Workers]:
    workers = _Workers(count)
    try:
        yield workers
    finally:
        workers.close()


def _work(connection: Connection, memory_bytes: int) -> None:
    """A process: jobs come, results go. Ctrl-C is for the one that asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kinds: dict[str, Callable[..., Any]] = {
        "run": lambda entry, seconds, image: facts.run(entry, seconds, memory_bytes),
        "image": lambda entry, seconds, image: facts.run_image(image, seconds, memory_bytes),
        "fingerprint": lambda entry, seconds, image: facts.fingerprint(entry),
    }
    while True:
        try:
            word, entry, seconds, image = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            told = kinds[word](entry, seconds, image)
        except InternalError as wrong:
            told = wrong
        connection.send(told)
