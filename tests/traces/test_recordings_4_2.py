"""Recordings of a controller of 4.2.1 are read whole; what no profile has is named, counted, and marked."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.traces.operations.format import NOT_YET, OUTSIDE
from highwater.traces.operations.read_arguments import OPERATIONS
from highwater.traces.operations.read_recording import read_controller_trace
from highwater.traces.replay import replay
from tests.traces.kafka.made import CLUSTERS_4_2
from tests.traces.recorded import lines_of, made, write

RECORDED = CLUSTERS_4_2.parent / "controller"
COUNTS = {"elr-on": 60, "elr-off": 30, "elr-on-extras": 40}
OPERATIONS_OF_4_2 = {"updateFeatures", "unregisterBroker", "assignReplicasToDirs"}
"""Operations that the rules do not have."""

needs_recordings_4_2 = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="shared/traces/kafka-4.2/controller is not beside the repository"
)


@needs_recordings_4_2
@pytest.mark.parametrize("mode", COUNTS)
def test_every_recording_is_read(mode: str) -> None:
    """Each line, with nothing lost: what was read is what the file has."""
    paths = sorted((RECORDED / mode).glob("*.ndjson.gz"))
    assert len(paths) == COUNTS[mode]
    unknown: Counter[str] = Counter()
    for path in paths:
        meta, *lines = lines_of(path)
        trace = read_controller_trace(path)
        assert trace.meta.kafka_version == "4.2.1"
        assert trace.meta.elr_enabled == meta["meta"]["elrEnabled"]
        assert trace.meta.newer is not None
        found = list(trace.operations)
        assert len(found) == len(lines)
        for op, line in zip(found, lines, strict=True):
            assert (op.name, op.step, op.error) == (line["op"]["name"], line["i"], line["error"])
            assert [kind for kind, _, _ in op.records] == [r["type"] for r in line["records"]]
            assert len(op.partitions) == len(line["partitions"])
            assert {b: s["lastContactMs"] for b, s in op.brokers.items()} == {
                b["id"]: b["lastContactMs"] for b in line["brokers"]
            }
            assert op.is_known == (op.name in OPERATIONS)
            if op.is_known:
                assert op.arguments.get("renewed") == line["op"].get("renewed")
            else:
                unknown[op.name] += 1
    assert set(unknown) == (OPERATIONS_OF_4_2 if mode == "elr-on-extras" else set())


@needs_recordings_4_2
@pytest.mark.parametrize("mode", COUNTS)
def test_nothing_of_a_newer_version_is_sure(mode: str) -> None:
    for path in sorted((RECORDED / mode).glob("*.ndjson.gz"))[:6]:
        report = replay(path)
        newer, *others = report.doubts
        assert newer.kind == "newer version"
        assert newer.summary.startswith("Kafka 4.2.1, metadata.version 4.2-IV1 is newer than any profile")
        assert {doubt.kind for doubt in others} <= {"unknown operation"}
        assert len(others) == len(report.skipped)
        assert not any(line.reliable for line in report.unexplained)
        assert report.operations == len(lines_of(path)) - 1
        assert report.unexplained_count < report.operations / 3, "most of it is as it was"
        names = {op["op"]["name"] for op in lines_of(path)[1:]} & OPERATIONS_OF_4_2
        assert names <= report.skipped.keys(), "what the rules do not have is named and counted"


@needs_recordings_4_2
def test_the_command_says_that_it_is_not_sure() -> None:
    path = sorted((RECORDED / "elr-on-extras").glob("*.ndjson.gz"))[0]
    result = CliRunner().invoke(cli, ["replay", str(path), "--json", "-"])
    assert result.exit_code == 3
    (report,) = json.loads(result.stdout)
    assert report["skipped"]["updateFeatures"] >= 1


def newer(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A made recording as 4.2.1 would write it."""
    more = {"kafkaVersion": "4.2.1", "metadataVersion": "4.2-IV1", "minIsrAt": "topic", "staticMinIsr": 1,
            "controllerId": 3000, "bootstrapRecords": []}  # fmt: skip
    return [{"meta": {**lines[0]["meta"], **more}}, *({**line, "elrVersion": 1} for line in lines[1:])]


def test_a_made_recording_of_a_newer_version(tmp_path: Path) -> None:
    lines = made().lines
    assert replay(write(tmp_path / "old.ndjson", lines)).doubts == []
    report = replay(write(tmp_path / "new.ndjson", newer(lines)))
    assert [doubt.kind for doubt in report.doubts] == ["newer version"]
    assert report.unexplained_count == 0
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


def test_fields_that_are_not_compared_yet_are_no_others() -> None:
    assert not NOT_YET.keys() & OUTSIDE.keys()
    page = (Path(__file__).parents[2] / "docs" / "replay.md").read_text()
    for name, meaning in NOT_YET.items():
        assert f"| `{name}` | {meaning} |" in page
