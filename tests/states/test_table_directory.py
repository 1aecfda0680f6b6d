"""The directory of tables: foreign files stay untouched, and run.json appears when the tables are complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra 'tables' is not installed")

from highwater.checker.base.problems import InputError
from highwater.checker.engines.columns import STATES, TRANSITIONS
from highwater.checker.tables.directory import ABOUT, TableDirectory
from tests.states.conftest import run

PART = "part-00000.parquet"
LEVEL = "level-00003-00001-0123456789ab.parquet"
SMALL = ("truncation/kip-101", "--set", "max_records=1", "--quiet")


def content(place: Path) -> dict[str, str]:
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


def tables(place: Path, text: str, *, force: bool = True) -> None:
    out = TableDirectory(str(place), force=force)
    out.clear()
    for table in (STATES, TRANSITIONS):
        (place / table).mkdir()
        (place / table / PART).write_text(text)
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


def test_new_tables_replace_earlier_ones(place: Path) -> None:
    assert content(place) == whole("one")
    assert "--force replaces the tables in it" in refused(place, force=False)
    for table in (STATES, TRANSITIONS):
        (place / table / "part-00001.parquet").write_text("one")
        (place / table / LEVEL).write_text("one")
    for name in ("search.json", "level-00003.json"):
        (place / name).write_text("of Spark's search")
    (place / "notes.txt").write_text("mine")
    tables(place, "two")
    assert content(place) == {**whole("two"), "notes.txt": "mine"}


def test_a_search_is_continued_beside_its_tables(place: Path) -> None:
    TableDirectory(str(place), force=False, resume=True)
    assert content(place) == whole("one")


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
    out = TableDirectory(str(place), force=True)
    make(place)
    before = content(place.parent)
    with pytest.raises(InputError, match=said):
        out.clear()
    assert said in refused(place)
    assert content(place.parent) == before


@pytest.mark.parametrize("wrong", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_failed_run_leaves_no_tables(
    tmp_path: Path, wrong: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(explored: Any, directory: Path, *_: object) -> None:
        (directory / STATES).mkdir()
        (directory / STATES / PART).write_text("half")
        raise wrong

    monkeypatch.setattr("highwater.checker.tables.writing.write", fail)
    status, said = run(*SMALL, "--out", tmp_path)
    if isinstance(wrong, OSError):
        assert (status, said) == (2, f"highwater: --out {tmp_path}: No space left on device\n")
    else:
        assert (status, said) == (130, "highwater: interrupted before the tables were complete\n")
    assert list(tmp_path.iterdir()) == []


def test_the_earlier_tables_stay_while_the_search_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*SMALL, "--out", tmp_path) == (0, "")
    before = sorted(tmp_path.rglob("*"))

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("highwater.checker.engines.by_name.explore", lambda name: interrupted)
    assert run(*SMALL, "--out", tmp_path, "--force")[0] == 130
    assert sorted(tmp_path.rglob("*")) == before


def test_an_unwritable_directory_is_refused_before_the_search(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: (Path(path), mode) != (place, os.W_OK))
    with pytest.raises(InputError, match="cannot be written"):
        TableDirectory(str(place), force=True)
