"""``kafka-dump-log`` output of data segments, derived from recorded broker logs.

The recordings have no data segments. Their broker logs tell where each leader epoch starts, and where each
replica's log ends before it truncates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from highwater.traces.kafka.broker_log import BecameFollower, BecameLeader, read_broker_log

Log = tuple[tuple[int, int], ...]


def dump(path: str, log: Log, end: int, batch: int = 7, base: int = 0) -> str:
    """The dump of one segment. A batch has at most ``batch`` records, all of one leader epoch."""
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
    """The logs of one partition's replicas, in the order of leader epochs."""

    name: str
    written: dict[int, Log] = field(default_factory=dict)
    """By leader epoch: the log of its leader, including the start of this epoch."""
    at: dict[int, list[tuple[int, bool, int]]] = field(default_factory=dict)
    """By broker: (leader epoch, is leader, log end offset)."""

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
        """A broker's log and its end offset when it first led or followed in ``epoch`` or later."""
        places = self.at[broker]
        number = next((n for n, (at, _, _) in enumerate(places) if at >= epoch), len(places) - 1)
        end = places[number][2]
        # Before that, it had the log of the last leader it followed, or its own if it led.
        last = max((at for at, _, _ in places[:number] if at in self.written), default=None)
        log: Log = () if last is None else self.written[last]
        return tuple(segment for segment in log if segment[1] < end), end

    def write(self, folder: Path, epoch: int) -> list[Path]:
        """Write a dump of each broker's log as it was when ``epoch`` began for it."""
        folder.mkdir(parents=True, exist_ok=True)
        found = []
        for broker in sorted(self.at):
            log, end = self.log(broker, epoch)
            path = folder / f"data-node{broker}.txt"
            path.write_text(dump(f"/kafka/data/{self.name}/{0:020}.log", log, end))
            found.append(path)
        return found
