"""The cache on disk: machine code and facts about models, so that each model is compiled and traced only once.

The cache is one SQLite file, whose lock lets several processes use it. The content is not trusted. The cache does not
use a directory or file that another user owns or can write. Each content is stored with a digest of key and content. A
damaged file is removed, and its content is computed again. If the cache cannot be used, the command compiles and traces
the model again.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

VARIABLE = "HIGHWATER_CACHE"
"""The environment variable that names the directory of the cache, or turns the cache off (OFF)."""
OFF = "off"
FILE = "cache.sqlite3"
"""The name of the file in the cache's directory."""
MOST_BYTES = 256 << 20
"""The most bytes in the file. The standard scenarios take a twelfth of this size."""
_WAIT = 5.0
"""The seconds to wait for another process that writes."""
_DAY = 86400
_TABLE = "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, used INTEGER, digest BLOB, content BLOB)"
_IN_USE = """
SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""SQLite's errors if the file is damaged, is no database, or has another table (of another version)."""

Result = TypeVar("Result")


class Cache:
    """Contents by key. Above ``most_bytes``, the least recently used contents are removed."""

    def __init__(self, directory: Path, most_bytes: int = MOST_BYTES) -> None:
        self.directory, self.file = directory, directory / FILE
        self._most = most_bytes
        # One connection at a time: closing a file releases the locks of the process's other connections.
        self._turn = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        """The content for a key; None if there is no trusted content."""

        def read(database: sqlite3.Connection) -> bytes | None:
            rows = database.execute(
                "SELECT used, digest, content FROM entries WHERE key = ?", (key,)
            ).fetchall()
            for used, digest, content in rows:
                if not isinstance(content, bytes) or digest != _digest(key, content):
                    database.execute("DELETE FROM entries WHERE key = ?", (key,))
                    return None
                if used != _today():
                    with suppress(sqlite3.OperationalError):  # a file that can only be read
                        database.execute("UPDATE entries SET used = ? WHERE key = ?", (_today(), key))
                return content
            return None

        return self._using(read)

    def put(self, key: bytes, content: bytes) -> None:
        """Store a content for a key. If the file cannot be written, do nothing."""

        def write(database: sqlite3.Connection) -> None:
            entry = key, _today(), _digest(key, content), content
            database.execute("REPLACE INTO entries VALUES (?, ?, ?, ?)", entry)
            self._trim(database)

        with suppress(OSError):
            self.directory.parent.mkdir(parents=True, exist_ok=True)
            self.directory.mkdir(mode=0o700, exist_ok=True)
            self._using(write)

    def _using(self, work: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """The result of ``work`` on the database; None if the database cannot be used. A damaged one is removed."""
        try:
            with self._turn:
                if not self._trusted():
                    return None
                with closing(sqlite3.connect(self.file, timeout=_WAIT, isolation_level=None)) as database:
                    # After a power failure, the digests detect lost writes.
                    database.execute("PRAGMA synchronous = OFF")
                    database.execute(_TABLE)
                    return work(database)
        except sqlite3.Error as wrong:
            if getattr(wrong, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
                self.file.unlink(missing_ok=True)
        except OSError:
            pass
        return None

    def _trusted(self) -> bool:
        """True if the directory is this user's alone. A file that is not is removed. Raises OSError."""
        if not is_ours(self.directory.stat()):
            _refuse(self.directory)
            return False
        with suppress(FileNotFoundError):
            found = self.file.lstat()
            if not (stat.S_ISREG(found.st_mode) and is_ours(found)):
                self.file.unlink()
        return True

    def _trim(self, database: sqlite3.Connection) -> None:
        """If the file exceeds the size limit, remove contents until at most three quarters of the limit are in use.

        The file does not shrink: SQLite reuses the room.
        """
        (in_use,) = database.execute(_IN_USE).fetchone()
        if in_use <= self._most:
            return
        entries = database.execute("SELECT key, length(content) FROM entries ORDER BY used, rowid").fetchall()
        for key, size in entries:
            if in_use <= self._most * 3 // 4:
                break
            database.execute("DELETE FROM entries WHERE key = ?", (key,))
            in_use -= size


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


def _digest(key: bytes, content: bytes) -> bytes:
    return hashlib.sha256(key + content).digest()


def _today() -> int:
    return int(time.time()) // _DAY


def is_ours(found: os.stat_result) -> bool:
    """True if this user owns a file or directory, and no other user can write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _refuse(directory: Path) -> None:
    """Report an untrusted directory once, and turn the cache off in this process and its future children."""
    if os.environ.get(VARIABLE) != OFF:
        os.environ[VARIABLE] = OFF
        problem = f"highwater: {directory}: not used as a cache of code, as it is not this user's alone"
        print(problem, file=sys.stderr, flush=True)


# Facts about a request are cached beside the machine code. The key of a fact is the request's key
# (``scenarios/model_key.py``) with further arguments. The content is a dataclass as JSON; other content is ignored.

Fact = TypeVar("Fact")


def found(kind: type[Fact], identity: bytes | None, *parts: object) -> Fact | None:
    """The cached fact (a dataclass ``kind``) about a model; None if the cache has none.

    ``identity`` is the model's key; None if the model has no key. ``parts`` are the other parts of the fact's key.
    """
    place = None if identity is None else chosen()
    content = None if place is None else place.get(_key(kind, identity, parts))
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def keep(fact: object, identity: bytes | None, *parts: object) -> None:
    """Cache a fact about a model, for ``found``. If ``identity`` is None, nothing is cached."""
    place = None if identity is None else chosen()
    if place is not None:
        place.put(_key(type(fact), identity, parts), msgspec.json.encode(fact))


def _key(kind: type[object], identity: bytes | None, parts: object) -> bytes:
    return hashlib.sha256(repr(("fact", kind.__qualname__, identity, parts)).encode()).digest()
