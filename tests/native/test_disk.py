"""The on-disk search: same results as in memory for any batches, and its files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from docs.bench.measure import highwater
from highwater.checker.base.problems import InternalError
from highwater.checker.engines.breadth_first import BreadthFirst
from highwater.checker.engines.native import search, worker
from highwater.checker.engines.native.code.program import Program
from highwater.checker.engines.native.disk.code import BLOCK
from highwater.checker.engines.native.disk.runs import DamagedError, Room, SortedRun, written_run
from highwater.checker.engines.native.frontier import DataFile, Level
from highwater.checker.engines.native.levels import NativeLevels
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import SearchOptions
from tests import models, zoo
from tests.native.on_disk import assert_same, explored, on_disk, small_batches
from tests.native.test_spill import full_after
from tests.slow import slow

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


def test_a_limit_on_states_includes_unchecked_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    model = zoo.counters(4, 30)
    monkeypatch.setattr("highwater.checker.engines.native.disk.visited._LEAST", 1000)
    found = on_disk(model, limit_states=100_000, workers=1)
    assert found.stopped_by == "states"
    assert 100_000 < found.distinct_states < 140_000
    assert found.generated_states == 1 + sum(found.actions.values())


@slow("explores 1.8 million states in a process of its own")
def test_the_memory_of_the_process_is_bounded() -> None:
    """1.8 million states of 24 bytes with 17 successors each need more than twice the limit in memory."""
    case = ("check", "truncation/kip-320", "--set", "replicas=4", "--limit-states", "1800000")
    idle = highwater(("check", "truncation/kip-320", "--set", "max_leader_epoch=0")).memory
    given = 48 << 20
    kept = highwater((*case, "--memory", str(given / 2**30)))
    assert kept.results[0]["distinct_states"] > 0
    assert kept.memory - idle < given + (40 << 20)


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


def test_fingerprints_take_fewer_bytes_than_eight() -> None:
    values = fingerprints(1 << 17, below=1 << 61)
    assert written(values).file.size < 6.2 * len(values)


def test_a_run_out_of_order_is_refused() -> None:
    for wrong in ([5, 5], [5, 4]):
        with pytest.raises(InternalError, match="out of order"):
            written(np.array(wrong, dtype=np.uint64), pieces=1)
        with pytest.raises(InternalError, match="out of order"):
            written(np.array(wrong, dtype=np.uint64), pieces=2)


@pytest.mark.parametrize(
    ("row", "column", "value", "between"),
    [(1, 0, 1, 0), (0, 1, 0, 0), (0, 1, BLOCK + 1, 0), (1, 2, 60, 0), (1, 3, 8, 0), (0, 3, 0, 1)],
)
def test_an_index_that_cannot_be_is_refused(row: int, column: int, value: int, between: int) -> None:
    """In the last case, only a word between the blocks and the index is too much."""
    run = written(fingerprints(3 * BLOCK))
    index = run.index.copy()
    index[row, column] = value
    file = new_file()
    body = np.empty((run.file.size - index.nbytes) // 8, dtype=np.uint64)
    run.file.read(body, 0)
    for part in (body, np.zeros(between, dtype=np.uint64), index):
        file.append(part)
    with pytest.raises(DamagedError):
        SortedRun.read(file, run.blocks)
    with pytest.raises(DamagedError):
        SortedRun.read(run.file, run.blocks + 10**6)


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
