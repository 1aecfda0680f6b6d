"""Verdict, expectation and exit status of a result, for each way in which a search can end."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.base.problems import Status, worst
from highwater.checker.report.counterexample import Counterexample, Step
from highwater.checker.report.results import Result
from highwater.checker.runner import one as exploration
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import SearchOptions, SearchResult

WEAK, STRONG = (
    Counterexample(n, "B4", "", (Step("initial", {}, "", {}, {}),)) for n in ("weak_isr", "strong_isr")
)


def outcome(
    stopped_by: Any,
    examples: Any = (),
    scenario: str = "truncation/kip-279",
    overrides: Any = None,
    first: Any = False,
    **counts: Any,
) -> Any:
    request = Request.of(find(scenario), overrides or Overrides())
    numbers = {"distinct_states": 60106, "depth": 22} | counts
    found = SearchResult(stopped_by=stopped_by, **numbers)
    return Result(request, "native", found, tuple(examples), stop_at_first=first)


@pytest.mark.parametrize(
    ("ended", "verdict", "status", "expected"),
    [
        (outcome(None, [STRONG]), "violated", 0, True),
        (outcome(None), "holds", 1, False),
        (outcome(None, [STRONG, WEAK]), "violated", 1, False),
        (outcome(None, [STRONG], depth=21), "violated", 1, False),
        (outcome(None, [STRONG], distinct_states=60105), "violated", 1, False),
        (outcome("violation", [WEAK, STRONG], depth=9), "violated", 1, False),
        (outcome("violation", [STRONG], first=True, depth=12), "violated", 0, True),
        (outcome("violation", [WEAK], first=True, depth=12), "violated", 1, False),
        (outcome("states"), "inconclusive", 3, None),
        (outcome("seconds"), "inconclusive", 3, None),
        (outcome("memory"), "inconclusive", 3, None),
        (outcome("states", [STRONG]), "violated", 3, None),
        (outcome("states", [WEAK]), "violated", 1, False),
        (outcome("interrupted"), "inconclusive", 130, None),
        (outcome("interrupted", [WEAK]), "violated", 130, False),
        (outcome(None, overrides=Overrides(parameters={"replicas": 2})), "holds", 0, None),
        (outcome(None, [STRONG], overrides=Overrides(rules={"matching_tail": True})), "violated", 1, None),
        (outcome(None, [STRONG], overrides=Overrides(symmetry=True), depth=1), "violated", 0, True),
        (outcome("violation", [WEAK, STRONG], "truncation/truncate-to-hwm", depth=9), "violated", 0, True),
        (outcome("violation", [WEAK], "truncation/truncate-to-hwm", depth=9), "violated", 1, False),
    ],
)
def test_how_a_search_ends(ended: Any, verdict: str, status: Any, expected: Any) -> None:
    assert (ended.verdict, ended.status, ended.expected) == (verdict, status, expected)


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
    request = Request.of(find("truncation/kip-320"), Overrides())

    def interrupt(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    if where == "tracing":
        monkeypatch.setattr(Request, "model", interrupt)
    ended = exploration.explore(request, "native", interrupt, SearchOptions())
    assert (ended.verdict, ended.status) == ("inconclusive", Status.INTERRUPTED)
    assert ended.to_json()["distinct_states"] == 0
