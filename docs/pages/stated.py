"""Rules and properties as lists, for the pages that hold them against each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from highwater.model.language.liveness import Liveness
from highwater.model.language.protocol import Invariant, Rule


def properties(stated: Sequence[Invariant | Liveness]) -> Iterator[str]:
    """Numbered, as the columns of a table are."""
    return (f"{n}. `{p.name}` ({p.source}): {p.meaning}" for n, p in enumerate(stated, 1))


def rules(stated: Mapping[str, Rule]) -> Iterator[str]:
    """By name, with source and sentence."""
    return (f"- `{name}` ({rule.source}): {rule.sentence}" for name, rule in stated.items())
