"""Parquet files of a table: written under another name until they are whole, in row groups of bounded size."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 1 << 17
"""The most rows of a row group, and so of what is decoded at a time."""
_NUMBERS = ("state", "source", "target")
"""Columns of which nearly every value is another one: a dictionary of them would only cost."""


class TableFile:
    """A file of a table, part ``number``; it has its name, and counts, when it is closed without an error."""

    def __init__(self, directory: Path, table: str, number: int, schema: pa.Schema) -> None:
        self.path = directory / table / f"part-{number:05}.parquet"
        self._temporary = self.path.with_name(f".{self.path.stem}-{uuid.uuid4().hex[:12]}.tmp")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(
            self._temporary,
            schema,
            compression="zstd",
            use_dictionary=_with_dictionary(schema),
            write_page_checksum=True,  # for whoever reads them
        )
        self.rows = self.bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Append rows as row groups."""
        self._writer.write_table(rows, row_group_size=ROWS)
        self.rows += rows.num_rows

    def __enter__(self) -> TableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
            if kind is None:
                self.bytes = self._temporary.stat().st_size
                self._temporary.replace(self.path)
        finally:
            self._temporary.unlink(missing_ok=True)


def _with_dictionary(schema: pa.Schema) -> list[str]:
    """The paths of the columns whose values are worth a dictionary."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    found = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    paths = [found.column(i).path for i in range(len(found))]
    return [path for path in paths if path not in _NUMBERS]
