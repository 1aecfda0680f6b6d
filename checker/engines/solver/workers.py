"""Questions to the solver side by side, each in a process of its own.

Every question starts from the same memory, a copy of this process: so what the solver answers does not depend
on which questions were asked before it, or on how many processes there are.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def answers(
    tasks: Sequence[Task], ask: Callable[[Task], Answer], workers: int
) -> Iterator[tuple[Task, Answer]]:
    """Ask a question about each task, and give the answers as they come in.

    Answers have to be plain data. What a question raises is raised here, and the others are given up. With one
    worker, or where a process cannot be copied, they are asked in this one, one after the other.
    """
    if workers <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from ((task, ask(task)) for task in tasks)
        return
    fork = multiprocessing.get_context("fork")
    waiting = list(tasks)[::-1]
    running: dict[Connection, tuple[Task, BaseProcess]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                task = waiting.pop()
                ours, theirs = fork.Pipe(duplex=False)
                process: BaseProcess = fork.Process(target=_answer, args=(ask, task, theirs), daemon=True)
                process.start()
                theirs.close()
                running[ours] = task, process
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                task, process = running.pop(ready)
                try:
                    answer, wrong = ready.recv()
                except EOFError:
                    answer, wrong = None, RuntimeError(f"the process of {task} ended without an answer")
                process.join()
                ready.close()
                if wrong is not None:
                    raise wrong
                yield task, answer
    finally:
        for connection, (_, process) in running.items():
            process.terminate()
            process.join()
            connection.close()


def _answer(ask: Callable[[Task], Answer], task: Task, connection: Connection) -> None:
    try:
        result: tuple[Answer | None, BaseException | None] = ask(task), None
    except KeyboardInterrupt:
        return  # the process that asks was interrupted too
    except Exception as wrong:
        result = None, wrong
    connection.send(result)
    connection.close()
