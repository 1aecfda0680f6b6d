"""Files that are there whole or not at all: written beside their place, and moved there in one step."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LEFT = re.compile(r"\.(.+)\.[0-9a-f]{16}\.new")
"""The name of a file that is being written, or whose process ended meanwhile; the group is the name it was to have."""


@contextmanager
def aside(target: Path, *, synced: bool = False) -> Iterator[Path]:
    """A path beside a file, to write what the file is to hold; it takes the file's place at the end, in one step.

    With ``synced`` its content is on the disk before that. After an error, or where the process ends meanwhile, the
    file is what it was. A link stays one: what it leads to is replaced. What is no file (a pipe, a device), or has no
    place beside it that can be written, is written where it is. Raises OSError.
    """
    beside = None if _in_place(target) else _begun(Path(os.path.realpath(target)))
    if beside is None:
        yield target
        return
    try:
        yield beside
        if synced:
            sync(beside)
        beside.replace(os.path.realpath(target))
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def _in_place(target: Path) -> bool:
    # What /dev/stdout leads to may be a file, but somebody else has it open.
    return target.absolute().parts[1:2] in (("dev",), ("proc",)) or (target.exists() and not target.is_file())


def _begun(place: Path) -> Path | None:
    """A new file beside a place, with the permissions of what is there; None where there may be none."""
    beside = place.with_name(f".{place.name}.{os.urandom(8).hex()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(beside, flags, 0o666)
    except PermissionError:
        if place.exists():
            return None
        raise
    try:
        with suppress(FileNotFoundError):
            os.fchmod(descriptor, stat.S_IMODE(place.stat().st_mode))
    finally:
        os.close(descriptor)
    return beside


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
