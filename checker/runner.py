"""Explore or walk scenarios, one or several at a time, with progress: a live line in a terminal, else plain lines.

Most of a short scenario's time is tracing and compiling, which uses one thread. So a second core saves more time on
another scenario than on the same scenario. A process gets names and returns results. A result does not depend on the
process that found it.

An unchanged scenario is not explored again: its stored result is used. A result is stored under the key of its
request, so that an unchanged protocol is not even traced. The key includes all sources of Highwater, and everything
else that a result depends on: expectations, workers, libraries and environment variables. A search that a limit or an
option ended early is not stored.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from itertools import takewhile
from typing import TypeVar

from highwater.checker.base.problems import InputError, Status, interruption
from highwater.checker.base.processes import Pool, ProcessEnded, Say
from highwater.checker.base.text import width
from highwater.checker.engines import by_name as engines
from highwater.checker.engines import cache
from highwater.checker.engines.by_name import Engine, Search
from highwater.checker.report import counterexample
from highwater.checker.report.counterexample import Counterexample
from highwater.checker.report.results import Result
from highwater.checker.report.vacuity import Vacuous, idle
from highwater.checker.scenarios import model_key, scenario_files
from highwater.checker.scenarios.model_key import request_key
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import (
    EngineError,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
    SimulationOptions,
    SimulationResult,
)
from highwater.model.language import LanguageError, Model
from highwater.model.language.model import Outline
from highwater.traces.reading import printable

CI = "CI"
"""The environment variable of continuous integration. If it is set, everything is explored."""
_VARIABLES = ("HIGHWATER_", "LD_", "LLVM", "NPY_", "OMP_", "OPENBLAS_", "PYTHON")
"""The prefixes of environment variables that can change the code that runs."""
_WITHOUT_EFFECT = (cache.VARIABLE, "OPENBLAS_MAIN_FREE")
"""Variables that change no result: the cache's directory, and a variable that numpy sets during its import."""


class Reuse(Enum):
    """How `check` uses stored results."""

    NEVER = "a limit or another option applies: read and keep none"
    RENEW = "explore, and keep the result"
    REUSE = "explore what has changed, and keep the result"

    @classmethod
    def of(cls, engine: Engine, options: SearchOptions, *, fresh: bool) -> Reuse:
        """The reuse of stored results that the user's options allow."""
        if engine != Engine(engines.DEFAULT) or options != SearchOptions(workers=options.workers):
            return cls.NEVER
        return cls.unless(fresh)

    @classmethod
    def unless(cls, fresh: bool) -> Reuse:
        """RENEW with the option ``--fresh`` or in continuous integration, otherwise REUSE."""
        return cls.RENEW if fresh or os.environ.get(CI) else cls.REUSE


@dataclass(frozen=True)
class KeptResult:
    """A stored result: a completed search with the time when it ran, its runs and vacuity."""

    search: SearchResult
    explored_at: str
    runs: tuple[Counterexample, ...]
    ruled_out: tuple[str, ...]
    constant: tuple[str, ...]
    vacuous: tuple[Vacuous, ...]


def now() -> str:
    """The present time in UTC, as text such as ``2026-11-22T10:15:00Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stored(key: bytes | None, request: Request, options: SearchOptions) -> KeptResult | None:
    """The stored result of an unchanged request under the key of its model; None if there is none."""
    return cache.found(KeptResult, key, *asked_of(request, options))


def store(result: Result, options: SearchOptions, explored_at: str) -> None:
    """Store the result of an unchanged request, if no limit or disk error affected the search.

    If source files changed since this process began, the result is not stored.
    """
    request, model, search = result.request, result.model, result.search
    if model is None or model.identity is None:
        return
    if not result.reached_end or search.trouble or search.unspilled or not model_key.sources_unchanged():
        return
    runs = tuple(map(_plain, result.runs))
    facts = result.ruled_out, result.constant, result.vacuous
    kept = KeptResult(replace(search, graph=None), explored_at, runs, *facts)
    cache.keep(kept, model.identity, *asked_of(request, options))


def _plain(run: Counterexample) -> Counterexample:
    """The run without the abstract protocol's type, which cannot be stored."""
    return run if run.abstract is None else replace(run, abstract=replace(run.abstract, type=None))


def asked_of(request: Request, options: SearchOptions) -> tuple[object, ...]:
    """Everything that a result depends on, besides the model and its engine."""
    expect = request.scenario.expectation
    expected = sorted(expect.violated), sorted(expect.impossible), sorted(expect.constant), expect.reachable
    settings = sorted(request.parameters.items()), sorted(request.rules.items()), request.properties
    around = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith(_VARIABLES) and name not in _WITHOUT_EFFECT
    )
    counts = expect.distinct_states, expect.depth, request.as_written, request.counts_expected
    return expected, counts, settings, request.symmetry, request.deadlock, options.workers, around


_PLAIN_FIRST, _PLAIN_SECONDS = 1.0, 5.0
"""The seconds before the first plain line of progress, and between two lines."""

_LIVE_SECONDS = 0.1
"""The seconds between two updates of a live line."""


class LiveLine:
    """A line of progress on standard error. In a terminal it is updated; elsewhere lines are printed now and then."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet, self._terminal = quiet, sys.stderr.isatty()
        self._started = time.perf_counter()
        self._next = 0.0 if self._terminal else _PLAIN_FIRST

    def show(self, line: str) -> None:
        """Show a line, unless the last one is too recent."""
        seconds = time.perf_counter() - self._started
        if self._quiet or seconds < self._next:
            return
        self._next = seconds + (_LIVE_SECONDS if self._terminal else _PLAIN_SECONDS)
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{printable(line, width)}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def __call__(self, done: str, under_way: str) -> None:
        """Show what is done, the elapsed seconds, and what is running."""
        self.show(f"{done}, {time.perf_counter() - self._started:.0f} s: {under_way}")

    def end(self) -> None:
        """Remove the line of progress from the terminal."""
        if self._terminal and not self._quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class ProgressReporter:
    """Reports a search's progress on a live line. As a context manager it removes the line at the end.

    ``left`` is the word for the number ``Progress.queue`` in a line.
    """

    def __init__(self, name: str, *, quiet: bool = False, left: str = "queue") -> None:
        self.name = name
        self._left = left
        self._quiet = quiet
        self._live = LiveLine(quiet=quiet)
        self._samples: tuple[tuple[float, int], tuple[float, int]] = ((0.0, 0), (0.0, 0))

    def __call__(self, progress: Progress) -> None:
        """Report the progress, if enough time has passed since the last report."""
        self._live.show(f"{self.name}: {self._line(progress)}")

    def say(self, line: str) -> None:
        """Remove the live line, and print a line that stays."""
        self._live.end()
        if not self._quiet:
            print(f"{self.name}: {line}", file=sys.stderr, flush=True)

    def _rate(self, progress: Progress) -> float:
        """The number of new states per second, over the last one or two seconds."""
        now, last = (progress.seconds, progress.distinct_states), self._samples[1]
        if now[0] < last[0] or now[1] < last[1]:  # another search has begun
            self._samples = now, now
        before, since = self._samples
        if progress.seconds - since[0] >= 1:
            before, since = self._samples = since, now
        seconds = progress.seconds - before[0]
        return (progress.distinct_states - before[1]) / seconds if seconds > 0 else 0.0

    def _line(self, progress: Progress) -> str:
        spilled = f", {size(progress.spilled_bytes)} on disk" if progress.spilled_bytes else ""
        memory = f", {size(progress.memory_bytes)}" if progress.memory_bytes else ""
        return (
            f"{progress.distinct_states:,} states, {self._rate(progress):,.0f}/s, depth {progress.depth}, "
            f"{self._left} {progress.queue:,}{memory}{spilled}, {progress.seconds:.0f} s"
        )

    def __enter__(self) -> ProgressReporter:
        # The engine reports no progress before the search: the model is traced and compiled first.
        self._live.show(f"{self.name}: tracing and compiling")
        return self

    def __exit__(self, *wrong: object) -> None:
        self._live.end()


def size(number: int) -> str:
    """A number of bytes as text with a unit, such as ``1.5 GiB``."""
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


# --- explore or walk, then replay the runs to violations ----------------------------------------------

Kind = TypeVar("Kind", bound=Result)


def explore(
    request: Request,
    engine: str,
    search: engines.Search,
    options: SearchOptions,
    progress: ProgressCallback | None = None,
    *,
    keep: bool = False,
    reuse: Reuse = Reuse.NEVER,
) -> Result:
    """Trace a scenario, search it, and replay the runs to its violations and goals.

    With ``keep``, the native engine may cache facts about the request. Set it only if the protocol's code is exactly
    that of its files. ``reuse`` decides whether a stored search may be used, and whether the result is stored.
    """
    model: Model | None = None
    found = SearchResult(stopped_by="interrupted")
    before: KeptResult | None = None
    request = request.for_first() if options.stop_at_first else request
    try:
        key = request_key(request) if keep and engine == engines.DEFAULT else None
        outline = cache.found(Outline, key)
        model = request.model(outline=outline)
        model.identity = key
        if outline is None:
            cache.keep(model.outline, key)
        if reuse is Reuse.REUSE:
            before = stored(model.identity, request, options)
        if before is not None:
            found = before.search
        elif request.liveness:
            from highwater.checker.engines.liveness import search_with_liveness

            found = search_with_liveness(model, search, engines.explore(engine), options, progress)
        else:
            found = search(model, options, progress)
    except KeyboardInterrupt:
        pass
    first = options.stop_at_first
    result = result_of(Result, request, engine, model, found, stop_at_first=first)
    if reuse is not Reuse.NEVER:
        store(result, options, before.explored_at if before else now())
    return result if before is None else replace(result, explored_at=before.explored_at)


def walk(request: Request, options: SimulationOptions, *, quiet: bool) -> Result:
    """Trace a scenario, take random walks, and replay the runs to its violations."""
    from highwater.checker.engines.native.simulate import simulate

    model: Model | None = None
    found = SimulationResult(stopped_by="interrupted", seed=options.seed)
    try:
        model = request.model()
        with ProgressReporter(request.scenario.name, quiet=quiet, left="walks left") as progress:
            found = simulate(model, options, progress)
    except KeyboardInterrupt:
        pass
    return result_of(Result, request, engines.DEFAULT, model, found, stop_at_first=True)


def result_of(
    kind: Callable[..., Kind],
    request: Request,
    engine: str,
    model: Model | None,
    found: SearchResult,
    *,
    stop_at_first: bool,
) -> Kind:
    """The result of a search, with the runs to its violations and goals.

    Engines report a reached goal as a violation. In the result it is a run to the goal instead.
    """
    if model is None:
        return kind(request, engine, found, stop_at_first=stop_at_first)
    nothing = idle(model, request)
    for goal in request.goals:
        found.premises.pop(goal.name, None)
    runs = counterexample.follow_all(model, found.violations)
    return kind(
        request,
        engine,
        found,
        tuple(run for run in runs if not run.goal),
        tuple(run for run in runs if run.goal),
        stop_at_first,
        tuple(model.ruled_out),
        constant=nothing.constant,
        vacuous=nothing.warnings,
        model=model,
    )


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
    with_models: bool = False
    """True if the results of scenarios that are explored alone need their models."""

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

    def stored(self, request: Request) -> ScenarioRun | None:
        """The stored result of an unchanged request, for which no protocol is traced; None if there is none.

        A stored result has no model, so it cannot show its runs. Therefore it is not used if it is not as expected, or
        if it has runs that are shown.
        """
        if self.reuse is not Reuse.REUSE or self.with_models:
            return None
        known = stored(request_key(request), request, self.options)
        if known is None or (known.runs and self.shows_all and not self.quiet):
            return None
        result = Result(
            request,
            engines.DEFAULT,
            known.search,
            tuple(run for run in known.runs if not run.goal),
            tuple(run for run in known.runs if run.goal),
            ruled_out=known.ruled_out,
            constant=known.constant,
            vacuous=known.vacuous,
            explored_at=known.explored_at,
        )
        return None if result.broken else ScenarioRun(result)

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
        found = explore(
            request, self.engine.name, self.search(), options, progress, keep=True, reuse=self.reuse
        )
        shown = not self.quiet and (self.shows_all or found.broken)
        lines = found.run_lines(full=self.verbose, width=width()) if shown else ()
        return ScenarioRun(found, tuple(lines))


@dataclass(frozen=True)
class ScenarioRun:
    """The result of a scenario, and the lines of its counterexamples that are shown."""

    result: Result
    lines: tuple[str, ...] = ()

    def without_model(self) -> ScenarioRun:
        """A copy without the model, for another process, or to be stored while others are explored."""
        return replace(self, result=replace(self.result, model=None))


def explored(batch: Batch, requests: Sequence[Request]) -> Iterator[ScenarioRun]:
    """The results of the requests of a batch, in order: stored ones, and those of explored scenarios.

    The first Ctrl-C ends the running scenarios with partial results; scenarios that have not begun are left out. An
    exception of a scenario is raised in place of its result. A scenario that ran out of memory, or whose process or
    engine failed, is explored again alone. Only a scenario that is explored alone keeps its model.
    """
    kept = {n: run for n, request in enumerate(requests) if (run := batch.stored(request)) is not None}
    processes = min(len(requests) - len(kept), batch.processes)
    if processes > 1:
        yield from _Together(batch, requests, kept).run(processes)
        return
    stopped = False
    for number, request in enumerate(requests):
        run = kept.get(number)
        if run is None and not stopped:
            with ProgressReporter(request.scenario.name, quiet=batch.quiet) as progress:
                run = batch.explore(request, None, progress)
        if run is not None:
            stopped |= run.result.status is Status.INTERRUPTED
            yield run


class _Together:
    """A batch of scenarios in progress: the results so far, and the scenarios whose results are not yet given."""

    def __init__(self, batch: Batch, requests: Sequence[Request], kept: Mapping[int, ScenarioRun]) -> None:
        self.batch, self.requests, self.kept = batch, requests, kept
        self.found: dict[int, ScenarioRun | BaseException] = {**kept}
        self.rest = deque(range(len(requests)))
        self.stopped = False

    def run(self, processes: int) -> Iterator[ScenarioRun]:
        """Explore all scenarios, and yield their results in order.

        The scenarios with most expected states come first, so that no process begins a long scenario at the end.
        """
        sizes = [request.scenario.expectation.distinct_states or 0 for request in self.requests]
        ordered = sorted((n for n in self.rest if n not in self.kept), key=lambda n: -sizes[n])
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
                jobs = takewhile(lambda _: not self.stopped, ordered)
                yield from map(self._given, self._explored(pool, jobs, processes))
            for number in ordered:
                if number not in self.found and not self.stopped:
                    self._explore_alone(number)
            yield from (self._given(number) for number in self.rest if number in self.found)
        if self.stopped and len(self.found) == len(self.kept):
            raise KeyboardInterrupt

    def _explored(self, pool: Pool[int], jobs: Iterable[int], processes: int) -> Iterator[int]:
        """Record the results of the processes. Yield each scenario that has a result, like all scenarios before it."""
        live, progress = LiveLine(quiet=self.batch.quiet), dict[int, Progress]()
        names = [request.scenario.name for request in self.requests]
        try:
            for news in pool.run(jobs, processes, every=_SAY_EVERY):
                if news is not None and news.done:
                    self._record(news.job, news.value)
                elif news is not None:
                    progress[news.job] = news.value
                under_way = (f"{names[n]} ({_state(progress.get(n))})" for n in pool.under_way())
                live(f"{len(self.found)} of {len(names)} scenarios", ", ".join(under_way))
                while self.rest and self.rest[0] in self.found:
                    live.end()
                    yield self.rest.popleft()
        finally:
            live.end()

    def _record(self, number: int, outcome: ScenarioRun | BaseException) -> None:
        """Record the result of a scenario, or the exception that it raised, unless it is explored again alone.

        If Ctrl-C ended the process before its result, record an interrupted result without states.
        """
        request = self.requests[number]
        if isinstance(outcome, ScenarioRun):
            outcome = replace(outcome, result=replace(outcome.result, request=request))
        elif self.stopped and isinstance(outcome, (KeyboardInterrupt, ProcessEnded)):
            nothing = SearchResult(stopped_by="interrupted")
            outcome = ScenarioRun(Result(request, self.batch.engine.name, nothing))
        failed = isinstance(outcome, (EngineError, ProcessEnded, MemoryError, KeyboardInterrupt)) or (
            isinstance(outcome, ScenarioRun) and outcome.result.stopped_by == "memory"
        )
        if self.stopped or not failed:
            self.found[number] = outcome

    def _explore_alone(self, number: int) -> None:
        request = self.requests[number]
        try:
            with ProgressReporter(request.scenario.name, quiet=self.batch.quiet) as progress:
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


def _explored(batch: Batch, memory: int, number: int, say: Say) -> ScenarioRun:
    """Explore a scenario in a process of the pool, and report progress every ``_SAY_EVERY`` seconds."""
    next_seconds = 0.0

    def progress(progress: Progress) -> None:
        nonlocal next_seconds
        if progress.seconds >= next_seconds:
            next_seconds = progress.seconds + _SAY_EVERY
            say(progress)

    request = batch.request(number)
    found = batch.explore(request, memory, None if batch.quiet else progress).without_model()
    # The request cannot be pickled; the parent adds it again.
    return replace(found, result=replace(found.result, request=None))  # type: ignore[arg-type]
