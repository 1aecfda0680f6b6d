"""Within which bounds Kafka 4.2.1 keeps its promises: a grid of searches under the profile ``kafka_4_2``.

``python -m docs.analyses.bounds_4_2`` searches all of it, which takes a while, and writes
kafka-4.2-bounds.json (with ``--missing`` only what is not there yet); the page docs/kafka-4.2.md shows that, and tests
search some of it again.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwater.checker.asking.search import SearchOptions
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.liveness.search import violating_run
from highwater.checker.engines.native import search
from highwater.invariants.catalogue import stated
from highwater.model import registry
from highwater.model.language.model import Model

_HERE = Path(__file__).parent
GRID: dict[str, Any] = tomllib.loads((_HERE / "kafka-4.2-bounds.toml").read_text(encoding="utf-8"))
"""Bounds, kinds of steps, and what closes findings."""

RESULTS = _HERE / "kafka-4.2-bounds.json"
PROFILE = "kafka_4_2"
MOST_STATES = 3_000_000
"""Where a search is stopped."""


@dataclass(frozen=True)
class Cell:
    """One search: a protocol within bounds, with some kinds of steps beside the comings and goings of brokers."""

    protocol: str
    size: tuple[int, int, int]
    epochs: tuple[int, int, int]
    steps: tuple[str, ...]

    @property
    def parameters(self) -> dict[str, int]:
        """The protocol's parameters."""
        names = ("brokers", "replication_factor", "min_isr")
        bounds = ("max_broker_epoch", "max_leader_epoch", "max_partition_epoch")
        chosen: dict[str, int] = {"judged_elections": 1, **dict(zip(names, self.size, strict=True))}
        chosen.update(zip(bounds, self.epochs, strict=True))
        for step in self.steps:
            chosen.update(GRID["steps"][step])
        return chosen

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from other cells."""
        return (self.protocol, self.size, self.epochs, self.steps)

    @property
    def closings(self) -> list[str]:
        """What can close a finding here: what is about nothing that this cell does not have."""
        here = ("", self.protocol, *self.steps)
        return [name for name, closing in GRID["closings"].items() if closing.get("of", "") in here]


def cells() -> Iterator[Cell]:
    """All cells of the grid."""
    for bounds in GRID["bounds"]:
        epochs = (bounds["max_broker_epoch"], bounds["max_leader_epoch"], bounds["max_partition_epoch"])
        for size in bounds["sizes"]:
            for count in range(bounds["together"] + 1):
                for steps in itertools.combinations(GRID["steps"], count):
                    yield Cell(bounds["protocol"], tuple(size), epochs, steps)


@dataclass(frozen=True)
class Searched:
    """What a search came to: the depth of a shortest run to each violated property; of liveness, to its loop."""

    states: int
    complete: bool
    violated: dict[str, int]


def searched(cell: Cell, closings: Sequence[str] = (), only: frozenset[str] | None = None) -> Searched:
    """The search of a cell with some closings switched on; of all properties, or of these only."""
    protocol_class, known = registry.protocol_of(cell.protocol), stated(cell.protocol)
    rules = set(protocol_class.profiles[PROFILE].rules)
    for switches in (GRID["closings"][name]["rules"] for name in closings):
        rules = (rules | {r for r, on in switches.items() if on}) - {
            r for r, on in switches.items() if not on
        }
    protocol = protocol_class(cell.parameters, rules)
    invariants = [i for i in known.invariants if only is None or i.name in only]
    liveness = [x for x in known.liveness if only is None or x.name in only]
    options = SearchOptions(workers=1, limit_states=MOST_STATES)
    violated: dict[str, int] = {}
    model = Model(protocol, invariants)
    found = search(model, options)
    violated.update({v.property: v.depth for v in found.violations})
    states, complete = found.distinct_states, found.complete or bool(found.violations)
    if liveness:
        runs = Model(protocol, (), liveness)
        explored = engines.explore("native")(runs, options, None)
        for prop in runs.liveness:
            run = violating_run(explored, prop).violation
            if run is not None:
                violated[prop.name] = run.depth
        states, complete = len(explored.states), complete and explored.complete
    return Searched(states, complete, violated)


def examined(cell: Cell) -> dict[str, Any]:
    """A cell's result as plain values: what is violated, and which smallest set of closings closes it."""
    as_it_is = searched(cell)
    left = frozenset(as_it_is.violated)
    closed: dict[str, list[list[str]]] = {name: [] for name in left}
    for closing in cell.closings if left else ():
        still = searched(cell, [closing], left).violated
        for name in left - set(still):
            closed[name].append([closing])
    for name in sorted(name for name in left if not closed[name]):
        together = _smallest(cell, name)
        closed[name] = [] if together is None else [together]
    return {
        "protocol": cell.protocol,
        "size": list(cell.size),
        "epochs": list(cell.epochs),
        "steps": list(cell.steps),
        "states": as_it_is.states,
        "complete": as_it_is.complete,
        "violated": {
            name: {"depth": as_it_is.violated[name], "closed_by": closed[name]} for name in sorted(left)
        },
    }


def _smallest(cell: Cell, name: str) -> list[str] | None:
    """Closings that close a finding together, none of which can be left out; None: not even all of them do."""
    keep, only = cell.closings, frozenset({name})
    if name in searched(cell, keep, only).violated:
        return None
    for closing in list(keep):
        fewer = [other for other in keep if other != closing]
        if name not in searched(cell, fewer, only).violated:
            keep = fewer
    return keep


def results() -> list[dict[str, Any]]:
    """What was found when the grid was searched last, a dict for each cell."""
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def written(found: Sequence[Mapping[str, Any]]) -> str:
    """Results as text, a cell a line."""
    return "[\n" + ",\n".join(json.dumps(one) for one in found) + "\n]\n"


def main(arguments: Sequence[str]) -> int:
    """Search all cells, or with ``--missing`` those without a result; what is found is written with each."""
    known = results() if "--missing" in arguments and RESULTS.exists() else []
    found = {_key(one): one for one in known}
    wanted = [cell for cell in cells() if cell.key not in found]
    wanted.sort(key=lambda cell: len(cell.steps))
    with multiprocessing.get_context("spawn").Pool(2) as helpers:
        for one in helpers.imap_unordered(examined, wanted):
            found[_key(one)] = one
            print(one["protocol"], *one["size"], *one["steps"], one["states"], flush=True)
            ordered = [found[cell.key] for cell in cells() if cell.key in found]
            RESULTS.write_text(written(ordered), encoding="utf-8")
    return 0


def _key(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return (one["protocol"], tuple(one["size"]), tuple(one["epochs"]), tuple(one["steps"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
