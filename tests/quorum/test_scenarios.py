"""The quorum's scenarios keep their promises, and the commands know the protocol like any other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.checker.scenarios import scenario_files
from tests.slow import all_but

OTHERS = [
    name
    for name, (_, standard) in scenario_files.titles().items()
    if name.startswith("quorum/") and "/defect-" not in name and not standard
]
"""The standard ones are those of ``highwater check``: tests/replication/test_standard_scenarios.py."""
QUICK = ("quorum/liveness-at-rest",)


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
