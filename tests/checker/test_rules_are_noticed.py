"""``highwater check`` detects a missing rule also by properties outside of its default scenarios."""

from __future__ import annotations

import pytest

from highwater.checker.engines.liveness import search_with_liveness
from highwater.checker.engines.native import search
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from tests.slow import all_but

NOTICED = {
    "replication/large-old-checkpoints end_waits_for_epoch_start": "told_end_never_falls",
    "replication/large-waiting-producers followers_end_waiting": "acknowledged_records_survive",
    "replication/large-acks consumers_read_below_hwm": "consumers_read_consistently",
    "replication/liveness-old-checkpoint min_isr_within_replicas": "hwm_comes_to_cover_what_is_committed",
    "replication/large-many-at-once hwm_waits_for_leaving": "electable_completeness",
    "replication/large-late-proposals partition_epoch_check": "electable_completeness",
    "replication/large-late-proposals proposal_keeps_its_epochs": "electable_completeness",
    "replication/large-former-controller answers_are_committed": "electable_completeness",
    "replication/large-deletion removed_replicas_delete": "electable_completeness",
    "replication/large-deletion reassignment_bumps_leader_epoch": "electable_completeness",
    "replication/large-shutdown-requests changes_are_no_stop_replica": "told_leaders_lead",
    "quorum/large-finalised missing_hwm_is_greatest": "answers_bring_news",
    "quorum/large-consumer consumers_leave_it_out": "answers_bring_news",
    "quorum/large-consumer consumers_read_committed": "hwm_is_committed",
    "quorum/large-elections diverging_is_answered": "no_fetch_waits_while_its_log_diverges",
    "quorum/large-observers growth_completes_all": "no_fetch_waits_while_its_hwm_is_behind",
    "zookeeper/large-two-partitions leader_and_isr_epoch_check": "checkpoints_keep_every_partition",
    "zookeeper/large-deletion stop_replica_epoch_check": "isr_members_keep_their_log",
    "zookeeper/small-older-controller missing_epoch_is_obeyed": "live_brokers_hear_what_was_decided",
}
"""Standard scenario and rule → a property that fails there without the rule."""

QUICK = {
    "replication/liveness-old-checkpoint min_isr_within_replicas",
    "quorum/large-consumer consumers_leave_it_out",
    "zookeeper/large-two-partitions leader_and_isr_epoch_check",
}


@pytest.mark.parametrize("case", all_but(QUICK, NOTICED, "a search for each rule; fast for three of them"))
def test_a_standard_scenario_notices_the_rule(case: str) -> None:
    name, rule = case.split()
    scenario = scenario_files.find(name)
    assert scenario.standard
    assert not scenario.expectation.violated
    overrides = Overrides(rules={rule: False}, properties=(NOTICED[case],))
    model = Request.of(scenario, overrides).model()
    result = search_with_liveness(model, search, explore, SearchOptions(workers=1, stop_at_first=True))
    assert [v.property for v in result.violations] == [NOTICED[case]]
