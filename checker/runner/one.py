"""Explore or walk one scenario, with its progress: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from highwater.checker.engines import by_name as engines
from highwater.checker.report import counterexample
from highwater.checker.report.results import Result
from highwater.checker.report.vacuity import idle
from highwater.checker.runner import kept
from highwater.checker.runner.kept import KeptResult, Reuse
from highwater.checker.scenarios.model_key import request_key
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import (
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
    SimulationOptions,
    SimulationResult,
)
from highwater.model.language import Model
from highwater.traces.reading import printable

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
        model = request.model()
        if keep and engine == engines.DEFAULT:
            model.identity = request_key(request)
        if reuse is Reuse.REUSE:
            before = kept.stored(model, request, options)
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
        kept.keep(result, options, before.explored_at if before else kept.now())
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
