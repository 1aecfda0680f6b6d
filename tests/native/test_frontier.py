"""A store of levels returns what was put, in memory and on disk, after any other puts and drops."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highwater.checker.engines.native.frontier import Level, Store


def test_a_file_that_lost_its_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    honest = tempfile.TemporaryFile

    def noted(*arguments: Any, **named: Any) -> Any:
        made.append(honest(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    store = Store(0, None)
    kept = store.put(np.arange(10, dtype=np.uint64))
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


def test_a_file_without_arrays_is_filled_from_its_start_again(tmp_path: Path) -> None:
    store = Store(0, str(tmp_path))
    for kept in [store.put(np.arange(8, dtype=np.uint64)) for _ in range(2)]:
        store.drop(kept)
    store.put(np.arange(16, dtype=np.uint64))
    assert store.spilled_bytes == 16 * 8
    store.close()
