"""``highwater list``: the names that other commands take, grouped by protocol."""

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


@click.command("list", short_help="List scenarios, protocols, rules, properties, actions.")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@click.option(
    "--kind",
    type=click.Choice(listing.KINDS),
    metavar="KIND",
    default="scenarios",
    show_default=True,
    help=f"The kind of names to list: {', '.join(listing.KINDS)}.",
)
@click.option(
    "--standard", is_flag=True, help="Only the standard scenarios, which `highwater check` explores."
)
@json_option
def list_(patterns: tuple[str, ...], kind: str, standard: bool, json_file: str | None) -> Status:
    """List scenarios, or another KIND of names, grouped by protocol.

    A PATTERN selects: 'truncation/*' matches whole names; a word such as elr or quorum matches a part of the name
    or of the protocol's name.
    """
    if standard and kind != "scenarios":
        raise InputError(f"--standard selects scenarios, not {kind}")
    output = JsonOutput(json_file)
    entries = [
        entry
        for entry in listing.entries(kind)
        if _is_selected(entry, patterns) and (entry.get("standard") or not standard)
    ]
    if patterns and not entries:
        raise InputError(f"none of the {kind} matches {' or '.join(map(repr, patterns))}")
    for line in _lines(entries):
        output.say(line)
    if kind == "scenarios":
        output.say(_LEGEND)
    output.write(entries)
    return Status.OK


_LEGEND = """
* standard: explored by `highwater check` without arguments
`highwater show PROTOCOL/NAME` describes a scenario; `highwater list PATTERN` selects some"""


def _is_selected(entry: Entry, patterns: Sequence[str]) -> bool:
    names = (entry["name"], str(entry.get("protocol") or ""))
    return not patterns or any(_matches(name, pattern) for name in names for pattern in patterns)


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) if any(sign in pattern for sign in "*?[") else pattern in name


def _lines(entries: Sequence[Entry]) -> Iterator[str]:
    """The lines of the listing: the entries of each protocol under a heading, aligned in columns."""
    for number, (group, own) in enumerate(groupby(entries, key=_group)):
        if group is not None:
            if number:
                yield ""
            yield click.style(group, bold=True)
        rows: list[tuple[str, ...]] = [_row(entry, group) for entry in own]
        if not any(where for _, where, _ in rows):
            rows = [(name, text) for name, _, text in rows]
        yield from columns(rows, "", width())


def _group(entry: Entry) -> str | None:
    """The heading of an entry's group; None if entries of this kind have no headings."""
    if "standard" in entry:
        return f"{entry['name'].rpartition('/')[0]}/"
    return str(entry["protocol"] or "every protocol") if "protocol" in entry else None


def _row(entry: Entry, group: str | None) -> tuple[str, ...]:
    name = entry["name"]
    if "standard" in entry:
        name = f"{'*' if entry['standard'] else ' '} {name.removeprefix(str(group))}"
    text = entry.get("title") or entry.get("sentence") or entry.get("meaning") or ""
    where = entry.get("source", "") if "protocol" in entry else ", ".join(entry.get("proposals", ()))
    return name, where, text
