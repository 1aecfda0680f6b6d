"""Record batches: compression, truncated and damaged files, limits and decompression bombs."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc

import pytest
from crc32c import crc32c

from highwater.traces.kafka.batches import CODECS, HEADER, MAX_BATCH, RecordBatch, decompress
from highwater.traces.reading import TraceError
from tests.generation.batches import compress, encode_batch
from tests.traces.kafka.made import TIME, batches_of, change, leader_change, segment


def with_header(content: bytes, **fields: int) -> bytes:
    """The batch with changed header fields and a matching checksum."""
    forms = {
        "length": (">i", 8),
        "magic": (">b", 16),
        "attributes": (">h", 21),
        "delta": (">i", 23),
        "greatest": (">q", 35),
        "count": (">i", 57),
    }
    changed = bytearray(content)
    for name, value in fields.items():
        form, at = forms[name]
        struct.pack_into(form, changed, at, value)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def raw_batch(records: bytes, count: int, **fields: int) -> bytes:
    empty = encode_batch(0, 1, TIME, [])
    assert len(empty) == HEADER.size
    return with_header(
        empty + records, length=len(empty) - 12 + len(records), count=count, **{"delta": count - 1, **fields}
    )


def error_of(content: bytes, *, last: bool = True) -> TraceError:
    notes: list[str] = []
    with pytest.raises(TraceError) as caught:
        batches_of(content, notes, last=last)
    assert "made.log: byte " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not notes
    return caught.value


def test_a_batch_by_its_bytes() -> None:
    """Two records by hand; the second one has a key, a later timestamp and a header."""
    records = bytes.fromhex("0e 00 00 00 01 02 61 00") + bytes.fromhex(
        "1a 00 14 02 02 6b 04 6262 02 02 68 02 76"
    )
    (batch,) = batches_of(raw_batch(records, 2, greatest=TIME + 10))
    assert batch == RecordBatch(0, 0, 1, 1, TIME + 10, False, range(2), [b"a", b"bb"], ())
    (batch,) = batches_of(raw_batch(records, 2, greatest=TIME + 10, attributes=0x20))
    assert batch.control
    assert batch.keys == [None, b"k"]
    # Compaction removed offset 1; the batch still ends at 2.
    (batch,) = batches_of(raw_batch(records.replace(b"\x14\x02", b"\x14\x04"), 2, delta=2))
    assert list(batch.offsets) == [0, 2]
    assert batch.last_offset == 2


@pytest.mark.parametrize("compression", CODECS)
def test_batches_are_read_as_they_were_written(compression: str) -> None:
    values: list[list[bytes | None]] = [[change(i)] for i in range(3)]
    values += [
        [change(i) for i in range(200)],
        [b"", None, b"x" * 63, b"y" * 64],
    ]
    values += [[b"z" * 9000, b""], [b"v" * (1 << 21)], [b"w"] * 9000]
    content, offset = b"", 5
    for some in values:
        content += encode_batch(offset, 3, TIME + offset, some, compression=compression)
        offset += len(some)
    found = batches_of(content)
    assert [b.values for b in found] == values
    position, expected = 0, 5
    for b, some in zip(found, values, strict=True):
        assert (b.position, b.base_offset, b.last_offset) == (position, expected, expected + len(some) - 1)
        assert list(b.offsets) == list(range(expected, expected + len(some)))
        assert (b.leader_epoch, b.timestamp, b.control, tuple(b.keys)) == (3, TIME + expected, False, ())
        position += struct.unpack_from(">i", content, position + 8)[0] + 12
        expected += len(some)


# --- truncated files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", [0, 1, 70, 5000])
def test_a_torn_batch_at_every_byte(padding: int) -> None:
    *before, torn = segment()
    whole = b"".join(before)
    good = batches_of(whole)
    # With zero padding, missing zero bytes at the end do not matter.
    needed = len(torn.rstrip(b"\0")) if padding else len(torn)
    for end in range(len(torn)):
        notes: list[str] = []
        found = batches_of(whole + torn[:end] + bytes(padding), notes)
        if padding and end >= needed and padding >= len(torn) - end:
            assert len(found) == len(good) + 1
            continue
        assert found == good
        # A cut within the leading zeros of the base offset leaves no trace, so there is no note.
        assert len(notes) == (1 if torn[:end].strip(b"\0") else 0), (end, notes)
        assert all(f"byte {len(whole)}: " in note for note in notes)


def test_a_damaged_last_batch_is_torn_in_the_last_file_only() -> None:
    *before, torn = segment()
    content = b"".join(before)
    damaged = content + torn[:-3] + b"\xff" + torn[-2:]
    for zeros in (0, 100):
        notes: list[str] = []
        assert batches_of(damaged + bytes(zeros), notes) == batches_of(content)
        assert "checksum" in notes[0]
        assert "checksum" in error_of(damaged + bytes(zeros), last=False).message
    assert "checksum" in error_of(damaged + leader_change(50)).message
    notes = []
    assert batches_of(content + torn[:-1], notes, last=False) == batches_of(content)
    assert len(notes) == 1


def test_a_flipped_byte_anywhere_shows() -> None:
    """The checksum does not cover base offsets and leader epochs; other checks find most changes there."""
    parts = segment()
    content = b"".join(parts)
    good = batches_of(content)
    ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
    unseen = 0
    for at in range(len(content)):
        number = next(i for i, end in enumerate(ends) if at < end)
        within = at - (ends[number - 1] if number else 0)
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[at] ^= flip
            notes: list[str] = []
            try:
                found = batches_of(bytes(damaged), notes)
            except TraceError:
                continue
            if notes:
                # Only the last batch may be missing.
                assert number == len(parts) - 1
                assert found == good[:-1]
            elif within < 8:
                assert found[number].base_offset != good[number].base_offset
            else:
                # A larger epoch in the last batch, or a smaller one in the first, is valid.
                assert 12 <= within < 16
                assert number in (0, len(parts) - 1)
                unseen += 1
    assert unseen <= 8 * 3


def test_a_damaged_length_in_the_middle_is_not_taken_for_the_end() -> None:
    parts = segment()
    content = bytearray(b"".join(parts))
    struct.pack_into(">i", content, len(parts[0]) + 8, 100_000)
    assert "another one begins" in error_of(bytes(content)).message


# --- batches that no broker writes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change_of", "message"),
    [
        ({"magic": 1}, "message format 1"),
        ({"magic": 3}, "message format 3"),
        ({"length": 10}, "a batch of 10 bytes"),
        ({"length": -1}, "a batch of -1 bytes"),
        ({"length": (1 << 26) + 1}, "the limit is"),
        ({"length": (1 << 31) - 1}, "the limit is"),
        ({"attributes": 5}, "compression of type 5"),
        ({"attributes": 4}, "zstd"),
        ({"attributes": 1}, "gzip"),
        ({"attributes": 2}, "snappy"),
        ({"attributes": 3}, "lz4"),
        ({"count": -1}, "-1 records"),
        ({"count": 3}, "3 records"),
        ({"count": 1}, "after the last record"),
        ({"count": (1 << 31) - 1, "delta": (1 << 31) - 2}, "records from offset"),
        ({"count": 1 << 20, "delta": (1 << 31) - 2}, "within a record"),
        ({"delta": -1}, "records from offset"),
        ({"delta": 0}, "records from offset"),
    ],
)
def test_headers_that_cannot_be(change_of: dict[str, int], message: str) -> None:
    content = with_header(encode_batch(0, 1, TIME, [b"abc", b"d"]), **change_of)
    assert message in error_of(content + leader_change(2)).message


@pytest.mark.parametrize(
    "record",
    [
        "0e 00 00 00 01 04 61 00",  # a value that is longer than the record
        "0e 00 00 00 01 00 61 00",  # a value that is shorter
        "0e 00 00 02 01 02 61 00",  # another offset
        "0e 00 00 01 01 02 61 00",  # a negative offset
        "0e 00 00 00 01 02 61 02",  # a header that is not there
        "0e 00 00 00 01 02 61 01",  # -1 headers
        "10 00 00 00 01 02 61 00",  # a record that is longer than the batch
        "01 00 00 00 01 02 61 00",  # a negative length
        "ff ff ff ff ff ff ff ff ff ff ff 01",  # an endless varint
        "0e 00 00 00 01 fe ff ff ff 0f 61 00",
        "",
    ],
)
def test_records_that_cannot_be(record: str) -> None:
    error_of(raw_batch(bytes.fromhex(record), 1) + leader_change(1))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_is_an_error_in_little_memory(codec: str) -> None:
    bomb = compress(codec, bytes(160 << 20))
    assert len(bomb) < 10 << 20
    with pytest.raises(ValueError, match=r"larger|more than"):
        decompress(codec, bomb, 1 << 20)
    content = raw_batch(bomb, 5, attributes=CODECS.index(codec))
    tracemalloc.start()
    try:
        error_of(content)
        # The buffers of the library and of Python each have the limit's size.
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_BATCH + len(content) * 4 + (1 << 22)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS[1:])
def test_compressed_data_that_is_cut_off_or_changed(codec: str) -> None:
    good = compress(codec, b"some records " * 20)
    for at in range(len(good)):
        for data in (good[:at], good[:at] + bytes((good[at] ^ 255,)) + good[at + 1 :]):
            with contextlib.suppress(ValueError):
                assert len(decompress(codec, data, 1000)) <= 1000


def test_much_that_could_be_a_batch_behind_a_torn_one() -> None:
    """Every position looks like a batch header; the reader examines a bounded number of bytes."""
    head = struct.pack(">qiibI", 1, 1 << 20, 1, 2, 0)
    torn = struct.pack(">qiibI", 1, 1 << 25, 1, 2, 0) + bytes(44) + head * 100_000 + bytes(1 << 20)
    notes: list[str] = []
    assert len(batches_of(leader_change() + torn, notes)) == 1
    assert "ends within a batch" in notes[0]
