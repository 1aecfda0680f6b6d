"""What the model says that the controller does with an operation, in the terms of the recording."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from highwater.traces.operations.format import ANY_TEXT, Record


class NotKnown(Exception):
    """An operation, or a case of one, about which the rules say nothing; the message names it."""


@dataclass
class Outcome:
    """An answer, the records appended, and what the operation's own annotations should say.

    ``records`` are groups: the order of groups is the order in the batch; within a group, which goes over
    partitions in the order of a hash table, any order will do. ``refused_by`` and ``passed`` are names of checks.
    """

    error: str = "NONE"
    response: dict[str, Any] | None = None
    records: list[list[Record]] = field(default_factory=list)
    annotations: dict[str, Any] = field(default_factory=dict)
    refused_by: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()

    def refuse(self, verdict: Any) -> bool:
        """Take over the verdict of the checks; whether they refuse."""
        self.error, self.refused_by, self.passed = verdict.answer, verdict.refused_by, verdict.passed
        return bool(verdict.answer != "NONE")

    @property
    def record_count(self) -> int:
        """How many records are appended."""
        return sum(len(group) for group in self.records)


def exception(error: str) -> dict[str, str]:
    """How the recorder writes an error of a whole request: the exception's name is the error's."""
    return {"exception": "".join(w.capitalize() for w in error.split("_")) + "Exception", "message": ANY_TEXT}
