"""Explore scenarios in parallel: some in this process, one after the other, and some in helper processes.

Most of a short scenario's time is tracing and compiling, which uses one thread. So a second core saves more time on
another scenario than on the same scenario. A helper gets names and returns results. A result does not depend on the
process that found it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from highwater.checker.base.problems import InputError, Status
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

HELP_AFTER = 0.25
"""The seconds from the start of a batch until helper processes are started."""
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
        together = _Together(batch, requests, processes)
        try:
            yield from together.run()
        finally:
            together.close()
        return
    for number, request in requests.items():
        with exploration.ProgressReporter(request.scenario.name, quiet=batch.quiet) as progress:
            run = batch.explore(request, None, progress)
        yield number, run
        if run.result.status is Status.INTERRUPTED:
            break


class _Together:
    """A batch of scenarios in progress: the scenarios left, the results, and the helper processes."""

    def __init__(self, asked: Batch, requests: Mapping[int, Request], processes: int) -> None:
        self.asked, self.requests, self.processes = asked, requests, processes
        self.memory = _memory(asked.options) // processes
        # The scenarios with most expected states come first, so that no process begins a long scenario at the end.
        sizes = {n: r.scenario.expectation.distinct_states or 0 for n, r in requests.items()}
        self.left = deque(sorted(requests, key=lambda n: -sizes[n]))
        self.found: dict[int, ScenarioRun | BaseException] = {}
        self.again: deque[int] = deque()
        self.helping: set[int] = set()
        self.news = threading.Condition()
        self.stopped = False
        self.running: dict[int, Progress | None] = {}
        self.live = LiveLine(quiet=asked.quiet)
        self.pool = Pool[int](partial(_help, asked, self.memory))
        self.timer = threading.Timer(HELP_AFTER, self._be_helped)

    def run(self) -> Iterator[tuple[int, ScenarioRun]]:
        """Explore all scenarios, and yield their results in order."""
        self.timer.daemon = True
        self.timer.start()
        rest = deque(self.requests)
        try:
            while (number := self.take()) is not None:
                self.settle(number, self._explore(number, self.memory), here=True)
                while rest and rest[0] in self.found:
                    yield rest[0], self._give(rest.popleft())
            self._wait()
            while self.again and not self.stopped:
                number = self.again.popleft()
                self.settle(number, self._explore(number, None), here=True, alone=True)
        except KeyboardInterrupt:
            self.stop()
        if self.stopped:
            with suppress(KeyboardInterrupt):
                self._wait()
        for number in rest:
            if number in self.found:
                yield number, self._give(number)

    def take(self, *, help: bool = False) -> int | None:
        """The index of the next scenario for this process or, with ``help``, for a helper; None if none is left."""
        with self.news:
            if self.stopped or not self.left:
                return None
            number = self.left.popleft()
            if help:
                self.helping.add(number)
        self.show(number)
        return number

    def show(self, number: int, progress: Progress | None = None) -> None:
        """Show the progress of a scenario beside that of the others; None if its search has not begun."""
        with self.news:
            self.running[number] = progress
            self._show()

    def _show(self) -> None:
        names = {number: request.scenario.name for number, request in self.requests.items()}
        under_way = (
            f"{names[n]} ({'tracing and compiling' if p is None else f'{p.distinct_states:,} states, depth {p.depth}'})"
            for n, p in self.running.items()
        )
        self.live(f"{len(self.found)} of {len(names)} scenarios", ", ".join(under_way))

    def settle(
        self, number: int, what: ScenarioRun | BaseException, *, here: bool = False, alone: bool = False
    ) -> None:
        """Record ``what``, the result of a scenario or the exception that it raised.

        If the scenario ran out of memory, or its process or engine failed, it is not recorded, but put back to be
        explored alone. With ``alone`` it is recorded in any case. If the scenario ran in this process (``here``)
        and was interrupted, everything is stopped.
        """
        wanting = isinstance(what, (EngineError, ProcessEnded, MemoryError, KeyboardInterrupt)) or (
            isinstance(what, ScenarioRun) and what.result.stopped_by == "memory"
        )
        again = wanting and not alone and not self.stopped
        with self.news:
            if again:
                self.again.append(number)
            else:
                self.found[number] = what
            self.running.pop(number, None)
            self._show()
            self.helping.discard(number)
            self.news.notify_all()
        if here and isinstance(what, ScenarioRun) and what.result.stopped_by == "interrupted":
            self.stop()

    def stop(self) -> None:
        """Start no further scenario, and interrupt the helpers."""
        with self.news:
            self.stopped = True
        self.timer.cancel()
        self.pool.interrupt()

    def close(self) -> None:
        """End the helpers, even busy ones."""
        self.timer.cancel()
        self.pool.close()
        self.timer.join()
        self.live.end()

    def _give(self, number: int) -> ScenarioRun:
        what = self.found[number]
        if isinstance(what, BaseException):
            raise what
        return what

    def _explore(self, number: int, memory: int | None) -> ScenarioRun | Exception:
        request, progress = self.requests[number], partial(self.show, number)
        try:
            return self.asked.explore(request, memory, None if self.asked.quiet else progress).without_model()
        except (InputError, LanguageError) as wrong:
            return wrong

    def _be_helped(self) -> None:
        """Give scenarios to helpers until none is left, and record the results. Runs in the timer's thread."""
        if not self.left:
            return
        try:
            for news in self.pool.run(iter(lambda: self.take(help=True), None), self.processes - 1):
                assert news is not None
                if news.done:
                    self.settle(news.job, self._outcome(news.job, news.said))
                else:
                    self.show(news.job, news.said)
        except (ProcessEnded, OSError):
            pass  # no process can be started: continue without helpers
        finally:
            for number in list(self.helping):
                self.settle(number, self._outcome(number, ProcessEnded("the helper process ended")))

    def _outcome(self, number: int, said: ScenarioRun | BaseException) -> ScenarioRun | BaseException:
        """A helper's result, with the request added, or the exception that the helper raised.

        If ``stop`` has ended the helper before its result, an interrupted result without states.
        """
        request = self.requests[number]
        if isinstance(said, ScenarioRun):
            return replace(said, result=replace(said.result, request=request))
        if self.stopped and isinstance(said, (KeyboardInterrupt, ProcessEnded)):
            nothing = SearchResult(stopped_by="interrupted")
            return ScenarioRun(Result(request, self.asked.engine.name, nothing))
        return said

    def _wait(self) -> None:
        """Wait until no helper is busy. Raises KeyboardInterrupt on Ctrl-C."""
        self.timer.cancel()
        with self.news:
            while self.helping:
                self.news.wait(0.2)


def _memory(options: SearchOptions) -> int:
    from highwater.checker.base.memory import available_memory

    return options.memory_bytes or int(available_memory() * 0.8)


def _help(asked: Batch, memory: int, number: int, say: Say) -> ScenarioRun:
    """Explore a scenario in a helper process, and report progress every ``_SAY_EVERY`` seconds."""
    next_seconds = 0.0

    def progress(progress: Progress) -> None:
        nonlocal next_seconds
        if progress.seconds >= next_seconds:
            next_seconds = progress.seconds + _SAY_EVERY
            say(progress)

    found = asked.explore(asked.request(number), memory, None if asked.quiet else progress).without_model()
    # The request cannot be pickled; the parent adds it again.
    return replace(found, result=replace(found.result, request=None))  # type: ignore[arg-type]
