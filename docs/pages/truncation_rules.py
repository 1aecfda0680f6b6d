"""What each rule of the truncation protocol is there for: the blocks of docs/truncation-rules.md."""

from __future__ import annotations

from collections.abc import Iterator

from docs.analyses.kept import search
from docs.pages.blocks import Block, row, table
from highwater.checker.asking.search import SearchOptions
from highwater.invariants.truncation import INVARIANTS
from highwater.model.language import Model
from highwater.model.truncation import Truncation

_BOUNDS = {"replicas": 3, "log_size": 3, "max_records": 3, "max_leader_epoch": 2}


def _bounds() -> str:
    return ", ".join(f"{name} = {value}" for name, value in _BOUNDS.items())


def _profiles() -> Iterator[str]:
    """A table for each profile: which property fails without a rule, and when."""
    columns = ("rules", "what is missing", *(f"{i.name}:" for i in INVARIANTS), "states:")
    for name, profile in Truncation.profiles.items():
        yield from (f"## `{name}`: {profile.meaning}", "", *table(columns, []), *rows(name), "")


def rows(profile: str) -> Iterator[str]:
    """The rows of a profile's table: with all its rules, and with each of them off."""
    on = Truncation.profiles[profile].rules
    yield _row("all on", "nothing", on)
    for name, rule in Truncation.rules.items():
        if name in on:
            yield _row(f"`{name}` off", f"{rule.source}: {rule.sentence}", on - {name})


def _row(title: str, missing: str, rules: frozenset[str]) -> str:
    found = search(Model(Truncation(_BOUNDS, rules), INVARIANTS), SearchOptions(workers=1, symmetry=True))
    depths = {v.property: str(v.depth) for v in found.violations}
    cells = [depths.get(i.name, "–") for i in INVARIANTS]
    return row((title, missing, *cells, f"{found.distinct_states:,}"))


BLOCKS: dict[str, Block] = {"bounds": _bounds, "profiles": _profiles}
