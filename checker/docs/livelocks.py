"""Runs of the replication protocol that go on for ever and come to nothing, each with what was planted for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from highwater.checker.asking import scenarios
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.docs.liveness_needs import run_with
from highwater.checker.engines import by_name as engines
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
    """A property on a scenario, with what is left of each assumption (None: nothing), and what that comes to."""

    title: str
    scenario: str
    property: str
    left: Callable[[Fairness], Fairness | None]
    text: str

    def run(self) -> Counterexample:
        """The run. ValueError where there is none, or it has no loop."""
        model = Request.of(scenarios.find(self.scenario), Overrides()).model()
        explored = engines.explore("native")(model, SearchOptions(workers=1), None)
        (prop,) = (p for p in model.liveness if p.name == self.property)
        fair = [kept for kept in map(self.left, prop.liveness.fair) if kept is not None]
        found = run_with(model, explored, prop.liveness, fair)
        if found is None or found.loop is None or found.loop.start == found.depth - 1:
            raise ValueError(f"{self.title}: no loop was found")
        return found

    def section(self) -> Iterator[str]:
        """The part of the page about it."""
        run = self.run()
        assert run.loop is not None
        yield f"### {self.title}"
        yield ""
        yield f"`{self.property}` on `{self.scenario}`. {self.text}"
        yield ""
        yield "```text"
        for number, step in enumerate(run.steps, 1):
            if number == run.loop.start + 2:
                yield "    and then for ever:"
            yield f"{number:3} {step.sentence}"
        yield f"    and so on from state {run.loop.start + 1}"
        yield "```"
        yield ""


def _without(action: str) -> Callable[[Fairness], Fairness | None]:
    return lambda fairness: None if action in fairness.actions else fairness


def _leader_replays_nothing(fairness: Fairness) -> Fairness:
    replays = "replay_metadata" in fairness.actions
    return replace(fairness, when=broker_does_not_lead) if replays else fairness


LIVELOCKS = (
    Livelock(
        "An unfair action",
        "replication/live-min-isr",
        "writes_are_answered",
        _without("acknowledge"),
        "Nothing says that a leader acknowledges what it may: its follower fetches for ever, and the producer waits.",
    ),
    Livelock(
        "A fetch and an error",
        "replication/live-reassignment",
        "reassignments_complete",
        _leader_replays_nothing,
        "Only brokers that do not lead are sure to replay metadata. A leader that does not hears of no replica that "
        "is added: it refuses its fetches, and the replica fetches again.",
    ),
    Livelock(
        "An AlterPartition that is rejected for ever",
        "replication/live-rejected",
        "proposals_come_to_rest",
        lambda fairness: fairness,
        "Everything is fair; the rule `proposed_replica_eligible_check` (841.1) is off. The leader proposes a "
        "fenced replica, the controller answers INELIGIBLE_REPLICA, the leader goes back to the ISR (841.3), "
        "and proposes it again.",
    ),
)
"""The livelocks of the page."""

__all__ = ["LIVELOCKS", "Livelock"]
