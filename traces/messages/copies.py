"""Copies of a log among the inputs: the same file twice, plain and compressed, or an older, shorter copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from highwater.traces.reading import CHUNK, Source


def without_copies(paths: Sequence[Path], begins: Callable[[Path], bytes], notes: list[str]) -> list[Path]:
    """The logs in the order of their beginnings, without copies. Raises TraceError if a log cannot be read.

    A log is a copy if another log begins with all of it. ``begins`` returns a sort key that is the same for a log and
    its copy; by this key the logs are sorted. A note for each copy is added to ``notes``.
    """
    by_beginning: dict[bytes, list[Path]] = {}
    for path in paths:
        by_beginning.setdefault(begins(path), []).append(path)
    kept: list[Path] = []
    for _, logs in sorted(by_beginning.items()):
        distinct: list[Path] = []
        for path in logs:
            at = next((i for i, other in enumerate(distinct) if _is_copy(path, other)), None)
            if at is None:
                distinct.append(path)
                continue
            copy, distinct[at] = sorted((path, distinct[at]), key=_size)
            notes.append(f"{copy}: skipped: {distinct[at]} has the same lines")
        kept += distinct
    return kept


def _is_copy(path: Path, other: Path) -> bool:
    """True if one of two files begins with the whole other one."""
    with Source(path) as one, Source(other) as two:
        while True:
            here, there = one.read(CHUNK), two.read(CHUNK)
            shorter = min(len(here), len(there))
            if here[:shorter] != there[:shorter]:
                return False
            if shorter < CHUNK:
                return True


def _size(path: Path) -> int:
    with Source(path) as source:
        return sum(map(len, source.chunks()))
