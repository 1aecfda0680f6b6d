"""Checkpoint directories: one owner, foreign files untouched, links not followed, manifests checked."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.checker.base import files as checksums
from highwater.checker.base.files import checksum, of_descriptor

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

from highwater.checker.base.checkpoint_directory import LOCK, CheckpointDirectory, remove_files
from highwater.checker.base.files import aside
from highwater.checker.base.problems import InputError
from highwater.checker.engines.breadth_first import Totals
from highwater.checker.engines.native.checkpoint import Checkpoint as Native
from highwater.checker.engines.spark.checkpoint import CommittedLevel
from highwater.checker.engines.spark.checkpoint import SparkCheckpoint as OnSpark

KINDS: list[type[CheckpointDirectory]] = [Native, OnSpark]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.engine)
def kind(request: pytest.FixtureRequest) -> type[CheckpointDirectory]:
    return request.param


def at(kind: type[CheckpointDirectory], directory: Path) -> CheckpointDirectory:
    """A directory without an owner."""
    found = kind.__new__(kind)
    CheckpointDirectory.__init__(found, directory)
    return found


@pytest.fixture
def kept(kind: type[CheckpointDirectory], tmp_path: Path) -> CheckpointDirectory:
    """A directory with only a head."""
    found = at(kind, tmp_path / "kept")
    found.take(resume=False)
    found.write_manifest(found.head, {"a": 1})
    found.close()
    return found


def refused(directory: CheckpointDirectory, *, resume: bool = True) -> str:
    with pytest.raises(InputError) as wrong:
        directory.take(resume=resume)
    assert "\n" not in str(wrong.value)
    return str(wrong.value)


# --- ownership ------------------------------------------------------------------------------------


def test_a_second_owner_is_refused(kept: CheckpointDirectory) -> None:
    kept.take(resume=True)
    assert "another search is using it" in refused(at(type(kept), kept.directory))
    kept.close()
    second = at(type(kept), kept.directory)
    second.take(resume=True)
    second.close()


def test_the_owner_is_one_process_and_ends_with_it(kept: CheckpointDirectory) -> None:
    code = (
        "import sys, time; from tests.durable.test_directory import KINDS, at;"
        "found = at(KINDS[int(sys.argv[1])], sys.argv[2]); found.take(resume=True);"
        "print('taken', flush=True); time.sleep(600)"
    )
    line = [sys.executable, "-c", code, str(KINDS.index(type(kept))), str(kept.directory)]
    owner = subprocess.Popen(line, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"taken\n"
    assert "another search" in refused(kept)
    owner.kill()
    owner.communicate()
    kept.take(resume=True)
    kept.close()


def test_a_directory_taken_while_waiting_for_the_lock_is_refused(
    kind: type[CheckpointDirectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole search of another process happens between the check and the lock."""
    mine, other = at(kind, tmp_path), at(kind, tmp_path)
    honest = kind._locked

    def late(self: CheckpointDirectory) -> int:
        monkeypatch.setattr(kind, "_locked", honest)
        other.take(resume=False)
        other.write_manifest(other.head, {})
        other.close()
        return honest(self)

    monkeypatch.setattr(kind, "_locked", late)
    assert "holds a checkpoint already" in refused(mine, resume=False)
    other.take(resume=True)  # a refused owner releases its lock
    other.close()
    mine.take(resume=True)
    mine.close()


def test_there_is_something_to_go_on_with(kind: type[CheckpointDirectory], tmp_path: Path) -> None:
    assert "no checkpoint there" in refused(at(kind, tmp_path))
    assert "no checkpoint there" in refused(at(kind, tmp_path / "nowhere"))
    assert not list(tmp_path.iterdir())


# --- foreign files --------------------------------------------------------------------------------


FOREIGN = ["notes.txt", "level-abc", "level-1", "visited-1.data", "exchange-x", "tab\tnew\nline"]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_name_is_one_line(kept: CheckpointDirectory, name: str) -> None:
    (kept.directory / name).mkdir()
    assert "holds other files: " in refused(kept)
    (kept.directory / name).rmdir()
    (kept.directory / name).write_text("mine")
    assert "holds other files: " in refused(kept)
    assert (kept.directory / name).read_text() == "mine"


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_a_name_of_ours_on_something_else_is_foreign(
    kept: CheckpointDirectory, tmp_path: Path, what: str
) -> None:
    """A link is not followed, and nothing waits for a pipe."""
    (kept.directory / LOCK).unlink()
    own = "states-000001.data" if kept.engine == "native" else "level-00001.json"
    for path in (kept.directory / LOCK, kept.directory / own):
        if what == "link":
            path.symlink_to(tmp_path / "made by following it")
        elif what == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()
        assert f"holds other files: {path.name}" in refused(kept)
        path.rmdir() if what == "folder" else path.unlink()
    assert not (tmp_path / "made by following it").exists()


def test_files_of_the_file_system_are_not_foreign(kept: CheckpointDirectory) -> None:
    (kept.directory / ".nfs000012").write_text("a file that somebody has open")
    kept.take(resume=True)
    kept.close()


def test_a_checkpoint_of_the_other_engine(kept: CheckpointDirectory) -> None:
    (other,) = [kind for kind in KINDS if kind is not type(kept)]
    assert f"a checkpoint of --engine {kept.engine}" in refused(at(other, kept.directory))
    assert f"a checkpoint of --engine {kept.engine}" in refused(at(other, kept.directory), resume=False)


# --- removal --------------------------------------------------------------------------------------


def test_only_own_files_are_removed_and_no_link_is_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    part = "level-00007-all-0123456789ab.parquet"
    (elsewhere / part).write_text("mine")
    found = OnSpark(tmp_path / "kept")
    found.take(resume=False)
    states = found.directory / "states"
    states.mkdir()
    (states / part).write_text("left")
    (states / "notes.txt").write_text("mine")
    (states / "level-00007-all-ffffffffffff.parquet").symlink_to(elsewhere / part)
    (found.directory / "transitions").symlink_to(elsewhere)
    found.tidy([])
    found.close()
    assert (elsewhere / part).read_text() == "mine"
    assert {entry.name for entry in states.iterdir()} == {"notes.txt"}
    assert {entry.name for entry in found.directory.iterdir()} == {LOCK, "states", "transitions"}


def test_a_committed_level_keeps_its_files_and_no_others(tmp_path: Path) -> None:
    from highwater.checker.engines.spark.checkpoint import LevelFile

    found, files = OnSpark(tmp_path), [f"level-00000-all-{n:012x}.parquet" for n in range(4)]
    found.take(resume=False)
    for folder, names in (("states", files[:2]), ("transitions", files[2:])):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_text(name)
    states, steps = ((LevelFile(None, name, 1),) for name in (files[0], files[2]))
    found.tidy([CommittedLevel(0, states, Totals(1), steps)])
    found.close()
    assert {path.name for path in tmp_path.rglob("*.parquet")} == {files[0], files[2]}


def test_a_name_of_ours_is_removed_from_files_only(kept: CheckpointDirectory) -> None:
    own = "states-000001.data" if kept.engine == "native" else "level-00001.json"
    for name in (own, "notes.txt"):
        (kept.directory / name).mkdir()
        kept.remove(name)
        (kept.directory / name).rmdir()
        (kept.directory / name).write_text("x")
        kept.remove(name)
    kept.remove(kept.head)
    kept.remove(LOCK)
    assert {entry.name for entry in kept.directory.iterdir()} == {kept.head, LOCK, "notes.txt"}


def test_unfinished_files_are_removed(kept: CheckpointDirectory) -> None:
    for name in (kept.head, "level-00001.json"):
        (kept.directory / f".{name}.0123456789abcdef.new").write_text("half")
    kept.remove_unfinished()
    left = {entry.name for entry in kept.directory.iterdir()} - {LOCK, kept.head}
    assert left == (set() if kept.engine == "spark" else {".level-00001.json.0123456789abcdef.new"})


# --- manifests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [-1, 1])
def test_a_manifest_of_another_version(
    kept: CheckpointDirectory, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(kept), "format", type(kept).format + version)
    with pytest.raises(InputError, match="written by another version"):
        kept.read_manifest(kept.head)


def test_every_flipped_bit_of_a_manifest_is_found(kept: CheckpointDirectory) -> None:
    path = kept.directory / kept.head
    honest = path.read_bytes()
    for bit in range(8 * len(honest)):
        wrong = bytearray(honest)
        wrong[bit // 8] ^= 1 << bit % 8
        path.write_bytes(wrong)
        with pytest.raises(InputError, match="is damaged"):
            kept.read_manifest(kept.head)
    path.write_bytes(honest)
    assert kept.read_manifest(kept.head) == {"a": 1}


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "1", '{"a": 1}', '{"a": 1', "null"])
def test_an_invalid_manifest_with_a_correct_digest_is_refused(kept: CheckpointDirectory, text: str) -> None:
    digest = hashlib.sha256(text.encode()).hexdigest()
    (kept.directory / kept.head).write_text(f"{text}\n{digest}\n")
    with pytest.raises(InputError, match="is damaged"):
        kept.read_manifest(kept.head)


def test_a_manifest_is_on_the_disk_and_then_its_name(
    kept: CheckpointDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary file is synced first; after the rename, the directory is."""
    synced: list[tuple[bool, bool]] = []

    def fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        named = (kept.directory / "level-00000.json").exists()
        synced.append((os.path.samestat(found, kept.directory.stat()), named))

    monkeypatch.setattr(os, "fsync", fsync)
    kept.write_manifest("level-00000.json", {})
    assert synced == [(False, False), (True, True)]


def test_a_manifest_that_is_a_link_is_not_read(kept: CheckpointDirectory, tmp_path: Path) -> None:
    path = kept.directory / kept.head
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="symbolic link"):
        kept.read_manifest(kept.head)


# --- files that are complete or absent ------------------------------------------------------------


def written(target: Path, text: str) -> None:
    with aside(target) as beside:
        beside.write_text(text)


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    written(target, "one")
    target.chmod(0o640)
    written(target, "two")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("two", 0o640)

    def fails(wrong: type[BaseException]) -> None:
        with aside(target) as beside:
            beside.write_text("half")
            assert target.read_text() == "two"
            raise wrong

    for wrong in (OSError, ValueError, KeyboardInterrupt):
        with pytest.raises(wrong):
            fails(wrong)
        assert target.read_text() == "two"
        assert list(tmp_path.iterdir()) == [target]


def test_a_pipe_or_a_device_is_written_where_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    written(tmp_path / "pipe", "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    written(Path("/dev/null"), "text")
    with (tmp_path / "output").open("wb") as out:
        written(Path(f"/proc/self/fd/{out.fileno()}"), "text")
        assert os.fstat(out.fileno()).st_ino == (tmp_path / "output").stat().st_ino, "it is open there"
    assert (tmp_path / "output").read_text() == "text"
    assert {entry.name for entry in tmp_path.iterdir()} == {"pipe", "output"}


def test_only_files_of_ours_are_removed_and_through_no_link(tmp_path: Path) -> None:
    """A folder whose name matches stays, and so does everything behind a link."""
    ours = re.compile(r"states-\d+\.data")
    there = tmp_path / "there"
    (there / "states-2.data").mkdir(parents=True)
    for name in ("states-1.data", "notes.txt", "states-3.data"):
        (there / name).write_text("x")
    (tmp_path / "link").symlink_to(there)
    remove_files(tmp_path / "link", ours)
    assert len(list(there.iterdir())) == 4
    remove_files(there, ours, frozenset({"states-3.data"}))
    assert sorted(entry.name for entry in there.iterdir()) == ["notes.txt", "states-2.data", "states-3.data"]


@pytest.mark.parametrize("synced", [True, False])
def test_a_synced_file_is_on_disk_before_it_replaces_the_target(
    synced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, seen = tmp_path / "found.json", []
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda descriptor: seen.append(target.read_text()))
    with aside(target, synced=synced) as beside:
        beside.write_text("new")
    assert seen == ["old"] * synced
    assert target.read_text() == "new"


# --- checksums of files are equal when read in pieces -------------------------------------------------


CONTENT = bytes(range(256)) * 3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "file"
    found.write_bytes(CONTENT)
    return found


@pytest.mark.parametrize("piece", [1, 7, 256, len(CONTENT), 1 << 20])
def test_a_checksum_does_not_depend_on_the_piece_size(
    piece: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "_PIECE", piece)
    with path.open("rb") as file:
        assert of_descriptor(file.fileno()) == (len(CONTENT), checksum(CONTENT))
