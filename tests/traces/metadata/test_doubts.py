"""Doubts: unknown facts of a log are reported, and lines from their offsets on are marked as not reliable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.kafka.values import decode, encode, encode_unknown
from highwater.traces.metadata.follow import NOT_KNOWN
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from highwater.traces.reports.findings import DOUBTS
from highwater.traces.reports.report import Report, summary
from highwater.traces.rules.decisions import MIGRATING
from tests.generation.batches import encode_batch
from tests.traces.kafka.made import dump_of, snapshot
from tests.traces.metadata.made_logs import (
    ELR,
    FENCED,
    ON,
    SHRUNK,
    UNCLEAN,
    beginning,
    change,
    count,
    feature,
    flip,
    loss,
    partition,
    registration,
    registration_change,
    setting,
    together,
    unreadable,
    with_version,
    write,
)
from tests.traces.test_inputs import run

START = len(beginning())


def doubts(report: Report) -> list[tuple[str, int, tuple[str, ...] | None]]:
    assert all(doubt.kind in DOUBTS for doubt in report.doubts)
    return [(d.kind, d.position["offset"], d.partitions) for d in report.doubts]


def marks(report: Report) -> dict[str | None, set[bool]]:
    """For each partition whether its lines are reliable."""
    lines: list[Any] = [*report.unexplained, *report.findings]
    return {a.partition: {b.reliable for b in lines if b.partition == a.partition} for a in lines}


def replayed(tmp_path: Path, *values: bytes | Sequence[bytes], start: list[bytes] | None = None) -> Report:
    return replay(write(tmp_path / "log", [*(beginning() if start is None else start), *values]))


# --- versions -------------------------------------------------------------------------------------------


VERSION = "metadata.version"


@pytest.mark.parametrize(
    ("features", "summary"),
    [
        (((VERSION, 34), (ELR, 1)), "metadata.version 34 is newer"),
        (((VERSION, 28),), f"{ELR} 0 with metadata.version 28 (4.2-IV0) has no profile"),
        (((VERSION, 34),), "metadata.version 34 is newer"),
        (((VERSION, 777),), "metadata.version 777 is newer"),
        (((VERSION, 25), (ELR, 0)), f"{ELR} 0 with metadata.version 25 (4.0-IV3) has no profile"),
        (((VERSION, 29), ("tiered.quorum.version", 1)), "a feature that is not known: tiered.quorum.version"),
        *((((VERSION, level),), f"{ELR} 0 with metadata.version {level}") for level in (25, 23)),
        *((((VERSION, level),), None) for level in (22, 11, 29)),
        (((VERSION, 29), (ELR, 0)), None),
        (((VERSION, 29), (ELR, 1)), None),
        (((VERSION, 29), ("kraft.version", 1), ("share.version", 1), ("other", 0)), None),
    ],
)
def test_a_version_without_a_profile_is_a_doubt_about_everything(
    tmp_path: Path, features: Any, summary: str | None
) -> None:
    report = replayed(tmp_path, *loss(), start=beginning(*features))
    if summary is None:
        assert report.doubts == []
        return
    ((kind, _, partitions),) = doubts(report)
    assert (kind, partitions) == ("newer version", None)
    assert report.doubts[0].summary.startswith(summary)
    assert marks(report)["t-0"] == {False}
    assert not report.is_violated
    assert not report.explained


# --- records --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (unreadable(setting("min.insync.replicas", "1"), 9), "unreadable version"),
        (unreadable(registration(0, 0), 5), "unreadable version"),
        (with_version(partition(7, "t"), 3)[:8], "unreadable version"),
        (encode_unknown(99, 0, ""), "unknown record"),
        (encode_unknown(3000, 12, ""), "unknown record"),
        (encode_unknown(None, 0, "WHATEVER_RECORD"), "unknown record"),
    ],
)
def test_an_unreadable_record_of_the_cluster_concerns_all_partitions(
    tmp_path: Path, value: bytes, kind: str
) -> None:
    report = replayed(tmp_path, *loss(), value, *loss("u"))
    assert doubts(report) == [(kind, START + 2, None)]
    assert marks(report) == {"t-0": {True}, "u-0": {False}}
    assert sum(report.skipped.values()) == 1, "it is counted by type and version"


def newer(value: bytes, version: int) -> bytes:
    """A record of a newer version with a tagged field that is not known."""
    count, tag = value[-1], bytes((100, 3)) + b"abc"
    assert count == 0
    return with_version(value[:-1] + b"\x01" + tag, version)


def test_a_newer_version_is_read_as_far_as_its_fields_are_known(tmp_path: Path) -> None:
    """Broker 3 is registered, so its unfencing and its replica are followed; a line that is left is not told."""
    on = beginning(*ON)
    known = (registration(3, count(on)), registration_change(3, count(on), fenced=-1))
    made = partition(1, replicas=[3], isr=[3], leader=3)
    report = replayed(tmp_path, newer(known[0], 5), known[1], made, start=on)
    assert doubts(report) == [("unreadable version", count(on), None)]
    assert "REGISTER_BROKER_RECORD version 5 is read as version 4" in report.doubts[0].summary
    assert (report.unexplained, report.findings, report.figures.get(NOT_KNOWN)) == ([], [], None)
    report = replayed(
        tmp_path / "wrong", newer(known[0], 5), *(registration_change(3, 1, fenced=-1),) * 2, start=on
    )
    assert (report.unexplained, report.figures[NOT_KNOWN]) == ([], 2)
    values = (newer(partition(1, version=2, directories=[MIGRATING] * 3), 3), *(partition(1),) * 2)
    report = replayed(tmp_path / "change", *SHRUNK, *values, start=on)
    assert (doubts(report), report.unexplained) == ([("unreadable version", count(on) + 2, None)], [])


def test_a_newer_change_is_followed(tmp_path: Path) -> None:
    value = with_version(change(0, isr=[0, 1]), 3)
    report = replayed(tmp_path, value, change(0, isr=[0, 1, 2]), value, change(0, isr=[1, 7]))
    assert doubts(report) == [("unreadable version", START, None)], "one line, whatever number of records"
    assert (report.unexplained, report.figures[NOT_KNOWN]) == ([], 1)
    assert report.changes == 4


@pytest.mark.parametrize("is_read", [True, False])
def test_what_depends_on_an_unread_registration_is_not_known(tmp_path: Path, is_read: bool) -> None:
    """The registration of broker 3 was not read, so replay reports nothing that depends on it."""
    on = beginning(*ON)
    registered = registration(3, count(on))
    of_3: dict[str, Any] = {"replicas": [3], "isr": [3], "leader": 3}
    values = (
        registration_change(3, count(on), fenced=-1),
        partition(1, **of_3),
        change(1, isr=[3], leader=3),
    )
    fenced = registration_change(3, count(on), fenced=1)
    report = replayed(
        tmp_path, registered if is_read else unreadable(registered, 5), *values, fenced, *loss(), start=on
    )
    lines: list[Any] = [*report.unexplained, *report.findings]
    told = {line.partition for line in lines}
    assert told == ({"t-0", "t-1"} if is_read else {"t-0"})
    if not is_read:
        assert [f.property for f in report.findings if f.reliable] == []
        assert report.figures[NOT_KNOWN] > 1
        assert "does not conform" not in str(report).lower()


def test_flags_that_were_not_read_break_no_property(tmp_path: Path) -> None:
    """The unfencing of broker 2 is missing, is read, or is not read."""
    unfenced, joins = registration_change(2, 6, fenced=-1), [change(0, isr=[0, 1, 2]), change(0, leader=2)]
    found: list[set[str]] = []
    for values in ([], [unfenced], [unreadable(unfenced, 9)]):
        report = replayed(tmp_path / str(len(found)), FENCED, *values, *joins, start=beginning(*ON))
        found.append({f.property for f in report.findings})
    assert found == [{"isr_members_are_eligible", "leader_is_active"}, set(), set()]


def test_an_unreadable_change_or_creation_concerns_its_partition(tmp_path: Path) -> None:
    report = replayed(tmp_path, unreadable(change(0, isr=[0]), 3), *loss(), *loss("u"))
    assert doubts(report) == [("unreadable version", START, ("t-0",))]
    assert marks(report) == {"u-0": {True}}
    assert report.skipped == {
        "PARTITION_CHANGE_RECORD version 3": 1,
        "changes of partitions that are not followed any more": 2,
    }
    dumped = unreadable(encode_unknown(5, 3, "PARTITION_CHANGE_RECORD", decode(change(0)).data), 3)
    assert doubts(replayed(tmp_path / "dumped", dumped)) == [("unreadable version", START, ("t-0",))]
    report = replayed(tmp_path, unreadable(partition(1, "t"), 3), change(1, isr=[0]), *loss("u"))
    assert doubts(report) == [("unreadable version", START, ("t-1",))]
    assert marks(report) == {"u-0": {True}}


def test_an_unreadable_change_in_a_batch_concerns_its_partition(tmp_path: Path) -> None:
    batch = [registration_change(0, 1, fenced=1), unreadable(change(0, isr=[1]), 9)]
    report = replay(write(tmp_path / "log", [*beginning(), batch, *loss()]))
    assert ("unreadable version", START, ("t-0",)) in [(k, min(o, START), p) for k, o, p in doubts(report)]
    assert "t-0" not in marks(report)


def test_a_record_that_clears_elrs_without_a_rule_concerns_partitions_with_elr(tmp_path: Path) -> None:
    """The record cannot change a partition without an ELR."""
    clear, on = encode("CLEAR_ELR_RECORD", 0, {"topicName": ""}), beginning(*ON)
    values = (*SHRUNK, feature(ELR, 0))
    report = replayed(tmp_path, *values, clear, *loss("u"), start=on)
    assert doubts(report) == [("no rule", count(on) + 3, ("t-0",))]
    assert marks(report)["u-0"] == {True}
    again: dict[str, Any] = UNCLEAN
    report = replayed(tmp_path / "more", *values, clear, change(0, **again), *loss("u"), start=on)
    assert marks(report) == {"t-0": {False}, "u-0": {True}}
    other = encode("CLEAR_ELR_RECORD", 0, {"topicName": "u"})
    assert doubts(replayed(tmp_path / "other", *values, other, start=on)) == [("no rule", count(on) + 3, ())]


# --- values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "field", "said"),
    [
        (registration_change(0, 1, fenced=5), "fenced", ("-1 to 1", 5)),
        (registration_change(0, 1, inControlledShutdown=-1), "inControlledShutdown", ("0 to 1", -1)),
        (registration(-4, START), "brokerId", ("at least 0", -4)),
        (feature("metadata.version", -1), "featureLevel", ("at least 0", -1)),
        (partition(1, leader=-2), "leader", ("at least -1", -2)),
        (partition(1, leaderRecoveryState=2), "leaderRecoveryState", ("0 to 1", 2)),
        (setting("min.insync.replicas", "0"), "min.insync.replicas", ("a whole number from 1 on", "0")),
        (
            setting("unclean.leader.election.enable", "yes"),
            "unclean.leader.election.enable",
            ("true or false", "yes"),
        ),
    ],
)
def test_an_undefined_value_is_reported_and_changes_nothing(
    tmp_path: Path, value: bytes, field: str, said: Any
) -> None:
    report = replayed(tmp_path, value)
    (line,) = report.unexplained
    assert line.candidates[0].differences == {field: said}
    assert line.reliable, "no Kafka writes it"
    concerned = None if line.partition is None else ("t-1",)
    assert doubts(report) == [("undefined value", START, concerned)]
    assert report.is_violated
    assert report.skipped == {}


@pytest.mark.parametrize(("name", "value"), [("leaderRecoveryState", 7), ("leader", -7)])
def test_an_undefined_value_of_a_change_concerns_its_partition(tmp_path: Path, name: str, value: Any) -> None:
    report = replayed(tmp_path, change(0, **{name: value}), *loss(), *loss("u"))
    assert doubts(report) == [("not followed", START, ("t-0",))]
    (first, *_) = report.unexplained
    assert f"{name} is {value}" in first.candidates[0].refused_by[0]
    assert marks(report) == {"t-0": {True}, "u-0": {True}}


@pytest.mark.parametrize("value", [" 2 ", "+002", None])
def test_a_setting_is_read_as_kafka_reads_it(tmp_path: Path, value: str | None) -> None:
    assert doubts(replayed(tmp_path, setting("min.insync.replicas", value))) == []


# --- what is not there ----------------------------------------------------------------------------------


def test_a_log_without_its_beginning_is_doubted_as_a_whole(tmp_path: Path) -> None:
    later = [change(0, isr=[0]), registration_change(1, 3, fenced=1), *loss("u"), partition(4)]
    report = replay(write(tmp_path, later, base=20))
    assert doubts(report) == [("missing beginning", 20, None)]
    assert report.doubts[0].summary == "begins at offset 20 without a snapshot: copy the *.checkpoint too"
    assert report.unexplained == []
    assert sum(report.skipped.values()) == 5
    assert any("copy the *.checkpoint too" in line for line in summary(report))


def test_missing_offsets_mark_the_lines_after_them(tmp_path: Path) -> None:
    folder = write(tmp_path, [*beginning(), *loss()])
    write(folder, loss("u"), base=START + 10)
    report = replay(folder)
    assert doubts(report) == [("missing records", START + 10, None)]
    assert f"offsets {START + 2} to {START + 9} are missing" in report.doubts[0].summary
    assert marks(report) == {"t-0": {True}, None: {True}, "u-0": {False}}


def test_a_snapshot_with_an_unknown_record_is_not_compared(tmp_path: Path) -> None:
    folder = write(tmp_path, beginning())
    content = snapshot([*beginning(), encode_unknown(40, 0, "")])
    (folder / f"{START:020}-0000000001.checkpoint").write_bytes(content)
    report = replay(folder)
    assert doubts(report) == [("unknown record", START, ())]
    assert "is not compared" in report.doubts[0].summary
    assert "snapshots compared" not in report.figures
    for segment in folder.glob("*.log"):
        segment.unlink()
    assert doubts(replay(folder)) == [("unknown record", START + 1, None)], "what begins with it is not sure"


# --- dumps, and telling ---------------------------------------------------------------------------------


def test_every_kind_of_doubt_is_documented_and_in_the_schema() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "replay-reference.md").read_text()
    schema = json.loads((root / "traces" / "reports" / "report.schema.json").read_text())
    assert schema["$defs"]["doubt"]["properties"]["kind"]["enum"] == list(DOUBTS)
    for kind in DOUBTS:
        assert f"| `{kind}` | " in page


# --- transactions ---------------------------------------------------------------------------------------


BEGIN, END = together()
ABORT = encode("ABORT_TRANSACTION_RECORD", 0, {})


def test_the_records_of_an_unended_transaction_are_doubted(tmp_path: Path) -> None:
    report = replayed(tmp_path, BEGIN, *loss())
    assert doubts(report) == [("open transaction", START, None)]
    assert (report.unexplained, report.findings, report.explained) == ([], [], False)
    for end in (END, ABORT):
        assert doubts(replayed(tmp_path, BEGIN, *loss(), end)) == []
    report = replayed(tmp_path, BEGIN, *loss(), BEGIN, *loss("u"), END)
    assert doubts(report) == [("open transaction", START, None)]
    assert marks(report) == {"u-0": {False}}


@pytest.mark.parametrize("end", [END, ABORT])
def test_the_end_of_a_transaction_that_has_not_begun_is_reported(tmp_path: Path, end: bytes) -> None:
    report = replayed(tmp_path, end, *loss())
    first = report.unexplained[0]
    assert (first.position["offset"], first.partition) == (START, None)
    assert report.is_violated


# --- damage in the middle of a log --------------------------------------------------------------------


NO_VALUE = b"\x01\x04\x00"
"""A CONFIG_RECORD with its frame alone."""


def log(tmp_path: Path, found: bool = True) -> tuple[Path, int]:
    """A log with a finding, then damage, then another finding; and the position of the damage."""
    before = [*beginning(), *(loss() if found else [])]
    folder = write(tmp_path / "log", before)
    (segment,) = folder.glob("*.log")
    position = segment.stat().st_size
    write(folder, [*before, change(0, "u", isr=[0, 1]), *loss("u")])
    flip(segment, position + 70)
    return segment, position


def test_records_before_the_damage_are_replayed(tmp_path: Path) -> None:
    segment, position = log(tmp_path)
    report = replay(segment.parent)
    assert {f.partition for f in report.findings} == {"t-0"}
    assert report.is_violated
    (damage,) = report.damage
    assert damage.position == {"file": str(segment), "byte": position}
    assert damage.offset == START + 2
    assert damage.bytes_lost == segment.stat().st_size - position
    assert damage.segments_lost == 0
    assert "has a wrong checksum" in damage.message
    (line,) = [line for line in summary(report) if "damaged: " in line]
    assert (
        f"not replayed: everything from metadata offset {START + 2} on ({damage.bytes_lost} bytes of the file)"
        in line
    )


@pytest.mark.parametrize("found", [True, False])
def test_the_command_reports_results_and_damage_with_status_2(tmp_path: Path, found: bool) -> None:
    segment, _ = log(tmp_path, found)
    target = tmp_path / "result.json"
    result = run(segment.parent, "--json", target)
    assert result.status == 2
    assert ("leader_elected_cleanly" in result.output) == found
    assert "1 input damaged" in result.output
    (line,) = result.err.strip().splitlines()
    assert line.startswith(f"highwater: {segment}: byte ")
    (report,) = json.loads(target.read_text())
    assert len(report["damage"]) == 1
    assert bool(report["findings"]) == found


def test_segments_after_the_damage_are_lost(tmp_path: Path) -> None:
    segment, _ = log(tmp_path)
    write(segment.parent, loss("u"), base=START + 5)
    write(segment.parent, loss("u"), base=START + 7)
    (damage,) = replay(segment.parent).damage
    assert damage.segments_lost == 2
    assert any("and 2 segments after it" in line for line in summary(replay(segment.parent)))


def test_a_damaged_record_in_a_valid_batch_is_damage(tmp_path: Path) -> None:
    values = [*beginning(), *loss(), NO_VALUE, *loss("u")]
    folder = write(tmp_path / "log", values)
    (damage,) = replay(folder).damage
    assert (damage.offset, damage.segments_lost) == (START + 2, 0)
    assert damage.bytes_lost
    assert damage.bytes_lost < (folder / f"{0:020}.log").stat().st_size
    assert f"offset {START + 2}" in damage.message
    assert {f.partition for f in replay(folder).findings} == {"t-0"}


def test_a_damaged_dump_is_replayed_up_to_its_line(tmp_path: Path) -> None:
    values = [*beginning(), *loss(), *loss("u")]
    text = dump_of(b"".join(encode_batch(o, 1, 1000 + o, [v]) for o, v in enumerate(values)))
    lines = text.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith(f"| offset: {START + 2} "))
    lines[at] = lines[at].replace("payload", "pay\x00load")
    path = tmp_path / "dump.txt"
    path.write_text("".join(lines))
    report = replay(path)
    (damage,) = report.damage
    assert damage.position == {"file": str(path), "line": at + 1}
    assert damage.offset == START + 2
    assert {f.partition for f in report.findings} == {"t-0"}


def test_a_damaged_snapshot_is_not_compared(tmp_path: Path) -> None:
    folder = write(tmp_path, [*beginning(), *loss()])
    path = folder / f"{START:020}-0000000001.checkpoint"
    path.write_bytes(snapshot(beginning()))
    flip(path, -90)
    report = replay(folder)
    (damage,) = report.damage
    assert damage.position == {"file": str(path)}
    assert damage.offset == START
    assert "not compared" in damage.message
    assert "snapshots compared" not in report.figures
    assert {f.partition for f in report.findings} == {"t-0"}, "the log itself goes on"


def test_a_log_that_begins_with_damage_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path, beginning())
    (segment,) = folder.glob("*.log")
    flip(segment, 80)
    with pytest.raises(TraceError, match="byte 0: the batch has a wrong checksum"):
        replay(folder)
