"""``highwater list``: scenarios, protocols, parameters, rules, numbers of the rulebook, properties, actions."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from highwater.checker.base.files import JsonOutput
from highwater.checker.base.problems import InputError, Status
from highwater.checker.base.text import columns, width
from highwater.checker.commands.options import json_option
from highwater.checker.scenarios import listing
from highwater.checker.scenarios.listing import Entry


@click.command("list", short_help="Scenarios, protocols, rules, invariants, actions.")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option("--kind", type=click.Choice(listing.KINDS), default="scenarios", show_default=True)
@click.option("--standard", is_flag=True, help="Only the standard scenarios.")
@json_option
def list_(patterns: tuple[str, ...], kind: str, standard: bool, json_file: str | None) -> Status:
    """List what can be named, by protocol. The standard scenarios, which `highwater check` explores, are marked with *.

    With a PATTERN only what is called so ('truncation/*'); one without signs is a part of the name or of the
    protocol's ('elr', 'quorum').
    """
    if standard and kind != "scenarios":
        raise InputError(f"--standard is about scenarios, not about {kind}")
    output = JsonOutput(json_file)
    entries = [
        entry
        for entry in listing.entries(kind)
        if _wanted(entry, patterns) and (entry.get("standard") or not standard)
    ]
    if patterns and not entries:
        raise InputError(f"none of the {kind} is called {' or '.join(map(repr, patterns))}")
    for line in _lines(entries):
        output.say(line)
    output.write(entries)
    return Status.AS_PROMISED


def _wanted(entry: Entry, patterns: Sequence[str]) -> bool:
    names = (entry["name"], str(entry.get("protocol") or ""))
    return not patterns or any(_is_called(name, pattern) for name in names for pattern in patterns)


def _is_called(name: str, pattern: str) -> bool:
    if any(sign in pattern for sign in "*?["):
        return fnmatch.fnmatchcase(name, pattern)
    return pattern in name


def _lines(entries: Sequence[Entry]) -> Iterator[str]:
    """A group for each protocol, where there are several, in columns of its own."""
    groups = [(group, list(own)) for group, own in groupby(entries, key=_group)]
    for number, (group, own) in enumerate(groups):
        if len(groups) > 1:
            if number:
                yield ""
            yield click.style(group or "of every protocol", bold=True)
        rows: list[tuple[str, ...]] = [_row(entry) for entry in own]
        if not any(where for _, where, _ in rows):
            rows = [(name, text) for name, _, text in rows]
        yield from columns(rows, "", width())


def _group(entry: Entry) -> str:
    if "protocol" in entry:
        return str(entry["protocol"] or "")
    return entry["name"].rpartition("/")[0] if "standard" in entry else ""


def _row(entry: Entry) -> tuple[str, ...]:
    name = f"{entry['name']} *" if entry.get("standard") else entry["name"]
    text = entry.get("title") or entry.get("sentence") or entry.get("meaning") or ""
    where = entry.get("source", "") if "protocol" in entry else ", ".join(entry.get("proposals", ()))
    return name, where, text
