"""Runs of the replication protocol that go on for ever and come to nothing, each with what was planted for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from docs.analyses.kept import Graph
from docs.analyses.liveness_needs import run_with
from docs.analyses.traced import traced
from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.telling.counterexample import Counterexample
from highwater.model.language import State
from highwater.model.language.liveness import Fairness
from highwater.model.language.values import Number, Truth
from highwater.model.replication import Replication


def broker_does_not_lead(m: Replication, s: State, b: Number) -> Truth:
    """A condition under which a leader is not fair to its own metadata."""
    return ~m.leads(b, s.brokers[b])


@dataclass(frozen=True)
class Livelock:
    """A property on a scenario, with what is left of each assumption (None: nothing)."""

    scenario: str
    property: str
    left: Callable[[Fairness], Fairness | None]

    def run(self) -> Counterexample:
        """The run. ValueError where there is none, or it has no loop."""
        model = traced(Request.of(scenarios.find(self.scenario), Overrides()))
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
    Livelock("replication/live-min-isr", "writes_are_answered", _without("acknowledge")),
    Livelock("replication/live-reassignment", "reassignments_complete", _leader_replays_nothing),
    Livelock("replication/live-rejected", "proposals_come_to_rest", lambda fairness: fairness),
)
LIVELOCKS = {it.property: it for it in _ALL}
"""By property. docs/liveness.md says what each comes to."""
