"""A user's protocol of several files: its imports are found next to it, and nothing else is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines.spark.request import ModelRequest
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.catalogue import imported_by
from highwater.model.language import Model

MAIN = """
from highwater.language import Int, Protocol, State, Struct, action
from shared import MOST
import steps

class Mine(Protocol):
    def define(self):
        return Struct("State", n=Int(0, MOST))

    @action()
    def step(self, s: State):
        steps.up(s, MOST)
"""
STEPS = """
from highwater.language import State, require
import shared

def up(s, most):
    require("below", s.n < shared.MOST)
    s.next.n = s.n + 1
"""


def written(directory: Path, most: str = "MOST = 3") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "mine.py").write_text(MAIN)
    (directory / "steps.py").write_text(STEPS)
    (directory / "shared.py").write_text(most)
    return directory / "mine.py"


def most(path: Path) -> int:
    definition = catalogue.load_file(path)
    return Model(definition.protocol()).leaves[0].high


def test_imported_files_are_read_again_after_changes(tmp_path: Path) -> None:
    path = written(tmp_path / "one")
    assert most(path) == 3
    written(tmp_path / "one", "MOST = 5")
    assert most(path) == 5
    assert most(written(tmp_path / "two", "MOST = 7")) == 7
    assert "shared" not in sys.modules
    assert "steps" not in sys.modules


def test_a_module_that_is_there_already_is_neither_taken_nor_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = type(sys)("shared")
    monkeypatch.setitem(sys.modules, "shared", other)
    assert most(written(tmp_path)) == 3
    assert sys.modules["shared"] is other


def test_an_error_in_an_imported_file_names_its_place(tmp_path: Path) -> None:
    path = written(tmp_path, "MOST = 1 //")
    with pytest.raises(InputError, match=r"shared\.py:1: invalid syntax"):
        catalogue.load_file(path)
    written(tmp_path, "x = 1\nMOST = 1 // 0")
    with pytest.raises(InputError, match=r"shared\.py:2: ZeroDivisionError"):
        catalogue.load_file(path)
    (tmp_path / "shared.py").unlink()
    with pytest.raises(InputError, match=r"mine\.py:3: ModuleNotFoundError: No module named 'shared'"):
        catalogue.load_file(path)


def test_a_request_contains_imported_files(tmp_path: Path) -> None:
    definition = catalogue.load_file(written(tmp_path))
    assert set(imported_by(definition.protocol.__module__)) == {"shared", "steps"}
    request = ModelRequest.read(ModelRequest.of(Model(definition.protocol()), False, False).text())
    for file in tmp_path.iterdir():
        if file.is_file():
            file.unlink()
    assert request.model().leaves[0].high == 3
