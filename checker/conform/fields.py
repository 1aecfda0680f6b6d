"""Which fields of Kafka's answers and records are compared: ``fields.toml`` held against Kafka's message schemas."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files


def new_fields(schemas: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The fields and records of a Kafka that ``fields.toml`` does not name, so that nothing compares them."""
    known = tomllib.loads((files(__package__) / "fields.toml").read_text(encoding="utf-8"))
    left_out = set(" ".join(known["not_compared"].values()).split())
    never = set(" ".join(known["not_written"].values()).split())
    for message, fields in sorted(schemas.items()):
        if message in never:
            continue
        compared = known["compared"].get(message)
        if compared is None:
            yield message
            continue
        listed = left_out.union(compared.split())
        yield from (f"{message}.{field}" for field in fields if field not in listed)
