"""The logs of replicas, as dumps of data segments show them, held against what the metadata log says.

A dump says nothing of the HWM. What was committed was in the log of every member of the ISR (B4), and nothing is
committed while the ISR is under min ISR (966.1): so of the last ISR that had enough members, what all of them hold can
have been committed, and nothing else. A leader that begins without it is told, with the number of the offsets
(``leader_completeness``). Where logs have another leader epoch at an offset they differ from there on (KIP-101).

What is gone from all logs does not show: dumps have to be older than the truncation to the new leader's log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from highwater.invariants import statements
from highwater.traces.brokers.lineage import first_difference
from highwater.traces.brokers.replica_logs import by_dumps
from highwater.traces.kafka.data_dump import ReplicaLog
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.observed import PartitionChange, ReplicaEnd
from highwater.traces.rules import log_rules

_KIP = "KIP-966"


@dataclass(frozen=True)
class _Committed:
    """Who holds what can have been committed: the ISR, since a change of the partition; below ``limit`` only."""

    isr: tuple[int, ...]
    position: int
    limit: int | None = None


@dataclass(slots=True)
class _Partition:
    logs: dict[int, ReplicaLog] = field(default_factory=dict)
    committed: _Committed | None = None
    findings: list[Finding] = field(default_factory=list)
    created: int = 0


class DataLogs:
    """Takes the changes of partitions in the order of the metadata log; ``logs`` are the replicas' from all dumps."""

    def __init__(self, logs: Iterable[ReplicaLog]) -> None:
        self._partitions: dict[str, _Partition] = {}
        self.notes: list[str] = []
        """What was not looked at, and why; complete after ``finish``."""
        self.judged = 0
        for log in logs:
            known = self._partitions.setdefault(log.name, _Partition())
            other = known.logs.setdefault(log.broker, log)
            if other is not log:
                self.notes.append(
                    f"{log.path}: the log of {log.name} on broker {log.broker} is in {other.path}, too"
                )

    def change(self, change: PartitionChange) -> None:
        """The next change of a partition."""
        known, before, after = self._partitions.get(change.name), change.before, change.after
        if known is None:
            return
        known.created += before is None
        if after is None:
            return
        elected = before is not None and before.leader_epoch != after.leader_epoch
        if elected and after.leader is not None and known.committed is not None:
            self._elected(known, change, known.committed)
        if after.isr and len(after.isr) >= (change.min_isr or 1):
            known.committed = _Committed(after.isr, change.position)

    def _elected(self, known: _Partition, change: PartitionChange, committed: _Committed) -> None:
        """Whether the leader of a new leader epoch begins with what can have been committed."""
        before, after = change.before, change.after
        assert before is not None
        assert after is not None
        assert after.leader is not None
        leader, epoch = after.leader, after.leader_epoch
        if not {leader, *committed.isr} <= known.logs.keys():
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
        if log_rules.is_held(end=kept, hwm=high):
            return
        known.committed = replace(committed, isr=(leader,), limit=kept)
        in_isr, in_elr = leader in before.isr, leader in before.elr
        source = "the ISR" if in_isr else "the ELR" if in_elr else "outside ISR and ELR"
        differs = "" if kept >= min(start, high) else f"; its log differs from offset {kept} on"
        held = {b: min(end, first_difference(ends[longest][0], log, high)) for b, (log, end) in ends.items()}
        had = [
            {"broker": b, "records": min(end, high) - kept, "at_least": False, "leo": ends[b][1]}
            for b, end in sorted(held.items())
            if b != leader and end > kept
        ]
        others = "; ".join(f"broker {one['broker']} has {one['records']} of them" for one in had)
        facts = {
            "leader": leader, "leader_epoch": epoch, "elected_from": source, "restarted": False, "leo": start,
            "first_lost": kept, "end_lost": high, "lost": high - kept, "had": had, "at_most": True,
        }  # fmt: skip
        members = ", ".join(map(str, committed.isr))
        known.findings.append(
            Finding(
                statements.leader_completeness.source, statements.leader_completeness.name, change.name,
                {"offset": change.position}, change.time,
                f"broker {leader}, elected from {source} for leader epoch {epoch}, starts at LEO {start}; the logs of "
                f"the ISR at offset {committed.position} ({members}) go up to {high}{differs}",
                f"up to {high - kept} committed offsets, [{kept}, {high}), are lost: all of that ISR had them; "
                f"{others}",
                _KIP, facts=facts,
            )
        )  # fmt: skip

    def ends(self) -> dict[str, list[ReplicaEnd]]:
        """Where each replica's log ended when it was dumped, by partition."""
        return {name: list(by_dumps(known.logs)) for name, known in self._partitions.items()}

    def finish(self) -> list[Finding]:
        """What was found, by partition."""
        found: list[Finding] = []
        for name, known in sorted(self._partitions.items()):
            if known.created > 1:
                self.notes.append(f"{name} was deleted or created anew: the dumps of its logs are not used")
            else:
                found += known.findings
        return found
