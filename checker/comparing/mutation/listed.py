"""Holes that somebody has looked at: a TOML file that names them, each with the reason why nothing need notice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from highwater.checker.base import untrusted
from highwater.checker.base.problems import InputError, unknown
from highwater.checker.comparing.mutation.findings import Record
from highwater.checker.comparing.mutation.report import source_of

_KEYS = ("within", "text", "change", "reason")


@dataclass(frozen=True)
class Listed:
    """Mutants of a function, of one text in it or of one change of that; and the reason."""

    within: str
    reason: str
    text: str | None = None
    change: str | None = None

    def names(self, record: Record) -> bool:
        """Whether a mutant is one of these."""
        mutant = record.mutant
        return (
            mutant.within == self.within
            and self.text in (None, source_of(mutant))
            and self.change in (None, mutant.change)
        )


def read(path: Path) -> list[Listed]:
    """The entries of a file; InputError where it is not of the form that docs/mutate.md has."""
    try:
        content = untrusted.read_toml(path)
    except FileNotFoundError as wrong:
        raise InputError(f"{path}: {wrong.strerror}") from None
    entries = content.pop("listed", [])
    if content or not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise InputError(f"{path}: it holds tables [[listed]] and nothing else")
    found = []
    for number, entry in enumerate(entries, 1):
        for key, value in entry.items():
            if key not in _KEYS:
                raise InputError(f"{path}: entry {number}: {unknown('key', key, _KEYS)}")
            if not isinstance(value, str) or not value:
                raise InputError(f"{path}: entry {number}: {key} is a text, not {value!r}")
        for key in ("within", "reason"):
            if key not in entry:
                raise InputError(f"{path}: entry {number}: the key {key!r} is missing")
        found.append(Listed(**entry))
    return found


def apply(entries: Iterable[Listed], records: Iterable[Record]) -> list[str]:
    """Give each hole that is listed its reason; what is said of entries that name no hole."""
    records, notes = list(records), []
    for entry in entries:
        own = [r for r in records if r.is_hole and entry.names(r)]
        for record in own:
            record.reason = entry.reason
        if not own:
            what = " ".join(x for x in (entry.within, entry.text, entry.change) if x)
            notes.append(f"listed, and no hole: {what}")
    return notes
