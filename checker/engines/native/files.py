"""Files of a search: written once from their start to their end, with a checksum, and read at any place."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np

from highwater.checker.base.durable.checksum import checksum, of_descriptor

Array = np.ndarray[Any, Any]


class WordSource(Protocol):
    """Something that arrays of words are read from."""

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with what stands at an offset in bytes; OSError where that is less."""


class DataFile:
    """A file that grows at its end. ``name`` is that in its directory; None where it has none, and is gone once closed.

    All methods raise OSError where the disk does not do as it should.
    """

    def __init__(self, file: BinaryIO, path: Path | None = None, size: int = 0, checksum: int = 0) -> None:
        self._file, self._path = file, path
        self.name = None if path is None else path.name
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
        return cls(file, path)

    @classmethod
    def kept(cls, path: Path, size: int, checksum: int) -> DataFile:
        """A file that is there already, and is only read."""
        return cls(_opened(path), path, size, checksum)

    def append(self, array: Array) -> int:
        """Write an array at the end; its offset."""
        if not array.size:
            return self.size
        data = bytes_of(np.ascontiguousarray(array))
        offset = self.size
        _write(self._file.fileno(), data, offset)
        self.size += len(data)
        self.checksum = checksum(data, self.checksum)
        return offset

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with what stands at an offset."""
        _read(self._file.fileno(), array, offset)

    def matches(self) -> bool:
        """Whether its size and its content are what was said of it."""
        if os.fstat(self._file.fileno()).st_size != self.size:
            return False
        return of_descriptor(self._file.fileno()) == (self.size, self.checksum)

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close it; without a name its room is free again.

        What matters was synced before. So an error here says nothing of it, and does not end a search.
        """
        with suppress(OSError):
            self._file.close()

    def discard(self) -> None:
        """Close it, and remove it: it was never finished."""
        self.close()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()


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
        _write(self._file.fileno(), bytes_of(np.ascontiguousarray(array)), offset)

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with what stands at an offset. Raises OSError."""
        assert self._file is not None
        _read(self._file.fileno(), array, offset)

    def clear(self) -> None:
        """Make it empty. What was not written to the disk yet need not be any more."""
        if self._file is not None:
            os.ftruncate(self._file.fileno(), 0)

    def close(self) -> None:
        """Remove it. That it cannot be closed is nothing to anybody: what was in it is not wanted any more."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


class SavedFile:
    """A finished file that stays, opened for each reading: there may be more of them than can be open."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with what stands at an offset. Raises OSError."""
        with _opened(self.path) as file:
            _read(file.fileno(), array, offset)


def _opened(path: Path) -> BinaryIO:
    """A file, to be read; OSError where it is a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    return cast(BinaryIO, os.fdopen(descriptor, "rb", buffering=0))


def bytes_of(array: Array) -> memoryview:
    """The bytes of an array that lies in one piece."""
    return memoryview(array.data).cast("B") if array.size else memoryview(b"")


def not_written(wrong: OSError, directory: str | None) -> str:
    """What to say where something cannot be kept in a directory, or where temporary files go.

    A disk that is full has no such place any more: not even that can be asked for then.
    """
    place = wrong.filename or directory
    if place is None:
        try:
            place = tempfile.gettempdir()
        except OSError:
            place = "temporary files"
    return f"{place}: {wrong.strerror or wrong}"


def altered() -> OSError:
    """What to raise where a file that this process wrote gives back something else."""
    return OSError(errno.EIO, "a file of the search is not as it was written")


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        done = os.pwrite(descriptor, data, offset)
        data, offset = data[done:], offset + done


def _read(descriptor: int, array: Array, offset: int) -> None:
    if not array.size:
        return
    room = bytes_of(array)
    while room:
        done = os.preadv(descriptor, [room], offset)
        if not done:
            raise OSError(errno.EIO, "a file of the search is shorter than it was")
        room, offset = room[done:], offset + done
