"""Mutants as a page: the protocol's source with what came of each mutant beside its lines; it needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from highwater.checker.comparing.mutation.findings import Record
from highwater.checker.comparing.mutation.report import (
    HOLES,
    holes,
    in_order,
    said,
    source_of,
    summary,
    table,
)
from highwater.checker.comparing.mutation.report import source as text_of
from highwater.checker.comparing.mutation.run import Findings
from highwater.checker.telling.source_page import Row, document, folded, preformatted, source


def page(found: Findings) -> str:
    """The page. A file that is not found is shown by its lines' numbers alone."""
    records = in_order(found)
    lines = [
        f"<p>{escape(summary(found))}</p>",
        preformatted(table(records)),
        f"<p>{escape(', '.join(found.scenarios))}</p>",
        *(f"<p>{escape(note)}</p>" for note in found.notes),
        "<p>Green: every mutant of the line is noticed, takes the same steps in every state, or is listed. Yellow: "
        "some are none of these. Red: no one is.</p>",
    ]
    if unnoticed := holes(found):
        lines += folded("What nothing notices", (f"{r.mutant.place} {_line(r)}" for r in unnoticed))
    by_file: dict[str, dict[int, list[Record]]] = {}
    for record in records:
        file, _, line = record.mutant.place.rpartition(":")
        by_file.setdefault(file, {}).setdefault(int(line), []).append(record)
    for file, own in by_file.items():
        lines += source(file, _rows(own))
    return document("Mutants of the protocol", lines)


def _rows(records: dict[int, list[Record]]) -> Iterator[Row]:
    """The lines of a file; without its text those that have mutants."""
    text = text_of(next(r.mutant.path for own in records.values() for r in own))
    for number, line in enumerate(text or [""] * max(records), 1):
        own = records.get(number, [])
        if own or text:
            yield number, _kind(own) if own else "", escape(line), _cell(own)


def _kind(records: list[Record]) -> str:
    """How well a line is held: by how many of its mutants are noticed."""
    noticed = [r.verdict not in HOLES for r in records]
    return "full" if all(noticed) else "part" if any(noticed) else "none"


def _cell(records: list[Record]) -> str:
    if not records:
        return ""
    bad = sum(r.verdict in HOLES for r in records)
    head = f"{len(records)} mutants" + (f", {bad} not noticed" if bad else "")
    told = "\n".join(_line(r) for r in records)
    return f"<details><summary>{escape(head)}</summary>{escape(told)}</details>"


def _line(record: Record) -> str:
    mutant = record.mutant
    what = f'"{mutant.name}"' if mutant.name else source_of(mutant)
    return f"{what} — {mutant.change}: {said(record)}"
