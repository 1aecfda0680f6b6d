"""Lines of server.log and state-change.log in the form of Kafka's brokers.

``state`` is the partition as the broker has it from the metadata log.
"""

from __future__ import annotations

from typing import NamedTuple

from highwater.traces.reports.observed import PartitionState


class Line(NamedTuple):
    """A log line without its time. ``file`` is the log's name without ``.log``."""

    file: str
    level: str
    message: str
    logger: str

    def text(self, stamp: str) -> str:
        """The complete line; ``stamp`` is the time in brackets."""
        return f"{stamp} {self.level} {self.message} ({self.logger})"


def of_partition(broker: int, name: str, message: str, level: str = "DEBUG") -> Line:
    """A line of the logger ``kafka.cluster.Partition``, at DEBUG by default."""
    return Line("server", level, f"[Partition {name} broker={broker}] {message}", "kafka.cluster.Partition")


def leads(
    broker: int, name: str, topic_id: str, state: PartitionState, start: int, hwm: int, under: str = ""
) -> Line:
    """The broker becomes leader, with an epoch that begins at ``start``. ``under`` is a note about min ISR."""
    return Line(
        "state-change", "INFO",
        f"[Broker id={broker}] Leader {name} with topic id Some({topic_id}) starts at leader epoch "
        f"{state.leader_epoch} from offset {start} with partition epoch {state.partition_epoch}, high watermark {hwm}, "
        f"ISR [{_members(state)}], adding replicas [] and removing replicas [] {under}. Previous leader Some(-1) and "
        "previous leader epoch was 0.", "state.change.logger",
    )  # fmt: skip


def follows(broker: int, name: str, state: PartitionState, leo: int, hwm: int) -> Line:
    """The broker becomes a follower with LEO ``leo``."""
    leader = -1 if state.leader is None else state.leader
    return Line(
        "state-change", "INFO",
        f"[Broker id={broker}] Follower {name} starts at leader epoch {state.leader_epoch} from offset {leo} with "
        f"partition epoch {state.partition_epoch} and high watermark {hwm}. Current leader is {leader}. Previous "
        f"leader Some({leader}) and previous leader epoch was {state.leader_epoch}.", "state.change.logger",
    )  # fmt: skip


def hwm_moved(broker: int, name: str, before: int, after: int) -> Line:
    moved = f"from (offset={before}, segment=[0:1]) to (offset={after}, segment=[0:2])"
    return of_partition(broker, name, f"High watermark updated {moved}")


def leo_recorded(broker: int, name: str, replica: int, leo: int) -> Line:
    """The leader records a follower's LEO from a fetch."""
    said = f"Recorded replica {replica} log end offset (LEO) position {leo} and log start offset 0."
    return of_partition(broker, name, said)


def isr_updated(broker: int, name: str, state: PartitionState, under: str = "") -> Line:
    """The leader learns the ISR that the controller committed."""
    said = f"ISR updated to {_members(state)} {under} and version updated to {state.partition_epoch}"
    return of_partition(broker, name, said, "INFO")


def log_loaded(broker: int, name: str, hwm: int) -> Line:
    """The broker has started and loaded its checkpointed HWM."""
    said = f"Log loaded for partition {name} with initial high watermark {hwm}"
    return of_partition(broker, name, said, "INFO")


def truncating(broker: int, name: str, leader: int, to: int) -> Line:
    """The follower truncates its log to offset ``to``."""
    return Line(
        "server", "INFO",
        f"[ReplicaFetcher replicaId={broker}, leaderId={leader}, fetcherId=0] Truncating partition {name} with "
        f"TruncationState(offset={to}, completed=true) due to local high watermark {to}",
        "kafka.server.ReplicaFetcherThread",
    )  # fmt: skip


def _members(state: PartitionState) -> str:
    return ",".join(map(str, state.isr))
