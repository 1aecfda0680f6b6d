"""Detects lost committed records, and the violated properties, in brokers' logs or dumps of their data.

If two replicas' logs have the same leader epoch at an offset, they have the same records up to that offset (KIP-101).
If a new leader's log has another leader epoch at a committed record's offset, the record is lost, even if that log is
longer.

A dump does not show the HWM. Every member of the ISR holds the committed records (B4), and nothing is committed while
the ISR is under min ISR (966.1). So only records that all members of the last large enough ISR hold can have been
committed. If a leader begins without such records, a finding gives their number (``leader_completeness``).

Records that are missing from all dumps go unnoticed, so a dump must be older than the truncation to the new leader's
log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from highwater.invariants import statements
from highwater.traces.brokers.broker_view import BrokerView, Position, Stint
from highwater.traces.kafka.broker_log import BecameLeader, BrokerEvent, Truncating
from highwater.traces.kafka.data_logs import ReplicaLog
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.observed import (
    EMPTY,
    FROM_ELR,
    FROM_ISR,
    FROM_OUTSIDE,
    Json,
    LogTruncation,
    PartitionChange,
    ReplicaEnd,
)
from highwater.traces.reports.text import AT_LEAST, AT_MOST, EXACT, offsets, records
from highwater.traces.rules import profiles

# --- elections -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Epochs:
    """A partition's history in the metadata log: changes by partition epoch, elections by leader epoch.

    ``last_min_isr`` is the min ISR at the end of the log, None if unknown.
    """

    versions: dict[int, PartitionChange] = field(default_factory=dict)
    elections: dict[int, PartitionChange] = field(default_factory=dict)
    latest: int = -1
    is_deleted: bool = False
    last_min_isr: int | None = None
    changed: int | None = None
    """The metadata offset of the last change; None before the first."""
    in_sync: dict[int, list[int]] = field(default_factory=dict)
    """By broker: the leader epochs, ascending, in whose ISR the broker was while there was a leader."""
    settings: list[int] = field(default_factory=list)
    """The metadata offsets at which min.insync.replicas or unclean election changed, ascending.

    Only the first offset after each change of the partition: it decides whether a version is settled.
    """

    def min_isr(self, epoch: int) -> tuple[int | None, int | None]:
        """The smallest min ISR possible in a partition epoch, and the number of replicas; None for an unknown value.

        The setting can change without a change of the partition, so the previous and the next version count, too.
        """
        version = self.versions.get(epoch)
        if version is None:
            return None, None
        following = self.versions.get(epoch + 1)
        around = [version, self.versions.get(epoch - 1, version), following]
        found = [None if v is None else v.min_isr for v in around]
        if epoch == self.latest:
            found[2] = self.last_min_isr
        known = [v for v in found if v is not None]
        is_settled = self._is_settled(version, following)
        return min(known) if is_settled and len(known) == len(found) else None, len(version.state.replicas)

    def next_in_sync(self, broker: int, epoch: int, ahead_ms: int | None) -> tuple[int, int] | None:
        """The next leader epoch after ``epoch`` in whose ISR a broker was, and the local time of its election.

        ``ahead_ms`` is the lead of local times over UTC. None if it is unknown, or if there is no such epoch.
        """
        if ahead_ms is None:
            return None
        found = self.in_sync.get(broker, [])
        at = bisect_right(found, epoch)
        change = self.elections.get(found[at]) if at < len(found) else None
        return None if change is None else (found[at], change.time + ahead_ms)

    def _is_settled(self, version: PartitionChange, following: PartitionChange | None) -> bool:
        """True if no setting changed between two versions of the partition (None: the end of the log)."""
        at = bisect_left(self.settings, version.position)
        return at == len(self.settings) or (following is not None and self.settings[at] >= following.position)


def is_election(change: PartitionChange) -> bool:
    """True if a change of a partition elects a leader."""
    before, after = change.before, change.state
    return after.leader is not None and (before is None or before.leader_epoch != after.leader_epoch)


def elected_from(change: PartitionChange) -> str | None:
    """The set from which a change elected the leader: ISR, ELR, or neither. None for a new partition."""
    before, leader = change.before, change.state.leader
    if before is None:
        return None
    return FROM_ISR if leader in before.isr else FROM_ELR if leader in before.elr else FROM_OUTSIDE


# --- lineage ---------------------------------------------------------------------------------------------

MAX_SEGMENTS = 64
"""The most leader epochs stored of a log: the latest ones. Before them, logs are assumed to agree."""

Log = tuple[tuple[int, int], ...]
"""Pairs of leader epoch and start offset, ascending; the last epoch is open-ended."""


def cut(log: Log, end: int) -> Log:
    """The part of a log below the offset ``end``."""
    return tuple(segment for segment in log if segment[1] < end)


def extend(log: Log, epoch: int, start: int) -> Log:
    """A leader's log after it began to write in ``epoch`` at the offset ``start``."""
    return (*cut(log, start), (epoch, start))[-MAX_SEGMENTS:]


def _epoch_at(log: Log, offset: int) -> int | None:
    return next((epoch for epoch, start in reversed(log) if start <= offset), None)


def first_difference(log: Log | None, other: Log | None, end: int) -> int:
    """The first offset below ``end`` at which two logs are known to differ; ``end`` if there is none."""
    if log is None or other is None:
        return end
    for offset in sorted({start for _, start in (*log, *other)}):
        if offset >= end:
            break
        here, there = _epoch_at(log, offset), _epoch_at(other, offset)
        if here is not None and there is not None and here != there:
            return offset
    return end


class Lineage:
    """The log of each replica of a partition over time. Call ``starts`` for the leaders in the order of their epochs.

    A follower that has fetched from a leader has the leader's log up to the follower's LEO (B3). If a follower had no
    leader, or neither grew nor truncated its log, the follower's log is unchanged.

    ``known`` is the metadata log's history. If a broker's log shows nothing of an epoch with another leader, the broker
    was down, or lines are missing and its log is unknown. It was not down if it was in that epoch's ISR, or if it did
    not load its log later.
    """

    def __init__(self, views: dict[int, BrokerView], known: Epochs) -> None:
        self._views = views
        self._in_sync = known.in_sync
        self._elections = sorted((epoch, change.state.leader) for epoch, change in known.elections.items())
        self._next = dict.fromkeys(views, 0)
        self._own: dict[int, Log | None] = {}
        self._written: dict[int, Log | None] = {}
        self._positions: dict[int, Sequence[Position]] = {b: tuple(v.positions) for b, v in views.items()}

    def starts(self, broker: int, epoch: int, offset: int) -> Log | None:
        """Return the log with which a broker starts to lead in an epoch at LEO ``offset``; None if unknown."""
        positions = self._positions[broker]
        while self._next[broker] < len(positions):
            at = self._next[broker]
            position = positions[at]
            self._next[broker] += 1
            self._own[broker] = self._reach(broker, positions[at - 1] if at else None, position)
            if position.leads and (position.epoch, position.offset) == (epoch, offset):
                break
        else:
            return None
        log = self._own[broker]
        self._written[epoch] = None if log is None else extend(log, epoch, offset)
        self._own[broker] = self._written[epoch]
        return log

    def last_epoch(self, broker: int, end: int) -> int | None:
        """The leader epoch of the last record in a broker's log with LEO ``end``; None if unknown.

        Call it after ``starts`` was called for all leaders.
        """
        positions = self._positions[broker]
        for at in range(self._next[broker], len(positions)):
            self._own[broker] = self._reach(broker, positions[at - 1] if at else None, positions[at])
        self._next[broker] = len(positions)
        last = positions[-1] if positions else None
        log = self._own.get(broker)
        if last is not None and not last.leads and last.leader is not None and end > last.offset:
            log = self._written.get(last.epoch)
        return None if log is None else _epoch_at(log, end - 1)

    def written(self, epoch: int) -> Log | None:
        """The log of an epoch's leader, including the records that it wrote in the epoch; None if unknown."""
        return self._written.get(epoch)

    def _reach(self, broker: int, before: Position | None, now: Position) -> Log | None:
        """A broker's log at the position ``now``, derived from the position ``before``; None if unknown."""
        if now.offset == 0:
            return ()
        if before is None:
            return None
        in_sync, elections = self._in_sync.get(broker, []), self._elections
        if in_sync[bisect_right(in_sync, before.epoch) : bisect_left(in_sync, now.epoch)]:
            return None
        unseen = elections[bisect_left(elections, (before.epoch + 1,)) : bisect_left(elections, (now.epoch,))]
        if not now.restarted and any(leader != broker for _, leader in unseen):
            return None
        own = self._own.get(broker)
        if not before.leads and before.leader is not None:
            stayed = (
                now.offset == before.offset and not now.truncated and self._views[broker].tells_truncations
            )
            if not stayed:
                own = self._written.get(before.epoch)
        elif not before.leads and now.offset > before.offset:
            own = None
        return None if own is None else cut(own, now.offset)


# --- replica logs ----------------------------------------------------------------------------------------

Utc = Callable[[BrokerEvent], int | None]


def by_broker_logs(
    views: Mapping[int, BrokerView], lineage: Lineage, utc: Utc, known: Epochs
) -> Iterator[ReplicaEnd]:
    """The log end of each replica whose broker's log was read. Call it after ``Lineage.starts`` for all leaders.

    An end is exact only if the partition has had no leader since the broker's last line about its role. A log that the
    broker has set aside has an end of its own.
    """
    for broker, view in sorted(views.items()):
        end, aside = view.end, view.aside
        if aside is not None and aside.end is not None:
            leo, is_least, time = aside.end.offset, not aside.end.is_exact, utc(aside.end.event)
            moved = aside.directory, aside.is_deleted
            yield ReplicaEnd(broker, leo, is_least, None, time, aside.epoch, _truncations(view, utc), *moved)
        if end is None:
            continue
        epoch = view.positions[-1].epoch if view.positions else -1
        # A leader's line can be the only one about a follower's end.
        stints = [s for v in views.values() for s in v.stints if s.epoch >= epoch]
        if isinstance(end.event, Truncating):
            stints = stints[-1:]  # The leader may have restarted with a shorter log.
        heard = [s for s in stints if broker in s.leos]
        leo = end.offset
        is_exact = end.is_exact and not any(
            v.state.leader is not None for v in known.versions.values() if v.state.leader_epoch > epoch
        )
        if not is_exact:
            leo = max([leo, *(s.leos[broker] for s in heard)])
            epoch = max([epoch, *(s.epoch for s in heard)])
        yield ReplicaEnd(
            broker,
            leo,
            not is_exact,
            lineage.last_epoch(broker, leo) if leo else EMPTY,
            utc(end.event),
            epoch,
            _truncations(view, utc),
        )


def _truncations(view: BrokerView, utc: Utc) -> tuple[LogTruncation, ...]:
    return tuple(LogTruncation(event.offset, utc(event), followed) for followed, event in view.truncations)


def by_dumps(logs: Iterable[ReplicaLog]) -> Iterator[ReplicaEnd]:
    """The end of each dumped replica's log, at the time of the dump."""
    for log in logs:
        epoch = log.epochs[-1][0] if log.epochs else EMPTY
        yield ReplicaEnd(log.broker, log.end, False, epoch, None, epoch, (), log.directory)


def joined_ends(
    by_logs: Mapping[str, Sequence[ReplicaEnd]], by_dumps: Mapping[str, Sequence[ReplicaEnd]]
) -> dict[str, list[ReplicaEnd]]:
    """The ends of replicas' logs by partition, from brokers' logs and from dumps.

    A dump gives the end if the broker's log does not show it exactly, and the dump is not older than the broker's log.
    """
    joined = {}
    for name in {**by_logs, **by_dumps}:
        ends = {_place(end): end for end in by_logs.get(name, ())}
        for dumped in by_dumps.get(name, ()):
            ends[_place(dumped)] = _joined_end(ends.get(_place(dumped)), dumped)
        joined[name] = [end for _, end in sorted(ends.items())]
    return joined


def _place(end: ReplicaEnd) -> tuple[int, str]:
    """The broker, and the name of the directory of a log that is set aside."""
    return end.broker, PurePath(end.directory or "").name


def _joined_end(logged: ReplicaEnd | None, dumped: ReplicaEnd) -> ReplicaEnd:
    if logged is None:
        return dumped
    if (logged.last_epoch is not None and not logged.at_least) or _is_older(dumped, logged):
        return logged
    epoch = max(logged.leader_epoch, dumped.leader_epoch)
    return replace(dumped, leader_epoch=epoch, truncations=logged.truncations, directory=logged.directory)


def _is_older(dumped: ReplicaEnd, logged: ReplicaEnd) -> bool:
    """True if, by the broker's log, a dump lacks records that the broker had, or may have records that it truncated."""
    last = EMPTY if dumped.last_epoch is None else dumped.last_epoch
    lacks = logged.last_epoch is not None and (last, dumped.leo) < (logged.last_epoch, logged.leo)
    return lacks or any(cut.to < dumped.leo and last < cut.leader_epoch for cut in logged.truncations)


# --- losses ----------------------------------------------------------------------------------------------

KIP = "KIP-966"
"""The proposal that promises that no committed record is lost."""


@dataclass(frozen=True)
class Loss:
    """A loss: the leader of ``stint`` starts without the committed offsets from ``kept`` up to ``high`` (exclusive).

    The leader of the stint ``committed`` had moved its HWM to ``high``. ``earlier`` has all stints before ``stint``.
    ``is_compared`` is true if the logs of both leaders are known, so that the first difference is known, too.
    ``known`` is the partition's history in the metadata log. ``utc`` maps an event to its time in ms since the epoch,
    or to None if the time is unknown. ``line`` maps an event to its file and line.
    """

    name: str
    views: Mapping[int, BrokerView]
    earlier: list[Stint]
    stint: Stint
    start: BecameLeader
    committed: Stint
    kept: int
    high: int
    known: Epochs
    utc: Utc
    line: Callable[[BrokerEvent], str]
    is_compared: bool

    @property
    def is_again(self) -> bool:
        """True if the leader restarts within its leader epoch."""
        return bool(self.earlier) and self.earlier[-1].epoch == self.stint.epoch

    @property
    def version(self) -> PartitionChange | None:
        """The change that elected the leader; None if it restarts, or if the metadata log lacks the change."""
        return None if self.is_again else self.known.elections.get(self.stint.epoch)

    @property
    def source(self) -> str | None:
        """The set from which the leader was elected, as in ``elected_from``; None if unknown."""
        return None if self.version is None else elected_from(self.version)

    @property
    def _place(self) -> tuple[Json, int | None]:
        if self.version is None:
            return place(self.start), self.utc(self.start)
        return {"offset": self.version.position}, self.version.time

    @property
    def _lost(self) -> str:
        return records(self.kept, self.high)

    @property
    def _differs(self) -> str:
        return _diverges(self.start.start_offset, self.kept, self.high)

    def findings(self) -> Iterator[Finding]:
        """One finding for each property that this loss violates."""
        stint, views = self.stint, self.views
        held = [
            _held(views[b], b, stint.epoch, self.earlier, self.kept, self.high)
            for b in sorted(views)
            if b != stint.broker
        ]
        facts = self._facts([found for found in held if found is not None])
        yield self._leader_lacks(facts)
        yield from self._survive()
        if profiles.is_clean(in_isr=self.source == FROM_ISR, in_elr=self.source == FROM_ELR):
            yield self._was_electable(facts)
        if stint.visible is not None:
            yield self._was_shown(*stint.visible)

    def _facts(self, had: list[dict[str, Any]]) -> dict[str, Any]:
        stint, start = self.stint, self.start.start_offset
        return {
            **_facts_of(stint.broker, stint.epoch, self.source, start, self.kept, self.high),
            "restarted": self.is_again, "hwm": self.high, "hwm_broker": self.committed.broker,
            "hwm_epoch": self.committed.epoch, "had": had,
            "standing": EXACT if self.is_compared and self._most() == self.high else AT_LEAST,
        }  # fmt: skip

    def _most(self) -> int | None:
        """The highest offset up to which records can have been committed; None if unknown.

        The HWM waits for each ISR member, and does not move while the ISR is under min ISR (966.1). So it is the least
        LEO of the members of the last ISR that was large enough, as they began the leader epoch of the loss. A member
        whose log then ends below the HWM has lost records itself, and does not count.
        """
        if self.version is None:
            return None
        for epoch in range(self.version.state.partition_epoch - 1, -1, -1):
            before, (min_isr, _) = self.known.versions.get(epoch), self.known.min_isr(epoch)
            if before is None:
                return None
            if before.state.leader is None:  # then nothing is committed
                continue
            if min_isr is None:
                return None
            if profiles.hwm_stands_under_min_isr(isr_size=len(before.state.isr), min_isr=min_isr):
                ends = [_at(self.views[b], self.stint.epoch) for b in before.state.isr if b in self.views]
                return min((end for end in ends if end is not None and end >= self.high), default=None)
        return None

    def _leader_lacks(self, facts: Json) -> Finding:
        committed = self.committed
        where = "" if committed.reached is None else f" ({self.line(committed.reached)})"
        had = "; ".join(_had_in_words(held) for held in facts["had"])
        return _incomplete(
            self.name, *self._place, facts,
            f"in leader epoch {committed.epoch} the HWM of broker {committed.broker} had reached {self.high}{where}",
            f"{self._lost} are lost; " + (had or "no other broker is known to have had them"),
        )  # fmt: skip

    def _survive(self) -> Iterator[Finding]:
        """Report the lost records that no replica has any more, if the LEO of every replica is known."""
        if self.version is None:
            return
        longest = _longest(self.views, self.version.state.replicas, self.stint.broker, self.stint.epoch)
        if longest is None or profiles.is_held(end=max(self.kept, longest), hwm=self.high):
            return
        epoch, rest, high = self.stint.epoch, max(self.kept, longest), self.high
        yield Finding(
            statements.committed_records_survive.source, statements.committed_records_survive.name, self.name,
            *self._place,
            f"in leader epoch {epoch} no replica's log reached the HWM {high} that broker "
            f"{self.committed.broker} had reached in leader epoch {self.committed.epoch}",
            f"no replica has {records(rest, high)} any more", KIP,
            facts={"leader_epoch": epoch, "gone": high - rest, "first_gone": rest, "end_gone": high},
        )  # fmt: skip

    def _was_electable(self, facts: Json) -> Finding:
        source = self.source
        return Finding(
            "966.6" if source == FROM_ELR else "B4", statements.electable_completeness.name, self.name, *self._place,
            f"broker {self.stint.broker} was elected from {source} for leader epoch {self.stint.epoch} with LEO "
            f"{self.start.start_offset}, without all that was committed up to the HWM {self.high}",
            self._lost, KIP, facts=facts,
        )  # fmt: skip

    def _was_shown(self, shown: int, event: BrokerEvent) -> Finding:
        epoch, kept, high = self.stint.epoch, self.kept, self.high
        return Finding(
            statements.consumers_read_consistently.source, statements.consumers_read_consistently.name, self.name,
            place(event), self.utc(event),
            f"consumers were shown the HWM {high} in leader epoch {self.committed.epoch}, and {shown} in leader "
            f"epoch {epoch}{self._differs}",
            f"consumers that read offsets {offsets(kept, high)} are out of range or continue with other records",
            KIP, facts={"leader_epoch": epoch, "shown_before": high, "shown": shown},
        )  # fmt: skip


def _at(view: BrokerView, epoch: int) -> int | None:
    """A broker's LEO when it first led or followed at or after a leader epoch; None if unknown."""
    return next((p.offset for p in view.positions if p.epoch >= epoch), None)


def _kept(view: BrokerView, epoch: int) -> tuple[int | None, bool]:
    """As ``_at``, and whether the LEO is exact. The end of a log that the broker set aside counts if it is higher."""
    own, aside = _at(view, epoch), view.aside
    end = None if aside is None or aside.epoch >= epoch else aside.end
    if end is None or (own is not None and own >= end.offset):
        return own, own is not None
    return end.offset, end.is_exact


def _longest(
    views: Mapping[int, BrokerView], replicas: tuple[int, ...], leader: int, epoch: int
) -> int | None:
    """The highest LEO of all replicas except ``leader`` when a leader epoch began; None if one is unknown."""
    ends = [_kept(views[b], epoch)[0] if b in views else None for b in replicas if b != leader]
    known = [end for end in ends if end is not None]
    return max(known, default=0) if len(known) == len(ends) else None


def _held(
    view: BrokerView, broker: int, epoch: int, earlier: list[Stint], low: int, high: int
) -> dict[str, Any] | None:
    """How many records in [low, high) a broker had when ``epoch`` began, as facts for a finding; None if it had none.

    If the broker's own log does not show its LEO then, the HWM and the LEO known from ``earlier`` stints are used.
    """
    own, is_exact = _kept(view, epoch)
    if own is None:
        known = [s.hwm for s in earlier if s.broker == broker]
        known += [s.leos[broker] for s in earlier if s.broker != broker and broker in s.leos][-1:]
        own = max(known, default=0)
    had = max(0, min(own, high) - low)
    return {"broker": broker, "records": had, "at_least": not is_exact, "leo": own} if had else None


def _had_in_words(held: Json) -> str:
    at_least = "at least " if held["at_least"] else ""
    return f"broker {held['broker']} had {at_least}{held['records']} of them (LEO {held['leo']})"


def place(event: BrokerEvent) -> dict[str, Any]:
    """The file and line of an event, as the position of a finding."""
    return {"file": str(event.path), "line": event.line}


def _facts_of(
    leader: int, epoch: int, source: str | None, start: int, kept: int, high: int
) -> dict[str, Any]:
    """The facts of every loss: the leader of ``epoch`` starts at LEO ``start`` without offsets [kept, high)."""
    return {
        "leader": leader, "leader_epoch": epoch, "elected_from": source, "restarted": False, "leo": start,
        "first_lost": kept, "end_lost": high, "lost": high - kept,
    }  # fmt: skip


def _diverges(start: int, kept: int, high: int) -> str:
    """The words for a leader's log that is long enough, but has other records than were committed; else empty."""
    return "" if kept >= min(start, high) else f"; its log diverges at offset {kept}"


def _incomplete(name: str, at: Json, time: int | None, facts: Json, evidence: str, at_risk: str) -> Finding:
    """The finding that a leader starts without committed records; ``evidence`` shows that they were committed."""
    source, violated = facts["elected_from"], statements.leader_completeness
    how = "restarted in" if facts["restarted"] else f"elected from {source} for" if source else "elected for"
    diverges = _diverges(facts["leo"], facts["first_lost"], facts["end_lost"])
    summary = (
        f"broker {facts['leader']}, {how} leader epoch {facts['leader_epoch']}, starts at LEO {facts['leo']}; "
        f"{evidence}{diverges}"
    )
    return Finding(violated.source, violated.name, name, at, time, summary, at_risk, KIP, facts=facts)


# --- data logs -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Committed:
    """The last ISR that was not under min ISR: all its members hold the committed records.

    ``position`` is the metadata offset of the change to this ISR. After a loss, ``isr`` is the new leader alone, and
    only records below the offset ``limit`` count as committed; otherwise ``limit`` is None.
    """

    isr: tuple[int, ...]
    position: int
    limit: int | None = None


@dataclass(slots=True)
class _Partition:
    logs: dict[int, ReplicaLog] = field(default_factory=dict)
    aside: list[ReplicaLog] = field(default_factory=list)
    committed: _Committed | None = None
    findings: list[Finding] = field(default_factory=list)
    created: int = 0


class DataLogs:
    """Checks dumps of brokers' data against the partitions' changes, passed in the order of the metadata log.

    ``logs`` has one log for each dumped replica. A log that its broker has set aside stands for the broker's log if
    there is no other one.
    """

    def __init__(self, logs: Iterable[ReplicaLog]) -> None:
        self._partitions: dict[str, _Partition] = {}
        self.notes: list[str] = []
        """The parts that were not checked, and why; complete after ``finish``."""
        self.judged = 0
        for log in sorted(logs, key=lambda log: log.directory is not None):
            known = self._partitions.setdefault(log.name, _Partition())
            if log.directory is not None:
                known.aside.append(log)
                known.logs.setdefault(log.broker, log)
                continue
            other = known.logs.setdefault(log.broker, log)
            if other is not log:
                self.notes.append(
                    f"{log.path}: the log of {log.name} on broker {log.broker} is in {other.path}, too"
                )

    def change(self, change: PartitionChange) -> None:
        """Process the next change of a partition."""
        known, after = self._partitions.get(change.name), change.after
        if known is None:
            return
        known.created += change.before is None
        if after is None:
            return
        if change.before is not None and is_election(change) and known.committed is not None:
            self._elected(known, change, known.committed)
        # The effective min ISR is at most the number of replicas (966.2): an unknown one counts as that.
        min_isr = len(after.replicas) if change.min_isr is None else change.min_isr
        if after.isr and profiles.hwm_stands_under_min_isr(isr_size=len(after.isr), min_isr=min_isr):
            known.committed = _Committed(after.isr, change.position)

    def _elected(self, known: _Partition, change: PartitionChange, committed: _Committed) -> None:
        """Check that the leader elected by ``change`` has every record that can have been committed.

        If the dump of the leader or of an ISR member is missing, nothing is checked.
        """
        leader, epoch = change.state.leader, change.state.leader_epoch
        if leader is None or not {leader, *committed.isr} <= known.logs.keys():
            return
        self.judged += 1
        own, start = known.logs[leader].before(epoch)
        ends = {b: log.before(epoch) for b, log in known.logs.items()}
        longest = max(committed.isr, key=lambda b: ends[b][1])
        high = min(ends[b][1] for b in committed.isr)
        for broker in committed.isr:
            high = first_difference(ends[longest][0], ends[broker][0], high)
        high = high if committed.limit is None else min(high, committed.limit)
        kept = first_difference(ends[longest][0], own, min(high, start))
        if profiles.is_held(end=kept, hwm=high):
            return
        known.committed = replace(committed, isr=(leader,), limit=kept)
        held = {b: min(end, first_difference(ends[longest][0], log, high)) for b, (log, end) in ends.items()}
        had = [
            {"broker": b, "records": min(end, high) - kept, "at_least": False, "leo": ends[b][1]}
            for b, end in sorted(held.items())
            if b != leader and end > kept
        ]
        others = "; ".join(f"broker {one['broker']} has {one['records']} of them" for one in had)
        members = ", ".join(map(str, committed.isr))
        known.findings.append(
            _incomplete(
                change.name, {"offset": change.position}, change.time,
                {
                    **_facts_of(leader, epoch, elected_from(change), start, kept, high), "had": had,
                    "standing": AT_MOST, "topic_id": change.topic_id,
                },
                f"the logs of the ISR at offset {committed.position} ({members}) go up to {high}",
                f"up to {records(kept, high)} are lost: every member of that ISR had them; {others}",
            )
        )  # fmt: skip

    def ends(self) -> dict[str, list[ReplicaEnd]]:
        """The end of each replica's log at the time of its dump, by partition."""
        return {
            name: list(
                by_dumps([*(log for log in known.logs.values() if log.directory is None), *known.aside])
            )
            for name, known in self._partitions.items()
        }

    def finish(self) -> list[Finding]:
        """The findings, ordered by partition. Partitions that were created again have a note instead."""
        found: list[Finding] = []
        for name, known in sorted(self._partitions.items()):
            if known.created > 1:
                self.notes.append(
                    f"{name} was deleted or created again: replay ignores the dumps of its logs"
                )
            else:
                found += known.findings
        return found
