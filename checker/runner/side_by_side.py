"""Explore scenarios in parallel, each in one of several processes.

Most of a short scenario's time is tracing and compiling, which uses one thread. So a second core saves more time on
another scenario than on the same scenario. A process gets names and returns results. A result does not depend on the
process that found it.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

from highwater.checker.base.problems import InputError, Status, interruption
from highwater.checker.base.processes import Pool, ProcessEnded, Say
from highwater.checker.base.text import width
from highwater.checker.engines.by_name import Engine, Search
from highwater.checker.report.results import Result
from highwater.checker.runner import one as exploration
from highwater.checker.runner.one import LiveLine, Reuse
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import (
    EngineError,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
)
from highwater.model.language import LanguageError

_SAY_EVERY = 0.2


@dataclass(frozen=True)
class Batch:
    """The names of scenarios, and the settings that apply to all of them."""

    names: tuple[str, ...]
    overrides: Overrides
    engine: Engine
    options: SearchOptions
    reuse: Reuse = Reuse.NEVER
    verbose: bool = False
    quiet: bool = False

    @property
    def shows_all(self) -> bool:
        """True if runs are shown even if the result is as expected."""
        return self.verbose or len(self.names) == 1

    @property
    def processes(self) -> int:
        """The number of scenarios to explore at a time; 1 for Spark.

        With --limit-seconds it is also 1, so that scenarios do not slow each other down.
        """
        if self.engine.name == "spark" or self.options.limit_seconds is not None:
            return 1
        return self.options.workers or len(os.sched_getaffinity(0))

    def search(self) -> Search:
        """The engine's search function. Raises InputError for unsupported options."""
        return self.engine.search(len(self.names))

    def request(self, number: int) -> Request:
        """The request of the scenario with this number."""
        return self.engine.request(scenario_files.find(self.names[number]), self.overrides)

    def explore(self, request: Request, memory: int | None, progress: ProgressCallback | None) -> ScenarioRun:
        """Explore a scenario, with at most ``memory`` bytes beside others; None: alone, as the options allow."""
        options = replace(
            self.options,
            symmetry=request.symmetry,
            deadlock=request.deadlock,
            memory_bytes=self.options.memory_bytes if memory is None else memory,
            on_disk=memory is None,  # if ``memory`` is too small, the scenario is explored again alone
            crowded=memory is not None,
        )
        found = exploration.explore(
            request, self.engine.name, self.search(), options, progress, keep=True, reuse=self.reuse
        )
        shown = not self.quiet and (self.shows_all or found.broken)
        return ScenarioRun(found, tuple(found.told_runs(full=self.verbose, width=width())) if shown else ())


@dataclass(frozen=True)
class ScenarioRun:
    """The result of a scenario, and the lines of its counterexamples that are shown."""

    result: Result
    lines: tuple[str, ...] = ()

    def without_model(self) -> ScenarioRun:
        """A copy without the model, for another process, or to be stored while others are explored."""
        return replace(self, result=replace(self.result, model=None))


def explored(batch: Batch, requests: Mapping[int, Request]) -> Iterator[tuple[int, ScenarioRun]]:
    """Explore these scenarios of a batch, and yield their results in order.

    The first Ctrl-C ends the running scenarios with partial results; scenarios that have not begun are left out. An
    exception of a scenario is raised in place of its result. A scenario that ran out of memory, or whose process or
    engine failed, is explored again alone. Only a scenario that is explored alone keeps its model.
    """
    processes = min(len(requests), batch.processes)
    if processes > 1:
        yield from _Together(batch, requests).run(processes)
        return
    for number, request in requests.items():
        with exploration.ProgressReporter(request.scenario.name, quiet=batch.quiet) as progress:
            run = batch.explore(request, None, progress)
        yield number, run
        if run.result.status is Status.INTERRUPTED:
            break


class _Together:
    """A batch of scenarios in progress: the results so far, and the scenarios whose results are not yet given."""

    def __init__(self, batch: Batch, requests: Mapping[int, Request]) -> None:
        self.batch, self.requests = batch, requests
        self.found: dict[int, ScenarioRun | BaseException] = {}
        self.rest = deque(requests)
        self.stopped = False

    def run(self, processes: int) -> Iterator[tuple[int, ScenarioRun]]:
        """Explore all scenarios, and yield their results in order.

        The scenarios with most expected states come first, so that no process begins a long scenario at the end.
        """
        sizes = {n: r.scenario.expectation.distinct_states or 0 for n, r in self.requests.items()}
        ordered = sorted(self.requests, key=lambda n: -sizes[n])
        # A fork starts fast, but is unsafe on systems whose libraries start threads.
        pool = Pool[int](
            partial(_explored, self.batch, _memory(self.batch.options) // processes),
            forked=sys.platform == "linux",
        )

        def stop() -> None:
            self.stopped = True
            pool.interrupt()

        with pool, interruption(stop):
            with suppress(ProcessEnded, OSError):  # no process can be started: continue without them
                for number in self._heard(pool, takewhile(lambda _: not self.stopped, ordered), processes):
                    yield number, self._given(number)
            for number in ordered:
                if number not in self.found and not self.stopped:
                    self._explore_alone(number)
            yield from ((number, self._given(number)) for number in self.rest if number in self.found)
        if self.stopped and not self.found:
            raise KeyboardInterrupt

    def _heard(self, pool: Pool[int], jobs: Iterable[int], processes: int) -> Iterator[int]:
        """Record what the processes report. Yield each scenario that has a result, like all scenarios before it."""
        live, progress = LiveLine(quiet=self.batch.quiet), dict[int, Progress]()
        names = {number: request.scenario.name for number, request in self.requests.items()}
        try:
            for news in pool.run(jobs, processes, every=_SAY_EVERY):
                if news is not None and news.done:
                    self._settle(news.job, news.said)
                elif news is not None:
                    progress[news.job] = news.said
                under_way = (f"{names[n]} ({_state(progress.get(n))})" for n in pool.under_way())
                live(f"{len(self.found)} of {len(names)} scenarios", ", ".join(under_way))
                while self.rest and self.rest[0] in self.found:
                    live.end()
                    yield self.rest.popleft()
        finally:
            live.end()

    def _settle(self, number: int, said: ScenarioRun | BaseException) -> None:
        """Record the result of a scenario, or the exception that it raised, unless it is explored again alone.

        If Ctrl-C ended the process before its result, record an interrupted result without states.
        """
        request = self.requests[number]
        if isinstance(said, ScenarioRun):
            said = replace(said, result=replace(said.result, request=request))
        elif self.stopped and isinstance(said, (KeyboardInterrupt, ProcessEnded)):
            nothing = SearchResult(stopped_by="interrupted")
            said = ScenarioRun(Result(request, self.batch.engine.name, nothing))
        failed = isinstance(said, (EngineError, ProcessEnded, MemoryError, KeyboardInterrupt)) or (
            isinstance(said, ScenarioRun) and said.result.stopped_by == "memory"
        )
        if self.stopped or not failed:
            self.found[number] = said

    def _explore_alone(self, number: int) -> None:
        request = self.requests[number]
        try:
            with exploration.ProgressReporter(request.scenario.name, quiet=self.batch.quiet) as progress:
                run = self.batch.explore(request, None, progress).without_model()
        except (InputError, LanguageError) as wrong:
            self.found[number] = wrong
        else:
            self.found[number] = run
            self.stopped = run.result.stopped_by == "interrupted"

    def _given(self, number: int) -> ScenarioRun:
        what = self.found[number]
        if isinstance(what, BaseException):
            raise what
        return what


def _state(progress: Progress | None) -> str:
    if progress is None:
        return "tracing and compiling"
    return f"{progress.distinct_states:,} states, depth {progress.depth}"


def _memory(options: SearchOptions) -> int:
    from highwater.checker.base.memory import available_memory

    return options.memory_bytes or int(available_memory() * 0.8)


def _explored(asked: Batch, memory: int, number: int, say: Say) -> ScenarioRun:
    """Explore a scenario in a process of the pool, and report progress every ``_SAY_EVERY`` seconds."""
    next_seconds = 0.0

    def progress(progress: Progress) -> None:
        nonlocal next_seconds
        if progress.seconds >= next_seconds:
            next_seconds = progress.seconds + _SAY_EVERY
            say(progress)

    found = asked.explore(asked.request(number), memory, None if asked.quiet else progress).without_model()
    # The request cannot be pickled; the parent adds it again.
    return replace(found, result=replace(found.result, request=None))  # type: ignore[arg-type]
