"""Checksums of files: equal when read in pieces; refused for non-files and for other sizes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from highwater.checker.base import files as checksums
from highwater.checker.base.files import checksum, is_file_with, of_descriptor
from tests.durable.waiting import without_waiting

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


def test_changed_content_has_another_checksum(path: Path) -> None:
    assert is_file_with(path, len(CONTENT), checksum(CONTENT))
    assert not is_file_with(path, len(CONTENT), checksum(CONTENT) ^ 1)
    path.write_bytes(CONTENT[:-1] + b"x")
    assert not is_file_with(path, len(CONTENT), checksum(CONTENT))


def test_only_regular_files_are_read(path: Path, tmp_path: Path) -> None:
    """A symbolic link is an error, and a pipe is not waited for."""
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic link"):
        is_file_with(tmp_path / "link", len(CONTENT), checksum(CONTENT))
    os.mkfifo(tmp_path / "pipe")
    with without_waiting():
        assert not is_file_with(tmp_path / "pipe", 0, 0)
    assert not is_file_with(tmp_path, tmp_path.stat().st_size, 0)


def test_a_larger_file_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file can be huge and take no space."""
    os.truncate(path, 1 << 40)
    monkeypatch.setattr(checksums, "of_descriptor", None)
    assert not is_file_with(path, len(CONTENT), checksum(CONTENT))
