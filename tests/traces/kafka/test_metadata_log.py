"""Metadata log directories: segment order, gaps, the start, skipped files, and hostile files."""

from __future__ import annotations

import contextlib
import gzip
import os
import struct
import sys
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater.traces.kafka.batches import CODECS, HEADER
from highwater.traces.kafka.metadata_log import Gap, MetadataLog, open_metadata_log, recognise
from highwater.traces.kafka.values import DamagedRecord, UnknownRecord, decode, encode
from highwater.traces.reading import TraceError
from tests.generation.batches import encode_batch
from tests.traces.kafka.made import TIME, change, dump_of, segment, snapshot

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


@pytest.mark.parametrize("content", [b"", b"hello\n" * 50, bytes(500), b"\x1f\x8b", b"Dumping x\n"])
def test_what_is_no_log(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert recognise(path) is None
    for where in (path, tmp_path):
        with pytest.raises(TraceError):
            list(open_metadata_log(where).batches())


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


@pytest.mark.parametrize(
    ("compression", "size"), [("none", 1), ("none", 5000), ("gzip", 100), ("zstd", 5000)]
)
def test_segments_without_a_control_record_are_recognised(
    tmp_path: Path, compression: str, size: int
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(encode_batch(70, 1, TIME, [change(i) for i in range(size)], compression=compression))
    assert recognise(path) == "metadata segment"
    assert len(offsets(open_metadata_log(path))) == size + 1


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


# --- random changes -------------------------------------------------------------------------------------------

SEEDS = [
    *(b"".join(segment(compression=codec)) for codec in CODECS),
    snapshot([change(1), change(2)]),
    dump_of(FIRST).encode(),
    dump_of(snapshot([change(1)]), "Snapshot end offset: 7, epoch: 2").encode(),
    b"\x1f\x8b\x08",
]
SYNTAX = [b"\n", b" ", b"9" * 20, b"baseOffset: ", *b'| { } [ , " : -1 payload:'.split()]
PIECES = st.sampled_from(SYNTAX) | st.binary(max_size=5) | st.binary(max_size=200)


def sealed(content: bytes) -> bytes:
    """The content with checksums that match its batches."""
    data, at = bytearray(content), 0
    while at + HEADER.size <= len(data):
        size = struct.unpack_from(">i", data, at + 8)[0]
        if not 49 <= size <= len(data) - at - 12:
            break
        struct.pack_into(">I", data, at + 17, crc32c(bytes(data[at + 21 : at + 12 + size])))
        at += 12 + size
    return bytes(data)


def read_all(path: Path) -> None:
    """Read whatever is in a file, which is either well-formed or a TraceError."""
    try:
        log = open_metadata_log(path)
        found = [item[1] for item in log.batches() if not isinstance(item, Gap)]
        for batch in (*found, *(batch for one in log.snapshots for batch in one.batches())):
            assert len(batch.values) == len(batch.offsets)
            assert len(batch.keys) == (len(batch.values) if batch.control else 0)
            for value in batch.values:
                if value is not None and not batch.control:
                    with contextlib.suppress(UnknownRecord, DamagedRecord):
                        assert decode(encode(*decode(value))) == decode(value)
    except TraceError as wrong:
        if not str(wrong).isprintable():
            pytest.fail(f"not printable: {wrong!r}")


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 12), PIECES), max_size=4),
    st.integers(0, 6000),
    st.integers(-1, 3000),
    st.booleans(),
)
def test_a_changed_file_is_read_or_a_trace_error(
    tmp_path: Path, content: bytes, changes: list[tuple[int, int, bytes]], end: int, packed: int, seals: bool
) -> None:
    data = bytearray(content)
    for at, gone, piece in changes:
        at %= len(data) + 1
        data[at : at + gone] = piece
    some = sealed(bytes(data[:end])) if seals else bytes(data[:end])
    if packed >= 0:
        data = bytearray(gzip.compress(some))
        if packed < len(data):
            data[packed] ^= 0x55
        some = bytes(data)
    for name in (log_name(0), snapshot_name(7, 2)):
        (tmp_path / name).write_bytes(some)
        read_all(tmp_path / name)
    read_all(tmp_path)
