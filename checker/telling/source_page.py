"""Pages that show a protocol's source with something beside its lines: of coverage.

They need nothing from elsewhere, and run no script. Whoever makes one gives it HTML, and escapes what is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from highwater.traces.reports.page import policy

Row = tuple[int, str, str, str]
"""A line's number, its class (empty: nothing is said of it), its text and what stands beside it, both as HTML."""


def document(title: str, body: Iterable[str]) -> str:
    """A page of this title, its heading, and what is below it as HTML."""
    style = Path(__file__).with_name("source_page.css").read_text(encoding="utf-8")
    head = f"<title>{escape(title)}</title>\n<style>\n{style}</style></head><body>"
    guarded = f'<meta http-equiv="Content-Security-Policy" content="{policy(head)}">'
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        guarded,
        head,
        f"<h1>{escape(title)}</h1>",
        *body,
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def folded(heading: str, texts: Iterable[str]) -> Iterator[str]:
    """A list that is folded at first."""
    texts = list(texts)
    yield f"<details><summary>{escape(heading)} ({len(texts)})</summary><ul>"
    yield from (f"<li>{escape(text)}</li>" for text in texts)
    yield "</ul></details>"


def source(file: str, rows: Iterable[Row]) -> Iterator[str]:
    """A file's lines, each with what is said of it."""
    yield f'<h2>{escape(file)}</h2><div class="scroll"><table>'
    for number, kind, text, beside in rows:
        marked = f' class="{kind}"' if kind else ""
        yield f'<tr{marked}><td class="n">{number}</td><td><pre>{text}</pre></td><td class="c">{beside}</td></tr>'
    yield "</table></div>"
