"""Raft logs of runs with a rule off: the replay finds the broken property."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from highwater.checker.engines.native import search
from highwater.checker.scenarios.search import SearchOptions
from highwater.invariants.quorum import INVARIANTS
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.quorum import Quorum
from highwater.traces.messages.raft_replay import replay_raft
from tests.slow import all_but
from tests.traces.raft.writing import taken, written

ALL = Quorum.profiles["kip_996"].rules
FURTHER = 6
"""Steps after the violation: only a later line shows that an expected event is missing."""

BROKEN: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("unknown_hwm_is_told", "no_fetch_waits_while_its_hwm_is_behind", {}),
    ("behind_is_answered", "no_fetch_waits_while_its_hwm_is_behind", {}),
    ("fetch_carries_hwm", "no_fetch_waits_while_its_hwm_is_behind", {}),
    ("hwm_growth_completes", "no_fetch_waits_while_its_hwm_is_behind", {"observers": 1}),
    ("records_complete", "no_fetch_waits_while_there_are_records", {}),
    ("equal_hwm_parks", "answers_bring_news", {}),
    ("hwm_within_log", "hwm_is_committed", {"appends": 2}),
    ("observers_do_not_count", "committed_records_are_on_a_majority", {"observers": 1}),
    ("majority_commits", "committed_records_are_on_a_majority", {"voters": 5}),
    ("divergence_check", "logs_match", {"elections": 1}),
    ("up_to_date_vote", "leader_completeness", {"elections": 1}),
    ("majority_elects", "one_leader_per_epoch", {"elections": 2}),
    ("new_leader_forgets_hwm", "leaders_hwm_covers_earlier_epochs", {"elections": 1}),
)
"""The rule that is off, the property that fails without it, and the model's bounds."""


@cache
def model(off: str, asked: str, budgets: tuple[tuple[str, int], ...]) -> Model:
    sizes = {"voters": 3, "appends": 1, **dict(budgets)}
    return Model(Quorum(sizes, ALL - {off}), [i for i in INVARIANTS if i.name == asked])


QUICK = ("unknown_hwm_is_told", "records_complete")


@pytest.mark.parametrize(
    "rule", all_but(QUICK, [rule for rule, _, _ in BROKEN], "a search and a replay for each rule")
)
def test_a_broken_property_is_found(rule: str, tmp_path: Path) -> None:
    property_, budgets = next((one[1], one[2]) for one in BROKEN if one[0] == rule)
    broken = model(rule, property_, tuple(budgets.items()))
    (violation,) = search(broken, SearchOptions(workers=1, stop_at_first=True)).violations
    path, interpreter, state = list(violation.path), Interpreter(broken), tuple(violation.initial)
    for number in path:
        state = interpreter.step(state, number).state or state
    for _ in range(FURTHER):
        steps = [n for n in interpreter.enabled(state) if broken.instances[n].action.name != "park_timer"]
        if steps:
            path.append(steps[-1])
            state = interpreter.step(state, steps[-1]).state or state
    first, run = taken(broken, path, violation.initial)
    report = replay_raft(written(tmp_path, broken, first, run))
    assert property_ in report.findings_count, (report.unexplained, report.findings_count)
    assert report.unexplained_count
    (source,) = (i.source for i in INVARIANTS if i.name == property_)
    assert {f.rule for f in report.findings if f.property == property_} == {source}
