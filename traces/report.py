"""What a replay found, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from traces.errors import printable

LIMIT = 100
"""So many unexplained lines are reported in full; the rest are counted."""


@dataclass(frozen=True)
class Candidate:
    """A step of the model that should have explained a line, and did not.

    ``refused_by`` and ``passed`` are names of checks. ``differences`` are pairs, by the path of the field: the
    model's value and the recorded one.
    """

    action: str
    parameters: Mapping[str, Any]
    refused_by: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    differences: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "action": self.action,
            "parameters": dict(self.parameters),
            "refused_by": list(self.refused_by),
            "passed": list(self.passed),
            "differences": {
                path: {"model": model, "recorded": recorded}
                for path, (model, recorded) in self.differences.items()
            },
        }


@dataclass(frozen=True)
class Unexplained:
    """A line that nothing explains: where it stands, what was before it, and what came near."""

    position: Mapping[str, int]
    time: int | None
    partition: str | None
    before: Mapping[str, Any]
    candidates: tuple[Candidate, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "position": dict(self.position),
            "time": self.time,
            "partition": self.partition,
            "before": dict(self.before),
            "candidates": [c.to_json() for c in self.candidates],
        }

    def lines(self) -> list[str]:
        """As text for people."""
        where = ", ".join(f"{name} {value}" for name, value in self.position.items())
        found = [f"{where}: " + (f"{self.partition}: " if self.partition else "") + "not explained"]
        for candidate in self.candidates:
            parameters = ", ".join(f"{k}={printable(v, 80)}" for k, v in candidate.parameters.items())
            found.append(f"  {candidate.action}({parameters})")
            found += [f"    refused by: {name}" for name in candidate.refused_by]
            found += [
                f"    {printable(path)}: the model says {printable(model)}, recorded is {printable(recorded)}"
                for path, (model, recorded) in candidate.differences.items()
            ]
        return found


@dataclass
class Report:
    """What the replay of one input found.

    ``operations`` counts lines, ``records`` the metadata records in them, ``changes`` those that change a
    partition. ``unexplained_count`` counts all lines that nothing explains, of which ``unexplained`` holds the
    first. ``interrupted`` is set where the replay was stopped before the end.
    """

    input: str
    kind: str
    profile: str
    rules: tuple[str, ...] = ()
    operations: int = 0
    records: int = 0
    partitions: int = 0
    changes: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    unexplained: list[Unexplained] = field(default_factory=list)
    unexplained_count: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def explained(self) -> bool:
        """Whether the model explains all that was read."""
        return not self.unexplained_count and not self.findings

    def add(self, line: Unexplained) -> None:
        """Count a line that nothing explains, and keep it up to the limit."""
        self.unexplained_count += 1
        if len(self.unexplained) < LIMIT:
            self.unexplained.append(line)

    def to_json(self) -> dict[str, Any]:
        """As JSON, in the form of the command line's contract."""
        return {
            "input": self.input,
            "kind": self.kind,
            "profile": self.profile,
            "rules": list(self.rules),
            "operations": self.operations,
            "records": self.records,
            "partitions": self.partitions,
            "changes": self.changes,
            "skipped": dict(self.skipped),
            "unexplained": [u.to_json() for u in self.unexplained],
            "unexplained_count": self.unexplained_count,
            "findings": list(self.findings),
            "interrupted": self.interrupted,
            "seconds": round(self.seconds, 3),
        }


__all__ = ["LIMIT", "Candidate", "Report", "Unexplained"]
