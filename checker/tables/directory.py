"""The directory of the tables. Earlier tables stay until new ones are complete and replace them."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from highwater.checker.base.checkpoint_directory import remove_files
from highwater.checker.base.problems import InputError

STATES, TRANSITIONS = "states", "transitions"
ABOUT = "run.json"
"""Describes the exploration. It is written last: without it, the tables are leftovers of a crash."""


_PART = re.compile(r"part-[0-9]{5,}\.parquet|\.part-[0-9]{5,}-[0-9a-f]{12}\.tmp")
_NEW = re.compile(r"\.new-[0-9a-f]{16}")


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


class TableDirectory:
    """The directory for the tables, created if missing. It is a context manager for one run.

    New tables are written to a hidden folder of the directory. When complete, they replace tables of an earlier run.
    Raises InputError in these cases:

    - The directory cannot be written to, or it is not empty and ``force`` is not set.
    - A table would replace a link, or a folder with other files in it.
    """

    def __init__(self, name: str, *, force: bool) -> None:
        self.name, self.path = name, Path(name)
        self._new: Path | None = None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            held = any(self.path.iterdir())
            if held and not force:
                raise InputError(
                    f"--out {name}: the directory is not empty; --force replaces the tables in it"
                )
            self._refuse_foreign()
        except OSError as wrong:
            raise self._wrong(wrong) from None
        if not os.access(self.path, os.W_OK):
            raise InputError(f"--out {name}: cannot be written")

    def begin(self) -> Path:
        """Create the folder for new tables, and return its path. Leftovers of a killed run are removed."""
        for left in list(self.path.iterdir()):
            if _NEW.fullmatch(left.name) and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
        self._new = self.path / f".new-{os.urandom(8).hex()}"
        self._new.mkdir()
        return self._new

    def finish(self, about: dict[str, Any]) -> None:
        """Replace the earlier tables by the complete new tables, and write ``about`` as run.json."""
        assert self._new is not None
        text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        (self._new / ABOUT).write_text(
            text, encoding="utf-8"
        )  # a full disk fails here, before the earlier tables are removed
        self._remove()
        for table in (STATES, TRANSITIONS):
            if (self._new / table).exists():
                (self._new / table).rename(self.path / table)
        (self._new / ABOUT).replace(self.path / ABOUT)
        self._new.rmdir()
        self._new = None

    def left(self) -> str:
        """A sentence about the tables that remain after an interrupted run."""
        if (self.path / ABOUT).exists():
            return f"the tables of a run before are in {self.name} as they were"
        return f"no tables were left in {self.name}"

    def __enter__(self) -> TableDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._new is not None:
            shutil.rmtree(self._new, ignore_errors=True)
        if isinstance(wrong, OSError) and not isinstance(
            wrong, BrokenPipeError
        ):  # the reader of the progress output has closed the pipe
            raise self._wrong(wrong) from None

    def _refuse_foreign(self) -> None:
        for table in (STATES, TRANSITIONS):
            folder = self.path / table
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise InputError(f"--out {self.name}: {table} is no folder of tables")
            others = (
                sorted(e.name for e in folder.iterdir() if not _PART.fullmatch(e.name))
                if folder.exists()
                else []
            )
            if others:
                raise InputError(f"--out {self.name}: {table} holds other files: {others[0]}")

    def _remove(self) -> None:
        """Remove the tables of an earlier run, and no other file."""
        self._refuse_foreign()
        (self.path / ABOUT).unlink(missing_ok=True)
        for table in (STATES, TRANSITIONS):
            if (self.path / table).is_dir():
                remove_files(self.path / table, _PART)
                (self.path / table).rmdir()

    def _wrong(self, wrong: OSError) -> InputError:
        return InputError(f"--out {self.name}: {wrong.strerror or wrong}")
