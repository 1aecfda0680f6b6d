"""A TOML file of tables, read and checked: an error names the file, the table and the field."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TypeVar

from highwater.model.language.errors import LanguageError

_T = TypeVar("_T")


class TomlTables:
    """A file whose tables become dataclasses of texts and of lists of texts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def text(self) -> str:
        """The content of the file. Raises OSError or UnicodeDecodeError."""
        try:
            return self.path.read_text(encoding="utf-8")
        except NotADirectoryError:  # it is in an archive that Python imports from, as on Spark's executors
            import zipfile

            archive = next(p for p in self.path.parents if p.is_file())
            with zipfile.ZipFile(archive) as opened:
                return opened.read(self.path.relative_to(archive).as_posix()).decode("utf-8")

    def plain(self, kind: str, keys: Collection[str]) -> Mapping[str, object]:
        """The content as plain data. Raises LanguageError if it is no TOML, or has another key than these."""
        try:
            plain = tomllib.loads(self.text())
        except (OSError, ValueError, RecursionError) as wrong:  # no TOML, no text, or too deep
            raise self.wrong(str(wrong)) from None
        if unknown := set(plain) - set(keys):
            *others, last = keys
            known = f"{', '.join(others)} and {last}" if others else last
            raise self.wrong(f"{kind} has {known}, not {_listed(unknown)}")
        return plain

    def tables(self, plain: Mapping[str, object], key: str) -> list[object]:
        """The tables of an array of tables; none if it is not there."""
        tables = plain.get(key, [])
        if not isinstance(tables, list):
            raise self.wrong(f"[[{key}]] is a list of tables")
        return tables

    def read(self, kind: type[_T], what: str, plain: object, **given: object) -> _T:
        """A table as a dataclass of texts and lists of texts; white space in texts is one space."""
        if not isinstance(plain, dict):
            raise self.wrong(f"{what} is a table")
        known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
        settable = set(known) - set(given)
        for key, value in plain.items():
            if key not in settable:
                raise self.wrong(f"{what} has {key!r}; it can have {_listed(settable)}")
            texts = known[key].type == "str"
            if not (isinstance(value, str) if texts else _is_list_of_texts(value)):
                raise self.wrong(f"{key} of {what} is {'a text' if texts else 'a list of texts'}")
            given[key] = " ".join(value.split()) if texts else tuple(value)
        for key, known_field in known.items():
            if known_field.default is MISSING and not given.get(key):
                raise self.wrong(f"{what} has no {key}")
        return kind(**given)

    def wrong(self, message: str) -> LanguageError:
        """An error in this file."""
        inside = self.path.is_relative_to(Path.cwd())
        return LanguageError(message, str(self.path.relative_to(Path.cwd()) if inside else self.path))


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
