"""Candidates on their way between the halves of a level: files below the checkpoint's directory, a task one.

    exchange-00012/from-00003-….rows

A file has the rows of a group of states, sorted by fingerprint, then those of the next group, and so on; at its end
how many rows of each group are whose bucket's, and how many groups there are. The half that merges reads of
each file the pieces of its bucket, which are sorted already. So Spark hands out tasks and carries their reports, and no
candidate passes through its processes: that took as much time as all else together.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from highwater.checker.native.layout import Words
from highwater.checker.search import EngineError

WORD = 8
"""Bytes of a word."""


def folder(directory: Path, number: int) -> Path:
    """Where the candidates lie that a level's states lead to."""
    return directory / f"exchange-{number:05}"


def tidy(directory: Path) -> None:
    """Remove all candidates: they mean nothing once a level is committed, nor where it was cut off."""
    for left in directory.glob("exchange-*"):
        shutil.rmtree(left, ignore_errors=True)


class Sender:
    """Writes a task's candidates to a file with a name of its own, which has it when it is whole."""

    def __init__(self, place: Path, bucket: int, shift: int) -> None:
        self.file = f"from-{bucket:05}-{uuid.uuid4().hex[:12]}.rows"
        self.count = 0
        self._shift = shift
        self._place = place
        self._starts = np.arange(1 << shift, dtype=np.uint64) << np.uint64(64 - shift)
        self._groups: list[NDArray[np.int64]] = []
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
        self._groups.append(np.diff(firsts, append=len(rows)))
        self._out.write(rows.data.cast("B"))
        self.count += len(rows)

    def __exit__(self, kind: type[BaseException] | None, wrong: object, trace: TracebackType | None) -> None:
        assert self._out is not None
        unfinished = self._place / f".{self.file}"
        try:
            with self._out as out:
                if kind is None:
                    index = np.concatenate([*self._groups, np.array([len(self._groups)], dtype=np.int64)])
                    out.write(index.astype("<i8").tobytes())
            if kind is None:
                unfinished.replace(self._place / self.file)
        finally:
            unfinished.unlink(missing_ok=True)


def receive(place: Path, files: Iterable[str], bucket: int, shift: int, width: int) -> Words:
    """All rows of so many words that were sent to a bucket. EngineError where a file is not as it was written."""
    pieces = [(place / file, *_pieces(place / file, bucket, shift, width)) for file in files]
    rows: Words = np.empty((sum(int(counts.sum()) for _, _, counts in pieces), width), dtype=np.uint64)
    bytes_of, at = rows.data.cast("B") if len(rows) else memoryview(b""), 0
    for path, offsets, counts in pieces:
        with path.open("rb", buffering=0) as file:
            for offset, count in zip(offsets.tolist(), counts.tolist(), strict=True):
                file.seek(offset * width * WORD)
                end = at + count * width * WORD
                while at < end:
                    got = file.readinto(bytes_of[at:end])
                    if not got:
                        raise _damaged(path)
                    at += got
    return rows


def _pieces(path: Path, bucket: int, shift: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where a bucket's rows begin in a file, and how many there are, group by group."""
    buckets = 1 << shift
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < WORD:
            raise _damaged(path)
        file.seek(size - WORD)
        groups = int(np.frombuffer(file.read(WORD), dtype="<i8")[0])
        index = groups * buckets * WORD
        if not 0 <= index <= size - WORD:
            raise _damaged(path)
        file.seek(size - WORD - index)
        counts = np.frombuffer(file.read(index), dtype="<i8").astype(np.int64)
    if (counts < 0).any() or int(counts.sum()) * width * WORD != size - WORD - index:
        raise _damaged(path)
    firsts = (np.cumsum(counts) - counts).reshape(groups, buckets)
    return firsts[:, bucket], counts.reshape(groups, buckets)[:, bucket]


def _damaged(path: Path) -> EngineError:
    return EngineError(f"{path} is damaged, or an executor sees another one")


__all__ = ["Sender", "folder", "receive", "tidy"]
