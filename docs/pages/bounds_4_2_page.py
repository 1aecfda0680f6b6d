"""The part of docs/kafka-4.2.md about bounds: what the grid of ``bounds_4_2`` came to."""

from __future__ import annotations

from collections.abc import Iterator

from docs.analyses import bounds_4_2 as bounds
from docs.pages.blocks import Block, row, table
from highwater.checker.base.words import settings
from highwater.invariants.catalogue import stated
from highwater.model import registry
from highwater.model.language.liveness import Liveness
from highwater.model.language.protocol import Invariant


def _searched() -> Iterator[str]:
    columns = ("protocol", "brokers, replicas, min ISR", "broker, leader, partition epoch up to")
    yield from table((*columns, "searches:", "states:"), [])
    found = bounds.results()
    for key in dict.fromkeys((r["protocol"], *r["size"], *r["epochs"]) for r in found):
        those = [r for r in found if (r["protocol"], *r["size"], *r["epochs"]) == key]
        cut = sum(not r["complete"] for r in those)
        states = [r["states"] for r in those]
        unfinished = f", {cut} of them not to their end" if cut else ""
        size, epochs = ", ".join(map(str, key[1:4])), ", ".join(map(str, key[4:]))
        yield row(
            (f"`{key[0]}`", size, epochs, f"{len(those)}{unfinished}", f"{min(states):,} to {max(states):,}")
        )


def _steps() -> Iterator[str]:
    kinds = bounds.GRID["steps"].items()
    return table(
        ("kind of steps", "parameters"), ((_words(name), settings(chosen)) for name, chosen in kinds)
    )


def _violated() -> Iterator[str]:
    columns = ("property", "protocol", "smallest sets of steps, and the depth", "in searches:", "closed by")
    yield from table(columns, [])
    found = bounds.results()
    keys = sorted({(r["protocol"], name) for r in found for name in r["violated"]}, key=lambda k: k[::-1])
    for protocol, name in keys:
        those = [r for r in found if r["protocol"] == protocol and name in r["violated"]]
        smallest = [r for r in those if not any(set(o["steps"]) < set(r["steps"]) for o in those)]
        depths: dict[tuple[str, ...], int] = {}
        for r in smallest:
            steps, depth = tuple(r["steps"]), r["violated"][name]["depth"]
            depths[steps] = min(depth, depths.get(steps, depth))
        closings = {tuple(c) for r in smallest for c in r["violated"][name]["closed_by"]}
        closed = "<br/>".join(sorted(" + ".join(f"`{part}`" for part in c) for c in closings))
        sets = "<br/>".join(f"{_set(steps)}: {depth}" for steps, depth in sorted(depths.items()))
        yield row((f"`{name}`", f"`{protocol}`", sets, len(those), closed or "none of those tried"))


def _holding() -> Iterator[str]:
    found = bounds.results()
    for protocol in dict.fromkeys(r["protocol"] for r in found):
        known, on = stated(protocol), registry.protocol_of(protocol).profiles[bounds.PROFILE].rules
        stated_here: list[Invariant | Liveness] = [*known.invariants, *known.liveness]
        asked = [p.name for p in stated_here if p.rule is None or p.rule in on]
        broken = {name for r in found if r["protocol"] == protocol for name in r["violated"]}
        holds = ", ".join(f"`{name}`" for name in asked if name not in broken)
        yield f"- In every search of `{protocol}` hold: {holds}."


def _set(steps: tuple[str, ...]) -> str:
    return " and ".join(map(_words, steps)) or "none of these steps"


def _words(name: str) -> str:
    return name.replace("_", " ")


BLOCKS: dict[str, Block] = {
    "searched": _searched,
    "steps": _steps,
    "violated": _violated,
    "holding": _holding,
}
