"""The part of the pytest plugin that is imported if the plugin is on: test items and fixtures.

A file ``*.scenario.toml`` has an item for each expectation. The first item of a file explores the states, and the
other items reuse the result; under xdist each worker explores once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import pytest

from highwater.checker import runner
from highwater.checker.base.problems import InputError
from highwater.checker.engines import by_name as engines
from highwater.checker.report.results import Result
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request, Subject, asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import LanguageError
from highwater.traces.replay import replay as replay_path
from highwater.traces.reports.report import Report, summary

# --- exploring ----------------------------------------------------------------------------------------


def overrides(config: pytest.Config) -> Overrides:
    """The overrides that pytest's options set for every scenario. Raises InputError for an invalid option."""
    return Overrides.parse(
        config.getoption("--highwater-set"),
        config.getoption("--highwater-rule"),
        config.getoption("--highwater-profile"),
    )


def fitted(config: pytest.Config, request: Request, engine: str | None = None) -> Request:
    """The request, without symmetry reduction if the engine is the interpreter."""
    return request.without_symmetry() if _engine(config, engine) == "interpreter" else request


def _engine(config: pytest.Config, engine: str | None) -> str:
    name = engine or config.getoption("--highwater-engine") or engines.DEFAULT
    if name not in ("native", "interpreter"):
        raise InputError(f"--highwater-engine {name}: native or interpreter")
    return str(name)


def search(
    config: pytest.Config,
    request: Request,
    *,
    engine: str | None = None,
    limit_states: int | None = None,
    limit_seconds: float | None = None,
) -> Result:
    """Explore a request. Arguments override pytest's options.

    Raises InputError for a request that the engine does not support, LanguageError for a mistake in the protocol,
    and KeyboardInterrupt if Ctrl-C ended the search.
    """
    engine, request = _engine(config, engine), fitted(config, request, engine)
    options = SearchOptions(
        workers=config.getoption("--highwater-workers") or (1 if "PYTEST_XDIST_WORKER" in os.environ else 0),
        limit_states=limit_states or config.getoption("--highwater-limit-states"),
        limit_seconds=limit_seconds or config.getoption("--highwater-limit-seconds"),
        symmetry=request.symmetry,
        deadlock=request.deadlock,
    )
    result = runner.explore(request, engine, engines.search(engine), options)
    if result.stopped_by == "interrupted":
        raise KeyboardInterrupt
    return result


def run_lines(result: Result, names: Iterable[str]) -> Iterator[str]:
    """The lines of the counterexamples of the properties ``names``, and a line about the search."""
    for violation in result.violations:
        if violation.name in names:
            yield ""
            yield str(violation)
    yield ""
    size = f"{result.distinct_states:,} states, depth {result.depth}, engine {result.engine}"
    yield "; ".join([f"{result.name}: {size}", *result.notes()])


# --- items --------------------------------------------------------------------------------------------

SUFFIX = ".scenario.toml"


class Broken(Exception):
    """An expectation of a scenario is not met. The exception has the message to print."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Collect a file if its name ends in ``.scenario.toml``."""
    if not file_path.name.endswith(SUFFIX):
        return None
    found: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
    return found


class ScenarioFile(pytest.File):
    """A scenario's file as a pytest collector. Its items share the result ``explored``."""

    @cached_property
    def request(self) -> Request:
        """The request of the scenario's file, overridden by pytest's options."""
        scenario = scenario_files.read(self.path, self.nodeid)
        return fitted(self.config, Request.of(scenario, overrides(self.config)))

    @cached_property
    def explored(self) -> Result:
        """The result of the search. An error of the search is raised for each item."""
        return search(self.config, self.request)

    def collect(self) -> Iterable[ExpectationItem]:
        """Collect one item for each property and each other expectation of ``[expect]``."""
        try:
            request = self.request
        except (InputError, LanguageError) as wrong:
            raise self.CollectError(str(wrong)) from None
        for kind, name in _expectations(request):
            item: ExpectationItem = ExpectationItem.from_parent(
                self, name=f"{kind}[{name}]", kind=kind, about=name
            )
            if self.config.pluginmanager.hasplugin("xdist"):
                item.add_marker(pytest.mark.xdist_group(self.nodeid))
            yield item


def _expectations(request: Request) -> Iterator[tuple[str, str]]:
    """The kind and name of each expectation, as in ``Result.unmet``."""
    expect = request.scenario.expectation
    for name in request.properties:
        yield "violated" if request.as_written and name in expect.violated else "holds", name
    if request.as_written:
        yield from (("reached", name) for name in expect.reachable)
        yield from (("impossible", name) for name in sorted(expect.impossible))
        yield from (("constant", name) for name in sorted(expect.constant & set(request.properties)))
    if request.counts_expected:
        for key in ("distinct_states", "depth"):
            if (expected := getattr(expect, key)) is not None:
                yield key, str(expected)


class ExpectationItem(pytest.Item):
    """One expectation of a scenario as a pytest item."""

    parent: ScenarioFile

    def __init__(self, *, kind: str, about: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.kind, self.about = kind, about

    def runtest(self) -> None:
        """Explore the scenario if no other item of the file has, and fail if the expectation is not met."""
        result = self.parent.explored
        for key in ("distinct_states", "depth"):
            self.user_properties.append((key, getattr(result, key)))
        wrong = _wrong(result, self.kind, self.about)
        if wrong:
            lines = [f"{self.parent.nodeid}: {wrong}", *run_lines(result, [self.about])]
            raise Broken("\n".join(lines))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The unmet expectation with its counterexample, or one line for bad input. Other failures are as in pytest."""
        if isinstance(excinfo.value, (Broken, InputError, LanguageError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file and the name of the expectation, for pytest's report."""
        return self.path, 0, self.name


def _wrong(result: Result, kind: str, name: str) -> str | None:
    """The text of an unmet or undecided expectation; None if the expectation is met."""
    if (text := result.unmet.get((kind, name))) is not None:
        return text
    match kind:
        case "holds":
            met = result.reached_end
        case "violated" | "reached":
            met = any(run.name == name for run in result.runs)
        case "impossible":
            met = name in result.ruled_out
        case _:
            met = kind == "constant"
    return None if met or result.complete else f"{kind}[{name}] is undecided: not all states were explored"


# --- fixtures -----------------------------------------------------------------------------------------

Explore = Callable[..., Result]
Name = Callable[..., Request]
Replay = Callable[..., Report]


@pytest.fixture
def protocol(request: pytest.FixtureRequest) -> Name:
    """A fixture: a function that makes a request for a protocol or a scenario, as ``scenarios.request.asked`` does.

    Paths are relative to the test's file. ``explore`` and ``machine`` accept the request, and its ``model()`` is the
    traced protocol.
    """

    def call(subject: Subject, **overrides: Any) -> Request:
        return asked(subject, directory=request.path.parent, **overrides)

    return call


@pytest.fixture
def explore(request: pytest.FixtureRequest, protocol: Name) -> Explore:
    """A fixture: a function that explores a protocol or a scenario.

    The test fails if a limit ends the search, or if the violated properties are not exactly those of ``violated``. If
    ``violated`` is None and no argument overrides the scenario, its ``[expect]`` must be met. If ``violated`` is None
    and an argument overrides a part of it, no property may be violated. ``engine`` and the limits override the options
    of the command line. The function takes the arguments of the fixture ``protocol``, too. Returns the Result.
    """

    def call(
        subject: Subject,
        *,
        violated: Iterable[str] | None = None,
        engine: str | None = None,
        limit_states: int | None = None,
        limit_seconds: float | None = None,
        **overrides: Any,
    ) -> Result:
        __tracebackhide__ = True
        wanted = protocol(subject, **overrides)
        result = search(
            request.config, wanted, engine=engine, limit_states=limit_states, limit_seconds=limit_seconds
        )
        broken = _broken(result, None if violated is None else frozenset(violated))
        if broken:
            names = [example.name for example in result.examples]
            pytest.fail("\n".join([*broken, *run_lines(result, names)]), pytrace=False)
        return result

    return call


def _broken(result: Result, violated: frozenset[str] | None) -> Sequence[str]:
    """The unmet expectations, as texts. An incomplete search counts as an unmet expectation."""
    found = frozenset(example.name for example in result.examples)
    lines = list(result.broken)
    if violated is not None:
        lines = [f"{name} is violated" for name in sorted(found - violated)]
        lines += [f"{name} is not violated" for name in sorted(violated - found)]
    if not lines and result.stopped_by not in (None, "violation"):
        lines.append("inconclusive: not all states were explored")
    return lines


@pytest.fixture
def replay() -> Replay:
    """A fixture: a function that replays a path.

    The test fails if a part of the input does not conform or is damaged. It also fails at a violation or caveat that
    ``allow`` does not name. ``allow`` has names of properties and kinds of caveats (docs/replay-reference.md). The
    other arguments are as for ``highwater.traces.replay.replay``. Returns the Report. An unreadable input is an error
    of the test.
    """

    def call(
        path: str | PathLike[str],
        *,
        profile: str | None = None,
        rules: Mapping[str, bool] | None = None,
        broker_logs: Sequence[str | PathLike[str]] = (),
        allow: Collection[str] = (),
    ) -> Report:
        __tracebackhide__ = True
        report = replay_path(path, profile, rules, broker_logs=broker_logs)
        found = {*report.findings_count, *(doubt.kind for doubt in report.doubts)}
        if report.unexplained_count or report.damage or found - set(allow):
            pytest.fail("\n".join(summary(report)), pytrace=False)
        return report

    return call
