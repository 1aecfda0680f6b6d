"""Files of a search: written once from their start to their end, with a checksum, and read at any place."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import crc32c
import numpy as np

Array = np.ndarray[Any, Any]
_PIECE = 1 << 22


class Source(Protocol):
    """Something that arrays of words are read from."""

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with what stands at an offset in bytes; OSError where that is less."""


class DataFile:
    """A file that grows at its end. ``name`` is that in its directory; None where it has none, and is gone once closed.

    All methods raise OSError where the disk does not do as it should.
    """

    def __init__(self, file: BinaryIO, name: str | None = None, size: int = 0, checksum: int = 0) -> None:
        self._file, self.name = file, name
        self.size, self.checksum = size, checksum

    @classmethod
    def unnamed(cls, directory: str | None) -> DataFile:
        """A new file without a name, in a directory, or where temporary files go."""
        file: Any = tempfile.TemporaryFile(prefix="highwater-", dir=directory, buffering=0)  # noqa: SIM115
        return cls(file)

    @classmethod
    def named(cls, path: Path) -> DataFile:
        """A new file; there must be none of its name."""
        file: Any = path.open("xb+", buffering=0)
        return cls(file, path.name)

    @classmethod
    def kept(cls, path: Path, size: int, checksum: int) -> DataFile:
        """A file that is there already, and is only read."""
        file: Any = path.open("rb", buffering=0)
        return cls(file, path.name, size, checksum)

    def append(self, array: Array) -> int:
        """Write an array at the end; its offset."""
        if not array.size:
            return self.size
        data = _view(np.ascontiguousarray(array))
        offset = self.size
        _write(self._file.fileno(), data, offset)
        self.size += len(data)
        self.checksum = crc32c.crc32c(data, self.checksum)
        return offset

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with what stands at an offset."""
        _read(self._file.fileno(), array, offset)

    def matches(self) -> bool:
        """Whether its size and its content are what was said of it."""
        if os.fstat(self._file.fileno()).st_size != self.size:
            return False
        value = offset = 0
        while piece := os.pread(self._file.fileno(), _PIECE, offset):
            value = crc32c.crc32c(piece, value)
            offset += len(piece)
        return value == self.checksum

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close it; without a name its room is free again."""
        self._file.close()


NewFile = Callable[[str], DataFile]
"""Makes a new file; the argument says what it is to hold."""


class Scratch:
    """A file without a name, made when it is first written to, at any place."""

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    def write(self, array: Array, offset: int) -> None:
        """Write an array at an offset. Raises OSError."""
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115
                    prefix="highwater-", dir=self._directory, buffering=0
                )
        _write(self._file.fileno(), _view(np.ascontiguousarray(array)), offset)

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with what stands at an offset. Raises OSError."""
        assert self._file is not None
        _read(self._file.fileno(), array, offset)

    def clear(self) -> None:
        """Make it empty. What was not written to the disk yet need not be any more."""
        if self._file is not None:
            os.ftruncate(self._file.fileno(), 0)

    def close(self) -> None:
        """Remove it."""
        if self._file is not None:
            self._file.close()


class SavedFile:
    """A finished file that stays, opened for each reading: there may be more of them than can be open."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with what stands at an offset. Raises OSError."""
        with self.path.open("rb", buffering=0) as file:
            _read(file.fileno(), array, offset)


def _view(array: Array) -> memoryview:
    return memoryview(array.data).cast("B")


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        done = os.pwrite(descriptor, data, offset)
        data, offset = data[done:], offset + done


def _read(descriptor: int, array: Array, offset: int) -> None:
    if not array.size:
        return
    room = _view(array)
    while room:
        done = os.preadv(descriptor, [room], offset)
        if not done:
            raise OSError(errno.EIO, "a file of the search is shorter than it was")
        room, offset = room[done:], offset + done


__all__ = ["DataFile", "NewFile", "SavedFile", "Scratch", "Source"]
