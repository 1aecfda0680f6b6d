"""Any history of a partition, with any lines of brokers' logs, has a report: as text, JSON, page and events."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.traces.follow.session import ClusterLogs, Following
from highwater.traces.replay import replay
from highwater.traces.reports.page import write_page
from highwater.traces.reports.report import styled_summary, summary
from tests.checker.schema import form_problems
from tests.generation import broker_lines as lines
from tests.generation import records
from tests.traces.broker_lines import stamp
from tests.traces.metadata.made_logs import (
    OFF,
    ON,
    TOPICS,
    feature,
    registration,
    registration_change,
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
