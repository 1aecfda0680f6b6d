"""The verdict table: lines fit, names are not broken, unexpected verdicts stand out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import click
import pytest

from highwater.checker import runner
from highwater.checker.base.files import JsonOutput
from highwater.checker.base.problems import Status, worst
from highwater.checker.report import summary
from highwater.checker.report.counterexample import Counterexample, Step
from highwater.checker.report.results import Result
from highwater.checker.report.summary import table, total_line
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request, asked
from highwater.checker.scenarios.search import SearchOptions, SearchResult

STATES = 39_619


def outcome(
    name: str,
    violated: Any = (),
    *,
    states: int = STATES,
    depth: int = 22,
    seconds: float = 0.5,
    overrides: Any = None,
    stopped_by: Any = None,
    first: bool = False,
) -> Any:
    request = Request.of(scenario_files.find(name), overrides or Overrides())
    steps = (Step("initial", {}, "initial state", {}, {}),) * 12
    result = SearchResult(stopped_by=stopped_by, distinct_states=states, depth=depth, seconds=seconds)
    examples = tuple(Counterexample(prop, "", "", steps) for prop in violated)
    return Result(request, "native", result, examples, stop_at_first=first)


def to_goals(request: Request) -> tuple[Counterexample, ...]:
    """A run to each goal that the scenario expects."""
    steps = (Step("initial", {}, "initial state", {}, {}),) * 12
    return tuple(Counterexample(goal.name, "", "", steps, goal=True) for goal in request.goals)


def kept(name: str) -> Any:
    """A result of a scenario that ends as expected."""
    expectation = scenario_files.find(name).expectation
    counts: dict[str, Any] = {
        "states": expectation.distinct_states or STATES,
        "depth": expectation.depth or 22,
    }
    found = outcome(name, sorted(expectation.violated), **counts)
    return replace(found, constant=tuple(expectation.constant), goal_runs=to_goals(found.request))


def lines(outcomes: Any, width: Any = summary.WIDTH) -> Any:
    return [click.unstyle(line) for line in table(outcomes, width)]


@pytest.fixture(scope="module")
def everything() -> Any:
    return [kept(name) for name in scenario_files.titles()]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_every_scenario_has_one_whole_line(everything: Any, width: Any) -> None:
    shown = lines(everything, width)
    assert max(map(len, shown)) <= width
    names = [o.request.scenario.name for o in everything]
    groups = {name.rpartition("/")[0] for name in names}
    assert sorted(line.split()[0] for line in shown) == sorted(
        [*groups, *(name.rpartition("/")[2] for name in names)]
    )
    properties = {e.name for o in everything for e in o.runs}
    words = set(re.findall(r"\w+_\w+", "\n".join(shown))) - {"properties"}
    assert words <= properties, "a name was broken"


def test_the_verdict_is_shortened_to_the_width(everything: Any) -> None:
    two = kept("truncation/truncate-to-hwm"), kept("truncation/kip-101")
    wide, medium, narrow = ("\n".join(lines(two, width)) for width in (100, 86, 79))
    assert "violated (expected): strong_isr at depth 12" in wide
    assert "violated (expected): strong_isr, weak_isr" in medium
    assert "violated (expected): 2 properties" in narrow


def test_goals_are_shown_as_there_is_room() -> None:
    def verdict(outcome: Any, width: int = 100) -> Any:
        return lines([outcome], width)[-1].split(None, 1)[1].strip()

    one = kept("quorum/reach-observer")
    assert "a_member_hears_of_an_epoch_before_a_voter at depth 12" in verdict(one, 160)
    assert "reached: 4 goals" in verdict(kept("quorum/reach-votes"))
    assert "holds; 6 goals reached" in verdict(kept("zookeeper/reach"))
    two = kept("replication/upgrade-mixed-old-fetcher")
    assert "keeps_the_promise at depth 12; 1 goal reached" in verdict(two, 180)
    assert "violated (expected): 2 properties" in verdict(two)
    missed = replace(one, goal_runs=())
    assert "not reached (not expected): a_member_hears_of_an_epoch_before_a_voter" in verdict(missed, 140)


def test_numbers_give_way_to_the_verdict() -> None:
    one = [kept("replication/defect-truncate-to-hwm")]
    assert lines(one, 82)[0].split() == ["scenario", "verdict", "states", "depth", "seconds"]
    assert lines(one, 74)[0].split() == ["scenario", "verdict", "states", "depth"]
    assert lines(one, 60)[0].split() == ["scenario", "verdict"]


def test_groups_have_one_heading_and_files_keep_their_path() -> None:
    several = [kept(n) for n in ("truncation/kip-101", "truncation/kip-320", "zookeeper/before-kip-380")]
    shown = lines(several)
    assert [line.split()[0] for line in shown] == [
        *("truncation", "kip-101", "kip-320"),
        *("zookeeper", "before-kip-380"),
    ]
    assert [("states" in line) for line in shown] == [True, False, False, False, False]
    mine = lines([kept("docs/examples/register.toml"), kept("truncation/kip-320")])
    assert [line.split()[0] for line in mine[1:]] == ["docs/examples/register.toml", "truncation/kip-320"]


def test_of_a_long_path_the_end_is_given() -> None:
    assert summary.short_name("docs/examples/register.toml") == "docs/examples/register.toml"
    long = f"/home/somebody/{'deep/' * 9}protocols/mine/first.toml"
    assert summary.short_name(long) == "…/deep/deep/protocols/mine/first.toml"
    assert summary.short_name(f"/{'x' * 60}.toml") == f"…/{'x' * 60}.toml"


def test_unexpected_verdicts_are_marked() -> None:
    wrong = outcome("truncation/kip-320", ["weak_isr"])
    missing = outcome("truncation/kip-101", [], states=59_788)
    unended = outcome("truncation/kip-279", [], stopped_by="states")
    shown = lines([kept("truncation/kip-320-first-try"), wrong, missing, unended])
    assert [line[:2] for line in shown] == ["tr", "  ", "! ", "! ", "! "]
    assert "violated (not expected): weak_isr at depth 12" in shown[2]
    assert "holds (not expected)" in shown[3]
    assert "inconclusive" in shown[4]


def test_the_last_line() -> None:
    good = [kept("truncation/kip-101"), kept("truncation/kip-320")]
    wrong = outcome("truncation/kip-320", ["weak_isr"])
    other = outcome("truncation/kip-320", ["weak_isr"], overrides=Overrides(rules={"fenced_fetch": False}))
    many = outcome("truncation/kip-320", states=3_000_000)
    unended = outcome("truncation/kip-279", [], stopped_by="states")

    def said(outcomes: Any) -> Any:
        return click.unstyle(total_line(outcomes, 41.04))

    assert said(good) == "2 scenarios as expected: 99,407 states, 41.0 s"
    assert said([wrong]) == "1 scenario not as expected: 39,619 states (79,238/s), 41.0 s"
    assert said([*good, wrong, many]).startswith(
        "4 scenarios: 2 as expected, 2 not as expected: 3.1 million states"
    )
    assert said([other]).startswith("1 scenario violated (parameters overridden: expectations not checked): ")
    assert said([unended]).startswith("1 scenario inconclusive: ")


def test_notes_of_several_are_counts_and_of_one_all_of_them() -> None:
    first, second = kept("truncation/kip-101"), kept("truncation/kip-320")
    first.search.cut["log_size"] = 5
    first.search.actions |= {"elect": 3, "lose": 0}
    checked = "checked: 2 invariants, 3 step properties; 1 of 1 scenarios leave some declared property out"
    assert list(summary.attention([second])) == [checked]
    assert list(summary.attention([first, second])) == [
        "checked: 4 invariants, 7 step properties; 1 of 2 scenarios leave some declared property out",
        "of 2 scenarios 1 have an action that is never taken, 1 prune steps at a bound (--verbose lists them)",
    ]
    alone = str(first).splitlines()
    assert "  pruned at a bound: 5 steps at log_size" in alone
    assert "  never taken: lose" in alone


def test_many_scenarios_are_summed_up_by_protocol(
    everything: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = outcome("truncation/kip-320", ["weak_isr"])
    for verbose in (False, True):
        summary.finish([*everything, wrong], JsonOutput(None), quiet=True, verbose=verbose, seconds=1.0)
        out = capsys.readouterr().out
        assert ("quorum/liveness-elections" in out) is False
        assert ("  liveness-elections " in out) is verbose
        assert "truncation/kip-320: weak_isr is violated, but expected to hold" in out
    summary.finish([*everything, wrong], JsonOutput(None), quiet=True, seconds=1.0)
    shown = capsys.readouterr().out.splitlines()
    assert any(re.fullmatch(r"promise +1 +[\d,]+ +\d+\.\d  as expected", line) for line in shown)
    assert any(line.startswith("truncation") and line.endswith("1 not as expected") for line in shown)


# --- verdict, expectation and exit status of a result, for each way in which a search can end ---------


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
    found = runner.explore(request, "native", interrupt, SearchOptions())
    assert (found.verdict, found.status) == ("inconclusive", Status.INTERRUPTED)
    assert found.to_json()["distinct_states"] == 0
