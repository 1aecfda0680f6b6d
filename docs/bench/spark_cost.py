"""What a search on Spark costs, as a sum of measured parts, and what a larger one would.

    processor seconds = start + levels × level + states × state + bytes sent × byte

The start and a level are what searches cost that have next to no states; a state is expanded, read, written and
caught up with; a byte of a candidate is sent, received and merged. A run is predicted from the parts of another one,
its states and its levels, and from nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

Run = Mapping[str, Any]
"""What ``spark_run`` measured."""

_OF_STATES = ("expand: expand", "expand: read", "merge: catch up", "merge: write")
_OF_BYTES = ("expand: send", "merge: receive", "merge: merge")
FINGERPRINT_BITS = 64
TABLE_BYTES = 8 / 0.7
"""Bytes a fingerprint in a table, with the slots to spare."""


@dataclass(frozen=True)
class Cost:
    """The parts, each with its unit in its name."""

    start_seconds: float
    level_seconds: float
    """Processor seconds of a level, whatever its size."""
    level_wall_seconds: float
    """Of a level with as few buckets as ``buckets``."""
    bucket_wall_seconds: float
    """More for each bucket more: its two tasks, as if they ran one after the other."""
    buckets: int
    state_seconds: float
    byte_seconds: float
    sent_per_state: float
    """Candidates that travel."""
    row_bytes: int
    disk_bytes_per_state: float

    @property
    def bytes_per_state(self) -> float:
        """Of candidates that travel."""
        return self.sent_per_state * self.row_bytes

    @classmethod
    def of(cls, nothing: Run, levels: Run, many: Run, states: Run) -> Cost:
        """From a search without a level of the cluster, two with nearly empty levels, and one with states.

        ``many`` has more buckets than ``levels``.

        What Python workers take whose levels are nearly empty is their start: it does not grow with the levels. What
        the others take more than in the first search is the levels.
        """
        alone, workers = sum(nothing["processor"].values()), of_workers(levels)
        others = sum(levels["processor"].values()) - workers
        wall, parts = median(levels["level_seconds"]), states["parts"]
        return cls(
            alone + workers,
            max(0.0, others - alone) / levels["levels"],
            wall,
            max(0.0, median(many["level_seconds"]) - wall) / (many["buckets"] - levels["buckets"]),
            levels["buckets"],
            sum(parts.get(name, 0.0) for name in _OF_STATES) / states["states"],
            sum(parts.get(name, 0.0) for name in _OF_BYTES) / (states["sent"] * states["row"]),
            states["sent"] / states["states"],
            states["row"],
            states["written"] / states["states"],
        )

    def processor_seconds(self, states: float, levels: int) -> float:
        """Of a whole search, all processes."""
        return self.start_seconds + levels * self.level_seconds + states * self.seconds_per_state

    @property
    def seconds_per_state(self) -> float:
        """Processor seconds, candidates included."""
        return self.state_seconds + self.bytes_per_state * self.byte_seconds

    def wall_seconds(self, states: float, levels: int, cores: int, buckets: int = 0) -> float:
        """Of the search alone, where the cores have nothing else to do and none waits for another."""
        level = self.level_wall_seconds + self.bucket_wall_seconds * max(0, buckets - self.buckets)
        return levels * level + states * self.seconds_per_state / cores


@dataclass(frozen=True)
class Plan:
    """A search that nobody has run: its states and levels, and the cluster. ``largest`` is a share of the states."""

    states: float
    levels: int
    executors: int
    cores: int
    """Of an executor."""
    largest: float


@dataclass(frozen=True)
class Bill:
    """What it would take."""

    core_hours: float
    hours: float
    disk_bytes: float
    """Of the levels, which stay, and of the candidates of the largest level."""
    moved_bytes: float
    """All that is written to the shared directory or read from it."""
    memory_bytes: float
    """Of all fingerprint tables, one copy each."""
    collisions: float
    """Pairs of states with one fingerprint that are to be expected: one of each pair is never expanded."""


def bill(cost: Cost, plan: Plan, sent_per_state: float, buckets: int) -> Bill:
    """What a plan takes, with so many candidates a state: the more processes, the more find the same one."""
    cost = replace(cost, sent_per_state=sent_per_state)
    cores = plan.executors * plan.cores
    seconds = cost.wall_seconds(plan.states, plan.levels, cores, buckets)
    candidates = plan.states * cost.bytes_per_state
    levels = plan.states * cost.disk_bytes_per_state
    return Bill(
        cost.processor_seconds(plan.states, plan.levels) / 3600,
        seconds / 3600,
        levels + plan.largest * candidates,
        2 * (candidates + levels),
        plan.states * TABLE_BYTES,
        plan.states**2 / 2 / 2.0**FINGERPRINT_BITS,
    )


def of_workers(run: Run) -> float:
    """Processor seconds of a run's Python workers."""
    spent: Mapping[str, float] = run["processor"]
    return sum(seconds for name, seconds in spent.items() if name.startswith("python"))


def most_sent(run: Run) -> float:
    """Candidates a state where no process finds one twice: as many as there are steps."""
    return float(run["generated"] / run["states"])


def size(count: float) -> str:
    """Bytes, in the largest unit that leaves a figure before the point."""
    units = ("bytes", "KB", "MB", "GB", "TB", "PB")
    power = min(len(units) - 1, int(math.log(max(count, 1), 1000)))
    return f"{count / 1000**power:.3g} {units[power]}"
