"""Changed lines of recorded broker logs are found; tests/traces/test_recorded_incidents_page.py has the losses."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.findings import Finding
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2

pytestmark = needs_clusters_4_2


def broker_logs(scenario: str) -> list[Path]:
    return sorted((CLUSTERS_4_2 / scenario / "logs").glob("node[0-9]/s*.log.gz"))


def findings(scenario: str, paths: Sequence[Path]) -> list[Finding]:
    return replay(CLUSTERS_4_2 / scenario / "__cluster_metadata-0", broker_logs=list(paths)).findings


def test_the_order_of_files_does_not_matter() -> None:
    scenario = "down-elr-unclean-210"
    logs = broker_logs(scenario)
    assert findings(scenario, logs) == findings(scenario, logs[::-1]) != []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            rb"(Leader t1-\d .*starts at leader epoch [1-9]\d* from offset )\d{2,}",
            rb"\g<1>7",
            "leader_completeness",
        ),
        (
            rb"High watermark updated from \(offset=\d\d+,",
            b"High watermark updated from (offset=3,",
            "hwm_never_moves_back",
        ),
        (rb"(Recorded replica \d log end offset \(LEO\) position )[1-9]\d*", rb"\g<1>0", "hwm_waits_for_isr"),
        (
            rb"(Follower t1-\d starts at leader epoch [1-9]\d* from offset )\d{2,}",
            rb"\g<1>1",
            "electable_completeness",
        ),
        (rb"(ISR updated to )\d,\d  (and version)", rb"\g<1>1 \g<2>", None),
        (
            rb"(ISR updated to )\d,\d  (and version)",
            rb"\g<1>1 (under-min-isr) \g<2>",
            "hwm_stands_under_min_isr",
        ),
        (rb"(Out of sync replicas: \(brokerId: \d, endOffset: )\d+", rb"\g<1>1", "hwm_waits_for_isr"),
    ],
)
def test_recorded_lines_that_are_changed_are_found(
    tmp_path: Path, old: bytes, new: bytes, expected: str | None
) -> None:
    """Change every line of one kind in a cluster without findings."""
    paths = []
    for path in broker_logs("restarts-elr"):
        paths.append(tmp_path / f"{path.parent.name}-{path.name.removesuffix('.gz')}")
        paths[-1].write_bytes(re.sub(old, new, gzip.decompress(path.read_bytes())))
    found = {f.property for f in findings("restarts-elr", paths)}
    assert (expected in found) if expected else not found - {"isr_joined_caught_up", "hwm_waits_for_isr"}
