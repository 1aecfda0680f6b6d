"""The quorum's scenarios keep their promises, and the commands know the protocol like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.checker.scenarios import scenario_files
from highwater.model.quorum import Quorum
from tests.slow import all_but, slow

OTHERS = [
    name
    for name, (_, standard) in scenario_files.titles().items()
    if name.startswith("quorum/") and "/defect-" not in name and not standard
]
"""The standard ones are those of ``highwater check``: tests/replication/test_standard_scenarios.py."""
QUICK = ("quorum/live-at-rest",)


def run(*arguments: str, status: int = 0) -> str:
    """The output of a command that ends with this status."""
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == status, result.output
    return result.output


def checked(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        run("check", *arguments, "--quiet", "--workers", "1", "--json", "-")
    )
    return found


@pytest.mark.parametrize("name", all_but(QUICK, OTHERS, "a whole search of each; one is quick"))
def test_every_promise_is_kept_in_a_whole_search(name: str) -> None:
    (result,) = checked(name)
    assert result["promised"]
    assert result["complete"] or result["violations"]
    assert not result["cut"]


def test_the_lists_know_the_quorum() -> None:
    assert "quorum/standard-elections" in run("list")
    assert "hwm_comes_without_the_timer" in run("list", "--kind", "liveness")
    shown = run("show", "quorum/standard-messages")
    assert all(rule in shown for rule in Quorum.rules)


@slow("twenty walks of the largest standard scenario; of other protocols tests/traces/runs has fast ones")
def test_a_walk_is_replayed_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "walk.trace"
    walk = ("--quiet", "--workers", "1", "--walks", "20", "--trace-out", str(trace))
    run("simulate", "quorum/standard-losses", *walk)
    assert "every operation conforms" in run("replay", str(trace))
    meta, *steps = trace.read_text(encoding="utf-8").splitlines()
    taken = next(i for i, line in enumerate(steps) if '"send_fetch"' in line)
    steps[taken] = steps[taken].replace('"send_fetch"', '"lose_fetch"')
    trace.write_text("\n".join([meta, *steps]), encoding="utf-8")
    assert "DOES NOT CONFORM" in run("replay", str(trace), status=1)


def test_the_bounded_check_finds_the_same_depth() -> None:
    told = run("prove", "quorum/defect-equal-hwm-answered", "--depth", "4", "--quiet")
    assert "answers_bring_news is violated at depth 3" in told
