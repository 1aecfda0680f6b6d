"""Checksums of files are equal when read in pieces. ``spark/test_manifests.py`` has files that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.checker.base import files as checksums
from highwater.checker.base.files import checksum, of_descriptor

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
