"""The data of a native search: levels, visited states, counters, violations, and the division of memory.

``levels.py`` fills the data; checkpoints (``checkpoint.py``) write and restore it.
"""

from __future__ import annotations

import os
from collections import deque

from highwater.checker.base.memory import available_memory
from highwater.checker.engines.native.code.program import Program
from highwater.checker.engines.native.disk.visited import Delayed, reserved_bytes
from highwater.checker.engines.native.frontier import DataFile, Level, NewFile, Part, Store
from highwater.checker.engines.native.initial import initial_words
from highwater.checker.engines.native.worker import Table, Worker
from highwater.checker.engines.state_graph import Words
from highwater.checker.scenarios.search import EngineError, SearchOptions

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
