"""Atomic writes, checksums, the target of ``--json``, bounded reading of TOML and JSON, and internal error reports."""

from __future__ import annotations

import json
import os
import platform
import re
import stat
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from highwater.checker.base.problems import InputError
from highwater.traces.reading import distinct, refuse_constant

# --- atomic writes: a new file beside the target, then one rename -------------------------------------

LEFT = re.compile(r"\.(.+)\.[0-9a-f]{16}\.new")
"""The name of a file that is not completely written; the group is its final name."""


@contextmanager
def aside(target: Path, *, synced: bool = False) -> Iterator[Path]:
    """Yield a path for a file's new content. At the end the new content replaces the file in one step.

    With ``synced`` the new content is on the disk before the replacement. After an error, or if the process ends
    early, the file is unchanged. If the file is a link, its target is replaced. A pipe, a device, or a file in an
    unwritable directory is written in place, without these guarantees. Raises OSError.
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
    # /dev/stdout may lead to a file, but another program has it open.
    return target.absolute().parts[1:2] in (("dev",), ("proc",)) or (target.exists() and not target.is_file())


def _begun(place: Path) -> Path | None:
    """Create a file beside ``place``, with the permissions of ``place``, and return its path.

    None if ``place`` exists and its directory cannot be written.
    """
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
    """Wait until a file's content, or the list of names in a directory, is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- CRC-32C of files: detects every burst of up to 32 wrong bits -------------------------------------

_PIECE = 1 << 22


def checksum(data: bytes | memoryview, before: int = 0) -> int:
    """The CRC-32C of some bytes. ``before`` is the CRC-32C of all bytes before ``data``; 0 if there are none."""
    import crc32c  # imported late: it takes a tenth of the start time, and most commands check no file

    return int(crc32c.crc32c(data, before))


def of_descriptor(descriptor: int) -> tuple[int, int]:
    """The size and the CRC-32C of an open file, read from its start to its end. Raises OSError."""
    value = offset = 0
    while piece := os.pread(descriptor, _PIECE, offset):
        value = checksum(piece, value)
        offset += len(piece)
    return offset, value


def is_file_with(path: Path, size: int, value: int) -> bool:
    """True if the path is a file with this size in bytes and the CRC-32C ``value``.

    If the size differs, the content is not read. Raises OSError if the file cannot be read, or is a link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            return False
        return of_descriptor(descriptor) == (size, value)
    finally:
        os.close(descriptor)


# --- the target of --json: a file, or standard output, which then holds nothing else ------------------


def refuse_unwritable(option: str, target: str | Path) -> None:
    """Raises InputError if the file that an option names cannot be written."""
    path = Path(target)
    writable = os.access(path if path.exists() else path.parent, os.W_OK)
    if path.is_dir() or not writable:
        raise InputError(f"{option} {target}: {'is a directory' if path.is_dir() else 'cannot be written'}")


def write_text(option: str, target: str | Path, text: str) -> None:
    """Write a text to the file that an option names. Raises InputError if it cannot be written."""
    with written(option, target) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def written(option: str, target: str | Path) -> Iterator[Path]:
    """Yield a path for the new content of the file that an option names, and at the end replace it (``aside``).

    Raises InputError if the file cannot be written, and BrokenPipeError if the reader of a pipe has closed it.
    """
    try:
        with aside(Path(target)) as beside:
            yield beside
    except BrokenPipeError:  # the reader went away
        raise
    except OSError as wrong:
        raise InputError(f"{option} {target}: {wrong.strerror or wrong}") from None


class JsonOutput:
    """The target of ``--json``: a file or standard output.

    An unwritable target raises InputError in the constructor, not after a long search. With ``quiet``, the methods
    ``note`` and ``progress`` print nothing.
    """

    def __init__(self, target: str | None, *, quiet: bool = False) -> None:
        self.target, self.quiet = target, quiet
        self.to_stdout = target == "-"
        if target is not None and not self.to_stdout:
            refuse_unwritable("--json", target)

    def write(self, content: Any) -> None:
        """Write the content as JSON, if ``--json`` has a target."""
        if self.target is None:
            return
        text = json.dumps(content, indent=2, ensure_ascii=False)
        if self.to_stdout:
            click.echo(text)
        else:
            write_text("--json", self.target, text + "\n")

    def say(self, line: str) -> None:
        """Print a line on standard output, unless standard output is the target of ``--json``."""
        if not self.to_stdout:
            click.echo(line, file=sys.stdout)

    def note(self, line: str) -> None:
        """Print a line like ``say``, unless ``--quiet`` is given."""
        if not self.quiet:
            self.say(line)

    def progress(self, line: str) -> None:
        """Print a solver's progress on standard error, unless ``--quiet`` is given."""
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)


# --- untrusted small files: TOML and JSON, read in bounded memory -------------------------------------
#
# A pipe, a device or a directory is refused before it is read. A file is refused if it is too large, nested too
# deeply, not text, or has a number of more than 64 bits. Each refusal is an InputError with a one-line message.

MOST_BYTES = 16 << 20
"""The largest file that is read, in bytes: about a hundred times the gate's baseline of all scenarios."""
MOST_VALUES = 1_000_000
"""The most values in a file. A value of two bytes of text can take a hundred bytes of memory."""
MOST_DEPTH = 50
"""The deepest nesting of tables and lists."""
_INT64 = 1 << 63


def read_text(path: Path, times: int = 1) -> str:
    """The text of a file. The file may have at most ``times`` * ``MOST_BYTES`` bytes.

    Raises FileNotFoundError if there is no file, and InputError if the file is too large, cannot be read, is not a
    regular file, or is not UTF-8.
    """
    try:
        # O_NONBLOCK: if the path is a pipe, do not wait for its writer.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(opened, "rb") as file:
            mode = os.fstat(opened).st_mode
            if not stat.S_ISREG(mode):
                raise InputError(f"{path}: {'Is a directory' if stat.S_ISDIR(mode) else 'not a file'}")
            most = times * MOST_BYTES
            if os.fstat(opened).st_size > most:
                raise InputError(f"{path}: larger than {most:,} bytes")
            return file.read(most).decode("utf-8")
    except FileNotFoundError:
        raise
    except OSError as wrong:
        raise InputError(f"{path}: {wrong.strerror or wrong}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text in UTF-8") from None
    except ValueError:  # a NUL
        raise InputError(f"{str(path)!r} cannot be the path of a file") from None


def toml(path: Path, text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises InputError if the text is invalid, too large or nested too deeply.

    The error names the file ``path`` and, for invalid TOML, the line.
    """
    _refuse_many(path, text)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        place = re.search(r" \(at line (\d+), column (\d+)\)$| \(at end of document\)$", str(wrong))
        message = str(wrong)[: place.start()] if place else str(wrong)
        line = place[1] if place and place[1] else text.count("\n") + 1
        raise InputError(f"{path}:{line}: not TOML: {message}") from None
    except ValueError as wrong:
        raise InputError(f"{path}: not TOML: {wrong}") from None
    except RecursionError:
        raise _too_deep(path) from None
    _refuse_extremes(path, found)
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises InputError if the file is invalid, and FileNotFoundError if it is missing."""
    return toml(path, read_text(path))


def read_json(path: Path, times: int = 1) -> Any:
    """The JSON value in a file. ``times`` multiplies the usual limits on the size and the number of values.

    Raises InputError if the file is invalid or exceeds a limit, and FileNotFoundError if it is missing.
    """
    text = read_text(path, times)
    _refuse_many(path, text, times)
    try:
        found = json.loads(text, object_pairs_hook=distinct, parse_constant=refuse_constant)
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as wrong:
        raise InputError(f"{path}: not JSON: {wrong}") from None
    _refuse_extremes(path, found)
    return found


def _refuse_many(path: Path, text: str, times: int = 1) -> None:
    """Raises InputError if a text can have too many values: each takes at least one of the characters ``{[,=.``."""
    if sum(map(text.count, "{[,=.")) > times * MOST_VALUES:
        raise InputError(f"{path}: more than {times * MOST_VALUES:,} values")


def _too_deep(path: Path) -> InputError:
    return InputError(f"{path}: nested too deeply")


def _refuse_extremes(path: Path, found: Any) -> None:
    """Raises InputError for values nested too deeply, or integers of more than 64 bits."""
    left = [(found, 0)]
    while left:
        value, depth = left.pop()
        if isinstance(value, (dict, list)):
            if depth == MOST_DEPTH:
                raise _too_deep(path)
            inside = value.values() if isinstance(value, dict) else value
            left += [(inner, depth + 1) for inner in inside]
        elif isinstance(value, int) and not -_INT64 <= value < _INT64:
            raise InputError(f"{path}: a number that is not one of 64 bits")


# --- the report of an internal error, with enough facts for a developer to reproduce it ---------------


def report_of(wrong: BaseException) -> dict[str, Any]:
    """The report of an internal error: error, command, versions, platform, traceback, and the error's ``facts``."""
    from highwater.model.versions import versions

    return {
        "error": f"{type(wrong).__name__}: {wrong}",
        "command": sys.argv[1:],
        "versions": versions("internal-error"),
        "platform": platform.platform(),
        "traceback": traceback.format_exception(wrong),
        **getattr(wrong, "facts", {}),
    }


def write(wrong: BaseException) -> str | None:
    """Write the report of an internal error to the directory of temporary files.

    Returns the report's path; None if it cannot be written.
    """
    name = f"highwater-report-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.json"
    try:
        path = Path(tempfile.gettempdir()) / name
        with aside(path) as beside:
            beside.write_text(json.dumps(report_of(wrong), indent=1, default=str) + "\n", encoding="utf-8")
    except Exception:  # a failure here must not hide the internal error
        return None
    return str(path)
