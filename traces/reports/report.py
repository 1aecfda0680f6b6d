"""What a replay found, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from highwater.model.versions import versions
from highwater.traces.reading.errors import printable
from highwater.traces.reports.courses import Course
from highwater.traces.reports.observed import PartitionChange
from highwater.traces.reports.settings import SettingInForce

if TYPE_CHECKING:
    from highwater.traces.reports.incidents import Incident

LIMIT = 100
"""So many unexplained lines, and findings of a property, are reported in full; the rest are counted."""
LIMIT_CHANGES = 500
"""So many changes of a partition are kept for its timeline."""
DOUBTS = (
    "newer version", "unknown record", "unreadable version", "no rule", "undefined value", "not followed",
    "missing beginning", "missing records", "open transaction", "unknown operation",
)  # fmt: skip
"""The kinds of doubts. docs/replay.md says what each means."""


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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Candidate:
        """From JSON."""
        differences = {path: (d["model"], d["recorded"]) for path, d in data["differences"].items()}
        refused, passed = tuple(data["refused_by"]), tuple(data["passed"])
        return cls(data["action"], data["parameters"], refused, passed, differences)

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
    """A line that nothing explains: where it stands, what was before it, and what came near.

    ``reliable`` is false behind a doubt (``Report.doubts``): what is not known may explain it.
    """

    position: Mapping[str, Any]
    time: int | None
    partition: str | None
    before: Mapping[str, Any]
    candidates: tuple[Candidate, ...]
    reliable: bool = True

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Unexplained:
        """From JSON."""
        candidates = tuple(Candidate.from_json(c) for c in data["candidates"])
        return cls(
            data["position"], data["time"], data["partition"], data["before"], candidates, data["reliable"]
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "position": dict(self.position),
            "time": self.time,
            "partition": self.partition,
            "before": dict(self.before),
            "candidates": [c.to_json() for c in self.candidates],
            "reliable": self.reliable,
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


@dataclass(frozen=True)
class Finding:
    """A promise of the proposals that what was observed does not keep, whatever the profile allows.

    ``rule`` is the number of the rule and ``property`` the name of what should hold; ``kip`` where it is
    promised. ``position`` says where in the input, by the name of the position (``offset``, or ``file`` and
    ``line``); ``time`` is in ms since the epoch. ``at_risk`` says in words what could be lost or was.
    ``certain`` is false where it holds in some of the model's states that fit, and not in others. ``reliable`` is
    false behind a doubt (``Report.doubts``). ``facts`` are what the words say, and what was around it, as plain JSON
    values by name (docs/replay.md).
    """

    rule: str
    property: str
    partition: str | None
    position: Mapping[str, Any]
    time: int | None
    summary: str
    at_risk: str = ""
    kip: str = ""
    certain: bool = True
    reliable: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finding:
        """From JSON."""
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "rule": self.rule,
            "property": self.property,
            "partition": self.partition,
            "position": dict(self.position),
            "time": self.time,
            "summary": self.summary,
            "at_risk": self.at_risk,
            "kip": self.kip,
            "certain": self.certain,
            "reliable": self.reliable,
            "facts": dict(self.facts),
        }


@dataclass(frozen=True)
class Doubt:
    """Something in the input that is not known: what is said of its partitions behind it is not reliable.

    ``kind`` is one of ``DOUBTS``, ``position`` that of the first place. ``partitions`` are those concerned by name,
    None where it is all of them.
    """

    kind: str
    summary: str
    position: Mapping[str, int]
    partitions: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Doubt:
        """From JSON, which has the first partitions only."""
        named = data["partitions"]
        partitions = None if named is None else tuple(named)
        return cls(data["kind"], data["summary"], data["position"], partitions)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "kind": self.kind,
            "summary": self.summary,
            "position": dict(self.position),
            "partitions": None if self.partitions is None else list(self.partitions[:LIMIT]),
        }


@dataclass(frozen=True)
class Damage:
    """Where an input could not be read any further; what stands before it was replayed.

    ``position`` has the file, and the byte or the line where that is known. ``offset`` is the first that was not
    replayed; ``bytes_lost`` of the file (None: not known) and ``segments_lost`` behind it were not read.
    """

    message: str
    position: Mapping[str, Any]
    offset: int
    bytes_lost: int | None = None
    segments_lost: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Damage:
        """From JSON."""
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "message": self.message,
            "position": dict(self.position),
            "offset": self.offset,
            "bytes_lost": self.bytes_lost,
            "segments_lost": self.segments_lost,
        }


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
    totals by name, such as milliseconds under min ISR. Of how much of the input was read, ``bytes_total`` is 0 where
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
        from highwater.traces.reports.incidents import incidents

        return incidents(self)

    def is_doubted(self, partition: str | None) -> bool:
        """Whether there is a doubt about a partition, wherever it begins."""
        return any(d.partitions is None or partition in d.partitions for d in self.doubts)

    def __str__(self) -> str:
        """What the command line says: what matters first, a screenful at most."""
        from highwater.traces.reports.summary import summary

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
        found = cls(data["input"], data["kind"], data["profile"], tuple(data["rules"]))
        for name in ("operations", "records", "partitions", "changes", "skipped", "unexplained_count",
                     "findings_count", "unreliable_count", "notes", "figures", "interrupted", "seconds"):  # fmt: skip
            setattr(found, name, data[name])
        found.unexplained = [Unexplained.from_json(u) for u in data["unexplained"]]
        found.findings = [Finding.from_json(f) for f in data["findings"]]
        found.doubts = [Doubt.from_json(d) for d in data["doubts"]]
        found.damage = [Damage.from_json(d) for d in data["damage"]]
        return found

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
            "incidents": [i.to_json() for i in self.incidents],
            "findings": [f.to_json() for f in self.findings],
            "findings_count": dict(self.findings_count),
            "unreliable_count": self.unreliable_count,
            "doubts": [d.to_json() for d in self.doubts],
            "damage": [d.to_json() for d in self.damage],
            "notes": list(self.notes),
            "figures": dict(self.figures),
            "interrupted": self.interrupted,
            "seconds": round(self.seconds, 3),
            "versions": versions("report"),
        }


__all__ = [
    "DOUBTS", "LIMIT", "LIMIT_CHANGES", "Candidate", "Damage", "Doubt", "Finding", "Report", "Timeline", "Unexplained",
]  # fmt: skip
