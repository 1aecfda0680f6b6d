"""Candidates on their way between the halves of a level: files below the checkpoint's directory, a task one.

    exchange-00012/from-00003-….rows

A file has the rows of a group of states, sorted by fingerprint, then those of the next group, and so on. At its end is
an index: how many rows of each group are whose bucket's, the CRC-32C of each such piece, that of the index itself, and
how many groups there are. The half that merges reads of each file the pieces of its bucket, which are sorted already.
So Spark hands out tasks and carries their reports, and no candidate passes through its processes: that took as much
time as all else together.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from highwater.checker.asking.search import EngineError
from highwater.checker.base.durable.checksum import checksum
from highwater.checker.base.durable.directory import CheckpointDirectory
from highwater.checker.engines.layout import Words

WORD = 8
"""Bytes of a word."""


def folder(directory: Path, number: int) -> Path:
    """Where the candidates lie that a level's states lead to."""
    return directory / f"exchange-{number:05}"


def tidy(checkpoint: CheckpointDirectory, number: int) -> None:
    """Remove the candidates of a level: they mean nothing once the next one is committed, nor where it was cut off."""
    with suppress(OSError):  # they are a leftover then
        checkpoint.remove(folder(checkpoint.directory, number).name)


class Sender:
    """Writes a task's candidates to a file with a name of its own, which has it when it is whole."""

    def __init__(self, place: Path, bucket: int, shift: int) -> None:
        self.file = f"from-{bucket:05}-{uuid.uuid4().hex[:12]}.rows"
        self.count = 0
        self._shift = shift
        self._place = place
        self._starts = np.arange(1 << shift, dtype=np.uint64) << np.uint64(64 - shift)
        self._counts: list[NDArray[np.int64]] = []
        self._checksums: list[list[int]] = []
        self._out: BinaryIO | None = None

    def __enter__(self) -> Sender:
        self._place.mkdir(parents=True, exist_ok=True)
        self._out = (self._place / f".{self.file}").open("wb")
        return self

    def send(self, rows: Words) -> None:
        """Send a group's candidates, each to the bucket of its fingerprint."""
        assert self._out is not None
        if not len(rows):
            return
        rows = np.take(rows, np.argsort(np.ascontiguousarray(rows[:, 0])), axis=0)
        firsts = np.searchsorted(np.ascontiguousarray(rows[:, 0]), self._starts)
        self._counts.append(np.diff(firsts, append=len(rows)))
        content = rows.data.cast("B")
        edges = [*(firsts * rows.strides[0]).tolist(), len(content)]
        self._checksums.append([checksum(content[start:end]) for start, end in pairwise(edges)])
        self._out.write(content)
        self.count += len(rows)

    def __exit__(self, kind: type[BaseException] | None, wrong: object, trace: TracebackType | None) -> None:
        assert self._out is not None
        unfinished = self._place / f".{self.file}"
        try:
            with self._out as out:
                if kind is None:
                    index = np.array([self._counts, self._checksums], dtype="<i8").tobytes()
                    end = np.array([checksum(index), len(self._counts)], dtype="<i8").tobytes()
                    out.write(index + end)
            if kind is None:
                unfinished.replace(self._place / self.file)
        finally:
            unfinished.unlink(missing_ok=True)


def receive(place: Path, files: Iterable[str], bucket: int, shift: int, width: int) -> Words:
    """All rows of so many words that were sent to a bucket. EngineError where a file is not as it was written."""
    pieces = [(place / file, _pieces(place / file, bucket, shift, width)) for file in files]
    rows: Words = np.empty((sum(count for _, own in pieces for _, count, _ in own), width), dtype=np.uint64)
    content, at = rows.data.cast("B") if len(rows) else memoryview(b""), 0
    for path, own in pieces:
        with path.open("rb", buffering=0) as file:
            for offset, count, check in own:
                file.seek(offset * width * WORD)
                start, end = at, at + count * width * WORD
                while at < end:
                    got = file.readinto(content[at:end])
                    if not got:
                        raise _damaged(path)
                    at += got
                if checksum(content[start:end]) != check:
                    raise _damaged(path)
    return rows


def _pieces(path: Path, bucket: int, shift: int, width: int) -> list[tuple[int, int, int]]:
    """Where a bucket's rows begin in a file, how many there are, and their checksum, group by group."""
    buckets = 1 << shift
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < 2 * WORD:
            raise _damaged(path)
        file.seek(size - 2 * WORD)
        check, groups = np.frombuffer(file.read(2 * WORD), dtype="<i8").tolist()
        length = 2 * groups * buckets * WORD
        if not 0 <= length <= size - 2 * WORD:
            raise _damaged(path)
        file.seek(size - 2 * WORD - length)
        index = file.read(length)
    counts, checks = np.frombuffer(index, dtype="<i8").astype(np.int64).reshape(2, groups, buckets)
    if (
        checksum(index) != check
        or (counts < 0).any()
        or int(counts.sum()) * width * WORD != size - 2 * WORD - length
    ):
        raise _damaged(path)
    firsts = (np.cumsum(counts) - counts.ravel()).reshape(groups, buckets)
    return list(
        zip(firsts[:, bucket].tolist(), counts[:, bucket].tolist(), checks[:, bucket].tolist(), strict=True)
    )


def _damaged(path: Path) -> EngineError:
    return EngineError(f"{path} is damaged, or an executor sees another one")
