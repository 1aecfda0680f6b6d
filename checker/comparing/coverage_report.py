"""The report of coverage: as text, as JSON, and as a page of the source with counts beside its lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from highwater.checker.comparing.coverage import BRANCH, GUARD, Coverage, Site
from highwater.checker.scenarios.rulebook import linked, section
from highwater.model.versions import versions
from highwater.traces.reports.page import policy


def gaps(coverage: Coverage) -> Iterator[tuple[str, list[str]]]:
    """Pairs (heading, entries) that list the parts not exercised by any state. Empty headings are left out."""
    sites = coverage.sites
    guards = {s: c for s, c in sites.items() if s.kind == GUARD}
    branches = {s: c for s, c in sites.items() if s.kind == BRANCH}
    named = (
        (
            "actions that could not be taken in any state",
            [n for n, count in coverage.steps.items() if not count and n not in coverage.ruled_out],
        ),
        ("actions that the parameters rule out", sorted(coverage.never_possible)),
        ("guards that never held", [_named(s) for s, c in guards.items() if not c[0]]),
        ("guards that never refused", [_named(s) for s, c in guards.items() if not c[1]]),
        (
            "guards that were never the only one to refuse: removing one of them changes nothing",
            [_named(s) for s, c in guards.items() if c[1] and not c[2]],
        ),
        ("branches never taken", [_named(s) for s, c in branches.items() if c[1] and not c[0]]),
        ("branches always taken", [_named(s) for s, c in branches.items() if c[0] and not c[1]]),
        ("branches never reached", [_named(s) for s, c in branches.items() if not (c[0] or c[1])]),
        ("rules that decided nothing", [n for n, r in coverage.rules.items() if r.asked and not r.decides]),
        (
            "rules that were not counted: without them the states have other fields",
            [n for n, r in coverage.rules.items() if not r.asked],
        ),
        (
            "properties that were checked vacuously",
            [n for n, count in coverage.premises.items() if not count],
        ),
    )
    for heading, found in named:
        if found:
            yield heading, sorted(set(found))


def _named(site: Site) -> str:
    name = f"“{site.name}”" if site.kind == GUARD else "where"
    return f"{site.place} {site.action}: {name}"


def lines(coverage: Coverage, *, full: bool = False) -> Iterator[str]:
    """The lines of the text report. With ``full``, every guard, branch and rule is listed with its counts."""
    if full:
        yield from _by_line(coverage)
    for heading, found in gaps(coverage):
        yield f"{heading} ({len(found)}):"
        yield from (f"  {text}" for text in found)
        yield ""
    yield from coverage.notes
    yield summary(coverage)


def summary(coverage: Coverage) -> str:
    """One line with the numbers of exercised actions, guards, branches and rules."""
    guards = [c for s, c in coverage.sites.items() if s.kind == GUARD]
    branches = [c for s, c in coverage.sites.items() if s.kind == BRANCH]
    rules = [r for r in coverage.rules.values() if r.asked]
    parts = [
        f"{sum(bool(n) for n in coverage.steps.values())} of {len(coverage.steps)} actions taken",
        f"{sum(bool(c[0] and c[1]) for c in guards)} of {len(guards)} guards held and refused",
        f"{sum(bool(c[2]) for c in guards)} alone",
        f"{sum(bool(c[0] and c[1]) for c in branches)} of {len(branches)} branches both ways",
    ]
    if rules:
        parts.append(f"{sum(bool(r.decides) for r in rules)} of {len(rules)} rules decided something")
    count = len(coverage.sources)
    begun = "interrupted: " if coverage.interrupted else ""
    return (
        f"{begun}{coverage.states:,} states of {count} source{'' if count == 1 else 's'}: {', '.join(parts)}"
    )


def _by_line(coverage: Coverage) -> Iterator[str]:
    ordered = sorted(coverage.sites, key=_order)
    for file, own in groupby(ordered, key=lambda s: s.place.rpartition(":")[0]):
        yield file
        for site in own:
            yield f"  {site.place.rpartition(':')[2]:>5}  {_counted(site, coverage)}"
        yield ""
    if coverage.rules:
        yield "rules"
        for name, rule in sorted(coverage.rules.items()):
            counts = f"forbids {rule.forbids:,} steps, allows {rule.allows:,}, changes {rule.changes:,}"
            counts = counts if rule.asked else "without it the states have other fields"
            yield f"  {name}: {counts}{' of ' if rule.actions else ''}{', '.join(rule.actions)}"
        yield ""


def _counted(site: Site, coverage: Coverage) -> str:
    a, b, alone = coverage.sites[site]
    if site.kind == GUARD:
        return f"{site.action}: “{site.name}” held {a:,}, refused {b:,}, alone {alone:,}"
    return f"{site.action}: where taken {a:,}, not taken {b:,}"


def _order(site: Site) -> tuple[str, int, str, str, str]:
    file, _, line = site.place.rpartition(":")
    return file, int(line) if line.isdigit() else 0, site.kind, site.action, site.name


def as_json(coverage: Coverage) -> dict[str, Any]:
    """The whole coverage as plain data, in the order of the source."""
    ordered = sorted(coverage.sites, key=_order)
    return {
        "sources": coverage.sources,
        "interrupted": coverage.interrupted,
        "states": coverage.states,
        "guards": [
            {
                "place": s.place,
                "action": s.action,
                "guard": s.name,
                "held": coverage.sites[s][0],
                "refused": coverage.sites[s][1],
                "alone": coverage.sites[s][2],
            }
            for s in ordered
            if s.kind == GUARD
        ],
        "branches": [
            {
                "place": s.place,
                "action": s.action,
                "taken": coverage.sites[s][0],
                "not_taken": coverage.sites[s][1],
            }
            for s in ordered
            if s.kind == BRANCH
        ],
        "actions": dict(coverage.steps),
        "ruled_out": sorted(coverage.never_possible),
        "observed": dict(coverage.observed),
        "premises": dict(coverage.premises),
        "rules": [
            {"rule": name, **{key: value for key, value in vars(use).items() if key != "name"}}
            for name, use in sorted(coverage.rules.items())
        ],
        "notes": coverage.notes,
        "versions": versions("coverage"),
    }


def page(coverage: Coverage, roots: list[Path]) -> str:
    """The HTML page of the source with its counts.

    Source files are read from the directories ``roots``; a missing file has only its counts.
    """
    lines = [
        f"<p>{escape(summary(coverage))}</p>",
        f"<p>{escape(', '.join(coverage.sources))}</p>",
        *(f"<p>{escape(note)}</p>" for note in coverage.notes),
        "<p>Green: a guard held, refused, and was the only one to refuse; a branch went both ways. Yellow: a guard "
        "was never the only one to refuse. Red: always the same way, or never reached.</p>",
    ]
    for heading, found in gaps(coverage):
        lines.append(f"<details><summary>{escape(heading)} ({len(found)})</summary><ul>")
        lines += [*(f"<li>{escape(text)}</li>" for text in found), "</ul></details>"]
    by_file: dict[str, dict[int, list[Site]]] = {}
    for site in coverage.sites:
        file, _, line = site.place.rpartition(":")
        if line.isdigit():
            by_file.setdefault(file, {}).setdefault(int(line), []).append(site)
    texts = {file: _text(file, roots) for file in sorted(by_file)}
    for file, text in texts.items():
        lines.append(f'<h2>{escape(file)}</h2><div class="scroll"><table>')
        lines += [*_rows(text, by_file[file], coverage), "</table></div>"]
    if coverage.rulebook is not None:
        lines += section("\n".join(line for text in texts.values() for line in text), coverage.rulebook)
    return _document("Coverage of the protocol", lines)


def _document(title: str, body: Iterable[str]) -> str:
    """An HTML page that has no scripts and no links to other files; ``body`` is HTML."""
    style = Path(__file__).with_name("source_page.css").read_text(encoding="utf-8")
    head = f"<title>{escape(title)}</title>\n<style>\n{style}</style></head><body>"
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy(head)}">',
        head,
        f"<h1>{escape(title)}</h1>",
        *body,
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def _text(file: str, roots: list[Path]) -> list[str]:
    path = next((root / file for root in roots if (root / file).is_file()), None)
    return [] if path is None else path.read_text(encoding="utf-8", errors="replace").splitlines()


def _rows(text: list[str], sites: dict[int, list[Site]], coverage: Coverage) -> Iterator[str]:
    """The HTML table rows for the lines of a file. If the file was not found, only lines with counts have rows."""
    for number, line in enumerate(text or [""] * max(sites), 1):
        own = sites.get(number, [])
        if own or text:
            shown = escape(line) if coverage.rulebook is None else linked(line, coverage.rulebook)
            beside = escape("\n".join(_counted(s, coverage) for s in own))
            kind = f' class="{_kind(own, coverage)}"' if own else ""
            yield f'<tr{kind}><td class="n">{number}</td><td><pre>{shown}</pre></td><td class="c">{beside}</td></tr>'


def _kind(sites: list[Site], coverage: Coverage) -> str:
    """How well a line is exercised: "full", "part" or "none".

    A guard has three counts and a branch has two. A count is reached if it is above zero for some action on the
    line. The line is "full" if all counts are reached, and "none" if at most one count is reached.
    """
    counts = [coverage.sites[s] for s in sites]
    wanted = 3 if any(s.kind == GUARD for s in sites) else 2
    reached = sum(any(c[i] for c in counts) for i in range(wanted))
    return "full" if reached == wanted else "part" if reached > 1 else "none"
