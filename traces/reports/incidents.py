"""Incidents: what of a report a partition's owner has to know, each told once.

Findings are made by different checks, each of one promise. One election that lost records breaks several of them: by
its leader's place outside ISR and ELR, by what the leader's log lacks, by the end of the log that consumers are shown
next. Here these are put together again, by their facts: the partition, the offset of the change, the leader epoch.
Findings without facts (recordings of a controller, runs of the model) are in no incident.

Everything comes from the report's findings, so a log that was replayed in shares has the same incidents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from highwater.traces.reports import incident_words as words
from highwater.traces.reports.findings import Finding, Reported
from highwater.traces.reports.known import Defect, known_defects, to_do

LOST, MAY_BE_LOST, CAN_BE_LOST = "lost", "may be lost", "can be lost"
NOBODY, NOTHING_LOST, OTHER = "nobody to elect", "nothing lost", "other"
KINDS = (LOST, MAY_BE_LOST, CAN_BE_LOST, NOBODY, NOTHING_LOST, OTHER)
"""What became of committed records, the worst first: some are lost; an election may have lost some; a later one can;
nobody can be elected without that; an unclean election lost none that the brokers' logs show; or it is about others."""

_AVAILABILITY = frozenset(
    {
        "every_broker_comes_back", "isr_members_are_eligible", "last_known_elr_is_not_electable",
        "last_known_leader_is_a_broker", "last_known_leader_only_without_leader", "leader_epoch_behind_partition_epoch",
        "leader_is_active", "reassignment_within_replicas",
    }
)  # fmt: skip
"""Properties that are not about who holds committed records."""


@dataclass
class Group:
    """The findings of one incident: ``before`` are those of an earlier change that led to its election."""

    partition: str
    findings: list[Finding] = field(default_factory=list)
    before: list[Finding] = field(default_factory=list)

    def of(self, *properties: str) -> Finding | None:
        """The first finding of one of these properties."""
        return next((f for f in self.findings if f.property in properties), None)

    def with_fact(self, name: str) -> Finding | None:
        """The first finding that has a fact."""
        return next((f for f in self.findings if name in f.facts), None)

    @property
    def head(self) -> Finding:
        """Where and when it happened: the finding of the metadata log, if there is one."""
        return next((f for f in self.findings if "offset" in f.position), self.findings[0])


@dataclass(frozen=True)
class Incident(Reported):
    """What happened to one partition, in a sentence, and what to do about it.

    ``kind`` is one of ``KINDS``. ``position`` and ``time`` (ms since the epoch) are those of the change that did it.
    ``lost`` is the number of committed records that the new leader lacked (``at_most``: or fewer), from offset
    ``first_lost`` on; None where it is not known. ``broken`` are the properties of its findings.
    """

    partition: str
    kind: str
    position: dict[str, Any]
    time: int | None
    sentence: str
    to_do: str
    defects: tuple[Defect, ...]
    lost: int | None
    first_lost: int | None
    at_most: bool
    leader_epoch: int | None
    broken: tuple[str, ...]
    certain: bool
    reliable: bool


def incidents(findings: Iterable[Finding], profile: str, has_logs: bool) -> list[Incident]:
    """The incidents in findings of a log that is held against a profile, the worst first, of a kind in order of time.

    ``has_logs``: the brokers' logs were there.
    """
    by_partition: dict[str, list[Finding]] = {}
    for found in findings:
        if found.partition is not None and found.facts:
            by_partition.setdefault(found.partition, []).append(found)
    made = [
        _incident(group, profile, has_logs)
        for name, of_partition in by_partition.items()
        for group in groups(name, of_partition)
    ]
    return sorted(made, key=_order)


def _order(incident: Incident) -> tuple[bool, int, int, str]:
    return not incident.certain, KINDS.index(incident.kind), incident.time or 0, incident.partition


def _elects(finding: Finding) -> bool:
    """Whether a finding is about one leader's election."""
    told = finding.property in ("leader_elected_cleanly", "leader_completeness")
    return told or not finding.facts.keys().isdisjoint({"lost", "gone", "shown"})


def groups(partition: str, findings: Iterable[Finding]) -> list[Group]:
    """A partition's findings, those of one incident together."""
    elections: dict[int, Group] = {}
    changes: dict[int, Group] = {}
    others: dict[tuple[str, int], Group] = {}
    rest: list[Finding] = []
    for found in findings:
        if _elects(found):
            group = elections.setdefault(found.facts["leader_epoch"], Group(partition))
            group.findings.append(found)
            if "offset" in found.position:
                changes.setdefault(found.position["offset"], group)
        else:
            rest.append(found)
    for found in rest:
        if "offset" in found.position:
            group = changes.setdefault(found.position["offset"], Group(partition))
        else:
            key = (found.property, found.facts.get("broker", -1))
            group = _of_member(found, changes) or others.setdefault(key, Group(partition))
        group.findings.append(found)
    all_groups = list({id(g): g for g in (*elections.values(), *changes.values(), *others.values())}.values())
    return list(_without_preludes(all_groups, elections))


def _of_member(found: Finding, changes: dict[int, Group]) -> Group | None:
    """The change that left a broker in the ELR, of which its own log says that it lacks something."""
    if found.facts.get("member_of") != "ELR":
        return None
    for offset in sorted((o for o in changes if o <= found.facts["offset"]), reverse=True):
        for change in changes[offset].findings:
            if found.facts["broker"] in change.facts.get("after", {}).get("elr", ()):
                return changes[offset]
    return None


def _without_preludes(all_groups: list[Group], elections: dict[int, Group]) -> Iterator[Group]:
    """Where nobody could be elected cleanly, and then somebody was elected uncleanly, that is one incident."""
    for group in all_groups:
        stuck = {f.property for f in group.findings} == {"somebody_is_electable"}
        election = elections.get(group.findings[0].facts["leader_epoch"] + 1) if stuck else None
        if election is None or election.of("leader_elected_cleanly") is None:
            yield group
        else:
            election.before += group.findings


def _kind(group: Group) -> str:
    if group.with_fact("lost"):
        return LOST
    election = group.of("leader_elected_cleanly", "leader_completeness")
    if election is not None:
        return NOTHING_LOST if "complete" in election.facts else MAY_BE_LOST
    if any(f.property not in _AVAILABILITY | {"somebody_is_electable"} for f in group.findings):
        return CAN_BE_LOST
    return NOBODY if group.of("somebody_is_electable") else OTHER


def _incident(group: Group, profile: str, has_logs: bool) -> Incident:
    kind, head, loss = _kind(group), group.head, group.with_fact("lost")
    known = {} if loss is None else loss.facts
    everything = [*group.findings, *group.before]
    return Incident(
        group.partition,
        kind,
        dict(head.position),
        head.time,
        _sentence(kind, group, has_logs),
        _advice(kind, group),
        known_defects(profile, everything),
        known.get("lost"),
        known.get("first_lost"),
        bool(known.get("at_most")),
        head.facts.get("leader_epoch"),
        tuple(dict.fromkeys(f.property for f in everything)),
        all(f.certain for f in group.findings) if kind in (CAN_BE_LOST, OTHER) else head.certain,
        all(f.reliable for f in everything),
    )


def _sentence(kind: str, group: Group, has_logs: bool) -> str:
    if kind == LOST:
        return words.lost(group)
    if kind in (MAY_BE_LOST, NOTHING_LOST):
        return words.elected(group, has_logs)
    if kind == NOBODY:
        return words.nobody(group)
    return words.broken(group)


def _advice(kind: str, group: Group) -> str:
    head = group.head
    if kind == LOST:
        configured = ["configured"] if words.is_configured(group) else []
        return to_do("gone" if group.with_fact("gone") else "lost", *configured)
    if kind == NOTHING_LOST:
        return to_do("whole")
    if kind == MAY_BE_LOST:
        return to_do("maybe", *(["configured"] if words.is_configured(group) else []))
    if kind == NOBODY:
        by_setting = head.facts.get("cause") == "change_min_isr"
        waits = "waits" if head.facts["after"]["last_known_elr"] else "stuck"
        return to_do(waits, *(["min_isr"] if by_setting else []))
    if group.of("elr_within_replicas"):
        return to_do("removed")
    return to_do("elr") if group.of("elr_only_under_min_isr", "electable_completeness") else ""
