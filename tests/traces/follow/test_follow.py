"""A follower reads a log that grows, is truncated, rewritten, rolled and deleted: it reports each change."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.follow.outputs import Metrics
from highwater.traces.follow.session import IncidentChange, Notice, OpenIncidents
from highwater.traces.kafka.values import decode
from tests.generation.batches import encode_batch
from tests.recordings import folder, needs
from tests.slow import all_but
from tests.traces.follow.clusters import SNAPSHOT, Cluster, ends, events_of, latest, short
from tests.traces.kafka.made import snapshot
from tests.traces.metadata import made_logs
from tests.traces.metadata.made_logs import (
    MIN_ISR,
    ON,
    Controller,
    beginning,
    change,
    setting,
    write,
)

RECORDED = folder("traces/kafka-4.2/clusters")


@pytest.mark.parametrize("seed", range(2))
def test_batches_that_arrive_in_pieces_lead_to_the_same_incidents(
    log: bytes, cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    dice, done = random.Random(seed), 0
    while done < len(log):
        more = dice.choice((1, 40, 61, 100, 700))
        cluster.follow(log[done : done + more])
        done += more
    assert latest(cluster.events) == latest(events_of(log, tmp_path / "once"))


@needs("traces/kafka-4.2/clusters")
@pytest.mark.parametrize(
    "name",
    all_but(
        ["minisr-loss-elr"],
        ["mixed-elr-8", "down-elr-unclean-210", "minisr-loss-elr", "deadleader-elr"],
        "three more clusters, one of them long",
    ),
)
def test_a_restart_at_any_of_50_moments_repeats_and_omits_nothing(
    name: str, cluster: Cluster, tmp_path: Path
) -> None:
    log = (RECORDED / name / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
    dice, before = random.Random(name), 0
    batches = ends(log)
    moments = set(dice.sample(range(len(batches)), min(50, len(batches))))
    for number, end in enumerate(batches):
        cluster.follow(log[before:end])
        before = end
        if number in moments:
            cluster.restart()
    assert cluster.events == events_of(log, tmp_path / "once")
    assert len(cluster.events) > 1


def test_after_a_kill_changes_since_the_last_file_are_reported_again(
    log: bytes, cluster: Cluster, tmp_path: Path
) -> None:
    """At each batch the follower is killed before it has written the file with the changes of the last two batches."""
    before, files = 0, [OpenIncidents(0, 0, {})] * 3
    for end in ends(log):
        cluster.start(files[-3])
        cluster.follow(log[before:end])
        before = end
        assert cluster.follower.open_incidents is not None
        files.append(cluster.follower.open_incidents)
    once = events_of(log, tmp_path / "once")
    assert latest(cluster.events) == latest(once)
    assert set(short(cluster.events)) == set(short(once))


def still_open(events: list[dict[str, Any]]) -> set[str]:
    """The incidents that are open after some events. Raises AssertionError if one is opened or closed twice."""
    found = set[str]()
    for event, id, _ in short(events):
        assert (id in found) == (event != "opened")
        found = found - {id} if event == "closed" else found | {id}
    return found


@pytest.mark.parametrize("restarts", [False, True])
def test_incidents_of_a_rewritten_tail_are_open(
    log: bytes, cluster: Cluster, tmp_path: Path, restarts: bool
) -> None:
    """The log with the first tail is longer than the log with the losses."""
    batches = ends(log)
    start = batches[len(beginning(*ON)) - 1]
    offset, quiet = int.from_bytes(log[start : start + 8]), change(0, isr=[0, 1, 2])
    cluster.grow(log[:start])
    for number in range(offset, offset + 40):
        cluster.grow(encode_batch(number, 1, number, [quiet]))
    cluster.follow()
    cluster.segment().write_bytes(log)
    if restarts:
        cluster.restart()
    cluster.follow()
    assert still_open(cluster.events) == still_open(events_of(log, tmp_path / "once")) != set()


def test_an_incident_of_a_truncated_tail_is_closed(log: bytes, cluster: Cluster) -> None:
    batches = ends(log)
    cluster.follow(log)
    before = set(cluster.follower.reported)
    cluster.segment().write_bytes(log[: batches[len(batches) // 3]])
    events = cluster.follow()
    assert {(e["event"], e["incident"]["id"]) for e in events} == {("closed", id) for id in before} != set()
    assert {e["offset"] for e in events} == {cluster.follower.counts.next_offset - 1}, "of the last record"
    assert "truncated" in next(n.text for n in cluster.notices if n.kind == "read again")


def test_an_incident_whose_record_cannot_be_read_again_is_open_until_it_can(
    log: bytes, cluster: Cluster
) -> None:
    cluster.follow(log)
    before = cluster.follower.open_incidents
    damaged = bytearray(log)
    damaged[ends(log)[4] - 1] ^= 1
    cluster.segment().write_bytes(damaged)
    cluster.start(before)
    for _ in range(30):
        list(cluster.follower.poll())
    assert before is not None
    assert cluster.follower.reported == before.incidents != {}
    cluster.segment().write_bytes(log[: ends(log)[4]])
    assert [e["event"] for e in cluster.follow()] == ["closed"]


def test_a_rewritten_tail_of_the_same_length_is_read_again(log: bytes, cluster: Cluster) -> None:
    batches = ends(log)
    cluster.follow(log)
    changed = bytearray(log)
    changed[batches[-2] + 17] ^= 1  # the checksum of the last batch, as if another batch were there
    cluster.segment().write_bytes(changed)
    cluster.follow()
    assert any("rewritten" in n.text for n in cluster.notices)


@pytest.mark.parametrize("later", [0, 2])
def test_segments_that_are_rolled_and_deleted_are_followed(
    log: bytes, cluster: Cluster, tmp_path: Path, later: int
) -> None:
    """Kafka deletes a segment while the follower still has it open, or ``later`` batches after it was closed."""
    batches, before = ends(log), 0
    base, previous = 0, None
    for number, end in enumerate(batches):
        data = log[before:end]
        offset = int.from_bytes(data[:8], "big")
        if number % 7 == 6:
            base, previous = offset, cluster.segment(base)
        cluster.grow(data, base)
        if previous is not None and number % 7 == (6 + later) % 7:
            previous.unlink()
        cluster.follow()
        before = end
    assert cluster.events == events_of(log, tmp_path / "once")


def test_records_deleted_before_they_were_read_are_reported_as_missed(log: bytes, cluster: Cluster) -> None:
    batches = ends(log)
    cluster.follow(log[: batches[2]])
    cluster.segment().unlink()
    cluster.add_snapshot(500)
    cluster.segment(500).touch()
    cluster.follow()
    (missed,) = [n for n in cluster.notices if n.kind == "missed"]
    assert "to 499 were deleted" in missed.text
    assert cluster.follower.counts.next_offset == 500


@pytest.mark.parametrize("kept", [True, False])
def test_a_restart_reads_the_records_before_a_newer_snapshot(
    log: bytes, cluster: Cluster, tmp_path: Path, kept: bool
) -> None:
    """The snapshot with which the earlier follower began is gone. ``kept``: segment 0 is not, else a later snapshot."""
    batches = ends(log)
    half = batches[-12]
    offset = int.from_bytes(log[half : half + 8])
    cluster.follow(log[:half])
    cluster.add_snapshot(offset + 8)
    if kept:
        cluster.grow(log[half:])
    else:
        cluster.segment().unlink()
        cluster.add_snapshot(offset)
        cluster.grow(log[half:], offset)
    cluster.start(OpenIncidents(3, offset, {}))
    assert latest(cluster.follow()) == latest(events_of(log, tmp_path / "once"))
    assert not [n for n in cluster.notices if n.kind == "missed"]


def test_the_follower_waits_for_a_directory_that_does_not_exist_yet(
    log: bytes, cluster: Cluster, tmp_path: Path
) -> None:
    assert cluster.follow() == []
    assert cluster.follower.counts.is_waiting
    assert latest(cluster.follow(log)) == latest(events_of(log, tmp_path / "once"))
    assert not cluster.follower.counts.is_waiting


def test_after_a_damaged_batch_the_follower_continues_from_a_newer_snapshot(
    log: bytes, cluster: Cluster
) -> None:
    damaged = bytearray(log)
    damaged[ends(log)[4] - 1] ^= 1
    cluster.grow(bytes(damaged))
    notices = [one for _ in range(60) for one in cluster.follower.poll() if isinstance(one, Notice)]
    assert [n.kind for n in notices] == ["begun", "unreadable"]
    assert cluster.follower.counts.damaged == 1
    cluster.add_snapshot(500)
    cluster.follow()
    assert [n.kind for n in cluster.notices] == ["read again", "missed", "begun"]
    assert (cluster.follower.counts.partitions["all"], cluster.follower.counts.damaged) == (2, 0)


def test_records_that_cannot_be_read_are_counted(cluster: Cluster) -> None:
    values = [*beginning(*ON), change(0)[:-3]]
    cluster.add_snapshot(500, content=snapshot(values))
    cluster.follow()
    assert [n.kind for n in cluster.notices] == ["unreadable", "begun"]
    assert cluster.follower.counts.damaged == 1
    cluster.grow(encode_batch(500, 1, 1000, [values[-1]]), 500)
    cluster.follow()
    assert [n.kind for n in cluster.notices][2:] == ["unreadable"]
    metrics = Metrics(str(cluster.folder / "metrics"))
    metrics.update(cluster.follower.counts, [])
    for line in ("highwater_unreadable 2.0", "highwater_caveats 2.0"):
        assert line in (cluster.folder / "metrics").read_text().splitlines()


@pytest.mark.parametrize(
    ("min_isr", "of_t", "expected"),
    [
        ("2", {}, ""),
        ("2", {"isr": [0, 1]}, "at_min_isr"),
        ("2", {"isr": [0]}, "under_min_isr"),
        ("3", {}, "at_min_isr"),
        ("7", {}, "at_min_isr"),
        ("1", {"isr": [0]}, "at_min_isr"),
        ("1", {"isr": [0], "leader": -1}, ""),
        ("unknown", {}, "min_isr_unknown"),
        ("unknown", {"isr": [0, 1]}, "min_isr_unknown"),
        ("unknown", {"isr": [0]}, "min_isr_unknown"),
    ],
)
def test_partitions_are_counted_by_their_isr(
    min_isr: str, of_t: dict[str, Any], expected: str, cluster: Cluster
) -> None:
    """A partition without a leader counts as offline alone. An unknown min ISR leaves open which state holds."""
    values = [v for v in beginning(min_isr="2") if decode(v).type != "CONFIG_RECORD"]
    if min_isr != "unknown":
        values.append(setting(MIN_ISR, min_isr, "t"))
    write(cluster.directory, [*values, setting(MIN_ISR, "2", "u"), *([change(0, **of_t)] if of_t else [])])
    cluster.follow()
    found = cluster.follower.counts.partitions
    states = ("under_min_isr", "at_min_isr", "min_isr_unknown")
    assert {state: found[state] for state in states} == {state: int(state == expected) for state in states}


def test_a_follower_that_waits_for_the_directory_keeps_the_incidents_of_the_earlier_one(
    log: bytes, cluster: Cluster
) -> None:
    cluster.follow(log)
    before = cluster.follower.open_incidents
    away = cluster.directory.rename(cluster.folder / "away")
    cluster.restart()
    assert cluster.follow() == []
    assert cluster.follower.open_incidents is None
    assert before is not None
    assert cluster.follower.reported == before.incidents != {}
    away.rename(cluster.directory)
    assert cluster.follow() == []
    assert cluster.follower.open_incidents == before


def test_a_record_with_a_clock_far_ahead_does_not_hide_that_the_log_stands_still(
    log: bytes, cluster: Cluster
) -> None:
    offset = int.from_bytes(log[ends(log)[-2] :][:8]) + 100
    cluster.grow(log)
    for number, time in enumerate((10**15, 2000)):
        cluster.grow(encode_batch(offset + number, 1, time, [change(0, isr=[0, 1, 2])]))
    cluster.follow()
    assert cluster.follower.counts.last_time == 2000
    assert cluster.follower.counts.delay > 10**6


def test_a_shorter_log_that_grows_with_every_poll_is_followed(log: bytes, cluster: Cluster) -> None:
    """The earlier follower read a longer log, which another one has replaced."""
    cluster.start(OpenIncidents(0, 10_000, {}))
    cluster.grow(log[: ends(log)[0]])
    events: list[IncidentChange] = []
    for before, end in pairwise(ends(log)):
        cluster.grow(log[before:end])
        events += [one for one in cluster.follower.poll() if isinstance(one, IncidentChange)]
    assert {one.incident["partition"] for one in events} == {"t-0", "u-0"}


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_missing_segment_is_passed_over_and_reported(
    log: bytes, cluster: Cluster, has_snapshot: bool
) -> None:
    batches = ends(log)
    first = int.from_bytes(log[batches[-3] : batches[-3] + 8])
    cluster.follow(log[: batches[4]])
    cluster.grow(log[batches[-3] :], first)
    if has_snapshot:
        cluster.add_snapshot(first)
    notices = [one for _ in range(60) for one in cluster.follower.poll() if isinstance(one, Notice)]
    assert ("caveat" in [one.kind for one in notices]) != has_snapshot
    assert ("read again" in [one.kind for one in notices]) == has_snapshot
    assert any("are missing" in one.text or "were deleted" in one.text for one in notices)
    assert cluster.follower.counts.next_offset == first + 2


def test_repeated_elections_of_the_controller_are_closed_after_a_restart_behind_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The log that a restarted follower reads begins with a snapshot after the elections."""
    start = beginning(*ON)
    values = [*start, *(one for epoch in range(2, 7) for one in (Controller(epoch), change(0, isr=[0, 1])))]
    (file,) = made_logs.write(tmp_path / "made", values).glob("*.log")
    cluster.grow(file.read_bytes())
    assert short(cluster.follow())[0][1:] == ("controller@16", "at_risk")
    cluster.segment().unlink()
    cluster.add_snapshot(500, 6)
    cluster.grow(encode_batch(500, 6, 10**9, [change(0, isr=[0, 1])]), 500)
    cluster.restart()
    assert short(cluster.follow()) == [("closed", "controller@16", "at_risk")]


@pytest.mark.parametrize("has_older", [False, True])
@pytest.mark.parametrize("size", [0, -1, -80])
def test_a_snapshot_that_was_cut_off_is_passed_over(
    log: bytes, cluster: Cluster, tmp_path: Path, has_older: bool, size: int
) -> None:
    cluster.grow(log)
    first = len(beginning(*ON))
    if has_older:
        cluster.add_snapshot(first)
    cluster.add_snapshot(first + 2, content=SNAPSHOT[:size])
    assert latest(cluster.follow()) == latest(events_of(log, tmp_path / "once"))
    assert [n.kind for n in cluster.notices][:2] == ["unreadable", "begun"]
    assert cluster.notices[1].offset == (first if has_older else 0)


def test_a_bootstrap_snapshot_is_no_beginning(log: bytes, cluster: Cluster, tmp_path: Path) -> None:
    """Kafka 4.4 has one; it ends at offset 0, and the log repeats its records."""
    cluster.add_snapshot(0, 0)
    cluster.grow(log)
    assert latest(cluster.follow()) == latest(events_of(log, tmp_path / "once"))
    assert [n.text for n in cluster.notices if n.kind == "begun"] == ["with the first record of the log"]
