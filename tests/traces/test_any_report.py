"""Any history has a report; generated metadata logs conform, and the replay finds a planted error."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.traces.follow.session import ClusterLogs, Following
from highwater.traces.inputs import inputs
from highwater.traces.kafka.metadata_log import Gap, open_metadata_log
from highwater.traces.kafka.values import decode
from highwater.traces.metadata.follow import MetadataFollower
from highwater.traces.metadata.replay import Reading
from highwater.traces.metadata.reporting import NOBODY, Watch
from highwater.traces.replay import replay
from highwater.traces.reports.page import write_page
from highwater.traces.reports.report import Report, styled_summary, summary
from tests.checker.schema import form_problems
from tests.generation import broker_lines as lines
from tests.generation import records, write_log
from tests.generation.incident import write_incident
from tests.slow import slow
from tests.traces.broker_lines import stamp
from tests.traces.metadata.made_logs import (
    OFF,
    ON,
    TOPICS,
    feature,
    registration,
    registration_change,
    report_on,
    setting,
    write,
)

ASIDE = "/data/t-0.5ead9c6df1a54d5bac44249d4d497cdb"
SAID = (
    "[LogLoader partition=t-0, dir=/data] Loading producer state till offset 5",
    f"Log for partition t-0 is renamed to {ASIDE}-delete and is scheduled for deletion",
    f"Log for partition t-0 is marked as stray and renamed to {ASIDE}-stray",
    f"Deleted log for partition t-0 in {ASIDE}-delete.",
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Any], dict[tuple[int, str], list[str]]]:
    """The records of a partition with one to five replicas, and the lines of brokers' logs by broker and file.

    Each change sets any members and any leader: a clean or an unclean election, the last known leader, or none.
    """
    factor = draw(st.integers(1, 5))
    replicas = list(range(factor))
    values: list[Any] = [feature(name, level) for name, level in draw(st.sampled_from([ON, OFF, ON[:1]]))]
    for broker in replicas:
        values += [registration(broker, len(values)), registration_change(broker, len(values), fenced=-1)]
    values.append(records.topic("t", TOPICS["t"]))
    values.append(setting("min.insync.replicas", str(draw(st.integers(1, 3)))))
    values.append(records.partition(0, TOPICS["t"], replicas))
    said: dict[tuple[int, str], list[str]] = {}
    members = st.lists(st.sampled_from(replicas), unique=True)
    epoch = 0
    for number in range(1, draw(st.integers(2, 7))):
        fields: dict[str, Any] = {"isr": draw(members)}
        if draw(st.booleans()):
            leader = fields["leader"] = draw(st.sampled_from([-1, *replicas, factor]))
            fields["leaderRecoveryState"] = draw(st.sampled_from([0, 1]))
            epoch += 1
        else:
            leader = -1
        if draw(st.booleans()):
            fields |= {"eligibleLeaderReplicas": draw(members), "lastKnownElr": draw(members)[:1]}
        if draw(st.integers(0, 4)) == 0:
            fields["replicas"] = draw(members) or replicas
        values.append(records.partition_change(0, TOPICS["t"], **fields))
        for broker in draw(members):
            low, high = draw(st.integers(0, 9)), draw(st.integers(0, 9))
            role = "Leader" if broker == leader else "Follower"
            text = (
                f"[Broker id={broker}] {role} t-0 with topic id Some({TOPICS['t']}) starts at leader epoch {epoch} "
                f"from offset {low} with partition epoch {number}"
            )
            text += (
                f", high watermark {high}, ISR [{','.join(map(str, fields['isr']))}], adding replicas [] and removing "
                "replicas [] . Previous leader None and previous leader epoch was -1."
                if role == "Leader"
                else f" and high watermark {high}. Current leader is {leader}. Previous leader None"
            )
            said.setdefault((broker, "state-change"), []).append(text)
            moved = lines.hwm_moved(broker, "t-0", min(low, high), max(low, high)).message
            said.setdefault((broker, "server"), []).append(draw(st.sampled_from([moved, moved, *SAID])))
    if draw(st.integers(0, 3)) == 0:
        values.append(records.removed_topic(TOPICS["t"]))
    return values, said


@settings(max_examples=60, deadline=None)
@given(histories())
def test_any_history_has_a_report(made: tuple[list[Any], dict[tuple[int, str], list[str]]]) -> None:
    values, said = made
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        log = write(folder / "__cluster_metadata-0", values)
        for (broker, file), texts in said.items():
            header = f"{stamp(1000)} INFO [BrokerServer id={broker}] starts (kafka.server.BrokerServer)\n"
            whole = (f"{stamp(1010 + 10 * n)} INFO {text} (x.Y)\n" for n, text in enumerate(texts))
            (folder / f"node{broker}-{file}.log").write_text(header + "".join(whole))
        report = replay(folder, timelines=True)
        assert form_problems(report.to_json(), "traces/reports/report.schema.json") == []
        assert summary(report)[0]
        assert not any("no broker" in step.text for one in report.incidents for step in one.steps)
        for width in (80, 100):
            assert all(len(text) <= width + 80 for text, _ in styled_summary(report, width))
        write_page([report], folder / "page.html")
        following = Following(ClusterLogs(log, [folder]))
        try:
            events = list(following.poll())
            while following.is_behind:
                events += following.poll()
        finally:
            following.close()
        assert following.counts.next_offset == report.records
        assert all(event.to_json() for event in events)


# --- generated logs -----------------------------------------------------------------------------------


SMALL: dict[str, Any] = {"partitions": 60, "records": 1200, "brokers": 6}


def written(directory: Path) -> list[tuple[int, int, list[bytes]]]:
    """The record batches: (first offset, time in ms, values)."""
    found = []
    for item in open_metadata_log(directory).batches():
        assert not isinstance(item, Gap)
        batch = item[1]
        if not batch.control:
            found.append((batch.base_offset, batch.timestamp, [v or b"" for v in batch.values]))
    return found


def check_explained(directory: Path) -> Report:
    report = report_on(directory)
    assert report.unexplained_count == 0, str(report)
    assert report.notes == []
    return report


@pytest.mark.parametrize(("seed", "elr"), [(1, True), (2, False)])
def test_a_generated_log_conforms(tmp_path: Path, seed: int, elr: bool) -> None:
    made = write_log(tmp_path, **SMALL, seed=seed, elr=elr)
    report = check_explained(tmp_path)
    assert report.records == made >= 1200
    assert report.profile == ("kafka_4_2" if elr else "before_kip_966")
    records = [decode(value) for _, _, values in written(tmp_path) for value in values]
    kinds = Counter(record.type for record in records)
    assert report.changes == kinds["PARTITION_CHANGE_RECORD"]
    # Even a log this small has every kind of event.
    assert kinds["REGISTER_BROKER_RECORD"] > 5
    assert kinds["BROKER_REGISTRATION_CHANGE_RECORD"] >= 5
    assert {"CONFIG_RECORD", "NO_OP_RECORD"} <= set(kinds)
    fields = {name for r in records if r.type == "PARTITION_CHANGE_RECORD" for name in r.data}
    assert {"isr", "leader", "replicas", "addingReplicas"} <= fields
    assert ("eligibleLeaderReplicas" in fields) == elr


def test_cached_and_watched_transitions_agree(tmp_path: Path) -> None:
    """With a watch, the follower examines every partition change; without one, it mostly uses cached transitions."""
    write_log(tmp_path, partitions=300, records=4000, brokers=4, seed=5)
    found = []
    for watch in (NOBODY, Watch([lambda change: None])):
        log, report = open_metadata_log(tmp_path), Report("", "", "")
        follower = MetadataFollower(report, watch=watch)
        for _ in Reading(log, follower, report).followed():
            pass
        follower.finish()
        states = {partition.name: partition.observed for partition in follower.image.of_topics()}
        found.append((states, report.changes, report.figures))
    assert found[0] == found[1]


def test_a_decision_of_more_than_a_batch_is_explained(tmp_path: Path) -> None:
    """All partitions have a replica on the leaving broker, so its fencing needs more records than a batch holds."""
    write_log(tmp_path, partitions=10_200, records=40_000, brokers=3, seed=3)
    sizes = [len(values) for _, _, values in written(tmp_path)]
    assert 10_000 in sizes
    check_explained(tmp_path)


@slow("150,000 records of each kind; the fast logs have hundreds")
@pytest.mark.parametrize("elr", [True, False])
def test_larger_logs_are_explained(tmp_path: Path, elr: bool) -> None:
    write_log(tmp_path, partitions=1000, records=150_000, seed=10, elr=elr, snapshot_every=20_000)
    check_explained(tmp_path)


# --- the incident of the tutorial ---


def test_the_made_incident_conforms_and_loses_64_records(tmp_path: Path) -> None:
    write_incident(tmp_path)
    (found,) = inputs([tmp_path]).found
    report = replay(found.path, broker_logs=list(found.broker_logs))
    assert (report.unexplained_count, report.notes, report.doubts) == (0, [], [])
    (incident,) = report.incidents
    assert (incident.severity, incident.lost, incident.first_lost) == ("lost", 64, 120)
    assert [d.anchor for d in incident.defects] == ["cleared-elr"]
