"""Sorted runs: files of fingerprints in order, packed in blocks, with an index at the end, and their machine code.

    block, block, …    packed fingerprints, each block in whole words
    index              a row of five words for each block: the first fingerprint, the number of fingerprints,
                       the width of a distance in bits, the block's offset in the file, the block's CRC-32C

The index stays in memory while a run is used: 40 bytes for 32,768 fingerprints. Reads are checked against the index.

After the first fingerprint of a block, which the index has, each fingerprint is stored as its distance from the
fingerprint before it. All distances of a block have the same width. Fingerprints are uniformly distributed, so among n
of them a distance needs little more than 64 - log2(n) bits.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.files import checksum
from highwater.checker.base.problems import InternalError
from highwater.checker.engines.native.frontier import DataFile, altered, bytes_of
from highwater.checker.engines.native.ir import FunctionText
from highwater.checker.engines.native.machine import Effort, Machine
from highwater.checker.engines.native.runtime import insert_function, slot_function
from highwater.checker.engines.state_graph import Words

BLOCK = 1 << 15
"""The most fingerprints in a block. A block is packed and unpacked as a whole."""
WIDEST = 57
"""The largest packed width of a distance in bits. Wider distances take 64 bits.

A distance can start at any of the 8 bits of a byte. With at most 57 bits, it ends within the 64-bit word that starts at
this byte, so one read suffices.
"""


class Code:
    """The compiled functions for tables and blocks. Arguments and results are integers or addresses."""

    def __init__(self) -> None:
        machine = Machine(text(), Effort.FULL)
        self._machine = machine
        self.tidy: Any = machine.function("tidy", 3)
        """``tidy(table, start, end)``: sort each sequence of taken slots; no sequence may cross start or end."""
        self.extract: Any = machine.function("extract", 5, result=True)
        """``extract(table, start, end, marks, out)``: copy unmarked fingerprints to ``out``; returns their number."""
        self.pack: Any = machine.function("pack", 3, result=True)
        """``pack(fingerprints, count, out)``: pack a block into zeroed memory; returns the width of a distance."""
        self.unpack: Any = machine.function("unpack", 5)
        """``unpack(data, first, width, count, out)``: write the fingerprints of a block to ``out``."""
        self.merge: Any = machine.function("merge", 6, result=True)
        """``merge(table, start, end, marks, fingerprints, count)``: mark the fingerprints' slots; returns how many."""
        self.fill: Any = machine.function("fill", 4, result=True)
        """``fill(table, capacity, fingerprints, count)``: insert all; returns 1 for a duplicate or a full table."""


@functools.cache
def code() -> Code:
    """The compiled functions, compiled once in a process."""
    return Code()


def text() -> str:
    """The LLVM text of all functions."""
    of_tables = (slot_function(), insert_function())
    own = (_tidy(), _extract(), _pack(), _unpack(), _merge(), _fill())
    return "\n".join(["declare i64 @llvm.ctlz.i64(i64, i1)", *of_tables, *own])


def _tidy() -> str:
    """Write ``@tidy``: sort each sequence of taken slots by insertion, as fingerprints are near their final place.

    The whole table is then sorted, because home slots grow with the fingerprint. Nothing moves past an empty slot: 0
    is less than every fingerprint. No fingerprint moves before its home slot, so look-ups still work.
    """
    f = FunctionText("void @tidy(ptr %table, i64 %start, i64 %end)")
    with f.each("%start", "%end") as index:
        value = f.load(f.at("%table", index))
        with f.when(f.op(f"icmp ne i64 {value}, 0")):
            with f.loop(f"i64 {index}") as sift:
                (place,) = sift.values
                sift.while_(f.op(f"icmp ugt i64 {place}, %start"))
                before = f.op(f"sub i64 {place}, 1")
                other = f.load(f.at("%table", before))
                sift.while_(f.op(f"icmp ugt i64 {other}, {value}"))
                f.store(other, f.at("%table", place))
                sift.again(before)
            f.store(value, f.at("%table", place))
    return f.end()


def _extract() -> str:
    f = FunctionText("i64 @extract(ptr %table, i64 %start, i64 %end, ptr %marks, ptr %out)")
    with f.loop("i64 %start", "i64 0") as loop:
        index, count = loop.values
        loop.while_(f.op(f"icmp ult i64 {index}, %end"))
        value = f.load(f.at("%table", index))
        # Write every value, and count only those that stay: this avoids an unpredictable branch.
        f.store(value, f.at("%out", count))
        word = f.load(f.at("%marks", f.op(f"lshr i64 {index}, 6")))
        bit = f.op(f"and i64 {index}, 63")
        free = f.op(f"xor i64 {f.op(f'lshr i64 {word}, {bit}')}, -1")
        taken = f.op(f"zext i1 {f.op(f'icmp ne i64 {value}, 0')} to i64")
        counted = f.op(f"add i64 {count}, {f.op(f'and i64 {taken}, {free}')}")
        loop.again(f.op(f"add i64 {index}, 1"), counted)
    return f.end(f"i64 {count}")


def _pack() -> str:
    f = FunctionText("i64 @pack(ptr %fps, i64 %count, ptr %out)")
    with f.loop("i64 1", "i64 1") as measure:
        index, bits = measure.values
        measure.while_(f.op(f"icmp ult i64 {index}, %count"))
        more = f.op(f"or i64 {bits}, {_distance(f, index)}")
        measure.again(f.op(f"add i64 {index}, 1"), more)
    narrow = f.op(f"sub i64 64, {f.op(f'call i64 @llvm.ctlz.i64(i64 {bits}, i1 false)')}")
    wide = f.op(f"icmp ugt i64 {narrow}, {WIDEST}")
    width = f.op(f"select i1 {wide}, i64 64, i64 {narrow}")
    with f.loop("i64 1", "i64 0") as write:
        index, place = write.values
        write.while_(f.op(f"icmp ult i64 {index}, %count"))
        distance = _distance(f, index)
        at = _byte(f, "%out", place)
        shifted = f.op(f"shl i64 {distance}, {f.op(f'and i64 {place}, 7')}")
        held = f.op(f"load i64, ptr {at}, align 1")
        f.do(f"store i64 {f.op(f'or i64 {held}, {shifted}')}, ptr {at}, align 1")
        write.again(f.op(f"add i64 {index}, 1"), f.op(f"add i64 {place}, {width}"))
    return f.end(f"i64 {width}")


def _distance(f: FunctionText, index: str) -> str:
    before = f.load(f.at("%fps", f.op(f"sub i64 {index}, 1")))
    return f.op(f"sub i64 {f.load(f.at('%fps', index))}, {before}")


def _byte(f: FunctionText, pointer: str, place: str) -> str:
    """Write code for the address of the byte that contains bit ``place``. Bits are counted from ``pointer``."""
    return f.op(f"getelementptr inbounds i8, ptr {pointer}, i64 {f.op(f'lshr i64 {place}, 3')}")


def _unpack() -> str:
    f = FunctionText("void @unpack(ptr %data, i64 %first, i64 %width, i64 %count, ptr %out)")
    mask = f.op(f"lshr i64 -1, {f.op('sub i64 64, %width')}")
    f.store("%first", "%out")
    with f.loop("i64 1", "i64 0", "i64 %first") as loop:
        index, place, value = loop.values
        loop.while_(f.op(f"icmp ult i64 {index}, %count"))
        word = f.op(f"load i64, ptr {_byte(f, '%data', place)}, align 1")
        shift = f.op(f"and i64 {place}, 7")
        distance = f.op(f"and i64 {f.op(f'lshr i64 {word}, {shift}')}, {mask}")
        following = f.op(f"add i64 {value}, {distance}")
        f.store(following, f.at("%out", index))
        loop.again(f.op(f"add i64 {index}, 1"), f.op(f"add i64 {place}, %width"), following)
    return f.end()


def _merge() -> str:
    """Write ``@merge``: mark the table's slots whose fingerprints are in a block; returns the number of marks.

    Table and block are sorted; an empty slot (0) is less than every fingerprint. The loop advances in both without an
    unpredictable branch.
    """
    f = FunctionText("i64 @merge(ptr %table, i64 %start, i64 %end, ptr %marks, ptr %fps, i64 %count)")
    with f.loop("i64 %start", "i64 0", "i64 0") as loop:
        slot, index, hits = loop.values
        loop.while_(
            f.op(f"and i1 {f.op(f'icmp ult i64 {slot}, %end')}, {f.op(f'icmp ult i64 {index}, %count')}")
        )
        held, value = f.load(f.at("%table", slot)), f.load(f.at("%fps", index))
        equal = f.op(f"icmp eq i64 {held}, {value}")
        with f.when(equal):
            # Other threads mark other slots of the same word.
            word, bit = f.at("%marks", f.op(f"lshr i64 {slot}, 6")), f.op(f"and i64 {slot}, 63")
            f.op(f"atomicrmw or ptr {word}, i64 {f.op(f'shl i64 1, {bit}')} monotonic, align 8")
        more = f.op(f"add i64 {hits}, {f.op(f'zext i1 {equal} to i64')}")
        behind = f.op(f"zext i1 {f.op(f'icmp ule i64 {held}, {value}')} to i64")
        ahead = f.op(f"zext i1 {f.op(f'icmp ule i64 {value}, {held}')} to i64")
        loop.again(f.op(f"add i64 {slot}, {behind}"), f.op(f"add i64 {index}, {ahead}"), more)
    return f.end(f"i64 {hits}")


def _fill() -> str:
    f = FunctionText("i64 @fill(ptr %table, i64 %capacity, ptr %fps, i64 %count)")
    with f.each(0, "%count") as index:
        value = f.load(f.at("%fps", index))
        verdict = f.op(f"call i64 @insert(ptr %table, i64 %capacity, i64 {value})")
        f.branch(f.op(f"icmp eq i64 {verdict}, 1"), "new", "wrong")
        f.start("new")
    f.do("ret i64 0")
    f.start("wrong")
    return f.end("i64 1")


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
