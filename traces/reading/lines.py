"""Lines and bytes of a file, plain or compressed, in bounded memory; and lines that are JSON."""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from highwater.traces.reading.errors import TraceError, printable

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 1 << 16
MAX_LINE = 1 << 22
"""The longest line that is read, in bytes."""
MAX_VALUES = 500_000
"""The most values of a line of JSON, each of which takes up to a hundred bytes of memory."""
MAX_BYTES = 1 << 33
"""The most that is read of one file, in bytes after decompression."""


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file with their line numbers, from 1. Blank lines at the end are not read.

    Raises TraceError where the file cannot be read, is cut off, is not JSON, or goes over a limit.
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
    """The lines of a file; the last one may lack its newline."""
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


class Source:
    """A file that is read once, from its start, decompressed where it begins as gzip does.

    Its methods raise TraceError where the file cannot be read or is damaged, or holds more than MAX_BYTES.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.terminated = True
        """Whether the last line that ``split`` gave ended with a newline."""
        try:
            # Without waiting for whoever writes: it might be a pipe.
            self._file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115
            if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._file.close()
                raise TraceError(path, None, None, "not a file")
            self.compressed = self._file.read(2) == GZIP_MAGIC
            self._file.seek(0)
        except OSError as wrong:
            raise _unreadable(path, wrong) from None
        except ValueError:  # a NUL
            raise TraceError(printable(path), None, None, "cannot be the path of a file") from None
        self._chunks = self.chunks()
        self._rest = b""

    @property
    def bytes_read(self) -> int:
        """How much of the file was read, in bytes as they lie on the disk."""
        return 0 if self._file.closed else self._file.tell()

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the file. Not to be mixed with ``read``."""
        total = 0
        try:
            for chunk in _gunzip(self.path, self._file) if self.compressed else _plain(self._file):
                total += len(chunk)
                if total > MAX_BYTES:
                    raise TraceError(self.path, None, None, f"more than {MAX_BYTES} bytes of text")
                yield chunk
        except OSError as wrong:
            raise _unreadable(self.path, wrong) from None

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes, fewer only at the end."""
        if not self.compressed:
            try:
                return self._file.read(size)
            except OSError as wrong:
                raise _unreadable(self.path, wrong) from None
        parts, have = [self._rest], len(self._rest)
        while have < size and (chunk := next(self._chunks, b"")):
            parts.append(chunk)
            have += len(chunk)
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


def _unreadable(path: Path, wrong: OSError) -> TraceError:
    return TraceError(path, None, None, f"cannot be read: {wrong.strerror or wrong}")


def _plain(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _gunzip(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Decompress, never more than a chunk at once; a stream may have several members."""
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
                    raise TraceError(path, None, None, "the compressed file is cut off")
            chunk = member.decompress(pending, CHUNK)
            pending = member.unconsumed_tail
            if chunk:
                yield chunk
    except zlib.error as wrong:
        raise TraceError(path, None, None, f"the compressed file is damaged: {wrong}") from None


def parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """The JSON object that a line is. Raises TraceError where it is anything else."""
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
    """The object of these pairs, as ``object_pairs_hook``. ValueError where a key stands twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def refuse_constant(constant: str) -> Any:
    """ValueError for NaN and the infinities, as ``parse_constant``: JSON has no such numbers."""
    raise ValueError(f"{constant} is no JSON number")
