"""What all judges share: the metadata log's side, the controller's requests, and where verdicts go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from highwater.invariants.statements import Statement
from highwater.model.rulebook import RULEBOOK
from highwater.traces.reports.findings import Finding
from highwater.traces.requests.asked import AskedOfControllers
from highwater.traces.requests.lines import RequestLine
from highwater.traces.requests.spine import Spine
from highwater.traces.requests.verdicts import Verdicts


@dataclass
class Context:
    """The spine, what the controllers' request logs say (``asked``), and the verdicts."""

    spine: Spine
    profile: str
    rules: frozenset[str]
    verdicts: Verdicts = field(default_factory=Verdicts)
    asked: AskedOfControllers = field(init=False)

    def __post_init__(self) -> None:
        self.asked = AskedOfControllers(self.spine)

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
