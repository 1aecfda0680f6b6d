"""States on disk: spilled arrays and runs read back equal, and searches on disk find the same as in memory."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native import runs, search, visited, worker
from highwater.checker.engines.native.frontier import DataFile, KeptArray, Level, Store
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.native.program import Program
from highwater.checker.engines.native.runs import BLOCK, Room, SortedRun, code, written_run
from highwater.checker.engines.native.runtime import SLACK
from highwater.checker.engines.native.visited import VisitedRuns, in_order
from highwater.checker.engines.native.worker import Table
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model
from tests import models, zoo
from tests.native.on_disk import assert_same, explored, on_disk, small_batches

# --- store ----------------------------------------------------------------------------------------

Step = tuple[str, int]
"""An operation on a store: put some words, drop or read an array, fill the disk, or clear."""

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 40)),
        st.tuples(st.just("drop"), st.integers(0, 1 << 16)),
        st.tuples(st.just("read"), st.integers(0, 1 << 16)),
        st.tuples(st.just("clear"), st.just(0)),
    ),
    max_size=60,
)


def held_against_a_dictionary(store: Store, steps: list[Step]) -> None:
    """Apply the steps to a store and to a dict. Raises AssertionError or OSError if they differ."""
    beside: dict[int, tuple[KeptArray, list[int]]] = {}
    numbers, values = itertools.count(), itertools.count(1)
    try:
        for what, number in steps:
            if what == "put":
                plain = [next(values) for _ in range(number)]
                beside[next(numbers)] = store.put(np.array(plain, dtype=np.uint64)), plain
            elif what == "clear":
                # Clearing forgets arrays in the file, but not those in memory.
                beside = {key: pair for key, pair in beside.items() if pair[0].array is not None}
                store.clear()
            elif beside:
                key = [*beside][number % len(beside)]
                kept, plain = beside[key]
                if what == "drop":
                    store.drop(kept)
                    del beside[key]
                else:
                    assert store.get(kept).tolist() == plain
            for kept, plain in beside.values():
                assert store.get(kept).tolist() == plain
                if plain:
                    assert store.item(kept, len(plain) // 2) == plain[len(plain) // 2]
            assert store.memory_bytes == sum(
                8 * len(plain) for kept, plain in beside.values() if kept.array is not None
            )
    finally:
        store.close()


def full_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After this number of writes, the disk is full."""
    honest, calls = DataFile.write, itertools.count()

    def write(self: DataFile, data: memoryview, offset: int) -> None:
        if next(calls) >= writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        honest(self, data, offset)

    monkeypatch.setattr(DataFile, "write", write)


@settings(max_examples=90)
@given(after=st.integers(0, 12) | st.none(), limit=st.sampled_from([0, 200, 1000]), steps=STEPS)
def test_a_store_is_a_dictionary(after: int | None, limit: int, steps: list[Step]) -> None:
    """The disk gets full ``after`` some writes, or never."""
    with pytest.MonkeyPatch.context() as patch:
        if after is not None:
            full_after(after, patch)
        held_against_a_dictionary(Store(limit, None), steps)


def each_flip(file: DataFile, size: int) -> Iterator[None]:
    """Flip 40 of the first ``size`` bits of a file, one at a time."""
    descriptor = file._file.fileno()
    for bit in Random(1).sample(range(size), 40):
        (honest,) = os.pread(descriptor, 1, bit // 8)
        os.pwrite(descriptor, bytes([honest ^ 1 << bit % 8]), bit // 8)
        yield
        os.pwrite(descriptor, bytes([honest]), bit // 8)


def test_a_bit_that_flips_in_the_file_is_found() -> None:
    store = Store(0, None)
    kept = store.put(np.arange(1000, dtype=np.uint64))
    assert store._source is not None
    for _ in each_flip(store._source, 8 * 8000):
        for ask in (lambda: store.get(kept), lambda: store.item(kept, 3)):
            with pytest.raises(OSError, match="not as it was written"):
                ask()
    assert store.get(kept).tolist() == [*range(1000)]
    store.close()


# --- visited states on disk -----------------------------------------------------------------------


@settings(max_examples=25)
@given(
    batches=st.lists(st.sets(st.integers(1, 600), max_size=120), max_size=14),
    spread=st.sampled_from([1, 1 << 40]),
)
def test_visited_states_are_a_set(batches: list[set[int]], spread: int) -> None:
    """Blocks of 16 fingerprints, so that a few hundred fill many blocks and runs are merged often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "BLOCK", 16)
        patch.setattr(visited, "BLOCK", 16)
        known, plain = VisitedRuns(lambda kind: DataFile.unnamed(None), 1), set[int]()
        try:
            for batch in batches:
                values = np.array(sorted(value * spread for value in batch), dtype=np.uint64)
                capacity = max(64, 2 * len(values))
                table = Table(None, 8 * (capacity + SLACK))
                table.capacity, table.taken = capacity, len(values)
                assert code().fill(table.address, capacity, values.ctypes.data, len(values)) == 0
                marks = np.zeros(table.most_slots // 64 + 1, dtype=np.uint64)
                new = {value * spread for value in batch} - plain
                assert known.mark(table, marks) == len(batch) - len(new)
                assert {n for part in in_order(table, marks) for n in part.tolist()} == new
                assert known.add(table, marks).count == len(new)
                known.merge()
                plain |= new
                assert known.count == len(plain)
                table.close()
        finally:
            known.close()


# --- searches -------------------------------------------------------------------------------------


def spilling(
    model: Model, change: Callable[[NativeLevels], None] = lambda run: None, **options: Any
) -> SearchResult:
    """A search that has no memory for levels, so it spills all of them."""
    asked = SearchOptions(**options)
    run = NativeLevels(Program(model, asked.symmetry), asked)
    for store in (run.states, run.predecessors):
        store._limit = 0
    change(run)
    result = explored(run)
    assert run.states.memory_bytes == 0 or run.states.failure
    return result


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", ["truncation/kip-101", "truncation/kip-320"])
def test_a_search_that_spills_at_every_level(
    name: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    model = models.scenario_model(name)
    expected = search(model, SearchOptions(workers=workers))
    found = spilling(model, workers=workers)
    assert_same(found, expected)
    assert found.spilled_bytes > 8 * found.distinct_states
    if workers == 1:
        assert found.violations == expected.violations


@pytest.mark.parametrize("after", [0, 30])
def test_a_disk_that_does_not_take_it_costs_memory_and_nothing_else(
    after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    model = models.scenario_model("truncation/kip-101")
    expected = search(model, SearchOptions(workers=2))
    full_after(after, monkeypatch)
    found = spilling(model, workers=2)
    assert found.complete
    assert found.unspilled is not None
    assert "No space left on device" in found.unspilled
    assert_same(found, expected)


# --- the on-disk search -------------------------------------------------------------------------------


SMALL = 1 << 12
"""Slots for a few batches per level."""


# --- search ---------------------------------------------------------------------------------------


def test_one_worker_finds_the_same_states_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.scenario_model("truncation/kip-101")
    small_batches(monkeypatch)
    expected = search(model, SearchOptions(workers=1, deadlock=True))
    for slots in (SMALL, 1 << 20):
        found = on_disk(model, slots=slots, workers=1, deadlock=True)
        assert_same(found, expected)
        assert found.violations == expected.violations
        assert found.spilled_bytes > 0


@pytest.mark.parametrize(("workers", "symmetry"), [(1, True), (3, False)])
def test_counts_with_and_without_symmetry(
    workers: int, symmetry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models.scenario_model("truncation/kip-101", max_records=1)
    small_batches(monkeypatch)
    expected = search(model, SearchOptions(workers=1, symmetry=symmetry))
    assert_same(on_disk(model, slots=SMALL, workers=workers, symmetry=symmetry), expected)


def test_counts_on_the_replication_protocol() -> None:
    model = models.scenario_model(
        "replication/large-operator", brokers=2, replication_factor=2, initial_isr=2, elections=0
    )
    expected = search(model, SearchOptions())
    assert expected.distinct_states == 5937
    assert_same(on_disk(model), expected)


class SmallTable(NativeLevels):
    """A search whose table is full in the middle of a level."""

    left_to_expand = 0

    def begin(self, search: BreadthFirst) -> None:
        super().begin(search)
        self.table._most = 1 << 16

    def _go_to_disk(self, level: Level) -> None:
        self.left_to_expand = len(self.items)
        super()._go_to_disk(level)


def test_it_goes_on_on_disk_in_the_middle_of_a_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch)
    monkeypatch.setattr(worker, "_FIRST_SLOTS", 1 << 16)
    options = SearchOptions(workers=1, spill_directory=str(tmp_path))
    run = SmallTable(Program(zoo.counters(4, 20, zoo.never_all_at_top)), options)
    found = explored(run)
    assert run.left_to_expand
    assert (found.distinct_states, found.depth) == (21**4, 4 * 20 + 1)
    assert found.generated_states == 1 + 4 * 20 * 21**3
    assert [(v.property, v.depth) for v in found.violations] == [("never_all_at_top", 81)]
    assert list(tmp_path.iterdir()) == []


# --- files ----------------------------------------------------------------------------------------


def fingerprints(count: int, seed: int = 0, below: int = 1 << 64) -> Words:
    return np.unique(np.random.default_rng(seed).integers(1, below, count, dtype=np.uint64))


OPEN: list[DataFile] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the files that a test made; a search closes its own."""
    yield
    while OPEN:
        OPEN.pop().close()


def new_file(_: str = "") -> DataFile:
    OPEN.append(DataFile.unnamed(None))
    return OPEN[-1]


def written(values: Words, pieces: int = 3) -> SortedRun:
    return written_run(new_file(), np.array_split(values, pieces))


def content(run: SortedRun) -> Words:
    room = Room()
    parts = [part.copy() for start, end in run.groups() for part in run.unpacked(start, end, room)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


@pytest.mark.parametrize("below", [1 << 64, 1 << 20])
@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17])
def test_a_run_is_read_as_it_was_written(count: int, below: int) -> None:
    values = fingerprints(count, below=below)
    run = written(values)
    assert (content(run) == values).all()
    again = SortedRun.read(run.file, run.blocks)
    assert (content(again) == values).all()
    assert again.count == len(values)


# --- disk errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 3, 9])
def test_a_full_disk_ends_the_search_with_a_partial_result(
    after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_after(after, monkeypatch)
    found = on_disk(models.scenario_model("truncation/kip-320"), workers=2)
    assert found.stopped_by == "disk"
    assert found.trouble is not None
    assert "No space left on device" in found.trouble
    assert found.distinct_states < 39_619
