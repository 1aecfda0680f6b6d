"""What all judges share: the metadata log's side, the controller's requests, and where verdicts go."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from highwater.invariants.statements import Statement
from highwater.model.rulebook import RULEBOOK
from highwater.traces.reports.findings import Finding
from highwater.traces.requests.heartbeats import NEVER, NOTHING, Replayed
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.messages import Proposal
from highwater.traces.requests.spine import History, Spine
from highwater.traces.requests.verdicts import Verdicts

Led = tuple[int, int, int]
"""A leader, the number of a history, and a leader epoch."""


@dataclass
class Context:
    """The spine, what the controller's request log says, and the verdicts.

    ``replayed`` says of each broker by when it had replayed the metadata log up to which offset.
    """

    spine: Spine
    profile: str
    rules: frozenset[str]
    verdicts: Verdicts = field(default_factory=Verdicts)
    proposals: dict[Led, list[Proposal]] = field(default_factory=lambda: defaultdict(list))
    replayed: dict[int, Replayed] = field(default_factory=dict)

    def had_replayed(self, broker: int, position: int, by: float) -> bool:
        """Whether a broker had surely replayed the metadata log up to an offset by a time of the controller's clock."""
        known = self.replayed.get(broker, NOTHING)
        at = bisect_right(known.times, by)
        return at > 0 and known.offsets[at - 1] >= position

    def knew(self, broker: int, position: int | None) -> float:
        """By when, of the controller's clock, a broker had told that it had replayed an offset; never, of None."""
        return NEVER if position is None else self.replayed.get(broker, NOTHING).by(position)

    def proposed(self, broker: int, history: History, epoch: int) -> list[Proposal]:
        """A leader's proposals in a leader epoch, in the order of their arrival."""
        return self.proposals.get((broker, id(history), epoch), [])

    def finding(
        self,
        promise: Statement,
        rule: str,
        line: RequestLine,
        partition: str,
        summary: str,
        at_risk: str = "",
        certain: bool = True,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Tell of a promise that a message breaks."""
        position = {"file": str(line.path), "line": line.line}
        self.verdicts.found(
            Finding(
                rule,
                promise.name,
                partition,
                position,
                round(line.ended),
                summary,
                at_risk,
                RULEBOOK.origin(rule),
                certain,
                facts=dict(facts or {}),
            )
        )
