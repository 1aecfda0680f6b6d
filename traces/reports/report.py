"""The report: what a replay found, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from highwater.model.versions import versions
from highwater.traces.reports.findings import LIMIT, Damage, Doubt, Finding, Unexplained, as_json
from highwater.traces.reports.incidents import Incident, incidents
from highwater.traces.reports.observed import (
    Controllers,
    Course,
    FinalState,
    PartitionChange,
    ReplicaEnd,
    SettingInForce,
    ShownMessage,
)
from highwater.traces.reports.summary import summary

LIMIT_CHANGES = 500
"""So many changes of a partition are kept for its timeline."""
_WRITTEN = (
    "input", "kind", "profile", "rules", "operations", "records", "partitions", "changes", "skipped", "unexplained",
    "unexplained_count", "incidents", "final", "logs", "controllers", "findings", "findings_count", "unreliable_count",
    "doubts", "damage", "notes", "figures", "interrupted",
)  # fmt: skip
"""What JSON has, in its order, before the seconds and the versions."""


@dataclass
class Timeline:
    """What happened to one partition, in order: at most ``LIMIT_CHANGES`` changes, and how many there were."""

    partition: str
    changes: list[PartitionChange] = field(default_factory=list)
    total: int = 0
    settings: list[SettingInForce] = field(default_factory=list)
    """Changes of settings while it is there, at most ``LIMIT_CHANGES``."""
    courses: list[Course] = field(default_factory=list)
    """HWM and LEO of each broker, where brokers' logs are there."""
    messages: list[ShownMessage] = field(default_factory=list)
    """What was sent about it, around what happened, where request logs are there."""

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "partition": self.partition,
            "total": self.total,
            "changes": [c.to_json() for c in self.changes],
        }


@dataclass
class Report:
    """What the replay of one input found.

    ``operations`` counts lines, ``records`` the metadata records in them, ``changes`` those that change a
    partition. ``unexplained_count`` counts all lines that nothing explains, of which ``unexplained`` holds the
    first; so do ``findings_count``, by the name of the property, and ``findings``. Of both, ``unreliable_count`` are
    behind a doubt. ``doubts`` say what is not known, ``damage`` where the input could not be read any further.
    ``notes`` are about the
    input itself, such as a torn last batch. ``timelines`` are kept where they were asked for. ``figures`` are
    totals by name, such as milliseconds under min ISR. ``final`` has the partitions that
    are offline at the end, or break a promise then; ``logs`` the ends of the replicas' logs of partitions that are
    offline or have findings. Of how much of the input was read, ``bytes_total`` is 0 where
    it is not known. ``interrupted`` is set where the replay was stopped
    before the end.
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
    findings: list[Finding] = field(default_factory=list)
    findings_count: dict[str, int] = field(default_factory=dict)
    unreliable_count: int = 0
    doubts: list[Doubt] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    final: dict[str, FinalState] = field(default_factory=dict)
    logs: dict[str, list[ReplicaEnd]] = field(default_factory=dict)
    controllers: Controllers = field(default_factory=Controllers)
    timelines: dict[str, Timeline] = field(default_factory=dict)
    seconds: float = 0.0
    bytes_read: int = 0
    bytes_total: int = 0
    interrupted: bool = False

    @property
    def explained(self) -> bool:
        """Whether the model explains all of the input: nothing is left over, unknown or damaged."""
        told = self.unexplained_count or self.findings_count
        return not told and not self.doubts and not self.damage

    @property
    def is_violated(self) -> bool:
        """Whether something is not explained, or was found, that is reliable."""
        return self.unexplained_count + sum(self.findings_count.values()) > self.unreliable_count

    @property
    def incidents(self) -> list[Incident]:
        """What a partition's owner has to know: findings that belong together, told once, the worst first."""
        return incidents(self)

    @property
    def offline(self) -> list[FinalState]:
        """The partitions without a leader at the end of the input, by name."""
        return [one for _, one in sorted(self.final.items()) if one.is_offline]

    def is_doubted(self, partition: str | None) -> bool:
        """Whether there is a doubt about a partition, wherever it begins."""
        return any(d.partitions is None or partition in d.partitions for d in self.doubts)

    def __str__(self) -> str:
        """What the command line says: what matters first, a screenful at most."""
        return "\n".join(summary(self))

    def _repr_html_(self) -> str:
        """For notebooks."""
        return f"<pre>{escape(str(self))}</pre>"

    def add(self, line: Unexplained) -> None:
        """Count a line that nothing explains, and keep it up to the limit."""
        self.unexplained_count += 1
        self.unreliable_count += not line.reliable
        if len(self.unexplained) < LIMIT:
            self.unexplained.append(line)

    def find(self, finding: Finding) -> None:
        """Count a finding, and keep it up to the limit for its property."""
        count = self.findings_count.get(finding.property, 0)
        self.findings_count[finding.property] = count + 1
        self.unreliable_count += not finding.reliable
        if count < LIMIT:
            self.findings.append(finding)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Report:
        """From JSON, which has no timelines and does not say how much of the input was read."""
        found = cls(**{name: data[name] for name in _WRITTEN if name != "incidents"}, seconds=data["seconds"])
        found.rules = tuple(found.rules)
        found.unexplained = [Unexplained.from_json(u) for u in data["unexplained"]]
        found.findings = [Finding(**f) for f in data["findings"]]
        found.doubts = [Doubt.from_json(d) for d in data["doubts"]]
        found.damage = [Damage(**d) for d in data["damage"]]
        found.final = {name: FinalState.from_json(one) for name, one in data["final"].items()}
        found.logs = {name: [ReplicaEnd.from_json(e) for e in ends] for name, ends in data["logs"].items()}
        found.controllers = Controllers.from_json(data["controllers"])
        return found

    def to_json(self) -> dict[str, Any]:
        """As JSON, in the form of the command line's contract."""
        written = {name: as_json(getattr(self, name)) for name in _WRITTEN}
        for name in ("final", "logs"):
            written[name] = {partition: as_json(one) for partition, one in written[name].items()}
        return {**written, "seconds": round(self.seconds, 3), "versions": versions("report")}
