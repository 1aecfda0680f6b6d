"""The project's own packages as one archive that Spark gives to the executors."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import highwater

PARTS = ("model", "invariants", "checker", "traces")
ROOT = Path(highwater.__file__).parent
_BOOK = "rulebook.toml"
"""Tracing looks up the numbers of rules in it."""


def package(directory: Path) -> Path:
    """Write ``highwater.zip`` into a directory; Python imports from it as it stands."""
    path = directory / "highwater.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(ROOT.glob("*.py")):
            archive.write(file, f"highwater/{file.name}")
        for name in PARTS:
            for file in sorted(f for f in (ROOT / name).rglob("*") if f.suffix == ".py" or f.name == _BOOK):
                archive.write(file, f"highwater/{file.relative_to(ROOT).as_posix()}")
    return path


@cache
def sources() -> str:
    """A digest of the packages that decide what a search does, wherever Python imports them from."""
    digest = hashlib.sha256()
    for name in ("model", "invariants", "checker"):
        for path, file in _files(resources.files(highwater) / name, name):
            digest.update(path.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        below = f"{path}/{entry.name}"
        if below.startswith("checker/") and below.split("/")[1] != "engines":
            continue
        if entry.is_dir():
            yield from _files(entry, below)
        elif entry.name.endswith(".py"):
            yield below, entry
