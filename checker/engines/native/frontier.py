"""The storage of a search: files with checksums, arrays in memory or in a file, and levels of states."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np

from highwater.checker.base.files import checksum
from highwater.checker.engines.state_graph import Words

Array = np.ndarray[Any, Any]


class WordSource(Protocol):
    """A file from which arrays of words are read."""

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with the content at an offset in bytes. Raises OSError if the file ends too early."""


class DataFile:
    """A file to which arrays are appended. ``name`` is the file's name; None for an unnamed temporary file.

    All methods except ``close`` and ``discard`` raise OSError if the disk fails.
    """

    def __init__(self, file: BinaryIO, path: Path | None = None, size: int = 0, checksum: int = 0) -> None:
        self._file, self._path = file, path
        self.name = None if path is None else path.name
        self.size, self.checksum = size, checksum

    @classmethod
    def unnamed(cls, directory: str | None) -> DataFile:
        """Create a temporary file without a name. ``directory`` None means the directory for temporary files."""
        file: Any = tempfile.TemporaryFile(prefix="highwater-", dir=directory, buffering=0)  # noqa: SIM115
        return cls(file)

    @classmethod
    def named(cls, path: Path) -> DataFile:
        """Create a file. Raises FileExistsError if the file exists."""
        file: Any = path.open("xb+", buffering=0)
        return cls(file, path)

    @classmethod
    def kept(cls, path: Path, size: int, checksum: int) -> DataFile:
        """Open an existing file for reading, with its expected size and checksum."""
        return cls(_opened(path), path, size, checksum)

    def append(self, array: Array) -> int:
        """Write an array at the end of the file, and return the array's offset in bytes."""
        if not array.size:
            return self.size
        data = bytes_of(np.ascontiguousarray(array))
        offset = self.size
        self.write(data, offset)
        self.size += len(data)
        self.checksum = checksum(data, self.checksum)
        return offset

    def write(self, data: memoryview, offset: int) -> None:
        """Write bytes at an offset, without counting them in ``size`` and ``checksum``."""
        _write(self._file.fileno(), data, offset)

    def clear(self) -> None:
        """Make the file empty."""
        os.ftruncate(self._file.fileno(), 0)

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with the file's content at an offset in bytes."""
        _read(self._file.fileno(), array, offset)

    def sync(self) -> None:
        """Wait until the whole content is on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file. An unnamed file is removed. Errors are ignored, because needed content was synced before."""
        with suppress(OSError):
            self._file.close()

    def discard(self) -> None:
        """Close and remove an unfinished file."""
        self.close()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()


NewFile = Callable[[str], DataFile]
"""Creates a new file. The argument is the kind of the file's content, which begins the file's name."""


class SavedFile:
    """A finished file of a checkpoint.

    Each read opens the file, because a checkpoint can have more files than a process may have open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, array: Array, offset: int) -> None:
        """Fill an array with the content at an offset in bytes. Raises OSError."""
        with _opened(self.path) as file:
            _read(file.fileno(), array, offset)


def _opened(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError if the path is a symbolic link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    return cast(BinaryIO, os.fdopen(descriptor, "rb", buffering=0))


def bytes_of(array: Array) -> memoryview:
    """The bytes of a contiguous array."""
    return memoryview(array.data).cast("B") if array.size else memoryview(b"")


def not_written(wrong: OSError, directory: str | None) -> str:
    """The error message for a failed write to a directory; None means the directory for temporary files."""
    place = wrong.filename or directory
    if place is None:
        try:
            place = tempfile.gettempdir()
        except OSError:
            place = "temporary files"
    return f"{place}: {wrong.strerror or wrong}"


def altered() -> OSError:
    """The error for a file whose content is not what was written (by its checksum)."""
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


# Levels of a search: packed states with their predecessors, in memory or on disk.
#
# A level is a list of chunks. Above its memory limit, a store writes arrays to one unnamed file. A state is read once,
# when it is expanded. Predecessors are needed until the end of the search, for counterexamples.

_SPARE_BLOCKS = 16
_SLICE = 4096


class Store:
    """Stores arrays of words: in memory up to ``limit`` bytes, then in a file in ``directory``.

    If the file cannot be written (a full disk), arrays stay in memory, and ``failure`` has the error message. A
    ``bounded`` store raises OSError instead.
    """

    def __init__(self, limit: int, directory: str | None, *, bounded: bool = False) -> None:
        self._limit, self._directory = limit, directory
        self.bounded = bounded
        self._spare: list[Words] = []
        self._source: DataFile | None = None
        self._end = self._live = 0
        self._lock = threading.Lock()
        self._free: list[tuple[int, int]] = []
        self.memory_bytes = 0
        self.spilled_bytes = 0
        self.failure: str | None = None

    def put(self, array: Words) -> KeptArray:
        """Store a copy of an array, and return the copy's handle."""
        with self._lock:
            spill = self.memory_bytes + array.nbytes > self._limit
            if not spill or (self.failure is not None and not self.bounded):
                return self._hold(array)
            offset = self._place(array.nbytes)
            self._live += array.nbytes
            source = self._source
        data = bytes_of(np.ascontiguousarray(array))
        try:
            if source is None:
                source = self._created()
            source.write(data, offset)
        except OSError as wrong:
            if self.bounded:
                raise
            with self._lock:
                self._live -= array.nbytes
                self.failure = not_written(wrong, self._directory)
                return self._hold(array)
        return KeptArray(array.shape, None, offset, source, checksum(data))

    def _created(self) -> DataFile:
        with self._lock:
            if self._source is None:
                self._source = DataFile.unnamed(self._directory)
            return self._source

    def _hold(self, array: Words) -> KeptArray:
        self.memory_bytes += array.nbytes
        return KeptArray(array.shape, self._copy(array))

    def _copy(self, array: Words) -> Words:
        # Full chunks have nearly the same size: reusing an old chunk's memory avoids page faults.
        for i, block in enumerate(self._spare):
            if len(array) <= len(block) <= 2 * len(array):
                del self._spare[i]
                block[: len(array)] = array
                return block[: len(array)]
        return array.copy()

    def _place(self, size: int) -> int:
        place = next((i for i, (_, free) in enumerate(self._free) if free >= size), None)
        if place is not None:
            offset, free = self._free.pop(place)
            if free > size:
                self._free.append((offset + size, free - size))
            return offset
        offset = self._end
        self._end += size
        self.spilled_bytes = max(self.spilled_bytes, self._end)
        return offset

    def get(self, kept: KeptArray) -> Words:
        """The stored array, read back if it is on disk. Raises OSError if reading fails or the bytes have changed."""
        if kept.array is not None:
            return kept.array
        assert kept.source is not None
        array = np.empty(kept.shape, dtype=np.uint64)
        kept.source.read(array, kept.offset)
        if kept.checksum is not None and checksum(bytes_of(array)) != kept.checksum:
            raise altered()
        return array

    def item(self, kept: KeptArray, index: int) -> int:
        """The word at ``index`` of a stored one-dimensional array. Raises OSError like ``get``."""
        if kept.array is not None or kept.checksum is not None:
            return int(self.get(kept)[index])
        assert kept.source is not None
        word = np.empty(1, dtype=np.uint64)
        kept.source.read(word, kept.offset + 8 * index)
        return int(word[0])

    def drop(self, kept: KeptArray) -> None:
        """Free the memory of a stored array, or the array's place in the file.

        When the file holds no array any more, it is truncated.
        """
        with self._lock:
            if kept.array is not None:
                self.memory_bytes -= kept.array.nbytes
                base = kept.array.base
                if len(self._spare) < _SPARE_BLOCKS:
                    self._spare.append(kept.array if base is None else base)
                kept.array = None
            elif kept.source is self._source:
                self._free.append((kept.offset, kept.bytes))
                self._live -= kept.bytes
                if not self._live:
                    self.clear()

    def clear(self) -> None:
        """Forget all arrays in the file, and truncate the file."""
        if self._source is not None:
            self._source.clear()
        self._free, self._end, self._live = [], 0, 0

    def close(self) -> None:
        """Remove the file."""
        if self._source is not None:
            self._source.close()


@dataclass
class KeptArray:
    """The handle of a stored array, which is in memory or at an offset (in bytes) of a file.

    ``checksum`` is the CRC-32C of an array in the store's own file; None for arrays in memory or in a saved file.
    """

    shape: tuple[int, ...]
    array: Words | None
    offset: int = 0
    source: WordSource | None = None
    checksum: int | None = None

    @property
    def bytes(self) -> int:
        """The size of the array in bytes."""
        return 8 * int(np.prod(self.shape))


@dataclass
class Chunk:
    """A part of a level: ``count`` states from index ``base`` of the level on."""

    base: int
    count: int
    states: KeptArray
    predecessors: KeptArray


Part = tuple[Chunk, int, int]
"""Some states of a chunk: the chunk, the index of the first state, and the index after the last state."""


@dataclass
class Level:
    """The states of one level, in chunks."""

    chunks: list[Chunk] = field(default_factory=list)
    size: int = 0

    def add(self, count: int, states: KeptArray, predecessors: KeptArray) -> Chunk:
        """Append a chunk to the level, and return the chunk."""
        chunk = Chunk(self.size, count, states, predecessors)
        self.chunks.append(chunk)
        self.size += count
        return chunk

    def parts(self, workers: int) -> list[Part]:
        """Split all states of the level into parts, small enough to distribute among this number of workers."""
        if len(self.chunks) > 4 * workers:
            return [(chunk, 0, chunk.count) for chunk in self.chunks]
        step = max(64, min(_SLICE, self.size // (4 * workers)))
        return [(c, i, min(i + step, c.count)) for c in self.chunks for i in range(0, c.count, step)]

    def chunk_of(self, index: int) -> Chunk:
        """The chunk that contains the state with this index."""
        return next(c for c in self.chunks if c.base <= index < c.base + c.count)
