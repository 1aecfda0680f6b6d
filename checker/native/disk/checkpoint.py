"""A checkpoint of the native search on disk: data files, and a manifest that says which of them count.

    manifest.json            what is explored, how far it is, and each file with its size and checksum
    visited-000012.data      fingerprints of visited states, a sorted run (``runs.py``)
    predecessors-000013.data where states came from, a word each
    states-000014.data       packed states of the two last levels
    lock                     held by the process that searches; it ends with it

The manifest is written last, beside its place, and moved there in one step. A file that it does not name was left by a
process that ended before; it means nothing and goes with the next checkpoint. What lies here is not trusted: sizes and
checksums of all files are asked for before anything is made of them, and no number is taken for a size unchecked.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from highwater.checker.native.disk.files import DataFile
from highwater.checker.problems import InputError

FORMAT = 1
MANIFEST, LOCK = "manifest.json", "lock"
_DATA = re.compile(r"(visited|predecessors|states)-([0-9]{6,12})\.data")
_MOST_MANIFEST = 1 << 28


class Checkpoint:
    """A directory that holds a search, or is to hold one. It is this process's until it is closed."""

    def __init__(self, directory: str, *, resume: bool) -> None:
        """Raises InputError where another process has it, or there is nothing to go on with, or something else."""
        self.directory = Path(directory)
        self._number = 0
        try:
            if not resume:
                self.directory.mkdir(parents=True, exist_ok=True)
                self._refuse_other_files()
            self._lock = self._locked(resume)
        except OSError as wrong:
            raise self.unusable(wrong) from None

    def _refuse_other_files(self) -> None:
        names = {entry.name for entry in self.directory.iterdir()}
        if MANIFEST in names or "run.json" in names:
            more = "; --resume goes on with it"
            raise InputError(f"--checkpoint {self.directory}: the directory holds a checkpoint already{more}")
        if any(name != LOCK and name != _beside(MANIFEST) and not _DATA.fullmatch(name) for name in names):
            raise InputError(f"--checkpoint {self.directory}: the directory holds other files")

    def _locked(self, resume: bool) -> int:
        if resume and not (self.directory / MANIFEST).is_file():
            if (self.directory / "run.json").is_file():
                raise InputError(f"--checkpoint {self.directory}: a checkpoint of --engine spark")
            raise InputError(f"--checkpoint {self.directory}: no checkpoint there")
        lock = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InputError(f"--checkpoint {self.directory}: another search is using it") from None
        return lock

    def close(self) -> None:
        """Let others have it."""
        os.close(self._lock)

    # --- writing ----------------------------------------------------------------------------------

    def new_file(self, kind: str) -> DataFile:
        """A new data file. Raises OSError."""
        while True:
            self._number += 1
            try:
                return DataFile.named(self.directory / f"{kind}-{self._number:06}.data")
            except FileExistsError:  # left by a process that ended before
                continue

    def commit(self, manifest: dict[str, Any], files: list[DataFile]) -> None:
        """Make a manifest the one that counts; ``files`` are those that may not be on the disk yet. OSError."""
        for file in files:
            file.sync()
        text = json.dumps({**manifest, "format": FORMAT}, sort_keys=True)
        temporary = self.directory / _beside(MANIFEST)
        with temporary.open("w", encoding="utf-8") as out:
            out.write(f"{text}\n{_digest(text)}\n")
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(self.directory / MANIFEST)
        folder = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def tidy(self, names: set[str]) -> None:
        """Remove all data files but these."""
        for entry in list(self.directory.iterdir()):
            if _DATA.fullmatch(entry.name) and entry.name not in names:
                entry.unlink(missing_ok=True)

    # --- reading ----------------------------------------------------------------------------------

    def manifest(self) -> dict[str, Any]:
        """The manifest that counts; InputError where it is damaged or of another version."""
        try:
            path = self.directory / MANIFEST
            if path.stat().st_size > _MOST_MANIFEST:
                raise ValueError("size")
            text, digest, end = path.read_text(encoding="utf-8").split("\n")
            if end or digest != _digest(text):
                raise ValueError("digest")
            plain = json.loads(text)
            if plain.pop("format") != FORMAT:
                raise InputError(f"--checkpoint {self.directory}: written by another version")
        except OSError as wrong:
            raise self.unusable(wrong) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self.damaged(MANIFEST) from None
        result: dict[str, Any] = plain
        return result

    def verify(self, name: str, size: int, checksum: int) -> None:
        """Read a data file to its end; InputError where it is not what the manifest says."""
        found = _DATA.fullmatch(name)
        if found is None:
            raise self.damaged(MANIFEST)
        self._number = max(self._number, int(found[2]))
        try:
            file = self.file(name, size, checksum)
            try:
                if not file.matches():
                    raise self.damaged(name)
            finally:
                file.close()
        except OSError as wrong:
            raise InputError(f"--checkpoint {self.directory}: {name}: {wrong.strerror or wrong}") from None

    def file(self, name: str, size: int, checksum: int) -> DataFile:
        """A data file that was verified, to be read. Raises OSError."""
        return DataFile.kept(self.directory / name, size, checksum)

    def damaged(self, name: str) -> InputError:
        """What to say of a file that is not what it was."""
        return InputError(f"--checkpoint {self.directory}: {name} is damaged")

    def unusable(self, wrong: OSError) -> InputError:
        """What to say where the directory cannot be written or read."""
        return InputError(f"--checkpoint {self.directory}: {wrong.strerror or wrong}")


def _beside(name: str) -> str:
    return f"{name}.tmp"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


__all__ = ["LOCK", "MANIFEST", "Checkpoint"]
