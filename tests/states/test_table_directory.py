"""The directory of tables: foreign files stay untouched, and old tables stay until new ones are complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.tables import directory as module
from highwater.checker.tables.directory import ABOUT, STATES, TRANSITIONS, TableDirectory

PART = "part-00000.parquet"
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def content(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


def write(folder: Path, text: str) -> None:
    for table in (STATES, TRANSITIONS):
        (folder / table).mkdir()
        (folder / table / PART).write_text(text)


def tables(place: Path, text: str, *, force: bool = True) -> None:
    with TableDirectory(str(place), force=force) as out:
        write(out.begin(), text)
        out.finish({"text": text})


def whole(text: str) -> dict[str, str]:
    return {f"{STATES}/{PART}": text, f"{TRANSITIONS}/{PART}": text, ABOUT: f'{{\n  "text": "{text}"\n}}\n'}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the tables of an earlier run."""
    tables(tmp_path / "out", "one", force=False)
    return tmp_path / "out"


def refused(place: Path, *, force: bool = True) -> str:
    with pytest.raises(InputError) as wrong:
        tables(place, "two", force=force)
    assert "\n" not in str(wrong.value)
    return str(wrong.value)


def test_new_ones_take_the_place_of_those_before(place: Path) -> None:
    assert content(place) == whole("one")
    assert "--force replaces the tables in it" in refused(place, force=False)
    for table in (STATES, TRANSITIONS):
        (place / table / "part-00001.parquet").write_text("one")
        (place / table / ".part-00002-0123456789ab.tmp").write_text("left")
    (place / "notes.txt").write_text("mine")
    tables(place, "two")
    assert content(place) == {**whole("two"), "notes.txt": "mine"}
    assert {path.name for path in place.iterdir()} == {STATES, TRANSITIONS, ABOUT, "notes.txt"}


def test_a_table_that_is_not_written_again_goes(place: Path) -> None:
    with TableDirectory(str(place), force=True) as out:
        (out.begin() / STATES).mkdir()
        out.finish({"text": "two"})
    assert not (place / TRANSITIONS).exists()


def elsewhere(place: Path) -> None:
    (place / STATES).rename(place.parent / "elsewhere")
    (place / STATES).symlink_to(place.parent / "elsewhere")


def no_folder(place: Path) -> None:
    (place / TRANSITIONS / PART).unlink()
    (place / TRANSITIONS).rmdir()
    (place / TRANSITIONS).write_text("mine")


FOREIGN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a link": (elsewhere, "states is no folder of tables"),
    "a file": (no_folder, "transitions is no folder of tables"),
    "another file": (lambda p: (p / STATES / "notes.txt").touch(), "states holds other files: notes.txt"),
    "another folder": (lambda p: (p / TRANSITIONS / "x").mkdir(), "transitions holds other files: x"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files_are_left_alone(kind: str, place: Path) -> None:
    """The foreign file exists before the search or appears during it."""
    make, said = FOREIGN[kind]
    before: dict[str, str] = {}

    def meanwhile() -> None:
        with TableDirectory(str(place), force=True) as out:
            write(out.begin(), "two")
            make(place)
            before.update(content(place.parent))
            out.finish({"text": "two"})

    with pytest.raises(InputError, match=said):
        meanwhile()
    after = content(place.parent)
    assert after == {name: text for name, text in before.items() if "/.new-" not in name}
    assert said in refused(place)
    assert content(place.parent) == after


def test_only_leftovers_of_a_killed_run_are_removed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "x").write_text("mine")
    (place / ".new-0123456789abcdef" / STATES).mkdir(parents=True)
    (place / ".new-0123456789abcdef" / STATES / PART).write_text("half")
    (place / ".new-fedcba9876543210").symlink_to(tmp_path / "far")
    (place / ".new-mine").mkdir()
    (place / ".hidden").mkdir()
    tables(place, "two")
    left = {path.name for path in place.iterdir()}
    assert left == {STATES, TRANSITIONS, ABOUT, ".new-fedcba9876543210", ".new-mine", ".hidden"}
    assert (tmp_path / "far" / "x").read_text() == "mine"


def broken_off(place: Path, wrong: BaseException, words: str) -> None:
    """A run that fails with ``wrong`` while it writes; checks the message about what it leaves."""
    with TableDirectory(str(place), force=True) as out:
        (out.begin() / STATES).mkdir()
        assert out.left() == words
        raise wrong


@pytest.mark.parametrize("wrong", [FULL, RuntimeError("ours"), KeyboardInterrupt(), BrokenPipeError()])
def test_a_failed_run_leaves_the_earlier_tables(place: Path, wrong: BaseException) -> None:
    """A disk error gives one line; a reader of progress that goes away is no error of the directory."""
    kind = InputError if wrong is FULL else type(wrong)
    with pytest.raises(kind) as raised:
        broken_off(place, wrong, f"the tables of a run before are in {place} as they were")
    if wrong is FULL:
        assert str(raised.value) == f"--out {place}: No space left on device"
    assert content(place) == whole("one")
    assert {path.name for path in place.iterdir()} == {STATES, TRANSITIONS, ABOUT}


def test_of_a_first_run_that_is_broken_off_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        broken_off(tmp_path, RuntimeError(), f"no tables were left in {tmp_path}")
    assert list(tmp_path.iterdir()) == []


def test_metadata_is_written_before_old_tables_are_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Path.write_text

    def full(self: Path, *given: Any, **named: Any) -> int:
        if self.name == ABOUT:
            raise FULL
        return honest(self, *given, **named)

    monkeypatch.setattr(Path, "write_text", full)
    assert "No space left on device" in refused(place)
    assert content(place) == whole("one")


def test_metadata_is_put_in_place_last(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process ends at any step, the metadata describes no tables, or all that it describes exist."""
    steps: list[dict[str, str]] = []

    def watched(of: Any, name: str) -> None:
        honest = getattr(of, name)

        def step(*given: Any, **named: Any) -> Any:
            steps.append(content(place))
            try:
                return honest(*given, **named)
            finally:
                steps.append(content(place))

        monkeypatch.setattr(of, name, step)

    for name in ("rename", "replace", "unlink", "rmdir"):
        watched(Path, name)
    watched(module, "remove_files")
    tables(place, "two")
    seen = [{name: text for name, text in step.items() if not name.startswith(".new-")} for step in steps]
    assert len(seen) > 10
    for step in seen:
        assert ABOUT not in step or step in (whole("one"), whole("two"))


def test_an_unwritable_directory_is_refused_before_the_search(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: (Path(path), mode) != (place, os.W_OK))
    with pytest.raises(InputError, match="cannot be written"):
        TableDirectory(str(place), force=True)
