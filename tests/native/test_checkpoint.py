"""Checkpoints of the native search: resumed exactly; a damaged or foreign one gives one line and status 2."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from highwater.checker.base.checkpoint_directory import LOCK
from highwater.checker.base.files import is_file_with
from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.engines.native import search, visited
from highwater.checker.engines.native.checkpoint import MANIFEST, Checkpoint
from highwater.checker.engines.native.frontier import DataFile, SavedFile
from highwater.checker.engines.native.visited import Delayed, VisitedRuns
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import Progress, SearchOptions, SearchResult
from highwater.model.language import Model
from tests import models
from tests.command import highwater
from tests.native.on_disk import assert_same, manifest, part, rewrite, small_batches

SCENARIO = "truncation/kip-101"
STATES = 59_788
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def model() -> Model:
    return models.scenario_model(SCENARIO)


@pytest.fixture(scope="module")
def whole(model: Model) -> SearchResult:
    found = search(model, SearchOptions(workers=1))
    assert (found.distinct_states, len(found.violations)) == (STATES, 1)
    return found


@pytest.fixture(params=["in memory", "on disk"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The place of the search's visited set."""
    if request.param == "on disk":
        small_batches(monkeypatch)
    return str(request.param)


def same(found: SearchResult, whole: SearchResult) -> None:
    assert_same(found, whole)
    assert found.violations == whole.violations


@pytest.mark.parametrize("every", [1, 3])
def test_a_search_in_parts_is_one_search(
    every: int,
    place: str,
    model: Model,
    whole: SearchResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every level is stored, or every third."""
    asked = itertools.count()
    monkeypatch.setattr(Checkpoint, "due", property(lambda self: next(asked) % every == 0))
    for number, states in enumerate((9_000, 30_000, None)):
        found = part(model, place, tmp_path / "kept", states, resume=number > 0)
        assert found.stopped_by == ("states" if states else None)
        assert states is None or found.distinct_states > states
    same(found, whole)
    left = {p.name.split("-")[0] for p in (tmp_path / "kept").iterdir()}
    assert left == {LOCK, MANIFEST, "predecessors"}
    same(part(model, "in memory", tmp_path / "kept"), whole)


def test_ctrl_c_leaves_the_checkpoint_of_an_earlier_level(
    model: Model, whole: SearchResult, tmp_path: Path
) -> None:
    pressed: list[Progress] = []

    def press(progress: Progress) -> None:
        if not pressed:
            pressed.append(progress)
            signal.raise_signal(signal.SIGINT)

    options = SearchOptions(workers=1, checkpoint=str(tmp_path / "kept"))
    found = search(model, options, press)
    assert found.stopped_by == "interrupted"
    assert found.distinct_states < STATES
    same(part(model, "in memory", tmp_path / "kept"), whole)


# --- refused checkpoints --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def once(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        small_batches(patch)
        part(model, "on disk", directory := tmp_path_factory.mktemp("once") / "kept", 30_000, resume=False)
    for path in directory.glob("*.data"):  # of the level in which the search stopped
        if path.name not in manifest(directory)["files"]:
            path.unlink()
    return directory


@pytest.fixture
def kept(once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, to be damaged, of a checkpoint on disk with several runs and files of each kind."""
    small_batches(monkeypatch)
    return Path(shutil.copytree(once, tmp_path / "kept"))


def refused(model: Model, directory: Path, *, resume: bool = True) -> str:
    """The one-line error for a checkpoint that cannot be used."""
    with pytest.raises(InputError) as wrong:
        part(model, "in memory", directory, resume=resume)
    assert "\n" not in str(wrong.value)
    return str(wrong.value)


KINDS = ["manifest", "visited", "predecessors", "states"]


def files(directory: Path, kind: str) -> list[Path]:
    return sorted(p for p in directory.iterdir() if p.name.startswith(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_found_wherever_it_is(kind: str, model: Model, kept: Path) -> None:
    random_ = random.Random(7)
    for path in files(kept, kind):
        honest = path.read_bytes()
        places = {0, len(honest) - 1, *(random_.randrange(len(honest)) for _ in range(3))}
        for place in places:
            wrong = bytearray(honest)
            wrong[place] ^= 1 << random_.randrange(8)
            path.write_bytes(wrong)
            assert f"{path.name} is damaged" in refused(model, kept), place
        path.write_bytes(honest)
    assert part(model, "in memory", kept).distinct_states == STATES


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["shorter", "longer", "empty", "gone"])
def test_a_file_of_another_length_is_found(kind: str, change: str, model: Model, kept: Path) -> None:
    path = files(kept, kind)[-1]
    if change == "gone":
        path.unlink()
    else:
        honest = path.read_bytes()
        path.write_bytes({"shorter": honest[:-1], "longer": honest + b"\0", "empty": b""}[change])
    said = refused(model, kept)
    assert path.name in said or (change == "gone" and "no checkpoint there" in said)


def test_one_of_another_version(model: Model, kept: Path) -> None:
    rewrite(kept, lambda plain: plain.update(content="0"))
    assert "another version of the protocol or the checker" in refused(model, kept)


def test_one_of_something_else(kept: Path) -> None:
    other = models.scenario_model(SCENARIO, max_records=1)
    assert "other parameters: max_records was 2, is 1" in refused(other, kept)
    assert "other protocol: then truncation, now promise" in refused(
        models.scenario_model("promise/clients"), kept
    )
    with pytest.raises(InputError, match="other symmetry"):
        part(models.scenario_model(SCENARIO), "in memory", kept, symmetry=True)


def test_leftovers_of_a_killed_process_are_removed(model: Model, whole: SearchResult, kept: Path) -> None:
    (kept / "visited-999990.data").write_bytes(b"half")
    unfinished = kept / f".{MANIFEST}.0123456789abcdef.new"
    unfinished.write_text("half")
    same(part(model, "in memory", kept), whole)
    assert not (kept / "visited-999990.data").exists()
    assert not unfinished.exists()
    # Without a manifest, a search can start anew in the directory.
    (kept / MANIFEST).unlink()
    same(part(model, "in memory", kept, resume=False), whole)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Data files accept this many more arrays; then the disk is full."""
    left = [0]
    honest = DataFile.append

    def full(self: DataFile, array: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise FULL
        return honest(self, array)

    monkeypatch.setattr(DataFile, "append", full)
    return left


def test_a_full_disk_keeps_the_checkpoint_before(
    model: Model, whole: SearchResult, kept: Path, full_disk: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk[0] = 3
    found = part(model, "in memory", kept, 40_000)
    assert found.stopped_by == "disk"
    assert STATES > found.distinct_states > 30_000
    assert found.trouble is not None
    assert "No space left on device" in found.trouble
    full_disk[0] = 10**9
    same(part(model, "in memory", kept), whole)


# --- command --------------------------------------------------------------------------------------


def run(*arguments: object) -> tuple[int, str]:
    found = highwater("check", *arguments)
    return found.status, found.output


def test_the_command_reports_errors_in_one_line(kept: Path) -> None:
    keep = ("--checkpoint", kept)
    for arguments, words in (
        ((SCENARIO, *keep), "holds a checkpoint already"),
        (("truncation/kip-279", *keep, "--resume"), "made with other rules"),
        ((SCENARIO, "--resume"), "--resume: name the --checkpoint"),
        ((SCENARIO, "truncation/kip-279", *keep), "name one scenario"),
        ((SCENARIO, *keep, "--resume", "--engine", "interpreter"), "interpreter engine keeps none"),
    ):
        status, said = run(*arguments)
        assert (status, said.count("\n")) == (2, 1), said
        assert words in said
    status, said = run(SCENARIO, *keep, "--resume")
    assert status == 0
    assert f"{STATES:,}" in said


# --- native checkpoints on disk -----------------------------------------------------------------------


SMALL = {"max_records": 1}


@pytest.fixture(scope="module")
def small_model() -> Model:
    return models.scenario_model(SCENARIO, **SMALL)


# --- order of writes ------------------------------------------------------------------------------


def test_every_file_is_on_the_disk_before_a_manifest_names_it(
    small_model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    part(small_model, "on disk", tmp_path / "kept", 3000, resume=False)
    part(small_model, "on disk", tmp_path / "kept", 6000)
    assert len(named) >= 2
    assert named == [{"visited", "predecessors", "states"}] * len(named)


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


# --- contradictory counts -------------------------------------------------------------------------


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
    said: str, small_model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    monkeypatch.setattr(*CONTRADICTIONS[said])
    with pytest.raises(InternalError, match=said):
        part(small_model, "on disk", tmp_path / "kept", resume=False)
