"""Projects with their own protocol and a committed baseline, for tests of ``highwater gate``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from highwater import checker
from tests.checker.conftest import _in_forks
from tests.checker.schema import problems
from tests.command import Run, highwater

__all__ = ["_in_forks"]


def git(directory: Path, *arguments: str) -> None:
    who = ["-c", "user.name=test", "-c", "user.email=test@example", "-c", "core.hooksPath=/dev/null"]
    subprocess.run(["git", *who, *arguments], cwd=directory, check=True, capture_output=True)


def gate(*arguments: str) -> Run:
    return highwater("gate", "--workers", 1, *arguments)


def gate_json(*arguments: str) -> tuple[Run, dict[str, Any]]:
    done = gate("--json", "r.json", *arguments)
    result: dict[str, Any] = json.loads(Path("r.json").read_text())
    schema = Path(checker.__file__).parent / "comparing/gate/gate.schema.json"
    assert problems(result, json.loads(schema.read_text())) == []
    return done, result


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def line_of(path: Path, text: str) -> int:
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def commit_project(tree: Path, files: dict[str, str], *selected: str) -> Path:
    for name, text in files.items():
        (tree / name).write_text(text)
    git(tree, "init", "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tree)
        done = gate("--update", *selected)
    assert done.status == 0, done.output
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "-m", "a protocol and its baseline")
    return tree


@pytest.fixture
def project(committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of the module's committed project, as the current directory."""
    git(tmp_path, "clone", "--quiet", str(committed), "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return tmp_path / "project"
