"""A generated metadata log and broker logs of a small cluster that lost data, to try the replay with.

No Kafka ran. Kafka 4.2's rules allow each record (a replay confirms it), and each broker line has the form of
a recorded one.

Two of three brokers die, then the third. An operator lowers min.insync.replicas, which empties the ELR, and
requests an unclean election while only the first broker to die is back.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from highwater.traces.reports.observed import PartitionState
from tests.generation import broker_lines, records
from tests.generation.broker_lines import Line
from tests.generation.writing import LogWriter

TOPIC, NAME = "orders", "orders-0"
CONTROLLER = 100
BROKERS = (0, 1, 2)
DAY = "2026-03-09"
METADATA_VERSION = 29
"""The metadata version of Kafka 4.2."""
SEGMENT_BYTES = 1 << 20
_RECORD_NAMES = {
    "elr": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
    "leader_recovery_state": "leaderRecoveryState",
}


def write_incident(directory: Path, until: str = "23:59") -> None:
    """Write ``__cluster_metadata-0`` and ``logs/nodeN`` into an existing directory; always the same files.

    ``until`` is the time of day (UTC) at which the logs end.
    """
    log = directory / "__cluster_metadata-0"
    log.mkdir()
    with LogWriter(log, SEGMENT_BYTES) as writer:
        cluster = _Cluster(writer, _ms(until))
        cluster.begin()
        _lose(cluster)
    for (broker, file), lines in sorted(cluster.lines.items()):
        path = directory / "logs" / f"node{broker}" / f"{file}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))


def _lose(cluster: _Cluster) -> None:
    """The events in order of time."""
    cluster.at("09:00:10.000").create(min_isr=2)
    for minute, before, after in ((2, 0, 18), (5, 18, 44), (8, 44, 71), (11, 71, 98), (13, 98, 120)):
        cluster.at(f"09:{minute:02}:50.000").commit(0, [1, 2], before, after)

    cluster.at("09:14:03.500").change(isr=(0, 1)).says(0, broker_lines.isr_updated)
    cluster.at("09:14:11.000").fence(2)
    cluster.at("09:17:30.000").commit(0, [1], 120, 149)
    cluster.at("09:21:38.000").commit(0, [1], 149, 184)

    cluster.at("09:21:41.300").change(isr=(0,), elr=(1,)).says(0, broker_lines.isr_updated, "(under-min-isr)")
    cluster.at("09:21:49.000").fence(1)
    cluster.at("09:23:14.000").fence(0, isr=(), leader=None, elr=(0, 1), last_known_elr=(0,))

    cluster.at("09:25:30.000").start(2, leo=120)
    cluster.at("09:27:10.000").set_min_isr(1)
    cluster.at("09:28:45.000").change(isr=(2,), leader=2, leader_recovery_state="RECOVERING")
    cluster.says(2, broker_lines.leads, cluster.topic_id, 120, 120)
    cluster.at("09:32:00.000").commit(2, [], 120, 150)

    cluster.at("09:33:20.000").start(0, leo=184).truncate(0, 120)
    cluster.at("09:33:25.000").change(isr=(0, 2), leader_recovery_state="RECOVERED")
    cluster.says(2, broker_lines.isr_updated)
    cluster.at("09:36:02.000").start(1, leo=184).truncate(1, 120)
    cluster.at("09:36:07.000").change(isr=(0, 1, 2)).says(2, broker_lines.isr_updated)
    cluster.at("09:40:00.000").commit(2, [0, 1], 150, 210)


class _Cluster:
    """The partition's current state and the written logs. Each method acts at the time of the last ``at``."""

    def __init__(self, log: LogWriter, until: int) -> None:
        self._log, self._until = log, until
        self._time = _ms("09:00:00.000")
        self._epochs: dict[int, int] = {}
        self.topic_id = _identity("topic")
        self.state = PartitionState(BROKERS, BROKERS, leader=0)
        self.lines: dict[tuple[int, str], list[str]] = {}

    def at(self, clock: str) -> _Cluster:
        """Set the time of day (UTC)."""
        self._time = _ms(clock)
        return self

    # --- metadata log -----------------------------------------------------------------------------------

    def begin(self) -> None:
        self._log.new_epoch(CONTROLLER, self._time)
        levels = (records.feature(records.METADATA, METADATA_VERSION), records.feature(records.ELR, 1))
        min_isr = records.setting(records.MIN_ISR, "2", "", records.OF_BROKER)
        self.at("09:00:00.500")._append(records.together(*levels, min_isr, name="Bootstrap records"))
        for broker in BROKERS:
            self.at(f"09:00:0{broker + 2}.000").register(broker)

    def register(self, broker: int) -> None:
        """Register a broker; unfence it a second later."""
        epoch = self._epochs[broker] = self._log.offset
        self._append([_registration(broker, epoch)])
        self._time += 1000
        self._append([records.registration_change(broker, epoch, 0, fenced=-1)])

    def create(self, min_isr: int) -> None:
        """Create the topic, with unclean election off."""
        s = self.state
        directories = [_identity(f"directory {b}") for b in s.replicas]
        created = records.partition(0, self.topic_id, s.replicas, 2, directories=directories)
        unclean = records.setting(records.UNCLEAN, "false", TOPIC)
        self._append([records.topic(TOPIC, self.topic_id), unclean, *self._min_isr(min_isr), created])
        self.says(0, broker_lines.leads, self.topic_id, 0, 0)
        for broker in (1, 2):
            self.says(broker, broker_lines.follows, 0, 0)

    def set_min_isr(self, value: int) -> None:
        """Change the topic's min.insync.replicas, which empties the ELR (K7)."""
        self._append(self._min_isr(value))
        self.state = replace(self.state, elr=(), last_known_elr=())

    def _min_isr(self, value: int) -> list[bytes]:
        return [records.setting(records.MIN_ISR, str(value), TOPIC), records.clear(TOPIC)]

    def change(self, **fields: Any) -> _Cluster:
        self._append([self._change(fields)])
        return self

    def fence(self, broker: int, **fields: Any) -> None:
        """Fence a broker, and change the given fields of the partition."""
        fenced = records.registration_change(broker, self._epochs[broker], 0, fenced=1)
        self._append([self._change(fields), fenced] if fields else [fenced])

    def _change(self, fields: dict[str, Any]) -> bytes:
        changed = {
            **fields,
            "leader_epoch": self.state.leader_epoch + int("leader" in fields),
            "partition_epoch": self.state.partition_epoch + 1,
        }
        self.state = replace(self.state, **changed)
        written = dict(self.state.to_json())
        written |= {
            "eligibleLeaderReplicas": written["elr"],
            "leaderRecoveryState": int(self.state.leader_recovery_state == "RECOVERING"),
        }
        names = (_RECORD_NAMES.get(name, name) for name in fields)
        return records.partition_change(0, self.topic_id, **{name: written[name] for name in names})

    def _append(self, values: Sequence[bytes]) -> None:
        if self._time <= self._until:
            self._log.append(values, self._time)

    # --- brokers' logs ----------------------------------------------------------------------------------

    def says(self, broker: int, what: Any, *arguments: Any) -> None:
        """Write a line of ``broker_lines`` about the partition's current state."""
        given = (
            (*arguments[:1], self.state, *arguments[1:])
            if what is broker_lines.leads
            else (self.state, *arguments)
        )
        self._write(broker, what(broker, NAME, *given))

    def commit(self, leader: int, followers: list[int], before: int, after: int) -> None:
        """Append records up to LEO ``after``; the followers fetch them and the HWM advances."""
        for follower in followers:
            self._write(leader, broker_lines.leo_recorded(leader, NAME, follower, after))
        self._write(leader, broker_lines.hwm_moved(leader, NAME, before, after))

    def start(self, broker: int, leo: int) -> _Cluster:
        """Restart a broker after a crash, as follower with LEO ``leo``."""
        self.register(broker)
        self._write(broker, broker_lines.log_loaded(broker, NAME, 0))
        self.says(broker, broker_lines.follows, leo, 0)
        return self

    def truncate(self, broker: int, to: int) -> None:
        assert self.state.leader is not None
        self._write(broker, broker_lines.truncating(broker, NAME, self.state.leader, to))

    def _write(self, broker: int, line: Line) -> None:
        self._time += 20
        if self._time > self._until:
            return
        then = datetime.fromtimestamp(self._time / 1000, UTC)
        stamp = f"[{then:%Y-%m-%d %H:%M:%S},{self._time % 1000:03}]"
        self.lines.setdefault((broker, line.file), []).append(line.text(stamp))


def _registration(broker: int, epoch: int) -> bytes:
    return records.registration(
        broker, epoch, _identity(f"start {broker} {epoch}"), logDirs=[_identity(f"directory {broker}")],
        endPoints=records.endpoint(f"broker{broker}", 9092),
        features=records.supported({records.METADATA: (7, METADATA_VERSION), records.ELR: (0, 1)}),
    )  # fmt: skip


def _identity(of: str) -> str:
    return urlsafe_b64encode(of.encode().ljust(16, b".")[:16]).decode().rstrip("=")


def _ms(clock: str) -> int:
    return round(datetime.fromisoformat(f"{DAY}T{clock}+00:00").timestamp() * 1000)
