"""Each liveness property of ZooKeeper mode needs exactly its fairness assumptions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.checker.engines.liveness import violating_run
from highwater.checker.engines.native.state_graph import explore
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


@pytest.mark.parametrize("prop", LIVENESS, ids=lambda p: p.name)
def test_a_liveness_property_needs_each_of_its_fairness_assumptions(prop: Liveness) -> None:
    weaker = [
        replace(prop, name=f"{prop.name}_{number}", fair=prop.fair[:number] + prop.fair[number + 1 :])
        for number in range(len(prop.fair))
    ]
    model = Model(ZooKeeperMode(BUDGETS[prop.name]), (), [prop, *weaker])
    graph = explore(model, SearchOptions())
    fails = [violating_run(graph, traced).violation is not None for traced in model.liveness]
    assert fails == [False, *(True for _ in prop.fair)]
