"""A checkpoint of the native search on disk: data files, and a manifest that says which of them count.

    manifest.json            what is explored, how far it is, and each file with its size and checksum
    visited-000012.data      fingerprints of visited states, a sorted run (``runs.py``)
    predecessors-000013.data where states came from, a word each
    states-000014.data       packed states of the two last levels
    lock                     held by the process that searches; it ends with it

The manifest is written last (``durable/directory.py``). A file that it does not name was left by a process that ended
before; it means nothing and goes with the next checkpoint. What lies here is not trusted: sizes and checksums of all
files are asked for before anything is made of them, and no number is taken for a size unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from highwater.checker.base.durable.directory import HEADS, CheckpointDirectory
from highwater.checker.base.problems import InputError
from highwater.checker.engines.native.files import DataFile

MANIFEST = HEADS["native"]


class Checkpoint(CheckpointDirectory):
    """A directory that holds a search, or is to hold one. It is this process's until it is closed."""

    engine = "native"
    format = 2
    files = re.compile(r"(visited|predecessors|states)-([0-9]{6,12})\.data")

    def __init__(self, directory: str, *, resume: bool) -> None:
        """Raises InputError where another process has it, or there is nothing to go on with, or something else."""
        super().__init__(directory)
        self._number = 0
        self.take(resume=resume)

    # --- writing ----------------------------------------------------------------------------------

    def new_file(self, kind: str) -> DataFile:
        """A new data file. Raises OSError."""
        while True:
            self._number += 1
            try:
                return DataFile.named(self.directory / f"{kind}-{self._number:06}.data")
            except FileExistsError:  # left by a process that ended before
                continue

    def commit(self, manifest: Mapping[str, Any], files: list[DataFile]) -> None:
        """Make a manifest the one that counts; ``files`` are those that may not be on the disk yet. OSError."""
        for file in files:
            file.sync()
        self.write_manifest(MANIFEST, manifest)

    def tidy(self, names: set[str]) -> None:
        """Remove all data files but these, and what was never finished. Raises OSError."""
        self.remove_unfinished()
        for entry in list(self._entries()):
            if entry.name not in names:
                self.remove(entry.name)

    # --- reading ----------------------------------------------------------------------------------

    def manifest(self) -> dict[str, Any]:
        """The manifest that counts; InputError where it is damaged or of another version."""
        try:
            return self.read_manifest(MANIFEST)
        except FileNotFoundError as wrong:
            raise self.unusable(wrong) from None

    def verify(self, name: str, size: int, checksum: int) -> None:
        """Read a data file to its end; InputError where it is not what the manifest says."""
        found = self.files.fullmatch(name)
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
