"""Damage in the middle of a log: replay reports the results before it, and how much is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.metadata_log import Gap
from highwater.traces.metadata.replay import _gap_within
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from highwater.traces.reports.report import summary
from tests.command import Run, highwater
from tests.generation.batches import encode_batch
from tests.traces.kafka.made import dump_of, snapshot
from tests.traces.metadata.made_logs import beginning, change, flip, loss, write

START = len(beginning())
NO_VALUE = b"\x01\x04\x00"
"""A CONFIG_RECORD with its frame alone."""


def run(*arguments: str | Path) -> Run:
    return highwater("replay", *arguments)


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


def test_a_record_without_a_value_is_damage(tmp_path: Path) -> None:
    folder = write(tmp_path, beginning())
    (segment,) = folder.glob("*.log")
    segment.write_bytes(segment.read_bytes() + encode_batch(START, 1, 5000, [None]))
    (damage,) = replay(folder).damage
    assert damage.offset == START


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


@pytest.mark.parametrize(("length", "printed"), [(100, "X" * 100), (101, "X" * 99 + "…")])
def test_the_name_of_an_unknown_type_is_shortened(tmp_path: Path, length: int, printed: str) -> None:
    values = [*beginning(), change(0, isr=[0])]
    lines = dump_of(b"".join(encode_batch(o, 1, 1000 + o, [v]) for o, v in enumerate(values))).splitlines()
    shown = {"type": "X" * length, "version": 3, "data": {}}
    lines[-1] = f"{lines[-1].split(' payload: ')[0]} payload: {json.dumps(shown)}"
    (tmp_path / "dump.txt").write_text("\n".join(lines) + "\n")
    assert replay(tmp_path / "dump.txt").skipped == {f"{printed} version 3": 1}


@pytest.mark.parametrize(
    ("offsets", "missing"),
    [
        ([10, 11, 12, 13], None),
        ([10, 11, 13], (12, 13)),
        ([11, 12, 13], (10, 11)),
        ([10, 13], (11, 13)),
        ([10, 11], (12, 14)),
        ([], (10, 14)),
    ],
)
def test_the_first_gap_within_a_batch_is_found(offsets: list[int], missing: tuple[int, int] | None) -> None:
    """The batch has the offsets 10 to 13."""
    none: list[bytes | None] = [None] * len(offsets)
    batch = RecordBatch(70, 10, 13, 1, 0, False, offsets, none, [])
    assert _gap_within(Path("x"), batch) == (None if missing is None else Gap(Path("x"), 70, *missing))
