"""Findings in recordings of controller operations, with ELR on and off."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.findings import Finding
from tests.traces.recorded import Recorder, write
from tests.traces.test_recorded_operations import needs_recordings_4_2, of

NEW, TRUNK = (4, 2, 1), (4, 0, 3)


def started(version: tuple[int, int, int], elr: bool = True, **rules: bool) -> Recorder:
    """A recorder with three brokers, one partition with all of them in its ISR, and min.insync.replicas=2."""
    r = Recorder(elr=elr, metadata_version=version, rules=rules)
    for b in range(3):
        r.register(b, f"first-{b}")
        r.heartbeat(b)
    r.do("createTopic", topic="t0", assignments=[[0, 1, 2]], configs={"min.insync.replicas": "2"})
    return r


def told(tmp_path: Path, r: Recorder) -> list[Finding]:
    report = replay(write(tmp_path / "made.ndjson", r.lines), rules=r.rules)
    assert not report.unexplained, str(report)
    return report.findings


def names(found: list[Finding]) -> set[str]:
    return {f.property for f in found}


def lowered(r: Recorder) -> Recorder:
    """Shrink the ISR so that the ELR has a member, then lower min.insync.replicas to 1."""
    r.alter([0])
    r.configure("TOPIC", "t0", "min.insync.replicas", "1")
    return r


def test_a_valid_recording_has_no_finding(tmp_path: Path) -> None:
    r = started(NEW)
    r.alter([0, 1])
    r.heartbeat(1, fence=True)
    r.heartbeat(1)
    r.alter([0, 1, 2])
    assert not told(tmp_path, r)


def test_an_elr_that_keeps_its_members_is_found_and_a_cleared_one_is_not(tmp_path: Path) -> None:
    broken = told(tmp_path, lowered(started(TRUNK)))
    assert names(broken) == {"elr_only_under_min_isr", "electable_completeness"}
    assert all(f.certain and f.partition == "t0-0" and f.kip == "KIP-966" for f in broken)
    assert {f.position["line"] for f in broken} == {10}
    assert not told(tmp_path, lowered(started(NEW)))


def test_a_loss_after_an_unclean_stop_is_possible_but_not_certain(tmp_path: Path) -> None:
    """The recording does not show whether the killed broker lost records."""
    r = started(NEW, elr=False)
    r.alter([0])
    r.register(0, "second-0", after_ms=3000)
    assert not told(tmp_path, r), "with ELR off nobody promises that the last ISR member holds everything"
    r = started(NEW)
    r.do("updateFeatures", feature="eligible.leader.replicas.version", level=0, upgradeType="SAFE_DOWNGRADE",
         validateOnly=False)  # fmt: skip
    r.alter([0])
    r.register(0, "second-0", after_ms=3000)
    assert not told(tmp_path, r)
    r.do("updateFeatures", feature="eligible.leader.replicas.version", level=1, upgradeType="UPGRADE",
         validateOnly=False)  # fmt: skip
    found = told(tmp_path, r)
    assert "electable_completeness" in names(found)
    assert not any(f.certain for f in found if f.property == "electable_completeness")


def test_an_unclean_election_is_found_with_elr_off_too(tmp_path: Path) -> None:
    for version in (NEW, TRUNK):
        r = started(version, elr=False)
        r.alter([0])
        r.heartbeat(1, fence=True)
        r.heartbeat(2, fence=True)
        r.heartbeat(0, fence=True)
        r.heartbeat(1)
        r.do("electLeaders", type="UNCLEAN", topic="t0", partition=0)
        assert names(told(tmp_path, r)) == {"leader_elected_cleanly"}


BY_KIP_966 = {
    "elr_only_under_min_isr", "elr_within_replicas", "electable_completeness", "enough_are_electable",
    "leader_completeness", "somebody_is_electable", "last_known_leader_is_a_broker",
}  # fmt: skip


@needs_recordings_4_2
@pytest.mark.parametrize(("mode", "seeds"), [("elr-on", (1, 23)), ("elr-off", (0, 2))])
def test_promises_of_kip_966_hold_only_with_elr_on(mode: str, seeds: tuple[int, ...]) -> None:
    files = of("4.2", mode).files()
    found = {f.property for seed in seeds for f in replay(files[seed]).findings}
    assert (found >= BY_KIP_966) if mode == "elr-on" else not (BY_KIP_966 & found)
    assert "leader_elected_cleanly" in found


@needs_recordings_4_2
def test_a_reassignment_that_loses_by_a_clean_election_is_found() -> None:
    """In elr-on/seed0001, reassignments drop and re-add replicas; an old ELR member is elected and lacks records."""
    found = {
        (f.property, f.position["line"])
        for f in replay(of("4.2", "elr-on").files()[1]).findings
        if f.partition == "t0-1"
    }
    assert {("elr_within_replicas", 13), ("electable_completeness", 13), ("leader_completeness", 15)} <= found
