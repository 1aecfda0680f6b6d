"""Read untrusted files: lines, JSON values by msgspec, and errors with their place."""

from __future__ import annotations

import codecs
import json
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from msgspec import ValidationError, convert

from highwater.errors import HighwaterError


class TraceError(HighwaterError):
    """Raised if a file cannot be read, is cut off, or does not have the expected format.

    ``line`` counts from 1; it is None if the error is not about one line. ``field`` is the path of the field in the
    line (``records[0].data.isr``), or None. ``byte`` is the position of the error in a binary file, or None.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        line: int | None,
        field: str | None,
        message: str,
        byte: int | None = None,
    ) -> None:
        self.path, self.line, self.field, self.message, self.byte = str(path), line, field, message, byte
        place = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{place}: {field}: {message}" if field else f"{place}: {message}")


class OutOfRangeError(TraceError):
    """Raised for a value of the right type that is outside the range of the model."""


class DamagedFileError(TraceError):
    """Raised if a compressed file is cut off or damaged."""


def printable(text: object, limit: int = 200) -> str:
    """A value from a trace as text for a terminal: control characters escaped, cut to ``limit`` characters."""
    shown = str(text)
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


# Fields of untrusted JSON.

T = TypeVar("T")
INT32, INT64 = 2**31 - 1, 2**63 - 1
MAX_TEXT = 1000
"""The most characters of a name."""


@dataclass(frozen=True)
class Place:
    """The place of a value: its file, its line, and its path within the line."""

    path: Path
    line: int
    field: str = ""

    def at(self, name: str) -> Place:
        """The place of a field of this value."""
        return Place(self.path, self.line, f"{self.field}.{name}" if self.field else name)

    def item(self, position: int) -> Place:
        """The place of the item at a position of this list, counted from 0."""
        return Place(self.path, self.line, f"{self.field}[{position}]")

    def wrong(self, message: str) -> TraceError:
        """An error at this place, for the caller to raise."""
        return TraceError(self.path, self.line, self.field or None, message)

    def out_of_range(self, message: str) -> OutOfRangeError:
        """An OutOfRangeError at this place, for the caller to raise."""
        return OutOfRangeError(self.path, self.line, self.field or None, message)


def converted(place: Place, value: Any, form: type[T]) -> T:
    """The JSON value at a place as a msgspec type. Raises TraceError, with the field's path, if it does not fit."""
    try:
        return convert(value, form)
    except ValidationError as wrong:
        raise TraceError(place.path, place.line, *mismatch(wrong, place.field)) from None
    except UnicodeEncodeError:  # a lone surrogate in a field's name or in a choice
        raise place.wrong("not Unicode text") from None


# Lines and bytes of a file, plain or compressed, in bounded memory; and lines that are JSON.

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 1 << 16
MAX_LINE = 1 << 22
"""The most bytes of a line."""
MAX_VALUES = 500_000
"""The most JSON values of a line. A value takes up to a hundred bytes of memory."""
MAX_BYTES = 1 << 33
"""The most bytes of a file, after decompression."""


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line of a file as line number (from 1) and JSON object. Blank lines at the end are skipped.

    Raises TraceError if any other line is no JSON object, or the file is unreadable, empty, damaged or too large.
    """
    number = 0
    blank: int | None = None
    for number, line in enumerate(_split(path), start=1):
        if not line.strip():
            blank = blank or number
            continue
        if blank is not None:
            raise TraceError(path, blank, None, "an empty line")
        yield number, parse(path, number, line)
    if number == 0 or blank == 1:
        raise TraceError(path, None, None, "the file is empty")


def _split(path: Path) -> Iterator[bytes]:
    with Source(path) as source:
        yield from split(source)


def split(source: Source) -> Iterator[bytes]:
    """Yield the lines without newlines, then set ``source.terminated``. Raises TraceError for a line above MAX_LINE."""
    path, rest, number = source.path, b"", 1
    for chunk in source.chunks():
        rest += chunk
        *complete, rest = rest.split(b"\n")
        for line in complete:
            if len(line) > MAX_LINE:
                raise TraceError(path, number, None, f"a line longer than {MAX_LINE} bytes")
            yield line
            number += 1
        if len(rest) > MAX_LINE:
            raise TraceError(path, number, None, f"a line longer than {MAX_LINE} bytes")
    source.terminated = not rest
    if rest:
        yield rest


def damage_of(path: Path) -> DamagedFileError | None:
    """Read a compressed file to its end, and return the error if it is cut off or damaged; None if it is intact.

    Also None for a file that is not compressed. Raises TraceError for any other error.
    """
    with Source(path) as source:
        try:
            for _ in source.chunks() if source.compressed else ():
                pass
        except DamagedFileError as wrong:
            return wrong
    return None


class Source:
    """A file that can be read once, from its start. A gzip file is decompressed, and a text in UTF-16 becomes UTF-8.

    Opening and reading raise TraceError if the file cannot be read, is no regular file or is damaged; ``chunks`` also
    if it exceeds MAX_BYTES.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.terminated = True
        """True if the last line from ``split`` ended with a newline."""
        try:
            with readable(path):
                # O_NONBLOCK: the file may be a pipe, and opening must not wait for a writer.
                self._file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115
                if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                    self._file.close()
                    raise TraceError(path, None, None, "not a file")
                start = self._file.read(3)
                self.compressed = start[:2] == GZIP_MAGIC
                self._encoding = "utf-16" if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else None
                self._file.seek(3 if start == codecs.BOM_UTF8 else 0)
        except ValueError:  # the path has a NUL
            raise TraceError(printable(path), None, None, "cannot be the path of a file") from None
        self._chunks = self.chunks()
        self._rest = b""
        self.damage: DamagedFileError | None = None
        """The error that ``read`` found in a compressed file; None if it has found none so far."""

    @property
    def bytes_read(self) -> int:
        """The number of bytes read from the file so far, before decompression; 0 after ``close``."""
        return 0 if self._file.closed else self._file.tell()

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the file, in chunks. Use either this method or ``read``, not both."""
        total = 0
        with readable(self.path):
            plain = _gunzip(self.path, self._file) if self.compressed else _plain(self._file)
            for chunk in plain if self._encoding is None else _as_utf8(plain, self._encoding):
                total += len(chunk)
                if total > MAX_BYTES:
                    raise TraceError(self.path, None, None, f"more than {MAX_BYTES} bytes of text")
                yield chunk

    def read(self, size: int, /) -> bytes:
        """The next ``size`` bytes; fewer only at the end of the file, or before damage that the next call raises."""
        if not self.compressed and self._encoding is None:
            with readable(self.path):
                return self._file.read(size)
        parts, have = [self._rest], len(self._rest)
        try:
            while have < size and (chunk := next(self._chunks, b"")):
                parts.append(chunk)
                have += len(chunk)
        except DamagedFileError as wrong:
            self.damage = wrong
        if self.damage is not None and not have:
            raise self.damage
        found = b"".join(parts)
        self._rest = found[size:]
        return found[:size]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Context manager that turns an OSError into a TraceError with the path."""
    try:
        yield
    except OSError as wrong:
        raise TraceError(path, None, None, f"cannot be read: {wrong.strerror or wrong}") from None


def _plain(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _as_utf8(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8")


def _gunzip(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Yield decompressed bytes in chunks; a gzip stream may have several members."""
    member = zlib.decompressobj(wbits=31)
    pending = b""
    try:
        while True:
            if member.eof:
                pending = member.unused_data or file.read(CHUNK)
                if not pending:
                    return
                member = zlib.decompressobj(wbits=31)
            elif not pending:
                pending = file.read(CHUNK)
                if not pending:
                    raise DamagedFileError(path, None, None, "the compressed file is cut off")
            chunk = member.decompress(pending, CHUNK)
            pending = member.unconsumed_tail
            if chunk:
                yield chunk
    except zlib.error as wrong:
        raise DamagedFileError(path, None, None, f"the compressed file is damaged: {wrong}") from None


_MISSING = "Object missing required field "


def mismatch(wrong: ValidationError, outer: str = "") -> tuple[str | None, str]:
    """The field's path and the message of an error of msgspec; ``outer`` is the path of the converted value."""
    message, _, at = str(wrong).partition(" - at `$")
    where = f"{outer}.{at.strip('.`')}".strip(".")
    if message.startswith(_MISSING):
        where, message = f"{where}.{message[len(_MISSING) :].strip('`')}".strip("."), "missing"
    return printable(where) or None, printable(message[:1].lower() + message[1:])


def parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """The JSON object in a line. Raises TraceError if the line is no JSON object or has more than MAX_VALUES values."""
    if sum(map(line.count, (b"{", b"[", b","))) > MAX_VALUES:
        raise TraceError(path, number, None, f"more than {MAX_VALUES:,} values")
    try:
        parsed = json.loads(line.decode("utf-8"), object_pairs_hook=distinct, parse_constant=refuse_constant)
    except UnicodeDecodeError:
        raise TraceError(path, number, None, "not UTF-8") from None
    except RecursionError:
        raise TraceError(path, number, None, "JSON nested too deeply") from None
    except ValueError as wrong:
        raise TraceError(path, number, None, f"not JSON: {printable(wrong)}") from None
    if not isinstance(parsed, dict):
        raise TraceError(path, number, None, "not a JSON object")
    return parsed


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dictionary of key and value pairs, for ``object_pairs_hook``. Raises ValueError for a repeated key."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def refuse_constant(constant: str) -> Any:
    """Raise ValueError for NaN and the infinities, which JSON does not have; for ``parse_constant``."""
    raise ValueError(f"{constant} is no JSON number")


@lru_cache(maxsize=1024)
def _start_of_day(year: int, month: int, day: int) -> int | None:
    try:
        return (date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()) * 86_400_000
    except ValueError:
        return None


def epoch_ms(year: int, month: int, day: int, hour: int, minute: int, second: int, ms: int) -> int | None:
    """A time of a log line, read as UTC, in ms since the epoch; None if there is no such time."""
    start = _start_of_day(year, month, day)
    if start is None or hour > 23 or minute > 59 or second > 60:
        return None
    return start + ((hour * 60 + minute) * 60 + second) * 1000 + ms
