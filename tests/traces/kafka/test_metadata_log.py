"""Metadata log directories and dumps: segment order, gaps, the start, skipped files, hostile files and lines."""

from __future__ import annotations

import gzip
import os
import re
import sys
import tracemalloc
from pathlib import Path

import pytest

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.dumps import read_dump
from highwater.traces.kafka.metadata_log import Gap, MetadataLog, open_metadata_log, recognise
from highwater.traces.kafka.values import UnknownRecord, decode, encode
from highwater.traces.reading import Source, TraceError
from tests.generation.batches import encode_batch
from tests.traces.kafka.made import TIME, batches_of, change, dump_of, segment, snapshot

FIRST, SECOND = b"".join(segment()), b"".join(segment(base=8, epoch=2))
"""Offsets 0 to 7 and 8 to 15."""


def log_name(offset: int) -> str:
    return f"{offset:020}.log"


def snapshot_name(offset: int, epoch: int = 1) -> str:
    return f"{offset:020}-{epoch:010}.checkpoint"


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def offsets(log: MetadataLog) -> list[int | Gap]:
    """The offsets of all records, and each gap in its place."""
    found: list[int | Gap] = []
    for item in log.batches():
        found += [item] if isinstance(item, Gap) else item[1].offsets
    return found


def test_segments_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    # The order follows the content, not the names.
    files = {"b.bin": FIRST, "a.bin": gzip.compress(SECOND), log_name(16): b"", "quorum-state": b'{"x":1}'}
    log = open_metadata_log(write(tmp_path, files))
    assert offsets(log) == list(range(16))
    assert [s.path.name for s in log.segments] == ["b.bin", "a.bin"]
    assert log.bytes_total == log.bytes_read == len(FIRST) + len(files["a.bin"])
    assert (log.kind, log.start, log.notes) == ("metadata log", None, [])
    assert offsets(log) == list(range(16))


def test_the_log_directory_around_it_will_do(tmp_path: Path) -> None:
    (tmp_path / "__cluster_metadata-0").mkdir()
    write(tmp_path / "__cluster_metadata-0", {log_name(0): FIRST})
    assert offsets(open_metadata_log(tmp_path)) == list(range(8))


def test_dumps_of_segments_and_snapshots(tmp_path: Path) -> None:
    files = {
        "x.txt": dump_of(SECOND, "Log starting offset: 8").encode(),
        "y.gz": gzip.compress(dump_of(snapshot([change(1)], 1), "Snapshot end offset: 8, epoch: 1").encode()),
    }
    log = open_metadata_log(write(tmp_path, files))
    assert log.kind == "metadata log dump"
    assert log.start is not None
    assert (log.start.path.name, log.start.end_offset, log.start.epoch) == ("y.gz", 8, 1)
    assert offsets(log) == list(range(8, 16))
    assert [v for b in log.start.batches() for v in b.values if not b.control] == [change(1)]
    write(tmp_path, {log_name(0): FIRST})
    log = open_metadata_log(tmp_path)
    assert (log.kind, len(log.snapshots), offsets(log)) == ("metadata log", 0, list(range(8)))
    assert "skipped 2 dumps" in log.notes[0]


def test_a_log_without_its_beginning_starts_at_a_snapshot(tmp_path: Path) -> None:
    write(
        tmp_path,
        {log_name(8): SECOND, snapshot_name(12, 2): snapshot([], 2), snapshot_name(20, 2): snapshot([], 2)},
    )
    log = open_metadata_log(tmp_path)
    # Of the batch 10 to 12 only offset 12 is read; the snapshot has the rest.
    assert log.start is not None
    assert (log.start.end_offset, log.start.epoch) == (12, 2)
    assert offsets(log) == [12, 13, 14, 15]
    first = next(log.batches())
    assert not isinstance(first, Gap)
    assert (first[1].base_offset, first[1].last_offset, len(first[1].values)) == (12, 12, 1)
    assert [s.end_offset for s in log.snapshots] == [12, 20]
    write(tmp_path, {snapshot_name(8): snapshot([])})
    log = open_metadata_log(tmp_path)
    assert log.start is not None
    assert log.start.end_offset == 8
    assert offsets(log) == list(range(8, 16))


def test_gaps_and_overlaps(tmp_path: Path) -> None:
    path = tmp_path / log_name(8)
    write(tmp_path, {path.name: SECOND})
    assert offsets(open_metadata_log(tmp_path)) == [Gap(path, 0, 0, 8), *range(8, 16)]
    write(tmp_path, {snapshot_name(5): snapshot([])})
    assert offsets(open_metadata_log(tmp_path)) == [Gap(path, 0, 5, 8), *range(8, 16)]
    third = tmp_path / log_name(18)
    write(tmp_path, {log_name(0): FIRST, third.name: b"".join(segment([1], base=18, epoch=2))})
    assert offsets(open_metadata_log(tmp_path)) == [*range(16), Gap(third, 0, 16, 18), 18, 19]
    write(tmp_path, {third.name: b"".join(segment([1], base=14, epoch=2))})
    assert offsets(open_metadata_log(tmp_path)) == [*range(16), Gap(third, 0, 16, 14), 14, 15]
    parts = segment()
    write(tmp_path, {log_name(0): parts[0] + parts[1] + parts[3]})
    assert Gap(tmp_path / log_name(0), len(parts[0] + parts[1]), 2, 5) in offsets(open_metadata_log(tmp_path))


def test_a_torn_end_is_a_note_and_in_the_middle_a_gap_too(tmp_path: Path) -> None:
    log = open_metadata_log(write(tmp_path, {log_name(0): FIRST, log_name(8): SECOND[:-1]}))
    assert offsets(log) == list(range(14))
    assert len(log.notes) == 1
    assert f"{log_name(8)}: byte " in log.notes[0]
    offsets(log)
    assert len(log.notes) == 1
    log = open_metadata_log(write(tmp_path, {log_name(0): FIRST[:-1], log_name(8): SECOND}))
    assert offsets(log) == [*range(6), Gap(tmp_path / log_name(8), 0, 6, 8), *range(8, 16)]
    damaged = FIRST[:-2] + b"\xff" + FIRST[-1:]
    with pytest.raises(TraceError, match="checksum"):
        offsets(open_metadata_log(write(tmp_path, {log_name(0): damaged})))


def test_what_is_left_out(tmp_path: Path) -> None:
    files = {
        log_name(0): FIRST,
        "copy.bin": FIRST[: len(FIRST) // 2],
        log_name(8) + ".deleted": SECOND,
        snapshot_name(5) + ".part": snapshot([]),
        log_name(99): b"something else",
        "bootstrap.checkpoint": snapshot([change(0)]),
        "00000000000000000000.index": bytes(100),
    }
    log = open_metadata_log(write(tmp_path, files))
    assert offsets(log) == list(range(8))
    assert log.snapshots == []
    assert sorted(note.split(": ", 1)[1] for note in log.notes) == [
        f"skipped: {log_name(0)} also begins at offset 0",
        "skipped: a snapshot without its end offset in its name",
        "skipped: not a metadata log or snapshot",
    ]


def test_snapshots_alone(tmp_path: Path) -> None:
    write(tmp_path, {snapshot_name(9): snapshot([]), snapshot_name(5): snapshot([change(1)])})
    log = open_metadata_log(tmp_path)
    assert [s.end_offset for s in log.snapshots] == [5, 9]
    assert log.start == log.snapshots[1]
    assert offsets(log) == []
    assert offsets(open_metadata_log(tmp_path / snapshot_name(5))) == []


def test_ordinary_topics_are_not_recognised(tmp_path: Path) -> None:
    path = tmp_path / "topic.log"
    for values in ([b"\x00\x00\x00\x00\x05avro"], [b"{}"], [b"\x01\xff\xff\x03"], [None], [b""], []):
        path.write_bytes(encode_batch(0, 1, TIME, values))
        assert recognise(path) is None
    # Metadata records never have a key.
    for key in (b"k", b"\x08" + encode("NO_OP_RECORD", 0, {})):
        path.write_bytes(encode_batch(0, 1, TIME, [encode("NO_OP_RECORD", 0, {})], keys=[key]))
        assert recognise(path) is None
    path.write_bytes(encode_batch(0, 1, TIME, [b"\0\0\0\0\0\0"], control=True, keys=[b"\0\0\0\1"]))
    assert recognise(path) is None


def test_what_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for do in (recognise, open_metadata_log):
        with pytest.raises(TraceError, match="cannot be read"):
            do(missing)
    with pytest.raises(TraceError, match="not a metadata log"):
        open_metadata_log(tmp_path)
    with pytest.raises(TraceError, match="cannot be read"):
        open_metadata_log(tmp_path / ("x" * 5000))
    (tmp_path / "__cluster_metadata-0").symlink_to(tmp_path)
    with pytest.raises(TraceError, match="not a metadata log"):
        open_metadata_log(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo") or sys.platform == "win32", reason="needs named pipes")
def test_a_pipe_in_a_directory_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / log_name(8))
    assert offsets(open_metadata_log(write(tmp_path, {log_name(0): FIRST}))) == list(range(8))


# --- dumps --------------------------------------------------------------------------------------------


LOG = b"".join(segment())
TEXT = dump_of(LOG)
LINES = TEXT.splitlines(keepends=True)


def read(
    path: Path, content: str | bytes, notes: list[str] | None = None, *, last: bool = True
) -> list[RecordBatch]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with Source(path) as source:
        return list(read_dump(source, notes, last=last))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dump.txt"


def error_of(path: Path, content: str | bytes) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(path, content)
    assert str(caught.value).isprintable()
    assert str(path) in str(caught.value)
    return caught.value


def test_a_dump_gives_the_batches_of_the_file(path: Path) -> None:
    for content in (TEXT, gzip.compress(TEXT.encode()), TEXT.replace("\n", "\r\n")):
        found = read(path, content)
        for a, b in zip(found, batches_of(LOG), strict=True):
            values: list[bytes | None] = b.values if not b.control else [None]
            assert a._replace(position=0) == b._replace(position=0, values=values)
    assert [b.position for b in found] == [3, 5, 7, 11, 13]


def test_a_dump_of_4_2_shows_a_leader_change_with_its_fields(path: Path) -> None:
    found = read(path, dump_of(LOG, shows_leader_change=True))
    assert recognise(path) == "metadata dump"
    assert [b.values for b in found] == [b.values for b in batches_of(LOG)]
    assert found[0].control


def test_record_lines_without_their_metadata(path: Path) -> None:
    """The format of ``kafka-dump-log --skip-record-metadata``."""
    short = [
        "| " + line[line.index("payload:") :] if line.startswith("| ") and "payload:" in line else line
        for line in LINES
    ]
    found, whole = read(path, "".join(short)), read(path, TEXT)
    assert [(b.values, list(b.offsets)) for b in found] == [(b.values, list(b.offsets)) for b in whole]


def test_records_that_are_not_known(path: Path) -> None:
    text = TEXT.replace(
        '"type":"PARTITION_CHANGE_RECORD","version":2', '"type":"PARTITION_CHANGE_RECORD","version":7', 1
    )
    text = text.replace(
        '"type":"PARTITION_CHANGE_RECORD","version":2', '"type":"COMING_RECORD","version":1', 1
    )
    start, _, rest = text.partition('payload: {"type":"PARTITION_CHANGE_RECORD","version":2')
    text = start + "payload: Error at 3, skipping. Unknown metadata id 99\n" + rest.partition("\n")[2]
    notes: list[str] = []
    found = [v for b in read(path, text, notes) for v in b.values if v is not None]
    unknown = []
    for value in found:
        try:
            decode(value)
        except UnknownRecord as wrong:
            unknown.append((wrong.key, wrong.version, wrong.type))
    assert unknown == [
        (None, 1, "COMING_RECORD"),
        (None, 0, "Error at 3, skipping. Unknown metadata id 99"),
    ]
    assert decode(found[0]) == decode(change(1))._replace(version=7), (
        "of a known type the known fields are read"
    )
    assert len(found) == 7
    assert notes == []


def test_fields_that_are_not_known_are_counted(path: Path) -> None:
    notes: list[str] = []
    text = TEXT.replace('"isr":', '"later":5,"isr":')
    assert [b.values for b in read(path, text, notes)] == [b.values for b in read(path, TEXT)]
    assert len(notes) == 1
    assert "7 records have unknown fields" in notes[0]


def test_a_dump_that_breaks_off(path: Path) -> None:
    """A dump cut anywhere gives its complete batches, and a note if one is incomplete."""
    whole = read(path, TEXT)
    start = TEXT.index("\n", TEXT.index("baseOffset: 5")) + 1
    for end in range(start, len(TEXT), 11):
        notes: list[str] = []
        found = read(path, TEXT[:end], notes)
        assert found == whole[: len(found)]
        assert len(notes) <= 1
        if TEXT[:end].count("baseOffset: ") > len(found):
            assert notes, end


def test_few_records_over_many_offsets_take_little_memory(path: Path) -> None:
    """Compaction leaves batches with few records and a far ``lastOffset``."""
    batch = TEXT[TEXT.rindex("baseOffset: ") :]
    far = re.sub(r"lastOffset: \d+", "lastOffset: 20000000", batch)
    tracemalloc.start()
    try:
        *_, found = read(path, TEXT.replace(batch, far))
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    assert (found.last_offset, len(found.offsets)) == (20_000_000, len(found.values))


def test_a_batch_that_is_not_valid(path: Path) -> None:
    broken = "".join(LINES).replace("isvalid: true", "isvalid: false", 1)
    assert error_of(path, broken).line == 3
    at = TEXT.rindex("isvalid: true")
    broken = TEXT[:at] + "isvalid: false" + TEXT[at + len("isvalid: true") :]
    notes: list[str] = []
    assert len(read(path, broken, notes)) == 4
    assert "not valid" in notes[0]
    with pytest.raises(TraceError, match="checksum"):
        read(path, broken, last=False)


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [
        ("magic: 2", "magic: 1", 3, "magic"),
        ("count: 1 ", "count: 2 ", 3, "count"),
        ("count: 3 ", "count: 2 ", 10, None),
        ("count: 3 ", "count: 99999999999999 ", 7, "count"),
        ("baseOffset: 2 lastOffset: 4", "baseOffset: 1" + "0" * 5000 + " lastOffset: 4", 7, "baseOffset"),
        ("partitionLeaderEpoch: 1", "partitionLeaderEpoch: x", 3, "partitionLeaderEpoch"),
        ("partitionLeaderEpoch: 1", "", 3, "partitionLeaderEpoch"),
        ("isControl: true", "isControl: 1", 3, "isControl"),
        ("offset: 3 ", "offset: 2 ", 9, "offset"),
        ("offset: 3 ", "offset: 9 ", 9, "offset"),
        ("lastOffset: 4", "lastOffset: 9223372036854775807", 7, "count"),
        ('"isr":[1]', '"isr":[true]', 10, "payload.data.isr[0]"),
        ('"partitionId":1', '"partition":1', 6, "payload.data.partitionId"),
        ('"version":2', '"version":-1', 6, "payload.version"),
        ('"version":2', '"version":true', 6, "payload.version"),
        ('"type":"PARTITION_CHANGE_RECORD"', '"type":5', 6, "payload.type"),
        ('"data":{', '"data":[{', 6, None),
        ("payload: {", "payload: x{", 6, "payload"),
        ("payload: {", "key: {", 6, None),
        ("controlType: LEADER_CHANGE(2)", "controlType: LEADER_CHANGE", 4, None),
    ],
)
def test_bad_lines_are_named(path: Path, old: str, new: str, line: int, field: str | None) -> None:
    assert old in TEXT
    wrong = error_of(path, TEXT.replace(old, new, 1))
    if old == '"isr":[1]':
        line = next(i for i, text in enumerate(LINES, start=1) if old in text)
    assert wrong.line == line
    assert field is None or wrong.field == field


@pytest.mark.parametrize(
    "line", ["baseOffset: {}", "| offset: 1 {}", "| payload: {}", "baseOffset: 0 lastOffset: 0 count: {}"]
)
@pytest.mark.parametrize(
    "text", ["a" * 3_000_000, "a: " * 1_000_000, " isControl: true" * 200_000, "[" * 3_000_000]
)
def test_long_lines_take_no_long_time(path: Path, line: str, text: str) -> None:
    """A quadratic search would not end within this suite's time."""
    bad = line.format(text) + "\n"
    error_of(path, "".join(LINES[:5]) + bad + LINES[5])
    path.write_text(bad)
    assert recognise(path) is None


def test_dumps_are_recognised(path: Path) -> None:
    path.write_text(TEXT)
    assert recognise(path) == "metadata dump"
    path.write_text(dump_of(snapshot([change(1)]), "Snapshot end offset: 7, epoch: 2"))
    assert recognise(path) == "snapshot dump"
    # A segment without a control record at its start.
    path.write_bytes(gzip.compress(dump_of(encode_batch(9, 1, TIME, [change(1)])).encode()))
    assert recognise(path) == "metadata dump"
    # The dump of an ordinary topic.
    path.write_text(
        TEXT.replace('payload: {"type":"PARTITION_CHANGE_RECORD"', 'payload: {"kind":"x"').replace(
            "LEADER_CHANGE", "ABORT"
        )
    )
    assert recognise(path) is None
    path.write_text("Dumping 0.log\nLog starting offset: 0\n")
    assert recognise(path) is None
