"""Scenario files as pytest items."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import highwater.checker.engines.native  # noqa: F401  # the runs inside forget what they import, and numpy cannot be imported twice
from highwater.checker.engines.by_name import search
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.traces.runs.writing import write_run
from tests.traces.metadata.made_logs import beginning
from tests.traces.metadata.made_logs import write as write_log
from tests.traces.runs.made import bad_run, good_run, write

pytest_plugins = ["pytester"]

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
INSTALLED = any(
    point.value == "highwater.checker.testing.pytest_plugin" for point in entry_points(group="pytest11")
)
"""True if the installed distribution already registers the plugin."""
PLUGIN = ["-p", "no:cacheprovider", *([] if INSTALLED else ["-p", "highwater.checker.testing.pytest_plugin"])]
INTERPRETER = ["--highwater-engine", "interpreter"]

PROMISE = """
[expect]
violated = ["no_acknowledged_write_is_lost"]
"""
HASTY = 'protocol = "register.py"\n[rules]\nwait_for_all = false\n'


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.path.joinpath("register.py").write_text((EXAMPLES / "register.py").read_text())
    return pytester


def scenario(project: pytest.Pytester, name: str, text: str) -> None:
    project.path.joinpath(f"{name}.scenario.toml").write_text(text)


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_inprocess(*PLUGIN, *INTERPRETER, *arguments)


def test_collection_is_off_by_default(project: pytest.Pytester) -> None:
    scenario(project, "good", 'protocol = "register.py"\n')
    assert run(project).ret == pytest.ExitCode.NO_TESTS_COLLECTED
    run(project, "--highwater").assert_outcomes(passed=1)
    project.makeini("[pytest]\nhighwater = true\n")
    run(project).assert_outcomes(passed=1)


def test_a_goal_that_is_expected_is_an_item(project: pytest.Pytester) -> None:
    text = (project.path / "register.py").read_text()
    goal = '''@reachable("example")
def {name}(m, s):
    """A client has an acknowledgement."""
    return {condition}


class '''
    goals = [("something_is_acknowledged", "s.acknowledged > 0"), ("nothing_is_there", "as_bool(False)")]
    imported = "    as_bool,\n    reachable,\n    Array,\n"
    text = text.replace("    Array,\n", imported, 1)
    for name, condition in goals:
        text = text.replace("class ", goal.format(name=name, condition=condition), 1)
    listed = "(something_is_acknowledged, nothing_is_there)"
    text = text.replace("    invariants = ", f"    reachable = {listed}\n    invariants = ", 1)
    (project.path / "register.py").write_text(text)
    expect = "[expect]\nreachable = "
    scenario(project, "good", f'protocol = "register.py"\n{expect}["something_is_acknowledged"]\n')
    scenario(project, "bad", f'protocol = "register.py"\nproperties = []\n{expect}["nothing_is_there"]\n')
    result = run(project, "--highwater", "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*nothing_is_there is not reached, but expected to be*",
            "*FAILED bad.scenario.toml::reached[[]nothing_is_there[]]*",
        ]
    )


def test_each_thing_that_is_promised_is_an_item(project: pytest.Pytester) -> None:
    scenario(project, "good", 'protocol = "register.py"\n[expect]\ndistinct_states = 198\ndepth = 9\n')
    scenario(project, "hasty", HASTY + PROMISE)
    result = run(project, "--highwater", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "good.scenario.toml::holds[[]no_acknowledged_write_is_lost[]] PASSED*",
            "good.scenario.toml::distinct_states[[]198[]] PASSED*",
            "good.scenario.toml::depth[[]9[]] PASSED*",
            "hasty.scenario.toml::violated[[]no_acknowledged_write_is_lost[]] PASSED*",
        ]
    )


def test_a_failure_shows_the_counterexample(project: pytest.Pytester) -> None:
    scenario(project, "hasty", HASTY)
    result = run(project, "--highwater")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "hasty.scenario.toml: no_acknowledged_write_is_lost is violated, but expected to hold",
            "no_acknowledged_write_is_lost (example) is violated at depth 4, after 3 steps.",
            "   2  a client writes to the leader *",
            "The state that violates no_acknowledged_write_is_lost, as far as*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    for report in result.reprec.getreports("pytest_runtest_logreport"):  # type: ignore[attr-defined]
        json.dumps(report._to_json())  # as xdist's workers send it


def test_promises_that_are_not_kept_fail(project: pytest.Pytester) -> None:
    wrong = 'distinct_states = 197\nimpossible = ["write"]\nconstant = ["no_acknowledged_write_is_lost"]\n'
    scenario(project, "wrong", 'protocol = "register.py"\n' + PROMISE + wrong)
    result = run(project, "--highwater")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            "*no_acknowledged_write_is_lost holds, but expected to be violated",
            "*write is taken, but expected to be impossible",
            "*no_acknowledged_write_is_lost is not constant, but expected to be",
            "*distinct_states is 198, but expected to be 197",
        ]
    )


def test_the_states_are_explored_once_for_a_file(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    from highwater.checker.testing import plugin as runs

    searches: list[str] = []
    search = runs.search

    def counted(config: object, request: object, **rest: object) -> object:
        searches.append(request.scenario.name)  # type: ignore[attr-defined]
        return search(config, request, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "search", counted)
    scenario(project, "good", 'protocol = "register.py"\n[expect]\ndistinct_states = 198\ndepth = 9\n')
    scenario(project, "hasty", HASTY + PROMISE)
    run(project, "--highwater").assert_outcomes(passed=4)
    assert searches == ["good.scenario.toml", "hasty.scenario.toml"]
    searches.clear()
    run(project, "--highwater", "-k", "depth").assert_outcomes(passed=1, deselected=3)
    assert searches == ["good.scenario.toml"]


def test_a_worker_of_xdist_explores_with_one_thread(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    from highwater.checker.testing import plugin

    runs = vars(plugin)["runner"]
    threads: list[int] = []
    explore = runs.explore

    def counted(request: object, engine: object, search: object, options: object, **rest: object) -> object:
        threads.append(options.workers)  # type: ignore[attr-defined]
        return explore(request, engine, search, options, **rest)

    monkeypatch.setattr(runs, "explore", counted)
    scenario(project, "good", 'protocol = "register.py"\n')
    for worker, arguments in ((None, ()), ("gw0", ()), ("gw0", ("--highwater-workers", "2"))):
        with monkeypatch.context() as patch:
            patch.delenv("PYTEST_XDIST_WORKER", raising=False)
            if worker is not None:
                patch.setenv("PYTEST_XDIST_WORKER", worker)
            run(project, "--highwater", *arguments).assert_outcomes(passed=1)
    assert threads == [0, 1, 2], "0: all cores"


def test_options_set_engine_rules_parameters_and_limits(project: pytest.Pytester) -> None:
    scenario(project, "good", 'protocol = "register.py"\n[expect]\ndistinct_states = 198\n')
    result = run(project, "--highwater", "--highwater-rule", "wait_for_all=off")
    result.assert_outcomes(failed=1)  # expected counts do not apply
    result.stdout.fnmatch_lines(["*no_acknowledged_write_is_lost is violated"])
    run(project, "--highwater", "--highwater-set", "writes=1").assert_outcomes(passed=1)
    run(project, "--highwater", "--highwater-engine", "native").assert_outcomes(passed=2)
    result = run(project, "--highwater", "--highwater-limit-states", "20")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*holds?no_acknowledged_write_is_lost? is undecided*", "*distinct_states?198? is undecided*"]
    )
    result = run(project, "--highwater", "--highwater-engine", "abacus")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["--highwater-engine abacus: native or interpreter"])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("workers", "0"),
        ("limit-states", "many"),
        ("limit-seconds", "nan"),
    ],
)
def test_an_invalid_limit_is_refused(project: pytest.Pytester, option: str, value: str) -> None:
    scenario(project, "good", 'protocol = "register.py"\n')
    result = run(project, "--highwater", f"--highwater-{option}={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--highwater-{option}: '{value}' is not a *"])


def test_the_interpreter_counts_without_symmetry_so_counts_are_no_items(project: pytest.Pytester) -> None:
    text = (
        'protocol = "replication"\nprofile = "kip_966"\nsymmetry = true\nproperties = ["leader_completeness"]\n'
        "[parameters]\nbrokers = 2\nreplication_factor = 2\n[expect]\ndepth = 1\n"
    )
    scenario(project, "small", text)
    result = run(project, "--highwater", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["small.scenario.toml::holds*"])
    result.stdout.no_fnmatch_line("*depth*")
    result = run(project, "--highwater", "--collect-only", "-q", "--highwater-engine", "native")
    result.stdout.fnmatch_lines(["small.scenario.toml::depth*"])


def test_a_file_that_is_no_scenario_is_one_line(project: pytest.Pytester) -> None:
    scenario(project, "bad", 'protocol = "register.py"\n[rules]\nwait_for_al = false\n')
    scenario(project, "good", 'protocol = "register.py"\n')
    result = run(project, "--highwater")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*bad.scenario.toml:3: *unknown rule of register 'wait_for_al'*'wait_for_all'?"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result = run(project, "--highwater", "--highwater-rule", "wait_for_all", "good.scenario.toml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["--rule wait_for_all: write NAME=on or NAME=off"])


def test_junit_has_each_item_and_its_counts(project: pytest.Pytester) -> None:
    scenario(project, "hasty", HASTY)
    run(project, "--highwater", "--junitxml", "report.xml", "-o", "junit_family=xunit1")
    (case,) = ElementTree.parse(project.path / "report.xml").iter("testcase")
    assert case.get("name") == "holds[no_acknowledged_write_is_lost]"
    assert {p.get("name") for p in case.iter("property")} == {"distinct_states", "depth"}
    (failure,) = case.iter("failure")
    assert "violated at depth 4" in (failure.text or "")


# --- the pytest fixtures ------------------------------------------------------------------------------


def run_tests(pytester: pytest.Pytester, text: str) -> pytest.RunResult:
    pytester.path.joinpath("register.py").write_text((EXAMPLES / "register.py").read_text())
    pytester.makepyfile(text)
    return pytester.runpytest_inprocess(*PLUGIN, "--highwater", "--highwater-engine", "interpreter")


def test_explore_passes_correct_protocols(pytester: pytest.Pytester) -> None:
    run_tests(
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
    result = run_tests(
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
    run_tests(
        pytester, f"def test_recorded(replay): assert replay({str(path)!r}).operations > 10"
    ).assert_outcomes(passed=1)


def test_replay_fails_with_the_report(pytester: pytest.Pytester, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.ndjson", bad_run())
    result = run_tests(pytester, f"def test_recorded(replay): replay({str(path)!r})")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*DOES NOT CONFORM: 1 operation*", "*expected 2, recorded 0*"])


def test_findings_fail_unless_they_are_expected(pytester: pytest.Pytester, tmp_path: Path) -> None:
    model = asked("truncation/truncate-to-hwm").model()
    (found, *_) = search("native")(model, SearchOptions(workers=1), None).violations
    path = tmp_path / "run.ndjson"
    write_run(path, model, found.initial, found.path, profile="truncate_to_hwm")
    result = run_tests(
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
    newer = write_log(tmp_path / "newer", beginning(("metadata.version", 34)))
    damaged = write_log(tmp_path / "damaged", [*beginning(), b"\1\4\0"])
    result = run_tests(
        pytester,
        f"""
        def test_newer(replay): replay({str(newer)!r})
        def test_newer_is_allowed(replay): replay({str(newer)!r}, allow=["newer version"])
        def test_damaged(replay): replay({str(damaged)!r}, allow=["newer version"])
        """,
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*incomplete input: metadata.version 34*"])
    result.stdout.fnmatch_lines(["*DAMAGED INPUT: *"])


def test_fixtures_are_off_by_default(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_replay(replay): pass")
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'replay' not found*"])
