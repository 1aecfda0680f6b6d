"""Fixtures: name a protocol, explore it, replay what a test recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import pytest

from highwater.checker.report.results import ScenarioOutcome
from highwater.checker.scenarios.request import Request, Subject, asked
from highwater.checker.testing.plugin import runs
from highwater.traces.replay import replay as replay_path
from highwater.traces.reports.report import Report, summary

Explore = Callable[..., ScenarioOutcome]
Name = Callable[..., Request]
Replay = Callable[..., Report]


@pytest.fixture
def protocol(request: pytest.FixtureRequest) -> Name:
    """Name a protocol or a scenario, as ``highwater.checker.scenarios.request.asked``; paths go from the test's file.

    What comes back is a Request: ``explore`` and ``machine`` take it, and its ``model()`` is the traced protocol.
    """

    def call(subject: Subject, **overrides: Any) -> Request:
        return asked(subject, directory=request.path.parent, **overrides)

    return call


@pytest.fixture
def explore(request: pytest.FixtureRequest, protocol: Name) -> Explore:
    """Explore a protocol or a scenario: the test fails unless just what should be violated is.

    ``violated`` names those properties; without it a scenario's promise counts, as far as nothing is set over it.
    ``engine`` and the limits go over the options of the command line, the rest is as for ``protocol``. Returns
    the Outcome.
    """

    def call(
        subject: Subject,
        *,
        violated: Iterable[str] | None = None,
        engine: str | None = None,
        limit_states: int | None = None,
        limit_seconds: float | None = None,
        **overrides: Any,
    ) -> ScenarioOutcome:
        __tracebackhide__ = True
        wanted = protocol(subject, **overrides)
        model, outcome = runs.search(
            request.config, wanted, engine=engine, limit_states=limit_states, limit_seconds=limit_seconds
        )
        broken = _broken(outcome, None if violated is None else frozenset(violated))
        if broken:
            names = [example.name for example in outcome.examples]
            pytest.fail("\n".join([*broken, *runs.told(model, outcome, names)]), pytrace=False)
        return outcome

    return call


def _broken(outcome: ScenarioOutcome, violated: frozenset[str] | None) -> Sequence[str]:
    """What is not as it should be; that not all was seen is such a thing."""
    found = frozenset(example.name for example in outcome.examples)
    said = list(outcome.broken)
    if violated is not None:
        said = [f"{name} is violated" for name in sorted(found - violated)]
        said += [f"{name} is not violated" for name in sorted(violated - found)]
    if not said and outcome.result.stopped_by not in (None, "violation"):
        said.append("nothing can be said: not all states were seen")
    return said


@pytest.fixture
def replay() -> Replay:
    """Replay a path: the test fails unless the protocol explains all of it, nothing is found, and all of it is known.

    Called with the path, and as ``highwater.traces.replay.replay`` with ``profile``, ``rules`` and ``broker_logs``;
    ``allow`` are names of properties whose findings are expected, and kinds of doubts (docs/replay-reference.md).
    Returns the Report. What cannot be read is an error of the test, as in any other call.
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
