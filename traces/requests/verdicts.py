"""What came of the messages: how many each action explains, what was guessed, what was outside, what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_origin

from msgspec import convert, to_builtins

from highwater.traces.reports.findings import Candidate, Finding, Unexplained
from highwater.traces.reports.report import Report
from highwater.traces.requests.lines import RequestLine

ANSWERED, REFUSED, DIVERGED = "answer_fetch", "refuse_fetch", "answer_fetch where logs diverge"
TAKEN, SENT = "take_fetch_answer", "send_fetch"
WRITTEN, ACKNOWLEDGED, NOT_WRITTEN = "write_acks_all", "acknowledge", "write refused"
PROPOSED, DECIDED = "propose_expand or propose_shrink", "handle_alter_partition"
REGISTERED = "start_broker"

Json = dict[str, Any]
"""An object of JSON, between two processes of one replay."""
_T = TypeVar("_T")
LIMIT = 1000
"""So many lines that are not explained are told, and so many findings."""


def to_json(value: object) -> Json:
    """A dataclass as JSON: what msgspec has no form of, paths, as text."""
    found: Json = to_builtins(value, str_keys=True, enc_hook=str)
    return found


def from_json(data: Json, kind: type[_T]) -> _T:
    """From JSON, with its types checked: a Counter from its counts, a path from its text."""
    return convert(data, kind, str_keys=True, dec_hook=_made)


def _made(kind: type, value: object) -> object:
    make: Callable[[object], object] = get_origin(kind) or kind
    return make(value)


@dataclass
class Verdicts:
    """Counts by name, and the lines that are told. ``dropped`` are those over a limit."""

    explained: Counter[str] = field(default_factory=Counter)
    guessed: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    unexplained: list[Unexplained] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unexplained_count: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    limit: int = field(default_factory=lambda: LIMIT)

    def not_explained(
        self,
        line: RequestLine,
        partition: str | None,
        action: str,
        refused_by: tuple[str, ...] = (),
        differences: Mapping[str, tuple[Any, Any]] | None = None,
        **parameters: object,
    ) -> None:
        """A message that nothing explains: the action that should have, and why it does not."""
        self.unexplained_count += 1
        if len(self.unexplained) < self.limit:
            candidate = Candidate(action, parameters, refused_by, (), differences or {})
            position = {"file": str(line.path), "line": line.line}
            self.unexplained.append(Unexplained(position, round(line.ended), partition, {}, (candidate,)))

    def found(self, finding: Finding) -> None:
        """A promise that is broken."""
        if len(self.findings) < self.limit:
            self.findings.append(finding)
        else:
            self.dropped[finding.property] += 1

    def tell_more(self, other: Verdicts, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Add the lines of others between two places: how many are not explained, and how many findings."""
        room = max(0, self.limit - len(self.unexplained))
        self.unexplained += other.unexplained[start[0] : end[0]][:room]
        for finding in other.findings[start[1] : end[1]]:
            self.found(finding)

    def count(self, other: Verdicts) -> None:
        """Add what others counted."""
        self.explained += other.explained
        self.guessed += other.guessed
        self.outside += other.outside
        self.dropped += other.dropped
        self.unexplained_count += other.unexplained_count

    def figures(self) -> dict[str, int]:
        """The counts by name, for a report."""
        kinds = (("explained", self.explained), ("guessed", self.guessed), ("outside", self.outside))
        totals = {f"messages {kind}": counted.total() for kind, counted in kinds}
        single = {
            f"messages {kind}: {n}": c for kind, counted in kinds for n, c in sorted(counted.items()) if c
        }
        return totals | single

    def tell(self, report: Report) -> None:
        """Add all of it to a report."""
        for line in self.unexplained:
            report.add(line)
        report.unexplained_count += self.unexplained_count - len(self.unexplained)
        for finding in self.findings:
            report.find(finding)
        for name, count in self.dropped.items():
            report.findings_count[name] = report.findings_count.get(name, 0) + count
        report.figures |= self.figures()
