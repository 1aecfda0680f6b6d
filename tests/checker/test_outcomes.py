"""Verdict, expectation and exit status of a result, for each way in which a search can end."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.base.problems import Status, worst
from highwater.checker.runner import one as exploration
from highwater.checker.scenarios.request import Overrides, Request, asked
from highwater.checker.scenarios.search import SearchOptions
from tests.checker.test_verdict_table import outcome


def ended(stopped_by: Any, violated: Any = (), name: str = "truncation/kip-279", **more: Any) -> Any:
    return outcome(name, violated, stopped_by=stopped_by, **{"states": 60_106, **more})


@pytest.mark.parametrize(
    ("found", "verdict", "status", "expected"),
    [
        (ended(None, ["strong_isr"]), "violated", 0, True),
        (ended(None), "holds", 1, False),
        (ended(None, ["strong_isr", "weak_isr"]), "violated", 1, False),
        (ended(None, ["strong_isr"], depth=21), "violated", 1, False),
        (ended(None, ["strong_isr"], states=60_105), "violated", 1, False),
        (ended("violation", ["weak_isr", "strong_isr"], depth=9), "violated", 1, False),
        (ended("violation", ["strong_isr"], first=True, depth=12), "violated", 0, True),
        (ended("violation", ["weak_isr"], first=True, depth=12), "violated", 1, False),
        (ended("states"), "inconclusive", 3, None),
        (ended("seconds"), "inconclusive", 3, None),
        (ended("memory"), "inconclusive", 3, None),
        (ended("states", ["strong_isr"]), "violated", 3, None),
        (ended("states", ["weak_isr"]), "violated", 1, False),
        (ended("interrupted"), "inconclusive", 130, None),
        (ended("interrupted", ["weak_isr"]), "violated", 130, False),
        (ended(None, overrides=Overrides(parameters={"replicas": 2})), "holds", 0, None),
        (
            ended(None, ["strong_isr"], overrides=Overrides(rules={"matching_tail": True})),
            "violated",
            1,
            None,
        ),
        (ended(None, ["strong_isr"], overrides=Overrides(symmetry=True), depth=1), "violated", 0, True),
        (
            ended("violation", ["weak_isr", "strong_isr"], "truncation/truncate-to-hwm", depth=9),
            "violated",
            0,
            True,
        ),
        (ended("violation", ["weak_isr"], "truncation/truncate-to-hwm", depth=9), "violated", 1, False),
    ],
)
def test_how_a_search_ends(found: Any, verdict: str, status: Any, expected: Any) -> None:
    assert (found.verdict, found.status, found.expected) == (verdict, status, expected)


def test_the_worst_status() -> None:
    ok, bad, open_, stopped = Status.OK, Status.VIOLATED, Status.INCONCLUSIVE, Status.INTERRUPTED
    assert worst([]) is ok
    assert worst([ok, open_]) is open_
    assert worst([open_, bad, ok]) is bad
    assert worst([bad, stopped, open_]) is stopped
    assert worst(Status) is Status.INTERNAL


@pytest.mark.parametrize("where", ["tracing", "searching"])
def test_an_interrupt_outside_the_search_is_an_outcome_too(
    monkeypatch: pytest.MonkeyPatch, where: Any
) -> None:
    request = asked("truncation/kip-320")

    def interrupt(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    if where == "tracing":
        monkeypatch.setattr(Request, "model", interrupt)
    found = exploration.explore(request, "native", interrupt, SearchOptions())
    assert (found.verdict, found.status) == ("inconclusive", Status.INTERRUPTED)
    assert found.to_json()["distinct_states"] == 0
