"""Coverage as a page: the protocol's source with counts beside its lines. It needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from highwater.checker.coverage.gathering import Coverage
from highwater.checker.coverage.report import gaps, summary
from highwater.checker.coverage.sites import GUARD, Site
from highwater.checker.rulebook.html import linked, section

_STYLE = """\
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em; color: #1a1a1a; background: #fff }
pre { font: 12px/1.45 ui-monospace, monospace; margin: 0 }
table { border-collapse: collapse; margin: 0 0 2em } td { padding: 0 .8em 0 0; vertical-align: top; white-space: pre }
.n { color: #888; text-align: right } .c { color: #444; font: 12px/1.45 ui-monospace, monospace }
.full { background: #e4f5e4 } .part { background: #fff3cd } .none { background: #fbdcdc }
li { font: 12px/1.6 ui-monospace, monospace }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } .c { color: #bbb }
.full { background: #17351a } .part { background: #3d3410 } .none { background: #451a1a } }
"""


def page(coverage: Coverage, roots: list[Path]) -> str:
    """The page. ``roots`` are directories in which the places' files are looked for; what is not there is left out."""
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Coverage of the protocol</title>',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>Coverage of the protocol</h1>",
        f"<p>{escape(summary(coverage))}</p>",
        f"<p>{escape(', '.join(coverage.sources))}</p>",
        *(f"<p>{escape(note)}</p>" for note in coverage.notes),
        "<p>Green: a guard held, refused, and was the only one to refuse; a branch went both ways. Yellow: a guard "
        "was never the only one to refuse. Red: always the same way, or never reached.</p>",
    ]
    for heading, found in gaps(coverage):
        lines.append(f"<details><summary>{escape(heading)} ({len(found)})</summary><ul>")
        lines += [f"<li>{escape(text)}</li>" for text in found]
        lines.append("</ul></details>")
    by_file: dict[str, dict[int, list[Site]]] = {}
    for site in coverage.sites:
        file, _, line = site.place.rpartition(":")
        if line.isdigit():
            by_file.setdefault(file, {}).setdefault(int(line), []).append(site)
    texts = {file: _text(file, roots) for file in sorted(by_file)}
    for file, text in texts.items():
        lines += _source(file, text, by_file[file], coverage)
    if coverage.rulebook is not None:
        lines += section("\n".join(line for text in texts.values() for line in text), coverage.rulebook)
    lines.append("</body></html>")
    return "\n".join(lines) + "\n"


def _text(file: str, roots: list[Path]) -> list[str]:
    """The lines of a file; none where it is not found."""
    path = next((root / file for root in roots if (root / file).is_file()), None)
    return [] if path is None else path.read_text(encoding="utf-8", errors="replace").splitlines()


def _source(file: str, text: list[str], sites: dict[int, list[Site]], coverage: Coverage) -> Iterator[str]:
    yield f"<h2>{escape(file)}</h2>"
    found = bool(text)
    yield "<table>"
    for number, line in enumerate(text or [""] * max(sites), 1):
        own = sites.get(number, [])
        if not own and not found:
            continue
        kind = f' class="{_kind(own, coverage)}"' if own else ""
        shown = escape(line) if coverage.rulebook is None else linked(line, coverage.rulebook)
        said = "\n".join(_said(s, coverage) for s in own)
        yield (
            f'<tr{kind}><td class="n">{number}</td><td><pre>{shown}</pre></td>'
            f'<td class="c">{escape(said)}</td></tr>'
        )
    yield "</table>"


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


__all__ = ["page"]
