"""Each property of the quorum is found broken in logs of a run in which a rule was off; with all rules, nothing is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from highwater.checker.native import search
from highwater.checker.search import SearchOptions
from highwater.invariants.quorum import INVARIANTS
from highwater.model.language.model import Model
from highwater.model.quorum import Quorum
from highwater.traces.raft.replay import replay_raft
from tests.traces.raft.writing import scripted, written

PROFILE = "kafka_4_2"
ALL = Quorum.profiles["kip_996"].rules

BROKEN = (
    ("observers_do_not_count", "committed_records_are_on_a_majority", {"observers": 1}),
    ("divergence_check", "logs_match", {"elections": 1}),
    ("unknown_hwm_is_told", "no_fetch_waits_while_its_hwm_is_behind", {"restarts": 1}),
    ("records_complete", "no_fetch_waits_while_there_are_records", {}),
    ("equal_hwm_parks", "answers_bring_news", {}),
    ("hwm_within_log", "hwm_is_committed", {"appends": 2}),
    ("up_to_date_vote", "leader_completeness", {"elections": 1}),
)
"""A rule that is off, the property that fails then, and the budgets."""


@cache
def model(off: tuple[str, ...], budgets: tuple[tuple[str, int], ...], asked: str = "") -> Model:
    sizes = {"voters": 3, "appends": 1, **dict(budgets)}
    return Model(Quorum(sizes, ALL - set(off)), [i for i in INVARIANTS if i.name == asked])


@pytest.mark.parametrize(("rule", "property_", "budgets"), BROKEN, ids=[rule for rule, _, _ in BROKEN])
def test_a_broken_property_is_found(rule: str, property_: str, budgets: dict[str, int], tmp_path: Path) -> None:
    broken = model((rule,), tuple(budgets.items()), property_)
    result = search(broken, SearchOptions(workers=1, stop_at_first=True))
    (violation,) = result.violations
    from tests.traces.raft.writing import taken

    first, run = taken(broken, violation.path, violation.initial)
    report = replay_raft(written(tmp_path, broken, first, run), PROFILE)
    assert property_ in report.findings_count, (report.unexplained, report.findings_count)
    assert report.unexplained_count
