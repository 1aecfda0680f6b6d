"""A rule of the rulebook as ``highwater show 966.4`` tells it: wrapped, the rule and its reason first."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import click

from highwater.model.language.audit import FAITHFUL

Entry = dict[str, Any]

WIDEST = 100
"""Lines are no longer, however wide the terminal is."""


def number_lines(entry: Entry) -> Iterator[str]:
    """A rule: statement, reason, proposal; then what goes with it."""
    yield from _title(entry["name"], entry["title"])
    yield from _text("", entry["states"])
    yield ""
    yield from _text("why", entry["why"])
    if entry["beyond"]:
        yield ""
        yield from _text("beyond the proposal's letter", entry["beyond"])
    for sentence in entry["sentences"]:
        if sentence["status"] != FAITHFUL:
            yield ""
            yield from _text(sentence["status"], sentence["says"])
            yield from _wrapped(f"    {sentence['how']}", "    ")
    yield ""
    yield from _origin(entry)
    sections = {
        "switches, for --rule NAME=off": [
            (f"{e['name']}  ({', '.join(e['protocols'])})", e["place"], e["meaning"])
            for e in entry["switches"]
        ],
        "stated by": [(e["name"], e["place"], "") for e in entry["functions"] if e["states"]],
        "actions": [
            (f"{e['name']}  ({', '.join(e['protocols'])})", e["place"], "") for e in entry["actions"]
        ],
        "invariants": [_property(e) for e in entry["invariants"]],
        "properties of steps": [_property(e) for e in entry["step_properties"]],
        "liveness": [_property(e) for e in entry["liveness"]],
        "in proofs and replay": [(e["name"], e["place"], "") for e in entry["helpers"]],
        "mentioned by": [(e["name"], e["place"], "") for e in entry["functions"] if not e["states"]],
        "scenarios": [(e["name"], "", e["title"]) for e in entry["scenarios"]],
    }
    for title, rows in sections.items():
        yield from _section(title, rows)
    yield from _run_on("gallery", _by_page(entry["gallery"]))
    yield from _run_on("tests", [e["name"] for e in entry["tests"]])


def family_lines(entry: Entry) -> Iterator[str]:
    """A family or a proposal: what it is about, and its rules by their titles."""
    yield from _title(entry["name"], entry["title"])
    if entry["about"]:
        yield from _text("", entry["about"])
    if entry["from"]:
        yield ""
        yield from _links(entry["from"])
    for title, rules in (("rules", entry["numbers"]), ("rules of others that rest on it", entry["others"])):
        if rules:
            yield ""
            yield title
            width = max(len(rule["name"]) for rule in rules)
            for rule in rules:
                yield from _wrapped(f"  {rule['name']:<{width}}  {rule['title']}", " " * (width + 4))


def _title(name: str, title: str) -> Iterator[str]:
    first, *others = textwrap.wrap(f"{name}  {title}", _width(), subsequent_indent=" " * (len(name) + 2))
    yield from (click.style(line, bold=True) for line in (first, *others))
    yield ""


def _text(label: str, text: str) -> Iterator[str]:
    yield from _wrapped(f"  {label + ': ' if label else ''}{text}", "  ")


def _origin(entry: Entry) -> Iterator[str]:
    """The proposals with their links, the section, and its words."""
    if not entry["from"]:
        yield "  no proposal: it is what the rules are held against"
        return
    yield from _links(entry["from"])
    if entry["section"]:
        yield from _wrapped(f"  section: {entry['section']}", "    ")
    if entry["quote"]:
        yield from _wrapped(f"  “{entry['quote']}”", "   ")


def _links(proposals: Sequence[Entry]) -> Iterator[str]:
    for proposal in proposals:
        yield from _wrapped(f"  {proposal['name']}: {proposal['title']}", "    ")
        yield f"    {proposal['link']}"


def _property(entry: Entry) -> tuple[str, str, str]:
    return f"{entry['name']}  ({', '.join(entry['protocols'])})", entry["place"], entry["meaning"]


def _section(title: str, rows: Sequence[tuple[str, str | None, str]]) -> Iterator[str]:
    """Rows of a name, a place and a text: name and place on one line where they fit, the text below."""
    if not rows:
        return
    yield ""
    yield title
    for name, place, text in rows:
        line = f"  {name}"
        if place and len(line) + 2 + len(place) <= _width():
            yield f"{line}  {place}"
        else:
            yield from _wrapped(line, "    ")
            if place:
                yield f"      {place}"
        if text:
            yield from _wrapped(f"      {text}", "      ")


def _run_on(title: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield ""
        yield title
        yield from _wrapped("  " + ", ".join(names), "  ")


def _by_page(entries: Sequence[Entry]) -> list[str]:
    return [f"{e['page']}#{e['name']}" for e in entries]


def _wrapped(text: str, indent: str) -> list[str]:
    """A text whose first line is indented as it is, wrapped; names and links are never broken."""
    return textwrap.wrap(
        text, _width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _width() -> int:
    return min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
