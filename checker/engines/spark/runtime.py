"""The loops around the kernels for Spark's tasks, as LLVM text: candidates as rows that can travel.

A row is a candidate as the kernels write it: fingerprint, predecessor, the words of the state. ``@expand`` is
the native engine's, but what it keeps are rows, judged or not; ``@merge`` takes rows in the order of their
fingerprints and keeps those that no level before has; ``@remember`` fills a table again from fingerprints.

A bucket holds the fingerprints with the same first ``shift`` bits. Its table takes them without these bits,
so that home slots spread over the whole table.
"""

from __future__ import annotations

from highwater.checker.engines.native.text.ir import FunctionText
from highwater.checker.engines.native.text.kernels import FINGERPRINT, PREDECESSOR, WORDS
from highwater.checker.engines.native.text.runtime import CONTEXT, Runtime

FIELDS = {
    **CONTEXT,
    **{
        name: len(CONTEXT) + place
        for place, name in enumerate(
            (
                "rows",  # candidates to merge, or fingerprints to remember
                "order",  # their indices in the order of their fingerprints
                "total",  # how many there are
                "shift",  # the bits of a fingerprint that all of a bucket share
                "out_rows",  # what is kept
            )
        )
    },
}
"""The places of a context: the native engine's, and those of these loops."""


class RowRuntime(Runtime):
    """Generates the functions around the kernels of one layout."""

    places = FIELDS

    def text(self) -> str:
        """The text of all functions."""
        return "\n".join(
            [
                self._insert(),
                self._emit(),
                self._look_up(),
                *self._noting_steps(),
                self._expand(),
                self._admit(),
                self._grow(),
                self._fingerprint_all(),
                self._key(),
                self._find(),
                self._merge(),
                self._remember(),
            ]
        )

    def _keep(self, f: FunctionText, candidate: str, count: str) -> str:
        """Copy a whole row to place ``count`` of the output; the address of its state there."""
        out = f.at(self._pointer(f, "out_rows"), f.op(f"mul i64 {count}, {self.width}"))
        for word in range(self.width):
            f.store(f.load(f.at(candidate, word)), f.at(out, word))
        return f.at(out, WORDS)

    def _key(self) -> str:
        """``@key(fingerprint, shift)``: what a bucket's table holds for a fingerprint; never 0.

        Without its first bits a fingerprint ends in as many zeros, so 1 is no other fingerprint's key.
        """
        f = FunctionText("internal i64 @key(i64 %fp, i64 %shift) alwaysinline")
        key = f.op("shl i64 %fp, %shift")
        zero = f.op(f"icmp eq i64 {key}, 0")
        return f.end(f"i64 {f.op(f'select i1 {zero}, i64 1, i64 {key}')}")

    def _merge(self) -> str:
        """``@merge(context)``: keep the new ones of the rows from start on, in order, until ``end`` is reached.

        The table is only read. Its keys come in order, so it is read from its start to its end. Were the
        new ones put in meanwhile, its first part would be full long before it is to grow.
        Of rows with the same fingerprint the one with the least predecessor counts, wherever it was made.
        Rows with one fingerprint are taken together, also past ``end``; start moves to the next one.
        """
        f = FunctionText("void @merge(ptr %context)")
        rows, order = self._pointer(f, "rows"), self._pointer(f, "order")
        total, end, shift = self._number(f, "total"), self._number(f, "end"), self._number(f, "shift")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        start_field = self._field(f, "start")
        start = f.load(start_field)
        with f.loop(f"i64 {start}") as loop:
            (index,) = loop.values
            loop.while_(f.op(f"icmp ult i64 {index}, {end}"))
            first = self._row(f, rows, order, index)
            fingerprint = f.load(f.at(first, FINGERPRINT))
            with f.loop(f"i64 {f.op(f'add i64 {index}, 1')}", f"ptr {first}") as run:
                other, best = run.values
                run.while_(f.op(f"icmp ult i64 {other}, {total}"))
                row = self._row(f, rows, order, other)
                run.while_(f.op(f"icmp eq i64 {f.load(f.at(row, FINGERPRINT))}, {fingerprint}"))
                made = f.load(f.at(row, PREDECESSOR)), f.load(f.at(best, PREDECESSOR))
                less = f.op(f"icmp ult i64 {made[0]}, {made[1]}")
                better = f.op(f"select i1 {less}, ptr {row}, ptr {best}")
                run.again(f.op(f"add i64 {other}, 1"), better)
            key = f.op(f"call i64 @key(i64 {fingerprint}, i64 {shift})")
            slot = f.op(f"call i64 @find(ptr {table}, i64 {capacity}, i64 {key})")
            with f.when(f.op(f"icmp slt i64 {slot}, 0")):
                f.do(f"call void @emit(ptr %context, ptr {best})")
            loop.again(other)
        f.store(index, start_field)
        return f.end()

    def _row(self, f: FunctionText, rows: str, order: str, index: str) -> str:
        return f.at(rows, f.op(f"mul i64 {f.load(f.at(order, index))}, {self.width}"))

    def _remember(self) -> str:
        """``@remember(context)``: put the fingerprints from start to end into a table."""
        f = FunctionText("void @remember(ptr %context)")
        rows, shift = self._pointer(f, "rows"), self._number(f, "shift")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        start, end = self._number(f, "start"), self._number(f, "end")
        with f.each(start, end) as index:
            key = f.op(f"call i64 @key(i64 {f.load(f.at(rows, index))}, i64 {shift})")
            verdict = f.op(f"call i64 @insert(ptr {table}, i64 {capacity}, i64 {key})")
            with f.when(f.op(f"icmp eq i64 {verdict}, 2")):
                f.store(1, self._field(f, "full"))
        return f.end()
