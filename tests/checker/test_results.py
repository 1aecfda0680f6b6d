"""The JSON result follows its schema, is documented, and agrees with the search."""

from __future__ import annotations

import copy
import json
import re
from importlib.metadata import version
from typing import Any

import pytest

from highwater import __version__
from tests.checker.conftest import ROOT
from tests.checker.schema import problems
from tests.command import highwater

SCHEMA = json.loads((ROOT / "checker/report/result.schema.json").read_text())
RESULT = SCHEMA["$defs"]["result"]


@pytest.fixture(scope="module")
def violated() -> Any:
    return highwater("check", "truncation/truncate-to-hwm", "--workers", 1, "--json", "-").results


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_results_follow_the_schema(engine: str) -> None:
    asked = ("docs/examples/register.toml", "docs/examples/register-hasty.toml", "--deadlock")
    for more in ((), ("--limit-states", 10)):
        run = highwater("check", *asked, *more, "--engine", engine, "--json", "-")
        assert len(run.results) == 2
        assert problems(run.results, SCHEMA) == []


def test_results_of_walks_follow_the_schema() -> None:
    for name in ("truncation/kip-320", "docs/examples/register-hasty.toml"):
        run = highwater("simulate", name, "--walks", 50, "--json", "-")
        assert problems(run.results, SCHEMA) == []
        assert run.results[0]["distinct_states"] is None


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "results.md").read_text().split("| key | meaning |")[1].split("\n\n")[0]
    documented = {
        name for row in re.findall(r"^\| (`.*?) \|", text, re.M) for name in re.findall(r"`(\w+)`", row)
    }
    assert documented == set(RESULT["properties"])


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("verdict",), "perhaps"),
        (("violations", 0, "trace", 0, "action"), "leader_write"),
        (("violations", 0, "depth"), True),
        (("surprise",), 1),
    ],
)
def test_the_schema_refuses(violated: Any, where: Any, value: Any) -> None:
    changed = copy.deepcopy(violated)
    place = changed[0]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    assert problems(changed, SCHEMA)


def test_a_missing_key_is_refused(violated: Any) -> None:
    for key in RESULT["required"]:
        changed = copy.deepcopy(violated)
        del changed[0][key]
        assert problems(changed, SCHEMA) == [f"$[0]: {key} is missing"]


def test_a_trace_leads_from_the_initial_state_to_the_violating_one(violated: Any) -> None:
    """The trace's changes, applied in order to the initial state, give the violating state."""
    for violation in violated[0]["violations"]:
        first, *rest = violation["trace"]
        state = copy.deepcopy(first["state"])
        assert violation["depth"] == len(rest) + 1
        for step in rest:
            assert step["changes"]
            for path, change in step["changes"].items():
                keys = [int(k) if k.isdigit() else k for k in re.findall(r"\w+", path)]
                place = state
                for key in keys[:-1]:
                    place = place[key]
                assert place[keys[-1]] == change["before"]
                place[keys[-1]] = change["after"]
        assert state == violation["state"]


def test_versions(violated: Any) -> None:
    assert violated[0]["versions"]["highwater"] == __version__
    assert __version__ == version("highwater-checker")
