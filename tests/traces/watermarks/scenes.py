"""Names of findings, and helpers, for the HWM and LEO tests."""

from __future__ import annotations

import re

from highwater.traces.reports.findings import Finding
from tests.traces.broker_lines import Made

LOST = "leader_completeness"
GONE = "committed_records_survive"
READ = "consumers_read_consistently"
BACK = "hwm_never_moves_back"
UNDER = "hwm_stands_under_min_isr"
BEHIND = "hwm_waits_for_isr"
JOINED = "isr_joined_caught_up"
ELECTABLE = "electable_completeness"


def elect(made: Made, broker: int, start: int, hwm: int, **fields: object) -> None:
    made.alter(leader=broker, **fields)
    made.leads(broker, start, hwm)


def lost(finding: Finding) -> tuple[int, int]:
    match = re.search(r"\(offsets? (\d+)(?:–(\d+))?\) are lost", finding.at_risk)
    assert match is not None
    return int(match[1]), int(match[2] or match[1]) + 1
