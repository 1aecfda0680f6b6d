"""Checkpoints of a native search: the files of a directory, saving, verifying and resuming."""

from __future__ import annotations

import hashlib
import itertools
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

import highwater
from highwater.checker.base.checkpoint_directory import HEADS, CheckpointDirectory
from highwater.checker.base.problems import InputError
from highwater.checker.engines.native.disk.code import code
from highwater.checker.engines.native.disk.runs import DamagedError, SortedRun
from highwater.checker.engines.native.disk.visited import VisitedRuns
from highwater.checker.engines.native.frontier import Chunk, DataFile, KeptArray, Level, SavedFile, Store
from highwater.checker.engines.native.search_state import SearchState
from highwater.checker.engines.native.worker import FULL
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.model_key import model_key

MANIFEST = HEADS["native"]


class Checkpoint(CheckpointDirectory):
    """The directory of a native search's checkpoint. This process holds its lock until ``close``."""

    engine = "native"
    format = 3
    files = re.compile(r"(visited|predecessors|states)-([0-9]{6,12})\.data")

    def __init__(self, directory: str, *, resume: bool) -> None:
        """Lock the directory: for a new search or, with ``resume``, for the search whose checkpoint it has.

        Raises InputError if another process has locked the directory. Also raises InputError if the directory has
        no checkpoint to resume, or has a checkpoint although the search is new.
        """
        super().__init__(directory)
        self._number = 0
        self.take(resume=resume)

    # --- writing ----------------------------------------------------------------------------------

    def new_file(self, kind: str) -> DataFile:
        """Create a new data file; its name starts with ``kind``. Raises OSError."""
        while True:
            self._number += 1
            try:
                return DataFile.named(self.directory / f"{kind}-{self._number:06}.data")
            except FileExistsError:  # an earlier process left this file
                continue

    def commit(self, manifest: Mapping[str, Any], files: list[DataFile]) -> None:
        """Sync ``files``, then write the manifest. The checkpoint is valid from then on. Raises OSError."""
        for file in files:
            file.sync()
        self.write_manifest(MANIFEST, manifest)

    def tidy(self, names: set[str]) -> None:
        """Remove every file of the checkpoint that is not in ``names``, and every half-written file. Raises OSError."""
        self.remove_unfinished()
        for entry in list(self._entries()):
            if entry.name not in names:
                self.remove(entry.name)

    # --- reading ----------------------------------------------------------------------------------

    def manifest(self) -> dict[str, Any]:
        """The content of the manifest. Raises InputError if it is missing, damaged or of another format version."""
        try:
            return self.read_manifest(MANIFEST)
        except FileNotFoundError as wrong:
            raise self.unusable(wrong) from None

    def verify(self, name: str, size: int, checksum: int) -> None:
        """Read a data file. Raises InputError unless it has this size and checksum (from the manifest)."""
        found = self.files.fullmatch(name)
        if found is None:
            raise self.damaged(MANIFEST)
        self._number = max(self._number, int(found[2]))
        try:
            file = self.file(name, size, checksum)
            try:
                if not file.matches():
                    raise self.damaged(name)
            finally:
                file.close()
        except OSError as wrong:
            raise InputError(f"--checkpoint {self.directory}: {name}: {wrong.strerror or wrong}") from None

    def file(self, name: str, size: int, checksum: int) -> DataFile:
        """Open a data file for reading, with its size and checksum from the manifest. Raises OSError."""
        return DataFile.kept(self.directory / name, size, checksum)


def model_of(run: SearchState) -> dict[str, Any]:
    """The readable identity of a search: protocol, parameters, rules, properties, options."""
    model, options = run.program.model, run.options
    return {
        "protocol": model.protocol.name,
        "parameters": dict(sorted(model.protocol.parameter_values.items())),
        "rules": sorted(model.protocol.rules_on),
        "properties": run.names + run.step_names,
        "symmetry": options.symmetry,
        "deadlock": options.deadlock,
    }


def content_of(run: SearchState) -> str:
    """A digest of the model, its LLVM text and its initial states. Only a search with an equal digest is restored."""
    options = run.options
    digest = hashlib.sha256()
    key = model_key(run.program.model, options.symmetry, options.deadlock)
    for part in (key, run.program.name.digest, repr(run.start.tolist())):
        content = part.encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()


def refuse_other(directory: object, manifest: dict[str, Any], run: SearchState, content: str) -> None:
    """Raises InputError if the manifest is damaged, or belongs to another search than ``run``."""
    then, now = manifest.get("model"), model_of(run)
    if not isinstance(then, dict):
        raise InputError(f"--checkpoint {directory}: {MANIFEST} is damaged")
    for key in now:
        if then.get(key) != now[key]:
            said = difference(then.get(key), now[key])
            raise InputError(f"--resume: {directory} was made with other {key}: {said}")
    if manifest.get("content") != content:
        raise InputError(
            f"--resume: {directory} was made with another version of the protocol or the checker"
        )


def difference(then: object, now: object) -> str:
    """The difference between a setting in the checkpoint and the present setting, as text."""
    if isinstance(then, dict) and isinstance(now, dict):
        keys = [key for key in sorted({*then, *now}) if then.get(key) != now.get(key)]
        return ", ".join(f"{key} was {then.get(key)}, is {now.get(key)}" for key in keys)
    return f"then {then}, now {now}"


_AT_ONCE = 1 << 18
"""The most states whose fingerprints one call computes."""


def unvisited(run: SearchState) -> int:
    """0 if all restored states are distinct and in the visited set, otherwise a positive number. Raises OSError."""
    return _not_in_table(run) if run.delayed is None else _not_on_disk(run)


def _fingerprints(run: SearchState) -> Iterator[Words]:
    """Yield the fingerprints of all saved states in the last two levels."""
    for level in run.levels[-2:]:
        for chunk in level.chunks:
            if chunk.states.source is not None:
                states = run.states.get(chunk.states)
                for start in range(0, len(states), _AT_ONCE):
                    yield run.program.fingerprints(states[start : start + _AT_ONCE])


def _not_in_table(run: SearchState) -> int:
    table, missing = run.table, 0
    for part in _fingerprints(run):
        missing += len(part) - code().held(table.address, table.capacity, part.ctypes.data, len(part))
    return missing


def _not_on_disk(run: SearchState) -> int:
    """The result of ``unvisited`` for a visited set on disk.

    The restored fingerprints are put into the table in batches, and each batch is looked up in the sorted runs. If a
    batch has a duplicate, the count ends early, with a positive number.
    """
    delayed, table, missing = run.delayed, run.table, 0
    assert delayed is not None
    wanted = sum(chunk.count for level in run.levels[-2:] for chunk in level.chunks if chunk.states.source)
    table.clear(wanted)

    def marked() -> int:
        if not table.taken:
            return 0
        missed = table.taken - delayed.visited.mark(table, delayed.marks)
        delayed.marks[:] = 0
        table.clear(wanted)
        return missed

    for part in _fingerprints(run):
        while len(part):
            if not table.has_room(1):
                missing += marked()
            room = max(1, int(FULL * table.capacity) - table.taken)
            now, part = part[:room], part[room:]
            if code().fill(table.address, table.capacity, now.ctypes.data, len(now)):
                return missing + 1
            table.taken += len(now)
    missing += marked()
    table.clear()
    return missing


EVERY = 60.0
"""The least number of seconds between two checkpoints."""
SHARE = 15
"""The least time until the next checkpoint, as a multiple of the time that writing the last checkpoint took."""


class Checkpointer:
    """Saves a search in a directory, and restores it."""

    def __init__(self, run: SearchState, directory: str) -> None:
        """Lock the directory of the checkpoint. Raises InputError if the directory cannot be used."""
        self._run = run
        self._checkpoint = Checkpoint(directory, resume=run.options.resume)
        self._sums: dict[str, tuple[int, int]] = {}
        """The size in bytes and the checksum of each file of the checkpoint."""
        self._next = time.perf_counter() + EVERY

    @property
    def due(self) -> bool:
        """True if the time for the next checkpoint has come."""
        return time.perf_counter() > self._next

    def new_file(self, kind: str) -> DataFile:
        """Create a new data file for the next checkpoint. Raises OSError."""
        return self._checkpoint.new_file(kind)

    def close(self) -> None:
        """Unlock the directory."""
        self._checkpoint.close()

    @cached_property
    def _content(self) -> str:
        return content_of(self._run)

    # --- writing ----------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint. No worker may run meanwhile. Raises OSError."""
        started = time.perf_counter()
        with ExitStack() as closing:
            written = [self._save_predecessors(closing), self._save_states(closing)]
            visited = self._visited(closing)
            manifest = self._manifest(visited)
            chunks = itertools.chain.from_iterable(manifest["levels"])
            names = {name for _, *places in chunks for name in places[::2]}
            for run in visited:
                names.add(str(run.file.name))
                self._sums[str(run.file.name)] = (run.file.size, run.file.checksum)
            self._sums = {name: sums for name, sums in self._sums.items() if name in names}
            manifest["files"] = self._sums
            self._checkpoint.commit(manifest, [*written, *(run.file for run in visited)])
            self._checkpoint.tidy(names)
        took = time.perf_counter() - started
        self._next = time.perf_counter() + max(EVERY, SHARE * took)

    def _manifest(self, visited: list[SortedRun]) -> dict[str, Any]:
        """The content of the manifest, without ``files``."""
        run = self._run
        return {
            "engine": "native",
            "highwater": highwater.__version__,
            "model": model_of(run),
            "content": self._content,
            "complete": not run.levels[-1].size and not run.items,
            "levels": [self._level(number) for number in range(len(run.levels))],
            "rest": [[chunk.base + start, chunk.base + end] for chunk, start, end in run.items],
            "visited": [[r.file.name, r.blocks] for r in visited],
            "distinct": run.distinct,
            "counts": np.sum([w.counts for w in run.workers], axis=0).tolist(),
            "cuts": np.sum([w.cuts for w in run.workers], axis=0).tolist(),
            "premises": np.sum([w.premises for w in run.workers], axis=0).tolist(),
            "places": {name: list(place) for name, place in run.found.items() if len(place) == 2},
            "broken": {name: list(place) for name, place in run.found.items() if len(place) == 3},
            "seconds": run.seconds,
        }

    def _begun(self, kind: str, closing: ExitStack) -> DataFile:
        file = self.new_file(kind)
        closing.callback(file.close)
        return file

    def _save_predecessors(self, closing: ExitStack) -> DataFile:
        """Write all predecessors that are not in a file of the checkpoint yet."""
        file, store = self._begun("predecessors", closing), self._run.predecessors
        source = SavedFile(self._checkpoint.directory / str(file.name))
        for level in reversed(self._run.levels):
            if all(_is_saved(chunk.predecessors) for chunk in level.chunks) and level.chunks:
                break
            for chunk in level.chunks:
                chunk.predecessors = _saved(chunk.predecessors, file, source, store)
        self._sums[str(file.name)] = (file.size, file.checksum)
        return file

    def _save_states(self, closing: ExitStack) -> DataFile:
        """Write the last level's states, and those of the level before it if that level has unexpanded states."""
        file, run = self._begun("states", closing), self._run
        source = SavedFile(self._checkpoint.directory / str(file.name))
        for level in run.levels[-2:] if run.items else run.levels[-1:]:
            for chunk in level.chunks:
                chunk.states = _saved(chunk.states, file, source, run.states)
        self._sums[str(file.name)] = (file.size, file.checksum)
        return file

    def _visited(self, closing: ExitStack) -> list[SortedRun]:
        """The sorted runs with the fingerprints of all visited states; empty for a finished search.

        If the visited set is in memory, it is written as one run first.
        """
        run = self._run
        if not run.levels[-1].size and not run.items:
            return []
        if run.delayed is not None:
            return run.delayed.visited.runs
        own = VisitedRuns(self.new_file, run.count)
        closing.callback(own.close)
        own.dump(run.table)
        return own.runs

    def _level(self, number: int) -> list[list[Any]]:
        """The manifest's entry for a level: for each chunk its count, then file and offset of predecessors and states.

        Levels without unexpanded states list no states. In a level before the last two, this also joins chunks whose
        predecessors are adjacent in a file (``_join``).
        """
        run, level = self._run, self._run.levels[number]
        with_states = number == len(run.levels) - 1 or (number == len(run.levels) - 2 and bool(run.items))
        if number < len(run.levels) - 2:
            _join(level)
        return [
            [c.count, *_place(c.predecessors), *(_place(c.states) if with_states else ())]
            for c in level.chunks
        ]

    # --- reading ----------------------------------------------------------------------------------

    def restore(self) -> bool:
        """Restore the search if ``--resume`` is given. Returns True if it was restored.

        Raises InputError if the checkpoint is damaged or belongs to another search.
        """
        run = self._run
        if not run.options.resume:
            return False
        manifest = self._checkpoint.manifest()
        refuse_other(self._checkpoint.directory, manifest, run, self._content)
        try:
            self._restore(manifest)
        except (DamagedError, KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError):
            raise self._checkpoint.damaged(MANIFEST) from None
        except OSError as wrong:
            raise self._checkpoint.unusable(wrong) from None
        return True

    def _restore(self, manifest: dict[str, Any]) -> None:
        run = self._run
        self._sums = {str(n): (int(size), int(check)) for n, (size, check) in manifest["files"].items()}
        for name, sums in self._sums.items():
            self._checkpoint.verify(name, *sums)
        run.levels = [self._level_of(plain) for plain in manifest["levels"]]
        complete, distinct = manifest["complete"], int(manifest["distinct"])
        _need(distinct == sum(level.size for level in run.levels))
        _need(not complete or not (run.levels[-1].size or manifest["rest"]))
        _need(all(chunk.states.source is not None for chunk in run.levels[-1].chunks))
        run.items = deque(self._rest(manifest["rest"]))
        self._restore_counters(manifest)
        with ExitStack() as opened:
            runs = []
            for name, blocks in manifest["visited"]:
                file = self._checkpoint.file(name, *self._sums[name])
                opened.callback(file.close)
                runs.append(SortedRun.read(file, blocks))
            _need(complete or distinct == sum(r.count for r in runs))
            self._restore_visited(runs, distinct)
            opened.pop_all()
        _need(not unvisited(run))
        self._checkpoint.tidy(set(self._sums))

    def _level_of(self, chunks: list[list[Any]]) -> Level:
        """The level that an entry of the manifest describes."""
        level, words = Level(), self._run.program.layout.words
        for count, *places in chunks:
            _need(isinstance(count, int) and count > 0 and len(places) in (2, 4))
            states = self._kept((count, words), *places[2:]) if places[2:] else _NO_STATES
            level.add(count, states, self._kept((count,), *places[:2]))
        return level

    def _kept(self, shape: tuple[int, ...], name: str, offset: int) -> KeptArray:
        """The handle of an array of this shape at an offset of a file."""
        kept = KeptArray(shape, None, offset, SavedFile(self._checkpoint.directory / name))
        _need(isinstance(offset, int) and offset >= 0 and offset + kept.bytes <= self._sums[name][0])
        return kept

    def _rest(self, ranges: list[list[int]]) -> list[tuple[Chunk, int, int]]:
        """The unexpanded parts of the last level but one, as (chunk, start, end)."""
        parts: list[tuple[Chunk, int, int]] = []
        for start, end in ranges:
            level = self._run.levels[-2]
            _need(0 <= start < end <= level.size)
            for chunk in level.chunks:
                first, last = max(start, chunk.base), min(end, chunk.base + chunk.count)
                if first < last:
                    _need(chunk.states.source is not None)
                    parts.append((chunk, first - chunk.base, last - chunk.base))
        return parts

    def _restore_counters(self, manifest: dict[str, Any]) -> None:
        run = self._run
        worker = run.workers[0]
        for name, array in (
            ("counts", worker.counts),
            ("cuts", worker.cuts),
            ("premises", worker.premises),
        ):
            _need(len(manifest[name]) == len(array) and all(n >= 0 for n in manifest[name]))
            array[:] = manifest[name]
        for name, (number, index) in manifest["places"].items():
            _need(0 <= number < len(run.levels) and 0 <= index < run.levels[number].size)
            run.found[name] = (number, index)
        for name, (number, index, instance) in manifest["broken"].items():
            _need(0 <= number < len(run.levels) and 0 <= index < run.levels[number].size)
            _need(name in run.step_names and 0 <= instance < run.program.instances)
            run.found[name] = (number, index, instance)
        run.seconds = float(manifest["seconds"])

    def _restore_visited(self, runs: list[SortedRun], distinct: int) -> None:
        """Load the fingerprints of the runs into the table, or keep them on disk.

        They stay on disk if they would fill more than three quarters of the table at its largest size, and the search
        may use the disk.
        """
        run = self._run
        if not runs:
            run.table.taken = distinct
            return
        if distinct * 4 > run.table.most * 3 and run.on_disk:
            run.use_disk()
            assert run.delayed is not None
            run.delayed.visited.runs = runs
            run.table.clear()
            return
        own = VisitedRuns(self.new_file, 1)
        own.runs = runs
        run.table.clear(2 * distinct)
        try:
            _need(own.load(run.table) == 0)
        finally:
            own.close()


def _need(condition: object) -> None:
    if not condition:
        raise DamagedError


def _is_saved(kept: KeptArray) -> bool:
    return isinstance(kept.source, SavedFile)


def _saved(kept: KeptArray, file: DataFile, source: SavedFile, store: Store) -> KeptArray:
    """The handle of an array in a saved file. If it is in no saved file yet, move it from ``store`` to ``file``.

    ``source`` is the same file as ``file``: later reads of the array use it.
    """
    if _is_saved(kept):
        return kept
    offset = file.append(store.get(kept))
    store.drop(kept)
    return KeptArray(kept.shape, None, offset, source)


_NO_STATES = KeptArray((0,), None)


def _place(kept: KeptArray) -> tuple[str, int]:
    """The file of a saved array, and the array's offset in bytes."""
    assert isinstance(kept.source, SavedFile)
    return kept.source.path.name, kept.offset


def _join(level: Level) -> None:
    """Join chunks whose predecessors are adjacent in a file. The joined chunks have no stored states."""
    joined: list[KeptArray] = []
    for kept in (chunk.predecessors for chunk in level.chunks):
        name, offset = _place(joined[-1]) if joined else ("", 0)
        if joined and _place(kept) == (name, offset + joined[-1].bytes):
            joined[-1] = replace(joined[-1], shape=(joined[-1].shape[0] + kept.shape[0],))
        else:
            joined.append(kept)
    level.chunks, level.size = [], 0
    for kept in joined:
        level.add(kept.shape[0], _NO_STATES, kept)
