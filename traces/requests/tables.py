"""Rows that are kept on disk, in tables of a temporary database: what is kept in memory does not grow with them.

SQLite keeps the pages that are used most in memory, up to ``CACHE_KIB``, and the others in a file without a name
where temporary files lie; of few rows there is no file. Nobody but this process reads or writes it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from highwater.traces.reading.errors import TraceError

Value = int | float | str | bytes | None
Row = tuple[Any, ...]
"""A row of a table, whose columns have the types that the query says."""
CACHE_KIB = 4096
"""So much of the tables is kept in memory."""
PLACE = "temporary files"
"""What is named where the tables cannot be written: no file of the user's."""


class Unusable(TraceError):
    """The tables cannot be written or read."""

    def __init__(self, wrong: Exception) -> None:
        super().__init__(PLACE, None, None, f"cannot be used: {wrong}")


class Tables:
    """A database of its own with these tables. Its methods raise Unusable, as where the disk is full."""

    def __init__(self, schema: str) -> None:
        self._wrong: Unusable | None = None
        try:
            self._database = sqlite3.connect("", isolation_level=None)
            self._database.executescript(
                f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB}; {schema}"
            )
            self._database.execute("BEGIN")  # never ended: what nobody else sees need not be committed
        except sqlite3.Error as wrong:
            raise Unusable(wrong) from None

    def write(self, statement: str, *values: Value) -> None:
        """Insert or change rows."""
        try:
            self._database.execute(statement, values)
        except (sqlite3.Error, OverflowError) as wrong:
            raise self._failed(wrong) from None

    def row(self, query: str, *values: Value) -> Row | None:
        """The first row, None where there is none."""
        try:
            found: Row | None = self._database.execute(query, values).fetchone()
        except (sqlite3.Error, OverflowError) as wrong:
            raise self._failed(wrong) from None
        return found

    def rows(self, query: str, *values: Value) -> Iterator[Row]:
        """All rows, one after the other. Their table is not to be changed meanwhile."""
        try:
            yield from self._database.execute(query, values)
        except (sqlite3.Error, OverflowError) as wrong:
            raise self._failed(wrong) from None

    def check(self) -> None:
        """Raise what was raised before, where somebody in between took it for a fault of a log."""
        if self._wrong is not None:
            raise self._wrong

    def _failed(self, wrong: Exception) -> Unusable:
        self._wrong = Unusable(wrong)
        return self._wrong
