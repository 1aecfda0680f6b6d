"""CRC-32C of files: every single flipped bit, and every run of up to 32 of them, gives another one."""

from __future__ import annotations

import os
from pathlib import Path

import crc32c

_PIECE = 1 << 22


def checksum(data: bytes | memoryview, before: int = 0) -> int:
    """The CRC-32C of some bytes, after others of which it is ``before``."""
    return int(crc32c.crc32c(data, before))


def of_descriptor(descriptor: int) -> tuple[int, int]:
    """The size and the CRC-32C of an open file, read from its start to its end. Raises OSError."""
    value = offset = 0
    while piece := os.pread(descriptor, _PIECE, offset):
        value = checksum(piece, value)
        offset += len(piece)
    return offset, value


def of_file(path: Path) -> tuple[int, int]:
    """The size and the CRC-32C of a file. Raises OSError, also where it is a link or no file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return of_descriptor(descriptor)
    finally:
        os.close(descriptor)


__all__ = ["checksum", "of_descriptor", "of_file"]
