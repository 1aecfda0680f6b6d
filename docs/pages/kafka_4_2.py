"""The analyses behind docs/kafka-4.2.md: the findings in Kafka 4.2.1, and bounds within which there is no finding.

``python -m docs.pages.kafka_4_2`` searches all cells of a grid of bounds, which takes long, and writes
kafka-4.2-bounds.json (with ``--missing`` only the cells without a result). Tests repeat some of the searches.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docs.pages.kept import Graph, once, search, traced
from docs.pages.liveness import run_with
from docs.pages.markdown import FOLDER
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.liveness.search import violating_run
from highwater.checker.engines.native import search as native_search
from highwater.checker.report.counterexample import Counterexample, follow_all
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.invariants.catalogue import stated
from highwater.model import registry
from highwater.model.language.model import Model

PLACE = "replication/controller/kafka-4.2-"
PROFILE = "kafka_4_2"
FINDINGS: dict[str, dict[str, Any]] = {
    finding["name"]: finding
    for finding in tomllib.loads((FOLDER / "kafka-4.2.toml").read_text(encoding="utf-8"))["finding"]
}
"""The findings by name, in the order of the page."""


@dataclass(frozen=True)
class Outcome:
    """The result of a search: a shortest run to each violated property (``examples``), and the number of states.

    ``complete`` is true if the search explored all states.
    """

    model: Model
    examples: tuple[Counterexample, ...]
    states: int
    complete: bool


def full_name(name: str) -> str:
    """The name of a finding's scenario.

    This is ``scenario`` of the finding's entry in kafka-4.2.toml or, without it, ``PLACE`` followed by ``name``.
    """
    found: str = FINDINGS[name].get("scenario", PLACE + name)
    return found


@once
def found(name: str) -> Outcome:
    """The outcome of a finding's scenario without overrides."""
    return outcome(full_name(name), Overrides())


def switched(name: str, rules: dict[str, bool]) -> Outcome:
    """The outcome of a finding's scenario, with ``rules`` switched on (True) or off (False)."""
    return outcome(full_name(name), Overrides(rules=rules))


def outcome(name: str, overrides: Overrides) -> Outcome:
    """Search a scenario with one worker.

    If it checks liveness properties, only these are checked, on the whole graph.
    """
    model = traced(Request.of(scenario_files.find(name), overrides))
    if not model.liveness:
        result = search(model, SearchOptions(workers=1))
        runs = tuple(follow_all(model, result.violations))
        return Outcome(model, runs, result.distinct_states, result.complete)
    graph = Graph(model)
    found = (run_with(graph, p.liveness, p.liveness.fair) for p in model.liveness)
    states, _, complete = graph.size
    return Outcome(model, tuple(run for run in found if run is not None), states, complete)


GRID: dict[str, Any] = tomllib.loads((FOLDER / "kafka-4.2-bounds.toml").read_text(encoding="utf-8"))
"""The grid: bounds, kinds of steps, and closings (sets of rule switches that remove a finding)."""

RESULTS = FOLDER / "kafka-4.2-bounds.json"
MOST_STATES = 3_000_000
"""A search stops after this many states."""


@dataclass(frozen=True)
class Cell:
    """One search of the grid: a protocol with its bounds, and the kinds of steps that it allows.

    Brokers always restart and are fenced; ``steps`` names the kinds of steps besides these.
    """

    protocol: str
    size: tuple[int, int, int]
    epochs: tuple[int, int, int]
    steps: tuple[str, ...]

    @property
    def parameters(self) -> dict[str, int]:
        """The protocol's parameters in this cell."""
        names = ("brokers", "replication_factor", "min_isr")
        bounds = ("max_broker_epoch", "max_leader_epoch", "max_partition_epoch")
        chosen: dict[str, int] = {"judged_elections": 1, **dict(zip(names, self.size, strict=True))}
        chosen.update(zip(bounds, self.epochs, strict=True))
        for step in self.steps:
            chosen.update(GRID["steps"][step])
        return chosen

    @property
    def closings(self) -> list[str]:
        """The names of the closings that apply to this cell: to its protocol, to one of its steps, or to every cell.

        A closing is a set of rules, switched on or off, that may close a gap in Kafka 4.2.
        """
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
    """The result of a cell: the number of states, and the depth of a shortest run to each violated property."""

    states: int
    complete: bool
    violated: dict[str, int]


def searched(cell: Cell, closings: Sequence[str] = (), only: frozenset[str] | None = None) -> Searched:
    """Search a cell with the rules of ``closings`` switched; check all properties, or those of ``only``."""
    protocol_class, known = registry.protocol_of(cell.protocol), stated(cell.protocol)
    rules = set(protocol_class.profiles[PROFILE].rules)
    for switches in (GRID["closings"][name]["rules"] for name in closings):
        rules |= {rule for rule, on in switches.items() if on}
        rules -= {rule for rule, on in switches.items() if not on}
    protocol = protocol_class(cell.parameters, rules)
    liveness = [x for x in known.liveness if only is None or x.name in only]
    options = SearchOptions(workers=1, limit_states=MOST_STATES)
    found = native_search(
        Model(protocol, [i for i in known.invariants if only is None or i.name in only]), options
    )
    violated = {v.property: v.depth for v in found.violations}
    states, complete = found.distinct_states, found.complete or bool(found.violations)
    if liveness:
        runs = Model(protocol, (), liveness)
        explored = engines.explore("native")(runs, options, None)
        decided = ((p.name, violating_run(explored, p).violation) for p in runs.liveness)
        violated |= {name: run.depth for name, run in decided if run is not None}
        states, complete = len(explored.states), complete and explored.complete
    return Searched(states, complete, violated)


def examined(cell: Cell) -> dict[str, Any]:
    """A cell's result as JSON data, with the closings that remove each violation.

    These are all single closings that remove it or, if there are none, one minimal set of closings; empty if all
    closings together do not remove it.
    """
    as_it_is = searched(cell)
    left = frozenset(as_it_is.violated)
    closed: dict[str, list[list[str]]] = {name: [] for name in left}
    for closing in cell.closings if left else ():
        for name in left - set(searched(cell, [closing], left).violated):
            closed[name].append([closing])
    for name in sorted(name for name in left if not closed[name]):
        together = _smallest(cell, name)
        closed[name] = [] if together is None else [together]
    violated = {n: {"depth": as_it_is.violated[n], "closed_by": closed[n]} for n in sorted(left)}
    of = {"protocol": cell.protocol, "size": list(cell.size), "epochs": list(cell.epochs)}
    return {
        **of, "steps": list(cell.steps), "states": as_it_is.states, "complete": as_it_is.complete, "violated": violated
    }  # fmt: skip


def _smallest(cell: Cell, name: str) -> list[str] | None:
    """A minimal set of closings that removes a violation; None if all closings together do not remove it."""
    keep, only = cell.closings, frozenset({name})
    if name in searched(cell, keep, only).violated:
        return None
    for closing in list(keep):
        fewer = [other for other in keep if other != closing]
        if name not in searched(cell, fewer, only).violated:
            keep = fewer
    return keep


def results() -> list[dict[str, Any]]:
    """The committed results, a dict for each cell."""
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def cell_of(result: Mapping[str, Any]) -> Cell:
    """The cell to which a result belongs."""
    return Cell(result["protocol"], *(tuple(result[key]) for key in ("size", "epochs", "steps")))


def main(arguments: Sequence[str]) -> int:
    """Search all cells, or with ``--missing`` the cells without a result. Write the file after each result."""
    found = {cell_of(one): one for one in results()} if "--missing" in arguments else {}
    wanted = sorted((cell for cell in cells() if cell not in found), key=lambda cell: len(cell.steps))
    with multiprocessing.get_context("spawn").Pool(2) as helpers:
        for one in helpers.imap_unordered(examined, wanted):
            found[cell_of(one)] = one
            print(one["protocol"], *one["size"], *one["steps"], one["states"], flush=True)
            ordered = (json.dumps(found[cell]) for cell in cells() if cell in found)
            RESULTS.write_text("[\n" + ",\n".join(ordered) + "\n]\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
