"""A nonconforming line: the state before it and the nearest candidates; a changed field of a trace is reported."""

from __future__ import annotations

import copy
import random
import re
from pathlib import Path
from typing import Any

import pytest

from highwater.model.language import Int, Protocol, State, Struct, action, require
from highwater.model.language.model import Model
from highwater.model.language.tracker import NEAREST
from highwater.traces.reading import TraceError
from highwater.traces.reports.report import Report
from highwater.traces.runs import Interpreter, hold, replay_run
from highwater.traces.runs.format import read_run
from highwater.traces.runs.replay import NOT_LOOKED_AT, SHOWN_STATES
from tests.slow import WHOLE, slow
from tests.traces.json_changes import another, fields_of, get, put
from tests.traces.runs.made import counterexample_of, is_run, model_of, replayed, request_of, walk_of, write

BY_A_GUARD = {
    "replication/defect-late-fetch": "stale_fetch_check",
    "replication/defect-join-below-hwm": "join_at_hwm",
}
"""By scenario: its one rule that is off. Switched on, the rule refuses a step of the run."""


def new_guards(scenario: str, rule: str, action: str) -> set[str]:
    """The guards that an action has only with the rule on."""
    request, off = request_of(scenario), model_of(scenario)
    on = type(off.protocol)(request.parameters, {*off.protocol.rules_on, rule})
    found = [
        {(g.name, g.node) for i in model.instances if i.action.name == action for g in i.guards}
        for model in (type(off)(on), off)
    ]
    return {name for name, _ in found[0] - found[1]}


@pytest.mark.parametrize("scenario", BY_A_GUARD)
def test_a_defect_is_refused_by_the_guard_of_the_rule(scenario: str, tmp_path: Path) -> None:
    rule = BY_A_GUARD[scenario]
    lines = counterexample_of(scenario)
    assert not replayed(tmp_path, lines).unexplained
    report = replayed(tmp_path, lines, rules={rule: True})
    assert rule in report.rules
    assert report.unexplained_count == 1
    best = report.unexplained[0].candidates[0]
    line = lines[report.unexplained[0].position["line"] - 1]
    assert (best.action, best.parameters) == (line["action"], line["parameters"] if best.parameters else {})
    assert best.refused_by
    assert set(best.refused_by) <= new_guards(scenario, rule, best.action)
    assert best.differences == {}
    assert not set(best.refused_by) & set(best.passed)


def test_without_the_name_the_right_action_is_the_nearest(tmp_path: Path) -> None:
    scenario = "replication/defect-late-fetch"
    first, *lines = counterexample_of(scenario, whole=True)
    names = [line.pop("action", None) for line in lines]
    for line in lines:
        line.pop("parameters", None)
    report = replayed(tmp_path, [first, *lines], rules={"stale_fetch_check": True})
    (found,) = report.unexplained
    assert found.candidates[0].action == names[found.position["step"]]
    assert len(found.candidates) == NEAREST
    scores = [len(c.refused_by) + len(c.differences) for c in found.candidates]
    assert scores == sorted(scores)


def test_the_replay_goes_on_from_a_whole_state(tmp_path: Path) -> None:
    lines = walk_of("replication/large-fencing", whole=True)
    lines[5]["state"]["brokers"][1]["hwm"] ^= 1
    report = replayed(tmp_path, lines)
    assert [u.position["line"] for u in report.unexplained] == [6, 7]
    assert report.notes == []
    assert NOT_LOOKED_AT not in report.skipped
    (path,) = report.unexplained[0].candidates[0].differences
    assert path == "brokers[1].hwm"


def test_without_the_whole_state_the_replay_ends_with_a_note(tmp_path: Path) -> None:
    lines = walk_of("replication/large-fencing", whole=True)
    for line in lines[1:]:
        line["state"] = {"brokers": line["state"]["brokers"]}
    lines[5]["state"]["brokers"][1]["hwm"] ^= 1
    report = replayed(tmp_path, lines)
    assert report.unexplained_count == 1
    assert report.operations == len(lines) - 1
    assert report.skipped == {NOT_LOOKED_AT: len(lines) - 6}
    assert "the lines after it are not replayed" in report.notes[0]


def test_an_unexplained_line_has_the_state_before_it(tmp_path: Path) -> None:
    lines = walk_of("truncation/kip-320", depth=8, whole=True)
    before = copy.deepcopy(lines[4]["state"])
    lines[5]["time_ms"] = 17
    lines[5]["state"]["next_record_id"] ^= 1
    found = replayed(tmp_path, lines).unexplained[0]
    assert found.before == {"states_that_fit": 1, "states": [before]}
    assert (found.time, found.partition, found.position) == (17, None, {"line": 6, "step": 4})


def test_few_of_many_states_before_a_line_are_reported(tmp_path: Path) -> None:
    lines = walk_of("replication/large-fencing", depth=4)
    blind = [{"step": line["step"]} for line in lines[1:]]
    blind[-1]["state"] = {"committed": [{"value": 0, "epoch": 3}]}
    found = replayed(tmp_path, [lines[0], *blind]).unexplained[0]
    assert len(found.before["states"]) == SHOWN_STATES < found.before["states_that_fit"]


def test_a_start_that_is_none(tmp_path: Path) -> None:
    lines = walk_of("truncation/kip-320", depth=8, whole=True)
    lines[1]["state"]["quorum"]["isr"] = [0, 1]
    found = replayed(tmp_path, lines).unexplained[0]
    (candidate,) = found.candidates
    assert (candidate.action, candidate.differences) == ("initial", {"quorum.isr": ([0, 1, 2], [0, 1])})


def test_an_action_of_a_rule_that_is_off(tmp_path: Path) -> None:
    lines = walk_of("truncation/kip-101", depth=2)[:2]
    lines.append({"step": 1, "action": "follower_truncate", "parameters": {"follower": 1}})
    (candidate,) = replayed(tmp_path, lines).unexplained[0].candidates
    assert (candidate.action, candidate.parameters) == ("follower_truncate", {"follower": 1})
    assert "divergence_on_fetch" in candidate.refused_by[0]


def test_a_bound_that_cuts_is_named(tmp_path: Path) -> None:
    """The bound max_leader_epoch refuses step 3; the report names it, because a larger model may allow the step."""
    first, start, *_ = walk_of("truncation/kip-101")
    lines = [first, start, {"step": 1, "action": "controller_elect_leader", "parameters": {"replica": 0}}]
    lines += [{"step": n, "action": "controller_elect_leader"} for n in (2, 3)]
    report = replayed(tmp_path, lines)
    assert report.unexplained[0].position["step"] == 3
    assert "bound max_leader_epoch" in report.unexplained[0].candidates[0].refused_by
    assert "larger" in report.notes[0]


class Steps(Protocol):
    """Counts to 2. A step from the unreachable state 3 would exceed the type."""

    name = "steps"

    def define(self) -> Struct:
        return Struct("State", count=Int(0, 3))

    def initial(self) -> Any:
        return [{"count": 0}]

    @action("T1")
    def up(self, s: State) -> None:
        require("the count is not 2", s.count != 2)
        s.next.count = s.count + 1


@pytest.mark.parametrize("hidden", [0, 2])
def test_a_step_from_an_unreachable_state_is_no_explanation(hidden: Any, tmp_path: Path) -> None:
    meta = {"format": "highwater-trace-1", "protocol": "steps", "start": "given", "hidden_steps": hidden}
    lines: list[dict[str, Any]] = [
        {"meta": meta},
        {"step": 0, "state": {"count": 3}},
        {"step": 1, "state": {"count": 3}},
    ]
    report = Report("steps", "run of the model", "")
    hold(read_run(write(tmp_path / "run", lines)), Interpreter(Model(Steps())), report)
    (found,) = report.unexplained
    assert found.candidates[0].refused_by == ("the step would leave the types of the state",)
    assert report.notes == [
        "line 3: skipped a step that leaves the state's types: no run reaches the state that it starts from"
    ]


# --- the example in docs/trace-format -----------------------------------------------------------------


PAGE = (Path(__file__).parents[3] / "docs" / "trace-format.md").read_text()
((EXAMPLE, ANSWER),) = re.findall(r"```json\n(.*?)```.*?```\n(.*?)```", PAGE, re.DOTALL)[:1]


def test_the_example_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text(EXAMPLE)
    report = replay_run(path)
    assert (report.explained, report.operations) == (True, 4)


def test_the_changed_example_is_not(tmp_path: Path) -> None:
    lines = EXAMPLE.splitlines()
    lines[2] = re.sub(r'"changes": .*', '"changes": {"brokers[0].hwm": 1}}', lines[2])
    path = tmp_path / "run"
    path.write_text("\n".join(lines))
    assert ANSWER in str(replay_run(path))


# --- changed traces -----------------------------------------------------------------------------------


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
def test_lines_lost_doubled_and_in_another_order(scenario: str, tmp_path: Path) -> None:
    lines = walk_of(scenario, depth=12, whole=True)
    for at in range(2, len(lines)):
        if at < len(lines) - 1:
            assert reported(tmp_path, lines[:at] + lines[at + 1 :])
            assert reported(tmp_path, [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
        assert reported(tmp_path, lines[: at + 1] + lines[at:])
