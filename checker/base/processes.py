"""Jobs done side by side by processes: how they start, are interrupted, fail and end.

A process takes job after job, and may report the progress of each. A terminal's Ctrl-C reaches only the parent
process. ``Pool.interrupt`` ends the running jobs, which may answer with what they have so far. If a job raises an
exception, that is its answer. All processes end with the pool, busy or not, with their own children, and also if the
parent is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NamedTuple, TypeVar

from highwater.checker.base.memory import collect_garbage_rarely
from highwater.checker.base.problems import InputError, InternalError, missing_library
from highwater.errors import HighwaterError

Job = TypeVar("Job")
Answer = TypeVar("Answer")
Say = Callable[[object], None]


class ProcessEnded(HighwaterError):
    """A process was ended from outside while it had a job, so the job has no answer."""


class News(NamedTuple, Generic[Job]):
    """A message about a job: its progress or, with ``done``, its answer or the exception that it raised."""

    job: Job
    said: Any
    done: bool


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool(Generic[Job]):
    """Processes that do jobs: ``do(job, say)`` returns the answer to a job, and ``say`` reports its progress.

    Jobs, progress and answers are plain data. ``do`` is a function of a module, or a partial of one, because
    processes are started anew. With ``copied`` each job has a copy of this process instead, so ``do`` can be any
    function, and no answer depends on earlier jobs.
    """

    def __init__(self, do: Callable[[Job, Say], object], *, copied: bool = False) -> None:
        self._do, self._copied = do, copied
        self._context: Any = multiprocessing.get_context("fork" if copied else "spawn")
        self._processes: dict[Connection, BaseProcess] = {}
        self._lock, self._closed, self._interrupted = threading.Lock(), False, False
        self._under_way: dict[Connection, Job] = {}

    def run(self, jobs: Iterable[Job], count: int, every: float | None = None) -> Iterator[News[Job] | None]:
        """Do jobs in ``count`` processes, and yield their messages; None after ``every`` seconds without a message.

        The next job is taken when a process is free. Raises ProcessEnded if no process can be started.
        """
        left = iter(jobs)
        for _ in range(count):
            self._start()
        while self._processes:
            ready = wait(list(self._processes), every)
            if not ready:
                yield None
            for connection in ready:
                assert isinstance(connection, Connection)
                yield from self._hear(connection, left)

    def under_way(self) -> list[Job]:
        """The jobs that are running."""
        return list(self._under_way.values())

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in all jobs that are running or begin later."""
        self._interrupted = True
        for connection in list(self._under_way):
            self._interrupt(connection)

    def close(self) -> None:
        """End all processes, even busy ones."""
        with self._lock:
            self._closed = True
        for connection in list(self._processes):
            self._end(connection)

    def __enter__(self) -> Pool[Job]:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _hear(self, connection: Connection, left: Iterator[Job]) -> Iterator[News[Job]]:
        """Receive a message of a process, and give it its next job if it is free."""
        ended: ProcessEnded | None = None
        try:
            said, done = connection.recv()
        except (EOFError, OSError):
            said = ended = ProcessEnded("a process was ended at its work, perhaps for its memory")
            done = True
        began = connection in self._under_way
        if began:
            job = self._under_way.pop(connection) if done else self._under_way[connection]
            yield News(job, said, done)
        if ended or (began and done and self._copied):
            self._end(connection)
            if began:
                self._start()
            elif ended and not self._processes and not self._closed:
                raise ended
        elif done:
            self._give(connection, left)

    def _give(self, connection: Connection, left: Iterator[Job]) -> None:
        """Give a process its next job; if there is none, end the process."""
        for job in left:
            self._under_way[connection] = job
            if self._interrupted:
                self._interrupt(connection)
            with suppress(OSError):  # it has ended: the next message says so
                connection.send(job)
            return
        self._end(connection)

    def _interrupt(self, connection: Connection) -> None:
        process = self._processes.get(connection)
        if process is not None and process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGINT)

    def _start(self) -> None:
        with self._lock:
            if self._closed:
                return
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_serve, args=(self._do, theirs), daemon=True)
            # The child inherits the mask, so a Ctrl-C does not end it before its handler is set.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
            self._processes[ours] = process

    def _end(self, connection: Connection) -> None:
        process = self._processes.pop(connection, None)
        if process is not None:
            if process.exitcode is None and process.pid is not None:
                with suppress(ProcessLookupError):  # it has no group of its own yet
                    os.killpg(process.pid, signal.SIGTERM)
            process.terminate()
            process.join()


def answers(
    tasks: Sequence[Job], ask: Callable[[Job], Answer], processes: int
) -> Iterator[tuple[Job, Answer]]:
    """Call ``ask`` for each task in a copy of this process, and yield the answers as they arrive.

    The first exception is raised here and ends the other tasks; a defect is raised as InternalError. With one
    process, or on a system that cannot copy a process, the tasks run in this process, one after the other.
    """
    if processes <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from ((task, ask(task)) for task in tasks)
        return
    with Pool[Job](lambda task, say: ask(task), copied=True) as pool:
        for news in pool.run(tasks, min(processes, len(tasks))):
            assert news is not None
            if isinstance(news.said, BaseException):
                raise news.said
            yield news.job, news.said


class _Interruption:
    """Handles Ctrl-C in a process of a pool: it ends the running job, or else the next one before it begins."""

    def __init__(self) -> None:
        self.came = False
        self._under_way = False
        signal.signal(signal.SIGINT, self._handle)
        os.setpgid(0, 0)  # so that a terminal's reaches only the parent, which passes it on
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _handle(self, number: int, frame: object) -> None:
        self.came = True
        if self._under_way:
            raise KeyboardInterrupt

    @contextmanager
    def possible(self) -> Iterator[None]:
        """While inside, Ctrl-C raises KeyboardInterrupt."""
        self._under_way = True
        try:
            if self.came:
                raise KeyboardInterrupt
            yield
        finally:
            self._under_way = False


def _serve(do: Callable[[Job, Say], object], connection: Connection) -> None:
    """The loop of a process: report readiness, then receive jobs and send progress and answers."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    collect_garbage_rarely()
    interruption = _Interruption()
    with suppress(EOFError, OSError):
        connection.send((None, True))
        while True:
            job = connection.recv()
            answer: object = KeyboardInterrupt()
            with suppress(KeyboardInterrupt), interruption.possible():
                answer = _answer(do, job, lambda said: connection.send((said, False)))
            connection.send((answer, True))


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)


def _answer(do: Callable[[Job, Say], object], job: Job, say: Say) -> object:
    """The answer to a job, or the exception that the job raised. A defect becomes an InternalError."""
    try:
        return do(job, say)
    except (HighwaterError, InternalError, MemoryError) as wrong:
        return wrong
    except Exception as wrong:
        if (missing := missing_library(wrong)) is not None:
            return InputError(missing)
        return InternalError(str(wrong) or type(wrong).__name__, {"traceback": traceback.format_exc()})
