"""A model's machine code for the search on disk: candidates are kept as rows, and judged only when they are new.

A row is a candidate as the kernels write it: fingerprint, predecessor, and the words of the state.
"""

from __future__ import annotations

import numpy as np

from highwater.checker.engines.layout import Words
from highwater.checker.engines.native.code.machine import Machine
from highwater.checker.engines.native.code.program import Program
from highwater.checker.engines.native.text.ir import FunctionText
from highwater.checker.engines.native.text.kernels import FINGERPRINT, PREDECESSOR, WORDS
from highwater.checker.engines.native.text.runtime import CONTEXT, Runtime
from highwater.checker.engines.native.worker import Worker
from highwater.model.language.model import Model

FIELDS = {
    **CONTEXT,
    **{
        name: len(CONTEXT) + place
        for place, name in enumerate(
            (
                "rows",  # where candidates are written as rows; 0: their states are written, as elsewhere
                "marks",  # a bit for each slot of the table: its state was visited
                "lost",  # 1 when a row's fingerprint was not in the table
            )
        )
    },
}
_AHEAD = 16


class DiskRuntime(Runtime):
    """Generates the search's functions, with output as rows, and what keeps the new ones of the rows."""

    places = FIELDS

    def text(self) -> str:
        """The text of all functions."""
        return "\n".join([super().text(), self._find(), self._sift()])

    def _keep(self, f: FunctionText, candidate: str, count: str) -> str:
        """Copy a candidate to the output, as a row where that is asked; the address of its state there."""
        rows = self._pointer(f, "rows")
        whole, plain, kept = f.fresh("row"), f.fresh("state"), f.fresh("kept")
        f.branch(f.op(f"icmp ne ptr {rows}, null"), whole, plain)
        f.start(whole)
        out = f.at(rows, f.op(f"mul i64 {count}, {self.width}"))
        for word in (FINGERPRINT, PREDECESSOR, *range(WORDS, self.width)):
            f.store(f.load(f.at(candidate, word)), f.at(out, word))
        in_row = f.at(out, WORDS)
        f.jump(kept)
        f.start(plain)
        state = super()._keep(f, candidate, count)
        last = f.block
        f.jump(kept)
        f.start(kept)
        return f.join("ptr", [(in_row, whole), (state, last)])

    def _sift(self) -> str:
        """``@sift(context)``: keep the rows from start to end whose slot is not marked: they are new."""
        f = FunctionText("void @sift(ptr %context)")
        table, capacity, marks = (
            self._pointer(f, "table"),
            self._number(f, "capacity"),
            self._pointer(f, "marks"),
        )
        rows, start, end = self._pointer(f, "states"), self._number(f, "start"), self._number(f, "end")
        last = f.op(f"sub i64 {end}, 1")
        with f.each(start, end) as index:
            ahead = f.op(f"call i64 @llvm.smin.i64(i64 {f.op(f'add i64 {index}, {_AHEAD}')}, i64 {last})")
            later = f.load(f.at(rows, f.op(f"mul i64 {ahead}, {self.width}")))
            home = f.at(table, f.op(f"call i64 @slot(i64 {later}, i64 {capacity})"))
            f.do(f"call void @llvm.prefetch.p0(ptr {home}, i32 0, i32 3, i32 1)")
            row = f.at(rows, f.op(f"mul i64 {index}, {self.width}"))
            fingerprint = f.load(f.at(row, FINGERPRINT))
            slot = f.op(f"call i64 @find(ptr {table}, i64 {capacity}, i64 {fingerprint})")
            f.branch(f.op(f"icmp slt i64 {slot}, 0"), "lost", "found")
            f.start("lost")
            f.store(1, self._field(f, "lost"))
            f.jump("more")
            f.start("found")
            word = f.load(f.at(marks, f.op(f"lshr i64 {slot}, 6")))
            bit = f.op(f"shl i64 1, {f.op(f'and i64 {slot}, 63')}")
            f.branch(f.op(f"icmp eq i64 {f.op(f'and i64 {word}, {bit}')}, 0"), "new", "more")
            f.start("new")
            f.do(f"call void @emit(ptr %context, ptr {row})")
            f.jump("more")
            f.start("more")
        f.store(index, self._field(f, "start"))
        return f.end()


class RowWorker(Worker):
    """Buffers for one thread of a search on disk: it collects rows, or sifts them."""

    def __init__(self, model: Model, words: int, *, want_deadlock: bool = False) -> None:
        super().__init__(model, words, want_deadlock=want_deadlock, places=FIELDS)
        self.rows: Words = np.empty((self.capacity, WORDS + words), dtype=np.uint64)

    @property
    def bytes(self) -> int:
        """Memory of its output."""
        return super().bytes + self.rows.nbytes

    def collect(self) -> None:
        """From now on write rows, and judge nothing."""
        self["rows"], self["judging"] = self.rows.ctypes.data, 0

    def keep(self) -> None:
        """From now on write states, and judge them."""
        self["rows"], self["judging"] = 0, 1


class DiskProgram(Program):
    """Machine code for a search on disk."""

    runtime = DiskRuntime

    def bind(self, machine: Machine) -> None:
        """Take the functions from machine code."""
        super().bind(machine)
        self.sift = machine.function("sift", 1)

    def worker(self, want_deadlock: bool = False) -> RowWorker:
        """Buffers for one thread."""
        return RowWorker(self.model, self.layout.words, want_deadlock=want_deadlock)
