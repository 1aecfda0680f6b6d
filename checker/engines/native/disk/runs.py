"""Sorted runs: files of fingerprints in order, packed in blocks, with an index at the end.

    block, block, …    packed fingerprints (``code.py``), each block in whole words
    index              a row of five words for each block: the first fingerprint, the number of fingerprints,
                       the width of a distance in bits, the block's offset in the file, the block's CRC-32C

The index stays in memory while a run is used: 40 bytes for 32,768 fingerprints. Reads are checked against the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.files import checksum
from highwater.checker.base.problems import InternalError
from highwater.checker.engines.native.disk.code import BLOCK, WIDEST, code
from highwater.checker.engines.native.frontier import DataFile, altered, bytes_of
from highwater.checker.engines.state_graph import Words

FIRST, COUNT, WIDTH, OFFSET, CHECKSUM = range(5)
ROW = 5
_AT_ONCE = 1 << 20
"""The most bytes of one read."""


class DamagedError(Exception):
    """A file of a sorted run is damaged."""


class SortedRun:
    """A finished file of sorted fingerprints.

    ``index`` has a row for each block: first fingerprint, number of fingerprints, width of a distance in bits, offset
    in bytes, checksum.
    """

    def __init__(self, file: DataFile, index: Words) -> None:
        self.file, self.index = file, index
        self.firsts: Words = np.ascontiguousarray(index[:, FIRST])
        self.count = int(index[:, COUNT].sum())

    @classmethod
    def read(cls, file: DataFile, blocks: int) -> SortedRun:
        """The run in a file with this number of blocks. Raises DamagedError if the file's index is inconsistent."""
        start = file.size - 8 * ROW * blocks
        if blocks < 0 or start < 0:
            raise DamagedError
        index: Words = np.empty((blocks, ROW), dtype=np.uint64)
        file.read(index, start)
        counts, widths = index[:, COUNT], index[:, WIDTH]
        if not (
            ((counts >= 1) & (counts <= BLOCK)).all()
            and (((widths >= 1) & (widths <= WIDEST)) | (widths == 64)).all()
            and (index[1:, FIRST] > index[:-1, FIRST]).all()
        ):
            raise DamagedError
        ends = np.cumsum(8 * _words(counts, widths))
        if not (
            (index[:, OFFSET] == np.concatenate([[0], ends[:-1]])).all() and int(ends[-1:].sum()) == start
        ):
            raise DamagedError
        return cls(file, index)

    @property
    def blocks(self) -> int:
        """The number of blocks in the run."""
        return len(self.index)

    def groups(self, wanted: NDArray[np.int64] | None = None) -> Iterator[tuple[int, int]]:
        """Yield ranges (start, end) of adjacent blocks, each for one read; ``end`` is exclusive.

        ``wanted`` has the numbers of the blocks, ascending; None: all blocks.
        """
        numbers = range(self.blocks) if wanted is None else wanted.tolist()
        start = end = size = 0
        for number in numbers:
            more = self._bytes(number)
            if start < end and (number != end or size + more > _AT_ONCE):
                yield start, end
                start, size = number, 0
            elif start == end:
                start = number
            end, size = number + 1, size + more
        if start < end:
            yield start, end

    def _bytes(self, number: int) -> int:
        return 8 * int(_words(self.index[number, COUNT], self.index[number, WIDTH]))

    def unpacked(self, start: int, end: int, room: Room) -> Iterator[Words]:
        """Yield the fingerprints of each block from ``start`` to ``end`` (exclusive).

        An array is valid until the next array is yielded. Raises OSError if reading fails or a block is damaged.
        """
        offset = int(self.index[start, OFFSET])
        size = sum(map(self._bytes, range(start, end)))
        data = room.data(size)
        self.file.read(data[: size // 8], offset)
        unpack = code().unpack
        content = bytes_of(data)
        for number in range(start, end):
            first, count, width, place, check = self.index[number].tolist()
            at = place - offset
            if checksum(content[at : at + self._bytes(number)]) != check:
                raise altered()
            address = data.ctypes.data + at
            unpack(address, first, width, count, room.fingerprints.ctypes.data)
            yield room.fingerprints[:count]

    def close(self) -> None:
        """Close the file of the run."""
        self.file.close()


def _words(counts: Any, widths: Any) -> Any:
    """The number of words that the distances of a block take. A block has one distance fewer than fingerprints."""
    return ((counts - np.uint64(1)) * widths + np.uint64(63)) // np.uint64(64)


class Room:
    """The buffers in which one thread reads and unpacks blocks."""

    BYTES = _AT_ONCE + 8 * BLOCK
    """The size in bytes of the buffers with the default ``size``."""

    def __init__(self, size: int = _AT_ONCE) -> None:
        # Every read takes a whole word, even at the last byte.
        self._data: Words = np.empty(size // 8 + 1, dtype=np.uint64)
        self.fingerprints: Words = np.empty(BLOCK, dtype=np.uint64)

    def data(self, size: int) -> Words:
        """The read buffer. It has room for at least ``size`` bytes and one word."""
        assert size + 8 <= self._data.nbytes
        return self._data


class RunWriter:
    """Writes a sorted run from sorted arrays of any length."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self._block: Words = np.empty(BLOCK, dtype=np.uint64)
        self._held = 0
        self._last = 0
        self._packed: Words = np.zeros(BLOCK + 1, dtype=np.uint64)
        self._index: list[tuple[int, int, int, int, int]] = []

    def add(self, fingerprints: Words) -> None:
        """Append fingerprints.

        Raises InternalError if the fingerprints do not ascend, because of a duplicate or a wrong merge.
        """
        if not len(fingerprints):
            return
        if not (int(fingerprints[0]) > self._last and (fingerprints[1:] > fingerprints[:-1]).all()):
            raise InternalError("fingerprints of visited states came twice, or out of order")
        self._last = int(fingerprints[-1])
        while len(fingerprints):
            part = fingerprints[: BLOCK - self._held]
            self._block[self._held : self._held + len(part)] = part
            self._held += len(part)
            fingerprints = fingerprints[len(part) :]
            if self._held == BLOCK:
                self._flush()

    def _flush(self) -> None:
        count = self._held
        if not count:
            return
        self._packed[:] = 0
        width = code().pack(self._block.ctypes.data, count, self._packed.ctypes.data)
        words = int(_words(np.uint64(count), np.uint64(width)))
        packed = self._packed[:words]
        offset = self._file.append(packed)
        self._index.append((int(self._block[0]), count, width, offset, checksum(bytes_of(packed))))
        self._held = 0

    def finish(self) -> SortedRun:
        """Write the index, and return the finished run."""
        self._flush()
        index: Words = np.array(self._index, dtype=np.uint64).reshape(-1, ROW)
        self._file.append(index)
        return SortedRun(self._file, index)


def written_run(file: DataFile, parts: Iterable[Words]) -> SortedRun:
    """Write sorted arrays as a run, and return the run. Raises OSError, and InternalError like ``RunWriter.add``."""
    try:
        writer = RunWriter(file)
        for part in parts:
            writer.add(part)
        return writer.finish()
    except BaseException:
        file.discard()
        raise
