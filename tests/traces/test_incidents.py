from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.log_lines import broker_of
from highwater.traces.replay import replay
from highwater.traces.reports import advice
from highwater.traces.reports.advice import AdviceStep, Holder, Replicas
from highwater.traces.reports.findings import CONDITIONS, Finding, defects
from highwater.traces.reports.incidents import Incident
from highwater.traces.reports.observed import Controllers, FinalState, LogTruncation, ReplicaEnd
from highwater.traces.reports.report import Report, summary
from tests.generation import records
from tests.traces.broker_lines import Made
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2
from tests.traces.metadata import made_logs
from tests.traces.metadata.made_logs import TOPICS, beginning, change, default, loss, setting, write

DOCS = Path(__file__).parents[2] / "docs"
UNCLEAN, MIN_ISR = "unclean.leader.election.enable", "min.insync.replicas"


def made(folder: Path, *values: Any, **settings: Any) -> list[Incident]:
    """The incidents of a made log. The record at offset n has timestamp n + 1000 ms."""
    return replay(write(folder, [*beginning(**settings), *values])).incidents


def steps(incident: Incident, when: str) -> list[str]:
    return [step.text for step in incident.steps if step.when == when]


def commands(found: Sequence[AdviceStep]) -> list[str]:
    return [command for step in found for command in step.commands]


@needs_clusters_4_2
def test_without_the_brokers_logs_no_number_is_reported() -> None:
    (first, *_) = replay(CLUSTERS_4_2 / "down-elr-unclean-210" / "__cluster_metadata-0").incidents
    assert (first.severity, first.lost, first.id) == ("at_risk", None, "t1-0@78")
    said = "The metadata log does not show whether records were lost. Add the brokers' logs to the input."
    assert said in first.cause
    assert steps(first, advice.NOW)[0].startswith("Brokers 0 and 1 have joined the ISR since the election")


# --- made logs --------------------------------------------------------------------------------------------------------


def test_an_unclean_election(tmp_path: Path) -> None:
    (found,) = made(tmp_path, *loss())
    said = "may have lost committed records by an unclean election"
    assert found.label == f"AT RISK: t-0 {said} at 1970-01-01 00:00:01 UTC"
    said = "Broker 2 was elected from outside the ISR, for leader epoch 1 (metadata offset 14)."
    assert found.cause[0] == said
    assert (found.partition, found.leader_epoch, found.id, found.group) == ("t-0", 1, "t-0@14", "t-0@14")
    assert (found.certain, found.reliable, found.defects) == (True, True, ())
    assert "leader_elected_cleanly" in found.broken


OF_TOPIC = "--entity-type topics --entity-name t --add-config unclean.leader.election.enable=false"
OF_CLUSTER = "--entity-type brokers --entity-default --add-config unclean.leader.election.enable=false"


@pytest.mark.parametrize(
    ("records", "cause", "command"),
    [
        ([setting(UNCLEAN, "true")], " of topic t was true (metadata offset 13).", OF_TOPIC),
        ([default("true", UNCLEAN)], " of the cluster was true (metadata offset 13).", OF_CLUSTER),
        # The topic's own value overrides the cluster's until it is removed.
        ([setting(UNCLEAN, "false"), default("true", UNCLEAN), setting(UNCLEAN, None)],
         " of topic t was true (metadata offset 15).", OF_TOPIC),
        ([setting(UNCLEAN, "false"), setting(UNCLEAN, None), default("true", UNCLEAN)],
         " of the cluster was true (metadata offset 15).", OF_CLUSTER),
        ([default("true", UNCLEAN), setting(UNCLEAN, "false")], None, None),
        # Node 7 has its own value and may be the active controller, so no record is named.
        ([default("true", UNCLEAN, "7"), default("true", UNCLEAN)], " was true.", OF_TOPIC),
    ],
)  # fmt: skip
def test_the_setting_that_allowed_an_unclean_election_is_a_cause(
    tmp_path: Path, records: list[bytes], cause: str | None, command: str | None
) -> None:
    (found,) = made(tmp_path, *records, *loss())
    assert [text for text in found.cause if UNCLEAN in text] == ([UNCLEAN + cause] if cause else [])
    assert (
        any(command in one for one in commands(found.steps)) if command else UNCLEAN not in str(found.steps)
    )


def test_a_lowered_min_isr_is_a_cause_while_the_partition_is_under_it(tmp_path: Path) -> None:
    """Without 966.8 the ELR keeps its members. Once the ISR has grown again, the risk is over."""
    records = [change(0, isr=[0, 1]), change(0, isr=[0], eligibleLeaderReplicas=[1]), setting(MIN_ISR, "1")]
    profile, rules = "kip_966_first_phase", {"min_isr_change_empties_elr": False}
    (found,) = replay(write(tmp_path / "a", [*beginning(), *records]), profile, rules).incidents
    assert found.label == "AT RISK: t-0 can lose committed records (since 1970-01-01 00:00:01 UTC)"
    assert found.cause == (
        "Broker 1 stays in the ELR although the ISR [0] has min.insync.replicas (1) members (metadata offset 15).",
        "The high watermark no longer waits for ELR members, but they can still be elected.",
        "min.insync.replicas of topic t was lowered from 2 to 1 (metadata offset 15).",
    )
    assert steps(found, advice.NOW) == ["Keep leader 0 running until broker 1 is in the ISR."]
    records.append(change(0, isr=[0, 1], eligibleLeaderReplicas=[]))
    (over,) = replay(write(tmp_path / "b", [*beginning(), *records]), profile, rules).incidents
    assert over.label == "NOTICE: t-0 could lose committed records from 1970-01-01 00:00:01 UTC (resolved)"
    assert over.steps == ()


def test_a_min_isr_that_was_lowered_is_forgotten_once_the_isr_is_as_large_as_before(tmp_path: Path) -> None:
    shrunk, grown = change(0, isr=[0]), change(0, isr=[0, 1])
    lowered = [change(0, isr=[0, 1]), shrunk, setting(MIN_ISR, "1")]
    away = change(0, isr=[2], leader=2, leaderRecoveryState=1)
    (met,) = made(tmp_path / "a", *lowered, away)
    assert (
        "1 ms before, min.insync.replicas of topic t was lowered from 2 to 1 (metadata offset 15)."
        in met.cause
    )
    for name, values in (("b", [*lowered, grown, away]), ("c", [setting(MIN_ISR, "1"), shrunk, away])):
        (other,) = made(tmp_path / name, *values)
        assert not any(MIN_ISR in text for text in other.cause), "the ISR was full, or is again"


# --- from the brokers' logs -------------------------------------------------------------------------------------------


def test_a_loss_is_one_incident_with_who_had_the_records(tmp_path: Path) -> None:
    cluster = Made(tmp_path)
    cluster.lose()
    report = Report("x", "metadata log", "kafka_4_2", figures={"broker logs": 3})
    for one in cluster.findings():
        report.find(one)
    (found,) = report.incidents
    assert found.label.startswith("DATA LOSS: t1-0 lost 20 committed records (offsets 10–29) at 2026-11-18 ")
    assert found.cause == (
        "Broker 2 was elected from outside the ISR and the ELR for leader epoch 1 (metadata offset 12).",
        "Its log ended at offset 10; the high watermark had reached 30.",
        "Consumers saw the log end at offset 30, and later at 10.",
    )
    assert (found.lost, found.first_lost, found.standing, found.leader_epoch) == (20, 10, "exact", 1)
    assert found.broken == ("leader_completeness", "consumers_read_consistently")


LOSS: dict[str, Any] = {"leader": 2, "leader_epoch": 5, "first": 10, "end": 30}
HAD = [{"broker": 0, "records": 20}, {"broker": 1, "records": 4}]


def holders(*ends: ReplicaEnd) -> list[tuple[int, str, int]]:
    found = advice.holders(HAD, Replicas("t-0", (0, 1, 2), ends), **LOSS)
    return [(h.broker, h.state, h.records) for h in found]


def test_the_state_of_lost_records_on_each_replica() -> None:
    """Broker 0 has not followed the new leader; broker 1 truncated its log in the leader's epoch."""
    assert holders(
        ReplicaEnd(0, 30, False, 4, 7, leader_epoch=4),
        ReplicaEnd(1, 10, True, 5, 9, 5, (LogTruncation(10, 8, 5),)),
        ReplicaEnd(2, 12, True, 5, 9, 5),
    ) == [(0, "has", 20), (1, "truncated", 4), (2, "lacks", 0)]
    before_the_loss = LogTruncation(10, 3, 4)
    assert holders(ReplicaEnd(0, 30, False, 4, 7, 4, (before_the_loss,)))[0] == (0, "has", 20)
    assert holders() == [(0, "unknown", 20), (1, "unknown", 4), (2, "lacks", 0)]
    assert holders(ReplicaEnd(0, 30, True, 4, 7, leader_epoch=5))[0] == (0, "unknown", 20)


def test_only_an_exact_end_shows_that_a_replica_lacks_the_records() -> None:
    """The input shows that broker 3 had nothing at some time; the log may have grown since."""
    for is_bound, state in ((True, "unknown"), (False, "lacks")):
        (*_, found) = advice.holders(
            HAD, Replicas("t-0", (0, 1, 2, 3), (ReplicaEnd(3, 5, is_bound, 4, 7, 4),)), **LOSS
        )
        assert (found.broker, found.state) == (3, state)
    (*_, found) = advice.holders(HAD, Replicas("t-0", (0, 1, 2, 3)), **LOSS, back=[3])
    assert (found.broker, found.state) == (3, "truncated"), "it has joined the ISR of the new leader"


def after_loss(*found: Holder) -> list[AdviceStep]:
    return list(advice.after_loss(Replicas("t-0", (0, 1, 2)), found, 2, 10, 30))


def test_a_broker_that_still_has_lost_records_is_stopped_and_copied_first() -> None:
    first, *rest = after_loss(Holder(0, "has", 20), Holder(1, "truncated", 4), Holder(2, "lacks", 0))
    assert (first.when, first.commands[0]) == (advice.NOW, "kafka-server-stop.sh --node-id=0")
    assert first.text.startswith(
        "Stop broker 0 (or keep it stopped) and copy its log. When last seen, it had 20 lost records"
    )
    assert [step.when for step in rest] == [advice.RESTORE, advice.CLIENTS, advice.CLIENTS]
    copied_to = first.commands[1].split()[3]
    assert f'--files "$(ls {copied_to}/*.log' in rest[0].commands[0]
    assert commands(rest)[-1].endswith("--topic t:0 --reset-offsets --to-offset 10 --execute")


def test_unknown_replicas_are_copied_and_truncated_ones_are_not() -> None:
    gone = after_loss(Holder(0, "truncated", 20), Holder(2, "lacks", 0))
    assert gone[0].text == "The replicas cannot restore the lost records: none of them has any left."
    unknown = after_loss(Holder(0, "unknown", 20), Holder(2, "lacks", 0))
    assert unknown[0].text.startswith(
        "Stop broker 0 (or keep it stopped) and copy its log. The input does not show"
    )


# --- stuck ------------------------------------------------------------------------------------------------------------


def end(broker: int, leo: int, epoch: int | None, at_least: bool = False) -> ReplicaEnd:
    return ReplicaEnd(broker, leo, at_least, epoch, 1, epoch or 0)


@pytest.mark.parametrize(
    ("ends", "best"),
    [
        ([end(0, 90, 1), end(1, 40, 2), end(2, 30, 2)], 1),
        ([end(0, 30, 2), end(1, 40, 2), end(2, 40, 2)], 1),
        ([end(0, 0, -1), end(1, 1, 0)], 1),
    ],
)
def test_the_best_log_has_the_highest_last_epoch_and_then_is_the_longest(
    ends: list[ReplicaEnd], best: int
) -> None:
    assert Replicas("t-0", (0, 1, 2), tuple(ends)).best() == best


def elect_best_log(
    *ends: ReplicaEnd, order: tuple[int, ...] = (0, 1, 2), partition: str = "t-0"
) -> list[AdviceStep]:
    return list(advice.elect_best_log(Replicas(partition, order, ends)))


def test_the_replicas_before_the_best_log_are_stopped_for_the_election() -> None:
    found = elect_best_log(end(0, 90, 1), end(1, 40, 2), end(2, 30, 2), order=(2, 1, 0))
    assert commands(found)[3:] == [
        "kafka-server-stop.sh --node-id=2",
        "kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type unclean --topic t --partition 0",
        "kafka-topics.sh --bootstrap-server HOST:PORT --describe --topic t",
        "kafka-server-start.sh -daemon config/server.properties  # on broker 2",
    ]
    assert any(step.text.startswith("Elect broker 1. ") for step in found)
    first = elect_best_log(end(1, 40, 2), end(2, 30, 2), order=(1, 2))
    assert not any("stop" in command for command in commands(first))


def test_the_best_eligible_replica_starts_first_and_one_that_is_not_eligible_is_elected() -> None:
    known = Replicas("t-0", (0, 1), (end(0, 90, 1), end(1, 40, 2)))
    first, other = (commands(list(advice.start_best_log(known, able))) for able in ([0, 1], [0]))
    assert first[:1] == ["kafka-server-start.sh -daemon config/server.properties  # on broker 1"]
    assert [any("leader-election" in command for command in found) for found in (first, other)] == [
        False,
        True,
    ]
    assert other[-1].startswith("kafka-server-start.sh")
    (alone,) = advice.start_best_log(Replicas("t-0", (0,), (end(0, 0, -1),)), [0])
    assert alone.text == "Start broker 0 first, if it is down: its log is the best."
    behind = Replicas("t-0", (0, 1), (end(0, 40, 2), end(1, 90, 1)))
    assert commands(list(advice.start_best_log(behind, [1])))[-1].endswith("# on broker 1")


@pytest.mark.parametrize(
    "ends",
    [
        (end(0, 90, 1), end(1, 40, 2)),
        (end(0, 90, 1), end(1, 40, 2), end(2, 30, 2, True)),
        (end(2, 30, None),),
    ],
)
def test_nothing_is_elected_while_the_end_of_a_log_is_not_known(ends: tuple[ReplicaEnd, ...]) -> None:
    """The dumps of these logs are read together with the first input, which shows the other ends."""
    found = elect_best_log(*ends, partition="a.b-1")
    assert not any("kafka-leader-election" in command for command in commands(found))
    assert "broker 2" in found[0].text or "brokers 0, 1 and 2" in found[0].text
    dump, replayed = commands(found)[1], commands(found)[-1]
    name = dump.partition("> ")[2].partition("  #")[0]
    assert name in ("data-node2-a.b-1.txt", "data-node0-a.b-1.txt")
    assert replayed.startswith(f"highwater replay INPUT {name}")
    assert broker_of(Path(name)) == int(name[9])


@pytest.mark.parametrize("topic", ["t", "a.b_c-d", "$(reboot)", "a b;c", "it's"])
def test_no_name_in_a_log_adds_a_command(topic: str) -> None:
    """Kafka has no such topics, but a log may be damaged or made, and people paste the commands into a shell."""
    known = Replicas(f"{topic}-0", (0, 1), (end(0, 90, 1), end(1, 40, 2)))
    found = [*advice.elect_best_log(known), *advice.shut_out(known), *advice.compare(known, 1)]
    found += advice.after_loss(known, (Holder(0, "has", 1), Holder(1, "unknown", 1)), 2, 3, 4)
    found += [
        advice.no_unclean_election(topic, "topic"),
        *advice.elect_best_log(Replicas(f"{topic}-0", (0,))),
    ]
    lines = [c for c in commands(found) if "server" not in c.split()[0]]
    assert len(lines) > 15
    for line in lines:
        for word in shlex.split(line.replace('"$(ls ', "").replace(' | paste -sd,)"', ""), comments=True):
            assert topic == "t" or topic in word or not set(word) & set(topic) & set("$();' ")


def around(**changed: Any) -> dict[str, Any]:
    """Facts of a metadata-log finding, updated with ``changed``."""
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


def incidents_of(*findings: Finding, profile: str = "kafka_4_2", **fields: Any) -> list[Incident]:
    report = Report("x", "metadata log", profile, **fields)
    for found in findings:
        report.find(found)
    return report.incidents


STUCK = finding("somebody_is_electable", 5, around(leader_epoch=3))
ELECTED = finding(
    "leader_elected_cleanly", 9, around(leader_epoch=4, after=around()["after"] | {"leader": 2})
)


def final(**changed: Any) -> dict[str, FinalState]:
    given: dict[str, Any] = {
        "replicas": (0, 1, 2), "leader": None, "isr": (), "elr": (), "last_known_elr": (), "leaderless_since": 5,
        "failing": ("somebody_is_electable",),
    }  # fmt: skip
    return {"t-0": FinalState("t-0", **(given | changed))}


def test_a_partition_is_stuck_only_while_it_is_offline_and_waits_for_no_broker() -> None:
    (stuck,) = incidents_of(STUCK, final=final())
    assert stuck.label == "OFFLINE: t-0 has had no eligible leader since 1970-01-01 00:00:00 UTC"
    (waits,) = incidents_of(STUCK, final=final(last_known_elr=(2,)))
    assert (waits.severity, waits.headline[-18:]) == ("at_risk", "waits for broker 2")
    assert steps(waits, advice.RESTORE)[0].startswith("Start broker 2, the last known leader.")
    for over in ({}, final(leader=1, isr=(1,)), final(elr=(1,))):
        (found,) = incidents_of(STUCK, final=over)
        assert (found.severity, found.headline.endswith("(resolved)")) == ("notice", True)


STRANGERS = finding(
    "elr_within_replicas",
    5,
    around(
        before=around()["before"] | {"replicas": [0, 1, 3]},
        after=around()["after"] | {"replicas": [0, 1], "elr": [1, 3]},
        cause="cancel_reassignment",
    ),
)
"""Brokers 1 and 3 are in the ELR of t-0, and only brokers 0 and 1 are replicas."""


def test_a_broker_that_is_no_replica_brings_no_partition_back() -> None:
    """966.13: the controller elects only replicas, so nobody waits for broker 3."""
    offline = {"replicas": (0, 1), "failing": ("elr_within_replicas",)}
    (risk,) = incidents_of(STRANGERS, final=final(elr=(1, 3), **offline))
    assert risk.severity == "at_risk"
    assert [text.split(":")[0] for text in steps(risk, advice.NOW)[:2]] == [
        "Do not add broker 3 to the replicas of t-0", "Stop broker 1 (or keep it stopped)"
    ]  # fmt: skip
    known = {"t-0": [end(0, 90, 1), end(1, 40, 0)]}
    (stuck,) = incidents_of(STRANGERS, final=final(elr=(3,), leaderless_since=7000, **offline), logs=known)
    assert stuck.label == "OFFLINE: t-0 has had no eligible leader since 1970-01-01 00:00:07 UTC"
    assert not any("Keep" in step.text for step in stuck.steps)
    assert any("leader-election" in command for command in commands(stuck.steps))
    (empty,) = incidents_of(STRANGERS, STUCK, final=final(replicas=(0, 1)), logs=known)
    assert (empty.severity, empty.steps[1:]) == ("stuck", stuck.steps[1:])
    (over,) = incidents_of(STRANGERS, final=final(replicas=(0, 1)))
    assert over.severity == "notice"


def test_an_isr_member_that_lacks_records_is_neither_started_nor_stopped() -> None:
    """It runs, for example with a replaced disk. If it leads, it cannot fetch what it lacks."""
    lacks = finding(
        "electable_completeness", 5, {"broker": 1, "member_of": "ISR", "leo": 0, "hwm": 9, "offset": 4}
    )
    state = {"isr": (0, 1), "failing": ("electable_completeness",), "leaderless_since": None}
    (follows,) = incidents_of(lacks, final=final(leader=0, **state))
    assert [step.text.split(":")[0] for step in follows.steps] == ["Start and stop nothing"]
    (leads,) = incidents_of(lacks, final=final(leader=1, **state))
    assert steps(leads, advice.NOW)[0].startswith("Stop brokers 0 and 2 and copy their logs")


def test_the_last_known_leader_is_not_started_if_it_is_no_replica() -> None:
    """Its registration would make each controller resign."""
    (found,) = incidents_of(STUCK, final=final(last_known_elr=(3,)))
    assert (found.severity, steps(found, advice.NOW)[0][:24]) == ("stuck", "Do not start a replica o")
    assert not any("broker 3" in step.text for step in found.steps)


def test_an_unclean_election_names_the_time_without_eligible_leader() -> None:
    (found,) = incidents_of(STUCK, ELECTED)
    assert found.broken == ("leader_elected_cleanly", "somebody_is_electable")
    said = "The partition had no eligible leader from 1970-01-01 00:00:00 UTC (metadata offset 5)."
    assert said in found.cause


ELR_LOSS = finding(
    "leader_completeness", 9,
    {
        "leader": 3, "leader_epoch": 4, "elected_from": "the ELR", "restarted": False, "leo": 4, "first_lost": 4,
        "end_lost": 9, "lost": 5, "had": [], "standing": "exact", "hwm": 9,
    },
)  # fmt: skip


def test_a_loss_by_a_stale_elr_member_is_one_incident_with_its_defect() -> None:
    """The reassignment that left the member in the ELR is the cause, and Kafka's known defect."""
    assert [one.severity for one in incidents_of(STRANGERS)] == ["notice"]
    (found,) = incidents_of(STRANGERS, ELR_LOSS)
    assert (found.severity, found.id, [one.anchor for one in found.defects]) == (
        "lost",
        "t-0@9",
        ["reassignment"],
    )
    assert (
        "A reassignment removed broker 3 from the replicas, but it stays in the ELR (metadata offset 5)."
        in found.cause
    )
    assert found.broken == ("leader_completeness", "elr_within_replicas")


@pytest.mark.parametrize("changed", [{"leader": 1}, {"leader_epoch": 1}, {"elected_from": "the ISR"}])
def test_a_loss_by_another_election_is_an_incident_of_its_own(changed: dict[str, Any]) -> None:
    loss = replace(ELR_LOSS, facts={**ELR_LOSS.facts, **changed})
    assert [one.severity for one in incidents_of(STRANGERS, loss)] == ["lost", "notice"]


def last_known(**changed: Any) -> str:
    """The cause text of an incident that elects the last known leader."""
    before = around()["before"] | {"last_known_elr": [2]}
    facts = around(leader_epoch=4, before=before, after=around()["after"] | {"leader": 2}) | changed
    return " ".join(incidents_of(replace(ELECTED, facts=facts))[0].cause)


def test_kip_966_intends_the_election_of_the_last_known_leader() -> None:
    said = "KIP-966 intends this election"
    assert (
        "Broker 2, the last known leader, was elected from outside the ISR and the ELR, for leader epoch 4"
        in last_known()
    )
    assert said in last_known()
    assert said not in last_known(cause="elect_leader")
    assert "was elected on request from outside the ISR and the ELR" in last_known(cause="elect_leader")
    assert said not in last_known(unclean_election=True)


def test_without_elr_a_leader_comes_from_outside_the_isr() -> None:
    (found,) = incidents_of(ELECTED, rules=("unclean_election_recovers",))
    assert "from outside the ISR, for" in found.cause[0]


@pytest.mark.parametrize(
    "other", [replace(STUCK, facts=around(leader_epoch=1)), replace(STUCK, partition="t-1")]
)
def test_an_unrelated_finding_is_an_incident_of_its_own(other: Finding) -> None:
    assert [i.severity for i in incidents_of(other, ELECTED)] == ["at_risk", "notice"]


def test_the_worst_is_first_and_what_is_only_possible_last() -> None:
    cut: dict[str, Any] = {
        "leader": 1, "leader_epoch": 8, "elected_from": None, "restarted": True, "leo": 4, "first_lost": 4,
        "end_lost": 5, "lost": 1, "had": [], "standing": "exact", "hwm": 5,
    }  # fmt: skip
    lost = replace(finding("leader_completeness", 20, cut), position={"file": "a", "line": 1})
    possible = finding("electable_completeness", 1, around(), certain=False)
    whole = replace(ELECTED, partition="t-2", facts={**ELECTED.facts, "complete": {"leo": 4, "hwm": 4}})
    failing = {"t-0": final(failing=("electable_completeness", "somebody_is_electable"))["t-0"]}
    found = incidents_of(possible, STUCK, replace(ELECTED, partition="t-1"), whole, lost, final=failing)
    assert [i.severity for i in found] == ["lost", "stuck", "at_risk", "unclean", "at_risk"]
    assert [i.certain for i in found] == [True, True, True, True, False]
    assert found[0].label == "DATA LOSS: t-0 lost 1 committed record (offset 4) at 1970-01-01 00:00:00 UTC"
    assert found[0].cause[0] == "Leader 1 restarted in leader epoch 8 with a shorter log."
    assert found[-1].label.startswith("POSSIBLE AT RISK: ")


def test_incidents_of_one_second_and_cause_are_one_group() -> None:
    same = [replace(STUCK, partition=f"t-{n}", position={"offset": 5 + n}) for n in range(3)]
    other = replace(STUCK, partition="t-9", time=5000)
    found = incidents_of(*same, other)
    assert [(i.id, i.group) for i in found] == [
        ("t-0@5", "t-0@5"), ("t-1@6", "t-0@5"), ("t-2@7", "t-0@5"), ("t-9@5", "t-9@5"),
    ]  # fmt: skip
    report = Report("x", "metadata log", "kafka_4_2")
    for one in (*same, other):
        report.find(one)
    assert "  same cause: 2 more partitions: t-1, t-2" in summary(report)


def test_findings_without_facts_are_in_no_incident() -> None:
    assert incidents_of(finding("leader_elected_cleanly", 9, {})) == []


# --- controllers ------------------------------------------------------------------------------------------------------


def elections(*seconds: int) -> Controllers:
    return Controllers([(epoch, 10 * epoch, 1000 * second) for epoch, second in enumerate(seconds)])


def test_a_controller_that_is_elected_over_and_over_is_an_incident() -> None:
    (found,) = incidents_of(controllers=elections(0, 100, 103, 105, 140, 900))
    assert (
        found.label
        == "AT RISK: the active controller changed 4 times in 40 s, starting at 1970-01-01 00:01:40 UTC"
    )
    assert (found.id, found.partition) == ("controller@10", None)
    assert "controller.log" in commands(found.steps)[0]


@pytest.mark.parametrize("seconds", [(0,), (0, 10, 20), (0, 50, 100, 150, 200, 250, 300), ()])
def test_a_few_elections_of_a_controller_are_none(seconds: tuple[int, ...]) -> None:
    assert incidents_of(controllers=elections(*seconds)) == []


def test_events_that_make_controllers_resign_are_causes() -> None:
    found = elections(0, 1, 2, 3, 4)
    found.failures, found.refused = {"registerBroker: IllegalArgumentException": 5}, {"1": 4}
    (incident,) = incidents_of(controllers=found)
    assert incident.cause == (
        "The controller resigned 5 times: event registerBroker failed with IllegalArgumentException (controller.log).",
        "The controller refused 4 registrations of broker 1.",
    )
    assert steps(incident, advice.NOW)[0] == (
        "Stop broker 1: each attempt to register makes the active controller resign."
    )
    blamed = finding("every_broker_comes_back", 7, around(after=around()["after"] | {"last_known_elr": [4]}))
    by_partition = incidents_of(blamed, controllers=elections(0, 1, 2, 3, 4))[0]
    assert by_partition.cause[0].startswith("t-0 makes a controller fail at the registration of a replica")


def test_a_registration_can_fail_without_a_last_known_leader() -> None:
    """A live ELR member that is no replica makes the decision fail, too (K11)."""
    (incident,) = incidents_of(finding("every_broker_comes_back", 7, around()))
    assert incident.cause


# --- known defects --------------------------------------------------------------------------------------------------

CLEARED = replace(
    STUCK,
    facts=around(cause="change_min_isr", before=around()["before"] | {"elr": [1], "last_known_elr": [2]}),
)


def test_a_defect_is_named_in_the_versions_that_have_it() -> None:
    assert [d.anchor for d in incidents_of(CLEARED)[0].defects] == ["cleared-elr"]
    for profile in ("kip_966_first_phase", "kafka_4_2_elr_off"):
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
def test_a_defect_is_not_guessed(other: Finding) -> None:
    assert incidents_of(other)[0].defects == ()


def test_the_catalogue_is_that_of_the_page() -> None:
    assert set(CONDITIONS) == set(defects())
    text = (DOCS / "kafka.md").read_text(encoding="utf-8")
    for name, defect in defects().items():
        entry = re.split(rf"(?m)^## {re.escape(defect.anchor)}$", text)
        assert len(entry) == 2, name
        own = " ".join(entry[1].split("\n## ", 1)[0].split())
        assert own.startswith(f"**{defect.title}**"), name
        assert all(issue in own for issue in defect.upstream), name


def test_incidents_of_a_deleted_topic_need_no_action(tmp_path: Path) -> None:
    (found,) = made(tmp_path, *loss(), records.removed_topic(TOPICS["t"]))
    assert found.cause[-1] == "The topic was deleted at 1970-01-01 00:00:01 UTC (metadata offset 15)."
    assert steps(found, advice.NOW) == [advice.nothing_left().text]
    assert not steps(found, advice.RESTORE)


def test_the_end_of_another_topic_is_not_the_end_of_a_deleted_one() -> None:
    facts = around(leader_epoch=3, topic_id="first")
    (found,) = incidents_of(replace(STUCK, facts=facts), final=final(topic_id="second"))
    assert (found.severity, found.cause[-1]) == ("notice", "The topic was deleted later.")


def test_incidents_of_two_topics_of_one_name_are_two(tmp_path: Path) -> None:
    id = "AAAAAAAAAAAAAAAAAAAAAw"
    again = [records.topic("t", id), records.partition(0, id, [0, 1, 2])]
    again += [
        records.partition_change(0, id, isr=[0, 1]),
        records.partition_change(0, id, **made_logs.UNCLEAN),
    ]
    before, after = made(tmp_path, *loss(), records.removed_topic(TOPICS["t"]), *again)
    assert (before.id, before.leader_epoch, after.id, after.leader_epoch) == ("t-0@14", 1, "t-0@19", 1)
    assert "deleted" in str(before.steps[0])
    assert not steps(before, advice.RESTORE)
    assert "deleted" not in str(after)
    assert steps(after, advice.RESTORE)
