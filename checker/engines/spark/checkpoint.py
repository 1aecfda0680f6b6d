"""The levels of a search on disk: Parquet files of states, and a manifest for each level.

    search.json                       the identity of the search, and the number of buckets
    level-00012.json                  the manifest of a level: written last, and renamed into place
    states/level-00012-*.parquet      the states of a level: state, _predecessor, _instance, _word_0, _word_1, …
    transitions/level-00012-*.parquet the steps that found this level, if the search writes tables
    lock                              locked by the driver until its process ends

A level exists if its manifest does. A file that no manifest names is ignored, because a task that failed or ran twice
left it. ``state`` is the state's fingerprint. ``_predecessor`` is the index of a state in the level before, in the
order of the manifest's parts. ``_instance`` is the number of the instance of the step from the predecessor. In the
first level, ``_predecessor`` is the index of the initial state, and ``_instance`` is 0. If the search writes tables,
``states`` also has the columns of ``StateTable``.

The files are not trusted (``checkpoint_directory``). A manifest has the size, the CRC-32C and the count of each file
of its level. They are checked whenever the file is opened.
"""

from __future__ import annotations

import itertools
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checker.base.checkpoint_directory import CheckpointDirectory, remove_files
from highwater.checker.base.files import checksum, is_file_with, sync
from highwater.checker.engines.breadth_first import Totals
from highwater.checker.engines.columns import STATES, TRANSITIONS, with_dictionary
from highwater.checker.engines.native.kernels import PREDECESSOR_BITS, WORDS
from highwater.checker.engines.state_graph import Words

GROUP = 1 << 17
"""The most states that are expanded together.

A row group of a file is read as a whole. It has between this number and twice this number of rows. Only the last row
group of a file may have fewer.
"""
Fingerprints = Callable[[Words], Words]
"""Computes the fingerprints of packed states."""
Columns = dict[str, pa.Array]
_INSTANCE = (1 << PREDECESSOR_BITS) - 1


class LevelFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file of a level: ``count`` states from index ``base`` of the level on.

    ``bucket`` is the bucket of the file's states; None if the level is not divided into buckets. ``bytes`` is the
    file's size, ``checksum`` its CRC-32C.
    """

    bucket: int | None
    file: str
    count: Annotated[int, msgspec.Meta(ge=1)]
    base: int = 0
    bytes: int = 0
    checksum: int = 0


class CommittedLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A level with a manifest. ``number`` starts at 0. ``totals`` are the counts from level 0 up to this level.

    ``parts`` are the files of states, ``steps`` the files of transitions.
    """

    number: int
    parts: tuple[LevelFile, ...]
    totals: Totals
    steps: tuple[LevelFile, ...] = ()

    @property
    def size(self) -> int:
        """The number of states in the level."""
        return sum(part.count for part in self.parts)

    def part_of(self, index: int) -> LevelFile:
        """The file that contains the state with this index."""
        return next(p for p in self.parts if p.base <= index < p.base + p.count)


class SearchIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The identity of a search: a random name, the model's request, and a digest of the model's compiled content.

    ``words`` is the number of words of a state, ``buckets`` the number of buckets.
    """

    name: str
    request: str
    content: str
    words: int
    buckets: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]
    """All fingerprints with the same remainder modulo this number are in one bucket."""


class SparkCheckpoint(CheckpointDirectory):
    """The directory with the committed levels of a search.

    The driver locks it. Spark's tasks read and write the files of levels.
    """

    engine = "spark"
    format = 7
    files = re.compile(r"level-[0-9]{5,9}\.json|run\.json")
    folders = re.compile(f"{STATES}|{TRANSITIONS}")
    inside = re.compile(r"level-[0-9]{5,9}-(all|[0-9]{5,9})-[0-9a-f]{12}\.parquet")

    # --- the run ----------------------------------------------------------------------------------

    def begin(self, run: SearchIdentity) -> None:
        """Write the search's identity into a new directory. Raises InputError if it cannot be written."""
        try:
            self.write_manifest(self.head, msgspec.to_builtins(run))
        except OSError as wrong:
            raise self.unusable(wrong) from None

    def run(self) -> SearchIdentity:
        """The search's identity.

        Raises InputError if the directory is damaged, or has no checkpoint of this format version.
        """
        try:
            return msgspec.convert(self.read_manifest(self.head), SearchIdentity)
        except FileNotFoundError:
            raise self.wrong("no checkpoint there") from None
        except msgspec.ValidationError:
            raise self.damaged(self.head) from None

    # --- levels -----------------------------------------------------------------------------------

    def commit(self, level: CommittedLevel) -> None:
        """Write the manifest of a level. Raises OSError."""
        for folder, files in ((STATES, level.parts), (TRANSITIONS, level.steps)):
            if files:
                sync(self.directory / folder)
        self.write_manifest(_manifest(level.number), msgspec.to_builtins(level))

    def level(self, number: int) -> CommittedLevel | None:
        """The committed level with this number; None if there is none. Raises InputError if its manifest is damaged."""
        name = _manifest(number)
        try:
            level = msgspec.convert(self.read_manifest(name), CommittedLevel)
        except FileNotFoundError:
            return None
        except msgspec.ValidationError:
            raise self.damaged(name) from None
        bases = list(itertools.accumulate((part.count for part in level.parts), initial=0))
        if (
            level.number != number
            or [part.base for part in level.parts] != bases[:-1]
            or not all(self.inside.fullmatch(part.file) for part in (*level.parts, *level.steps))
        ):
            raise self.damaged(name)
        return level

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
                self._verify(STATES, part)
            for part in level.steps:
                self._verify(TRANSITIONS, part)

    def tidy(self, levels: list[CommittedLevel]) -> None:
        """Remove all files that belong to none of these committed levels. Raises OSError."""
        self.remove_unfinished()
        files = frozenset(part.file for level in levels for part in (*level.parts, *level.steps))
        for folder in (STATES, TRANSITIONS):
            remove_files(self.directory / folder, self.inside, files)

    # --- states -----------------------------------------------------------------------------------

    def writer(
        self, folder: str, number: int, bucket: int | None, columns: Callable[[Words], Columns]
    ) -> PartWriter:
        """A writer for the rows of a bucket in a level. ``columns`` converts rows to the columns of the file.

        It creates no file before the first row.
        """
        place = "all" if bucket is None else f"{bucket:05}"
        file = f"level-{number:05}-{place}-{uuid.uuid4().hex[:12]}.parquet"
        return PartWriter(self.directory / folder / file, bucket, columns)

    def _verify(self, folder: str, part: LevelFile) -> None:
        """Raises InputError if a file is missing or differs from the level's manifest."""
        name = f"{folder}/{part.file}"
        try:
            same = is_file_with(self.directory / name, part.bytes, part.checksum)
        except FileNotFoundError:
            raise self.wrong(f"{name} is not there") from None
        except OSError as wrong:
            raise self.wrong(f"{name}: {wrong.strerror or wrong}") from None
        if not same:
            raise self.damaged(name)

    @contextmanager
    def open(self, part: LevelFile) -> Iterator[pq.ParquetFile]:
        """Context with the open, verified file of states. Raises InputError if the file is missing or damaged."""
        self._verify(STATES, part)
        try:
            with pq.ParquetFile(self.directory / STATES / part.file, memory_map=True) as file:
                if file.metadata.num_rows != part.count:
                    raise self.damaged(f"{STATES}/{part.file}")
                yield file
        except pa.ArrowInvalid:
            raise self.damaged(f"{STATES}/{part.file}") from None

    def states(self, part: LevelFile, fingerprints: Fingerprints) -> Iterator[Words]:
        """Yield the packed states of a part, one row group after another.

        Raises InputError if a fingerprint, computed again, differs from the file.
        """
        with self.open(part) as file:
            names = [n for n in file.schema_arrow.names if n.startswith("_word_")]
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=["state", *names], use_threads=False)
                out: Words = np.empty((table.num_rows, len(names)), dtype=np.uint64)
                for place, name in enumerate(names):
                    out[:, place] = _words(table.column(name))
                if (fingerprints(out) != _words(table.column("state"))).any():
                    raise self.damaged(f"{STATES}/{part.file}")
                yield out

    def fingerprints(self, part: LevelFile) -> Words:
        """The fingerprints of the states in a part."""
        with self.open(part) as file:
            return _words(file.read(columns=["state"], use_threads=False).column(0))

    def origin(self, level: CommittedLevel, index: int) -> tuple[int, int]:
        """The last step of a run to a state of a level: (index of its source one level before, instance)."""
        if not 0 <= index < level.size:
            raise self.damaged(_manifest(level.number))
        part = level.part_of(index)
        offset = index - part.base
        with self.open(part) as file:
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if offset < rows:
                    table = file.read_row_group(group, columns=["_predecessor", "_instance"])
                    return table.column(0)[offset].as_py(), table.column(1)[offset].as_py()
                offset -= rows
        raise self.damaged(f"{STATES}/{part.file}")


def _manifest(number: int) -> str:
    return f"level-{number:05}.json"


def _words(column: pa.ChunkedArray) -> Words:
    found: Words = column.to_numpy().view(np.uint64)
    return found


def packed_columns(rows: Words) -> Columns:
    """The columns from which a search reads its states: of rows (fingerprint, predecessor, words).

    Numbers are signed, because Spark's SQL has no unsigned ones.
    """
    packed, signed = rows[:, 1], rows.view(np.int64)
    words = range(rows.shape[1] - WORDS)
    return {
        "state": pa.array(np.ascontiguousarray(signed[:, 0])),
        "_predecessor": pa.array((packed >> np.uint64(PREDECESSOR_BITS)).astype(np.int64)),
        "_instance": pa.array((packed & np.uint64(_INSTANCE)).astype(np.int32)),
        **{f"_word_{i}": pa.array(np.ascontiguousarray(signed[:, WORDS + i])) for i in words},
    }


class PartWriter:
    """Writes rows of words to a new file of a level, as the columns that ``columns`` makes of them."""

    def __init__(self, path: Path, bucket: int | None, columns: Callable[[Words], Columns]) -> None:
        self._path, self.bucket, self._columns = path, bucket, columns
        self._out: _Counted | None = None
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[Words] = []
        self._held = 0
        self.count = 0

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
        rows = np.concatenate(self._waiting)
        self._waiting, self._held = [], 0
        table = pa.table(self._columns(rows))
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._out = _Counted(self._path.open("xb", buffering=0))
            self._writer = pq.ParquetWriter(
                pa.PythonFile(self._out, mode="w"),
                table.schema,
                compression="lz4",
                use_dictionary=with_dictionary(table.schema),
                write_statistics=False,
            )
        self._writer.write_table(table, row_group_size=2 * GROUP)

    def written(self) -> list[Any]:
        """Write the remaining rows, and wait until the file is on disk. Raises OSError.

        Returns the file's name, the number of rows, its size and its checksum.
        """
        self._flush()
        if self._writer is not None and self._out is not None:
            self._writer.close()
            self._out.finish()
        size, found = (0, 0) if self._out is None else (self._out.bytes, self._out.checksum)
        return [self._path.name, self.count, size, found]


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
