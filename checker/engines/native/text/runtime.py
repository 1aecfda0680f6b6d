"""The parts of the search that run beside the kernels, as LLVM text: fingerprint table, expansion, growth, walks.

All functions take one argument, a context: an array of i64 whose places CONTEXT names. Workers share the
table and nothing else; a slot is taken by compare-and-swap, and a fingerprint lies at its home slot or in the
next free one after it. Home slots grow with the fingerprint, so the table is nearly sorted, and growing it
is one sweep from its end to its start, in place.
"""

from __future__ import annotations

from highwater.checker.engines.native.text.ir import Function, signed
from highwater.checker.engines.native.text.kernels import FINGERPRINT, PREDECESSOR, PREDECESSOR_BITS, WORDS

CONTEXT = {
    name: place
    for place, name in enumerate(
        (
            "table",  # pointer to the slots
            "capacity",  # home slots; SLACK more follow
            "states",  # the states to expand, packed
            "start",  # the next of them; moved on by expand()
            "end",  # one past the last of them
            "base",  # index in its level of states[0]
            "out_states",  # new states, packed
            "out_predecessors",  # and where each came from
            "out_count",  # how many there are
            "out_capacity",  # how many there can be
            "candidates",  # room for a batch of candidates
            "counts",  # steps taken, by instance
            "cuts",  # steps cut, by bound
            "premises",  # states in which a property had something to say
            "known",  # bits of the properties whose violation was recorded
            "violations",  # pairs: index in out_states, bits
            "violation_count",
            "error",  # where a step left a type, see Kernels; 0: nowhere
            "error_state",  # index of the state where it did
            "want_deadlock",  # 1 to look for states without a step
            "deadlock",  # index of the first such state, or -1
            "full",  # 1 when the table's slack is used up
            "seed",  # of a walk
            "walk_depth",  # the most steps of a walk
            "walk_length",  # the steps it took
            "walk_path",  # their instances
            "judging",  # 1 to judge the states that are kept
            "known_steps",  # bits of the properties of steps whose violation was recorded
            "broken_steps",  # pairs: predecessor as in a candidate, bits
            "broken_count",
        )
    )
}
BATCH = 256
"""Candidates that are looked up together, so that their slots travel from memory at the same time."""
SLACK = 1 << 16
"""Slots past the last home slot, instead of going round to the first one."""


class Runtime:
    """Generates the functions around the kernels of one layout."""

    places = CONTEXT
    """The places of a context's fields."""

    def __init__(self, words: int, instances: int, canonical: str, *, of_steps: bool = False) -> None:
        self.words, self.instances, self.canonical = words, instances, canonical
        self.width = WORDS + words
        self.of_steps = of_steps

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
                self._walk(),
                self._fingerprint_all(),
            ]
        )

    def _field(self, f: Function, name: str) -> str:
        return f.at("%context", self.places[name])

    def _pointer(self, f: Function, name: str) -> str:
        return f.op(f"load ptr, ptr {self._field(f, name)}, align 8")

    def _number(self, f: Function, name: str) -> str:
        return f.load(self._field(f, name))

    def _insert(self) -> str:
        """``@insert(table, capacity, fingerprint)``: 1 new, 0 known, 2 no room."""
        f = Function("internal i64 @insert(ptr %table, i64 %capacity, i64 %fp)")
        home = f.op("call i64 @slot(i64 %fp, i64 %capacity)")
        end = f.op(f"add i64 %capacity, {SLACK}")
        f.jump("probe")
        f.start("probe")
        index = "%index"
        f.do(f"%index = phi i64 [ {home}, %entry ], [ %next, %onward ]")
        slot = f.at("%table", index)
        held = f.op(f"load atomic i64, ptr {slot} monotonic, align 8")
        f.branch(f.op(f"icmp eq i64 {held}, %fp"), "known", "other")
        f.start("other")
        f.branch(f.op(f"icmp eq i64 {held}, 0"), "free", "onward")
        f.start("free")
        pair = f.op(f"cmpxchg ptr {slot}, i64 0, i64 %fp monotonic monotonic, align 8")
        f.branch(f.op(f"extractvalue {{ i64, i1 }} {pair}, 1"), "taken", "lost")
        f.start("lost")  # another worker was faster: with the same fingerprint, or with another one
        winner = f.op(f"extractvalue {{ i64, i1 }} {pair}, 0")
        f.branch(f.op(f"icmp eq i64 {winner}, %fp"), "known", "onward")
        f.start("onward")
        f.do(f"%next = add i64 {index}, 1")
        f.branch(f.op(f"icmp ult i64 %next, {end}"), "probe", "full")
        f.start("taken")
        f.do("ret i64 1")
        f.start("known")
        f.do("ret i64 0")
        f.start("full")
        return f.end("i64 2")

    def _find(self) -> str:
        """``@find(table, capacity, fingerprint)``: the slot of a fingerprint, or -1; no one may change the table."""
        f = Function("internal i64 @find(ptr %table, i64 %capacity, i64 %fp)")
        home = f.op("call i64 @slot(i64 %fp, i64 %capacity)")
        end = f.op(f"add i64 %capacity, {SLACK}")
        f.jump("probe")
        f.start("probe")
        f.do(f"%index = phi i64 [ {home}, %entry ], [ %next, %onward ]")
        held = f.load(f.at("%table", "%index"))
        f.branch(f.op(f"icmp eq i64 {held}, %fp"), "known", "other")
        f.start("other")
        f.branch(f.op(f"icmp eq i64 {held}, 0"), "none", "onward")
        f.start("onward")
        f.do("%next = add i64 %index, 1")
        f.branch(f.op(f"icmp ult i64 %next, {end}"), "probe", "none")
        f.start("known")
        f.do("ret i64 %index")
        f.start("none")
        return f.end("i64 -1")

    def _keep(self, f: Function, candidate: str, count: str) -> str:
        """Copy a candidate to place ``count`` of the output; the address of its state there."""
        out = f.at(self._pointer(f, "out_states"), f.op(f"mul i64 {count}, {self.words}"))
        for word in range(self.words):
            f.store(f.load(f.at(candidate, WORDS + word)), f.at(out, word))
        f.store(f.load(f.at(candidate, PREDECESSOR)), f.at(self._pointer(f, "out_predecessors"), count))
        return out

    def _emit(self) -> str:
        """``@emit(context, candidate)``: keep a candidate, and judge its state where that is asked."""
        f = Function("internal void @emit(ptr %context, ptr %candidate) alwaysinline")
        count_field = self._field(f, "out_count")
        count = f.load(count_field)
        state = self._keep(f, "%candidate", count)
        f.store(f.op(f"add i64 {count}, 1"), count_field)
        judging = f.op(f"icmp ne i64 {self._number(f, 'judging')}, 0")
        with f.when(judging):
            bad = f.op(f"call i64 @judge(ptr {state}, ptr {self._pointer(f, 'premises')})")
            known_field, number_field = self._field(f, "known"), self._field(f, "violation_count")
            known = f.load(known_field)
            news = f.op(f"and i64 {bad}, {f.op(f'xor i64 {known}, -1')}")
            with f.when(f.op(f"icmp ne i64 {news}, 0")):
                f.store(f.op(f"or i64 {known}, {bad}"), known_field)
                number = f.load(number_field)
                record = f.at(self._pointer(f, "violations"), f.op(f"mul i64 {number}, 2"))
                f.store(count, record)
                f.store(news, f.at(record, 1))
                f.store(f.op(f"add i64 {number}, 1"), number_field)
        return f.end()

    def _look_up(self) -> str:
        """``@look_up(context, end)``: look up all candidates before ``end`` and keep the new ones."""
        f = Function("internal void @look_up(ptr %context, ptr %end)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        first = self._pointer(f, "candidates")
        f.jump("loop")
        f.start("loop")
        f.do(f"%candidate = phi ptr [ {first}, %entry ], [ %following, %next ]")
        f.branch(f.op("icmp ult ptr %candidate, %end"), "body", "finished")
        f.start("body")
        fingerprint = f.load(f.at("%candidate", FINGERPRINT))
        verdict = f.op(f"call i64 @insert(ptr {table}, i64 {capacity}, i64 {fingerprint})")
        f.branch(f.op(f"icmp eq i64 {verdict}, 0"), "next", "keep")
        f.start("keep")
        f.do("call void @emit(ptr %context, ptr %candidate)")
        with f.when(f.op(f"icmp eq i64 {verdict}, 2")):
            f.store(1, self._field(f, "full"))
        f.jump("next")
        f.start("next")
        f.do(f"%following = getelementptr inbounds i64, ptr %candidate, i64 {self.width}")
        f.jump("loop")
        f.start("finished")
        return f.end()

    def _fingerprints(self, f: Function, begin: str, end: str, table: str, capacity: str) -> None:
        """Fingerprint the candidates from begin to end and ask for their slots."""
        here, loop, body, done = f.block, f.fresh("hash"), f.fresh("hashing"), f.fresh("hashed")
        f.jump(loop)
        f.start(loop)
        item, following = f"%item_{loop}", f"%following_{loop}"
        f.do(f"{item} = phi ptr [ {begin}, %{here} ], [ {following}, %{body} ]")
        f.branch(f.op(f"icmp ult ptr {item}, {end}"), body, done)
        f.start(body)
        fingerprint = f.op(f"call i64 @{self.canonical}(ptr {f.at(item, WORDS)})")
        f.store(fingerprint, f.at(item, FINGERPRINT))
        slot = f.at(table, f.op(f"call i64 @slot(i64 {fingerprint}, i64 {capacity})"))
        f.do(f"call void @llvm.prefetch.p0(ptr {slot}, i32 1, i32 3, i32 1)")
        f.do(f"{following} = getelementptr inbounds i64, ptr {item}, i64 {self.width}")
        f.jump(loop)
        f.start(done)

    def _fingerprint_all(self) -> str:
        """``@fingerprint_all(states, count, out)``: the fingerprints of some packed states."""
        f = Function("void @fingerprint_all(ptr %states, i64 %count, ptr %out)")
        f.jump("loop")
        f.start("loop")
        f.do("%index = phi i64 [ 0, %entry ], [ %next, %body ]")
        f.branch(f.op("icmp ult i64 %index, %count"), "body", "finished")
        f.start("body")
        state = f.at("%states", f.op(f"mul i64 %index, {self.words}"))
        f.store(f.op(f"call i64 @{self.canonical}(ptr {state})"), f.at("%out", "%index"))
        f.do("%next = add i64 %index, 1")
        f.jump("loop")
        f.start("finished")
        return f.end()

    def _noting_steps(self) -> list[str]:
        """What notes violations by steps; nothing where the model has no property of steps."""
        return [self._note_steps()] if self.of_steps else []

    def _note_steps(self) -> str:
        """``@note_steps(context, begin, end)``: of each property of steps the first candidate that violates it is kept.

        What is kept is the candidate's predecessor. Candidates must not be fingerprinted yet.
        """
        f = Function("internal void @note_steps(ptr %context, ptr %begin, ptr %end)")
        known_field, number_field = self._field(f, "known_steps"), self._field(f, "broken_count")
        f.jump("loop")
        f.start("loop")
        f.do("%candidate = phi ptr [ %begin, %entry ], [ %following, %next ]")
        f.branch(f.op("icmp ult ptr %candidate, %end"), "body", "finished")
        f.start("body")
        broken = f.load(f.at("%candidate", FINGERPRINT))
        f.branch(f.op(f"icmp eq i64 {broken}, 0"), "next", "violated")
        f.start("violated")
        known = f.load(known_field)
        news = f.op(f"and i64 {broken}, {f.op(f'xor i64 {known}, -1')}")
        f.branch(f.op(f"icmp ne i64 {news}, 0"), "record", "next")
        f.start("record")
        f.store(f.op(f"or i64 {known}, {news}"), known_field)
        number = f.load(number_field)
        record = f.at(self._pointer(f, "broken_steps"), f.op(f"mul i64 {number}, 2"))
        f.store(f.load(f.at("%candidate", PREDECESSOR)), record)
        f.store(news, f.at(record, 1))
        f.store(f.op(f"add i64 {number}, 1"), number_field)
        f.jump("next")
        f.start("next")
        f.do(f"%following = getelementptr inbounds i64, ptr %candidate, i64 {self.width}")
        f.jump("loop")
        f.start("finished")
        return f.end()

    def _expand(self) -> str:
        """``@expand(context)``: expand states from start on, until the end or until the output is full."""
        f = Function("void @expand(ptr %context)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        states, end, base = self._pointer(f, "states"), self._number(f, "end"), self._number(f, "base")
        buffer, room = self._pointer(f, "candidates"), self._number(f, "out_capacity")
        counts, cuts = self._pointer(f, "counts"), self._pointer(f, "cuts")
        error, want = self._field(f, "error"), self._number(f, "want_deadlock")
        enabled = f.op("alloca i64, align 8")
        start_field, count_field = self._field(f, "start"), self._field(f, "out_count")
        batch_end = f.at(buffer, BATCH * self.width)
        start = f.load(start_field)
        f.jump("loop")
        f.start("loop")
        f.do(f"%index = phi i64 [ {start}, %entry ], [ %index_next, %more ]")
        f.do(f"%free = phi ptr [ {buffer}, %entry ], [ %free_next, %more ]")
        f.branch(f.op(f"icmp ult i64 %index, {end}"), "body", "finished")
        f.start("body")
        state = f.at(states, f.op(f"mul i64 %index, {self.words}"))
        number = f.op(f"add i64 {base}, %index")
        after = f.op(
            f"call ptr @successors(ptr {state}, i64 {number}, ptr %free, ptr {counts}, ptr {cuts}, ptr {error}, "
            f"ptr {enabled}, ptr {self._pointer(f, 'premises')})"
        )
        stuck = f.op(f"and i1 {f.op(f'icmp eq i64 {f.load(enabled)}, 0')}, {f.op(f'icmp ne i64 {want}, 0')}")
        with f.when(stuck):
            deadlock = self._field(f, "deadlock")
            with f.when(f.op(f"icmp slt i64 {f.load(deadlock)}, 0")):
                f.store(number, deadlock)
        f.do("%index_next = add i64 %index, 1")
        with f.when(f.op(f"icmp ne i64 {f.load(error)}, 0")):
            f.store("%index", self._field(f, "error_state"))
            f.do("ret void")
            f.start(f.fresh("unreachable"))
        if self.of_steps:
            f.do(f"call void @note_steps(ptr %context, ptr %free, ptr {after})")
        self._fingerprints(f, "%free", after, table, capacity)
        # Look up a batch when it is full.
        f.branch(f.op(f"icmp ult ptr {after}, {batch_end}"), "kept", "flush")
        f.start("flush")
        f.do(f"call void @look_up(ptr %context, ptr {after})")
        # The next batch and the successors of one state more must fit into the output.
        left = f.op(f"sub i64 {room}, {f.load(count_field)}")
        f.branch(f.op(f"icmp ult i64 {left}, {BATCH + 2 * self.instances}"), "full", "flushed")
        f.start("full")
        f.store("%index_next", start_field)
        f.do("ret void")
        f.start("flushed")
        f.jump("more")
        f.start("kept")
        f.jump("more")
        f.start("more")
        f.do(f"%free_next = phi ptr [ {buffer}, %flushed ], [ {after}, %kept ]")
        f.jump("loop")
        f.start("finished")
        f.do("call void @look_up(ptr %context, ptr %free)")
        f.store("%index", start_field)
        return f.end()

    def _admit(self) -> str:
        """``@admit(context)``: take the states from start to end as candidates of the first level."""
        f = Function("void @admit(ptr %context)")
        table, capacity = self._pointer(f, "table"), self._number(f, "capacity")
        states, end, start = self._pointer(f, "states"), self._number(f, "end"), self._number(f, "start")
        buffer = self._pointer(f, "candidates")
        after = f.at(buffer, self.width)
        f.jump("loop")
        f.start("loop")
        f.do(f"%index = phi i64 [ {start}, %entry ], [ %index_next, %more ]")
        f.branch(f.op(f"icmp ult i64 %index, {end}"), "body", "finished")
        f.start("body")
        state = f.at(states, f.op(f"mul i64 %index, {self.words}"))
        for word in range(self.words):
            f.store(f.load(f.at(state, word)), f.at(buffer, WORDS + word))
        f.store(f.op(f"shl i64 %index, {PREDECESSOR_BITS}"), f.at(buffer, PREDECESSOR))
        self._fingerprints(f, buffer, after, table, capacity)
        f.do(f"call void @look_up(ptr %context, ptr {after})")
        f.jump("more")
        f.start("more")
        f.do("%index_next = add i64 %index, 1")
        f.jump("loop")
        f.start("finished")
        return f.end()

    def _grow(self) -> str:
        """``@grow(table, old_capacity, capacity, room, room_size)``: spread over more slots; 0, or 1 for no room.

        Runs of taken slots are lifted into ``room`` from the last to the first and put back at their new
        places, which are never before the run's start: what was put back already is never in the way.
        """
        f = Function("i64 @grow(ptr %table, i64 %old, i64 %capacity, ptr %room, i64 %size)")
        last = f.op(f"add i64 %old, {SLACK - 1}")
        end = f.op(f"add i64 %capacity, {SLACK}")
        f.jump("scan")
        f.start("scan")
        f.do(f"%at = phi i64 [ {last}, %entry ], [ %before, %skip ], [ %gap, %placed ]")
        f.branch(f.op("icmp slt i64 %at, 0"), "finished", "look")
        f.start("look")
        held = f.load(f.at("%table", "%at"))
        f.branch(f.op(f"icmp eq i64 {held}, 0"), "skip", "lift")
        f.start("skip")
        f.do("%before = sub i64 %at, 1")
        f.jump("scan")
        f.start("lift")
        f.do("%from = phi i64 [ %at, %look ], [ %gap_next, %lifted ]")
        f.do("%count = phi i64 [ 0, %look ], [ %count_next, %lifted ]")
        f.branch(f.op("icmp slt i64 %from, 0"), "put", "lift_look")
        f.start("lift_look")
        slot = f.at("%table", "%from")
        value = f.load(slot)
        f.branch(f.op(f"icmp eq i64 {value}, 0"), "put", "lift_one")
        f.start("lift_one")
        f.branch(f.op("icmp ult i64 %count, %size"), "lifted", "no_room")
        f.start("lifted")
        f.store(value, f.at("%room", "%count"))
        f.store(0, slot)
        f.do("%gap_next = sub i64 %from, 1")
        f.do("%count_next = add i64 %count, 1")
        f.jump("lift")
        f.start("put")
        f.do("%gap = phi i64 [ %from, %lift ], [ %from, %lift_look ]")
        f.jump("put_loop")
        f.start("put_loop")
        f.do("%i = phi i64 [ 0, %put ], [ %i_next, %free ]")
        f.branch(f.op("icmp ult i64 %i, %count"), "put_one", "placed")
        f.start("put_one")
        fingerprint = f.load(f.at("%room", "%i"))
        home = f.op(f"call i64 @slot(i64 {fingerprint}, i64 %capacity)")
        f.do("%i_next = add i64 %i, 1")
        f.jump("probe")
        f.start("probe")
        f.do(f"%slot = phi i64 [ {home}, %put_one ], [ %slot_next, %probe_next ]")
        place = f.at("%table", "%slot")
        f.branch(f.op(f"icmp eq i64 {f.load(place)}, 0"), "free", "probe_next")
        f.start("probe_next")
        f.do("%slot_next = add i64 %slot, 1")
        f.branch(f.op(f"icmp ult i64 %slot_next, {end}"), "probe", "no_room")
        f.start("free")
        f.store(fingerprint, place)
        f.jump("put_loop")
        f.start("placed")
        f.jump("scan")
        f.start("no_room")
        f.do("ret i64 1")
        f.start("finished")
        return f.end("i64 0")

    def _walk(self) -> str:
        """``@walk(context)``: a random walk from states[start]; stops at a violation, an error or a dead end.

        The state it ends in replaces states[start]; a violation is recorded with the bits of its properties.
        """
        f = Function("void @walk(ptr %context)")
        states, start = self._pointer(f, "states"), self._number(f, "start")
        state = f.at(states, f.op(f"mul i64 {start}, {self.words}"))
        buffer, depth = self._pointer(f, "candidates"), self._number(f, "walk_depth")
        counts, cuts = self._pointer(f, "counts"), self._pointer(f, "cuts")
        premises, path = self._pointer(f, "premises"), self._pointer(f, "walk_path")
        error, violations = self._field(f, "error"), self._pointer(f, "violations")
        enabled = f.op("alloca i64, align 8")
        seed = self._number(f, "seed")
        f.jump("judge")
        f.start("judge")
        f.do("%length = phi i64 [ 0, %entry ], [ %length_next, %step ]")
        f.do(f"%random = phi i64 [ {seed}, %entry ], [ %random_next, %step ]")
        if self.of_steps:
            f.do("%broken = phi i64 [ 0, %entry ], [ %broken_next, %step ]")
            f.store("%broken", self._field(f, "known_steps"))
        f.store("%length", self._field(f, "walk_length"))
        bad = f.op(f"call i64 @judge(ptr {state}, ptr {premises})")
        both = f.op(f"or i64 {bad}, %broken") if self.of_steps else bad
        f.branch(f.op(f"icmp ne i64 {both}, 0"), "violated", "fine")
        f.start("violated")
        f.store("%length", violations)
        f.store(bad, f.at(violations, 1))
        f.store(1, self._field(f, "violation_count"))
        f.do("ret void")
        f.start("fine")
        f.branch(f.op(f"icmp ult i64 %length, {depth}"), "expand", "finished")
        f.start("expand")
        end = f.op(
            f"call ptr @successors(ptr {state}, i64 0, ptr {buffer}, ptr {counts}, ptr {cuts}, ptr {error}, "
            f"ptr {enabled}, ptr {premises})"
        )
        f.branch(f.op(f"icmp ne i64 {f.load(error)}, 0"), "finished", "choose")
        f.start("choose")
        size = f.op(f"sub i64 {f.op(f'ptrtoint ptr {end} to i64')}, {f.op(f'ptrtoint ptr {buffer} to i64')}")
        count = f.op(f"udiv i64 {size}, {8 * self.width}")
        f.branch(f.op(f"icmp eq i64 {count}, 0"), "stuck", "step")
        f.start("stuck")
        with f.when(f.op(f"icmp eq i64 {f.load(enabled)}, 0")):
            f.store("%length", self._field(f, "deadlock"))
        f.jump("finished")
        f.start("step")
        # SplitMix64: a counter and a finalizer.
        f.do(f"%random_next = add i64 %random, {signed(0x9E3779B97F4A7C15)}")
        value = "%random_next"
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            value = f.op(f"xor i64 {value}, {f.op(f'lshr i64 {value}, {shift}')}")
            value = f.op(f"mul i64 {value}, {signed(factor)}")
        value = f.op(f"xor i64 {value}, {f.op(f'lshr i64 {value}, 31')}")
        chosen = f.op(f"call i64 @slot(i64 {value}, i64 {count})")
        candidate = f.at(buffer, f.op(f"mul i64 {chosen}, {self.width}"))
        if self.of_steps:
            f.do(f"%broken_next = or i64 {f.load(f.at(candidate, FINGERPRINT))}, 0")
        for word in range(self.words):
            f.store(f.load(f.at(candidate, WORDS + word)), f.at(state, word))
        f.store(f.load(f.at(candidate, PREDECESSOR)), f.at(path, "%length"))
        f.do("%length_next = add i64 %length, 1")
        f.jump("judge")
        f.start("finished")
        return f.end()
