"""The directory of a checkpoint: its owner, its content, and manifests with checksums.

The native engine and Spark store a search in this form:

    lock              locked by the process that searches, until it closes the directory or ends
    *.json            manifests: a line of JSON, and a line with its SHA-256; each is moved to its name when complete
    files, folders    listed in manifests with sizes and checksums; files that no manifest lists are leftovers

The files are not trusted: no link is followed, and only files with Highwater's names are removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from highwater.checker.base.files import LEFT, aside, sync
from highwater.checker.base.problems import InputError

LOCK = "lock"
HEADS = {"native": "manifest.json", "spark": "search.json"}
"""The manifest that makes a directory a checkpoint, by engine."""
_MOST_MANIFEST = 1 << 28


class CheckpointDirectory:
    """A directory that holds a search, or will hold one. Each engine declares the names of its files."""

    engine: ClassVar[str]
    format: ClassVar[int]
    """The version of the files. Other versions are refused."""
    files: ClassVar[re.Pattern[str]]
    """A pattern for the names of files in the directory, other than the lock and the manifest of ``HEADS``."""
    folders: ClassVar[re.Pattern[str] | None] = None
    """A pattern for the names of folders in the directory."""

    def __init__(self, directory: str | Path, option: str = "--checkpoint") -> None:
        self.directory, self._option = Path(directory), option
        self._lock: int | None = None

    @property
    def head(self) -> str:
        """The name of the manifest that makes the directory a checkpoint."""
        return HEADS[self.engine]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- its owner --------------------------------------------------------------------------------

    def take(self, *, resume: bool) -> None:
        """Lock the directory until ``close``, for a new search or, with ``resume``, for the search stored there.

        Without ``resume``, a missing directory is created. Raises InputError if the directory is locked or holds other
        files. With ``resume`` it must hold a search of this engine, without ``resume`` no search.
        """
        try:
            if not resume:
                self.directory.mkdir(parents=True, exist_ok=True)
            self._refuse_content(resume=resume)
            self._lock = self._locked()
            try:
                self._refuse_content(resume=resume)  # another process may have written files before the lock
            except BaseException:
                self.close()
                raise
        except OSError as wrong:
            raise self.unusable(wrong) from None

    def close(self) -> None:
        """Unlock the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _locked(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        lock = os.open(self.directory / LOCK, flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise self.wrong("another search is using it") from None
        except BaseException:
            os.close(lock)
            raise
        return lock

    def _refuse_content(self, *, resume: bool) -> None:
        there = self.directory.is_dir()
        entries = {e.name: e.stat(follow_symlinks=False).st_mode for e in self._entries()} if there else {}
        if self.head in entries:
            if not resume:
                raise self.wrong("the directory holds a checkpoint already; --resume goes on with it")
        else:
            for engine, head in HEADS.items():
                if head in entries:
                    raise self.wrong(f"a checkpoint of --engine {engine}")
            if resume:
                raise self.wrong("no checkpoint there")
        for name, mode in sorted(entries.items()):
            if not self._is_own(name, mode):
                raise self.wrong(f"the directory holds other files: {_printable(name)}")

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self.directory) as entries:
            yield from entries

    def _is_own(self, name: str, mode: int) -> bool:
        """True if the directory of a checkpoint may contain a file or folder with this name and mode.

        Hidden entries are allowed, because the file system may have created them.
        """
        if self.folders is not None and self.folders.fullmatch(name):
            return stat.S_ISDIR(mode)
        if name in (LOCK, self.head) or self.files.fullmatch(name):
            return stat.S_ISREG(mode)
        return name.startswith(".")

    # --- manifests --------------------------------------------------------------------------------

    def write_manifest(self, name: str, plain: Mapping[str, Any]) -> None:
        """Write a manifest. The files that the manifest lists must be on the disk already. Raises OSError."""
        text = json.dumps({**plain, "format": self.format}, sort_keys=True)
        with aside(self.directory / name, synced=True) as beside:
            beside.write_text(f"{text}\n{_digest(text)}\n", encoding="utf-8")
        sync(self.directory)

    def read_manifest(self, name: str) -> dict[str, Any]:
        """The content of a manifest.

        Raises FileNotFoundError if there is none, and InputError if it is damaged, has another version, or cannot be
        read.
        """
        try:
            descriptor = os.open(
                self.directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            )
            with open(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_MANIFEST:
                    raise ValueError("size")
                text, digest, end = file.read(_MOST_MANIFEST).decode().split("\n")
            if end or digest != _digest(text):
                raise ValueError("digest")
            plain = json.loads(text)
            if plain.pop("format") != self.format:
                raise self.wrong("written by another version")
        except FileNotFoundError:
            raise
        except OSError as wrong:
            raise self.unusable(wrong) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self.damaged(name) from None
        result: dict[str, Any] = plain
        return result

    # --- leftovers --------------------------------------------------------------------------------

    def remove(self, name: str) -> None:
        """Remove a file if its name matches ``files``. A missing file is no error. Raises OSError."""
        path = self.directory / name
        if self.files.fullmatch(name) and not _is_folder(path):
            path.unlink(missing_ok=True)

    def remove_unfinished(self) -> None:
        """Remove files that a process left half written. Raises OSError."""
        for entry in list(self._entries()):
            found = LEFT.fullmatch(entry.name)
            if found and (found[1] == self.head or self.files.fullmatch(found[1])) and not _is_folder(entry):
                (self.directory / entry.name).unlink(missing_ok=True)

    # --- errors -----------------------------------------------------------------------------------

    def wrong(self, what: str) -> InputError:
        """The InputError for a directory that cannot be used, with the reason ``what``."""
        return InputError(f"{self._option} {self.directory}: {what}")

    def damaged(self, name: str) -> InputError:
        """The InputError for a damaged file of the checkpoint."""
        return self.wrong(f"{name} is damaged")

    def unusable(self, wrong: OSError) -> InputError:
        """The InputError for a directory that cannot be written or read."""
        return self.wrong(wrong.strerror or str(wrong))


def remove_files(folder: Path, ours: re.Pattern[str], keep: frozenset[str] = frozenset()) -> None:
    """Remove the files of a folder whose names match ``ours``, except ``keep``. Raises OSError.

    No link is followed.
    """
    if folder.is_symlink() or not folder.is_dir():
        return
    for entry in list(os.scandir(folder)):
        if ours.fullmatch(entry.name) and entry.name not in keep and not _is_folder(entry):
            Path(entry.path).unlink(missing_ok=True)


def _is_folder(entry: Path | os.DirEntry[str]) -> bool:
    return entry.is_dir() and not entry.is_symlink()


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
