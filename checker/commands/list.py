"""``highwater list``: scenarios, protocols, rules, numbers of the rulebook, invariants, liveness, actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from highwater.checker import listing
from highwater.checker.listing import Entry
from highwater.checker.options import json_option
from highwater.checker.output import JsonOutput
from highwater.checker.status import Status


@click.command("list", short_help="Scenarios, protocols, rules, invariants, actions.")
@click.option("--kind", type=click.Choice(listing.KINDS), default="scenarios", show_default=True)
@json_option
def list_(kind: str, json_file: str | None) -> Status:
    """List what can be named. The standard scenarios, which `highwater check` explores, are marked with *."""
    output = JsonOutput(json_file)
    entries = listing.entries(kind)
    for line in _lines(entries):
        output.say(line)
    output.write(entries)
    return Status.AS_PROMISED


def _lines(entries: Sequence[Entry]) -> Iterator[str]:
    rows = [_row(entry) for entry in entries]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True) if width).rstrip()


def _row(entry: Entry) -> tuple[str, str, str]:
    name = f"{entry['name']} *" if entry.get("standard") else entry["name"]
    text = entry.get("title") or entry.get("sentence") or entry.get("meaning") or ""
    where = (
        f"{entry['protocol']}  {entry['source']}"
        if "protocol" in entry
        else ", ".join(entry.get("proposals", ()))
    )
    return name, where, text
