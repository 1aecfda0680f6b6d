"""Reads the record batches of segments and snapshots, and decompresses them, in bounded memory."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import cramjam
from crc32c import crc32c

from highwater.traces.kafka.codec import put_varint
from highwater.traces.reading import TraceError, readable

MAX_BATCH = 1 << 26
"""The largest record batch that is read, in bytes, compressed or not. Kafka's own limit for the log is 8 MiB."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the compression types, by the number in the attributes of a batch."""
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")
_XERIAL_BLOCK = 1 << 15


def decompress(codec: str, data: bytes, limit: int = MAX_BATCH) -> bytes:
    """Decompress data. Raises ValueError if the data is damaged, or decompresses to more than ``limit`` bytes.

    The decoders write into a buffer of at most the limit's size, so a small input cannot expand beyond it.
    """
    try:
        if codec == "gzip":
            return _gunzip(data, limit)
        if codec == "snappy":
            return _unsnappy(data, limit)
        return _into(cramjam.lz4 if codec == "lz4" else cramjam.zstd, data, limit)
    except (cramjam.DecompressionError, zlib.error, struct.error) as wrong:
        raise ValueError(f"{codec} data that is damaged or larger than {limit} bytes: {wrong}") from None


def _gunzip(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    found = stream.decompress(data, limit + 1)
    if len(found) > limit:
        raise ValueError(f"more than {limit} bytes in a compressed batch")
    if not stream.eof:
        raise ValueError("gzip data that is cut off")
    return found


def _into(module: object, data: bytes, limit: int) -> bytes:
    """Decompress into a buffer of an estimated size and, if it is too small, into one of ``limit`` bytes."""
    if not data:
        raise ValueError("no compressed data")
    room = min(limit, max(1 << 16, 16 * len(data)))
    while True:
        out = bytearray(room)
        try:
            size: int = module.decompress_into(data, out)  # type: ignore[attr-defined]
        except cramjam.DecompressionError:
            if room == limit:
                raise
            room = limit
        else:
            return bytes(memoryview(out)[:size])


def _unsnappy(data: bytes, limit: int) -> bytes:
    """Decompress raw snappy, or the framing of snappy-java: a header, then blocks with their lengths."""
    if not data.startswith(_XERIAL):
        return _unsnappy_block(data, limit)
    at, total, blocks = _XERIAL_HEADER.size, 0, []
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if not 0 < size <= len(data) - at:
            raise ValueError("a snappy block that is longer than the data")
        blocks.append(_unsnappy_block(data[at : at + size], limit - total))
        total += len(blocks[-1])
        at += size
    return b"".join(blocks)


def _unsnappy_block(data: bytes, limit: int) -> bytes:
    if not data:
        raise ValueError("no compressed data")
    size: int = cramjam.snappy.decompress_raw_len(data)
    if size > limit:
        raise ValueError(f"more than {limit} bytes in a compressed batch")
    return bytes(cramjam.snappy.decompress_raw(data))


# Record batches of a log segment or a snapshot, read one at a time in bounded memory.
#
# Format: Kafka's message format 2 (``magic`` 2). The header's checksum is CRC-32C over everything after it.

CHUNK = 1 << 21
HEADER = struct.Struct(">qiibIhi8xq14xi")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, (first timestamp: skipped), greatest
timestamp, (producer: skipped), number of records."""
PREFIX = 12
"""The bytes of a header that its length field does not count: base offset and length."""
MAGIC_AT = 16
CHECKED = 21
"""The position in a batch at which the part covered by its checksum begins."""
LEAST = HEADER.size - PREFIX
MAGIC = 2
COMPRESSION, CONTROL = 0x07, 0x20
MAX_RECORDS = 1 << 20
"""A batch with more records is refused: even with the smallest records, it exceeds Kafka's limit of 8 MiB."""
SEARCHED = 1 << 28
"""The limit of a search for another batch in a torn one: the bytes checksummed, plus 1000 for each candidate."""

_FIRST = HEADER.size - CHECKED
_new = tuple.__new__


class RecordBatch(NamedTuple):
    """A record batch of a log.

    ``position`` is the position of its first byte in the file, or its line number in a dump. ``timestamp`` is the
    greatest timestamp of a record, in ms since the epoch. ``offsets`` has each record's offset: a range unless records
    were removed. ``keys`` is empty except in a control batch.
    """

    position: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    timestamp: int
    control: bool
    offsets: Sequence[int]
    values: list[bytes | None]
    keys: Sequence[bytes | None]


class Readable(Protocol):
    """A source of bytes: a binary file, or a decompressed one."""

    def read(self, size: int, /) -> bytes:
        """Read at most ``size`` bytes; empty at the end."""


def _record_prefixes() -> list[bytes]:
    """For each record number, the bytes between the two lengths of a record in the usual form.

    The two lengths are those of the record and of its value. A record in the usual form has no attributes, no
    key, and the batch's first timestamp; its offset is the batch's first offset plus its number.
    """
    found = []
    for i in range(1 << 13):
        prefix = bytearray(2)
        put_varint(prefix, 2 * i)
        found.append(bytes(prefix) + b"\x01")
    return found


_PREFIXES = _record_prefixes()


class _Records(NamedTuple):
    values: list[bytes | None]
    keys: list[bytes | None]
    offset_deltas: list[int]


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint of at most ten bytes; returns the value and the position after it."""
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def _field(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """Read a length-prefixed field; returns the field and the position after it. A negative length means None."""
    size, at = _varint(body, at)
    if size < 0:
        return None, at
    if size > end - at:
        raise ValueError("a field that is longer than its record")
    return body[at : at + size], at + size


def _read_any(body: bytes, at: int, count: int) -> _Records:
    """Read ``count`` records of any form. Raises ValueError or IndexError on damage."""
    found = _Records([], [], [])
    for _ in range(count):
        size, at = _varint(body, at)
        end = at + size
        if size < 6 or end > len(body):
            raise ValueError("a record that is longer than its batch")
        _, at = _varint(body, at + 1)  # the growth of the timestamp
        offset_delta, at = _varint(body, at)
        key, at = _field(body, at, end)
        value, at = _field(body, at, end)
        headers, at = _varint(body, at)
        if not 0 <= headers <= end - at:
            raise ValueError("more headers than the record has bytes")
        for _ in range(headers):
            name, at = _field(body, at, end)
            if name is None:
                raise ValueError("a header without a name")
            _, at = _field(body, at, end)
        if at != end:
            raise ValueError("a record with a wrong length")
        found.values.append(value)
        found.keys.append(key)
        found.offset_deltas.append(offset_delta)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes after the last record")
    return found


def _read_usual(body: bytes, at: int, count: int) -> list[bytes | None] | None:
    """The values of records of the usual form; None if one record has another form."""
    values: list[bytes | None] = []
    append = values.append
    try:
        for prefix in _PREFIXES[:count] if count > 1 else _ONE:
            size = body[at]
            if size < 128:
                at += 1
                end = at + (size >> 1)
            else:
                more = body[at + 1]
                if more > 127:
                    return None
                at += 2
                end = at + ((size & 127 | more << 7) >> 1)
            if not body.startswith(prefix, at):
                return None
            at += len(prefix)
            size = body[at]
            if size < 128:
                at += 1
                if size & 1 or at + (size >> 1) + 1 != end:
                    return None
            else:
                more = body[at + 1]
                at += 2
                if size & 1 or more > 127 or at + ((size & 127 | more << 7) >> 1) + 1 != end:
                    return None
            if body[end - 1]:
                return None
            append(body[at : end - 1])
            at = end
    except IndexError:
        return None
    return values if at == len(body) and len(values) == count else None


_ONE = _PREFIXES[:1]


def read_batches(
    path: Path,
    file: Readable,
    notes: list[str] | None = None,
    *,
    last: bool = True,
) -> Iterator[RecordBatch]:
    """Read the batches of a segment or a snapshot, from its beginning.

    ``last`` is true if no segment follows. After a crash, a file can end within a batch, and the last batch of the
    last file can be damaged. In both cases the iterator ends, and adds a line to ``notes``. Zeros at the end are
    preallocated space. Raises TraceError with the position for any other damage.
    """
    return _Segment(path, file, [] if notes is None else notes, last).batches()


class _Segment:
    def __init__(self, path: Path, file: Readable, notes: list[str], last: bool) -> None:
        self.path, self.file, self.notes, self.last = path, file, notes, last
        self.data = b""
        self.start = 0
        """The position of ``data`` in the file."""

    def batches(self) -> Iterator[RecordBatch]:
        unpack, new = HEADER.unpack_from, _new
        at, epoch_before = 0, -1
        while True:
            data = self.data
            left = len(data) - at
            if left < HEADER.size:
                at = self._more(at, HEADER.size)
                data = self.data
                if len(data) - at < HEADER.size:
                    self._end(at)
                    return
            base, length, epoch, magic, crc, attributes, delta, timestamp, count = unpack(data, at)
            end = at + PREFIX + length
            if magic != MAGIC or not LEAST <= length <= MAX_BATCH:
                self._bad_header(at, length, magic)
                return
            if end > len(data):
                at = self._more(at, PREFIX + length)
                data, end = self.data, at + PREFIX + length
                if end > len(data):
                    self._torn(at, length)
                    return
            body = data[at + CHECKED : end]
            if crc32c(body) != crc:
                self._bad_checksum(at, end)
                return
            position = self.start + at
            # The checksum does not cover these two fields.
            if base < 0 or epoch < epoch_before:
                raise self._error(position, f"offset {base}, leader epoch {epoch} after {epoch_before}")
            epoch_before = epoch
            if count == delta + 1 and not attributes & (COMPRESSION | CONTROL):
                values = _read_usual(body, _FIRST, count)
                if values is not None:
                    offsets = range(base, base + count)
                    # This equals RecordBatch(...), in half the time.
                    yield new(
                        RecordBatch,
                        (position, base, base + delta, epoch, timestamp, False, offsets, values, ()),
                    )
                    at = end
                    continue
            yield self._batch(position, body, (base, epoch, attributes, delta, timestamp, count))
            at = end

    def _batch(self, position: int, body: bytes, header: tuple[int, ...]) -> RecordBatch:
        """Read a batch of any form: compressed, of control records, with offset gaps, or with different timestamps."""
        base, epoch, attributes, delta, timestamp, count = header
        codec = attributes & COMPRESSION
        control = bool(attributes & CONTROL)
        at = _FIRST
        try:
            if codec >= len(CODECS):
                raise ValueError(f"compression of type {codec}")
            if codec:
                body, at = decompress(CODECS[codec], body[at:]), 0
            if not 0 <= count <= min(delta + 1, MAX_RECORDS):
                raise ValueError(f"a batch of {count} records from offset {base} to {base + delta}")
            records = _read_any(body, at, count)
        except (ValueError, IndexError) as wrong:
            what = "ends within a record" if isinstance(wrong, IndexError) else str(wrong)
            raise self._error(position, what) from None
        deltas = records.offset_deltas
        if any(a >= b for a, b in zip([-1, *deltas], [*deltas, delta + 1], strict=True)):
            raise self._error(position, "record offsets do not ascend within the batch")
        usual = count == delta + 1
        offsets = range(base, base + count) if usual else [base + d for d in deltas]
        keys: Sequence[bytes | None] = records.keys if control else ()
        return RecordBatch(
            position, base, base + delta, epoch, timestamp, control, offsets, records.values, keys
        )

    def _error(self, position: int, message: str) -> TraceError:
        return TraceError(self.path, None, None, f"byte {position}: {message}", position)

    def _more(self, at: int, size: int) -> int:
        """Read until ``size`` bytes from ``at`` are in ``data``, or the file ends. Returns the new ``at``."""
        parts, have = [self.data[at:]], len(self.data) - at
        while have < size:
            with readable(self.path):
                part = self.file.read(max(CHUNK, size - have))
            if not part:
                break
            parts.append(part)
            have += len(part)
        self.data, self.start = b"".join(parts), self.start + at
        return 0

    # --- the end of a file, and damage ---

    def _only_zeros(self, at: int) -> bool:
        """True if every byte of the file is zero from position ``at`` of ``data`` on."""
        if self.data.count(0, at) != len(self.data) - at:
            return False
        while part := self.file.read(CHUNK):
            if part.count(0) != len(part):
                return False
        return True

    def _end(self, at: int) -> None:
        """Handle a file that ends with fewer bytes than a batch header has."""
        left = len(self.data) - at
        if self.data.count(0, at) != left:
            self._note(at, f"the file ends within the header of a batch: skipped {left} bytes")

    def _note(self, at: int, message: str) -> None:
        note = f"{self.path}: byte {self.start + at}: {message}"
        if note not in self.notes:
            self.notes.append(note)

    def _bad_header(self, at: int, length: int, magic: int) -> None:
        """Handle a bad header: zeros to the end, a partly written header, or damage."""
        position = self.start + at
        unwritten = magic == 0 and (self.last or length == 0) and self._only_zeros(at + MAGIC_AT)
        begun = self.data.count(0, at, at + MAGIC_AT) != MAGIC_AT
        if unwritten and not begun:
            return
        if unwritten and self.last:
            self._note(at, "skipped the last batch: its header is incomplete")
            return
        if not LEAST <= length <= MAX_BATCH:
            raise self._error(position, f"a batch of {length} bytes; the limit is {MAX_BATCH}")
        raise self._error(position, f"message format {magic}; only format 2 is read")

    def _torn(self, at: int, length: int) -> None:
        """Handle a file that ends within a batch. The file is damaged if another batch begins within that batch."""
        data, position = self.data, self.start + at
        # The next batch nearly always has the same epoch, and always the same magic.
        pattern = data[at + PREFIX : at + PREFIX + 5]
        found, budget = at + PREFIX, SEARCHED
        while budget > 0:
            found = data.find(pattern, found + 1)
            start = found - PREFIX
            if found < 0 or len(data) - start < HEADER.size:
                break
            budget -= 1000
            size, crc = HEADER.unpack_from(data, start)[1:5:3]
            if not LEAST <= size <= len(data) - found:
                continue
            budget -= size
            if crc32c(memoryview(data)[start + CHECKED : found + size]) == crc:
                raise self._error(position, f"a batch of {length} bytes, within which another one begins")
        left = len(data) - at
        self._note(at, f"the file ends within a batch of {PREFIX + length} bytes: skipped {left} bytes")

    def _bad_checksum(self, at: int, end: int) -> None:
        if self.last and self._only_zeros(end):
            self._note(at, "skipped the last batch: its checksum is wrong")
            return
        raise self._error(self.start + at, "the batch has a wrong checksum")
