"""Lines for people: how wide they may be, texts folded to that, and rows of cells in columns."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

from highwater.traces.reports.text import WIDEST, fold

_LEAST = 24
"""Columns that a folded text is given at least."""


def width() -> int | None:
    """The columns to fold at: those of the terminal; None where standard output is none, and nothing is folded."""
    return min(shutil.get_terminal_size().columns, WIDEST) if sys.stdout.isatty() else None


def columns(rows: Sequence[Sequence[str]], indent: str, width: int | None) -> Iterator[str]:
    """Rows of cells, one column below the other; the last cell of a row is folded in its column.

    Where the other columns leave it too little room, it stands below them.
    """
    if not rows:
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    taken = len(indent) + sum(w + 2 for w in widths)
    below = width is not None and width - taken < _LEAST
    for *cells, last in rows:
        head = indent + "".join(f"{cell:<{w + 2}}" for cell, w in zip(cells, widths, strict=True))
        if below and last:
            yield head.rstrip()
            yield from fold(last, f"{indent}    ", width)
        elif last:
            yield from fold(last, head, width, " " * len(head))
        else:
            yield head.rstrip()


__all__ = ["WIDEST", "columns", "fold", "width"]
