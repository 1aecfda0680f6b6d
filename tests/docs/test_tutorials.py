"""Tutorials, the replay page and the README: their commands run in an empty directory and print the shown output."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.checker.conftest import _in_forks
from tests.command import highwater
from tests.docs.test_language_pages import DOCS
from tests.docs.tutorial import REPOSITORY, done, shell

ON_KAFKA = DOCS / "tutorials" / "a-kafka-branch.md"
"""The tutorial that needs Kafka; tests/conform runs it, and the README's command that does."""
README = DOCS.parent / "README.md"
TUTORIALS = [
    *sorted({*(DOCS / "tutorials").glob("*.md")} - {ON_KAFKA}),
    DOCS / "replay.md",
    README,
]

__all__ = ["_in_forks"]


@pytest.fixture(autouse=True)
def _in_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in REPOSITORY.items():
        monkeypatch.setenv(name, value)
    assert shell("git init --quiet --initial-branch main", tmp_path).status == 0


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_commands_print_the_shown_output(path: Path, tmp_path: Path) -> None:
    assert done(path, tmp_path) >= 2


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_named_entries_exist(path: Path) -> None:
    for command in re.findall(r"`highwater (show [\w.]+|list [^`]+)`", path.read_text()):
        assert highwater(*shlex.split(command)).status == 0, command
