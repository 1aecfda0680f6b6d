"""Broker log lines and metadata changes of one partition, made up for tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from highwater.traces.brokers.watermarks import Watermarks
from highwater.traces.kafka.broker_log import read_broker_log
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.observed import PartitionChange, PartitionState
from tests.generation import broker_lines as lines

START_MS = 1_795_000_000_000
ID = "BHjwkdgcRZK4YgaEP-5NYQ"


def stamp(ms: int) -> str:
    then = datetime.fromtimestamp(ms // 1000, UTC)
    return f"[{then:%Y-%m-%d %H:%M:%S},{ms % 1000:03}]"


def members(ids: Iterable[int], epoch: int = 1) -> str:
    return ", ".join(f"BrokerState(brokerId={i}, brokerEpoch={epoch})" for i in ids)


class Made:
    """The broker logs and metadata changes of partition t1-0. Each line or change advances the clock by 10 ms."""

    def __init__(
        self, folder: Path, replicas: tuple[int, ...] = (0, 1, 2), min_isr: int | None = 2, zone_ms: int = 0
    ) -> None:
        self.folder, self.now, self.zone_ms, self.min_isr = folder, START_MS, zone_ms, min_isr
        self.lines: dict[tuple[int, str], list[str]] = {}
        self.changes: list[PartitionChange] = []
        self.state: PartitionState | None = None
        self.change(PartitionState(replicas, replicas, leader=replicas[0]))

    # --- metadata ---

    def change(self, after: PartitionState) -> None:
        self.now += 10
        self.changes.append(
            PartitionChange(10 + len(self.changes), self.now, "t1", 0, self.state, after, None, self.min_isr)
        )
        self.state = after

    def alter(self, **fields: object) -> PartitionState:
        """Change the partition: raise its partition epoch, and its leader epoch if ``leader`` is given."""
        assert self.state is not None
        after = replace(self.state, partition_epoch=self.state.partition_epoch + 1, **fields)  # type: ignore[arg-type]
        if "leader" in fields:
            after = replace(after, leader_epoch=self.state.leader_epoch + 1)
        self.change(after)
        return after

    # --- lines ---

    def line(self, broker: int, file: str, level: str, message: str, logger: str, after_ms: int = 10) -> None:
        self.write(broker, lines.Line(file, level, message, logger), after_ms)

    def write(self, broker: int, line: lines.Line, after_ms: int = 10) -> None:
        self.now += after_ms
        self.lines.setdefault((broker, line.file), []).append(line.text(stamp(self.now + self.zone_ms)))

    def says(self, broker: int, message: str, level: str = "DEBUG", after_ms: int = 10) -> None:
        self.write(broker, lines.of_partition(broker, "t1-0", message, level), after_ms)

    def leads(self, broker: int, start: int, hwm: int, after_ms: int = 10, under: str = "") -> None:
        assert self.state is not None
        self.write(broker, lines.leads(broker, "t1-0", ID, self.state, start, hwm, under), after_ms)

    def still(self, broker: int, role: str, hwm: int = 0, after_ms: int = 10) -> None:
        s = self.state
        assert s is not None
        isr = ", ".join(map(str, s.isr))
        since = (
            f"it is already the leader with leader epoch {s.leader_epoch}. Current high watermark {hwm}, ISR "
            f"[{isr.replace(' ', '')}], adding replicas [] and removing replicas []."
            if role == "leader"
            else f"it is already a follower with leader epoch {s.leader_epoch}."
        )
        self.line(
            broker, "state-change", "INFO",
            f"[Broker id={broker}] Skipped the become-{role} state change for t1-0 with topic id Some({ID}) and "
            f"partition state LeaderAndIsrPartitionState(topicName='t1', partitionIndex=0, controllerEpoch=-1, "
            f"leader={s.leader}, leaderEpoch={s.leader_epoch}, isr=[{isr}], partitionEpoch={s.partition_epoch}, "
            f"replicas=[0, 1, 2], addingReplicas=[], removingReplicas=[], isNew=false, leaderRecoveryState=0) "
            f"since {since}",
            "state.change.logger", after_ms,
        )  # fmt: skip

    def follows(self, broker: int, leo: int, hwm: int = 0, after_ms: int = 10) -> None:
        assert self.state is not None
        self.write(broker, lines.follows(broker, "t1-0", self.state, leo, hwm), after_ms)

    def hwm(self, broker: int, before: int, after: int, after_ms: int = 10) -> None:
        self.write(broker, lines.hwm_moved(broker, "t1-0", before, after), after_ms)

    def leo(self, broker: int, replica: int, leo: int) -> None:
        self.write(broker, lines.leo_recorded(broker, "t1-0", replica, leo))

    def isr(self, broker: int, under: str = "") -> None:
        assert self.state is not None
        self.write(broker, lines.isr_updated(broker, "t1-0", self.state, under))

    def expand(self, broker: int, replica: int) -> None:
        s = self.state
        assert s is not None
        self.says(
            broker,
            f"Submitting ISR state change PendingExpandIsr(newInSyncReplicaId={replica}, sentLeaderAndIsr=LeaderAndIsr("
            f"leader={broker}, leaderEpoch={s.leader_epoch}, isrWithBrokerEpoch=[{members((*s.isr, replica))}], "
            f"leaderRecoveryState=RECOVERED, partitionEpoch={s.partition_epoch}), leaderRecoveryState=RECOVERED, "
            f"lastCommittedState=CommittedPartitionState(isr=Set({', '.join(map(str, s.isr))}), "
            "leaderRecoveryState=RECOVERED))",
        )  # fmt: skip

    def shrinking(self, broker: int, isr: str, to: str, hwm: int, leo: int, replica: int, of: int) -> None:
        self.says(
            broker,
            f"Shrinking ISR from {isr} to {to}. Leader: (highWatermark: {hwm}, endOffset: {leo}). Out of sync "
            f"replicas: (brokerId: {replica}, endOffset: {of}, lastCaughtUpTimeMs: 1795175888152).", "INFO",
        )  # fmt: skip

    def restarted(self, broker: int, hwm: int) -> None:
        self.write(broker, lines.log_loaded(broker, "t1-0", hwm))

    def truncating(self, broker: int, leader: int, to: int) -> None:
        self.write(broker, lines.truncating(broker, "t1-0", leader, to))

    def removed(self, broker: int) -> None:
        """Write the line that a broker logs before it replays a partition change."""
        self.line(
            broker, "server", "INFO",
            f"[ReplicaFetcherManager on broker {broker}] Removed fetcher for partitions Set(t1-0)",
            "kafka.server.ReplicaFetcherManager",
        )  # fmt: skip

    def configured(self, broker: int, min_isr: int) -> None:
        self.line(
            broker, "server", "INFO",
            f"[DynamicConfigPublisher broker id={broker}] Updating topic t1 with new configuration : "
            f"min.insync.replicas -> {min_isr}", "kafka.server.metadata.DynamicConfigPublisher",
        )  # fmt: skip

    # --- reading the logs ---

    def paths(self) -> list[Path]:
        found = []
        for (broker, file), written in sorted(self.lines.items()):
            path = self.folder / f"{broker}-{file}.log"
            path.write_text("".join(f"{line}\n" for line in written))
            found.append(path)
        return found

    def watermarks(self, paths: list[Path] | None = None) -> Watermarks:
        found = Watermarks([read_broker_log(path) for path in paths or self.paths()])
        for change in self.changes:
            found.change(change)
        return found

    def findings(self, min_isr: int | None = 2) -> list[Finding]:
        return self.watermarks().finish(None if min_isr is None else {"t1-0": min_isr})

    def properties(self, min_isr: int | None = 2) -> list[str]:
        return [finding.property for finding in self.findings(min_isr)]

    # --- valid runs ---

    def begin(self) -> None:
        """Broker 0 leads in epoch 0 and commits 10 records on all three brokers."""
        self.leads(0, 0, 0)
        for broker in (1, 2):
            self.follows(broker, 0)
        self.commit(0, 0, 10, (1, 2))

    def commit(self, leader: int, before: int, after: int, followers: Iterable[int]) -> None:
        for follower in followers:
            self.leo(leader, follower, before)
            self.leo(leader, follower, after)
        self.hwm(leader, before, after)
        for follower in followers:
            self.leo(leader, follower, after)

    def lose(self) -> None:
        """Broker 2, outside the ISR with 10 records, is elected uncleanly: 20 committed records are lost."""
        self.begin()
        self.alter(isr=(0, 1))
        self.isr(0)
        self.commit(0, 10, 30, (1,))
        self.alter(leader=2, isr=(2,))
        self.leads(2, 10, 8)
        self.follows(1, 14)
        self.alter(isr=(2, 0, 1))
        self.isr(2)
        self.hwm(2, 8, 10)
        self.follows(0, 30)
