from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.traces.operations.decide import NEWER
from highwater.traces.operations.read_recording import OPERATIONS
from highwater.traces.replay import replay
from tests.traces.recorded import made, write


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"elr": False},
        {"elr": False, "metadata_version": (4, 0, 0)},
        {"elr": False, "metadata_version": (3, 9, 1)},
    ],
)
def test_recordings_made_by_the_model_conform(tmp_path: Path, settings: dict[str, Any]) -> None:
    recorder = made(**settings)
    report = replay(write(tmp_path / "made.ndjson", recorder.lines))
    assert not report.unexplained, str(report)
    assert report.operations == len(recorder.lines) - 1
    assert report.partitions == 1
    assert report.changes > 3


def test_the_recording_has_every_operation_but_the_expiry_of_a_session() -> None:
    names = {line["op"]["name"] for line in made().lines[1:]}
    assert set(OPERATIONS) - names == {"fenceStaleBroker"} | NEWER
    assert {line["error"] for line in made().lines[1:]} >= {
        "NONE", "STALE_BROKER_EPOCH", "INVALID_REQUEST", "NOT_CONTROLLER", "DUPLICATE_BROKER_REGISTRATION",
        "ELECTION_NOT_NEEDED",
    }  # fmt: skip


def test_with_another_rule_a_recording_does_not_conform(tmp_path: Path) -> None:
    path = write(tmp_path / "made.ndjson", made().lines)
    report = replay(path, rules={"eligible_leader_replicas": False})
    assert not report.explained
    first = report.unexplained[0]
    assert first.candidates[0].action == "alterPartition"
    assert first.candidates[0].differences["partitions[t0-0].elr"] == ([], [1])
    assert first.partition == "t0-0"
    assert first.before["partitions"]["t0-0"]["isr"] == [0, 1]


def test_a_refusal_names_the_checks(tmp_path: Path) -> None:
    lines = made().lines
    refused = next(line for line in lines if line.get("error") == "INVALID_REQUEST")
    refused["error"] = "NONE"
    report = replay(write(tmp_path / "made.ndjson", lines))
    candidate = report.unexplained[0].candidates[0]
    assert candidate.refused_by == ("the ISR has every member once",)
    assert "the sender is the leader" in candidate.passed
    assert candidate.differences["error"] == ("INVALID_REQUEST", "NONE")
    assert report.unexplained_count == 1


def test_one_wrong_line_is_reported_once(tmp_path: Path) -> None:
    lines = made().lines
    at = next(i for i, line in enumerate(lines) if line.get("op", {}).get("name") == "alterPartition")
    lines[at]["partitions"][0]["elr"] = [0]
    report = replay(write(tmp_path / "made.ndjson", lines))
    assert report.unexplained[0].position["line"] == at + 1
    assert report.unexplained_count <= 2, "the line, and the one after it that starts from what was recorded"


def test_progress_and_interruption(tmp_path: Path) -> None:
    lines = made().lines
    last = lines[-1]
    lines += [{**last, "i": last["i"] + n} for n in range(1, 200)]
    path = write(tmp_path / "made.ndjson", lines)
    seen: list[int] = []
    assert replay(path, progress=lambda report: seen.append(report.operations)).unexplained == []
    assert seen == [100, 200]

    def stop(report: object) -> None:
        raise KeyboardInterrupt

    stopped = replay(path, progress=stop)
    assert stopped.interrupted
    assert stopped.operations == 100
