"""The compressed part of a record batch, taken apart in bounded memory."""

from __future__ import annotations

import struct
import zlib

import cramjam

MAX_BATCH = 1 << 26
"""The largest record batch that is read, in bytes, compressed or not. Kafka's own limit for the log is 8 MiB."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names of the compression types, by the number in the attributes of a batch."""
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")
_XERIAL_BLOCK = 1 << 15


def decompress(codec: str, data: bytes, limit: int = MAX_BATCH) -> bytes:
    """What was compressed. Raises ValueError where it is damaged or larger than the limit.

    The decoders write into a buffer of the limit's size at most, so a small input cannot become a large one.
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
    """Into a buffer that is usually large enough; where it is not, into the largest."""
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
    """Raw snappy, or the framing of snappy-java: a header, then blocks with their lengths."""
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
