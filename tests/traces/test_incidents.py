"""Incidents: one sentence each, word for word; what belongs together told once; known defects only where sure."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports import known as known_module
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.incidents import Incident
from highwater.traces.reports.known import CONDITIONS, defects, to_do
from highwater.traces.reports.report import Report
from highwater.traces.reports.summary import summary
from tests.checker.schema import problems
from tests.traces.broker_lines import START_MS, Made
from tests.traces.clusters import CLUSTERS, needs_clusters
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2
from tests.traces.metadata.made_logs import beginning, change, default, loss, setting, write

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS.parent / "traces/reports" / "report.schema.json").read_text(encoding="utf-8"))
UNCLEAN, MIN_ISR = "unclean.leader.election.enable", "min.insync.replicas"


def of(path: Path, logs: bool = True) -> list[Incident]:
    """The incidents of a recorded cluster, whose whole report is as its schema says."""
    files = sorted(path.glob("logs/node*/*.log.gz")) if logs else []
    report = replay(path / "__cluster_metadata-0", broker_logs=files)
    assert problems(json.loads(json.dumps(report.to_json())), SCHEMA) == []
    return report.incidents


def told(incidents: list[Incident]) -> list[tuple[str, str, list[str]]]:
    return [(i.kind, i.sentence, [f"{d.page}#{d.anchor}" for d in i.defects]) for i in incidents]


def made(folder: Path, *values: Any, **settings: Any) -> list[Incident]:
    """The incidents of a made log, in which the offset of a record is also its time less a second."""
    return replay(write(folder, [*beginning(**settings), *values])).incidents


# --- as recorded ----------------------------------------------------------------------------------------------------

WORDS = tomllib.loads(Path(__file__).with_name("incidents.toml").read_text(encoding="utf-8"))


def expected(version: str, name: str) -> list[tuple[str, str, list[str]]]:
    return [(i["kind"], i["sentence"], i["defects"]) for i in WORDS[version][name]["incident"]]


@needs_clusters_4_2
@pytest.mark.parametrize("name", WORDS["4.2"])
def test_what_happened_in_4_2(name: str) -> None:
    found = of(CLUSTERS_4_2 / name)
    assert told(found) == expected("4.2", name)
    lost = json.loads((CLUSTERS_4_2 / name / "losscheck.json").read_text())
    assert sum(i.lost or 0 for i in found) == sum(p["lost"] for p in lost.values()), "what really was lost"


@needs_clusters
@pytest.mark.parametrize("name", WORDS["trunk"])
def test_what_happened_in_the_trunk(name: str) -> None:
    found = of(CLUSTERS / name)
    assert told(found) == expected("trunk", name)
    lost = json.loads((CLUSTERS / name / "losscheck.json").read_text())
    assert sum(i.lost or 0 for i in found) == sum(p["lost"] for p in lost.values()), "what really was lost"


@needs_clusters_4_2
def test_without_the_brokers_logs_no_number_is_told() -> None:
    (first, *_) = of(CLUSTERS_4_2 / "down-elr-unclean-210", logs=False)
    assert (first.kind, first.lost, first.position) == ("may be lost", None, {"offset": 78})
    assert first.sentence.endswith("; whether any, and how many, only the brokers' logs can say.")


# --- made -----------------------------------------------------------------------------------------------------------


def test_an_unclean_election(tmp_path: Path) -> None:
    (found,) = made(tmp_path, *loss())
    assert found.sentence == (
        "t-0 may have lost committed records at 1970-01-01 00:00:01.014 UTC (offset 14 of the metadata log): broker 2, "
        "in neither ISR nor ELR, was elected for leader epoch 1; whether any, and how many, only the brokers' logs can "
        "say."
    )
    assert (found.kind, found.partition, found.leader_epoch) == ("may be lost", "t-0", 1)
    assert (found.certain, found.reliable, found.defects) == (True, True, ())
    assert "leader_elected_cleanly" in found.broken


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            setting(UNCLEAN, "true"),
            " as configured (unclean.leader.election.enable of topic t is true since offset 13);",
        ),
        (
            default("true", UNCLEAN),
            " (unclean.leader.election.enable of the cluster is true since offset 13);",
        ),
    ],
)
def test_what_the_settings_allow_is_said_to_be_configured(tmp_path: Path, record: bytes, said: str) -> None:
    (found,) = made(tmp_path, record, *loss())
    assert said in found.sentence
    assert to_do("configured") in found.to_do


def test_what_they_forbid_is_not(tmp_path: Path) -> None:
    (found,) = made(tmp_path, default("true", UNCLEAN), setting(UNCLEAN, "false"), *loss())
    assert "configured" not in found.sentence
    assert to_do("configured") not in found.to_do


def test_a_topics_own_value_goes_before_the_clusters_until_it_is_removed(tmp_path: Path) -> None:
    values = [setting(UNCLEAN, "false"), default("true", UNCLEAN), setting(UNCLEAN, None)]
    (found,) = made(tmp_path, *values, *loss())
    assert "unclean.leader.election.enable of topic t is true since offset 15" in found.sentence


def test_once_it_is_removed_the_clusters_later_value_is_in_force(tmp_path: Path) -> None:
    values = [setting(UNCLEAN, "false"), setting(UNCLEAN, None), default("true", UNCLEAN)]
    (found,) = made(tmp_path, *values, *loss())
    assert "unclean.leader.election.enable of the cluster is true since offset 15" in found.sentence


def test_where_a_node_has_its_own_value_no_record_is_named(tmp_path: Path) -> None:
    (found,) = made(tmp_path, default("true", UNCLEAN, "7"), default("true", UNCLEAN), *loss())
    assert "as configured (unclean.leader.election.enable is true);" in found.sentence


def test_a_lowered_min_isr_is_told_while_the_partition_is_under_it(tmp_path: Path) -> None:
    """The ELR stays: what Kafka of 2024 did."""
    shrunk = change(0, isr=[0], eligibleLeaderReplicas=[1])
    found = made(tmp_path / "a", change(0, isr=[0, 1]), shrunk, setting(MIN_ISR, "1"))
    assert [i.sentence for i in found] == [
        "t-0 can lose committed records since 1970-01-01 00:00:01.015 UTC (offset 15 of the metadata log): broker 1 "
        "stays in the ELR though the ISR [0] has min ISR (1) members, so the HWM does not wait for it, after "
        "min.insync.replicas of topic t was lowered from 2 to 1 (offset 15)."
    ]
    assert [d.anchor for d in found[0].defects] == ["min-isr"]
    lines = summary(replay(tmp_path / "a"))
    at = lines.index(f"  {found[0].sentence}")
    assert lines[at + 1].startswith("    known defect: ")
    assert f"docs/{found[0].defects[0].page}#min-isr" in lines[at + 1]


def test_a_min_isr_that_was_lowered_with_a_full_isr_is_not(tmp_path: Path) -> None:
    away = change(0, isr=[2], leader=2, leaderRecoveryState=1)
    (found,) = made(tmp_path, setting(MIN_ISR, "1"), change(0, isr=[0]), away)
    assert MIN_ISR not in found.sentence


def test_a_min_isr_that_was_lowered_is_forgotten_once_the_isr_is_as_large_as_before(tmp_path: Path) -> None:
    shrunk, grown = change(0, isr=[0]), change(0, isr=[0, 1])
    lowered = [change(0, isr=[0, 1]), shrunk, setting(MIN_ISR, "1")]
    away = change(0, isr=[2], leader=2, leaderRecoveryState=1)
    (met,) = made(tmp_path / "a", *lowered, away)
    assert "1 ms after min.insync.replicas of topic t was lowered from 2 to 1 (offset 15)" in met.sentence
    (recovered,) = made(tmp_path / "b", *lowered, grown, away)
    assert MIN_ISR not in recovered.sentence


# --- from the brokers' logs -----------------------------------------------------------------------------------------


def lost_by(cluster: Made) -> list[Incident]:
    """The incidents of what brokers' lines say alone."""
    report = Report("x", "metadata log", "kafka_4_2", figures={"broker logs": 3})
    for finding in cluster.findings():
        report.find(finding)
    return report.incidents


def test_a_loss_is_told_once_with_who_had_the_records(tmp_path: Path) -> None:
    cluster = Made(tmp_path)
    cluster.begin()
    cluster.alter(isr=(0, 1))
    cluster.isr(0)
    cluster.commit(0, 10, 30, (1,))
    cluster.alter(leader=2, isr=(2,))
    cluster.leads(2, 10, 8)
    cluster.follows(1, 14)
    cluster.alter(isr=(2, 0, 1))
    cluster.isr(2)
    cluster.hwm(2, 8, 10)
    cluster.follows(0, 30)
    (found,) = lost_by(cluster)
    at = cluster.changes[2]
    assert at.time > START_MS
    assert found.sentence.startswith("t1-0 lost 20 committed records, offsets [10, 30), at 2026-11-18 ")
    assert found.sentence.endswith(
        " (offset 12 of the metadata log): broker 2, in neither ISR nor ELR, was elected for leader epoch 1 with a log "
        "that ended at offset 10; broker 0 had all of them and broker 1 had 4 of them, and drop them to follow the new "
        "leader; consumers were shown the end of the log at 30, and later at 10."
    )
    assert (found.lost, found.first_lost, found.at_most, found.leader_epoch) == (20, 10, False, 1)
    assert found.broken == ("leader_completeness", "consumers_read_consistently")
    assert to_do("lost") == found.to_do


def around(**changed: Any) -> dict[str, Any]:
    """Facts of a finding of the metadata log."""
    nobody = {"replicas": [0, 1, 2], "leader": None, "isr": [], "elr": [], "last_known_elr": []}
    given = {
        "cause": "unfence", "before": nobody, "after": nobody, "leader_epoch": 1, "min_isr": 2,
        "unclean_election": None, "settings": {}, "resized": None,
    }  # fmt: skip
    return given | changed


def finding(name: str, offset: int, facts: dict[str, Any], **changed: Any) -> Finding:
    return Finding(
        "r", name, changed.pop("partition", "t-0"), {"offset": offset}, offset, "said", facts=facts, **changed
    )


def incidents_of(*findings: Finding, profile: str = "kafka_4_2") -> list[Incident]:
    report = Report("x", "metadata log", profile)
    for found in findings:
        report.find(found)
    return report.incidents


STUCK = finding("somebody_is_electable", 5, around(leader_epoch=3))
ELECTED = finding(
    "leader_elected_cleanly", 9, around(leader_epoch=4, after=around()["after"] | {"leader": 2})
)


def test_the_way_to_an_unclean_election_is_told_with_it() -> None:
    (found,) = incidents_of(STUCK, ELECTED)
    assert found.broken == ("leader_elected_cleanly", "somebody_is_electable")
    assert "; nobody could be elected cleanly since 1970-01-01 00:00:00.005 UTC (offset 5);" in found.sentence


def last_known(**changed: Any) -> str:
    """The sentence of an election of the last known leader."""
    before = around()["before"] | {"last_known_elr": [2]}
    facts = around(leader_epoch=4, before=before, after=around()["after"] | {"leader": 2}) | changed
    return incidents_of(replace(ELECTED, facts=facts))[0].sentence


def test_the_election_of_the_last_known_leader_is_the_proposals_own() -> None:
    said = "broker 2, the last known leader, in neither ISR nor ELR, was elected for leader epoch 4, as the first phase"
    assert said in last_known()
    assert "as the first phase" not in last_known(cause="elect_leader")
    assert "elected on request for" in last_known(cause="elect_leader")
    assert "as the first phase" not in last_known(unclean_election=True)


@pytest.mark.parametrize(
    "other",
    [
        replace(STUCK, facts=around(leader_epoch=1)),
        replace(STUCK, partition="t-1"),
    ],
)
def test_what_is_no_way_to_it_is_told_by_itself(other: Finding) -> None:
    assert sorted(i.kind for i in incidents_of(other, ELECTED)) == ["may be lost", "nobody to elect"]


def test_the_worst_is_told_first_and_what_is_only_possible_last() -> None:
    cut: dict[str, Any] = {
        "leader": 1, "leader_epoch": 8, "elected_from": None, "restarted": True, "leo": 4, "first_lost": 4,
        "end_lost": 5, "lost": 1, "had": [],
    }  # fmt: skip
    lost = replace(finding("leader_completeness", 20, cut), position={"file": "a", "line": 1})
    possible = finding("electable_completeness", 1, around(), certain=False)
    found = incidents_of(possible, STUCK, replace(ELECTED, partition="t-1"), lost)
    assert [i.kind for i in found] == ["lost", "may be lost", "nobody to elect", "can be lost"]
    assert [i.certain for i in found] == [True, True, True, False]
    assert found[0].sentence == (
        "t-0 lost 1 committed record, offsets [4, 5), at 1970-01-01 00:00:00.020 UTC: leader 1 restarted in leader "
        "epoch 8 with a log that ended at offset 4."
    )


def test_findings_without_facts_are_in_no_incident() -> None:
    assert incidents_of(finding("leader_elected_cleanly", 9, {})) == []


def test_no_incident_is_certain_or_reliable_by_less_than_its_findings() -> None:
    (found,) = incidents_of(replace(ELECTED, certain=False, reliable=False))
    assert (found.certain, found.reliable) == (False, False)


# --- known defects --------------------------------------------------------------------------------------------------

CLEARED = replace(
    STUCK,
    facts=around(cause="change_min_isr", before=around()["before"] | {"elr": [1], "last_known_elr": [2]}),
)


def test_a_defect_is_named_in_the_versions_that_have_it() -> None:
    assert [d.anchor for d in incidents_of(CLEARED)[0].defects] == ["cleared-elr"]
    for profile in ("kafka_trunk_2024_10", "kip_966_first_phase", "kafka_4_2_elr_off"):
        assert incidents_of(CLEARED, profile=profile)[0].defects == ()


@pytest.mark.parametrize(
    "other",
    [
        replace(CLEARED, certain=False),
        replace(CLEARED, reliable=False),
        replace(CLEARED, facts={**CLEARED.facts, "cause": "register"}),
        replace(CLEARED, facts={**CLEARED.facts, "cause": "change_min_isr or set"}),
        replace(CLEARED, facts={**CLEARED.facts, "before": around()["before"]}),
        replace(
            CLEARED, facts={**CLEARED.facts, "before": {**CLEARED.facts["before"], "leader": 0, "isr": [0]}}
        ),
    ],
)
def test_it_is_not_guessed(other: Finding) -> None:
    assert incidents_of(other)[0].defects == ()


def test_the_catalogue_is_that_of_the_pages() -> None:
    assert set(CONDITIONS) == set(defects())
    for name, defect in defects().items():
        text = re.sub(r"<!--.*?-->", "", (DOCS / defect.page).read_text(encoding="utf-8"))
        entry = re.split(rf"(?m)^#+ {re.escape(defect.anchor)}$", text)
        assert len(entry) == 2, name
        assert re.match(rf"\s+\*\*{re.escape(defect.title)}\*\*", entry[1]), name
        own = entry[1].split("\n#", 1)[0]
        chapter = entry[0].rsplit("\n## ", 1)[1] if defect.page == "kafka-trunk.md" else own
        assert all(issue in chapter for issue in defect.upstream), name


def test_what_to_do_is_said_in_whole_sentences() -> None:
    words = known_module._words()["to_do"]
    for kind in words:
        assert to_do(kind).endswith("."), kind
        assert "\n" not in to_do(kind)
