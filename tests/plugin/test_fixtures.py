"""The pytest fixtures: a protocol by name, the result of its exploration, and recorded runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.checker.engines.by_name import search
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.traces.runs.writing import write_run
from tests.plugin.test_items import EXAMPLES, PLUGIN
from tests.traces.metadata.made_logs import beginning
from tests.traces.metadata.made_logs import write as write_log
from tests.traces.runs.made import bad_run, good_run, write

pytest_plugins = ["pytester"]


def run(pytester: pytest.Pytester, text: str) -> pytest.RunResult:
    pytester.path.joinpath("register.py").write_text((EXAMPLES / "register.py").read_text())
    pytester.makepyfile(text)
    return pytester.runpytest_inprocess(*PLUGIN, "--highwater", "--highwater-engine", "interpreter")


def test_explore_passes_correct_protocols(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        def test_rules(protocol, explore):
            lost = ["no_acknowledged_write_is_lost"]
            register = protocol("register.py", parameters={"writes": 1})
            assert register.model().protocol.p.writes == 1
            assert explore(register).complete
            explore("register.py", rules={"wait_for_all": False}, violated=lost)
            assert explore("truncation/truncate-to-hwm", engine="native").depth == 21
        """,
    ).assert_outcomes(passed=1)


def test_explore_fails_with_the_counterexample(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_violated(explore):
            explore("register.py", rules={"wait_for_all": False})

        def test_not_violated(explore):
            explore("register.py", violated=["no_acknowledged_write_is_lost"])

        def test_not_all_seen(explore):
            explore("register.py", limit_states=20)
        """,
    )
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "no_acknowledged_write_is_lost is violated",
            "*is violated at depth 4, after 3 steps.",
            "no_acknowledged_write_is_lost is not violated",
            "inconclusive: not all states were explored",
        ]
    )


def test_replay_passes_conforming_runs(pytester: pytest.Pytester, tmp_path: Path) -> None:
    path = write(tmp_path / "good.ndjson", good_run())
    run(pytester, f"def test_recorded(replay): assert replay({str(path)!r}).operations > 10").assert_outcomes(
        passed=1
    )


def test_replay_fails_with_the_report(pytester: pytest.Pytester, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.ndjson", bad_run())
    result = run(pytester, f"def test_recorded(replay): replay({str(path)!r})")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*DOES NOT CONFORM: 1 operation*", "*expected 2, recorded 0*"])


def test_findings_fail_unless_they_are_expected(pytester: pytest.Pytester, tmp_path: Path) -> None:
    model = asked("truncation/truncate-to-hwm").model()
    (found, *_) = search("native")(model, SearchOptions(workers=1), None).violations
    path = tmp_path / "run.ndjson"
    write_run(path, model, found.initial, found.path, profile="truncate_to_hwm")
    result = run(
        pytester,
        f"""
        def test_found(replay): replay({str(path)!r})
        def test_one_is_expected(replay): replay({str(path)!r}, allow=["weak_isr"])
        def test_both_are_expected(replay):
            report = replay({str(path)!r}, allow=["weak_isr", "strong_isr"])
            assert set(report.findings_count) == {{"weak_isr", "strong_isr"}}
        """,
    )
    result.assert_outcomes(passed=1, failed=2)


def test_unknown_or_damaged_recordings_fail(pytester: pytest.Pytester, tmp_path: Path) -> None:
    newer = write_log(tmp_path / "newer", beginning(("metadata.version", 30)))
    damaged = write_log(tmp_path / "damaged", [*beginning(), b"\1\4\0"])
    result = run(
        pytester,
        f"""
        def test_newer(replay): replay({str(newer)!r})
        def test_newer_is_allowed(replay): replay({str(newer)!r}, allow=["newer version"])
        def test_damaged(replay): replay({str(damaged)!r}, allow=["newer version"])
        """,
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*incomplete input: metadata.version 30*"])
    result.stdout.fnmatch_lines(["*DAMAGED INPUT: *"])


def test_fixtures_are_off_by_default(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_replay(replay): pass")
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'replay' not found*"])
