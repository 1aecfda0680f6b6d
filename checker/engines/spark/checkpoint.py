"""The levels of a search on disk: Parquet files of states, and a manifest for each level.

    run.json                the identity of the search, and the number of buckets
    level-00012.json        the manifest of a level: written last, and renamed into place
    level-00012/*.parquet   the states of a level: fingerprint, predecessor, instance, word_0, word_1, …
    lock                    locked by the driver until its process ends

A level exists if its manifest does. A file that no manifest names is ignored, because a task that failed or ran twice
left it. ``predecessor`` is the index of a state in the level before, in the order of the manifest's parts.
``instance`` is the number of the instance of the step from the predecessor. In the first level, ``predecessor`` is
the index of the initial state, and ``instance`` is 0.

The files are not trusted (``checkpoint_directory``). A manifest has the size, the CRC-32C and the count of each file
of its level. They are checked whenever the file is opened.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checker.base.checkpoint_directory import CheckpointDirectory, remove_files
from highwater.checker.base.files import checksum, is_file_with, sync
from highwater.checker.engines.breadth_first import Totals
from highwater.checker.engines.native.text.kernels import PREDECESSOR_BITS, WORDS
from highwater.checker.engines.state_graph import Words

GROUP = 1 << 18
"""The most states that are expanded together.

A row group of a file is read as a whole. It has between this number and twice this number of states. Only the last row
group of a file may have fewer.
"""
Fingerprints = Callable[[Words], Words]
"""Computes the fingerprints of packed states."""
_INSTANCE = (1 << PREDECESSOR_BITS) - 1


@dataclass(frozen=True)
class LevelFile:
    """A file of a level: ``count`` states from index ``base`` of the level on.

    ``bucket`` is the bucket of the file's states; None if the level is not divided into buckets. ``bytes`` is the
    file's size, ``checksum`` its CRC-32C.
    """

    bucket: int | None
    file: str
    count: int
    base: int = 0
    bytes: int = 0
    checksum: int = 0


@dataclass(frozen=True)
class CommittedLevel:
    """A level with a manifest. ``number`` starts at 0. ``totals`` are the counts from level 0 up to this level."""

    number: int
    parts: tuple[LevelFile, ...]
    totals: Totals

    @property
    def size(self) -> int:
        """The number of states in the level."""
        return sum(part.count for part in self.parts)

    def part_of(self, index: int) -> LevelFile:
        """The file that contains the state with this index."""
        return next(p for p in self.parts if p.base <= index < p.base + p.count)


@dataclass(frozen=True)
class SearchIdentity:
    """The identity of a search: a random name, the model's request, and a digest of the model's compiled content.

    ``words`` is the number of words of a state, ``buckets`` the number of buckets.
    """

    name: str
    request: str
    content: str
    words: int
    buckets: int
    """All fingerprints with the same remainder modulo this number are in one bucket."""


class SparkCheckpoint(CheckpointDirectory):
    """The directory with the committed levels of a search.

    The driver locks it. Spark's tasks read and write the files of levels.
    """

    engine = "spark"
    format = 5
    files = re.compile(r"level-[0-9]{5,9}\.json")
    folders = re.compile(r"level-[0-9]{5,9}")
    inside = re.compile(r"part-(all|[0-9]{5,9})-[0-9a-f]{12}\.parquet")

    # --- the run ----------------------------------------------------------------------------------

    def begin(self, run: SearchIdentity) -> None:
        """Write the search's identity into a new directory. Raises InputError if it cannot be written."""
        try:
            self.write_manifest(self.head, vars(run))
        except OSError as wrong:
            raise self.unusable(wrong) from None

    def run(self) -> SearchIdentity:
        """The search's identity.

        Raises InputError if the directory is damaged, or has no checkpoint of this format version.
        """
        try:
            run = SearchIdentity(**self.read_manifest(self.head))
            if not (
                isinstance(run.buckets, int) and 0 < run.buckets <= 1 << 16 and isinstance(run.words, int)
            ):
                raise ValueError("numbers")
            return run
        except FileNotFoundError:
            raise self.wrong("no checkpoint there") from None
        except (ValueError, TypeError):
            raise self.damaged(self.head) from None

    # --- levels -----------------------------------------------------------------------------------

    def folder(self, number: int) -> Path:
        """The directory with the files of a level."""
        return self.directory / f"level-{number:05}"

    def commit(self, level: CommittedLevel) -> None:
        """Write the manifest of a level. Raises OSError."""
        plain = {
            "level": level.number,
            "count": level.size,
            "parts": [[p.bucket, p.file, p.count, p.base, p.bytes, p.checksum] for p in level.parts],
            "totals": vars(level.totals),
        }
        if level.parts:
            sync(self.folder(level.number))
        self.write_manifest(_manifest(level.number), plain)

    def level(self, number: int) -> CommittedLevel | None:
        """The committed level with this number; None if there is none. Raises InputError if its manifest is damaged."""
        name = _manifest(number)
        try:
            plain = self.read_manifest(name)
            totals = dict(plain["totals"])
            totals["found"] = {name: tuple(map(int, place)) for name, place in totals["found"].items()}
            if not all(len(place) in (2, 3) for place in totals["found"].values()):
                raise ValueError("found")
            parts = tuple(LevelFile(*part) for part in plain["parts"])
            level = CommittedLevel(int(plain["level"]), parts, Totals(**totals))
            if level.number != number or level.size != plain["count"]:
                raise ValueError("counts")
            base = 0
            for part in parts:
                if part.base != base or part.count < 1 or self.inside.fullmatch(part.file) is None:
                    raise ValueError("parts")
                base += part.count
            return level
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self.damaged(name) from None

    def levels(self) -> list[CommittedLevel]:
        """All committed levels in order.

        Raises InputError if a manifest is damaged or missing, or if the levels' counts contradict each other.
        """
        found: list[CommittedLevel] = []
        states = 0
        while (level := self.level(len(found))) is not None:
            states += level.size
            if level.totals.distinct_states != states:
                raise self.damaged(_manifest(level.number))
            found.append(level)
        if (self.directory / _manifest(len(found) + 1)).exists():
            raise self.wrong(f"{_manifest(len(found))} is not there")
        return found

    def verify(self, levels: list[CommittedLevel]) -> None:
        """Read all files of these levels. Raises InputError if a file is missing or differs from the manifest."""
        for level in levels:
            for part in level.parts:
                self._verify(level.number, part)

    def tidy(self, levels: list[CommittedLevel]) -> None:
        """Remove all files that belong to none of these committed levels. Raises OSError."""
        self.remove_unfinished()
        committed = {self.folder(level.number).name: level for level in levels}
        for entry in list(self._entries()):
            level = committed.get(entry.name)
            if level is not None and entry.is_dir(follow_symlinks=False):
                remove_files(Path(entry.path), self.inside, frozenset(part.file for part in level.parts))
            elif level is None and self.folders.fullmatch(entry.name):
                self.remove(entry.name)

    # --- states -----------------------------------------------------------------------------------

    def writer(self, number: int, bucket: int | None, words: int) -> PartWriter:
        """A writer for the new states of a bucket in a level. It creates no file before the first state."""
        return PartWriter(self.folder(number), bucket, words)

    def _verify(self, number: int, part: LevelFile) -> None:
        """Raises InputError if the file of a part is missing or differs from the level's manifest."""
        try:
            same = is_file_with(self.folder(number) / part.file, part.bytes, part.checksum)
        except FileNotFoundError:
            raise self.wrong(f"{self._name(number, part)} is not there") from None
        except OSError as wrong:
            raise self.wrong(f"{self._name(number, part)}: {wrong.strerror or wrong}") from None
        if not same:
            raise self.damaged(self._name(number, part))

    def _name(self, number: int, part: LevelFile) -> str:
        return f"{self.folder(number).name}/{part.file}"

    @contextmanager
    def open(self, number: int, part: LevelFile) -> Iterator[pq.ParquetFile]:
        """Context with the open, verified file of a part. Raises InputError if the file is missing or damaged."""
        self._verify(number, part)
        try:
            with pq.ParquetFile(self.folder(number) / part.file, memory_map=True) as file:
                if file.metadata.num_rows != part.count:
                    raise self.damaged(self._name(number, part))
                yield file
        except pa.ArrowInvalid:
            raise self.damaged(self._name(number, part)) from None

    def states(self, number: int, part: LevelFile, fingerprints: Fingerprints) -> Iterator[Words]:
        """Yield the packed states of a part, one row group after another.

        Raises InputError if a fingerprint, computed again, differs from the file.
        """
        with self.open(number, part) as file:
            names = [n for n in file.schema_arrow.names if n.startswith("word_")]
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=["fingerprint", *names], use_threads=False)
                out: Words = np.empty((table.num_rows, len(names)), dtype=np.uint64)
                for place, name in enumerate(names):
                    out[:, place] = table.column(name).to_numpy()
                if (fingerprints(out) != table.column("fingerprint").to_numpy()).any():
                    raise self.damaged(self._name(number, part))
                yield out

    def fingerprints(self, number: int, part: LevelFile) -> Words:
        """The fingerprints of the states in a part."""
        with self.open(number, part) as file:
            column = file.read(columns=["fingerprint"], use_threads=False).column(0)
            return np.asarray(column.to_numpy(), dtype=np.uint64)

    def origin(self, number: int, level: CommittedLevel, index: int) -> tuple[int, int]:
        """The last step of a run to a state of level ``number``: (index of its source one level before, instance)."""
        if not 0 <= index < level.size:
            raise self.damaged(_manifest(number))
        part = level.part_of(index)
        offset = index - part.base
        with self.open(number, part) as file:
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if offset < rows:
                    table = file.read_row_group(group, columns=["predecessor", "instance"])
                    return table.column(0)[offset].as_py(), table.column(1)[offset].as_py()
                offset -= rows
        raise self.damaged(self._name(number, part))


def _manifest(number: int) -> str:
    return f"level-{number:05}.json"


class PartWriter:
    """Writes rows (fingerprint, predecessor, words) to a new file of a level."""

    def __init__(self, folder: Path, bucket: int | None, words: int) -> None:
        self._folder, self.bucket, self._words = folder, bucket, words
        place = "all" if bucket is None else f"{bucket:05}"
        self.file = f"part-{place}-{uuid.uuid4().hex[:12]}.parquet"
        self._schema = pa.schema(
            [("fingerprint", pa.uint64()), ("predecessor", pa.uint64()), ("instance", pa.uint32())]
            + [(f"word_{i}", pa.uint64()) for i in range(words)]
        )
        self._out: _Counted | None = None
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[Words] = []
        self._held = 0
        self.count = 0
        self.bytes = self.checksum = 0

    def add(self, rows: Words) -> None:
        """Append a copy of these rows."""
        if len(rows):
            self._waiting.append(rows.copy())
            self._held += len(rows)
            self.count += len(rows)
        if self._held >= GROUP:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        if self._writer is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._out = _Counted((self._folder / self.file).open("xb", buffering=0))
            self._writer = pq.ParquetWriter(
                pa.PythonFile(self._out, mode="w"),
                self._schema,
                compression="lz4",
                use_dictionary=False,
                write_statistics=False,
            )
        rows = np.concatenate(self._waiting)
        self._waiting, self._held = [], 0
        packed = rows[:, 1]
        columns = [
            pa.array(np.ascontiguousarray(rows[:, 0])),
            pa.array(packed >> np.uint64(PREDECESSOR_BITS)),
            pa.array((packed & np.uint64(_INSTANCE)).astype(np.uint32)),
            *(pa.array(np.ascontiguousarray(rows[:, WORDS + i])) for i in range(self._words)),
        ]
        self._writer.write_table(pa.table(columns, schema=self._schema), row_group_size=2 * GROUP)

    def close(self) -> None:
        """Write the remaining rows, and wait until the file is on disk. Raises OSError."""
        self._flush()
        if self._writer is not None and self._out is not None:
            self._writer.close()
            self._out.finish()
            self.bytes, self.checksum = self._out.bytes, self._out.checksum

    def part(self, base: int = 0) -> LevelFile:
        """The manifest's entry for the written file. ``base`` is the index of the file's first state in the level."""
        return LevelFile(self.bucket, self.file, self.count, base, self.bytes, self.checksum)


class _Counted:
    """A file object for pyarrow that is written from start to end, and computes the file's size and CRC-32C."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = self.checksum = 0

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        self.bytes += len(left)
        self.checksum = checksum(left, self.checksum)
        size = len(left)
        while left:
            left = left[self._file.write(left) :]
        return size

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        """Do nothing, because nothing is buffered."""

    def close(self) -> None:
        """Do nothing: pyarrow calls this, but the file stays open until ``finish``."""

    def finish(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()
