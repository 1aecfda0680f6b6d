"""Differences between two revisions of a protocol agree with the interpreter on every state."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from highwater.checker.comparing.models.differences import Comparison, lines
from highwater.checker.comparing.models.image import image
from highwater.checker.comparing.models.states import _levels, compare
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.model.language import Int, Protocol, State, Struct, action, require
from highwater.model.language.model import Model
from tests.gate.stepping import reached, steps
from tests.slow import slow


def compared(
    name: str, *rules: str, settings: tuple[str, ...] = (), limit_states: int = 100_000
) -> tuple[Comparison, Model, Model]:
    before = Request.of(scenario_files.find(name), Overrides.parse(settings))
    after = Request.of(scenario_files.find(name), Overrides.parse(settings, rules))
    old, new = before.model(), after.model()
    plain = json.loads(json.dumps(image(old, before)))
    return compare(name, plain, new, after, limit_states=limit_states), old, new


SMALL = ("max_records=1", "log_size=1")


@pytest.mark.parametrize(
    ("name", "rule", "settings"),
    [
        pytest.param(
            "replication/defect-fenced-leader",
            "ineligible_replica_check",
            (),
            marks=slow("steps of 8,000 states of replication; fast for truncation"),
        ),
        ("truncation/kip-320", "join_at_epoch_start", SMALL),
    ],
)
def test_counts_and_runs_are_those_of_the_interpreter(
    name: str, rule: str, settings: tuple[str, ...]
) -> None:
    """The counts equal those from each revision's interpreter, over states that both reach."""
    found, old, new = compared(name, f"{rule}=off", settings=settings)
    before, after = reached(old), reached(new)
    both = before.keys() & after.keys()
    assert found.whole
    assert found.states == len(both)
    assert (found.new_states, found.lost_states) == (len(after) - len(both), len(before) - len(both))
    assert found.to_new is not None
    assert len(found.to_new.steps) == min(after[s] for s in after.keys() - before.keys())
    expected: dict[str, list[int]] = {}
    for state in both:
        was, now = steps(old, state), steps(new, state)
        for key in was.keys() | now.keys():
            counts = expected.setdefault(key[0], [0, 0, 0])
            counts[0] += key not in was
            counts[1] += key not in now
            counts[2] += key in was and key in now and was[key] != now[key]
    assert {a.action: [a.gained, a.lost, a.otherwise] for a in found.actions if not a.same_so_far} == {
        n: c for n, c in expected.items() if any(c)
    }
    told = "\n".join(lines(found))
    assert f"rule {rule}: on → off" in told
    assert "states are reached now, not before" in told


def test_an_incomplete_comparison_reports_its_depth() -> None:
    found, old, new = compared(
        "truncation/kip-320", "join_at_epoch_start=off", settings=SMALL, limit_states=3_000
    )
    assert not found.whole
    before, after = reached(old), reached(new)
    new_so_deep = [s for s in after.keys() - before.keys() if after[s] <= found.depth]
    assert found.new_states == len(new_so_deep) > 0
    assert f"within depth {found.depth}" in "\n".join(lines(found))


def test_a_level_is_whole_when_all_of_the_one_before_was_expanded() -> None:
    """Levels begin at states 0, 1 and 4; 10 states were found."""

    def levels(expanded: int, complete: bool = False) -> int:
        found: Any = SimpleNamespace(
            level_starts=np.array([0, 1, 4, 10]), expanded=expanded, complete=complete
        )
        return _levels(found)

    assert [levels(n) for n in (0, 1, 3, 4, 9)] == [1, 2, 2, 3, 3]
    assert levels(10, complete=True) == 3


def test_states_of_other_fields_are_not_compared() -> None:
    before = Request.of(scenario_files.find("truncation/kip-320"), Overrides())
    after = Request.of(scenario_files.find("truncation/kip-320"), Overrides.parse(("max_records=1",)))
    plain: dict[str, Any] = json.loads(json.dumps(image(before.model(), before)))
    found = compare("x", plain, after.model(), after)
    assert found.states is None
    assert found.fields
    told = "\n".join(lines(found))
    assert "parameter max_records: 2 → 1" in told
    assert "the states cannot be compared" in told


class _Pair(Protocol):
    name = "pair"

    def define(self) -> Struct:
        return Struct("State", low=Int(0, 3), high=Int(0, 5))

    def initial(self) -> list[dict[str, object]]:
        return [{"low": 0, "high": 1}]

    @action()
    def raise_low(self, s: State) -> None:
        require("below high", (s.low < s.high) & (s.low < 3))
        s.next.low = s.low + 1

    @action()
    def raise_high(self, s: State) -> None:
        require("below the top", s.high < 5)
        s.next.high = s.high + 1


class _Moved(_Pair):
    def define(self) -> Struct:
        return Struct("State", high=Int(0, 5), low=Int(0, 3))


class _MovedAndFaster(_Moved):
    @action()
    def raise_high(self, s: State) -> None:
        require("below the top", s.high < 4)
        s.next.high = s.high + 2


def asked(protocol: type[Protocol]) -> Any:
    scenario = SimpleNamespace(protocol=protocol)
    return SimpleNamespace(scenario=scenario, parameters={}, rules={}, symmetry=False, deadlock=False)


def test_fields_that_moved_are_the_same_fields() -> None:
    before = image(Model(_Pair()), asked(_Pair))
    moved = compare("x", before, Model(_Moved()), asked(_Moved))
    assert moved.reordered
    assert moved.same_graph
    assert moved.actions == []
    faster = compare("x", before, Model(_MovedAndFaster()), asked(_MovedAndFaster))
    assert faster.reordered
    assert [a.action for a in faster.actions] == ["raise_high"]
    assert faster.states == len(
        reached(Model(_Pair())).keys() & {s[::-1] for s in reached(Model(_MovedAndFaster()))}
    )
    assert "leads elsewhere" in "\n".join(lines(faster))
