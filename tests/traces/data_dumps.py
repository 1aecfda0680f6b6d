"""Dumps of data segments as ``kafka-dump-log`` prints them, made from what recorded brokers' logs say of each replica.

The recordings have no data segments. Their brokers' logs say at which offset each leader epoch started, and where a
replica's log ended when it began to follow, before it truncated: so what a dump made at that moment would have shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from highwater.traces.kafka.broker_log import BecameFollower, BecameLeader, read_broker_log

Log = tuple[tuple[int, int], ...]


def dump(path: str, log: Log, end: int, batch: int = 7, base: int = 0) -> str:
    """The dump of one segment: batches of at most so many records, each of one leader epoch."""
    lines, position = [f"Dumping {path}", f"Log starting offset: {base}"], 0
    ends = [*(start for _, start in log[1:]), end][: len(log)]
    for (epoch, start), stop in zip(log, ends, strict=True):
        for first in range(start, stop, batch):
            count = min(batch, stop - first)
            size = 61 + 20 * count
            lines.append(
                f"baseOffset: {first} lastOffset: {first + count - 1} count: {count} baseSequence: {first} "
                f"lastSequence: {first + count - 1} producerId: 0 producerEpoch: 0 partitionLeaderEpoch: {epoch} "
                "isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
                f"position: {position} CreateTime: {1_795_000_000_000 + first} size: {size} magic: 2 "
                "compresscodec: none crc: 1234567890 isvalid: true"
            )
            lines += (
                f"| offset: {offset} CreateTime: {1_795_000_000_000 + offset} keySize: -1 valueSize: 4 "
                f"sequence: {offset} headerKeys: [] payload: {offset:04}"
                for offset in range(first, first + count)
            )
            position += size
    return "\n".join(lines) + "\n"


@dataclass
class Replicas:
    """The replicas' logs of one partition, followed through brokers' logs in the order of leader epochs."""

    name: str
    written: dict[int, Log] = field(default_factory=dict)
    """The log of the leader of each epoch, with the epoch that it begins to write."""
    at: dict[int, list[tuple[int, bool, int]]] = field(default_factory=dict)
    """Of each broker: leader epochs, whether it led, and where its log ended."""

    @classmethod
    def read(cls, logs: Iterable[Path], name: str = "t1-0") -> Replicas:
        found = cls(name)
        for event in (event for path in logs for event in read_broker_log(path)):
            if getattr(event, "name", None) != name:
                continue
            if isinstance(event, BecameLeader):
                found.at.setdefault(event.broker, []).append((event.leader_epoch, True, event.start_offset))
            elif isinstance(event, BecameFollower):
                found.at.setdefault(event.broker, []).append((event.leader_epoch, False, event.leo))
        for places in found.at.values():
            places.sort(key=lambda place: place[0])
        for epoch, broker, start in sorted(
            (epoch, broker, end) for broker, places in found.at.items() for epoch, led, end in places if led
        ):
            before = found.log(broker, epoch)[0]
            found.written[epoch] = (*(s for s in before if s[1] < start), (epoch, start))
        return found

    def log(self, broker: int, epoch: int) -> tuple[Log, int]:
        """A broker's log when it first led or followed in a leader epoch, or a later one: what it had until then."""
        places = self.at[broker]
        number = next((n for n, (at, _, _) in enumerate(places) if at >= epoch), len(places) - 1)
        end = places[number][2]
        # Until then it had the log of the leader that it followed last, or that it was.
        last = max((at for at, _, _ in places[:number] if at in self.written), default=None)
        log: Log = () if last is None else self.written[last]
        return tuple(segment for segment in log if segment[1] < end), end

    def write(self, folder: Path, epoch: int) -> list[Path]:
        """The dumps of all brokers' logs as they were when this leader epoch came to them."""
        folder.mkdir(parents=True, exist_ok=True)
        found = []
        for broker in sorted(self.at):
            log, end = self.log(broker, epoch)
            path = folder / f"data-node{broker}.txt"
            path.write_text(dump(f"/kafka/data/{self.name}/{0:020}.log", log, end))
            found.append(path)
        return found
