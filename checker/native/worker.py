"""One worker of a search: its context and buffers for the compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from checker.native.layout import Words
from checker.native.runtime import BATCH, CONTEXT
from checker.native.table import Table

OUTPUT = 1 << 16
"""States that a worker finds before it hands them over."""


class Worker:
    """Buffers for one thread. Counters add up over the whole search."""

    def __init__(self, words: int, instances: int, bounds: int, properties: int, want_deadlock: bool) -> None:
        self.capacity = OUTPUT + BATCH + 2 * instances
        self.out_states: Words = np.empty((self.capacity, words), dtype=np.uint64)
        self.out_predecessors: Words = np.empty(self.capacity, dtype=np.uint64)
        self._candidates = np.empty((BATCH + 2 * instances + 1) * (2 + words), dtype=np.uint64)
        self.counts = np.zeros(max(1, instances), dtype=np.int64)
        self.cuts = np.zeros(max(1, bounds), dtype=np.int64)
        self.premises = np.zeros(max(1, properties), dtype=np.int64)
        self.violations = np.zeros((max(1, properties), 2), dtype=np.uint64)
        self.context = np.zeros(len(CONTEXT), dtype=np.int64)
        self.address = self.context.ctypes.data
        for name, array in (
            ("out_states", self.out_states),
            ("out_predecessors", self.out_predecessors),
            ("candidates", self._candidates),
            ("counts", self.counts),
            ("cuts", self.cuts),
            ("premises", self.premises),
            ("violations", self.violations),
        ):
            self[name] = array.ctypes.data
        self["out_capacity"] = self.capacity
        self["want_deadlock"] = int(want_deadlock)
        self["deadlock"] = -1

    def __getitem__(self, name: str) -> int:
        """A field of the context."""
        return int(self.context[CONTEXT[name]])

    def __setitem__(self, name: str, value: int) -> None:
        """Set a field of the context."""
        self.context[CONTEXT[name]] = value

    def run(self, function: Any, table: Table, states: Words, start: int, end: int, base: int) -> int:
        """Call expand() or admit() on some states; the index of the first that was not taken yet."""
        self["table"], self["capacity"] = table.address, table.capacity
        self["states"], self["base"] = states.ctypes.data, base
        self["start"], self["end"] = start, end
        function(self.address)
        return self["start"]

    def reset_output(self) -> None:
        """Start with an empty output."""
        self["out_count"] = 0
        self["violation_count"] = 0
