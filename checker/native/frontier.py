"""Levels of a search: packed states and where each came from, in memory or on disk.

A level is a list of chunks. What goes past the memory that a store is given is written to one unnamed
file; a chunk knows where it lies. States are needed once, in the next level; predecessors for as long as a
counterexample may be asked for.
"""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

from highwater.checker.native.layout import Words

_SPARE_BLOCKS = 16


class Store:
    """Keeps arrays of words: in memory up to ``limit`` bytes, then in a file in ``directory``.

    A file that cannot be written (a full disk) is said once in ``failure``, and memory is used again.
    """

    def __init__(self, limit: int, directory: str | None) -> None:
        self._limit, self._directory = limit, directory
        self._spare: list[Words] = []
        self._file: BinaryIO | None = None
        self._end = 0
        self._lock = threading.Lock()
        self._free: list[tuple[int, int]] = []
        self.memory_bytes = 0
        self.spilled_bytes = 0
        self.failure: str | None = None

    def put(self, array: Words) -> Kept:
        """Keep a copy of an array."""
        with self._lock:
            if self.failure is None and self.memory_bytes + array.nbytes > self._limit:
                try:
                    return self._spill(array)
                except OSError as wrong:
                    self.failure = (
                        f"cannot write to {self._directory or tempfile.gettempdir()}: {wrong.strerror}"
                    )
            self.memory_bytes += array.nbytes
            return Kept(array.shape, self._copy(array), 0)

    def _copy(self, array: Words) -> Words:
        # Full chunks are nearly of one size: the memory of an old one serves a new one without page faults.
        for i, block in enumerate(self._spare):
            if len(array) <= len(block) <= 2 * len(array):
                del self._spare[i]
                block[: len(array)] = array
                return block[: len(array)]
        return array.copy()

    def _spill(self, array: Words) -> Kept:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="highwater-", dir=self._directory)  # noqa: SIM115
        place = next((i for i, (_, size) in enumerate(self._free) if size >= array.nbytes), None)
        if place is None:
            offset = self._end
        else:
            offset, size = self._free.pop(place)
            if size > array.nbytes:
                self._free.append((offset + array.nbytes, size - array.nbytes))
        self._file.seek(offset)
        self._file.write(np.ascontiguousarray(array).data)
        self._end = max(self._end, offset + array.nbytes)
        self.spilled_bytes = max(self.spilled_bytes, self._end)
        return Kept(array.shape, None, offset)

    def get(self, kept: Kept) -> Words:
        """The array, read back where it lies on disk."""
        if kept.array is not None:
            return kept.array
        assert self._file is not None
        array = np.empty(kept.shape, dtype=np.uint64)
        with self._lock:
            self._file.seek(kept.offset)
            read = self._file.readinto(array.data.cast("B"))  # type: ignore[attr-defined]
        if read != array.nbytes:
            raise OSError(f"a spilled chunk is short: {read} of {array.nbytes} bytes")
        return array

    def item(self, kept: Kept, index: int) -> int:
        """One word of a kept one-dimensional array."""
        if kept.array is not None:
            return int(kept.array[index])
        assert self._file is not None
        with self._lock:
            self._file.seek(kept.offset + 8 * index)
            return int.from_bytes(self._file.read(8), "little")

    def drop(self, kept: Kept) -> None:
        """Forget an array; its memory, or its place in the file, is free again."""
        with self._lock:
            if kept.array is not None:
                self.memory_bytes -= kept.array.nbytes
                base = kept.array.base
                if len(self._spare) < _SPARE_BLOCKS:
                    self._spare.append(kept.array if base is None else base)
                kept.array = None
            else:
                self._free.append((kept.offset, kept.bytes))

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()


@dataclass
class Kept:
    """An array in a Store: itself, or its offset in the file."""

    shape: tuple[int, ...]
    array: Words | None
    offset: int

    @property
    def bytes(self) -> int:
        """Its size."""
        return 8 * int(np.prod(self.shape))


@dataclass
class Chunk:
    """Part of a level: ``count`` states from index ``base`` of the level on."""

    base: int
    count: int
    states: Kept
    predecessors: Kept


@dataclass
class Level:
    """The states first reached after so many steps."""

    chunks: list[Chunk] = field(default_factory=list)
    size: int = 0

    def add(self, count: int, states: Kept, predecessors: Kept) -> Chunk:
        """Append a chunk."""
        chunk = Chunk(self.size, count, states, predecessors)
        self.chunks.append(chunk)
        self.size += count
        return chunk

    def chunk_of(self, index: int) -> Chunk:
        """The chunk that holds the state with this index."""
        return next(c for c in self.chunks if c.base <= index < c.base + c.count)
