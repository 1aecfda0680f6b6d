"""Native checkpoints on disk: synced before the manifest names them, kept until replaced, read completely."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highwater.checker.base.files import is_file_with
from highwater.checker.base.problems import InternalError
from highwater.checker.engines.native import search
from highwater.checker.engines.native.checkpoint import Checkpoint
from highwater.checker.engines.native.disk import visited
from highwater.checker.engines.native.disk.runs import written_run
from highwater.checker.engines.native.disk.visited import MOST_RUNS, Delayed, VisitedRuns, merged_run
from highwater.checker.engines.native.frontier import DataFile, SavedFile
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model
from tests import models
from tests.native.on_disk import assert_same, part, rewrite, small_batches

SCENARIO, SMALL = "truncation/kip-101", {"max_records": 1}
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def model() -> Model:
    return models.scenario_model(SCENARIO, **SMALL)


@pytest.fixture(scope="module")
def whole(model: Model) -> SearchResult:
    return search(model, SearchOptions(workers=1))


@pytest.fixture
def kept(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint on disk in the middle of a search."""
    small_batches(monkeypatch)
    part(model, "on disk", tmp_path / "kept", 3000, resume=False)
    return tmp_path / "kept"


# --- order of writes ------------------------------------------------------------------------------


def test_every_file_is_on_the_disk_before_a_manifest_names_it(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    synced: set[int] = set()
    named: list[set[str]] = []
    honest = Checkpoint.write_manifest

    def write(self: Checkpoint, name: str, plain: Mapping[str, Any]) -> None:
        files = {self.directory / file for file in plain["files"]}
        assert {file.name for file in files if file.stat().st_ino not in synced} == set()
        named.append({file.name.split("-")[0] for file in files})
        honest(self, name, plain)

    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    monkeypatch.setattr(Checkpoint, "write_manifest", write)
    part(model, "on disk", tmp_path / "kept", 3000, resume=False)
    part(model, "on disk", tmp_path / "kept", 6000)
    assert len(named) >= 2
    assert named == [{"visited", "predecessors", "states"}] * len(named)


def test_the_checkpoint_before_is_whole_until_there_is_another(
    model: Model, whole: SearchResult, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a new manifest cannot be written, all files of the old one stay."""
    with monkeypatch.context() as full:

        def fails(*given: object) -> None:
            raise FULL

        full.setattr(Checkpoint, "write_manifest", fails)
        found = part(model, "on disk", kept, 6000)
        assert found.trouble is not None
        assert "No space left on device" in found.trouble
    assert_same(part(model, "in memory", kept), whole)


def test_seconds_are_those_of_all_parts(model: Model, kept: Path) -> None:
    rewrite(kept, lambda plain: plain.update(seconds=5000.0))
    assert part(model, "in memory", kept).seconds > 5000


# --- short reads and writes -----------------------------------------------------------------------


@pytest.fixture
def _piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reads and writes at most 24 bytes per call, as it may."""
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: write(fd, data[:24], offset))
    monkeypatch.setattr(os, "preadv", lambda fd, rooms, offset: read(fd, [rooms[0][:24]], offset))


@pytest.mark.usefixtures("_piece_by_piece")
def test_arrays_are_written_and_read_whole(tmp_path: Path) -> None:
    values: Words = np.random.default_rng(1).integers(0, 1 << 63, (7, 5), dtype=np.uint64)
    found = np.empty_like(values)
    file = DataFile.named(tmp_path / "file")
    for offset in (0, values.nbytes):
        assert file.append(values) == offset
        for source in (file, SavedFile(tmp_path / "file")):
            found[:] = 0
            source.read(found, offset)
            assert (found == values).all()
    with pytest.raises(OSError, match="shorter than it was"):
        file.read(found, values.nbytes + 8)
    file.close()
    assert is_file_with(tmp_path / "file", file.size, file.checksum)


def test_a_link_is_no_file_of_a_search(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(8))
    (tmp_path / "link").symlink_to(tmp_path / "file")
    room = np.empty(1, dtype=np.uint64)
    with pytest.raises(OSError, match="symbolic link"):
        DataFile.kept(tmp_path / "link", 8, 0)
    with pytest.raises(OSError, match="symbolic link"):
        SavedFile(tmp_path / "link").read(room, 0)


def test_an_unfinished_file_is_removed_and_a_failing_close_is_ignored(tmp_path: Path) -> None:
    class Unclosable:
        def __init__(self, file: Any) -> None:
            self.fileno, self.really = file.fileno, file.close

        def close(self) -> None:
            self.really()
            raise FULL

    with pytest.raises(RuntimeError, match="midway"):
        written_run(DataFile.named(tmp_path / "run"), (_fails() for _ in range(1)))
    assert list(tmp_path.iterdir()) == []
    file = DataFile.named(tmp_path / "run")
    file._file = Unclosable(file._file)  # type: ignore[assignment]
    file.close()
    assert (tmp_path / "run").exists()


def _fails() -> Words:
    raise RuntimeError("midway")


# --- runs of visited states -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "raises"), [(errno.ENOSPC, False), (errno.EDQUOT, False), (errno.EIO, True)]
)
def test_runs_stay_as_they_are_on_a_full_disk_but_not_on_one_that_fails(
    number: int, raises: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [OSError(number, os.strerror(number))]

    def new_file(kind: str) -> DataFile:
        if wrong and len(list(tmp_path.iterdir())) > MOST_RUNS:
            raise wrong[0]
        return DataFile.named(tmp_path / f"{kind}-{os.urandom(4).hex()}")

    known = VisitedRuns(new_file, 1)
    for n in range(MOST_RUNS + 1):
        known.runs.append(written_run(new_file("visited"), [np.array([n + 1, n + 100], dtype=np.uint64)]))
    closed: list[DataFile] = []
    honest = DataFile.close
    monkeypatch.setattr(DataFile, "close", lambda self: [closed.append(self), honest(self)].pop())
    try:
        if raises:
            with pytest.raises(OSError, match="Input/output error"):
                known.merge()
        else:
            known.merge()
        assert len(known.runs) == MOST_RUNS + 1
        assert closed == []
        wrong.clear()
        before = {run.file for run in known.runs}
        known.merge()
        assert len(known.runs) <= MOST_RUNS
        assert set(closed) == before - {run.file for run in known.runs} != set(), "what was merged is closed"
        assert known.count == 2 * (MOST_RUNS + 1)
    finally:
        known.close()


def test_checked_candidates_free_their_disk_space(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    left: list[int] = []
    honest = Delayed.resolve

    def resolve(self: Delayed, *given: Any) -> None:
        honest(self, *given)
        left.append(self.candidates._end)

    monkeypatch.setattr(Delayed, "resolve", resolve)
    part(model, "on disk", tmp_path / "kept", resume=False)
    assert len(left) > 3
    assert set(left) == {0}


# --- contradictory counts -------------------------------------------------------------------------


def test_a_loss_in_a_merge_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = visited._together
    monkeypatch.setattr(visited, "_together", lambda cursors: (part[1:] for part in honest(cursors)))
    files = [DataFile.unnamed(None) for _ in range(3)]
    some = [written_run(file, [np.arange(n, 90, 2, dtype=np.uint64)]) for n, file in enumerate(files[:2], 1)]
    with pytest.raises(InternalError, match="lost when they were merged"):
        merged_run(some, lambda kind: files[2])
    for file in files:
        file.close()


IN_ORDER, MARK, SIFT = visited.in_order, VisitedRuns.mark, Delayed._sift
CONTRADICTIONS: dict[str, tuple[object, str, Any]] = {
    "lost on the way from the table to the disk": (
        visited,
        "in_order",
        lambda table, marks: (part[1:] if marks is None else part for part in IN_ORDER(table, marks)),
    ),
    "candidates were lost": (VisitedRuns, "mark", lambda self, *given: MARK(self, *given) + 1),
    "are not the same number": (Delayed, "_sift", lambda self, *given: SIFT(self, *given) + 1),
}
"""Message of an internal error → what is planted: counts of states that contradict each other."""


@pytest.mark.parametrize("said", CONTRADICTIONS)
def test_counts_that_contradict_each_other_are_an_internal_error(
    said: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    monkeypatch.setattr(*CONTRADICTIONS[said])
    with pytest.raises(InternalError, match=said):
        part(model, "on disk", tmp_path / "kept", resume=False)
