"""The part of docs/testing.md that lists the fields of the controller's state, for whoever writes a driver."""

from __future__ import annotations

from collections.abc import Iterator

from docs.pages.blocks import Block, row, table
from highwater.checker.asking import catalogue, listing


def _fields() -> Iterator[str]:
    yield from table(("field", "type", "meaning"), [])
    for field in listing.protocol(catalogue.load("replication.controller"))["state"]:
        if not field["absent"]:
            yield row((f"`{field['name']}`", f"`{field['type']}`", field["meaning"]))


BLOCKS: dict[str, Block] = {"fields": _fields}
