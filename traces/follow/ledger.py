"""The incidents of a reading of the metadata log: which are open, and which have ended.

After each batch of the log, the ledger examines the partitions that have new findings or an open incident. So without
brokers' logs, the result does not depend on when the log was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from highwater.traces.reports.findings import Finding
from highwater.traces.reports.incidents import LOST, UNCLEAN, WITHIN_MS, Incident
from highwater.traces.reports.observed import Controllers, FinalState, PartitionState

MAX_OPEN = 10_000
"""The most incidents in ``Ledger.open``; further ones are left out. Also the most ended incidents that are kept."""
MAX_FINDINGS = 100
"""The most findings kept of a partition; older ones are dropped."""
_ELECTIONS = frozenset({"leader_completeness", "leader_elected_cleanly"})


@dataclass(frozen=True)
class PartitionNow:
    """The present state of a partition, according to the part of the metadata log that was read.

    ``failing`` names the properties that do not hold or may not hold. ``final`` is None if the partition has a leader
    and nothing fails. A partition is whole if it has a leader, and all replicas are in the ISR. ``whole_at`` has offset
    and time of the last change before or after which the partition was whole; (-1, -1) if there is none.
    """

    state: PartitionState
    failing: tuple[str, ...]
    final: FinalState | None
    whole_at: tuple[int, int] = (-1, -1)

    def was_whole_after(self, incident: Incident) -> bool:
        """True if the partition was whole at some time after an incident.

        The present state alone does not show this if brokers' logs reveal the incident late.
        """
        offset, time = self.whole_at
        if "offset" in incident.position:
            return bool(incident.position["offset"] < offset)
        return incident.time is not None and incident.time < time


class IncidentMaker(Protocol):
    """Calls ``incidents`` with the profile and the brokers' logs of the reading."""

    def __call__(
        self, findings: Iterable[Finding], controllers: Controllers, *, final: Mapping[str, FinalState]
    ) -> list[Incident]:
        """The incidents of these findings and elections."""


class Ledger:
    """The open incidents by id, and the findings from which they are made."""

    def __init__(self) -> None:
        self.open: dict[str, Incident] = {}
        self.ended: dict[str, Incident] = {}
        """The incidents that ended, by id; the caller empties it."""
        self.is_full = False
        """True if an incident was left out because MAX_OPEN incidents were open."""
        self.elections = 0
        """The number of controller elections examined so far."""
        self._findings: dict[str, list[Finding]] = {}
        self._severities: dict[str, str] = {}  # of ended incidents, by id

    @property
    def partitions(self) -> set[str]:
        """The partitions with an open incident."""
        return {one.partition for one in self.open.values() if one.partition is not None}

    def take(self, found: Iterable[Finding]) -> set[str]:
        """Store the findings that have a partition and facts. Returns the names of the findings' partitions."""
        touched = set()
        for finding in found:
            if finding.partition is None or not finding.facts:
                continue
            kept = self._findings.setdefault(finding.partition, [])
            kept.append(finding)
            del kept[:-MAX_FINDINGS]
            touched.add(finding.partition)
        return touched

    def complete(self, partition: str, offset: int, held: Mapping[str, int]) -> bool:
        """Note that the leader elected at ``offset`` had every committed record, according to the brokers' logs.

        ``held`` has the leader's LEO and the HWM. Returns True if the partition has findings, even if they are about
        other elections.
        """
        kept = self._findings.get(partition, [])
        for place, found in enumerate(kept):
            if found.position.get("offset") == offset and found.facts.get("complete") != held:
                kept[place] = replace(found, facts={**found.facts, "complete": dict(held)})
        return bool(kept)

    def look(self, partition: str, now: PartitionNow | None, make: IncidentMaker) -> None:
        """Update the incidents of one partition. ``now`` is None if the partition was deleted.

        Once no incident of the partition is open, its findings are dropped.
        """
        final = {partition: now.final} if now is not None and now.final is not None else {}
        made = make(self._findings.get(partition, []), Controllers(), final=final)
        for one in made:
            self._place(one, _is_over(one, now))
        ids = {one.id for one in made}
        for one in [o for o in self.open.values() if o.partition == partition and o.id not in ids]:
            self._place(one, True)  # it continues as another incident
        if partition not in self.partitions:
            self._findings.pop(partition, None)

    def look_at_controllers(self, controllers: Controllers, time: int, make: IncidentMaker) -> None:
        """Update the incident about repeated controller elections. ``time`` is that of the last record."""
        elections = controllers.elections
        known = [one for one in self.open.values() if one.partition is None]
        if len(elections) == self.elections and not known:
            return
        self.elections = len(elections)
        findings = (f for kept in self._findings.values() for f in kept)
        blamed = [f for f in findings if f.property == "every_broker_comes_back"]
        series = [one for one in make(blamed, controllers, final={}) if one.partition is None]
        is_over = not elections or time - elections[-1][2] > WITHIN_MS
        for one in [*known, *series]:
            self._place(one, is_over or one.id != series[-1].id)

    def _place(self, one: Incident, is_over: bool) -> None:
        """Store an incident as open or ended.

        An incident that has ended stays so. But if new evidence shows that it is a loss, it is stored again.
        """
        severity = self._severities.get(one.id)
        if severity is not None and not one.severity == LOST != severity:
            return
        if is_over:
            self.open.pop(one.id, None)
            self.ended[one.id], self._severities[one.id] = one, one.severity
            for kept in (self.ended, self._severities):
                if len(kept) > MAX_OPEN:
                    del kept[next(iter(kept))]
        elif one.id in self.open or len(self.open) < MAX_OPEN:
            self.ended.pop(one.id, None)
            self.open[one.id] = one
        else:
            self.is_full = True


def _is_over(incident: Incident, now: PartitionNow | None) -> bool:
    """True if an incident has ended; every incident ends when its partition is deleted (``now`` None).

    An incident about lost records or an election ends when the partition is whole. Any other incident ends when the
    partition has a leader and none of the incident's broken properties fails. An incident that only brokers' logs show
    also ends when the partition is whole.
    """
    if now is None:
        return True
    if incident.severity in (LOST, UNCLEAN) or not _ELECTIONS.isdisjoint(incident.broken):
        return now.state.is_whole or now.was_whole_after(incident)
    if "offset" not in incident.position and now.was_whole_after(incident):
        return True
    return now.state.leader is not None and set(incident.broken).isdisjoint(now.failing)
