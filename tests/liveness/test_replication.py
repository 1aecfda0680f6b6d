"""Liveness of replication holds, and each fairness assumption is needed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from docs.pages import kept
from docs.pages.liveness import LIVELOCKS, Livelock, needs_section, row, run_with
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.invariants.replication import LIVENESS
from highwater.invariants.replication.controller import LIVENESS as CONTROLLER_LIVENESS
from highwater.model.language import Model
from highwater.model.replication import control
from highwater.model.replication.protocol import Replication
from tests.docs.generated import generated
from tests.slow import slow

SOME = ("replication/liveness-zombie",)
SOME_STANDARD = ("replication/recovery-first-phase-loss",)
"""A slow test of tests/docs generates the whole page."""


def page() -> str:
    return generated("liveness.md")


@pytest.mark.parametrize("name", SOME)
def test_the_page_s_section_of_a_scenario_is_up_to_date(name: str) -> None:
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        before = list(needs_section(name))
    with kept.in_mode(kept.Mode.AFRESH):
        assert list(needs_section(name)) == before


@pytest.mark.parametrize("name", SOME_STANDARD)
def test_the_page_s_row_of_a_standard_scenario_is_up_to_date(name: str) -> None:
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        before = row(name)
    with kept.in_mode(kept.Mode.AFRESH):
        assert row(name) == before


@slow("traces the hundreds of models of the liveness page")
def test_every_assumption_is_needed_in_some_scenario() -> None:
    """Each row of the page comes from a run that the interpreter confirmed."""
    rows = re.findall(r"^\| `(\w+)` \| (?!nothing)(.*?) \| (\d+) \| \d+ \|$", page(), re.M)
    needed = {(name, fairness) for name, fairness, _ in rows}
    assert needed == {(p.name, str(f)) for p in (*LIVENESS, *CONTROLLER_LIVENESS) for f in p.fair}


@slow("traces the hundreds of models of the liveness page")
def test_every_property_holds_in_a_scenario_in_which_it_could_fail() -> None:
    """Each property holds in a standard scenario, or in a liveness scenario that needs its fairness."""
    fails_with_less = set(re.findall(r"^\| `(\w+)` \| (?!nothing).*? \| \d+ \| \d+ \|$", page(), re.M))
    tables = page().split("## Standard scenarios")[1].split("\n## ")[0].split("\n### ")[1:]
    for table, properties in zip(tables, (LIVENESS, CONTROLLER_LIVENESS), strict=True):
        rows = [
            re.findall(r"holds|–|\*\*\w\*\*", found)
            for found in re.findall(r"^\| \S+ \| [\d,]+ \|.*$", table, re.M)
        ]
        columns = list(zip(*rows, strict=True))
        assert len(columns) == len(properties)
        for found, prop in zip(columns, properties, strict=True):
            assert "holds" in found or prop.name in fails_with_less


@pytest.mark.parametrize("livelock", LIVELOCKS.values(), ids=lambda found: found.property)
def test_a_planted_livelock_is_found_with_a_loop_that_is_real(livelock: Livelock) -> None:
    """The interpreter confirms that the loop closes, is fair and misses the goal."""
    with kept.in_mode(kept.Mode.AFRESH):
        run = livelock.run()
    assert run.loop is not None
    loop = run.steps[run.loop.start :]
    assert len(loop) > 2
    assert loop[0].state == loop[-1].state
    assert all(step.changes for step in loop[1:])


def in_its_epoch(m: Any, sent: Any, error: Any, partition: Any) -> Any:
    """Planted: the AlterPartition response has the sender's leader epoch even if the change ended it."""
    return ANSWER_TO(m, sent, error, partition.replace(leader_epoch=sent.leader_epoch))


ANSWER_TO = control.answer_to


def test_a_leader_that_never_hears_of_its_new_leader_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "answer_to", in_its_epoch)
    request = Request.of(scenario_files.find("replication/liveness-replacement"), Overrides())
    planted = Replication(request.parameters, (name for name, on in request.rules.items() if on))
    model = Model(planted, (), request.liveness)
    graph = kept.Graph(model)
    found = {p.name: run_with(graph, p.liveness, p.liveness.fair) for p in model.liveness}
    assert found.pop("reassignments_complete") is None
    assert all(found.values())
    run = found["writes_are_answered"]
    assert run is not None
    assert run.loop is not None
    assert [step.action for step in run.steps[run.loop.start + 1 :]] == ["send_fetch", "refuse_fetch"]


def test_a_standard_scenario_checks_invariants_and_liveness() -> None:
    asked = Request.of(scenario_files.find("replication/large-fencing"), Overrides())
    other = Request.of(scenario_files.find("replication/large-min-isr"), Overrides())
    assert {p.name for p in asked.liveness} == {p.name for p in LIVENESS} - NOT_SHOWN
    assert {p.name for p in other.invariants} <= {p.name for p in asked.invariants}


NOT_SHOWN = {
    "brokers_run",
    "reassignments_complete",
    "electable_replicas_lead",
    "hwm_comes_to_cover_what_is_committed",
}
"""In that scenario no broker is down or moved, and no partition lacks a leader or has an old HWM."""
