"""Jobs done side by side by processes: one way to begin, to be interrupted, to fail and to end.

A process takes job after job, and may say something of each on the way. Ctrl-C is for the process that asks: a
terminal's does not reach the others, and ``Pool.interrupt`` ends the jobs that are under way, which may answer with
what they have. What a job raises is its answer. All processes end with the pool, at work or not, with what they have
started, and also where the process that asks is killed.
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
    """A process that had a job was ended from outside: nobody knows what would have come of it."""


class News(NamedTuple, Generic[Job]):
    """What a job says on the way; with ``done`` its answer, an exception where it raised one."""

    job: Job
    said: Any
    done: bool


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool(Generic[Job]):
    """Processes that do jobs: ``do(job, say)`` gives the answer to one. Jobs, and all that is said, are plain data.

    ``do`` is a function of a module, or a partial one: processes are started anew. With ``copied`` each job has a copy
    of this process instead, so that ``do`` can be anything, and no answer depends on what was done before it.
    """

    def __init__(self, do: Callable[[Job, Say], object], *, copied: bool = False) -> None:
        self._do, self._copied = do, copied
        self._context: Any = multiprocessing.get_context("fork" if copied else "spawn")
        self._processes: dict[Connection, BaseProcess] = {}
        self._lock, self._closed, self._interrupted = threading.Lock(), False, False
        self._under_way: dict[Connection, Job] = {}

    def run(self, jobs: Iterable[Job], count: int, every: float | None = None) -> Iterator[News[Job] | None]:
        """Do jobs, so many at a time, and give their news as they come in; None after so many seconds without any.

        A job is asked for when a process is free. Raises ProcessEnded where no process can be started.
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
        """The jobs that processes are at."""
        return list(self._under_way.values())

    def interrupt(self) -> None:
        """Ask for what was found: KeyboardInterrupt is raised in all jobs that are under way, or begin later."""
        self._interrupted = True
        for connection in list(self._under_way):
            self._interrupt(connection)

    def close(self) -> None:
        """End all processes, also at work."""
        with self._lock:
            self._closed = True
        for connection in list(self._processes):
            self._end(connection)

    def __enter__(self) -> Pool[Job]:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _hear(self, connection: Connection, left: Iterator[Job]) -> Iterator[News[Job]]:
        """What a process has to say; its next job, where it is free."""
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
        """The next job to a process; without one it is not needed any more."""
        for job in left:
            self._under_way[connection] = job
            if self._interrupted:
                self._interrupt(connection)
            with suppress(OSError):  # it has ended: the next that is heard of it
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
            # Inherited, so that a Ctrl-C does not end it before it can say what is to happen then.
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
    """Ask about each task in a copy of this process, and give the answers as they come in.

    What a question raises is raised here, a defect as InternalError, and the others are given up. With one process, or
    where none can be copied, they are asked in this one, one after the other.
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
    """Ctrl-C in a process of a pool: it ends the job that is under way, or else the next one before it begins."""

    def __init__(self) -> None:
        self.came = False
        self._under_way = False
        signal.signal(signal.SIGINT, self._handle)
        os.setpgid(0, 0)  # so that a terminal's is for the process that asks, which passes it on
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _handle(self, number: int, frame: object) -> None:
        self.came = True
        if self._under_way:
            raise KeyboardInterrupt

    @contextmanager
    def possible(self) -> Iterator[None]:
        """Inside, it raises KeyboardInterrupt."""
        self._under_way = True
        try:
            if self.came:
                raise KeyboardInterrupt
            yield
        finally:
            self._under_way = False


def _serve(do: Callable[[Job, Say], object], connection: Connection) -> None:
    """What a process does: it says that it is ready, and then jobs come, and what is said of them goes."""
    threading.Thread(target=_end_with_the_one_that_asks, daemon=True).start()
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


def _end_with_the_one_that_asks() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)


def _answer(do: Callable[[Job, Say], object], job: Job, say: Say) -> object:
    """The answer to a job; an exception where something is wrong with it, or with us."""
    try:
        return do(job, say)
    except (HighwaterError, InternalError, MemoryError) as wrong:
        return wrong
    except Exception as wrong:
        if (missing := missing_library(wrong)) is not None:
            return InputError(missing)
        return InternalError(str(wrong) or type(wrong).__name__, {"traceback": traceback.format_exc()})
