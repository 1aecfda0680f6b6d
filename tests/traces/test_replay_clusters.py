"""The recorded clusters as an operator would replay them: a directory, with the brokers' logs; and the losses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.traces.replay import replay
from tests.slow import slow
from tests.traces.clusters import CLUSTERS, SCENARIOS, needs_clusters
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2, needs_clusters_4_2

pytestmark = needs_clusters

LOST = "leader_completeness"


def logs_of(cluster: Path) -> list[Path]:
    return sorted(cluster.glob("logs/node*/*.log.gz"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_loss_is_told_where_records_were_lost_and_nowhere_else(name: str) -> None:
    cluster = CLUSTERS / name
    report = replay(cluster / "__cluster_metadata-0", broker_logs=logs_of(cluster), timelines=True)
    assert report.unexplained_count == 0
    lost = {
        p: n["lost"] for p, n in json.loads((cluster / "losscheck.json").read_text()).items() if n["lost"]
    }
    told = [f for f in report.findings if f.property == LOST and f.certain]
    assert {f.partition: int(re.match(r"(\d+) committed", f.at_risk)[1]) for f in told} == {  # type: ignore[index]
        f"t1-{partition}": count for partition, count in lost.items()
    }
    for finding in told:
        (election,) = [
            c
            for c in report.timelines[finding.partition or ""].changes
            if c.position == finding.position["offset"]
        ]
        assert election.before is not None
        assert election.after is not None
        assert election.after.leader not in (*election.before.isr, *election.before.elr)


def test_one_command_over_all_of_them(tmp_path: Path) -> None:
    page, result = tmp_path / "page.html", tmp_path / "result.json"
    run = CliRunner().invoke(
        cli, ["replay", str(CLUSTERS), "--html", str(page), "--json", str(result), "--quiet"]
    )
    assert run.exit_code == 1
    reports = json.loads(result.read_text())
    assert len(reports) == len(SCENARIOS), "a log and its dumps are one input"
    assert all("skipped: a dump of this metadata log" in r["notes"][0] for r in reports)
    assert all(r["unexplained_count"] == 0 and r["figures"]["broker logs"] for r in reports)
    assert not any(r["doubts"] or r["damage"] or r["unreliable_count"] for r in reports)
    assert page.stat().st_size > 100_000


@slow("all clusters at once; some of them are replayed each by itself, fast")
@needs_clusters_4_2
def test_clusters_of_4_2(tmp_path: Path) -> None:
    """The profile goes by the log's features; everything is sure."""
    result = tmp_path / "result.json"
    run = CliRunner().invoke(cli, ["replay", str(CLUSTERS_4_2), "--json", str(result), "--quiet"])
    assert run.exit_code == 1
    reports = json.loads(result.read_text())
    assert {r["input"].removesuffix("/__cluster_metadata-0").rsplit("/", 1)[1] for r in reports} >= {
        *NAMES_4_2
    }
    raft = [r["input"] for r in reports if r["kind"] == "raft logs"]
    assert raft == [str(CLUSTERS_4_2 / "raft3-elr" / "logs")]
    for report in reports:
        assert report["kind"] == "metadata log" or report["input"] in raft, (
            "a log and its dumps are one input"
        )
        assert (report["unexplained_count"], report["doubts"], report["damage"]) == (0, [], [])
        elr_off = "-noelr" in report["input"]
        assert report["profile"] == ("kafka_4_2_elr_off" if elr_off else "kafka_4_2")


@needs_clusters_4_2
@pytest.mark.parametrize("name", NAMES_4_2)
def test_dumps_of_4_2_say_the_same(name: str) -> None:
    left_out = ("input", "kind", "seconds", "notes", "figures")
    binary, dump = (
        {k: v for k, v in replay(CLUSTERS_4_2 / name / path).to_json().items() if k not in left_out}
        for path in (f"__cluster_metadata-0/{0:020}.log", f"dump-{0:020}.log.txt.gz")
    )
    assert binary == dump
