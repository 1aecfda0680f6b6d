"""Machine code for fingerprints, independent of the model: sorting tables, packing blocks, merging.

A block is a sorted sequence of fingerprints. The run's index has the first fingerprint of each block. Each further
fingerprint is stored as its distance from the fingerprint before it. All distances of a block have the same width.
Fingerprints are uniformly distributed, so among n of them a distance needs little more than 64 - log2(n) bits.
"""

from __future__ import annotations

import functools
from typing import Any

from highwater.checker.engines.native.code.machine import Effort, Machine
from highwater.checker.engines.native.text.ir import FunctionText
from highwater.checker.engines.native.text.runtime import insert_function, slot_function

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
