"""Distribute scenarios to processes, the smallest first: later scenarios skip the mutants that one has killed.

Liveness comes after all safety properties, as it costs a graph for each mutant. The scenario that a report names as
the first to kill does not depend on the number of processes: no scenario before it is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.base.problems import InputError
from highwater.checker.base.processes import Pool, Say
from highwater.checker.comparing.mutation.examining import Examination, MutantResult
from highwater.checker.engines.native.search import search
from highwater.model.language.errors import LanguageError
from highwater.model.language.mutation import Mutant

SIZE, SAFETY, LIVENESS = "size", "safety", "liveness"
"""The parts of a scenario: count its states; compare its mutants by safety properties and counts; by liveness."""


@dataclass(frozen=True)
class Task:
    """One part of a scenario: its known results, and the mutants that are ``killed`` already."""

    scenario: str
    part: str
    limit_states: int | None
    only: tuple[str, ...] = ()
    digest: str | None = None
    known: dict[int, MutantResult] = field(default_factory=dict)
    killed: frozenset[Mutant] = frozenset()
    memory_bytes: int | None = None
    states: int | None = None


@dataclass(frozen=True)
class TaskResult:
    """A message of a task: first its mutants and the actions that each changes; then results, a few at a time.

    ``states`` None after a SIZE task: more than the limit. ``left_out``: the scenario could not be compared.
    """

    mutants: dict[int, Mutant] | None = None
    actions: dict[int, frozenset[str]] | None = None
    digest: str | None = None
    results: dict[int, MutantResult] | None = None
    states: int | None = None
    note: str | None = None
    left_out: bool = False
    done: bool = False
    seconds: float = 0.0


def perform(task: Task, send: Callable[[TaskResult], None]) -> None:
    """Do one task."""
    started = time.process_time()
    note, states, left_out = None, None, False
    try:
        request = Request.of(scenarios.find(task.scenario), Overrides()).without_symmetry()
        if task.part == SIZE:
            states = _states(request, task)
        else:
            note = _compare(Examination(request, task.memory_bytes, task.states), task, send)
    except (InputError, LanguageError) as wrong:
        note, left_out = f"left out: {wrong}", True
    seconds = time.process_time() - started
    send(TaskResult(states=states, note=note, left_out=left_out, done=True, seconds=seconds))


def _compare(examination: Examination, task: Task, send: Callable[[TaskResult], None]) -> str | None:
    digest = f"{examination.digest} {task.limit_states} {task.memory_bytes}"
    actions = examination.model.actions_of
    send(TaskResult(examination.mutants, actions, digest))
    known = task.known if task.digest == digest else {}
    numbers = [
        number
        for number, mutant in examination.mutants.items()
        if is_wanted(mutant, actions[number], task.only) and mutant not in task.killed
    ]
    send(TaskResult(results={n: known[n] for n in numbers if n in known}))
    if not (left := [n for n in numbers if n not in known]):
        return None
    compare = examination.liveness if task.part == LIVENESS else examination.safety
    sender = _Sender(send)
    try:
        return compare(left, sender, task.limit_states)
    finally:
        sender.flush()


def _states(request: Request, task: Task) -> int | None:
    """The number of states of a scenario; None if there are more than the limit."""
    options = SearchOptions(
        workers=1,
        limit_states=task.limit_states,
        memory_bytes=task.memory_bytes,
        on_disk=False,
        all_states=True,
    )
    result = search(request.model(), options)
    return result.distinct_states if result.complete else None


def is_wanted(mutant: Mutant, actions: frozenset[str], only: Sequence[str]) -> bool:
    """Whether a mutant is of one of these places (``FILE:LINE``, ``FILE``) or actions; without any, all are."""
    if not only:
        return True
    file, _, line = mutant.place.rpartition(":")
    for one in only:
        name, _, number = one.rpartition(":")
        if one in actions or file == one or file.endswith(f"/{one}"):
            return True
        is_file = bool(name) and (file == name or file.endswith(f"/{name}"))
        if is_file and number.isdigit() and int(line) <= int(number) <= mutant.last:
            return True
    return False


class _Sender:
    """Sends results twice a second."""

    def __init__(self, send: Callable[[TaskResult], None]) -> None:
        self._send = send
        self._held: dict[int, MutantResult] = {}
        self._last = time.monotonic()

    def __call__(self, number: int, result: MutantResult) -> None:
        self._held[number] = result
        if time.monotonic() - self._last > 0.5:
            self.flush()

    def flush(self) -> None:
        """Send the results that are held."""
        if self._held:
            self._send(TaskResult(results=dict(self._held)))
        self._held.clear()
        self._last = time.monotonic()


def distribute(tasks: Sequence[Callable[[], Task]], processes: int) -> Iterator[tuple[int, TaskResult]]:
    """Do tasks in their order, in this number of processes; yields each message with its task's number.

    A task is made when a process is free, so that it can skip what is decided by then. Closing the iterator ends all
    processes. With 0 the tasks are done in this process.
    """
    jobs = ((number, make()) for number, make in enumerate(tasks))
    if processes == 0:
        yield from _here(jobs)
        return
    with Pool(_perform) as pool:
        for news in pool.run(jobs, min(processes, len(tasks))):
            assert news is not None
            if isinstance(news.said, BaseException):
                raise news.said
            if news.said is not None:
                yield news.job[0], news.said


def _perform(job: tuple[int, Task], say: Say) -> None:
    perform(job[1], say)


def _here(jobs: Iterator[tuple[int, Task]]) -> Iterator[tuple[int, TaskResult]]:
    """Do jobs in this process; the messages of a job are held until it is done, or interrupted."""
    for number, task in jobs:
        messages: list[TaskResult] = []
        try:
            perform(task, messages.append)
        finally:
            # Also what was found before an interruption.
            for message in messages:
                yield number, message
