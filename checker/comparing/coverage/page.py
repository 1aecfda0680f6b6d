"""Coverage as a page: the protocol's source with counts beside its lines. It needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from highwater.checker.asking.rulebook.html import linked, section
from highwater.checker.comparing.coverage.gathering import Coverage
from highwater.checker.comparing.coverage.report import gaps, summary
from highwater.checker.comparing.coverage.sites import GUARD, Site
from highwater.checker.telling.source_page import Row, document, folded, source


def page(coverage: Coverage, roots: list[Path]) -> str:
    """The page. ``roots`` are directories in which the places' files are looked for; what is not there is left out."""
    lines = [
        f"<p>{escape(summary(coverage))}</p>",
        f"<p>{escape(', '.join(coverage.sources))}</p>",
        *(f"<p>{escape(note)}</p>" for note in coverage.notes),
        "<p>Green: a guard held, refused, and was the only one to refuse; a branch went both ways. Yellow: a guard "
        "was never the only one to refuse. Red: always the same way, or never reached.</p>",
    ]
    for heading, found in gaps(coverage):
        lines += folded(heading, found)
    by_file: dict[str, dict[int, list[Site]]] = {}
    for site in coverage.sites:
        file, _, line = site.place.rpartition(":")
        if line.isdigit():
            by_file.setdefault(file, {}).setdefault(int(line), []).append(site)
    texts = {file: _text(file, roots) for file in sorted(by_file)}
    for file, text in texts.items():
        lines += source(file, _rows(text, by_file[file], coverage))
    if coverage.rulebook is not None:
        lines += section("\n".join(line for text in texts.values() for line in text), coverage.rulebook)
    return document("Coverage of the protocol", lines)


def _text(file: str, roots: list[Path]) -> list[str]:
    """The lines of a file; none where it is not found."""
    path = next((root / file for root in roots if (root / file).is_file()), None)
    return [] if path is None else path.read_text(encoding="utf-8", errors="replace").splitlines()


def _rows(text: list[str], sites: dict[int, list[Site]], coverage: Coverage) -> Iterator[Row]:
    """The lines of a file; without its text those of which something is said."""
    for number, line in enumerate(text or [""] * max(sites), 1):
        own = sites.get(number, [])
        if own or text:
            shown = escape(line) if coverage.rulebook is None else linked(line, coverage.rulebook)
            beside = "\n".join(_said(s, coverage) for s in own)
            yield number, _kind(own, coverage) if own else "", shown, escape(beside)


def _kind(sites: list[Site], coverage: Coverage) -> str:
    """How well a line is exercised: by the best of each of its counts, over the actions that share it."""
    counts = [coverage.sites[s] for s in sites]
    wanted = 3 if any(s.kind == GUARD for s in sites) else 2
    reached = sum(any(c[i] for c in counts) for i in range(wanted))
    return "full" if reached == wanted else "part" if reached > 1 else "none"


def _said(site: Site, coverage: Coverage) -> str:
    a, b, alone = coverage.sites[site]
    if site.kind == GUARD:
        return f"{site.action}: held {a:,}, refused {b:,}, alone {alone:,}"
    return f"{site.action}: taken {a:,}, not {b:,}"
