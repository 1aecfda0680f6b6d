"""Random runs: those that keep the rules have no finding; the others have exactly the loss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.kafka import broker_log as events
from highwater.traces.reports.observed import PartitionChange, PartitionState
from tests.traces.broker_runs import Run
from tests.traces.watermarks.test_high_watermark import LOST, READ, lost


def run(folder: Path, seed: int, unclean: bool, steps: int = 150) -> Run:
    found = Run(folder, seed, unclean)
    for _ in range(steps):
        found.step()
    return found


@pytest.mark.parametrize("seed", range(8))
def test_runs_that_keep_the_rules_have_no_finding(tmp_path: Path, seed: int) -> None:
    made = run(tmp_path, seed, unclean=False).made
    judged = made.watermarks()
    assert judged.finish({"t1-0": 1}) == []
    assert judged.figures["HWM moves"] > 0


@pytest.mark.parametrize("seed", range(12))
def test_runs_with_unclean_elections_lose_what_is_found(tmp_path: Path, seed: int) -> None:
    made = run(tmp_path, seed, unclean=True)
    findings = made.made.findings(1)
    assert [lost(f) for f in findings if f.property == LOST] == made.lost
    assert {f.property for f in findings} <= {LOST, READ}


SMALL = st.integers(0, 6)
IDS = st.lists(st.integers(0, 3), max_size=3, unique=True).map(tuple)
PLACE = (st.just(Path("x")) | st.just(Path("y")), SMALL, SMALL, st.integers(0, 2), st.just("t1"), st.just(0))
EVENTS = st.one_of(
    st.builds(events.HwmMoved, *PLACE, SMALL, SMALL),
    st.builds(events.HwmLowered, *PLACE, SMALL, SMALL),
    st.builds(events.LeoRecorded, *PLACE, st.integers(0, 3), SMALL),
    st.builds(events.IsrUpdated, *PLACE, IDS, SMALL, st.booleans()),
    st.builds(
        events.IsrShrinking, *PLACE, IDS, IDS, SMALL, SMALL, st.lists(st.tuples(SMALL, SMALL)).map(tuple)
    ),
    st.builds(events.IsrSubmitted, *PLACE, SMALL, SMALL, IDS, IDS, st.none() | SMALL, IDS),
    st.builds(events.BecameLeader, *PLACE, SMALL, SMALL, SMALL, SMALL, IDS, st.booleans()),
    st.builds(events.StillLeader, *PLACE, SMALL, SMALL, SMALL, IDS),
    st.builds(events.BecameFollower, *PLACE, SMALL, SMALL, SMALL, SMALL, st.none() | SMALL),
    st.builds(events.StillFollower, *PLACE, SMALL, SMALL, IDS),
    st.builds(events.FetcherRemoved, *PLACE),
    st.builds(events.Truncating, *PLACE, SMALL, SMALL),
    st.builds(events.InitialHwm, *PLACE, SMALL),
    st.builds(events.LogLoaded, *PLACE, SMALL),
    st.builds(events.TopicConfigured, *PLACE, st.none() | st.integers(1, 3)),
)
STATES = st.builds(
    PartitionState,
    replicas=IDS,
    isr=IDS,
    elr=IDS,
    leader=st.none() | SMALL,
    leader_epoch=SMALL,
    partition_epoch=SMALL,
)


@settings(max_examples=60)
@given(
    st.lists(st.lists(EVENTS, max_size=15), max_size=3),
    st.lists(st.tuples(st.none() | STATES, STATES), max_size=6),
)
def test_any_events_are_judged_without_an_error(
    sources: list[list[events.BrokerEvent]], states: list[tuple[PartitionState | None, PartitionState]]
) -> None:
    judged = Watermarks(sources)
    for position, (before, after) in enumerate(states):
        judged.change(PartitionChange(position, position, "t1", 0, before, after, None, 2))
    for finding in judged.finish({"t1-0": 2}):
        assert finding.summary
        assert finding.at_risk
        json.dumps(finding.to_json())
