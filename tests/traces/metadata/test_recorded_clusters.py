"""The recorded clusters: every change is explained, by the rules of that version, and their findings are these."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.metadata_log import DUMP, LOG, open_metadata_log
from highwater.traces.metadata.replay import replay_metadata
from highwater.traces.reports.report import Report
from tests.traces.clusters import CLUSTERS, SCENARIOS, needs_clusters

pytestmark = needs_clusters

ON, OFF = "kafka_trunk_2024_10", "before_kip_966"

Found = set[tuple[int, str, str, bool]]

FINDINGS: dict[str, Found] = {
    # ELR {1}, last known leader 0. Broker 1 comes back after kill -9 and registers: it leaves the ELR, which is then
    # empty, and in the same change the last known leader 0 is elected (rule 3). It had come back uncleanly as well
    # (offset 38 took it out of the ELR), so this is an unclean election, though the topic does not allow it. 0 has
    # been unfenced since offset 40, so it can lead.
    "down-elr-hard-021": {(55, "leader_elected_cleanly", "t1-0", True)},
    # The same with 0 last: its own registration (record 56) makes 0, the last known leader, leader again by record 55,
    # while it is fenced since 33 and registers fenced. KIP-966 has no such election, and B5 wants an active leader;
    # docs/kafka-4.2.md, trunk-fenced-leader. The ISR is [0], so its only member is fenced, too, and it was put there.
    "down-elr-hard-210": {
        (55, "isr_members_are_eligible", "t1-0", True),
        (55, "leader_elected_cleanly", "t1-0", True),
        (55, "leader_is_active", "t1-0", True),
    },
    # The same after SIGTERM: this version takes every new incarnation for an unclean shutdown.
    "down-elr-soft-120": {
        (54, "isr_members_are_eligible", "t1-0", True),
        (54, "leader_elected_cleanly", "t1-0", True),
        (54, "leader_is_active", "t1-0", True),
    },
    # Unclean election is allowed, and 2, neither in the ISR nor in the ELR {0, 1}, is elected when it is unfenced.
    "down-elr-unclean-210": {(40, "leader_elected_cleanly", "t1-0", True)},
    # No ELR. The ISR shrinks to [0] while min ISR is 2, so only one broker holds what is committed. It is killed, comes
    # back and leads again. That min ISR brokers hold everything, and that an ISR member that restarts still does,
    # is promised by KIP-966 alone, so with ELR off nothing is broken here.
    "down-noelr-210": set(),
    # Again down to [0]; then 2 is elected uncleanly, which the topic allows, at the price of 79 of 399 acknowledged
    # records (losscheck.json). As 0 does not lead again before it has followed 2, nothing is said of its log.
    "down-noelr-unclean-210": {(39, "leader_elected_cleanly", "t1-0", True)},
    # min.insync.replicas is lowered to 1, first of t1, with ISR [0] and ELR {1}, then of t2, with ISR [0] and ELR
    # {1, 2}: the ELR stays (966.8 is not in that version), and the HWM goes on without its members.
    "minisr-elr": {
        (41, "elr_only_under_min_isr", "t1-0", True),
        (41, "electable_completeness", "t1-0", True),
        (44, "elr_only_under_min_isr", "t2-0", True),
        (44, "electable_completeness", "t2-0", True),
    },
    # The same: t2 has ISR [3, 1] and ELR {0} when its min.insync.replicas is lowered.
    "mixed-elr-1": {
        (40, "elr_only_under_min_isr", "t2-0", True),
        (40, "electable_completeness", "t2-0", True),
    },
    "mixed-elr-2": set(),
    "pauses-elr": set(),
    "pauses-noelr": set(),
    # t1-1 is reduced to broker 2, and at 68 to brokers 0 and 1: those that went, which were in the ISR, come into the
    # ELR, though they are no replicas any more (966.9 is not in that version). With fewer replicas than
    # min.insync.replicas the effective min ISR is their number (966.2), which the ISR has: no ELR should be there.
    "reassigns-elr": {
        (offset, name, "t1-1", True)
        for offset in (46, 68)
        for name in ("elr_within_replicas", "elr_only_under_min_isr", "electable_completeness")
    },
    "reassigns-noelr": set(),
    "restarts-elr": set(),
    "restarts-noelr": set(),
}


@cache
def replay(path: Path) -> tuple[str, Report]:
    log = open_metadata_log(path)
    report = Report("", "", "")
    replay_metadata(log, report)
    return log.kind, report


def said(report: Report) -> dict[str, Any]:
    """The report without what depends on the files and on the machine."""
    left_out = ("input", "kind", "seconds", "notes")
    return {k: v for k, v in report.to_json().items() if k not in left_out}


@pytest.fixture
def dumps(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with the dumps of a scenario and nothing else."""
    for dump in (CLUSTERS / request.param).glob("dump-*.txt.gz"):
        (tmp_path / dump.name).symlink_to(dump)
    return tmp_path


def test_every_cluster_is_in_the_table() -> None:
    assert sorted(FINDINGS) == SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_change_is_explained(scenario: str) -> None:
    kind, report = replay(CLUSTERS / scenario / "__cluster_metadata-0")
    assert kind == LOG
    assert (report.unexplained_count, report.unexplained) == (0, [])
    assert report.profile == (OFF if "-noelr" in scenario else ON)
    assert min(report.records, report.changes, report.partitions) > 0
    binary = CLUSTERS / scenario / "__cluster_metadata-0"
    assert report.figures["snapshots compared"] == len(list(binary.glob("*.checkpoint")))
    assert report.skipped.get("NO_OP_RECORD"), "what is left out is counted"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_findings(scenario: str) -> None:
    _, report = replay(CLUSTERS / scenario / "__cluster_metadata-0")
    found = [(f.position["offset"], f.property, f.partition, f.certain) for f in report.findings]
    assert len(found) == sum(report.findings_count.values())
    assert sorted(found) == sorted(FINDINGS[scenario])


@pytest.mark.parametrize(
    ("scenario", "dumps"), [(s, s) for s in SCENARIOS], indirect=["dumps"], ids=SCENARIOS
)
def test_the_dumps_say_the_same(scenario: str, dumps: Path) -> None:
    _, binary = replay(CLUSTERS / scenario / "__cluster_metadata-0")
    kind, text = replay(dumps)
    assert kind == DUMP
    assert json.dumps(said(text)).replace(".txt.gz", "") == json.dumps(said(binary))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_dump_of_the_segment_alone(scenario: str) -> None:
    _, binary = replay(CLUSTERS / scenario / "__cluster_metadata-0")
    kind, text = replay(CLUSTERS / scenario / f"dump-{0:020}.log.txt.gz")
    assert kind == DUMP
    figures = {k: v for k, v in binary.figures.items() if k != "snapshots compared"}
    assert said(text) == said(binary) | {"figures": figures}
