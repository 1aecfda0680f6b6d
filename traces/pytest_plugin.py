"""For test suites: a fixture that replays what a test recorded, and fails with the report.

Off unless asked for: ``pytest -p traces.pytest_plugin``, or ``pytest_plugins = ["traces.pytest_plugin"]`` in the
top ``conftest.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike

import pytest

from traces.replay import replay as replay_path
from traces.report import Report
from traces.summary import summary

Replay = Callable[..., Report]


@pytest.fixture
def replay() -> Replay:
    """Replay a path: the test fails unless the protocol explains all of it, and nothing is found.

    Called with the path, and as ``traces.replay.replay`` with ``profile``, ``rules`` and ``broker_logs``; ``allow`` are
    names of properties whose findings are expected. Returns the Report. What cannot be read is an error of the
    test, as in any other call.
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
        if report.unexplained_count or set(report.findings_count) - set(allow):
            pytest.fail("\n".join(summary(report)), pytrace=False)
        return report

    return call


__all__ = ["Replay", "replay"]
