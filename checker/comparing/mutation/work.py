"""Scenarios shared out to processes, the smallest first: a mutant that one of them kills is not asked in the next.

Liveness is asked after all invariants, as it costs a graph for each mutant. Which scenario is named as the one that
kills does not depend on the number of processes: it is the first in order that does, and no earlier one is left out.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.base.problems import InputError
from highwater.checker.base.processes import Pool, Say
from highwater.checker.comparing.mutation.examining import AGAIN, FIRST, Examination, MutantResult
from highwater.checker.comparing.mutation.findings import Size
from highwater.checker.engines.layout import Layout
from highwater.checker.engines.native.search import search
from highwater.checker.engines.native.text.kernels import Kernels
from highwater.model.language.errors import LanguageError
from highwater.model.language.mutation import Mutant

SIZE, INVARIANTS, NEAREST, LIVENESS = "size", "invariants", "nearest", "liveness"
ONCE_MORE, LESSER = "once more", "lesser"
"""What can be asked of a scenario: its size; mutants of its invariants, with little room for what a mutant reaches
beyond the protocol; of its invariants, in the nearest states only; of its liveness; again of its invariants, with
more room, those that were not decided; and what those leave out that reach nothing else."""


@dataclass(frozen=True)
class Task:
    """One scenario, of its invariants or of its liveness; what is known of it, and mutants that need not be asked."""

    scenario: str
    part: str
    limit_states: int | None
    only: tuple[str, ...] = ()
    digest: str | None = None
    known: dict[int, MutantResult] = field(default_factory=dict)
    settled: frozenset[Mutant] = frozenset()
    undecided: frozenset[Mutant] | None = None
    memory_bytes: int | None = None
    nearest: int = 0
    size: Size | None = None


@dataclass(frozen=True)
class TaskResult:
    """What a task says: first its mutants and the actions that each changes; then results, a few at a time."""

    mutants: dict[int, Mutant] | None = None
    actions: dict[int, frozenset[str]] | None = None
    digest: str | None = None
    results: dict[int, MutantResult] | None = None
    size: Size | None = None
    note: str | None = None
    done: bool = False
    seconds: float = 0.0


def perform(task: Task, tell: Callable[[TaskResult], None]) -> None:
    """Do one task."""
    started = time.process_time()
    try:
        request = Request.of(scenarios.find(task.scenario), Overrides()).without_symmetry()
        if task.part == SIZE:
            tell(TaskResult(size=_size(request, task), done=True, seconds=time.process_time() - started))
            return
        examination = Examination(request, task.memory_bytes, task.size.states if task.size else None)
        digest = examination.digest + (f" nearest {task.nearest}" if task.part == NEAREST else "")
        tell(TaskResult(examination.mutants, examination.model.actions_of, digest))
        known = task.known if task.digest == digest else {}
        asked = [
            number
            for number, mutant in examination.mutants.items()
            if wanted(mutant, examination.model.actions_of[number], task.only)
            and mutant not in task.settled
            and (task.undecided is None or mutant in task.undecided)
        ]
        tell(TaskResult(results={n: known[n] for n in asked if n in known}))
        left = [n for n in asked if n not in known]
        note = None
        if left:
            say = _Sayer(tell)
            if task.part == NEAREST:
                examination.nearest(left, say, task.nearest)
            elif task.part == LESSER:
                note = examination.lesser(left, say, task.limit_states)
            elif task.part != LIVENESS:
                again = task.part == ONCE_MORE
                room = AGAIN if again else FIRST
                note = examination.invariants(left, say, task.limit_states, room, again)
            else:
                note = examination.liveness(left, say, task.limit_states)
            say.flush()
        tell(TaskResult(done=True, note=note, seconds=time.process_time() - started))
    except (InputError, LanguageError) as wrong:
        tell(TaskResult(done=True, note=str(wrong), seconds=time.process_time() - started))


def _size(request: Request, task: Task) -> Size:
    """How many states a scenario has, as far as the limit goes."""
    model = request.model()
    digest = hashlib.sha256(Kernels(model, Layout(model.leaves)).text().encode()).hexdigest()
    if task.size is not None and task.size.is_known(digest, task.limit_states):
        return task.size
    options = SearchOptions(
        workers=1,
        limit_states=task.limit_states,
        memory_bytes=task.memory_bytes,
        on_disk=False,
        all_states=True,
    )
    result = search(model, options)
    return Size(digest, result.distinct_states if result.complete else None, task.limit_states)


def wanted(mutant: Mutant, actions: frozenset[str], only: Sequence[str]) -> bool:
    """Whether a mutant is of one of these places (``FILE:LINE``, ``FILE``) or actions; none named: all are."""
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


class _Sayer:
    """Tells results now and then."""

    def __init__(self, tell: Callable[[TaskResult], None]) -> None:
        self._tell, self._held = tell, {}
        self._last = time.monotonic()

    _held: dict[int, MutantResult]

    def __call__(self, number: int, result: MutantResult) -> None:
        self._held[number] = result
        if time.monotonic() - self._last > 0.5:
            self.flush()

    def flush(self) -> None:
        """Tell what is held."""
        if self._held:
            self._tell(TaskResult(results=dict(self._held)))
        self._held.clear()
        self._last = time.monotonic()


Wanted = Callable[[], Task | None]
"""Asked when a process is free; None where there is nothing to do any more."""


def share_out(tasks: Sequence[Wanted], processes: int) -> Iterator[tuple[int, TaskResult]]:
    """Do tasks in their order, so many at a time, and give what each says with its number. 0: in this process.

    A task is asked for when a process is free, so that it can leave out what is settled by then. Closing the iterator
    ends all processes.
    """
    left = ((number, task) for number, wanted in enumerate(tasks) if (task := wanted()) is not None)
    if processes == 0:
        yield from _here(left)
        return
    with Pool(_perform) as pool:
        for news in pool.run(left, min(processes, len(tasks))):
            assert news is not None
            if isinstance(news.said, BaseException):
                raise news.said
            if news.said is not None:
                yield news.job[0], news.said


def _perform(job: tuple[int, Task], say: Say) -> None:
    perform(job[1], say)


def _here(tasks: Iterator[tuple[int, Task]]) -> Iterator[tuple[int, TaskResult]]:
    """The same in this process; what a task says is held until it is done, or interrupted."""
    for number, task in tasks:
        said: list[TaskResult] = []
        try:
            perform(task, said.append)
        finally:
            # Also what was found before an interruption.
            for told in said:
                yield number, told
