"""Recordings of a controller of 4.2.1: read whole, every operation explained, every change and every rule shows."""

from __future__ import annotations

import copy
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.model.replication.controller.rules import ELR_FEATURE, PROFILES
from highwater.traces.operations.read_recording import OPERATIONS, read_controller_trace
from highwater.traces.replay import replay
from tests import recordings
from tests.slow import slow
from tests.traces.recorded import lines_of, made, write
from tests.traces.test_real_recordings import fate

RECORDED = recordings.folder("traces/kafka-4.2/controller")
COUNTS = {"elr-on": 60, "elr-off": 30, "elr-on-extras": 40}
PROFILE_OF = {"elr-on": "kafka_4_2", "elr-off": "kafka_4_2_elr_off", "elr-on-extras": "kafka_4_2"}

needs_recordings_4_2 = recordings.needs("traces/kafka-4.2/controller")


def files(mode: str) -> list[Path]:
    return sorted((RECORDED / mode).glob("*.ndjson.gz"))


@needs_recordings_4_2
def test_every_recording_is_there() -> None:
    assert {mode: len(files(mode)) for mode in COUNTS} == COUNTS


KNOWN = {
    "offline_directory_check": ("elr-on-extras", 11),
    "assignment_empties_elr": ("elr-on-extras", 7),
    "leftover_elr_elects": ("elr-on-extras", 6),
    "unassigned_candidate_fails": ("elr-on-extras", 5),
    "elr_follows_election": ("elr-on", 9),
}
"""A recording that tells a rule, which is asked first: for others one of the first does."""
EARLY = {
    "cancellation_is_whole": ("elr-off", 2),
    "clean_registration": ("elr-on-extras", 0),
    "elr_off_empties_elr": ("elr-on-extras", 0),
    "elr_off_forgets_last_known": ("elr-on-extras", 0),
    "elr_within_replicas": ("elr-on-extras", 0),
    "finalized_features_check": ("elr-on-extras", 0),
    "ineligible_replica_check": ("elr-on-extras", 1),
    "last_known_leader_by_leader": ("elr-on-extras", 0),
    "leader_epoch_check": ("elr-on", 1),
    "level_change_empties_elr": ("elr-on-extras", 0),
    "min_isr_is_the_clusters": ("elr-on-extras", 0),
    "partition_epoch_check": ("elr-off", 1),
    "reassignment_needs_min_isr": ("elr-on-extras", 0),
    "registration_leaves_isr": ("elr-off", 0),
    "replication_factor_check": ("elr-on-extras", 0),
    "sender_epoch_check": ("elr-on-extras", 1),
    "sender_is_leader_check": ("elr-on-extras", 1),
}
"""The same of rules that one of the first recordings tells, but not the very first."""


def share(mode: str, every: int) -> list[Path]:
    """One in so many recordings of a mode, and those that are known to tell a rule."""
    return [p for at, p in enumerate(files(mode)) if at % every == 0 or (mode, at) in KNOWN.values()]


EVERY = pytest.mark.parametrize(
    "every", [10, pytest.param(1, marks=slow("all 130 recordings; the fast test has one in ten"))]
)


@needs_recordings_4_2
@EVERY
@pytest.mark.parametrize("mode", COUNTS)
def test_a_recording_is_read(mode: str, every: int) -> None:
    """Each line, with nothing lost: what was read is what the file has."""
    for path in share(mode, every):
        meta, *lines = lines_of(path)
        read, operations = read_controller_trace(path)
        assert read.kafka_version == "4.2.1"
        assert read.elr_enabled == meta["meta"]["elrEnabled"]
        assert read.newer is None
        found = list(operations)
        assert len(found) == len(lines)
        for op, line in zip(found, lines, strict=True):
            assert op.name in OPERATIONS
            assert (op.name, op.step, op.error) == (line["op"]["name"], line["i"], line["error"])
            assert [kind for kind, _, _ in op.records] == [r["type"] for r in line["records"]]
            assert len(op.partitions) == len(line["partitions"])
            assert {b: s["lastContactMs"] for b, s in op.brokers.items()} == {
                b["id"]: b["lastContactMs"] for b in line["brokers"]
            }
            assert op.arguments.get("renewed") == line["op"].get("renewed")
            assert op.elr_version == line["elrVersion"]
            assert op.elr_index == sorted(map(tuple, line.get("elrIndexExtra", [])))


@needs_recordings_4_2
@EVERY
@pytest.mark.parametrize("mode", COUNTS)
def test_every_recorded_operation_is_explained(mode: str, every: int) -> None:
    operations, paths = 0, share(mode, every)
    for path in paths:
        report = replay(path)
        assert report.profile == PROFILE_OF[mode]
        assert not report.unexplained, (path.name, report.unexplained[0].lines())
        assert not report.doubts
        assert not report.skipped
        operations += report.operations
    assert operations > 100 * len(paths)


@needs_recordings_4_2
@pytest.mark.parametrize(
    "lines",
    [60, pytest.param(None, marks=slow("changes anywhere in whole recordings; fast: at their beginning"))],
)
def test_a_change_of_one_field_shows(tmp_path: Path, lines: int | None) -> None:
    rng, found = random.Random(1), Counter[tuple[str, str]]()
    recordings = [lines_of(path)[:lines] for mode in COUNTS for path in rng.sample(files(mode), 3)]
    tried = 36 if lines else 200
    while found.total() < tried:
        what, name = fate(tmp_path / "changed.ndjson", rng.choice(recordings), rng)
        if what != "the same value":
            found[what, name] += 1
    assert not [name for what, name in found if what == "UNNOTICED"]
    assert sum(n for (what, _), n in found.items() if what == "reported") > tried // 2


# --- every rule matters ---------------------------------------------------------------------------------

NOT_RECORDED = {
    "last_known_leader_first": "in no recording an unclean election could take another than the last known leader",
    "registration_may_be_split": "the recorded controller does not fail between the records of one decision",
    "min_isr_by_first_partition": "the recordings' own field effectiveMinIsr is what the controller reckons with",
}
"""Rules of Kafka 4.2 that no recorded operation can tell, with the reason."""

RULES_4_2 = sorted(PROFILES["kafka_4_2"].rules - NOT_RECORDED.keys())


def matters(rule: str, on: bool) -> bool:
    """Whether some recorded operation is not explained with the rule switched."""
    modes = ("elr-on", "elr-on-extras", "elr-off")
    every = [p for at in range(60) for mode in modes for p in files(mode)[at : at + 1]]
    if found := (KNOWN | EARLY).get(rule):
        mode, at = found
        every.insert(0, files(mode)[at])
    return any(replay(path, rules={rule: on}).unexplained for path in every)


@needs_recordings_4_2
@pytest.mark.parametrize("rule", RULES_4_2)
def test_with_a_rule_off_some_decision_is_not_explained(rule: str) -> None:
    assert matters(rule, False), f"no recorded decision depends on {rule}"


@needs_recordings_4_2
@pytest.mark.parametrize(
    "rule",
    [
        "elr_follows_election", "elr_within_replicas", "reassignment_needs_min_isr", "shrink_bumps_leader_epoch",
        "level_change_empties_elr", "elr_off_forgets_last_known",
    ],
)  # fmt: skip
def test_with_a_rule_on_that_4_2_lacks_some_decision_is_not_explained(rule: str) -> None:
    assert matters(rule, True), f"no recorded decision tells that {rule} is not there"


@needs_recordings_4_2
def test_an_older_profile_does_not_explain_it() -> None:
    reports = [replay(path, "kafka_trunk_2024_10") for path in files("elr-on")[:3]]
    assert sum(report.unexplained_count for report in reports) > 30


def test_the_level_decides_about_rules_of_the_profile_alone() -> None:
    on, off = PROFILES["kafka_4_2"].rules, PROFILES["kafka_4_2_elr_off"].rules
    assert on - ELR_FEATURE == off
    assert off < on


def newer(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A made recording as a release behind 4.2 would write it."""
    more = {"kafkaVersion": "4.9.1", "metadataVersion": "4.9-IV1", "minIsrAt": "topic", "staticMinIsr": 1,
            "controllerId": 3000, "bootstrapRecords": []}  # fmt: skip
    return [{"meta": {**lines[0]["meta"], **more}}, *({**line, "elrVersion": 1} for line in lines[1:])]


def test_a_made_recording_of_a_newer_version(tmp_path: Path) -> None:
    lines = made().lines
    assert replay(write(tmp_path / "old.ndjson", lines)).doubts == []
    report = replay(write(tmp_path / "new.ndjson", newer(lines)))
    assert [doubt.kind for doubt in report.doubts] == ["newer version"]
    assert report.doubts[0].summary.startswith(
        "Kafka 4.9.1, metadata.version 4.9-IV1 is newer than any profile"
    )
    assert not any(line.reliable for line in report.unexplained)
    assert not report.explained


def test_an_operation_that_the_rules_do_not_have_is_named_and_counted(tmp_path: Path) -> None:
    """The replay goes on from what was recorded, and what it says of other operations stays sure."""
    lines = made().lines
    again = [{**lines[-1], "i": lines[-1]["i"] + n, "op": {"name": "resizeCluster", "to": n}} for n in (1, 2)]
    path = write(tmp_path / "unknown.ndjson", [*lines, *again])
    report = replay(path)
    assert report.skipped == {"resizeCluster": 2}
    (doubt,) = report.doubts
    assert (doubt.kind, doubt.partitions) == ("unknown operation", ())
    assert doubt.position == {"line": len(lines) + 1, "step": len(lines) - 1}
    assert "resizeCluster" in doubt.summary
    assert report.unexplained_count == 0
    assert CliRunner().invoke(cli, ["replay", str(path)]).exit_code == 3
    wrong = {**lines[-1], "i": lines[-1]["i"] + 3, "error": "NONE"}
    report = replay(write(tmp_path / "wrong.ndjson", [*lines, *again, wrong]))
    assert [line.reliable for line in report.unexplained] == [True]
    assert report.is_violated


def test_the_state_behind_an_operation_that_is_not_known_is_the_recorded_one(tmp_path: Path) -> None:
    """A broker that is gone, a topic and a setting that are there: from the line's state and its records."""
    lines = made().lines
    last = lines[-1]
    topic = {"type": "TOPIC_RECORD", "version": 0, "data": {"name": "x", "topicId": "an identifier"}}
    data = {"resourceType": 2, "resourceName": "x", "name": "min.insync.replicas", "value": "2"}
    setting = {"type": "CONFIG_RECORD", "version": 0, "data": data}
    partition = {**last["partitions"][0], "topic": "x", "effectiveMinIsr": 2}
    state = {"partitions": [*last["partitions"], partition], "brokers": last["brokers"][:2]}
    more = {**last, "i": last["i"] + 1, "error": "NONE", "op": {"name": "somethingElse"}, **state}
    more |= {"records": [topic, setting]}
    more.pop("response", None)
    nothing = {**more, "i": last["i"] + 2, "nextOffset": last["nextOffset"] + 2, "records": []}
    nothing["op"] = {"name": "maybeBalancePartitionLeaders"}
    report = replay(write(tmp_path / "state.ndjson", [*lines, more, nothing]))
    told = [dict(c.differences) for u in report.unexplained for c in u.candidates]
    assert not any(
        "effectiveMinIsr" in path or path.startswith("brokers") for wrong in told for path in wrong
    )


def refused_after(lines: list[dict[str, Any]], at: int, error: str, **changed: Any) -> list[dict[str, Any]]:
    """The recording with the operation of a line once more behind it, refused with this error."""
    again = {**copy.deepcopy(lines[at]), "error": error, "records": [], **changed}
    again["nextOffset"] += len(lines[at]["records"])
    more = [*lines[: at + 1], again, *lines[at + 1 :]]
    return [line | {"i": number} if "i" in line else line for number, line in enumerate(more, -1)]


@needs_recordings_4_2
def test_a_broker_that_is_not_registered_cannot_be_removed_again(tmp_path: Path) -> None:
    lines = lines_of(files("elr-on-extras")[1])
    at = next(i for i, line in enumerate(lines) if line.get("op", {}).get("name") == "unregisterBroker")
    said = {
        "exception": "BrokerIdNotRegisteredException",
        "message": "Broker ID 0 is not currently registered",
    }
    report = replay(
        write(tmp_path / "a", refused_after(lines, at, "BROKER_ID_NOT_REGISTERED", response=said))
    )
    assert report.unexplained == []


@needs_recordings_4_2
@pytest.mark.parametrize("epoch", [-2, -(2**31), -(2**63), 2**63 - 1])
def test_a_member_s_epoch_is_any_number_of_64_bits(tmp_path: Path, epoch: int) -> None:
    lines = lines_of(files("elr-on-extras")[1])
    at = next(i for i, line in enumerate(lines) if line.get("error") == "INELIGIBLE_REPLICA")
    for member in lines[at]["op"]["newIsr"]:
        member["epoch"] = epoch
    assert replay(write(tmp_path / "a", lines)).unexplained == []
