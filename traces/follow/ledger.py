"""The open incidents, and the events that report when an incident is opened, changed or closed.

After each batch of the metadata log, the ledger examines the partitions that have new findings or an open incident.
So without brokers' logs the events do not depend on when the log was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from highwater.traces.reports.findings import Finding
from highwater.traces.reports.incidents import (
    AT_RISK,
    LOST,
    UNCLEAN,
    WITHIN_MS,
    Incident,
    incidents,
)
from highwater.traces.reports.observed import Controllers, FinalState, PartitionState, ReplicaEnd

OPENED, CHANGED, CLOSED = "opened", "changed", "closed"
MAX_OPEN = 10_000
"""The most incidents in ``Ledger.open``; further ones are left out. Also the most in ``Ledger.settled``."""
MAX_FINDINGS = 100
"""The most findings kept of a partition; older ones are dropped."""
_ELECTIONS = frozenset({"leader_completeness", "leader_elected_cleanly"})
_SHOWN = (
    "severity",
    "headline",
    "cause",
    "holders",
    "steps",
    "lost",
    "standing",
    "certain",
    "reliable",
    "broken",
)
"""If one of these fields of an open incident changes, the ledger makes a CHANGED event."""


@dataclass(frozen=True)
class IncidentEvent:
    """An event about an incident: it was opened, changed or closed.

    ``seq`` numbers the events from 1. ``offset`` and ``time`` describe the last record read: its offset in the
    metadata log (-1 before the first record), and its append time in ms since the epoch. ``why`` is empty, except in a
    closing event whose reason is not the partition's state: then it is the reason.
    """

    seq: int
    event: str
    offset: int
    time: int
    incident: Mapping[str, Any]
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """The event as plain data for JSON, without an empty ``why``."""
        told = {"seq": self.seq, "event": self.event, "offset": self.offset, "time": self.time}
        return {**told, **({"why": self.why} if self.why else {}), "incident": dict(self.incident)}


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


@dataclass
class Open:
    """An open incident as its last event described it.

    ``inherited`` is true if the incident was reported before the log was read again, and was not found in the records
    read since. ``since`` is the offset after which it was opened.
    """

    incident: Mapping[str, Any]
    inherited: bool = False
    since: int = -1


class Reread(NamedTuple):
    """A second reading of the log.

    ``why`` is the reason, "" after a restart. The first reading did not reach the offset ``new_from`` or, if
    ``differs``, found other records from there on. ``is_other``: the whole log is another one.
    """

    why: str
    new_from: int
    differs: bool = False
    is_other: bool = False


@dataclass
class IncidentContext:
    """The arguments of ``incidents`` besides the findings and the final states."""

    profile: str = ""
    has_elr: bool = True
    has_logs: bool = False
    controllers: Controllers = field(default_factory=Controllers)
    logs: Mapping[str, list[ReplicaEnd]] = field(default_factory=dict)


class Ledger:
    """The open incidents by id, and the findings from which they are made."""

    def __init__(self, seq: int = 0, settled: dict[str, str] | None = None) -> None:
        self.seq = seq
        self.open: dict[str, Open] = {}
        self.reads_again = False
        """True while records are read again after their events were reported; ``adopt`` resets it."""
        self.settled = settled
        """The severities of the last closed incidents, by id; None without brokers' logs.

        Brokers' logs that are read again show these incidents again.
        """
        self._closed_again: dict[str, Open] = {}
        self._done: dict[str | None, dict[str, str]] = {}
        self.is_full = False
        """True if an incident was left out because MAX_OPEN incidents were open."""
        self._findings: dict[str, list[Finding]] = {}
        self.elections = 0
        """The number of controller elections examined so far."""

    @property
    def partitions(self) -> set[str]:
        """The partitions with an open incident."""
        return {name for one in self.open.values() if (name := one.incident["partition"]) is not None}

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

    def look(
        self, partition: str, now: PartitionNow | None, around: IncidentContext, offset: int, time: int
    ) -> list[IncidentEvent]:
        """Update the incidents of one partition; return the events, each with ``offset`` and ``time``.

        ``now`` is None if the partition was deleted. Once no incident of the partition is open, its findings are
        dropped.
        """
        findings = self._findings.get(partition, [])
        final = {partition: now.final} if now is not None and now.final is not None else {}
        made = incidents(
            findings,
            Controllers(),
            around.profile,
            final=final,
            logs=around.logs,
            has_elr=around.has_elr,
            has_logs=around.has_logs,
        )
        events = list(self._told(made, lambda one: _is_over(one, now), offset, time))
        ids = {one.id for one in made}
        for id, one in [(i, o) for i, o in self.open.items() if o.incident["partition"] == partition]:
            if id in ids:
                continue
            if not one.inherited:
                events.append(self._close(id, offset, time, f"continued as {made[-1].id}" if made else ""))
            elif now is None or now.state.is_whole:
                events.append(self._close(id, offset, time))
        if not self.reads_again or self.settled is None:  # the evidence of brokers' logs is read again last
            self._forget({partition} - self.partitions)
        return events

    def _forget(self, partitions: Iterable[str]) -> None:
        for partition in partitions:
            self._findings.pop(partition, None)
            self._done.pop(partition, None)

    def look_at_controllers(self, around: IncidentContext, offset: int, time: int) -> list[IncidentEvent]:
        """Update the incident about repeated controller elections; return its events."""
        elections = around.controllers.elections
        is_open = any(one.incident["partition"] is None for one in self.open.values())
        if len(elections) == self.elections and not is_open:
            return []
        self.elections = len(elections)
        blamed = [
            f for kept in self._findings.values() for f in kept if f.property == "every_broker_comes_back"
        ]
        made = [
            one
            for one in incidents(
                blamed, around.controllers, around.profile, final={}, logs={}, has_elr=True, has_logs=False
            )
            if one.partition is None
        ]
        over = not elections or time - elections[-1][2] > WITHIN_MS
        events = list(self._told(made[-1:], lambda one: over, offset, time))
        earlier, last = {one.id for one in made[:-1]}, {one.id for one in made[-1:]}
        for id in [id for id, one in self.open.items() if one.incident["partition"] is None]:
            if id in earlier or (over and id not in last):  # the log read now can begin after its elections
                events.append(self._close(id, offset, time))
        return events

    def adopt(
        self, before: Mapping[str, Open], offset: int, time: int, begun_at: int, reread: Reread
    ) -> list[IncidentEvent]:
        """End a second reading of the log: compare the incidents that it found with those open ``before`` it.

        Returns the events for the differences. ``begun_at`` is the offset at which the second reading began.

        - An incident that was not found again stays open as inherited. But it is closed if the reading has a reason
          (``reread.why``) and the incident's record was read again.
        - An incident that was not open before is reported, unless it was reported earlier. This holds even if it was
          opened and closed during the second reading.
        """
        told, self.open, self.reads_again = self.open, {}, False
        events: list[IncidentEvent] = []
        for id, one in before.items():
            if id in told:
                self.open[id] = one
                events += self._changed(id, told[id].incident, offset, time)
                continue
            position = one.incident["position"].get("offset", -1)
            self.open[id] = one
            if id in self._closed_again:
                events.append(self._close(id, offset, time))
            elif reread.why and (position >= begun_at or reread.is_other):
                events.append(self._close(id, offset, time, reread.why, is_gone=True))
            else:
                self.open[id] = Open(one.incident, True)
        for id, one in {**self._closed_again, **told}.items():
            if id not in before and self._is_new(id, one, id in told, reread):
                self.open[id] = one
                events.append(self._event(OPENED, offset, time, one.incident))
                if id not in told:
                    events.append(self._close(id, offset, time))
        self._closed_again.clear()
        self._forget(self._findings.keys() - self.partitions)
        return events

    def _is_new(self, id: str, one: Open, is_open: bool, reread: Reread) -> bool:
        """True if an incident that was not open before the second reading of the log must be reported.

        It was never reported, or it was closed without a loss and turns out to be a loss. ``is_open``: it is still open
        after the second reading.
        """
        settled = None if self.settled is None else self.settled.get(id)
        if settled is None:
            has_all = self.settled is not None and len(self.settled) < MAX_OPEN
            return is_open or has_all or one.since >= reread.new_from
        if one.incident["position"].get("offset", -1) >= reread.new_from or (is_open and reread.differs):
            return True
        return _is_worse(one.incident["severity"], settled)

    # --- events -----------------------------------------------------------------------------------

    def _told(
        self, made: Iterable[Incident], is_over: Any, offset: int, time: int
    ) -> Iterable[IncidentEvent]:
        for one in made:
            said = {**one.to_json(), "group": one.id}
            over = is_over(one)
            closed = self._done.get(one.partition, {}).get(one.id)
            if closed is None and self.settled is not None and not self.reads_again:
                closed = self.settled.get(one.id)
            if closed is not None and not _is_worse(one.severity, closed):
                continue  # reported before
            if one.id in self.open:
                yield from self._changed(one.id, said, offset, time)
            elif len(self.open) >= MAX_OPEN:
                self.is_full = True
                continue
            else:
                self.open[one.id] = Open(said, since=offset)
                yield self._event(OPENED, offset, time, said)
            if over:
                yield self._close(one.id, offset, time)

    def _changed(self, id: str, said: Mapping[str, Any], offset: int, time: int) -> Iterable[IncidentEvent]:
        known = self.open[id].incident
        if known["severity"] in (LOST, UNCLEAN) and said["severity"] == AT_RISK:
            return  # the lines that decided it are in rotated logs, which a restarted follower does not read
        # An event that an older version wrote can lack a field.
        if any(name not in known or known[name] != said[name] for name in _SHOWN):
            self.open[id] = Open(said, since=self.open[id].since)
            yield self._event(CHANGED, offset, time, said)

    def _close(
        self, id: str, offset: int, time: int, why: str = "", *, is_gone: bool = False
    ) -> IncidentEvent:
        """Close an incident. ``is_gone``: its record left the log, so a new incident can have the same id."""
        one = self.open.pop(id)
        said = one.incident
        if not is_gone:
            self._done.setdefault(said["partition"], {})[id] = said["severity"]
        if self.reads_again:
            self._closed_again[id] = one
        elif self.settled is not None and not is_gone:
            self.settled[id] = said["severity"]
            while len(self.settled) > MAX_OPEN:
                del self.settled[next(iter(self.settled))]
        return self._event(CLOSED, offset, time, said, why)

    def _event(
        self, what: str, offset: int, time: int, said: Mapping[str, Any], why: str = ""
    ) -> IncidentEvent:
        self.seq += 1
        return IncidentEvent(self.seq, what, offset, time, said, why)


def _is_worse(severity: str, closed: str) -> bool:
    """True if an incident that was closed without a loss turns out to be a loss, by new evidence."""
    return severity == LOST != closed


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
