"""The table of the standard scenarios: which liveness properties hold in them, and why the other ones do not."""

from __future__ import annotations

from docs.analyses.kept import Graph
from docs.analyses.liveness_needs import SCENARIOS, run_with
from docs.analyses.side_by_side import in_order
from docs.analyses.traced import traced
from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.model.language.liveness import TracedLiveness

_WRITES = "acknowledged_writes_reach_all_replicas"
_VIOLATED = {
    ("replication/recovery-aggressive", _WRITES): "a",
    ("replication/recovery-first-phase", _WRITES): "b",
    ("replication/recovery-first-phase-loss", _WRITES): "b",
    ("replication/shutdown-replaced-disk", _WRITES): "c",
    ("replication/shutdown-unseen", _WRITES): "c",
    ("replication/standard-crashes", _WRITES): "c",
    ("replication/standard-late-proposals", _WRITES): "c",
    ("replication/standard-shutdown-requests", "writes_are_answered"): "e",
    ("replication/standard-shutdown-requests", "hwm_comes_to_cover_what_is_committed"): "e",
    ("replication/watched-recovery", _WRITES): "f",
    ("replication/recovery-none", _WRITES): "g",
    ("replication/standard-removed-replica", "reassignments_complete"): "h",
    ("replication/controller/unclean-recovery", "partitions_are_led"): "d",
    ("replication/controller/recovery-strategies", "partitions_are_led"): "g",
    ("replication/controller/recovery-strategies", "healthy_replicas_come_to_be_in_the_isr"): "g",
}
"""Where a property is violated, and for which reason: docs/liveness.md has them under these letters."""


_OTHER_VERSIONS = (
    "gap-",
    "gate-",
    "letter-",
    "mixed-",
    "possible-kafka-",
    "upgrade-",
    "watched-kafka-",
    "watched-letter",
)
"""Scenarios of what no proposal asks for as it stands, or of the way to it: of their runs nothing is promised."""


_OF_THE_GATE = ("replication/reassign-cancel", "replication/reassign-fencing")
"""What the gate asks, as it is too large for every check."""


def names(protocol: str) -> list[str]:
    """The standard scenarios of a protocol with all rules on, and two of the gate's, but for those told elsewhere."""
    asked = (*scenarios.standard(), *map(scenarios.find, _OF_THE_GATE))
    named = (s.name for s in asked if s.definition.name == protocol and not s.rules)
    standard = sorted(named, key=lambda name: f"{name}.toml")  # as their files lie
    ours = [name for name in standard if not name.rpartition("/")[2].startswith(_OTHER_VERSIONS)]
    return [name for name in ours if name not in SCENARIOS]


def verdicts(protocol: str) -> dict[str, tuple[int, dict[str, str]]]:
    """The standard scenarios of a protocol: the steps of each, and what came of each property."""
    return dict(zip(names(protocol), in_order(names(protocol), row), strict=True))


def row(name: str) -> tuple[int, dict[str, str]]:
    """The steps of a scenario, and for each liveness property of its protocol what came of it."""
    scenario = scenarios.find(name)
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
        run_with(graph, prop.liveness, prop.liveness.fair)  # the interpreter takes it again
        return f"**{why}**"

    return steps, {prop.name: verdict(prop) for prop in model.liveness}
