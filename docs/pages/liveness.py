"""The blocks of docs/liveness.md: where liveness properties hold, which fairness they need, and violating runs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from docs.pages.kept import Graph, in_order, traced
from docs.pages.markdown import Block, table
from highwater.checker.report import counterexample
from highwater.checker.report.counterexample import Counterexample
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.model.language import State
from highwater.model.language.liveness import Fairness, Liveness, TracedLiveness
from highwater.model.language.model import trace_liveness
from highwater.model.language.types import Number, Truth
from highwater.model.replication.protocol import Replication


def broker_does_not_lead(m: Replication, s: State, b: Number) -> Truth:
    """True if broker ``b`` does not lead.

    A fairness assumption with this condition does not apply to the leader's own metadata.
    """
    return ~m.leads(b, s.brokers[b])


@dataclass(frozen=True)
class Livelock:
    """A scenario's property, checked under weaker fairness assumptions.

    ``left`` maps each assumption to the weaker one that replaces it, or to None if it is dropped.
    """

    scenario: str
    property: str
    left: Callable[[Fairness], Fairness | None]

    def run(self) -> Counterexample:
        """The run that violates the property. Raises ValueError if there is none, or if its loop has no step."""
        model = traced(Request.of(scenario_files.find(self.scenario), Overrides()))
        (prop,) = (p for p in model.liveness if p.name == self.property)
        fair = [left for left in map(self.left, prop.liveness.fair) if left is not None]
        found = run_with(Graph(model), prop.liveness, fair)
        if found is None or found.loop is None or found.loop.start == found.depth - 1:
            raise ValueError(f"{self.scenario}: no loop was found")
        return found


def _without(action: str) -> Callable[[Fairness], Fairness | None]:
    return lambda fairness: None if action in fairness.actions else fairness


def _leader_replays_nothing(fairness: Fairness) -> Fairness:
    replays = "replay_metadata" in fairness.actions
    return replace(fairness, when=broker_does_not_lead) if replays else fairness


_ALL = (
    Livelock("replication/liveness-min-isr", "writes_are_answered", _without("acknowledge")),
    Livelock("replication/liveness-reassignment", "reassignments_complete", _leader_replays_nothing),
    Livelock("replication/liveness-rejected", "proposals_come_to_rest", lambda fairness: fairness),
)
LIVELOCKS = {it.property: it for it in _ALL}
"""The livelocks of docs/liveness.md, by property."""


_PLACES = ("replication/liveness-", "replication/controller/liveness-")
SCENARIOS = tuple(name for place in _PLACES for name in catalogue.scenario_files() if name.startswith(place))
"""The scenarios that exist to check liveness."""


def run_with(graph: Graph, liveness: Liveness, fair: Sequence[Fairness]) -> Counterexample | None:
    """A run that violates a property under the fairness ``fair``, replayed by the interpreter; None if none exists."""
    asked = copy.copy(graph.model)
    asked.liveness = [trace_liveness(graph.model, replace(liveness, fair=tuple(fair)))]
    found, _ = graph.fair_run(asked.liveness[0])
    if found is None:
        return None
    (example,) = counterexample.follow_all(asked, [found])
    return example


_WRITES = "acknowledged_writes_reach_all_replicas"
_VIOLATED = {
    ("replication/recovery-aggressive", _WRITES): "a",
    ("replication/recovery-aggressive-without-elr", _WRITES): "a",
    ("replication/recovery-first-phase", _WRITES): "b",
    ("replication/recovery-first-phase-loss", _WRITES): "b",
    ("replication/small-shutdown-replaced-disk", _WRITES): "c",
    ("replication/small-shutdown-unseen", _WRITES): "c",
    ("replication/large-crashes", _WRITES): "c",
    ("replication/large-late-proposals", _WRITES): "c",
    ("replication/large-shutdown-requests", "writes_are_answered"): "e",
    ("replication/large-shutdown-requests", "hwm_comes_to_cover_what_is_committed"): "e",
    ("replication/small-recovery", _WRITES): "f",
    ("replication/recovery-none", _WRITES): "g",
    ("replication/large-removed-replica", "reassignments_complete"): "h",
    ("replication/controller/large-unclean-recovery", "partitions_are_led"): "d",
    ("replication/controller/recovery-strategies", "partitions_are_led"): "g",
    ("replication/controller/recovery-strategies", "healthy_replicas_come_to_be_in_the_isr"): "g",
}
"""The scenarios and properties with a violation, each with the letter of its reason in docs/liveness.md."""


_OTHERS = ("gap-", "reach-kafka-", "small-gate-", "small-kafka-", "small-letter", "small-pairs-", "upgrade-")
"""The prefixes of scenarios of partial versions, of upgrades, and of pairs of faults with narrow bounds."""


_OF_THE_GATE = ("replication/large-reassign-cancel", "replication/large-reassign-fencing")
"""Scenarios of the gate that are too large for every check."""


def names(protocol: str) -> list[str]:
    """The scenarios in the table of a protocol, without ``SCENARIOS`` and those of ``_OTHERS``.

    These are the standard scenarios and those of ``_OF_THE_GATE``, if they switch no rule.
    """
    asked = (*scenario_files.standard(), *map(scenario_files.find, _OF_THE_GATE))
    named = (s.name for s in asked if s.definition.name == protocol and not s.rules)
    standard = sorted(named, key=lambda name: f"{name}.toml")  # in the order of their files
    ours = [name for name in standard if not name.rpartition("/")[2].startswith(_OTHERS)]
    return [name for name in ours if name not in SCENARIOS]


def row(name: str) -> tuple[int, dict[str, str]]:
    """The number of steps of a scenario, and the verdict on each liveness property of its protocol.

    Raises ValueError if the search is incomplete, or a violation is not as in ``_VIOLATED``.
    """
    scenario = scenario_files.find(name)
    wanted = tuple(p.name for p in scenario.definition.liveness)
    model = traced(Request.of(scenario, Overrides(properties=wanted)))
    graph = Graph(model)
    _, steps, complete = graph.size
    if not complete:
        raise ValueError(f"{name} was not searched to its end")

    def verdict(prop: TracedLiveness) -> str:
        (found, premises), why = graph.fair_run(prop), _VIOLATED.get((name, prop.name))
        if (found is not None) != (why is not None):
            raise ValueError(f"{name}: {prop.name} is {'violated' if why is None else 'not violated'}")
        if why is None:
            return "holds" if premises else "–"
        run_with(graph, prop.liveness, prop.liveness.fair)  # the interpreter replays the run
        return f"**{why}**"

    return steps, {prop.name: verdict(prop) for prop in model.liveness}


def _livelock(property: str) -> Iterator[str]:
    """The sentences of a livelock's run, as a block of text."""
    run = LIVELOCKS[property].run()
    assert run.loop is not None
    yield "```text"
    for number, step in enumerate(run.steps, 1):
        if number == run.loop.start + 2:
            yield "    and then forever:"
        yield f"{number:3} {step.sentence}"
    yield f"    and so on from state {run.loop.start + 1}"
    yield "```"


def _standard(protocol: str) -> Iterator[str]:
    """The table with the verdict on each property in each scenario of a protocol."""
    scenarios = names(protocol)
    rows = in_order(scenarios, row)
    (properties,) = {tuple(told) for _, told in rows}
    yield from (f"{number}. `{name}`" for number, name in enumerate(properties, 1))
    yield ""
    columns = ("scenario", "steps:", *map(str, range(1, len(properties) + 1)))
    found = zip(scenarios, rows, strict=True)
    yield from table(
        columns, ((n.rpartition("/")[2], f"{steps:,}", *told.values()) for n, (steps, told) in found)
    )


def _needs() -> Iterator[str]:
    """The lines of the page's sections, one section for each scenario of ``SCENARIOS``."""
    for lines in in_order(SCENARIOS, lambda name: list(needs_section(name))):
        yield from lines


def needs_section(name: str) -> Iterator[str]:
    """The section of one scenario: its size, and a table of its properties without each fairness assumption."""
    scenario = scenario_files.find(name)
    graph = Graph(traced(Request.of(scenario, Overrides())))
    states, steps, _ = graph.size
    yield from (f"### {name.partition('/')[2]}", "")
    yield from (f"{scenario.title}. {states:,} states, {steps:,} steps.", "")
    yield from table(("property", "without", "violated after:", "by a loop of:"), _needed(scenario, graph))
    yield ""


def _needed(scenario: Scenario, graph: Graph) -> Iterator[tuple[str, str, str, str]]:
    """The rows of a scenario: a property, a fairness assumption, and the lengths of a run without this assumption.

    If the scenario expects a property to be violated with all assumptions, the property has one row. Raises ValueError
    if the violations with all assumptions differ from the scenario's expectation.
    """
    for prop in graph.model.liveness:
        fair = prop.liveness.fair
        found = run_with(graph, prop.liveness, fair)
        if (found is not None) != (prop.name in scenario.expectation.violated):
            raise ValueError(f"{scenario.name}: {prop.name} is not as expected")
        if found is not None:
            yield (f"`{prop.name}`", "nothing", *_lengths(found))
            continue
        for number, fairness in enumerate(fair):
            without = run_with(graph, prop.liveness, fair[:number] + fair[number + 1 :])
            yield (f"`{prop.name}`", str(fairness), *_lengths(without))


def _lengths(run: Counterexample | None) -> tuple[str, str]:
    if run is None or run.loop is None:
        return "holds", ""
    return str(run.loop.start), str(run.depth - 1 - run.loop.start)


BLOCKS: dict[str, Block] = {"livelock": _livelock, "standard": _standard, "needs": _needs}
