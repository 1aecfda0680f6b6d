"""Each liveness property of ZooKeeper mode needs exactly its fairness assumptions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.checker.engines.liveness import violating_run
from highwater.checker.engines.reference import explore
from highwater.checker.scenarios.search import SearchOptions
from highwater.invariants.zookeeper import LIVENESS
from highwater.model.language import Liveness, Model
from highwater.model.zookeeper import ZooKeeperMode

BUDGETS = {
    "live_brokers_hear_what_was_decided": {"bounces": 1, "metadata": 0},
    "live_brokers_know_the_leader": {"bounces": 1},
    "a_live_isr_member_leads": {"bounces": 1, "metadata": 0},
    "sessions_come_back": {"expirations": 1, "metadata": 0},
}


def fails(prop: Liveness) -> bool:
    model = Model(ZooKeeperMode(BUDGETS[prop.name]), (), [prop])
    return violating_run(explore(model, SearchOptions()), model.liveness[0]).violation is not None


@pytest.mark.parametrize("prop", LIVENESS, ids=lambda p: p.name)
def test_a_liveness_property_needs_each_of_its_fairness_assumptions(prop: Liveness) -> None:
    assert not fails(prop)
    for assumption in prop.fair:
        rest = tuple(f for f in prop.fair if f is not assumption)
        assert fails(replace(prop, fair=rest)), f"{assumption} is not needed"
