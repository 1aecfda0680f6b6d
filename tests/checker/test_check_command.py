"""`highwater check`: exit statuses, expectations, overriding options, limits, report and JSON."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.scenarios import scenario_files
from tests.checker.conftest import Write
from tests.command import highwater

each_engine = pytest.mark.parametrize("engine", ["native", "interpreter"])
HOLDS = "[expect]\nviolated = ['below_seven']\n"
VIOLATED = "[parameters]\ntop = 7\n[expect]\nviolated = ['below_seven']\n"


class TestStatus:
    @pytest.mark.parametrize(
        ("text", "options", "status", "said"),
        [
            ("", (), 0, "holds"),
            ("[parameters]\ntop = 7\n", (), 1, "below_seven is violated, but expected to hold"),
            (VIOLATED, (), 0, "violated (expected)"),
            (HOLDS, (), 1, "below_seven holds, but expected to be violated"),
            ("[expect]\ndistinct_states = 6\ndepth = 6\n", (), 0, "holds"),
            ("[expect]\ndistinct_states = 7\n", (), 1, "distinct_states is 6, but expected to be 7"),
            ("[expect]\ndepth = 5\n", (), 1, "depth is 6, but expected to be 5"),
            ("[expect]\ndistinct_states = 6\n", ("--set", "top=3"), 0, "holds"),
            ("properties = ['deadlock']\n[expect]\nviolated = ['deadlock']\n", (), 0, "violated (expected)"),
            ("", ("--limit-states", 1), 3, "stopped at --limit-states: not all states were explored"),
        ],
    )
    def test_the_status_follows_from_the_expectations(
        self, counter: Write, text: str, options: Any, status: int, said: str
    ) -> None:
        run = highwater("check", counter(text), "--engine", "interpreter", *options)
        assert (run.status, run.err) == (status, "")
        assert said in run.out

    def test_the_worst_of_several_counts(self, counter: Write) -> None:
        good, bad = counter(name="good.toml"), counter("[parameters]\ntop = 7\n", name="bad.toml")
        run = highwater("check", good, bad, good, "--engine", "interpreter", "--json", "-")
        assert run.status == 1
        assert [r["verdict"] for r in run.results] == ["holds", "violated", "holds"]

    @each_engine
    def test_deadlock(self, counter: Write, engine: str) -> None:
        assert highwater("check", counter(), "--engine", engine, "--no-deadlock").status == 0
        for ask in (("--deadlock",), ("--property", "deadlock")):
            run = highwater("check", counter(), "--engine", engine, *ask, "--json", "-")
            assert run.status == 1
            (violation,) = run.results[0]["violations"]
            assert (violation["property"], violation["depth"]) == ("deadlock", 6)
            assert violation["state"] == {"count": 5}

    @each_engine
    def test_type_that_is_left(self, counter: Write, engine: str) -> None:
        run = highwater("check", counter("[parameters]\ntop = 9\nsize = 4\n"), "--engine", engine)
        assert run.status == 2
        assert run.err.count("\n") == 1
        assert "counter.py:" in run.err
        assert "count leaves 0..4" in run.err
        assert "increase" in run.err


class TestOverrides:
    @pytest.mark.parametrize(
        "option",
        [("--set", "size=9"), ("--rule", "skips=off"), ("--profile", "plain"), ("--property", "below_seven")],
    )
    def test_an_expected_violation_counts(self, counter: Write, option: str) -> None:
        path = counter(VIOLATED)
        run = highwater("check", path, *option, "--engine", "interpreter", "--json", "-")
        assert run.status == 1
        assert run.results[0]["promised"] is None
        assert run.results[0]["broken"] == ["below_seven is violated"]

    def test_options_reach_the_model(self, counter: Write) -> None:
        options = ("--profile", "round", "--rule", "skips=on", "--set", "top=6", "--set", "top=4")
        run = highwater("check", counter(), *options, "--engine", "interpreter", "--json", "-")
        (result,) = run.results
        assert result["profile"] == "round"
        assert result["rules"] == {"wraps": True, "skips": True}
        assert result["parameters"] == {"top": 4, "size": 9}
        assert result["properties"] == ["below_seven", "even_is_small"]
        assert result["actions"]["skip"] > 0
        assert result["depth"] == 3

    def test_the_file_s_rules_stay_over_another_profile(self, counter: Write) -> None:
        path = counter("[rules]\nwraps = false\n")
        run = highwater("check", path, "--profile", "round", "--engine", "interpreter", "--json", "-")
        assert run.results[0]["rules"]["wraps"] is False

    def test_symmetry_reports_counts_that_are_not_compared(self) -> None:
        said = "  not compared: distinct_states and depth, expected of a search without symmetry"
        run = highwater("check", "truncation/kip-320", "--symmetry")
        assert (run.status, said in run.out) == (0, True)
        assert "not compared" not in highwater("check", "truncation/kip-320").out
        (result,) = highwater("check", "truncation/kip-320", "--symmetry", "--json", "-").results
        assert (result["promised"], result["symmetry"]) == (True, True)


class TestReport:
    def test_quiet_is_the_table_only(self, counter: Write) -> None:
        run = highwater("check", counter("[parameters]\ntop = 7\n"), "--quiet")
        head, row, _, wrong, total = run.out.strip().splitlines()
        assert head.split()[:2] == ["scenario", "verdict"]
        assert "violated (not expected)" in row
        assert wrong.endswith("below_seven is violated, but expected to hold")
        assert total.startswith("1 scenario not as expected: ")

    def test_verbose_has_every_state(self, counter: Write) -> None:
        run = highwater("check", counter(VIOLATED), "--verbose", "--engine", "interpreter")
        assert run.out.count("          count  ") == 8

    def test_actions_never_taken_and_premises_never_met(self, counter: Write) -> None:
        path = counter("[rules]\nwraps = true\nskips = true\n[parameters]\ntop = 1\n")
        run = highwater("check", path, "--engine", "interpreter")
        assert "impossible with these parameters: skip" in run.out
        assert "vacuous (premise never holds): even_is_small" in run.out

    def test_pruned_steps_are_reported(self) -> None:
        run = highwater("check", "docs/examples/register.toml", "--engine", "interpreter")
        assert "pruned at a bound: 104 steps at writes" in run.out

    def test_the_collision_probability_is_reported_if_there_is_one(self, counter: Write) -> None:
        assert "fingerprint collision probability" in highwater("check", counter()).out
        assert "collision probability" not in highwater("check", counter(), "--engine", "interpreter").out

    def test_a_counterexample_of_several_properties_is_printed_once(self) -> None:
        run = highwater("check", "truncation/truncate-to-hwm", "--set", "max_leader_epoch=1", "--workers", 1)
        assert run.status == 1
        assert run.out.count("The state that violates") == 1
        assert "is violated by the same run as" in run.out

    def test_no_property(self, counter: Write) -> None:
        text = "from highwater.model.language import *\nclass Still(Protocol):\n    def define(self):\n        return "
        text += "Struct('State', x=Bool)\n    def initial(self):\n        return [{'x': False}]\n"
        run = highwater("check", counter("protocol = 'counter.py'\n", protocol=text))
        assert run.status == 0
        assert "checked: no property" in run.out


def test_a_pattern_adds_scenarios_that_are_not_named() -> None:
    kips = ["truncation/kip-101", "truncation/kip-279", "truncation/kip-320-first-try", "truncation/kip-320"]
    assert scenario_files.expanded(["truncation/kip-*"]) == kips
    named = ["truncation/kip-279", "mine.toml", "truncation/kip-*", "truncation/kip-279"]
    once = [kip for kip in scenario_files.expanded(["truncation/kip-*"]) if kip != "truncation/kip-279"]
    # A scenario that is named without a pattern is run each time it is named.
    assert scenario_files.expanded(named) == ["truncation/kip-279", "mine.toml", *once, "truncation/kip-279"]
    with pytest.raises(InputError, match="no scenario matches"):
        scenario_files.expanded(["nothing/*"])


# ---  -------------------------------------------------------------------------------------------------


REGISTER, HASTY = "docs/examples/register.toml", "docs/examples/register-hasty.toml"
WALKS = ("--walks", 300, "--depth", 20)


@pytest.fixture
def walk() -> Any:
    return lambda *arguments: highwater("simulate", *arguments)


def test_an_expected_violation_is_found(walk: Any) -> None:
    run = walk(HASTY, *WALKS, "--json", "-")
    (result,) = run.results
    assert run.status == 0
    assert (result["verdict"], result["promised"], result["complete"]) == ("violated", True, False)
    (violation,) = result["violations"]
    assert violation["state"]["stored"][violation["state"]["leader"]] < violation["state"]["acknowledged"]


def test_an_unexpected_violation_fails(walk: Any) -> None:
    run = walk(REGISTER, "--rule", "wait_for_all=off", *WALKS)
    assert run.status == 1
    assert "The state that violates no_acknowledged_write_is_lost, as far as" in run.out


def test_walks_without_a_violation_prove_nothing(walk: Any) -> None:
    run = walk(REGISTER, *WALKS, "--json", "-")
    (result,) = run.results
    assert run.status == 0
    assert (result["verdict"], result["promised"], result["complete"]) == ("inconclusive", None, False)
    assert (result["walks"], result["stopped_by"]) == (300, None)
    assert "300 random walks, seed 0: no proof" in walk(REGISTER, *WALKS).out


def test_a_limit_makes_it_inconclusive(walk: Any) -> None:
    options = ("--walks", 10**9, "--limit-seconds", 0.2)
    run = walk(REGISTER, *options, "--json", "-")
    assert run.status == 3
    assert run.results[0]["stopped_by"] == "seconds"
    assert 0 < run.results[0]["walks"] < 10**9


def test_a_deadlock_is_found(walk: Any, counter: Write) -> None:
    run = walk(counter(), "--deadlock", *WALKS, "--json", "-")
    assert run.status == 1
    assert run.results[0]["violations"][0]["property"] == "deadlock"
    assert run.results[0]["violations"][0]["depth"] == 6


def test_a_depth_is_not_passed(walk: Any, counter: Write) -> None:
    run = walk(counter(), "--walks", 3, "--depth", 4, "--json", "-")
    (result,) = run.results
    assert (result["depth"], result["generated_states"], result["actions"]["increase"]) == (4, 12, 9)
    (result,) = walk(counter(), "--walks", 3, "--depth", 1, "--json", "-").results
    assert (result["depth"], result["generated_states"], result["actions"]["increase"]) == (1, 3, 0)


def test_the_same_seed_makes_the_same_walks(walk: Any) -> None:
    def result(seed: int) -> Any:
        options = ("--walks", 40, "--seed", seed, "--json", "-")
        found = walk("truncation/kip-320", *options).results[0]
        return {key: found[key] for key in ("generated_states", "depth", "actions", "cut", "premises")}

    assert result(7) == result(7)
    assert result(7) != result(8)
