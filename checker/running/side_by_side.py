"""Scenarios side by side: this process explores one after the other, and helper processes take others meanwhile.

Most of a short scenario's time is tracing and compiling, which one thread does; so a core is worth more to another
scenario than to the same one. A helper is given names, and gives back what was found. Which process explored a scenario
makes no difference to what is found.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import (
    EngineError,
    Progress,
    ProgressCallback,
    SearchOptions,
    SearchResult,
)
from highwater.checker.base.libraries import missing_library
from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.engines import by_name as engines
from highwater.checker.running import one as exploration
from highwater.checker.running.progress import TogetherProgress
from highwater.checker.telling import report
from highwater.checker.telling.results import ScenarioOutcome
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Model

HELP_AFTER = 0.25
"""Seconds after which helpers are started: what is done sooner needs none."""
_SAY_EVERY = 0.2


@dataclass(frozen=True)
class Batch:
    """What is asked of all of some scenarios, each by its name."""

    names: tuple[str, ...]
    overrides: Overrides
    engine: str
    options: SearchOptions
    verbose: bool = False
    quiet: bool = False

    def request(self, number: int) -> Request:
        """The request of one scenario."""
        return engines.Engine(self.engine).request(scenarios.find(self.names[number]), self.overrides)

    def explore(self, request: Request, memory: int | None, progress: ProgressCallback | None) -> ScenarioRun:
        """One scenario explored, with so much memory."""
        options = replace(
            self.options,
            symmetry=request.symmetry,
            deadlock=request.deadlock,
            memory_bytes=self.options.memory_bytes if memory is None else memory,
            on_disk=memory is None,  # beside others there may be too little memory; alone there is more
        )
        search = engines.search(self.engine)
        model, outcome = exploration.explore(request, self.engine, search, options, progress=progress)
        return ScenarioRun.of(model, outcome, verbose=self.verbose)


@dataclass(frozen=True)
class ScenarioRun:
    """What came of a scenario, and the lines that tell its runs."""

    outcome: ScenarioOutcome
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Model | None, outcome: ScenarioOutcome, *, verbose: bool) -> ScenarioRun:
        """With the lines, where they are to be said: a promise is not kept, or everything is told."""
        lines: list[str] = []
        if model is not None and (verbose or outcome.broken):
            report.runs(model, outcome, lines.append, full=verbose)
        return cls(outcome, tuple(lines))


def explore_all(asked: Batch, requests: Sequence[Request], processes: int) -> Iterator[ScenarioRun]:
    """Explore scenarios, so many at a time, and give what came of each in their order.

    The first Ctrl-C ends all that are under way with what they found; those that were not begun are left out. What one
    scenario raises is raised in its turn. One that had too little memory beside others is explored again, alone.
    """
    together = _Together(asked, requests, processes)
    try:
        yield from together.run()
    finally:
        together.close()


class _Together:
    """The work: what is left of it, what was found, and who does it."""

    def __init__(self, asked: Batch, requests: Sequence[Request], processes: int) -> None:
        self.asked, self.requests = asked, requests
        self.memory = _memory(asked.options) // processes
        # Long ones first, so that none is left to one process at the end; a promise says how long one is.
        sizes = [r.scenario.promise.distinct_states or 0 for r in requests]
        self.left = deque(sorted(range(len(requests)), key=lambda n: -sizes[n]))
        self.found: dict[int, ScenarioRun | Exception] = {}
        self.again: deque[int] = deque()
        self.news = threading.Condition()
        self.stopped = False
        self.progress = TogetherProgress(len(requests), quiet=asked.quiet)
        self.helpers = [_Helper(self) for _ in range(processes - 1)]
        self.timer = threading.Timer(HELP_AFTER, self._call_helpers)

    def run(self) -> Iterator[ScenarioRun]:
        """All, in their order."""
        self.timer.daemon = True
        self.timer.start()
        given = 0
        try:
            while (number := self.take()) is not None:
                self.settle(number, self._explore(number, self.memory), here=True)
                while given in self.found:
                    yield self._give(given)
                    given += 1
            self._wait()
            while self.again and not self.stopped:
                number = self.again.popleft()
                self.settle(number, self._explore(number, None), here=True, alone=True)
        except KeyboardInterrupt:
            self.stop()
        if self.stopped:
            with suppress(KeyboardInterrupt):
                self._wait()
        for number in range(given, len(self.requests)):
            if number in self.found:
                yield self._give(number)

    def take(self, helper: _Helper | None = None) -> int | None:
        """The next scenario to explore, for a helper or this process; None where there is none."""
        with self.news:
            if self.stopped or not self.left:
                return None
            if helper is not None:
                helper.busy = True
            return self.left.popleft()

    def settle(
        self, number: int, what: ScenarioRun | Exception, *, here: bool = False, alone: bool = False
    ) -> None:
        """What came of a scenario."""
        wanting = isinstance(what, EngineError) or (
            isinstance(what, ScenarioRun) and what.outcome.result.stopped_by == "memory"
        )
        with self.news:
            if wanting and not alone and not self.stopped:
                self.again.append(number)
            else:
                self.found[number] = what
                self.progress.done()
            self.news.notify_all()
        if here and isinstance(what, ScenarioRun) and what.outcome.result.stopped_by == "interrupted":
            self.stop()

    def stop(self) -> None:
        """Begin nothing more, and ask the helpers for what they have."""
        with self.news:
            self.stopped = True
        self.timer.cancel()
        for helper in self.helpers:
            helper.interrupt()

    def close(self) -> None:
        """End the helpers, also at work."""
        self.timer.cancel()
        self.timer.join()
        for helper in self.helpers:
            helper.close()
        self.progress.end()

    def _give(self, number: int) -> ScenarioRun:
        what = self.found[number]
        if isinstance(what, Exception):
            raise what
        return what

    def _explore(self, number: int, memory: int | None) -> ScenarioRun | Exception:
        request = self.requests[number]
        try:
            with self.progress.of(request.scenario.name) as progress:
                return self.asked.explore(request, memory, progress)
        except (InputError, LanguageError) as wrong:
            return wrong

    def _call_helpers(self) -> None:
        for helper in self.helpers:
            if self.left and not self.stopped:
                helper.start()

    def _wait(self) -> None:
        """Until no helper is at work; raises KeyboardInterrupt."""
        self.timer.cancel()
        self.timer.join()
        with self.news:
            while any(helper.busy for helper in self.helpers):
                self.news.wait(0.2)


class _Helper:
    """A process that explores, and the thread that asks it."""

    def __init__(self, together: _Together) -> None:
        self._together = together
        self._process: Any = None
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.busy = False

    def start(self) -> None:
        """Start the process; it gets its first scenario when it is ready."""
        context = get_context("spawn")
        self._connection, there = context.Pipe()
        # Nothing is sent over this one. It ends with this process, however that ends.
        watched, self._life = context.Pipe(duplex=False)
        arguments = (there, watched, self._together.asked, self._together.memory)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        # Inherited, so that a Ctrl-C does not end it before it can say what is to happen then.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._process.start()
        there.close()
        watched.close()
        self._thread.start()

    def interrupt(self) -> None:
        """Ask for what it has found."""
        if self.busy and self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGINT)

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.join()
            self._thread.join()

    def _ask(self) -> None:
        """What the thread does: a scenario after the other, until none is left."""
        together, number = self._together, None
        try:
            self._connection.recv()  # it is ready
            while (number := together.take(self)) is not None:
                self._connection.send(number)
                name = together.requests[number].scenario.name
                with together.progress.of(name) as progress:
                    while isinstance(said := self._connection.recv(), Progress):
                        if progress is not None:
                            progress(said)
                together.settle(number, self._outcome(number, said))
                with together.news:
                    self.busy = False
                    together.news.notify_all()
        except (EOFError, OSError):
            if number is not None:
                together.settle(number, self._nothing(number))
        finally:
            with together.news:
                self.busy = False
                together.news.notify_all()

    def _outcome(self, number: int, said: ScenarioRun | Exception | None) -> ScenarioRun | Exception:
        """What it found, as the answer to this process's request."""
        if isinstance(said, Exception):
            return said
        if said is None:
            return self._nothing(number)
        return replace(said, outcome=replace(said.outcome, request=self._together.requests[number]))

    def _nothing(self, number: int) -> ScenarioRun | Exception:
        """What there is to say where it has found nothing: it was interrupted before, or has ended."""
        request = self._together.requests[number]
        if self._together.stopped:
            nothing = SearchResult(stopped_by="interrupted")
            return ScenarioRun(ScenarioOutcome(request, self._together.asked.engine, nothing, ()))
        return EngineError(
            f"{request.scenario.name}: the process that explored it was ended, perhaps for its memory"
        )


def _memory(options: SearchOptions) -> int:
    from highwater.checker.base.memory import available_memory

    return options.memory_bytes or int(available_memory() * 0.8)


class _Interruption:
    """Ctrl-C in a helper: it ends the exploration that is under way, or else the next one before it begins."""

    def __init__(self) -> None:
        self.came = False
        self._under_way = False
        signal.signal(signal.SIGINT, self._handle)
        # Ctrl-C in a terminal is for the process that asks, which passes it on.
        os.setpgid(0, 0)
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


def _serve(connection: Connection, life: Connection, asked: Batch, memory: int) -> None:
    """A helper: numbers of scenarios come, progress and results go."""
    threading.Thread(target=_end_with, args=(life,), daemon=True).start()
    gc.set_threshold(100_000, 50, 100)  # as the command line has it
    interruption = _Interruption()
    with suppress(EOFError, OSError):
        connection.send(None)
        while True:
            number = connection.recv()
            answer: object = None
            with suppress(KeyboardInterrupt), interruption.possible():
                answer = _answer(asked, number, memory, None if asked.quiet else _Saying(connection))
            connection.send(answer)


class _Saying:
    """Sends how far a search is, now and then."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._next = connection, 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.seconds >= self._next:
            self._next = progress.seconds + _SAY_EVERY
            self._connection.send(progress)


def _answer(
    asked: Batch, number: int, memory: int, progress: ProgressCallback | None
) -> ScenarioRun | Exception:
    """What came of a scenario; an exception where something is wrong with it, or with us."""
    try:
        request = asked.request(number)
        found = asked.explore(request, memory, progress)
        # The request goes no further: what its scenario is made of cannot travel, and who asks has it.
        return replace(found, outcome=replace(found.outcome, request=None))  # type: ignore[arg-type]
    except EngineError as wrong:
        return EngineError(str(wrong))
    except (InputError, LanguageError) as wrong:
        return InputError(str(wrong))
    except InternalError as wrong:
        return wrong
    except MemoryError as wrong:
        return EngineError(f"there is too little memory: {wrong}")
    except Exception as wrong:
        if (missing := missing_library(wrong)) is not None:
            return InputError(missing)
        return InternalError(str(wrong) or type(wrong).__name__, {"traceback": traceback.format_exc()})


def _end_with(life: Connection) -> None:
    with suppress(EOFError, OSError):
        life.recv()
    os._exit(1)
