"""CRC-32C of files: every single flipped bit, and every run of up to 32 of them, gives another one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_PIECE = 1 << 22


def checksum(data: bytes | memoryview, before: int = 0) -> int:
    """The CRC-32C of some bytes, after others of which it is ``before``."""
    import crc32c  # most commands check no file, and it takes a tenth of what they need to start

    return int(crc32c.crc32c(data, before))


def of_descriptor(descriptor: int) -> tuple[int, int]:
    """The size and the CRC-32C of an open file, read from its start to its end. Raises OSError."""
    value = offset = 0
    while piece := os.pread(descriptor, _PIECE, offset):
        value = checksum(piece, value)
        offset += len(piece)
    return offset, value


def is_file_with(path: Path, size: int, value: int) -> bool:
    """Whether a path is a file of this size with this CRC-32C. Of another size nothing is read, and no pipe waited for.

    Raises OSError where it cannot be read, also where it is a link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            return False
        return of_descriptor(descriptor) == (size, value)
    finally:
        os.close(descriptor)
