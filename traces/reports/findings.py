"""The entries of a report: violations, lines that do not conform, gaps in the input, and damage of the input."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

LIMIT = 100
"""A report lists at most this many nonconforming lines, and as many findings of each property; it counts the rest."""
DOUBTS = (
    "newer version", "unknown record", "unreadable version", "no rule", "undefined value", "not followed",
    "missing beginning", "missing records", "open transaction", "clocks", "damaged file",
    "unread lines", "migration", "copies differ",
)  # fmt: skip
"""The kinds of gaps in an input (``Doubt.kind``), described in docs/replay-reference.md."""


def as_json(value: Any) -> Any:
    """A value as plain data for JSON.

    ``to_json`` is called if the value has this method. Other dataclasses are converted field by field.
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {name: as_json(item) for name, item in vars(value).items()}
    if isinstance(value, Mapping):
        return dict(value)
    return [as_json(item) for item in value] if isinstance(value, tuple | list) else value


class Reported:
    """Base of the dataclasses whose JSON has the fields of the class, in order."""

    def to_json(self) -> dict[str, Any]:
        """This object as plain data for JSON."""
        return {name: as_json(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Candidate(Reported):
    """A step of the model that comes close to a recorded line, but differs from it.

    ``refused_by`` and ``passed`` are names of checks. ``differences`` maps the path of a field to a pair: the model's
    value and the recorded one.
    """

    action: str
    parameters: Mapping[str, Any]
    refused_by: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    differences: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The candidate as plain data for JSON."""
        return {
            **super().to_json(),
            "differences": {
                path: {"model": as_json(model), "recorded": as_json(recorded)}
                for path, (model, recorded) in self.differences.items()
            },
        }


@dataclass(frozen=True)
class Unexplained(Reported):
    """A line that no step of the model explains, with the state before the line and the closest steps.

    ``reliable`` is False after a gap in the input (``Report.doubts``), because missing data may explain the line.
    """

    position: Mapping[str, Any]
    time: int | None
    partition: str | None
    before: Mapping[str, Any]
    candidates: tuple[Candidate, ...]
    reliable: bool = True


@dataclass(frozen=True)
class Finding(Reported):
    """A violated property of the proposals, reported even if the profile's rules allow the violation.

    - ``rule`` is the rule number, ``kip`` the proposal that promises the property.
    - ``position`` is the place in the input by named parts, such as ``offset``, or ``file`` and ``line``.
    - ``time`` is in ms since the epoch. ``at_risk`` describes the possible or actual loss.
    - ``certain`` is False if only some of the model's states that fit the input violate the property.
    - ``reliable`` is False after a gap in the input (``Report.doubts``).
    - ``facts`` has the summary's contents and the surrounding state as JSON values (docs/replay-reference.md).
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


@dataclass(frozen=True)
class Doubt(Reported):
    """A gap in the input, which makes later results about some partitions unreliable.

    ``kind`` is one of ``DOUBTS``. ``position`` is the first place of the gap. ``partitions`` has the names of the
    partitions concerned; None if all are.
    """

    kind: str
    summary: str
    position: Mapping[str, int]
    partitions: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """The gap as plain data for JSON, with at most LIMIT partitions."""
        first = None if self.partitions is None else list(self.partitions[:LIMIT])
        return {**super().to_json(), "partitions": first}


@dataclass(frozen=True)
class Damage(Reported):
    """The place after which an input could not be read; everything before it was replayed.

    ``position`` has the file, and the byte or the line if known. ``offset`` is the first offset that was not
    replayed. ``bytes_lost`` is the number of unread bytes of the file, None if unknown. ``segments_lost`` is the
    number of later segments, which were not read.
    """

    message: str
    position: Mapping[str, Any]
    offset: int
    bytes_lost: int | None = None
    segments_lost: int = 0


# Known defects of Kafka that cause incidents. The texts are in ``known.toml``.

_FILE = Path(__file__).with_name("known.toml")
_PAGE, _PROFILES = "docs/kafka.md", ("kafka_4_0", "kafka_4_2", "kafka_4_3")
"""The page with the known defects, and the profiles in whose logs they can be found."""
_ISSUES = "https://issues.apache.org/jira/browse/"


@dataclass(frozen=True)
class Defect:
    """A known defect of Kafka: its entry's anchor on ``_PAGE``, the entry's first sentence, and upstream issues.

    ``on`` and ``off`` are the rules that close it: switched on, and switched off.
    """

    anchor: str
    title: str
    upstream: tuple[str, ...]
    on: frozenset[str]
    off: frozenset[str]

    @property
    def entry(self) -> str:
        """The address of the entry, in the repository."""
        return f"{_PAGE}#{self.anchor}"

    def to_json(self) -> dict[str, Any]:
        """The defect as plain data for JSON; each upstream issue comes with its link."""
        links = [{"issue": issue, "link": _ISSUES + issue} for issue in self.upstream]
        return {"entry": self.entry, "title": self.title, "upstream": links}


def _cleared(f: Finding) -> bool:
    """True if a change of min.insync.replicas cleared ELR or last known ELR of a partition without leader and ISR."""
    before = f.facts["before"]
    had = before["elr"] or before["last_known_elr"]
    is_alone = before["leader"] is None and not before["isr"]
    return (
        f.property == "somebody_is_electable"
        and f.facts["cause"] == "change_min_isr"
        and is_alone
        and bool(had)
    )


def _outlives(f: Finding) -> bool:
    """True if a reassignment, or its cancellation, removed replicas that are still in the ELR."""
    before, after = f.facts["before"], f.facts["after"]
    gone = set(after["elr"]) - set(after["replicas"])
    return f.property == "elr_within_replicas" and bool(gone) and gone <= set(before["replicas"])


def _came_back(f: Finding) -> bool:
    """True if one change added an ELR member to the replicas and elected it."""
    before, leader = f.facts["before"], f.facts["after"]["leader"]
    was_elected = leader in before["elr"] and leader not in before["replicas"]
    return f.property == "leader_completeness" and was_elected


def _is_nobody(f: Finding) -> bool:
    return f.property == "last_known_leader_is_a_broker"


CONDITIONS: dict[str, Callable[[Finding], bool]] = {
    "cleared-elr": _cleared,
    "reassignment-loss": _came_back,
    "reassignment": _outlives,
    "forgotten-leader": _is_nobody,
}
"""By defect name: the condition under which a finding shows the defect."""


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def defects() -> Mapping[str, Defect]:
    """All known defects by name."""
    return {
        name: Defect(name, d["title"], tuple(d["upstream"]), frozenset(d["on"]), frozenset(d["off"]))
        for name, d in _words()["defect"].items()
    }


def known_defects(profile: str, findings: Iterable[Finding]) -> tuple[Defect, ...]:
    """The known defects that findings show; empty if the profile has no catalogue of defects.

    Only findings that are both ``certain`` and ``reliable`` count.
    """
    if profile not in _PROFILES:
        return ()
    sure = [f for f in findings if f.certain and f.reliable and "before" in f.facts]
    return tuple(defects()[name] for name, holds in CONDITIONS.items() if any(holds(f) for f in sure))
