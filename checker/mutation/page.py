"""Mutants as a page: the protocol's source with what came of each mutant beside its lines; it needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from highwater.checker.mutation.findings import Record
from highwater.checker.mutation.report import HOLES, holes, in_order, said, source, source_of, summary, table
from highwater.checker.mutation.run import Findings

_STYLE = """\
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em; color: #1a1a1a; background: #fff }
pre { font: 12px/1.45 ui-monospace, monospace; margin: 0 }
table { border-collapse: collapse; margin: 0 0 2em } td { padding: 0 .8em 0 0; vertical-align: top; white-space: pre }
.n { color: #888; text-align: right } .c { color: #444; font: 12px/1.45 ui-monospace, monospace }
.full { background: #e4f5e4 } .part { background: #fff3cd } .none { background: #fbdcdc }
summary { cursor: pointer } li { font: 12px/1.6 ui-monospace, monospace }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } .c { color: #bbb }
.full { background: #17351a } .part { background: #3d3410 } .none { background: #451a1a } }
"""


def page(found: Findings) -> str:
    """The page. A file that is not found is shown by its lines' numbers alone."""
    records = in_order(found)
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Mutants of the protocol</title>',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>Mutants of the protocol</h1>",
        f"<p>{escape(summary(found))}</p>",
        f"<pre>{escape(chr(10).join(table(records)))}</pre>",
        f"<p>{escape(', '.join(found.scenarios))}</p>",
        *(f"<p>{escape(note)}</p>" for note in found.notes),
        "<p>Green: every mutant of the line is noticed, takes the same steps in every state, or is listed. Yellow: "
        "some are none of these. Red: no one is.</p>",
    ]
    if unnoticed := holes(found):
        lines.append(f"<details><summary>What nothing notices ({len(unnoticed)})</summary><ul>")
        lines += [f"<li>{escape(f'{r.mutant.place} {_line(r)}')}</li>" for r in unnoticed]
        lines.append("</ul></details>")
    by_file: dict[str, dict[int, list[Record]]] = {}
    for record in records:
        file, _, line = record.mutant.place.rpartition(":")
        by_file.setdefault(file, {}).setdefault(int(line), []).append(record)
    for file, own in by_file.items():
        lines += _source(file, own)
    lines.append("</body></html>")
    return "\n".join(lines) + "\n"


def _source(file: str, records: dict[int, list[Record]]) -> Iterator[str]:
    text = source(next(r.mutant.path for own in records.values() for r in own))
    yield f"<h2>{escape(file)}</h2>"
    yield "<table>"
    for number, line in enumerate(text or [""] * max(records), 1):
        own = records.get(number, [])
        if not own and not text:
            continue
        yield (
            f'<tr{_kind(own)}><td class="n">{number}</td><td><pre>{escape(line)}</pre></td>'
            f'<td class="c">{_cell(own)}</td></tr>'
        )
    yield "</table>"


def _kind(records: list[Record]) -> str:
    """How well a line is held: by how many of its mutants are noticed."""
    if not records:
        return ""
    noticed = [r.verdict not in HOLES for r in records]
    return f' class="{"full" if all(noticed) else "part" if any(noticed) else "none"}"'


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


__all__ = ["page"]
