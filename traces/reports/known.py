"""Which known defect an incident is, where the log decides it. The words are in ``known.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from highwater.traces.reports.findings import Finding

_FILE = Path(__file__).with_name("known.toml")
_PAGES = {"kafka_4_2": "4.2", "kafka_trunk_2024_10": "trunk"}
"""Profiles of versions with a catalogue of defects."""
_ISSUES = "https://issues.apache.org/jira/browse/"


@dataclass(frozen=True)
class Defect:
    """An entry of a page in docs/, with its first sentence, and the upstream threads that it names."""

    page: str
    anchor: str
    title: str
    upstream: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON; each upstream issue with its address."""
        links = [{"issue": issue, "link": _ISSUES + issue} for issue in self.upstream]
        return {"entry": f"docs/{self.page}#{self.anchor}", "title": self.title, "upstream": links}


def _changed_min_isr(f: Finding) -> bool:
    return bool(f.facts["cause"] == "change_min_isr")


def _cleared(f: Finding) -> bool:
    """A change of min.insync.replicas took away all that a partition without leader and ISR had."""
    before = f.facts["before"]
    had = before["elr"] or before["last_known_elr"]
    is_alone = before["leader"] is None and not before["isr"]
    return f.property == "somebody_is_electable" and _changed_min_isr(f) and is_alone and bool(had)


def _stands(f: Finding) -> bool:
    """A lowered min.insync.replicas left the ELR as it was."""
    before, after = f.facts["before"], f.facts["after"]
    return f.property == "elr_only_under_min_isr" and _changed_min_isr(f) and before["elr"] == after["elr"]


def _outlives(f: Finding) -> bool:
    """A reassignment, or its cancellation, left brokers in the ELR that it took out of the replicas."""
    before, after = f.facts["before"], f.facts["after"]
    gone = set(after["elr"]) - set(after["replicas"])
    return f.property == "elr_within_replicas" and bool(gone) and gone <= set(before["replicas"])


def _came_back(f: Finding) -> bool:
    """A member of the ELR that was no replica is added, and elected in the same change."""
    before, leader = f.facts["before"], f.facts["after"]["leader"]
    was_elected = leader in before["elr"] and leader not in before["replicas"]
    return f.property == "leader_completeness" and was_elected


def _is_fenced(f: Finding) -> bool:
    """The last known leader was elected, and leads while it cannot."""
    return (
        f.property == "leader_is_active" and f.facts["after"]["leader"] in f.facts["before"]["last_known_elr"]
    )


def _is_nobody(f: Finding) -> bool:
    return f.property == "last_known_leader_is_a_broker"


CONDITIONS: dict[str, Callable[[Finding], bool]] = {
    "4.2/cleared-elr": _cleared,
    "4.2/reassignment-loss": _came_back,
    "4.2/reassignment": _outlives,
    "4.2/forgotten-leader": _is_nobody,
    "trunk/min-isr": _stands,
    "trunk/reassignment-loss": _came_back,
    "trunk/reassignment": _outlives,
    "trunk/fenced-leader": _is_fenced,
}
"""By the name of a defect, whether a finding of the metadata log, with its facts, is one."""


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def defects() -> Mapping[str, Defect]:
    """All known defects, by version and name."""
    return {
        name: Defect(d["page"], d["anchor"], d["title"], tuple(d["upstream"]))
        for name, d in _words()["defect"].items()
    }


def known_defects(profile: str, findings: Iterable[Finding]) -> tuple[Defect, ...]:
    """The defects that show in findings of a log that is held against a profile, where that is decided."""
    sure = [f for f in findings if f.certain and f.reliable and "before" in f.facts]
    version = _PAGES.get(profile)
    return tuple(
        defects()[name]
        for name, holds in CONDITIONS.items()
        if name.split("/")[0] == version and any(holds(f) for f in sure)
    )
