"""The loops of a search around the kernels, as LLVM text: fingerprint table, expansion, growth, walks.

Most functions take one argument, a context (``context.py``). Workers share only the table.
A fingerprint lies in its home slot or in the next free slot after it; a worker takes a slot by compare-and-swap. Home
slots grow with the fingerprint, so the table is nearly sorted. The table grows in place, in one sweep from end to
start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from highwater.checker.engines.native.context import CONTEXT
from highwater.checker.engines.native.ir import FunctionText, signed
from highwater.checker.engines.native.kernels import (
    FINGERPRINT,
    PREDECESSOR,
    PREDECESSOR_BITS,
    WORDS,
    Kernels,
    mixed_text,
)

BATCH = 256
"""The number of candidates that are looked up in a batch, so that their memory accesses overlap."""
SLACK = 1 << 16
"""The number of slots after the last home slot, so that a search for a free slot need not wrap around."""
_AHEAD = 16
"""A slot is prefetched this number of look-ups before it is used."""


@contextmanager
def probing(f: FunctionText, table: str, home: str, end: str, full: str) -> Iterator[tuple[str, str]]:
    """Context in which added code runs for each slot from ``home`` to ``end``, until the code jumps elsewhere.

    Yields the slot and its address. After the last slot the code jumps to ``full``.
    """
    with f.loop(f"i64 {home}") as probe:
        (slot,) = probe.values
        yield slot, f.at(table, slot)
        following = f.op(f"add i64 {slot}, 1")
        probe.again(following, when=f.op(f"icmp ult i64 {following}, {end}"))
    f.jump(full)


def slot_function() -> str:
    """The LLVM text of ``@slot(fingerprint, capacity)``: the home slot, which grows with the fingerprint."""
    f = FunctionText("internal i64 @slot(i64 %fp, i64 %capacity) alwaysinline")
    product = f.op(f"mul i128 {f.op('zext i64 %fp to i128')}, {f.op('zext i64 %capacity to i128')}")
    high = f.op(f"lshr i128 {product}, 64")
    return f.end(f"i64 {f.op(f'trunc i128 {high} to i64')}")


def insert_function() -> str:
    """The LLVM text of ``@insert(table, capacity, fingerprint)``, which returns 1: new, 0: known, or 2: no room."""
    f = FunctionText("internal i64 @insert(ptr %table, i64 %capacity, i64 %fp)")
    home = f.op("call i64 @slot(i64 %fp, i64 %capacity)")
    end = f.op(f"add i64 %capacity, {SLACK}")
    with probing(f, "%table", home, end, "full") as (_, slot):
        held = f.op(f"load atomic i64, ptr {slot} monotonic, align 8")
        f.branch(f.op(f"icmp eq i64 {held}, %fp"), "known", "other")
        f.start("other")
        f.branch(f.op(f"icmp eq i64 {held}, 0"), "free", "onward")
        f.start("free")
        pair = f.op(f"cmpxchg ptr {slot}, i64 0, i64 %fp monotonic monotonic, align 8")
        f.branch(f.op(f"extractvalue {{ i64, i1 }} {pair}, 1"), "taken", "lost")
        f.start("lost")  # another worker took the slot, perhaps with the same fingerprint
        winner = f.op(f"extractvalue {{ i64, i1 }} {pair}, 0")
        f.branch(f.op(f"icmp eq i64 {winner}, %fp"), "known", "onward")
        f.start("onward")
    f.start("taken")
    f.do("ret i64 1")
    f.start("known")
    f.do("ret i64 0")
    f.start("full")
    return f.end("i64 2")


def find_function() -> str:
    """The LLVM text of ``@find(table, capacity, fingerprint)``: the slot of a fingerprint, or -1.

    No thread may change the table meanwhile.
    """
    f = FunctionText("internal i64 @find(ptr %table, i64 %capacity, i64 %fp)")
    home = f.op("call i64 @slot(i64 %fp, i64 %capacity)")
    end = f.op(f"add i64 %capacity, {SLACK}")
    with probing(f, "%table", home, end, "none") as (index, slot):
        held = f.load(slot)
        f.branch(f.op(f"icmp eq i64 {held}, %fp"), "known", "other")
        f.start("known")
        f.do(f"ret i64 {index}")
        f.start("other")
        f.branch(f.op(f"icmp eq i64 {held}, 0"), "none", "onward")
        f.start("onward")
    f.start("none")
    return f.end("i64 -1")


def first_bit(f: FunctionText, bits: str) -> tuple[str, str]:
    """Write code for the number of the lowest bit of ``bits`` that is 1, and for ``bits`` without this bit."""
    below = f.op(f"sub i64 {bits}, 1")
    lowest = f.op(f"and i64 {f.op(f'xor i64 {bits}, -1')}, {below}")
    return f.op(f"call i64 @llvm.ctpop.i64(i64 {lowest})"), f.op(f"and i64 {bits}, {below}")


class Runtime:
    """Generates the LLVM functions that call the kernels.

    ``words`` is the number of words of a packed state, ``canonical`` the name of the function for its fingerprint.
    """

    def __init__(self, words: int, canonical: str, *, of_steps: bool = False) -> None:
        self.words, self.canonical = words, canonical
        self.width = WORDS + words
        self.of_steps = of_steps

    def text(self) -> str:
        """The LLVM text of all functions."""
        return "\n".join(
            [
                slot_function(),
                insert_function(),
                find_function(),
                self._emit(),
                self._judge_all(),
                self._look_up(),
                *self._noting_steps(),
                self._expand(),
                self._admit(),
                self._grow(),
                *self._walks(),
                self._fingerprint_all(),
                self._sift(),
            ]
        )

    def _field(self, f: FunctionText, name: str) -> str:
        return f.at("%context", CONTEXT[name])

    def _pointer(self, f: FunctionText, name: str) -> str:
        return f.op(f"load ptr, ptr {self._field(f, name)}, align 8")

    def _number(self, f: FunctionText, name: str) -> str:
        return f.load(self._field(f, name))

    def _keep(self, f: FunctionText, candidate: str, count: str) -> None:
        """Write code that copies a candidate to index ``count`` of the output.

        The code writes a row if the context's field ``rows`` is not 0, else a state and its predecessor.
        """
        rows = self._pointer(f, "rows")
        whole, plain, kept = f.fresh("row"), f.fresh("state"), f.fresh("kept")
        f.branch(f.op(f"icmp ne ptr {rows}, null"), whole, plain)
        f.start(whole)
        row = f.at(rows, f.op(f"mul i64 {count}, {self.width}"))
        for word in range(self.width):
            f.store(f.load(f.at(candidate, word)), f.at(row, word))
        f.jump(kept)
        f.start(plain)
        state = f.at(self._pointer(f, "out_states"), f.op(f"mul i64 {count}, {self.words}"))
        for word in range(self.words):
            f.store(f.load(f.at(candidate, WORDS + word)), f.at(state, word))
        f.store(f.load(f.at(candidate, PREDECESSOR)), f.at(self._pointer(f, "out_predecessors"), count))
        f.jump(kept)
        f.start(kept)

    def _record(self, f: FunctionText, item: str, bits: str, known: str, pairs: str, number: str) -> None:
        """Write code that appends (``item``, new bits) to an array of pairs, if some of ``bits`` are not known yet.

        The new bits then count as known. ``known``, ``pairs`` and ``number`` are names of fields of the context:
        the known bits, the array of pairs, and the array's length.
        """
        known_field, number_field = self._field(f, known), self._field(f, number)
        before = f.load(known_field)
        news = f.op(f"and i64 {bits}, {f.op(f'xor i64 {before}, -1')}")
        with f.when(f.op(f"icmp ne i64 {news}, 0")):
            f.store(f.op(f"or i64 {before}, {news}"), known_field)
            count = f.load(number_field)
            pair = f.at(self._pointer(f, pairs), f.op(f"mul i64 {count}, 2"))
            f.store(item, pair)
            f.store(news, f.at(pair, 1))
            f.store(f.op(f"add i64 {count}, 1"), number_field)

    def _call_successors(self, f: FunctionText, state: str, number: str, count: str, out: str) -> str:
        """Write code that expands up to ``count`` states. Returns the address after the last candidate."""
        return f.op(f"call ptr @successors(ptr %context, ptr {state}, i64 {number}, i64 {count}, ptr {out})")

    def _share(self, f: FunctionText, index: str, end: str) -> str:
        """Write code for the number of states that the next call of ``@successors`` expands, from ``index`` on."""
        return "1"

    @contextmanager
    def _each_slot(
        self,
        f: FunctionText,
        fingerprint: Callable[[str], str],
        beside: Callable[[str], list[str]] = lambda home: [],
    ) -> Iterator[tuple[str, str]]:
        """Context in which added code runs for each state or row from start to end. Yields index and slot.

        ``fingerprint`` writes code for the fingerprint at an index. If the table lacks the fingerprint, the field
        ``lost`` becomes 1 + index. Slots, and the addresses that ``beside`` returns for a slot, are prefetched.
        """
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        start, end = self._number(f, "start"), self._number(f, "end")
        last = f.op(f"sub i64 {end}, 1")
        with f.each(start, end) as index:
            ahead = f.op(f"add i64 {index}, {_AHEAD}")
            ahead = f.op(f"select i1 {f.op(f'icmp slt i64 {ahead}, {last}')}, i64 {ahead}, i64 {last}")
            home = f.op(f"call i64 @slot(i64 {fingerprint(ahead)}, i64 {capacity})")
            for address in (f.at(table, home), *beside(home)):
                f.do(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 3, i32 1)")
            slot = f.op(f"call i64 @find(ptr {table}, i64 {capacity}, i64 {fingerprint(index)})")
            f.branch(f.op(f"icmp slt i64 {slot}, 0"), "lost", "found")
            f.start("lost")
            f.store(f.op(f"add i64 {index}, 1"), self._field(f, "lost"))
            f.jump("more")
            f.start("found")
            yield index, slot
            f.jump("more")
            f.start("more")

    def _sift(self) -> str:
        """Write ``@sift(context)``: output the new rows from start to end.

        A row is new if the slot of its fingerprint is not marked.
        """
        f = FunctionText("void @sift(ptr %context)")
        rows, marks = self._pointer(f, "states"), self._pointer(f, "marks")
        before = self._number(f, "out_count")

        def row(index: str) -> str:
            return f.at(rows, f.op(f"mul i64 {index}, {self.width}"))

        with self._each_slot(f, lambda index: f.load(f.at(row(index), FINGERPRINT))) as (index, slot):
            word = f.load(f.at(marks, f.op(f"lshr i64 {slot}, 6")))
            bit = f.op(f"shl i64 1, {f.op(f'and i64 {slot}, 63')}")
            f.branch(f.op(f"icmp eq i64 {f.op(f'and i64 {word}, {bit}')}, 0"), "new", "more")
            f.start("new")
            f.do(f"call void @emit(ptr %context, ptr {row(index)})")
        self._judge_since(f, before)
        return f.end()

    def _emit(self) -> str:
        """Write ``@emit(context, candidate)``: output a candidate."""
        f = FunctionText("internal void @emit(ptr %context, ptr %candidate) alwaysinline")
        count_field = self._field(f, "out_count")
        count = f.load(count_field)
        self._keep(f, "%candidate", count)
        f.store(f.op(f"add i64 {count}, 1"), count_field)
        return f.end()

    def _judge_since(self, f: FunctionText, before: str) -> None:
        """Write code that, with ``judging``, checks the states that were output after the first ``before``."""
        with f.when(f.op(f"icmp ne i64 {self._number(f, 'judging')}, 0")):
            rows = self._pointer(f, "rows")
            as_rows = f.op(f"icmp ne ptr {rows}, null")
            first = f.op(
                f"select i1 {as_rows}, ptr {f.at(rows, WORDS)}, ptr {self._pointer(f, 'out_states')}"
            )
            width = f.op(f"select i1 {as_rows}, i64 {self.width}, i64 {self.words}")
            end = self._number(f, "out_count")
            f.do(f"call void @judge_all(ptr %context, ptr {first}, i64 {width}, i64 {before}, i64 {end})")

    def _judge_all(self) -> str:
        """Write ``@judge_all(context, states, width, start, end)``: check the states with these indices.

        ``width`` is the distance in words between two states.
        """
        f = FunctionText("void @judge_all(ptr %context, ptr %states, i64 %width, i64 %start, i64 %end)")
        premises = self._pointer(f, "premises")
        with f.each("%start", "%end") as index:
            state = f.at("%states", f.op(f"mul i64 {index}, %width"))
            bad = f.op(f"call i64 @judge(ptr {state}, ptr {premises})")
            self._record(f, index, bad, "known", "violations", "violation_count")
        return f.end()

    def _look_up(self) -> str:
        """Write ``@look_up(context, end)``: insert the candidates before ``end``, and output the new ones.

        If the table has no slot for a candidate, the field ``full`` becomes 1.
        """
        f = FunctionText("void @look_up(ptr %context, ptr %end)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        before = self._number(f, "out_count")
        with f.each(self._pointer(f, "candidates"), "%end", self.width) as candidate:
            fingerprint = f.load(f.at(candidate, FINGERPRINT))
            verdict = f.op(f"call i64 @insert(ptr {table}, i64 {capacity}, i64 {fingerprint})")
            with f.when(f.op(f"icmp ne i64 {verdict}, 0")):
                f.do(f"call void @emit(ptr %context, ptr {candidate})")
                with f.when(f.op(f"icmp eq i64 {verdict}, 2")):
                    f.store(1, self._field(f, "full"))
        self._judge_since(f, before)
        return f.end()

    def _fingerprints(self, f: FunctionText, begin: str, end: str, table: str, capacity: str) -> None:
        """Write code that computes the fingerprints of candidates from begin to end, and prefetches their slots."""
        with f.each(begin, end, self.width) as item:
            fingerprint = f.op(f"call i64 @{self.canonical}(ptr {f.at(item, WORDS)})")
            f.store(fingerprint, f.at(item, FINGERPRINT))
            slot = f.at(table, f.op(f"call i64 @slot(i64 {fingerprint}, i64 {capacity})"))
            f.do(f"call void @llvm.prefetch.p0(ptr {slot}, i32 1, i32 3, i32 1)")

    def _fingerprint_all(self) -> str:
        f = FunctionText("void @fingerprint_all(ptr %states, i64 %count, ptr %out)")
        with f.each(0, "%count") as index:
            state = f.at("%states", f.op(f"mul i64 {index}, {self.words}"))
            f.store(f.op(f"call i64 @{self.canonical}(ptr {state})"), f.at("%out", index))
        return f.end()

    def _noting_steps(self) -> list[str]:
        """The text of ``@note_steps``; no text if the model has no step properties."""
        return [self._note_steps()] if self.of_steps else []

    def _note_steps(self) -> str:
        """Write ``@note_steps(context, begin, end)``: record the first violation of each step property.

        It records the candidate's predecessor field. It must run before ``_fingerprints``, which overwrites the bits
        of violated properties.
        """
        f = FunctionText("internal void @note_steps(ptr %context, ptr %begin, ptr %end)")
        with f.each("%begin", "%end", self.width) as candidate:
            broken = f.load(f.at(candidate, FINGERPRINT))
            with f.when(f.op(f"icmp ne i64 {broken}, 0")):
                step = f.load(f.at(candidate, PREDECESSOR))
                self._record(f, step, broken, "known_steps", "broken_steps", "broken_count")
        return f.end()

    def _expand(self) -> str:
        """Write ``@expand(context)``: expand the states from start on, up to the end or until the output is full."""
        f = FunctionText("void @expand(ptr %context)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        states, end, base = self._pointer(f, "states"), self._number(f, "end"), self._number(f, "base")
        buffer, room = self._pointer(f, "candidates"), self._number(f, "out_capacity")
        error, want, stuck = (
            self._field(f, "error"),
            self._number(f, "want_deadlock"),
            self._field(f, "stuck"),
        )
        start_field, count_field = self._field(f, "start"), self._field(f, "out_count")
        margin, batch_end = self._number(f, "margin"), f.at(buffer, BATCH * self.width)
        start = f.load(start_field)
        with f.loop(f"i64 {start}", f"ptr {buffer}") as loop:
            index, free = loop.values
            loop.while_(f.op(f"icmp ult i64 {index}, {end}"))
            state = f.at(states, f.op(f"mul i64 {index}, {self.words}"))
            number, count = f.op(f"add i64 {base}, {index}"), self._share(f, index, end)
            after = self._call_successors(f, state, number, count, free)
            with f.when(f.op(f"icmp ne i64 {want}, 0")):
                first, deadlock = f.load(stuck), self._field(f, "deadlock")
                some, none = (
                    f.op(f"icmp ult i64 {first}, {count}"),
                    f.op(f"icmp slt i64 {f.load(deadlock)}, 0"),
                )
                with f.when(f.op(f"and i1 {some}, {none}")):
                    f.store(f.op(f"add i64 {number}, {first}"), deadlock)
            following = f.op(f"add i64 {index}, {count}")
            with f.when(f.op(f"icmp ne i64 {f.load(error)}, 0")):
                f.do("ret void")
                f.start(f.fresh("unreachable"))
            if self.of_steps:
                f.do(f"call void @note_steps(ptr %context, ptr {free}, ptr {after})")
            self._fingerprints(f, free, after, table, capacity)
            # Look up a batch when it is full.
            kept = f.block
            with f.when(f.op(f"icmp uge ptr {after}, {batch_end}")):
                f.do(f"call void @look_up(ptr %context, ptr {after})")
                # The next batch and the successors of the next states must fit into the output.
                left = f.op(f"sub i64 {room}, {f.load(count_field)}")
                f.branch(f.op(f"icmp ult i64 {left}, {margin}"), "full", "flushed")
                f.start("full")
                f.store(following, start_field)
                f.do("ret void")
                f.start("flushed")
            loop.again(following, f.join("ptr", [(buffer, "flushed"), (after, kept)]))
        f.do(f"call void @look_up(ptr %context, ptr {free})")
        f.store(index, start_field)
        return f.end()

    def _admit(self) -> str:
        """Write ``@admit(context)``: insert the initial states from start to end, and output the new ones."""
        f = FunctionText("void @admit(ptr %context)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        states, end, start = self._pointer(f, "states"), self._number(f, "end"), self._number(f, "start")
        buffer = self._pointer(f, "candidates")
        batch_end = f.at(buffer, BATCH * self.width)
        with f.loop(f"i64 {start}", f"ptr {buffer}") as loop:
            index, free = loop.values
            loop.while_(f.op(f"icmp ult i64 {index}, {end}"))
            state = f.at(states, f.op(f"mul i64 {index}, {self.words}"))
            for word in range(self.words):
                f.store(f.load(f.at(state, word)), f.at(free, WORDS + word))
            f.store(f.op(f"shl i64 {index}, {PREDECESSOR_BITS}"), f.at(free, PREDECESSOR))
            after, following = f.at(free, self.width), f.op(f"add i64 {index}, 1")
            self._fingerprints(f, free, after, table, capacity)
            kept = f.block
            with f.when(f.op(f"icmp uge ptr {after}, {batch_end}")):
                f.do(f"call void @look_up(ptr %context, ptr {after})")
                looked_up = f.block
            loop.again(following, f.join("ptr", [(buffer, looked_up), (after, kept)]))
        f.do(f"call void @look_up(ptr %context, ptr {free})")
        return f.end()

    def _grow(self) -> str:
        """Write ``@grow(table, old_capacity, capacity, room, room_size)``: spread the table over more slots.

        It returns 0, or 1 if there is no room. Sequences of taken slots move one by one, the last one first, through
        the buffer ``room``. A new place of a fingerprint is never before the start of its sequence, so it never
        overlaps a sequence that has not moved yet.
        """
        f = FunctionText("i64 @grow(ptr %table, i64 %old, i64 %capacity, ptr %room, i64 %size)")
        last = f.op(f"add i64 %old, {SLACK - 1}")
        end = f.op(f"add i64 %capacity, {SLACK}")
        with f.loop(f"i64 {last}") as scan:
            (at,) = scan.values
            scan.while_(f.op(f"icmp sge i64 {at}, 0"))
            f.branch(f.op(f"icmp eq i64 {f.load(f.at('%table', at))}, 0"), "skip", "lift")
            f.start("skip")
            scan.again(f.op(f"sub i64 {at}, 1"))
            f.start("lift")
            with f.loop(f"i64 {at}", "i64 0") as lift:
                gap, count = lift.values
                lift.while_(f.op(f"icmp sge i64 {gap}, 0"))
                slot = f.at("%table", gap)
                value = f.load(slot)
                lift.while_(f.op(f"icmp ne i64 {value}, 0"))
                f.branch(f.op(f"icmp ult i64 {count}, %size"), "lifted", "no_room")
                f.start("lifted")
                f.store(value, f.at("%room", count))
                f.store(0, slot)
                lift.again(f.op(f"sub i64 {gap}, 1"), f.op(f"add i64 {count}, 1"))
            with f.each(0, count) as index:
                fingerprint = f.load(f.at("%room", index))
                home = f.op(f"call i64 @slot(i64 {fingerprint}, i64 %capacity)")
                with probing(f, "%table", home, end, "no_room") as (_, place):
                    f.branch(f.op(f"icmp eq i64 {f.load(place)}, 0"), "free", "taken")
                    f.start("taken")
                f.start("free")
                f.store(fingerprint, place)
            scan.again(gap)
        f.do("ret i64 0")
        f.start("no_room")
        return f.end("i64 1")

    def _walks(self) -> list[str]:
        """The text of ``@walk``."""
        return [self._walk()]

    def _walk(self) -> str:
        """Write ``@walk(context)``: walk at random from states[start], for at most ``walk_depth`` steps.

        A violation, an error or a dead end ends the walk. The last state replaces states[start]. A violation is
        recorded with the bits of the violated properties.
        """
        f = FunctionText("void @walk(ptr %context)")
        states, start = self._pointer(f, "states"), self._number(f, "start")
        state = f.at(states, f.op(f"mul i64 {start}, {self.words}"))
        buffer, depth = self._pointer(f, "candidates"), self._number(f, "walk_depth")
        premises, path = self._pointer(f, "premises"), self._pointer(f, "walk_path")
        error, violations = self._field(f, "error"), self._pointer(f, "violations")
        stuck, seed = self._field(f, "stuck"), self._number(f, "seed")
        carried = ["i64 0"] if self.of_steps else []
        with f.loop("i64 0", f"i64 {seed}", *carried) as walk:
            length, random, *before = walk.values
            for broken in before:
                f.store(broken, self._field(f, "known_steps"))
            f.store(length, self._field(f, "walk_length"))
            bad = f.op(f"call i64 @judge(ptr {state}, ptr {premises})")
            both = f.op(f"or i64 {bad}, {before[0]}") if before else bad
            with f.when(f.op(f"icmp ne i64 {both}, 0")):
                f.store(length, violations)
                f.store(bad, f.at(violations, 1))
                f.store(1, self._field(f, "violation_count"))
                f.do("ret void")
                f.start(f.fresh("unreachable"))
            walk.while_(f.op(f"icmp ult i64 {length}, {depth}"))
            end = self._call_successors(f, state, "0", "1", buffer)
            walk.while_(f.op(f"icmp eq i64 {f.load(error)}, 0"))
            size = f.op(
                f"sub i64 {f.op(f'ptrtoint ptr {end} to i64')}, {f.op(f'ptrtoint ptr {buffer} to i64')}"
            )
            count = f.op(f"udiv i64 {size}, {8 * self.width}")
            f.branch(f.op(f"icmp eq i64 {count}, 0"), "stuck", "step")
            f.start("stuck")
            with f.when(f.op(f"icmp eq i64 {f.load(stuck)}, 0")):
                f.store(length, self._field(f, "deadlock"))
            walk.leave()
            f.start("step")
            following, value = mixed_text(f, random)
            chosen = f.op(f"call i64 @slot(i64 {value}, i64 {count})")
            candidate = f.at(buffer, f.op(f"mul i64 {chosen}, {self.width}"))
            broken_next = [f.load(f.at(candidate, FINGERPRINT)) for _ in before]
            for word in range(self.words):
                f.store(f.load(f.at(candidate, WORDS + word)), f.at(state, word))
            f.store(f.load(f.at(candidate, PREDECESSOR)), f.at(path, length))
            walk.again(f.op(f"add i64 {length}, 1"), following, *broken_next)
        return f.end()


class CutKernels(Kernels):
    """Kernels that also set a bit for each pruned instance, in ``cut_bits``."""

    def _cut(self, f: FunctionText, number: int, bound: str) -> None:
        super()._cut(f, number, bound)
        word = f.at(self.fields["cut_bits"], number // 64)
        f.store(f.op(f"or i64 {f.load(word)}, {signed(1 << number % 64)}"), word)


class LinkRuntime(Runtime):
    """Generates the LLVM functions of a search, and the functions that link states."""

    def text(self) -> str:
        """The text of all functions."""
        own = self._number_states(), self._note_cuts(), self._resolve(), self._link()
        return "\n".join([super().text(), *own])

    def _entry(self, f: FunctionText, slot: str) -> str:
        return f.op(f"getelementptr inbounds i32, ptr {self._pointer(f, 'numbers')}, i64 {slot}")

    def _number_states(self) -> str:
        """Write ``@number(context)``: store the numbers of the states from start to end in ``numbers``."""
        f = FunctionText("void @number(ptr %context)")
        states = self._pointer(f, "states")

        def fingerprint(index: str) -> str:
            return f.op(
                f"call i64 @{self.canonical}(ptr {f.at(states, f.op(f'mul i64 {index}, {self.words}'))})"
            )

        with self._each_slot(f, fingerprint, lambda home: [self._entry(f, home)]) as (index, slot):
            f.do(f"store i32 {f.op(f'trunc i64 {index} to i32')}, ptr {self._entry(f, slot)}, align 4")
        return f.end()

    def _note_cuts(self) -> str:
        """Write ``@note_cuts(context, place, state)``: list the pruned instances of a state, and clear their bits.

        ``place`` is the index of the state's counter, ``state`` that of its bits.
        """
        f = FunctionText("internal void @note_cuts(ptr %context, i64 %place, i64 %state)")
        words, out = self._number(f, "cut_words"), self._pointer(f, "out_cuts")
        cuts = f.at(self._pointer(f, "cut_bits"), f.op(f"mul i64 %state, {words}"))
        total_field = self._field(f, "out_cut_total")
        before = f.load(total_field)
        with f.each(0, words) as word:
            place = f.at(cuts, word)
            bits, first = f.load(place), f.op(f"mul i64 {word}, 64")
            f.store(0, place)
            with f.loop(f"i64 {bits}") as loop:
                (left,) = loop.values
                loop.while_(f.op(f"icmp ne i64 {left}, 0"))
                number, rest = first_bit(f, left)
                total = f.load(total_field)
                f.store(f.op(f"add i64 {number}, {first}"), f.at(out, total))
                f.store(f.op(f"add i64 {total}, 1"), total_field)
                loop.again(rest)
        count = f.op(f"sub i64 {f.load(total_field)}, {before}")
        f.store(count, f.at(self._pointer(f, "out_cut_counts"), "%place"))
        return f.end()

    def _resolve(self) -> str:
        """Write ``@resolve(context, end)``: look up the candidates before ``end``, and store their steps."""
        f = FunctionText("internal void @resolve(ptr %context, ptr %end)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        states, exact = self._pointer(f, "states"), self._number(f, "exact")
        first, done_field = self._pointer(f, "candidates"), self._field(f, "out_steps")
        targets, instances = self._pointer(f, "out_targets"), self._pointer(f, "out_instances")
        done = f.load(done_field)
        with f.loop(f"ptr {first}", f"i64 {done}") as loop:
            candidate, step = loop.values
            loop.while_(f.op(f"icmp ult ptr {candidate}, %end"))
            fingerprint = f.load(f.at(candidate, FINGERPRINT))
            slot = f.op(f"call i64 @find(ptr {table}, i64 {capacity}, i64 {fingerprint})")
            predecessor = f.load(f.at(candidate, PREDECESSOR))
            f.branch(f.op(f"icmp slt i64 {slot}, 0"), "lost", "found")
            f.start("lost")
            source = f.op(f"lshr i64 {predecessor}, {PREDECESSOR_BITS}")
            f.store(f.op(f"add i64 {source}, 1"), self._field(f, "lost"))
            f.do("ret void")
            f.start("found")
            number = f.op(f"zext i32 {f.op(f'load i32, ptr {self._entry(f, slot)}, align 4')} to i64")
            f.store(number, f.at(targets, step))
            f.store(f.op(f"and i64 {predecessor}, {(1 << PREDECESSOR_BITS) - 1}"), f.at(instances, step))
            target = f.at(states, f.op(f"mul i64 {number}, {self.words}"))
            f.do(f"call void @llvm.prefetch.p0(ptr {target}, i32 0, i32 3, i32 1)")
            loop.again(f.at(candidate, self.width), f.op(f"add i64 {step}, 1"))
        f.store(step, done_field)
        with f.when(f.op(f"icmp ne i64 {exact}, 0")), f.loop(f"ptr {first}", f"i64 {done}") as loop:
            candidate, step = loop.values
            loop.while_(f.op(f"icmp ult ptr {candidate}, %end"))
            number = f.load(f.at(targets, step))
            target = f.at(states, f.op(f"mul i64 {number}, {self.words}"))
            different = "0"
            for word in range(self.words):
                pair = f.load(f.at(candidate, WORDS + word)), f.load(f.at(target, word))
                different = f.op(f"or i64 {different}, {f.op(f'xor i64 {pair[0]}, {pair[1]}')}")
            with f.when(f.op(f"icmp ne i64 {different}, 0")):
                f.store(f.op(f"add i64 {number}, 1"), self._field(f, "mixed"))
            loop.again(f.at(candidate, self.width), f.op(f"add i64 {step}, 1"))
        return f.end()

    def _link(self) -> str:
        """Write ``@link(context)``: find all steps of the states from start to end."""
        f = FunctionText("void @link(ptr %context)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        states, start, end = self._pointer(f, "states"), self._number(f, "start"), self._number(f, "end")
        buffer, step_counts = self._pointer(f, "candidates"), self._pointer(f, "out_step_counts")
        batch_end = f.at(buffer, BATCH * self.width)
        with f.loop(f"i64 {start}", f"ptr {buffer}") as loop:
            index, free = loop.values
            loop.while_(f.op(f"icmp ult i64 {index}, {end}"))
            state = f.at(states, f.op(f"mul i64 {index}, {self.words}"))
            count = self._share(f, index, end)
            after = self._call_successors(f, state, index, count, free)
            first = f.op(f"sub i64 {index}, {start}")
            with f.each(0, count) as number:
                place = f.op(f"add i64 {first}, {number}")
                f.store(0, f.at(step_counts, place))
                f.do(f"call void @note_cuts(ptr %context, i64 {place}, i64 {number})")
            with f.each(free, after, self.width) as candidate:
                source = f.op(f"lshr i64 {f.load(f.at(candidate, PREDECESSOR))}, {PREDECESSOR_BITS}")
                f.bump(f.at(step_counts, f.op(f"sub i64 {source}, {start}")))
            self._fingerprints(f, free, after, table, capacity)
            kept = f.block
            with f.when(f.op(f"icmp uge ptr {after}, {batch_end}")):
                f.do(f"call void @resolve(ptr %context, ptr {after})")
                flushed = f.block
            free_next = f.join("ptr", [(buffer, flushed), (after, kept)])
            loop.again(f.op(f"add i64 {index}, {count}"), free_next)
        f.do(f"call void @resolve(ptr %context, ptr {free})")
        return f.end()
