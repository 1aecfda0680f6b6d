"""Spilled arrays read back equal: the store against a dict, and searches that spill every level."""

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

from highwater.checker.engines.native import search
from highwater.checker.engines.native.code.program import Program
from highwater.checker.engines.native.disk import runs, visited
from highwater.checker.engines.native.disk.code import code
from highwater.checker.engines.native.disk.visited import VisitedRuns, in_order
from highwater.checker.engines.native.frontier import DataFile, KeptArray, Store
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.native.text.runtime import SLACK
from highwater.checker.engines.native.worker import Table
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model
from tests import models, zoo
from tests.native.on_disk import assert_same, explored, small_batches

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


@settings(max_examples=60)
@given(limit=st.sampled_from([0, 200, 1000]), steps=STEPS)
def test_a_store_is_a_dictionary(limit: int, steps: list[Step]) -> None:
    held_against_a_dictionary(Store(limit, None), steps)


def full_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After this number of writes, the disk is full."""
    honest, calls = DataFile.write, itertools.count()

    def write(self: DataFile, data: memoryview, offset: int) -> None:
        if next(calls) >= writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        honest(self, data, offset)

    monkeypatch.setattr(DataFile, "write", write)


@settings(max_examples=30)
@given(after=st.integers(0, 12), limit=st.sampled_from([0, 200]), steps=STEPS)
def test_a_store_is_a_dictionary_on_a_disk_that_gets_full(after: int, limit: int, steps: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        full_after(after, patch)
        held_against_a_dictionary(Store(limit, None), steps)


def test_a_file_without_arrays_is_filled_from_its_start_again(tmp_path: Path) -> None:
    store = Store(0, str(tmp_path))
    for kept in [store.put(np.arange(8, dtype=np.uint64)) for _ in range(2)]:
        store.drop(kept)
    store.put(np.arange(16, dtype=np.uint64))
    assert store.spilled_bytes == 16 * 8
    store.close()


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


def test_a_bit_that_flips_in_a_run_is_found() -> None:
    values = np.unique(np.random.default_rng(1).integers(1, 1 << 63, 5000, dtype=np.uint64))
    file = DataFile.unnamed(None)
    run = runs.written_run(file, [values])
    for _ in each_flip(file, 8 * (file.size - run.index.nbytes)):
        with pytest.raises(OSError, match="not as it was written"):
            list(run.unpacked(0, run.blocks, runs.Room()))
    assert np.concatenate(list(run.unpacked(0, run.blocks, runs.Room()))).tolist() == values.tolist()
    run.close()


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


def test_a_search_takes_the_disk_space_of_two_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Space of states that are no longer needed is reused."""
    small_batches(monkeypatch)
    model = Model(zoo.Counters({"counters": 4, "top": 12}), ())
    taken: list[NativeLevels] = []
    spilling(model, taken.append, workers=1)
    (run,) = taken
    largest = max(a.size + b.size for a, b in itertools.pairwise(run.levels))
    assert run.states.spilled_bytes <= 3 * 8 * run.program.layout.words * largest


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


def test_a_disk_without_any_room_has_no_place_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's search for a temporary directory fails too, because it writes a file."""
    import tempfile

    def nowhere(*arguments: Any, **named: Any) -> Any:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)
    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    model = models.scenario_model("truncation/kip-101")
    assert_same(spilling(model, workers=1), search(model, SearchOptions(workers=1)))


def test_a_memory_error_ends_the_search_with_a_partial_result(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models.scenario_model("truncation/kip-101")
    honest, calls = Store._hold, itertools.count()

    def short(self: Store, array: Words) -> KeptArray:
        if next(calls) >= 20:
            raise MemoryError
        return honest(self, array)

    monkeypatch.setattr(Store, "_hold", short)
    small_batches(monkeypatch)
    found = search(model, SearchOptions(workers=2))
    assert found.stopped_by == "memory"
    assert 0 < found.distinct_states < 59_788
