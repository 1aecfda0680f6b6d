"""``*.scenario.toml`` as test items: one for each expectation of a scenario.

The states are explored when the first item of a file runs, and once: under xdist once on each worker that has
items of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.report.results import ScenarioOutcome
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Request
from highwater.checker.testing.plugin import runs
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Model

SUFFIX = ".scenario.toml"


class Broken(Exception):
    """An expectation that is not met; the message is what is shown."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Collect the files that end in ``.scenario.toml``."""
    if not file_path.name.endswith(SUFFIX):
        return None
    found: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
    return found


class ScenarioFile(pytest.File):
    """A scenario's file; ``explored`` is what its items share."""

    @cached_property
    def request(self) -> Request:
        """What is asked: the file, and the options over it."""
        scenario = scenario_files.read(self.path, self.nodeid)
        return runs.fitted(self.config, Request.of(scenario, runs.overrides(self.config)))

    @cached_property
    def explored(self) -> tuple[Model, ScenarioOutcome]:
        """The search. What it raises is raised for each item."""
        return runs.search(self.config, self.request)

    def collect(self) -> Iterable[Expectation]:
        """An item for each property, and for each expected count."""
        try:
            request = self.request
        except (InputError, LanguageError) as wrong:
            raise self.CollectError(str(wrong)) from None
        promise = request.scenario.promise
        violated = promise.violated if request.as_written else frozenset()
        for name in request.properties:
            word = "violated" if name in violated else "holds"
            yield self._item(f"{word}[{name}]", _violated if name in violated else _holds, name)
        for name in request.scenario.promise.reachable if request.as_written else ():
            yield self._item(f"reached[{name}]", _reached, name)
        if request.counts_expected:
            for key in ("distinct_states", "depth"):
                expected = getattr(promise, key)
                if expected is not None:
                    yield self._item(f"{key}[{expected}]", _count, key)

    def _item(self, name: str, judge: Judge, about: str) -> Expectation:
        item: Expectation = Expectation.from_parent(self, name=name, judge=judge, about=about)
        if self.config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group(self.nodeid))
        return item


Judge = Callable[[ScenarioOutcome, str], str | None]
"""What is wrong with an outcome, in view of a property or a count; None where nothing is."""


class Expectation(pytest.Item):
    """One expectation of a scenario."""

    parent: ScenarioFile

    def __init__(self, *, judge: Judge, about: str, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.judge, self.about = judge, about

    def runtest(self) -> None:
        """Explore, if no other item of the file has, and judge."""
        model, outcome = self.parent.explored
        for key in ("distinct_states", "depth"):
            self.user_properties.append((key, getattr(outcome.result, key)))
        wrong = self.judge(outcome, self.about)
        if wrong:
            lines = [f"{self.parent.nodeid}: {wrong}", *runs.told(model, outcome, [self.about])]
            raise Broken("\n".join(lines))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """What is not met with its counterexample, or one line for bad input; else as any failure."""
        if isinstance(excinfo.value, (Broken, InputError, LanguageError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file, and what is expected."""
        return self.path, 0, self.name


def _found(outcome: ScenarioOutcome) -> set[str]:
    return {example.name for example in outcome.examples}


def _holds(outcome: ScenarioOutcome, name: str) -> str | None:
    if name in _found(outcome):
        promised = ", but expected to hold" if outcome.request.as_written else ""
        return f"{name} is violated{promised}"
    if outcome.result.stopped_by in (None, "violation"):
        return None
    return f"{name} is undecided: not all states were explored"


def _violated(outcome: ScenarioOutcome, name: str) -> str | None:
    if name in _found(outcome):
        return None
    if outcome.result.complete:
        return f"{name} holds, but expected to be violated"
    return f"no violation of {name} was found, but not all states were seen"


def _reached(outcome: ScenarioOutcome, name: str) -> str | None:
    if outcome.reachable[name] is not None:
        return None
    if outcome.result.complete:
        return f"{name} is not reached, but was expected to be"
    return f"{name} was not reached, but not all states were seen"


def _count(outcome: ScenarioOutcome, key: str) -> str | None:
    expected, actual = getattr(outcome.request.scenario.promise, key), getattr(outcome.result, key)
    if not outcome.result.complete:
        return f"{key} is undecided (expected {expected:,}): not all states were explored"
    return None if expected == actual else f"{key} is {actual:,}, but expected to be {expected:,}"
