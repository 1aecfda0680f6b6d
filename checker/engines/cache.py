"""The cache on disk: machine code and facts about models, so that each model is compiled and traced only once.

The content is not trusted. The cache does not read a directory or file that another user owns or can write. A file
starts with its key and a digest of its content. A damaged file is removed, and its content is computed again. Several
processes can use a directory: a file is written under another name and renamed. If the cache cannot be used, the
command compiles and traces the model again.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

VARIABLE = "HIGHWATER_CACHE"
"""The environment variable that names the directory of the cache, or turns the cache off (OFF)."""
OFF = "off"
MOST_BYTES = 256 << 20
"""The most bytes in a directory. The standard scenarios take an eighth of this size."""
_LOOKS = 32
"""A process measures the size of the directory again after it has written 1/32 of the most bytes."""

_FORMAT = b"highwater code 1\n"
_DIGEST = hashlib.sha256().digest_size
_HEAD = len(_FORMAT) + 2 * _DIGEST
_NAME = re.compile(r"[0-9a-f]{64}\.code")
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.new")
_HOUR = 3600


class Cache:
    """A directory of contents by key. Above ``most_bytes``, the least recently used contents are removed."""

    def __init__(self, directory: Path, most_bytes: int = MOST_BYTES) -> None:
        self.directory, self._most = directory, most_bytes
        # The bytes written since the directory was last measured. The initial value makes the first write measure.
        self._put = most_bytes

    def get(self, key: bytes) -> bytes | None:
        """The content for a key of 32 bytes; None if there is no trusted content."""
        with suppress(OSError), self._open() as folder:
            if folder is not None:
                return self._read(folder, key)
        return None

    def put(self, key: bytes, content: bytes) -> None:
        """Store a content for a key. If the directory cannot be written, do nothing."""
        with suppress(OSError):
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.directory.mkdir(mode=0o700)
            with self._open() as folder:
                if folder is not None:
                    self._write(folder, key, content)
                    self._put += _HEAD + len(content)
                    if self._put >= self._most // _LOOKS:
                        self._put = 0
                        self._trim(folder)

    @contextmanager
    def _open(self) -> Iterator[int | None]:
        """Context with the descriptor of the cache's directory.

        None, after a warning, if another user owns the directory or can write to it.
        """
        folder = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            trusted = is_ours(os.fstat(folder))
            if not trusted:
                _refuse(self.directory)
            yield folder if trusted else None
        finally:
            os.close(folder)

    def _read(self, folder: int, key: bytes) -> bytes | None:
        # Do not block: the path could be a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(_name(key), flags, dir_fd=folder), "rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode) and is_ours(found) and found.st_size <= self._most:
                head, content = file.read(_HEAD), file.read()
                if head == _head(key, content):
                    os.utime(file.fileno())
                    return content
        os.unlink(_name(key), dir_fd=folder)
        return None

    def _write(self, folder: int, key: bytes, content: bytes) -> None:
        unfinished = f".{os.urandom(8).hex()}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with open(os.open(unfinished, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(_head(key, content))
                file.write(content)
            os.rename(unfinished, _name(key), src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=folder)
            raise

    def _trim(self, folder: int) -> None:
        """Remove unfinished files older than an hour and, above the size limit, contents.

        The least recently used contents are removed until at most three quarters of the limit are in use.
        """
        kept: list[tuple[float, int, str]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    if _NAME.fullmatch(entry.name):
                        kept.append((found.st_mtime, found.st_size, entry.name))
                    elif _UNFINISHED.fullmatch(entry.name) and found.st_mtime < time.time() - _HOUR:
                        os.unlink(entry.name, dir_fd=folder)
        total = sum(size for _, size, _ in kept)
        if total <= self._most:
            return
        for _, size, name in sorted(kept):
            if total <= self._most * 3 // 4:
                break
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            total -= size


def chosen() -> Cache | None:
    """The cache in the directory that VARIABLE names, else in the user's cache directory.

    None if the cache is off, or if the user has no such directory.
    """
    place = directory()
    return None if place is None else _of(place)


def directory() -> Path | None:
    """The directory of the cache, existing or not; None as for ``chosen``."""
    named = os.environ.get(VARIABLE, "")
    if named == OFF:
        return None
    if named:
        return Path(named).absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        try:
            base = Path.home() / ".cache"
        except RuntimeError:  # the user has no home directory
            return None
    return base / "highwater"


@lru_cache(maxsize=8)
def _of(directory: Path) -> Cache:
    return Cache(directory)


def _name(key: bytes) -> str:
    return f"{key.hex()}.code"


def _head(key: bytes, content: bytes) -> bytes:
    return _FORMAT + key + hashlib.sha256(content).digest()


def is_ours(found: os.stat_result) -> bool:
    """True if this user owns a file or directory, and no other user can write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _refuse(directory: Path) -> None:
    """Report an untrusted directory once, and turn the cache off in this process and its future children."""
    if os.environ.get(VARIABLE) != OFF:
        os.environ[VARIABLE] = OFF
        said = f"highwater: {directory}: not used as a cache of code, as it is not this user's alone"
        print(said, file=sys.stderr, flush=True)


# Facts about a request are cached beside the machine code. The key of a fact is the request's key
# (``scenarios/model_key.py``) with further arguments. The content is a dataclass as JSON; other content is ignored.

Fact = TypeVar("Fact")


def found(kind: type[Fact], identity: bytes | None, *asked: object) -> Fact | None:
    """The cached fact (a dataclass ``kind``) about a model; None if the cache has none.

    ``identity`` is the model's key; None if the model has no key. ``asked`` are further parts of the fact's key.
    """
    place = None if identity is None else chosen()
    content = None if place is None else place.get(_key(kind, identity, asked))
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def keep(fact: object, identity: bytes | None, *asked: object) -> None:
    """Cache a fact about a model, for ``found``. If ``identity`` is None, nothing is cached."""
    place = None if identity is None else chosen()
    if place is not None:
        place.put(_key(type(fact), identity, asked), msgspec.json.encode(fact))


def _key(kind: type[object], identity: bytes | None, asked: object) -> bytes:
    return hashlib.sha256(repr(("fact", kind.__qualname__, identity, asked)).encode()).digest()
