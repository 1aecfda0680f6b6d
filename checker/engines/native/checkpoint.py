"""The state of a native search, and checkpoints: finished levels in a directory, from which a later search resumes.

``SearchState`` has levels, visited states, counters and violations, and divides the memory; ``levels.py`` fills it.

Now and then, at the end of a level, the search writes these files:

    visited-*.data        the fingerprints of all visited states, as sorted runs (``runs.py``)
    predecessors-*.data   for each level, the last steps of the runs to its states
    states-*.data         the states of the last level
    manifest.json         the files above with sizes and checksums, and all counts; written last

A visited set on disk has these files already. A resumed search continues after the last level in the manifest.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import deque
from contextlib import ExitStack, closing
from functools import cached_property
from typing import Any

import highwater
from highwater.checker.base.checkpoint_directory import HEADS, CheckpointDirectory
from highwater.checker.base.files import is_file_with
from highwater.checker.base.memory import available_memory
from highwater.checker.base.problems import InputError
from highwater.checker.engines.native.frontier import (
    DataFile,
    KeptArray,
    Level,
    NewFile,
    Part,
    SavedFile,
    Store,
)
from highwater.checker.engines.native.initial import initial_words
from highwater.checker.engines.native.program import Program
from highwater.checker.engines.native.runs import DamagedError, SortedRun
from highwater.checker.engines.native.visited import Delayed, VisitedRuns, reserved_bytes
from highwater.checker.engines.native.worker import COUNTERS, Table, Worker, sum_counters
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.model_key import model_key
from highwater.checker.scenarios.search import DEADLOCK, EngineError, SearchOptions

_LEAST_ROOM = 16 << 20


class SearchState:
    """The levels, visited states, counters and violations of one search.

    In ``levels``, the last level is being found, and the level before it is being expanded. ``items`` are the
    unexpanded parts of the level being expanded. ``found`` has the first violation of each property as a ``Place``.
    """

    def __init__(self, program: Program, options: SearchOptions) -> None:
        self.program, self.options = program, options
        self.count = max(1, options.workers or len(os.sched_getaffinity(0)))
        self.workers: list[Worker] = [program.worker(options.deadlock) for _ in range(self.count)]
        self._divide_memory(options.memory_bytes or int(available_memory() * 0.8))
        self.delayed: Delayed | None = None
        self.new_file: NewFile = self._unnamed_file
        self.levels: list[Level] = []
        self.items: deque[Part] = deque()
        self.expanded = 0
        self.names = list(program.outline.properties)
        self.step_names = list(program.outline.step_properties)
        self.found: dict[str, tuple[int, ...]] = {}
        self.seconds = 0.0
        self.start: Words = initial_words(program.model, program.layout)

    def _divide_memory(self, memory: int) -> None:
        program, options, self.memory = self.program, self.options, memory
        room = memory - sum(w.bytes for w in self.workers)
        reserve = reserved_bytes(self.workers, self.workers[0].capacity, program.layout.words)
        # With very little memory, the search cannot use the disk: it ends when memory is full.
        self.on_disk = options.on_disk and room - reserve >= _LEAST_ROOM
        room -= reserve * self.on_disk
        if room < _LEAST_ROOM:
            raise EngineError(f"{memory >> 20} MiB of memory are too few for {self.count} workers")
        # States and predecessors are read in order, so they can be on disk. The table cannot.
        self.states = Store(min(room // 8, 1 << 26), options.spill_directory)
        self.predecessors = Store(min(room // 32, 1 << 25), options.spill_directory)
        # With visited states on disk, each slot of the table also needs a mark of one bit.
        slots = (room - room // 8 - room // 32) * 64 // 65
        self.table = Table(lambda *where: self.program.grow(*where), slots)

    def _unnamed_file(self, _: str) -> DataFile:
        return DataFile.unnamed(self.options.spill_directory)

    def use_disk(self) -> Delayed:
        """Create the visited set on disk, still empty, and find duplicates there from now on.

        Raises EngineError if memory is too small.
        """
        directory = self.options.spill_directory
        if not self.on_disk or self.table.most < sum(worker.capacity for worker in self.workers):
            raise EngineError(f"{self.memory >> 20} MiB of memory are too few for {self.count} workers")
        self.delayed = Delayed(self.program, self.table, self.new_file, directory, self.count)
        for worker in self.workers:
            worker.collect()
        self.states.bounded = self.predecessors.bounded = True
        return self.delayed

    # --- counts -----------------------------------------------------------------------------------

    @property
    def distinct(self) -> int:
        """The number of distinct states found."""
        return self.table.taken if self.delayed is None else self.delayed.visited.count

    @property
    def generated(self) -> int:
        """The number of generated states: all initial states, and one state for each step."""
        return len(self.start) + sum(int(w.counts.sum()) for w in self.workers)

    @property
    def spilled(self) -> int:
        """The number of bytes on disk."""
        stores = self.states.spilled_bytes + self.predecessors.spilled_bytes
        return stores + (self.delayed.disk_bytes if self.delayed else 0)

    @property
    def memory_in_use(self) -> int:
        """The number of bytes in memory."""
        buffers = sum(w.bytes for w in self.workers) + (self.delayed.memory_bytes if self.delayed else 0)
        return self.table.bytes + self.states.memory_bytes + self.predecessors.memory_bytes + buffers


MANIFEST = HEADS["native"]
_CHUNK = 1 << 14
"""The most states of a stored level in one read."""
SHARE = 15
"""The least time between two writes, as a multiple of the time that the last write took."""


class Checkpoint(CheckpointDirectory):
    """The directory of a native search's checkpoint. This process holds its lock until ``close``."""

    engine = "native"
    format = 4
    files = re.compile(r"(visited|predecessors|states)-([0-9]{6,12})\.data")

    def __init__(self, run: SearchState, directory: str) -> None:
        """Lock the directory: for a new search or, with the option ``resume``, for the search stored there.

        Raises InputError if another process has locked the directory. Also raises InputError if the directory has
        no checkpoint to resume, or has a checkpoint although the search is new.
        """
        super().__init__(directory)
        self._run, self._number = run, 0
        self._levels: list[tuple[int, str]] = []
        """For each stored level the number of its states, and the file of their predecessors."""
        self._sums: dict[str, tuple[int, int]] = {}
        """The size in bytes and the checksum of each file of the checkpoint."""
        self._next = 0.0
        self.take(resume=run.options.resume)

    @cached_property
    def _content(self) -> str:
        return content_of(self._run)

    # --- writing ----------------------------------------------------------------------------------

    def new_file(self, kind: str) -> DataFile:
        """Create a new data file; its name starts with ``kind``. Raises OSError."""
        while True:
            self._number += 1
            try:
                return DataFile.named(self.directory / f"{kind}-{self._number:06}.data")
            except FileExistsError:  # an earlier process left this file
                continue

    @property
    def due(self) -> bool:
        """True if the next level is worth a write: at most 1/SHARE of the time goes into writing."""
        return time.perf_counter() >= self._next

    def save(self) -> None:
        """Write the levels and visited states. The last level is complete, and no worker runs. Raises OSError.

        If the last level is empty, the search is over, and only predecessors and counts are needed.
        """
        started = time.perf_counter()
        run, last = self._run, self._run.levels[-1]
        new = [level for level in run.levels[len(self._levels) :] if level.size]
        with ExitStack() as opened:
            visited = self._visited(opened) if last.size else []
            files = [sorted_run.file for sorted_run in visited]
            levels, states = list(self._levels), None
            for level in new:
                kept = [chunk.predecessors for chunk in level.chunks]
                files.append(self._written("predecessors", run.predecessors, kept, opened))
                levels.append((level.size, str(files[-1].name)))
            if last.size:
                files.append(self._written("states", run.states, [c.states for c in last.chunks], opened))
                states = str(files[-1].name)
            sums = {**self._sums, **{str(file.name): (file.size, file.checksum) for file in files}}
            named = [
                *(name for _, name in levels),
                *(str(r.file.name) for r in visited),
                *filter(None, [states]),
            ]
            for file in files:
                if file.name not in self._sums:
                    file.sync()
            sums = {name: sums[name] for name in named}
            self.write_manifest(MANIFEST, self._manifest(sums, levels, states, visited))
        self._levels, self._sums = levels, sums
        for level in new:
            for chunk in level.chunks:
                run.predecessors.drop(chunk.predecessors)
        for chunk in last.chunks:
            run.states.drop(chunk.states)
        # From now on, levels are read from the files.
        run.levels[: len(levels)] = [self._level(number, states) for number in range(len(levels))]
        self._tidy()
        now = time.perf_counter()
        self._next = now + SHARE * (now - started)

    def _manifest(
        self,
        sums: dict[str, tuple[int, int]],
        levels: list[tuple[int, str]],
        states: str | None,
        visited: list[SortedRun],
    ) -> dict[str, Any]:
        run = self._run
        return {
            "engine": "native",
            "highwater": highwater.__version__,
            "model": model_of(run),
            "content": self._content,
            "files": sums,
            "levels": levels,
            "states": states,
            "visited": [[sorted_run.file.name, sorted_run.blocks] for sorted_run in visited],
            **sum_counters(run.workers),
            "found": run.found,
            "seconds": run.seconds,
        }

    def _visited(self, opened: ExitStack) -> list[SortedRun]:
        """The sorted runs of all visited states. If the visited set is in memory, write it as one run."""
        run = self._run
        if run.delayed is not None:
            return run.delayed.visited.runs
        own = VisitedRuns(self.new_file, run.count)
        opened.callback(own.close)
        own.dump(run.table)
        return own.runs

    def _written(self, kind: str, store: Store, arrays: list[KeptArray], opened: ExitStack) -> DataFile:
        """Write arrays to a new file, which ``opened`` closes. Raises OSError."""
        file = self.new_file(kind)
        opened.callback(file.close)
        for kept in arrays:
            file.append(store.get(kept))
        return file

    def _level(self, number: int, states: str | None) -> Level:
        """A stored level. ``states`` is the file of the last level's states; None if no states are stored."""
        level, words = Level(), self._run.program.layout.words
        size, name = self._levels[number]
        predecessors = SavedFile(self.directory / name)
        if states is None or number < len(self._levels) - 1:
            level.add(size, KeptArray((0,), None), KeptArray((size,), None, 0, predecessors))
            return level
        source = SavedFile(self.directory / states)
        for start in range(0, size, _CHUNK):
            shape = min(_CHUNK, size - start), words
            of_states = KeptArray(shape, None, 8 * words * start, source)
            level.add(shape[0], of_states, KeptArray(shape[:1], None, 8 * start, predecessors))
        return level

    def _tidy(self) -> None:
        """Remove all files that the manifest does not name, and half-written files. Raises OSError."""
        self.remove_unfinished()
        for entry in list(self._entries()):
            if entry.name not in self._sums:
                self.remove(entry.name)

    # --- reading ----------------------------------------------------------------------------------

    def restore(self) -> None:
        """Restore the stored search. Raises InputError if the checkpoint is damaged, or is of another search."""
        run = self._run
        try:
            manifest = self.read_manifest(MANIFEST)
            refuse_other(self.directory, manifest, run, self._content)
            with ExitStack() as opened:
                runs = self._restored(manifest, opened)
                self._restore_visited(runs, complete=manifest["states"] is None)
                opened.pop_all()
            self._tidy()
        except (DamagedError, KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError):
            raise self.damaged(MANIFEST) from None
        except OSError as wrong:
            raise self.unusable(wrong) from None

    def _restored(self, manifest: dict[str, Any], opened: ExitStack) -> list[SortedRun]:
        """Restore levels and counts; returns the sorted runs, whose files ``opened`` closes. Raises OSError."""
        run, states = self._run, manifest["states"]
        self._sums = {str(n): (int(size), int(check)) for n, (size, check) in manifest["files"].items()}
        for name, sums in self._sums.items():
            self._verify(name, *sums)
        self._levels = [(size, str(name)) for size, name in manifest["levels"]]
        for size, name in self._levels:
            _need(isinstance(size, int) and size > 0 and self._sums[name][0] == 8 * size)
        run.levels = [self._level(number, states) for number in range(len(self._levels))]
        if states is None:
            run.levels.append(Level())
        else:
            _need(self._sums[states][0] == 8 * run.program.layout.words * run.levels[-1].size)
        self._restore_counts(manifest)
        runs = []
        for name, blocks in manifest["visited"]:
            file = DataFile.kept(self.directory / name, *self._sums[name])
            opened.callback(file.close)
            runs.append(SortedRun.read(file, blocks))
        _need(states is None or sum(r.count for r in runs) == sum(size for size, _ in self._levels))
        return runs

    def _restore_visited(self, runs: list[SortedRun], *, complete: bool) -> None:
        """Load the runs into the table or, if they would fill more than 3/4 of it, search on disk from now on."""
        run, distinct = self._run, sum(size for size, _ in self._levels)
        if complete:  # only the counts are needed
            run.table.taken = distinct
        elif distinct * 4 > run.table.most * 3:
            run.use_disk().restore(runs, run.levels[-1].size)
        else:
            own = VisitedRuns(self.new_file, 1)
            with closing(own):
                own.runs = runs
                run.table.clear(2 * distinct)
                _need(own.load(run.table))

    def _verify(self, name: str, size: int, checksum: int) -> None:
        """Raises InputError unless a data file has this size and checksum."""
        found = self.files.fullmatch(name)
        _need(found)
        assert found is not None
        self._number = max(self._number, int(found[2]))
        try:
            if not is_file_with(self.directory / name, size, checksum):
                raise self.damaged(name)
        except OSError as wrong:
            raise self.wrong(f"{name}: {wrong.strerror or wrong}") from None

    def _restore_counts(self, manifest: dict[str, Any]) -> None:
        run, worker = self._run, self._run.workers[0]
        for name in COUNTERS:
            array = getattr(worker, name)
            _need(len(manifest[name]) == len(array) and all(n >= 0 for n in manifest[name]))
            array[:] = manifest[name]
        for name, place in manifest["found"].items():
            number, index, *step = place
            _need(all(isinstance(n, int) and n >= 0 for n in place) and index < run.levels[number].size)
            if step:
                _need(len(step) == 1 and step[0] < run.program.instances)
            _need(name in (run.step_names if step else (*run.names, DEADLOCK)))
            run.found[name] = (number, index, *step)
        run.seconds = float(manifest["seconds"])


def _need(condition: object) -> None:
    if not condition:
        raise DamagedError


# The identity of a search: its checkpoint is of no use to another one.


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
    key = model_key(run.program.model, run.options.symmetry, run.options.deadlock)
    content = key, run.program.name.digest, run.start.tolist()
    return hashlib.sha256(repr(content).encode()).hexdigest()


def refuse_other(directory: object, manifest: dict[str, Any], run: SearchState, content: str) -> None:
    """Raises InputError if the manifest is damaged, or belongs to another search than ``run``."""
    then, now = manifest.get("model"), model_of(run)
    if not isinstance(then, dict):
        raise InputError(f"--checkpoint {directory}: {MANIFEST} is damaged")
    for key in now:
        if then.get(key) != now[key]:
            change = difference(then.get(key), now[key])
            raise InputError(f"--resume: {directory} was made with other {key}: {change}")
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
