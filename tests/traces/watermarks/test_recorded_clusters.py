"""The losses found in recorded clusters equal those counted when they were recorded."""

from __future__ import annotations

import csv
import gzip
import json
import re
from functools import cache
from pathlib import Path

import pytest

from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.kafka.broker_log import read_broker_log
from highwater.traces.reports.findings import Finding
from tests.traces.clusters import CLUSTERS, SCENARIOS, Metadata, broker_logs, needs_clusters
from tests.traces.watermarks.scenes import (
    BACK,
    BEHIND,
    ELECTABLE,
    JOINED,
    LOST,
    READ,
    UNDER,
    lost,
)


@cache
def judge(scenario: str, paths: tuple[Path, ...] = ()) -> tuple[Watermarks, list[Finding]]:
    metadata = Metadata()
    judged = Watermarks([read_broker_log(path) for path in paths or broker_logs(scenario)])
    for change in metadata.changes(scenario):
        judged.change(change)
    return judged, judged.finish(metadata.effective())


@needs_clusters
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_losses_are_those_that_were_counted_at_the_end(scenario: str) -> None:
    """losscheck.json counts the acknowledged records that no replica held at the end."""
    counted = json.loads((CLUSTERS / scenario / "losscheck.json").read_text())
    judged, findings = judge(scenario)
    found = {f"t1-{partition}": 0 for partition in counted}
    with (CLUSTERS / scenario / "produce-t1.csv").open(encoding="ascii") as file:
        acknowledged = [row for row in csv.DictReader(file) if row["offset_or_error"].isdigit()]
    for finding in findings:
        if finding.property == LOST:
            low, high = lost(finding)
            assert finding.partition is not None
            assert finding.time is not None
            found[finding.partition] += high - low
            rows = [
                row
                for row in acknowledged
                if f"t1-{row['partition']}" == finding.partition
                and low <= int(row["offset_or_error"]) < high
                and int(row["t_done"]) < finding.time
            ]
            assert len(rows) == high - low, "each of these offsets was acknowledged before"
    assert found == {f"t1-{partition}": count["lost"] for partition, count in counted.items()}
    assert judged.notes == []
    assert judged.figures["HWM moves held against min ISR"] > 0.99 * judged.figures["HWM moves"] > 200
    assert {judged.utc_offset_ms(broker) for broker in judged._brokers} == {0}


EXPECTED = {
    "down-elr-unclean-210": [LOST, READ],
    "down-noelr-unclean-210": [LOST, READ],
    "reassigns-elr": [ELECTABLE, ELECTABLE],
}
"""Findings by cluster. In reassigns-elr brokers 1 and 3 stay in the ELR but are no longer replicas (966.9)."""


@needs_clusters
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_findings_of_recorded_clusters(scenario: str) -> None:
    _, findings = judge(scenario)
    assert [f.property for f in findings] == EXPECTED.get(scenario, [])
    assert all(f.certain and f.at_risk and f.time for f in findings)


@needs_clusters
def test_the_order_of_files_does_not_matter() -> None:
    scenario = "down-elr-unclean-210"
    backwards = tuple(broker_logs(scenario)[::-1])
    assert judge(scenario)[1] == judge(scenario, backwards)[1] != []


@needs_clusters
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (rb"(Leader t1-\d .*starts at leader epoch [1-9]\d* from offset )\d{2,}", rb"\g<1>7", LOST),
        (rb"High watermark updated from \(offset=\d\d+,", b"High watermark updated from (offset=3,", BACK),
        (rb"(Recorded replica \d log end offset \(LEO\) position )[1-9]\d*", rb"\g<1>0", BEHIND),
        (rb"(Follower t1-\d starts at leader epoch [1-9]\d* from offset )\d{2,}", rb"\g<1>1", ELECTABLE),
        (rb"(ISR updated to )\d,\d  (and version)", rb"\g<1>1 \g<2>", None),
        (rb"(ISR updated to )\d,\d  (and version)", rb"\g<1>1 (under-min-isr) \g<2>", UNDER),
        (rb"(Out of sync replicas: \(brokerId: \d, endOffset: )\d+", rb"\g<1>1", BEHIND),
    ],
)
def test_recorded_lines_that_are_changed_are_found(
    tmp_path: Path, old: bytes, new: bytes, expected: str | None
) -> None:
    """Change every line of one kind in a cluster without findings."""
    paths = []
    for path in broker_logs("mixed-elr-1"):
        text = gzip.decompress(path.read_bytes())
        paths.append(tmp_path / f"{path.parent.name}-{path.name}")
        paths[-1].write_bytes(gzip.compress(re.sub(old, new, text), 1))
    found = {f.property for f in judge("mixed-elr-1", tuple(paths))[1]}
    assert (expected in found) if expected else not found - {JOINED, BEHIND}
