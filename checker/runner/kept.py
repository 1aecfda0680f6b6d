"""Stored results of `check`: an unchanged scenario is not explored again.

A result is stored under the key of its request, so that an unchanged protocol is not even traced. The key includes all
sources of Highwater, and everything else that a result depends on: expectations, workers, libraries and environment
variables. A search that a limit or an option ended early is not stored.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum

from highwater.checker.engines import by_name as engines
from highwater.checker.engines import cache
from highwater.checker.engines.by_name import Engine
from highwater.checker.report.counterexample import Counterexample
from highwater.checker.report.results import Result
from highwater.checker.report.vacuity import Vacuous
from highwater.checker.scenarios import model_key
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model

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


def results(requests: Sequence[Request], options: SearchOptions, *, runs: bool) -> dict[int, Result]:
    """The stored results of unchanged requests, by position in ``requests``. No protocol is traced.

    The results have no model, and so cannot show their runs. Therefore results that are not as expected are left out
    and, unless ``runs`` is True, all results that have runs.
    """
    found: dict[int, Result] = {}
    for number, request in enumerate(requests):
        known = cache.found(KeptResult, model_key.request_key(request), *asked_of(request, options))
        if known is None or (known.runs and not runs):
            continue
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
        if not result.broken:  # the runs of an unexpected result are shown, which needs the model
            found[number] = result
    return found


def stored(model: Model, request: Request, options: SearchOptions) -> KeptResult | None:
    """The stored result of the unchanged request; None if there is none."""
    return cache.found(KeptResult, model.identity, *asked_of(request, options))


def keep(result: Result, options: SearchOptions, explored_at: str) -> None:
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
