"""Whether the states of a checkpoint are those that were found: fingerprints computed again, and looked for.

A checksum says that a file is what was written. This says that what was written are states of this search: each of
those that it still needs has a fingerprint among the visited ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater.checker.engines.layout import Words
from highwater.checker.engines.native.disk.code import code
from highwater.checker.engines.native.search_state import SearchState
from highwater.checker.engines.native.table import FULL

_AT_ONCE = 1 << 18
"""States whose fingerprints are computed together."""


def unvisited(run: SearchState) -> int:
    """How many of the states that were restored are none that was visited, or are there twice. Raises OSError."""
    return _not_in_table(run) if run.delayed is None else _not_on_disk(run)


def _fingerprints(run: SearchState) -> Iterator[Words]:
    """Those of the states that are kept of the last two levels."""
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
    """The table, which is empty now, is filled as with candidates: each of them was visited."""
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
