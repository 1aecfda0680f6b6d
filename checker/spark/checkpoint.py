"""The levels of a search on disk: Parquet files of states, and a manifest that says which of them count.

    run.json                what is explored, and how fingerprints are divided
    level-00012.json        the manifest of a level: written last, under its name in one step
    level-00012/*.parquet   its states: fingerprint, predecessor, instance, word_0, word_1, …

A level is there when its manifest is. A file that no manifest names was left by a task that failed, was tried
twice, or was cut off; it means nothing. ``predecessor`` is the index of a state in the level before (in the
order of the manifest's parts), ``instance`` the number of the step that led from it; in the first level they
are the index of the initial state, and 0.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.checker.native.kernels import PREDECESSOR_BITS, WORDS
from highwater.checker.native.layout import Words
from highwater.checker.problems import InputError
from highwater.checker.spark import exchange

FORMAT = 2
GROUP = 1 << 18
"""States in a row group of a file, which are read and expanded together."""
_INSTANCE = (1 << PREDECESSOR_BITS) - 1


@dataclass(frozen=True)
class Part:
    """A file of a level: ``count`` states, those of a bucket, or of all (None), from index ``base`` on."""

    bucket: int | None
    file: str
    count: int
    base: int = 0


@dataclass(frozen=True)
class Totals:
    """What a search had counted when a level was committed; by name, as in a result."""

    distinct_states: int = 0
    generated_states: int = 0
    actions: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    premises: dict[str, int] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Property to the first violation's level (from 0) and index in it."""
    broken: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Property of steps to the same of the state before the first step that violates it, and that step's instance."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Level:
    """A committed level; the first one has the number 0."""

    number: int
    parts: tuple[Part, ...]
    totals: Totals

    @property
    def size(self) -> int:
        """Its states."""
        return sum(part.count for part in self.parts)

    def part_of(self, index: int) -> Part:
        """The part that holds the state with this index."""
        return next(p for p in self.parts if p.base <= index < p.base + p.count)


@dataclass(frozen=True)
class Run:
    """What a checkpoint is of: the model's request and compiled content, and the division into buckets."""

    name: str
    request: str
    content: str
    words: int
    shift: int
    """A bucket holds the fingerprints with the same first so many bits."""

    @property
    def buckets(self) -> int:
        """How many there are."""
        return 1 << self.shift


class Checkpoint:
    """A directory of committed levels."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    # --- the run ----------------------------------------------------------------------------------

    def begin(self, run: Run) -> None:
        """Write what is explored into a new directory; InputError where it is not empty or cannot be written."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if any(self.directory.iterdir()):
                what = "a checkpoint already" if self._run_file.is_file() else "other files"
                more = "; --resume goes on with it" if self._run_file.is_file() else ""
                raise InputError(f"--checkpoint {self.directory}: the directory holds {what}{more}")
            self._write(self._run_file, {"format": FORMAT, **vars(run)})
        except OSError as wrong:
            raise self.unusable(wrong) from None

    def run(self) -> Run:
        """What is explored; InputError where the directory is no checkpoint of this version."""
        try:
            plain = json.loads(self._run_file.read_text(encoding="utf-8"))
            version = plain.pop("format")
            if version != FORMAT:
                raise InputError(f"--checkpoint {self.directory}: written by another version ({version})")
            run = Run(**plain)
            if not (isinstance(run.shift, int) and 0 < run.shift <= 16 and isinstance(run.words, int)):
                raise ValueError("numbers")
            return run
        except OSError as wrong:
            raise InputError(
                f"--checkpoint {self.directory}: no checkpoint there ({wrong.strerror or wrong})"
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InputError(f"--checkpoint {self.directory}: run.json is not a checkpoint's") from None

    @property
    def _run_file(self) -> Path:
        return self.directory / "run.json"

    def unusable(self, wrong: OSError) -> InputError:
        """What to say where the directory cannot be written or read."""
        return InputError(f"--checkpoint {self.directory}: {wrong.strerror or wrong}")

    # --- levels -----------------------------------------------------------------------------------

    def _manifest(self, number: int) -> Path:
        return self.directory / f"level-{number:05}.json"

    def folder(self, number: int) -> Path:
        """The directory of a level's files."""
        return self.directory / f"level-{number:05}"

    def commit(self, level: Level) -> None:
        """Make a level count; OSError where it cannot be written."""
        plain = {
            "level": level.number,
            "count": level.size,
            "parts": [[p.bucket, p.file, p.count, p.base] for p in level.parts],
            "totals": vars(level.totals),
        }
        self._write(self._manifest(level.number), plain)

    def _write(self, path: Path, plain: dict[str, Any]) -> None:
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as out:
            json.dump(plain, out)
            out.write("\n")
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)

    def level(self, number: int) -> Level | None:
        """A committed level, or None; InputError where its manifest is damaged."""
        path = self._manifest(number)
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            totals = dict(plain["totals"])
            totals["places"] = {name: (int(a), int(b)) for name, (a, b) in totals["places"].items()}
            totals["broken"] = {n: (int(a), int(b), int(c)) for n, (a, b, c) in totals["broken"].items()}
            parts = tuple(Part(*part) for part in plain["parts"])
            level = Level(int(plain["level"]), parts, Totals(**totals))
            if level.number != number or level.size != plain["count"]:
                raise ValueError("counts")
            return level
        except FileNotFoundError:
            return None
        except OSError as wrong:
            raise self.unusable(wrong) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._damaged(path.name) from None

    def levels(self) -> list[Level]:
        """All committed levels in order, up to the first that is missing."""
        found: list[Level] = []
        while (level := self.level(len(found))) is not None:
            found.append(level)
        return found

    def tidy(self, levels: list[Level]) -> None:
        """Remove what was left of levels that were not committed."""
        exchange.tidy(self.directory)
        for folder in self.directory.glob("level-*"):
            if folder.is_dir() and int(folder.name.rpartition("-")[2]) >= len(levels):
                shutil.rmtree(folder, ignore_errors=True)
        for level in levels:
            known = {part.file for part in level.parts}
            for file in self.folder(level.number).glob("*.parquet"):
                if file.name not in known:
                    file.unlink(missing_ok=True)

    # --- states -----------------------------------------------------------------------------------

    def writer(self, number: int, bucket: int | None, words: int) -> PartWriter:
        """For the states of a bucket in a level; nothing is written before the first of them."""
        return PartWriter(self.folder(number), bucket, words)

    @contextmanager
    def open(self, number: int, part: Part) -> Iterator[pq.ParquetFile]:
        """The file of a part; InputError where it is damaged."""
        try:
            with pq.ParquetFile(self.folder(number) / part.file, memory_map=True) as file:
                yield file
        except pa.ArrowInvalid:
            raise self._damaged(f"level-{number:05}/{part.file}") from None

    def _damaged(self, what: str) -> InputError:
        return InputError(f"--checkpoint {self.directory}: {what} is damaged")

    def states(self, number: int, part: Part) -> Iterator[Words]:
        """The packed states of a part, in groups."""
        with self.open(number, part) as file:
            names = [n for n in file.schema_arrow.names if n.startswith("word_")]
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=names, use_threads=False)
                out: Words = np.empty((table.num_rows, len(names)), dtype=np.uint64)
                for place, name in enumerate(names):
                    out[:, place] = table.column(name).to_numpy()
                yield out

    def fingerprints(self, number: int, part: Part) -> Words:
        """The fingerprints of a part."""
        with self.open(number, part) as file:
            column = file.read(columns=["fingerprint"], use_threads=False).column(0)
            return np.asarray(column.to_numpy(), dtype=np.uint64)

    def origin(self, number: int, level: Level, index: int) -> tuple[int, int]:
        """Where a state of a level came from: the index in the level before, and the instance."""
        part = level.part_of(index)
        offset = index - part.base
        with self.open(number, part) as file:
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if offset < rows:
                    table = file.read_row_group(group, columns=["predecessor", "instance"])
                    return table.column(0)[offset].as_py(), table.column(1)[offset].as_py()
                offset -= rows
        raise self._damaged(f"level-{number:05}/{part.file}")


class PartWriter:
    """Writes rows (fingerprint, predecessor, words) to a file with a name of its own."""

    def __init__(self, folder: Path, bucket: int | None, words: int) -> None:
        self._folder, self.bucket, self._words = folder, bucket, words
        place = "all" if bucket is None else f"{bucket:05}"
        self.file = f"part-{place}-{uuid.uuid4().hex[:12]}.parquet"
        self._schema = pa.schema(
            [("fingerprint", pa.uint64()), ("predecessor", pa.uint64()), ("instance", pa.uint32())]
            + [(f"word_{i}", pa.uint64()) for i in range(words)]
        )
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[Words] = []
        self._held = 0
        self.count = 0
        self.bytes = 0

    def add(self, rows: Words) -> None:
        """Append rows; they are copied."""
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
            self._writer = pq.ParquetWriter(
                self._folder / self.file,
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
        """Finish the file."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
            self.bytes = (self._folder / self.file).stat().st_size

    def part(self, base: int = 0) -> Part:
        """What the manifest says of it."""
        return Part(self.bucket, self.file, self.count, base)
