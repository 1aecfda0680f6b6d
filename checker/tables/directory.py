"""The directory of the tables: those of a run before, until new ones are begun; from then on whole ones or none."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from highwater.checker.problems import InputError

STATES, TRANSITIONS = "states", "transitions"
ABOUT = "run.json"
"""Says what was explored. It is written last: without it the tables are what a crash left of them."""


@dataclass
class Written:
    """What two tables hold: rows, levels of states, bytes on disk, and how many states violate each property.

    ``stopped_by`` is None where every reachable state and every step between them is there, else what ended
    the search early, as in SearchResult.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    bytes: int = 0
    violations: dict[str, int] = field(default_factory=dict)
    stopped_by: str | None = None


class TableDirectory:
    """A directory that tables go to, made where it is not there; as a context, for one run.

    InputError where it cannot be written to, or holds something and ``force`` is not set.
    """

    def __init__(self, name: str, *, force: bool) -> None:
        self.name, self.path = name, Path(name)
        self._begun = False
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            held = any(self.path.iterdir())
        except OSError as wrong:
            raise self._wrong(wrong) from None
        if held and not force:
            raise InputError(f"--out {name}: the directory is not empty; --force replaces the tables in it")
        if not os.access(self.path, os.W_OK):
            raise InputError(f"--out {name}: cannot be written")

    def begin(self) -> Path:
        """Remove the tables of a run before, to write new ones; the directory's path."""
        self._begun = True
        self._empty()
        return self.path

    def finish(self, about: dict[str, Any]) -> None:
        """Say what the tables hold, now that they are whole."""
        text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        (self.path / ABOUT).write_text(text, encoding="utf-8")

    def left(self) -> str:
        """What a run that was broken off has left here, in words."""
        if not self._begun and (self.path / ABOUT).exists():
            return f"the tables of a run before are in {self.name} as they were"
        return f"no tables were left in {self.name}"

    def __enter__(self) -> TableDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        if wrong is None or not self._begun:
            return
        self._empty()
        if isinstance(wrong, OSError) and not isinstance(
            wrong, BrokenPipeError
        ):  # that is who reads our progress
            raise self._wrong(wrong) from None

    def _empty(self) -> None:
        (self.path / ABOUT).unlink(missing_ok=True)
        for table in (STATES, TRANSITIONS):
            if (self.path / table).is_dir():
                shutil.rmtree(self.path / table)

    def _wrong(self, wrong: OSError) -> InputError:
        return InputError(f"--out {self.name}: {wrong.strerror or wrong}")


__all__ = ["STATES", "TRANSITIONS", "TableDirectory", "Written"]
