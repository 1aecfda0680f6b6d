"""Loops over fingerprints that know no model, as machine code: tables in order, packed blocks, and their merge.

Fingerprints in order are packed in blocks: the first one stands in the index, and each later one as its distance from
the one before, in as many bits as the largest distance of the block takes. Fingerprints are spread evenly, so a
distance takes little more than the 64 bits less the logarithm of how many there are.
"""

from __future__ import annotations

import functools
from typing import Any

from highwater.checker.engines.native.code.machine import Effort, Machine
from highwater.checker.engines.native.text.ir import Function
from highwater.checker.engines.native.text.kernels import Kernels
from highwater.checker.engines.native.text.runtime import SLACK

BLOCK = 1 << 15
"""Fingerprints that are packed, and unpacked, together."""
WIDEST = 57
"""The most bits that a word read from any byte on has for sure; a wider distance takes all 64."""


class Code:
    """The functions. All take and give whole numbers; a pointer is one."""

    def __init__(self) -> None:
        machine = Machine(text(), Effort.FULL)
        self._machine = machine
        self.tidy: Any = machine.function("tidy", 3)
        """``tidy(table, start, end)``: put runs of taken slots into order; both ends lie in no run."""
        self.extract: Any = machine.function("extract", 5, result=True)
        """``extract(table, start, end, marks, out)``: the fingerprints that are not marked; how many."""
        self.pack: Any = machine.function("pack", 3, result=True)
        """``pack(fingerprints, count, out)``: a block, into zeros; the bits of a distance."""
        self.unpack: Any = machine.function("unpack", 5)
        """``unpack(data, first, width, count, out)``: a block's fingerprints."""
        self.merge: Any = machine.function("merge", 6, result=True)
        """``merge(table, start, end, marks, fingerprints, count)``: mark what is in both; how many were."""
        self.fill: Any = machine.function("fill", 4, result=True)
        """``fill(table, capacity, fingerprints, count)``: put all in; 1 for no room, 2 for one that was there."""
        self.held: Any = machine.function("held", 4, result=True)
        """``held(table, capacity, fingerprints, count)``: how many of them a table holds."""


@functools.cache
def code() -> Code:
    """The functions, compiled once a process."""
    return Code()


def text() -> str:
    """The LLVM text of all functions."""
    # A home slot is the same here and in the search: its text is taken from there, and needs no model.
    slot = Kernels.__new__(Kernels)._slot()
    return "\n".join(
        [
            "declare i64 @llvm.ctlz.i64(i64, i1)",
            *(slot, _tidy(), _extract(), _pack(), _unpack(), _merge(), _fill(), _held()),
        ]
    )


def _tidy() -> str:
    """Insertion sort of each run of taken slots: few lie far from where they belong.

    Runs among themselves are in order, as home slots grow with the fingerprint; and an empty slot, 0, is less than
    all, so that nothing moves past it. A run in order is one that look-ups find everything in: its k-th least is
    never before its home.
    """
    f = Function("void @tidy(ptr %table, i64 %start, i64 %end)")
    f.jump("loop")
    f.start("loop")
    f.do("%i = phi i64 [ %start, %entry ], [ %i_next, %placed ]")
    f.branch(f.op("icmp ult i64 %i, %end"), "body", "finished")
    f.start("body")
    value = f.load(f.at("%table", "%i"))
    f.branch(f.op(f"icmp eq i64 {value}, 0"), "placed", "sift")
    f.start("sift")
    f.do("%j = phi i64 [ %i, %body ], [ %before, %shift ]")
    f.do("%before = sub i64 %j, 1")
    f.branch(f.op("icmp ugt i64 %j, %start"), "compare", "put")
    f.start("compare")
    other = f.load(f.at("%table", "%before"))
    f.branch(f.op(f"icmp ugt i64 {other}, {value}"), "shift", "put")
    f.start("shift")
    f.store(other, f.at("%table", "%j"))
    f.jump("sift")
    f.start("put")
    f.store(value, f.at("%table", "%j"))
    f.jump("placed")
    f.start("placed")
    f.do("%i_next = add i64 %i, 1")
    f.jump("loop")
    f.start("finished")
    return f.end()


def _extract() -> str:
    f = Function("i64 @extract(ptr %table, i64 %start, i64 %end, ptr %marks, ptr %out)")
    f.jump("loop")
    f.start("loop")
    f.do("%i = phi i64 [ %start, %entry ], [ %i_next, %body ]")
    f.do("%count = phi i64 [ 0, %entry ], [ %count_next, %body ]")
    f.branch(f.op("icmp ult i64 %i, %end"), "body", "finished")
    f.start("body")
    value = f.load(f.at("%table", "%i"))
    # Written always, and counted only where it stays: no branch that cannot be foreseen.
    f.store(value, f.at("%out", "%count"))
    word = f.load(f.at("%marks", f.op("lshr i64 %i, 6")))
    bit = f.op("and i64 %i, 63")
    free = f.op(f"xor i64 {f.op(f'lshr i64 {word}, {bit}')}, -1")
    taken = f.op(f"zext i1 {f.op(f'icmp ne i64 {value}, 0')} to i64")
    f.do(f"%count_next = add i64 %count, {f.op(f'and i64 {taken}, {free}')}")
    f.do("%i_next = add i64 %i, 1")
    f.jump("loop")
    f.start("finished")
    return f.end("i64 %count")


def _pack() -> str:
    f = Function("i64 @pack(ptr %fps, i64 %count, ptr %out)")
    f.jump("measure")
    f.start("measure")
    f.do("%i = phi i64 [ 1, %entry ], [ %i_next, %measured ]")
    f.do("%bits = phi i64 [ 1, %entry ], [ %bits_next, %measured ]")
    f.branch(f.op("icmp ult i64 %i, %count"), "measured", "choose")
    f.start("measured")
    f.do(f"%bits_next = or i64 %bits, {_distance(f, '%i')}")
    f.do("%i_next = add i64 %i, 1")
    f.jump("measure")
    f.start("choose")
    narrow = f.op(f"sub i64 64, {f.op('call i64 @llvm.ctlz.i64(i64 %bits, i1 false)')}")
    wide = f.op(f"icmp ugt i64 {narrow}, {WIDEST}")
    width = f.op(f"select i1 {wide}, i64 64, i64 {narrow}")
    f.jump("write")
    f.start("write")
    f.do("%k = phi i64 [ 1, %choose ], [ %k_next, %written ]")
    f.do("%place = phi i64 [ 0, %choose ], [ %place_next, %written ]")
    f.branch(f.op("icmp ult i64 %k, %count"), "written", "finished")
    f.start("written")
    distance = _distance(f, "%k")
    at = _byte(f, "%out", "%place")
    shifted = f.op(f"shl i64 {distance}, {f.op('and i64 %place, 7')}")
    held = f.op(f"load i64, ptr {at}, align 1")
    f.do(f"store i64 {f.op(f'or i64 {held}, {shifted}')}, ptr {at}, align 1")
    f.do("%k_next = add i64 %k, 1")
    f.do(f"%place_next = add i64 %place, {width}")
    f.jump("write")
    f.start("finished")
    return f.end(f"i64 {width}")


def _distance(f: Function, index: str) -> str:
    before = f.load(f.at("%fps", f.op(f"sub i64 {index}, 1")))
    return f.op(f"sub i64 {f.load(f.at('%fps', index))}, {before}")


def _byte(f: Function, pointer: str, place: str) -> str:
    """The address of the byte that holds a bit."""
    return f.op(f"getelementptr inbounds i8, ptr {pointer}, i64 {f.op(f'lshr i64 {place}, 3')}")


def _unpack() -> str:
    f = Function("void @unpack(ptr %data, i64 %first, i64 %width, i64 %count, ptr %out)")
    mask = f.op(f"lshr i64 -1, {f.op('sub i64 64, %width')}")
    f.store("%first", "%out")
    f.jump("loop")
    f.start("loop")
    f.do("%i = phi i64 [ 1, %entry ], [ %i_next, %body ]")
    f.do("%place = phi i64 [ 0, %entry ], [ %place_next, %body ]")
    f.do("%value = phi i64 [ %first, %entry ], [ %value_next, %body ]")
    f.branch(f.op("icmp ult i64 %i, %count"), "body", "finished")
    f.start("body")
    word = f.op(f"load i64, ptr {_byte(f, '%data', '%place')}, align 1")
    shift = f.op("and i64 %place, 7")
    distance = f.op(f"and i64 {f.op(f'lshr i64 {word}, {shift}')}, {mask}")
    f.do(f"%value_next = add i64 %value, {distance}")
    f.store("%value_next", f.at("%out", "%i"))
    f.do("%i_next = add i64 %i, 1")
    f.do("%place_next = add i64 %place, %width")
    f.jump("loop")
    f.start("finished")
    return f.end()


def _merge() -> str:
    """Both come in order; an empty slot, 0, is less than all. Who goes on is no branch: it cannot be foreseen."""
    f = Function("i64 @merge(ptr %table, i64 %start, i64 %end, ptr %marks, ptr %fps, i64 %count)")
    f.jump("loop")
    f.start("loop")
    f.do("%slot = phi i64 [ %start, %entry ], [ %slot_next, %onward ]")
    f.do("%i = phi i64 [ 0, %entry ], [ %i_next, %onward ]")
    f.do("%hits = phi i64 [ 0, %entry ], [ %hits_next, %onward ]")
    left = f.op(f"and i1 {f.op('icmp ult i64 %slot, %end')}, {f.op('icmp ult i64 %i, %count')}")
    f.branch(left, "body", "finished")
    f.start("body")
    held, value = f.load(f.at("%table", "%slot")), f.load(f.at("%fps", "%i"))
    f.branch(f.op(f"icmp eq i64 {held}, {value}"), "hit", "onward")
    f.start("hit")
    # Other threads mark other slots of the same word.
    word, bit = f.at("%marks", f.op("lshr i64 %slot, 6")), f.op(f"shl i64 1, {f.op('and i64 %slot, 63')}")
    f.op(f"atomicrmw or ptr {word}, i64 {bit} monotonic, align 8")
    f.jump("onward")
    f.start("onward")
    f.do("%was_hit = phi i64 [ 0, %body ], [ 1, %hit ]")
    f.do("%hits_next = add i64 %hits, %was_hit")
    behind = f.op(f"zext i1 {f.op(f'icmp ule i64 {held}, {value}')} to i64")
    ahead = f.op(f"zext i1 {f.op(f'icmp ule i64 {value}, {held}')} to i64")
    f.do(f"%slot_next = add i64 %slot, {behind}")
    f.do(f"%i_next = add i64 %i, {ahead}")
    f.jump("loop")
    f.start("finished")
    return f.end("i64 %hits")


def _fill() -> str:
    f = Function("i64 @fill(ptr %table, i64 %capacity, ptr %fps, i64 %count)")
    end = f.op(f"add i64 %capacity, {SLACK}")
    f.jump("loop")
    f.start("loop")
    f.do("%i = phi i64 [ 0, %entry ], [ %i_next, %free ]")
    f.branch(f.op("icmp ult i64 %i, %count"), "body", "finished")
    f.start("body")
    value = f.load(f.at("%fps", "%i"))
    home = f.op(f"call i64 @slot(i64 {value}, i64 %capacity)")
    f.jump("probe")
    f.start("probe")
    f.do(f"%slot = phi i64 [ {home}, %body ], [ %slot_next, %onward ]")
    place = f.at("%table", "%slot")
    held = f.load(place)
    f.branch(f.op(f"icmp eq i64 {held}, 0"), "free", "other")
    f.start("other")
    f.branch(f.op(f"icmp eq i64 {held}, {value}"), "twice", "onward")
    f.start("onward")
    f.do("%slot_next = add i64 %slot, 1")
    f.branch(f.op(f"icmp ult i64 %slot_next, {end}"), "probe", "no_room")
    f.start("free")
    f.store(value, place)
    f.do("%i_next = add i64 %i, 1")
    f.jump("loop")
    f.start("twice")
    f.do("ret i64 2")
    f.start("no_room")
    f.do("ret i64 1")
    f.start("finished")
    return f.end("i64 0")


def _held() -> str:
    f = Function("i64 @held(ptr %table, i64 %capacity, ptr %fps, i64 %count)")
    end = f.op(f"add i64 %capacity, {SLACK}")
    f.jump("loop")
    f.start("loop")
    f.do("%i = phi i64 [ 0, %entry ], [ %i_next, %looked ]")
    f.do("%found = phi i64 [ 0, %entry ], [ %found_next, %looked ]")
    f.branch(f.op("icmp ult i64 %i, %count"), "body", "finished")
    f.start("body")
    value = f.load(f.at("%fps", "%i"))
    home = f.op(f"call i64 @slot(i64 {value}, i64 %capacity)")
    f.jump("probe")
    f.start("probe")
    f.do(f"%slot = phi i64 [ {home}, %body ], [ %slot_next, %onward ]")
    held = f.load(f.at("%table", "%slot"))
    f.branch(f.op(f"icmp eq i64 {held}, {value}"), "hit", "other")
    f.start("other")
    f.branch(f.op(f"icmp eq i64 {held}, 0"), "looked", "onward")
    f.start("onward")
    f.do("%slot_next = add i64 %slot, 1")
    f.branch(f.op(f"icmp ult i64 %slot_next, {end}"), "probe", "looked")
    f.start("hit")
    f.jump("looked")
    f.start("looked")
    f.do("%more = phi i64 [ 0, %other ], [ 0, %onward ], [ 1, %hit ]")
    f.do("%found_next = add i64 %found, %more")
    f.do("%i_next = add i64 %i, 1")
    f.jump("loop")
    f.start("finished")
    return f.end("i64 %found")


__all__ = ["BLOCK", "Code", "code"]
