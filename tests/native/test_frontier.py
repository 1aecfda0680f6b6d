"""What a store of levels is given comes back, in memory and on disk, whatever was put and dropped between."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from highwater.checker.engines.native.frontier import KeptArray, Level, Store
from highwater.checker.engines.state_graph import Words


def words(rng: Random, rows: int, columns: int | None = None) -> Words:
    shape = (rows,) if columns is None else (rows, columns)
    count = rows * (columns or 1)
    return np.array([rng.getrandbits(64) for _ in range(count)], dtype=np.uint64).reshape(shape)


class Beside:
    """A store, and beside it plain copies of what it should hold."""

    def __init__(self, limit: int) -> None:
        self.limit, self.store = limit, Store(limit, None)
        self.held: list[tuple[KeptArray, Words]] = []

    def put(self, array: Words) -> None:
        self.held.append((self.store.put(array), array.copy()))
        array[:] = 0  # what is kept is a copy

    def drop(self, number: int) -> None:
        self.store.drop(self.held.pop(number)[0])

    def agrees(self) -> None:
        in_memory = 0
        for kept, plain in self.held:
            found = self.store.get(kept)
            assert found.shape == plain.shape
            assert (found == plain).all()
            assert kept.bytes == plain.nbytes
            in_memory += plain.nbytes * (kept.array is not None)
            if plain.ndim == 1:
                assert [self.store.item(kept, i) for i in range(len(plain))] == plain.tolist()
        assert self.store.memory_bytes == in_memory <= self.limit


@pytest.mark.parametrize("limit", [0, 3000, 1 << 40], ids=["all on disk", "some on disk", "all in memory"])
def test_what_was_put_is_there_until_it_is_dropped(limit: int) -> None:
    spilled = 0
    for seed in range(25):
        rng, beside = Random(seed), Beside(limit)
        columns = rng.choice([None, 1, 3])  # a store has rows of one width
        for _ in range(40):
            if beside.held and rng.random() < 0.45:
                beside.drop(rng.randrange(len(beside.held)))
            else:
                array = words(rng, rng.randint(1, 60), columns)
                beside.put(rng.choice([array, array, array[::2], np.asfortranarray(array)]))
            beside.agrees()
        spilled += beside.store.spilled_bytes
        beside.store.close()
    assert (spilled > 0) == (limit < 1 << 40)


def test_a_place_that_is_free_is_taken_again_whole_or_in_parts() -> None:
    rng, beside = Random(0), Beside(0)
    for rows in (20, 10):
        beside.put(words(rng, rows))
    beside.drop(0)
    beside.put(words(rng, 5))
    for _ in range(5):
        beside.put(words(rng, 15))
        beside.agrees()
        beside.drop(2)
    assert beside.store.spilled_bytes == 8 * 30
    beside.store.close()


def test_memory_that_is_dropped_is_there_for_what_follows() -> None:
    rng, beside = Random(0), Beside(8 * 30)
    for _ in range(9):
        beside.put(words(rng, 20))
        beside.put(words(rng, 10))
        beside.agrees()
        beside.drop(0)
        beside.drop(0)
    assert beside.store.spilled_bytes == 0


def test_a_file_that_lost_its_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    honest = tempfile.TemporaryFile

    def noted(*arguments: Any, **named: Any) -> Any:
        made.append(honest(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    store = Store(0, None)
    kept = store.put(words(Random(0), 10))
    made[0].truncate(8 * 9)
    with pytest.raises(OSError, match="shorter than it was"):
        store.get(kept)
    store.close()


def test_each_state_of_a_level_is_in_one_chunk() -> None:
    store, level = Store(1 << 20, None), Level()
    sizes = [3, 1, 4]
    for size in sizes:
        column = np.full(size, size, dtype=np.uint64)
        level.add(size, store.put(column), store.put(column))
    assert level.size == sum(sizes)
    places = [(chunk.count, index - chunk.base) for index in range(8) for chunk in [level.chunk_of(index)]]
    assert places == [(size, place) for size in sizes for place in range(size)]


def test_the_disk_gets_its_room_back_when_nothing_is_left(tmp_path: Path) -> None:
    """As after a checkpoint; what comes then begins at the start of the file."""
    store = Store(0, str(tmp_path))
    arrays = [np.full(n, n, dtype=np.uint64) for n in (3, 5)]
    kept = [store.put(array) for array in arrays]
    size = os.fstat(store._source._file.fileno()).st_size  # type: ignore[union-attr]
    assert size == sum(array.nbytes for array in arrays)
    store.drop(kept[0])
    np.testing.assert_array_equal(store.get(kept[1]), arrays[1])
    store.drop(kept[1])
    assert os.fstat(store._source._file.fileno()).st_size == 0  # type: ignore[union-attr]
    again = store.put(arrays[1])
    assert again.offset == 0
    np.testing.assert_array_equal(store.get(again), arrays[1])
    store.close()
