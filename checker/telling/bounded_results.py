"""What came of a bounded check: the result object of the command line's contract, engine "z3"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from highwater.checker.base.memory import peak_memory
from highwater.checker.base.status import Status
from highwater.checker.engines.solver.bounded import BoundedResult, DepthDone
from highwater.checker.telling.results import ScenarioOutcome

ENGINE = "z3"

STOPPED = {
    "seconds": "the limit on seconds was reached",
    "memory": "the memory that it may use was full",
    "interrupted": "it was interrupted",
    "unknown": "the solver gave no answer",
    "violation": "there was no property left to decide",
}


@dataclass(frozen=True)
class BoundedOutcome(ScenarioOutcome):
    """A bounded check of a scenario. A promise that needs more depth than was asked for stays open."""

    form: ClassVar[str] = "proof"

    asked: int = 0
    """The depth that was asked for."""

    @property
    def reached(self) -> bool:
        """Whether every depth that was asked for was decided, or all states were seen before."""
        return self.result.stopped_by in (None, "depth", "violation")

    @property
    def verdict(self) -> str:
        """As of other engines; ``holds`` also if every property holds to the depth that was asked for."""
        verdict = super().verdict
        to_depth = self.reached and bool(self.request.properties or not self.request.goals)
        return "holds" if verdict == "inconclusive" and to_depth else verdict

    @property
    def status(self) -> Status:
        """The exit status that this outcome stands for."""
        if self.result.stopped_by == "interrupted":
            return Status.INTERRUPTED
        if self.broken:
            return Status.VIOLATED
        return Status.AS_PROMISED if self.reached else Status.INCONCLUSIVE

    def as_json(self) -> dict[str, Any]:
        """As of other engines, but for what a solver does not count; and what was decided at each depth."""
        result = self.result
        assert isinstance(result, BoundedResult)
        said = super().as_json()
        for uncounted in ("distinct_states", "generated_states"):
            said[uncounted] = None
        for absent in (
            "outside_states",
            "cut",
            "actions",
            "premises",
            "collision_probability",
            "spilled_bytes",
        ):
            del said[absent]
        said["question"] = "depth"
        said["asked_depth"] = self.asked
        said["peak_memory_bytes"] = peak_memory()
        said["depths"] = [self._depth(d) for d in result.depths]
        return said

    def _depth(self, done: DepthDone) -> dict[str, object]:
        """What was decided at a depth: goals are reached, and do not count as holding."""
        depths = self.reachable
        return {
            "depth": done.depth,
            "violated": [name for name in done.violated if name not in depths],
            "reached": [name for name in done.violated if name in depths],
            "holding": done.holding - sum(d is None or d > done.depth for d in depths.values()),
            "seconds": round(done.seconds, 6),
        }

    def lines(self) -> Iterator[str]:
        """The verdict in words."""
        result, name = self.result, self.request.scenario.name
        for run in self.runs:
            yield f"{name}: {run.name} {run.outcome} at depth {run.depth}"
        open_ = len(self.request.properties) - len(self.examples)
        if result.stopped_by is None:
            what = "in every reachable state" + (f", as no run is longer than {result.depth} states")
        else:
            what = f"in every state up to depth {result.depth}" if result.depth else "so far in no state"
        if open_:
            yield f"{name}: {_count(open_, 'property', 'properties')} {'holds' if open_ == 1 else 'hold'} {what}"
        if not (self.request.properties or self.request.goals) or self.checked.rest:
            yield f"{name}: {self.checked.sentence}"
        if not self.reached:
            yield (
                f"{name}: {STOPPED[result.stopped_by or '']} at depth {result.depth + 1}: inconclusive, "
                f"as depth {self.asked} was asked for"
            )
        if self.request.as_written:
            for line in self.broken:
                yield f"{name}: {line}"
            if missed := sorted(self.request.scenario.promise.violated - {e.name for e in self.examples}):
                yield f"{name}: promised to be violated, and not within this depth: {', '.join(missed)}"
        if self.unreached and not result.complete:
            yield f"{name}: not reached within this depth: {', '.join(self.unreached)}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
