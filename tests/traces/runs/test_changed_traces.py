"""A changed field of a trace is reported, unless the result is another run of the model."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.reading import TraceError
from tests.slow import WHOLE, slow
from tests.traces.json_changes import another, fields_of, get, put
from tests.traces.runs.made import is_run, replayed, walk_of

SCENARIOS = ("truncation/kip-320", "replication/controller/small", "replication/large-crashes")
OUTSIDE = {("meta", "scenario")}
"""Fields that only people read."""


def looked_at(path: Any) -> bool:
    return path[:2] not in OUTSIDE


def reported(tmp_path: Path, lines: Any) -> bool:
    try:
        return not replayed(tmp_path, lines).explained
    except TraceError:
        return True


def check(tmp_path: Path, lines: Any, at: Any, path: Any, value: Any) -> bool:
    """True if the replay reports the change; otherwise the changed trace must be a run."""
    changed = copy.deepcopy(lines)
    put(changed[at], path, value)
    if reported(tmp_path, changed):
        return True
    assert is_run(changed), (at, path, value)
    return False


def places(lines: Any) -> Any:
    return [(at, path) for at, line in enumerate(lines) for path in fields_of(line) if looked_at(path)]


@pytest.mark.parametrize("whole", [False, True], ids=["changes", "whole states"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_some_changes(scenario: str, whole: Any, tmp_path: Path) -> None:
    """Changes of the first line need other models; the slow test covers them."""
    lines = walk_of(scenario, depth=12, seed=1, whole=whole)
    assert is_run(lines)
    rng = random.Random(scenario)
    chosen = rng.sample([place for place in places(lines) if place[0]], 15)
    found = [check(tmp_path, lines, at, path, another(rng, get(lines[at], path))) for at, path in chosen]
    assert sum(found) > len(found) // 2


@slow("a change of each field of each line; the fast test has 15 of each run")
@pytest.mark.parametrize("whole", [False, True], ids=["changes", "whole states"])
@pytest.mark.parametrize("scenario", SCENARIOS if WHOLE else SCENARIOS[:2])
def test_every_field(scenario: str, whole: Any, tmp_path: Path) -> None:
    lines = walk_of(scenario, depth=12, seed=2, whole=whole)
    rng = random.Random(scenario)
    for at, path in places(lines):
        for _ in range(2):
            check(tmp_path, lines, at, path, another(rng, get(lines[at], path)))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_change_left_out(scenario: str, tmp_path: Path) -> None:
    """A trace without one of its changes does not conform, or is another run."""
    lines = walk_of(scenario, depth=12)
    for at, line in enumerate(lines[2:], 2):
        for path in line["changes"]:
            changed = copy.deepcopy(lines)
            del changed[at]["changes"][path]
            assert reported(tmp_path, changed) or is_run(changed), (at, path)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_lines_lost_doubled_and_in_another_order(scenario: str, tmp_path: Path) -> None:
    lines = walk_of(scenario, depth=12, whole=True)
    for at in range(2, len(lines)):
        if at < len(lines) - 1:
            assert reported(tmp_path, lines[:at] + lines[at + 1 :])
            assert reported(tmp_path, [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
        assert reported(tmp_path, lines[: at + 1] + lines[at:])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_lines_lost_and_counted_anew(scenario: str, tmp_path: Path) -> None:
    lines = walk_of(scenario, depth=12, whole=True)
    for at in range(2, len(lines) - 1):
        changed = copy.deepcopy(lines[:at] + lines[at + 1 :])
        for step, line in enumerate(changed[1:]):
            line["step"] = step
        assert reported(tmp_path, changed) != is_run(changed), at
