"""A pool of processes that run jobs in parallel, and a process that answers lines by lines.

A process of a pool runs one job after another, and may report the progress of each. A terminal's Ctrl-C reaches only
the parent process. ``Pool.interrupt`` interrupts the running jobs, which may then answer with a partial result. If a
job raises an exception, the exception is the job's answer. All processes and their children end with the pool, even
busy ones, and also if the parent process is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import subprocess
import threading
import traceback
from collections import deque
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
    """A process of a pool ended before it answered."""


class News(NamedTuple, Generic[Job]):
    """A message about a job: its progress or, with ``done``, its answer, which may be an exception."""

    job: Job
    value: Any
    done: bool


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool(Generic[Job]):
    """Processes that run jobs: ``do(job, say)`` returns the answer to a job, and ``say`` reports its progress.

    ``do``, jobs, progress and answers are sent between processes, so they must be picklable. With ``forked`` the
    processes are forks of this process, and ``do`` need not be picklable. With ``copied`` each job runs in its own
    fork, so no answer depends on earlier jobs.
    """

    def __init__(
        self, do: Callable[[Job, Say], object], *, copied: bool = False, forked: bool = False
    ) -> None:
        self._do, self._copied = do, copied
        self._context: Any = multiprocessing.get_context("fork" if copied or forked else "spawn")
        self._processes: dict[Connection, BaseProcess] = {}
        self._interrupted = False
        self._under_way: dict[Connection, Job] = {}

    def run(self, jobs: Iterable[Job], count: int, every: float | None = None) -> Iterator[News[Job] | None]:
        """Run jobs in ``count`` processes and yield their messages.

        If ``every`` is given, also yield None after each ``every`` seconds without a message. The next of ``jobs`` is
        computed when a process is free. Raises ProcessEnded if no process can be started.
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
        for connection in list(self._processes):
            self._end(connection)

    def __enter__(self) -> Pool[Job]:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _hear(self, connection: Connection, left: Iterator[Job]) -> Iterator[News[Job]]:
        """Receive a message from a process and yield it. Then give a free process a job, or replace an ended one."""
        ended: ProcessEnded | None = None
        try:
            value, done = connection.recv()
        except (EOFError, OSError):
            value = ended = ProcessEnded("a process was ended at its work, perhaps for its memory")
            done = True
        began = connection in self._under_way
        if began:
            job = self._under_way.pop(connection) if done else self._under_way[connection]
            yield News(job, value, done)
        if ended or (began and done and self._copied):
            self._end(connection)
            if began:
                self._start()
            elif ended and not self._processes:
                raise ended
        elif done:
            self._give(connection, left)

    def _give(self, connection: Connection, left: Iterator[Job]) -> None:
        """Send a process the next job; if no job is left, end the process."""
        for job in left:
            self._under_way[connection] = job
            if self._interrupted:
                self._interrupt(connection)
            with suppress(OSError):  # the process has ended: ``_hear`` finds out next
                connection.send(job)
            return
        self._end(connection)

    def _interrupt(self, connection: Connection) -> None:
        process = self._processes.get(connection)
        if process is not None and process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGINT)

    def _start(self) -> None:
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
                with suppress(ProcessLookupError):  # the process has not created its process group yet
                    os.killpg(process.pid, signal.SIGTERM)
            process.terminate()
            process.join()


def answers(
    tasks: Sequence[Job], ask: Callable[[Job], Answer], processes: int
) -> Iterator[tuple[Job, Answer]]:
    """Call ``ask`` for each task in a fork of this process; yield each task with its answer, as answers arrive.

    The first exception of a task is raised here and ends the other tasks; an unexpected exception is raised as
    InternalError. If ``processes`` is 1, or the system has no fork, the tasks run in this process, in order, and
    raise their own exceptions.
    """
    if processes <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from ((task, ask(task)) for task in tasks)
        return
    with Pool[Job](lambda task, say: ask(task), copied=True) as pool:
        for news in pool.run(tasks, min(processes, len(tasks))):
            assert news is not None
            if isinstance(news.value, BaseException):
                raise news.value
            yield news.job, news.value


class _Interruption:
    """Handles SIGINT in a process of a pool: one signal ends the running job and every later job."""

    def __init__(self) -> None:
        self.came = False
        self._under_way = False
        signal.signal(signal.SIGINT, self._handle)
        os.setpgid(0, 0)  # a terminal's Ctrl-C then reaches only the parent, which forwards it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _handle(self, number: int, frame: object) -> None:
        self.came = True
        if self._under_way:
            raise KeyboardInterrupt

    @contextmanager
    def possible(self) -> Iterator[None]:
        """While inside, Ctrl-C raises KeyboardInterrupt; an earlier Ctrl-C raises it on entry."""
        self._under_way = True
        try:
            if self.came:
                raise KeyboardInterrupt
            yield
        finally:
            self._under_way = False


def _serve(do: Callable[[Job, Say], object], connection: Connection) -> None:
    """The main loop of a process: report that it is ready, then receive jobs and send progress and answers."""
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    collect_garbage_rarely()
    interruption = _Interruption()
    with suppress(EOFError, OSError):
        connection.send((None, True))
        while True:
            job = connection.recv()
            answer: object = KeyboardInterrupt()
            with suppress(KeyboardInterrupt), interruption.possible():
                answer = _answer(do, job, lambda value: connection.send((value, False)))
            connection.send((answer, True))


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(0, signal.SIGKILL)


def _answer(do: Callable[[Job, Say], object], job: Job, say: Say) -> object:
    """The answer to a job, or the exception that it raised.

    A package that cannot be imported becomes an InputError, and any other unexpected exception an InternalError.
    """
    try:
        return do(job, say)
    except (HighwaterError, InternalError, MemoryError) as wrong:
        return wrong
    except Exception as wrong:
        if (missing := missing_library(wrong)) is not None:
            return InputError(missing)
        return InternalError(str(wrong) or type(wrong).__name__, {"traceback": traceback.format_exc()})


_WAITING = 16
"""The lines of the output that may wait to be received. A process that writes more has to wait."""


class JsonProcess:
    """A running command. Threads write its input and read its output, so no call waits longer than its timeout.

    ``max_line`` is the most bytes of a line of the output; a longer line is divided. Raises OSError if the command
    cannot be started.
    """

    def __init__(self, command: Sequence[str], max_line: int = -1) -> None:
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C does not reach it, and ``close`` also ends its children
        )
        self._max_line, self._printed = max_line, deque[str](maxlen=1000)
        self._to = queue.SimpleQueue[bytes | None]()
        self._from = queue.Queue[bytes](_WAITING)
        self._closed = False
        targets = (self._write, self._read, self._listen)
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    def send(self, line: bytes) -> None:
        """Send a line without its end. It is written as soon as the process reads it."""
        self._to.put(line + b"\n")

    def receive(self, timeout: float | None = None) -> bytes:
        """The next line of the output; empty if the output has ended. Raises TimeoutError after ``timeout`` seconds."""
        try:
            line = self._from.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None
        if not line:
            self._from.put(b"")  # for later calls
        return line

    def status(self, seconds: float) -> int | None:
        """The exit status; None if the process does not end within ``seconds``."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def printed(self) -> list[str]:
        """The last lines of the standard error."""
        self._threads[2].join(0.05)  # until the last lines of an ended process have been read
        return list(self._printed)

    def close(self, grace: float = 0.0) -> None:
        """Close the input, wait ``grace`` seconds, then kill the process with all processes that it started."""
        self._to.put(None)
        try:
            self.status(grace)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self._closed = True
            for thread in self._threads:
                thread.join(1)
            with self._from.mutex:
                self._from.queue.clear()
            self._from.put(b"")

    def _write(self) -> None:
        assert self.process.stdin
        with suppress(OSError), self.process.stdin as stream:
            while (line := self._to.get()) is not None:
                stream.write(line)
                stream.flush()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as stream:
            while line := stream.readline(self._max_line):
                self._pass_on(line)
        self._pass_on(b"")

    def _pass_on(self, line: bytes) -> None:
        """Put a line where ``receive`` finds it. Waits until there is room, but not after ``close``."""
        while not self._closed:
            with suppress(queue.Full):
                self._from.put(line, timeout=0.1)
                return

    def _listen(self) -> None:
        assert self.process.stderr
        with self.process.stderr as stream:
            while line := stream.readline(1000):
                self._printed.append(line.decode(errors="replace").strip())
