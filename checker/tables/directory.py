"""The directory of the tables: what it may hold, its description, and the counts of what was written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from highwater.checker.base.checkpoint_directory import remove_files
from highwater.checker.base.files import aside
from highwater.checker.base.problems import InputError
from highwater.checker.engines.columns import STATES, TRANSITIONS, StateTable, TransitionTable
from highwater.checker.engines.state_graph import Layout
from highwater.model.language import Model

ABOUT = "run.json"
"""Describes the exploration. It is written last: without it, the tables are not complete."""

_TABLE = re.compile(r"(part-[0-9]{5,}|level-[0-9]{5,9}-(all|[0-9]{5,9})-[0-9a-f]{12})\.parquet")
_BESIDE = re.compile(r"(run|search|level-[0-9]{5,9})\.json")
"""The description, and the manifests of Spark's search."""


@dataclass
class WrittenTables:
    """The sizes of the two tables: rows, levels of states, bytes on disk, and violation counts by property.

    ``stopped_by`` is None if every reachable state and every step between them is in the tables. Otherwise it is the
    reason why the search ended early, as in SearchResult.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    bytes: int = 0
    violations: dict[str, int] = field(default_factory=dict)
    stopped_by: str | None = None


def count_tables(directory: Path, model: Model, depth: int, stopped_by: str | None) -> WrittenTables:
    """Count the rows, the bytes and the violations in the tables below a directory."""
    layout, rows = Layout(model.leaves), {STATES: 0, TRANSITIONS: 0}
    written = WrittenTables(depth=depth, stopped_by=stopped_by, violations=dict.fromkeys(model.safety, 0))
    for table in (StateTable(model, layout), TransitionTable(model, layout)):
        for path in (directory / table.folder).glob("*.parquet"):
            written.bytes += path.stat().st_size
            with pq.ParquetFile(path) as file:
                rows[table.folder] += file.metadata.num_rows
                for batch in file.iter_batches(columns=list(table.properties.values())):
                    for name, title in table.properties.items():
                        written.violations[name] += batch.column(title).false_count
    written.states, written.transitions = rows[STATES], rows[TRANSITIONS]
    return written


class TableDirectory:
    """The directory for the tables, created if missing.

    Raises InputError in these cases:

    - The directory cannot be written to, or it is not empty and neither ``force`` nor ``resume`` is set.
    - A table would replace a link, or a folder with other files in it.
    """

    def __init__(self, name: str, *, force: bool, resume: bool = False) -> None:
        self.name, self.path = name, Path(name)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()) and not (force or resume):
                raise InputError(
                    f"--out {name}: the directory is not empty; --force replaces the tables in it"
                )
            self._refuse_foreign()
        except OSError as wrong:
            raise self.unusable(wrong) from None
        if not os.access(self.path, os.W_OK):
            raise InputError(f"--out {name}: cannot be written")

    def clear(self) -> None:
        """Remove the tables of an earlier run, and no other file."""
        self._refuse_foreign()
        remove_files(self.path.resolve(), _BESIDE)
        for table in (STATES, TRANSITIONS):
            if (self.path / table).is_dir():
                remove_files(self.path / table, _TABLE)
                (self.path / table).rmdir()

    def finish(self, about: Mapping[str, object]) -> None:
        """Write ``about`` as run.json, which shows that the tables are complete."""
        text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        with aside(self.path / ABOUT) as beside:
            beside.write_text(text, encoding="utf-8")

    def unusable(self, wrong: OSError) -> InputError:
        """The InputError for a directory that cannot be written or read."""
        return InputError(f"--out {self.name}: {wrong.strerror or wrong}")

    def _refuse_foreign(self) -> None:
        for table in (STATES, TRANSITIONS):
            folder = self.path / table
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise InputError(f"--out {self.name}: {table} is no folder of tables")
            others = sorted(e.name for e in folder.iterdir()) if folder.exists() else []
            if others := [name for name in others if not _TABLE.fullmatch(name)]:
                raise InputError(f"--out {self.name}: {table} holds other files: {others[0]}")
