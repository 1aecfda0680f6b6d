"""Kafka's own controller runs what `plan` says can happen."""

from __future__ import annotations

import pytest

from highwater.checker.conform.bridge import Bridge
from highwater.traces.rules.profiles import rule_set
from tests.plan.on_kafka import SETTINGS, told
from tests.slow import slow

RULES = rule_set("kafka_4_2").rules


@pytest.mark.parametrize("setting", SETTINGS[:1], ids=str)
def test_kafka_runs_some_alarms_as_told(bridge: Bridge, setting: object) -> None:
    assert told(SETTINGS[0], RULES, bridge, 4, seed=1) == (4, [])


@slow("alarms of every kind of plan, where the fast test has four of one")
@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_kafka_runs_alarms_of_every_plan_as_told(bridge: Bridge, number: int) -> None:
    count, wrong = told(SETTINGS[number], RULES, bridge, 20, seed=7)
    assert (count, wrong) == (20, [])
