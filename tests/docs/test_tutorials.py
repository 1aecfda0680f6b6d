"""Tutorials: their files and commands are run in an empty directory, and come to what is shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checker.conftest import Run, highwater
from tests.checker.test_pages import plain
from tests.docs.test_language_pages import DOCS, read

TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))

__all__ = ["highwater"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_its_commands_come_to_what_is_shown(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, highwater: Callable[..., Run]
) -> None:
    page = read(path.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    for file, text in page.files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    assert page.commands
    for command, *shown in page.commands:
        said = [plain(line) for line in highwater(*shlex.split(command)[2:]).out.splitlines() if line.strip()]
        assert said == [plain(line) for line in shown if line.strip()], command


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_what_it_names_is_there(path: Path, highwater: Callable[..., Run]) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]*)?\)", text):
        assert (path.parent / target).exists(), target
    for command in re.findall(r"`highwater (show [\w.]+|list [^`]+)`", text):
        assert highwater(*shlex.split(command)).status == 0, command
