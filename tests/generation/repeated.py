"""A recorded cluster again and again, as one longer log: metadata log and request logs in plain text.

At the end of each lap its topics are deleted and its brokers are fenced; in the next one they register anew, and the
same topics are created with other ids. So leader epochs, partition epochs and offsets of records begin again, as
Kafka's do; offsets of the metadata log, broker epochs, times, incarnations and correlation ids go on.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from highwater.traces.kafka.codec import uuid_bytes, uuid_text
from highwater.traces.kafka.metadata_log import Gap, open_metadata_log
from highwater.traces.kafka.values import MetadataRecord, decode, encode
from tests.generation.writing import LogWriter

PAUSE_MS = 60_000
"""So long is between two laps."""
SEGMENT = 1 << 26
QUORUM = "AAAAAAAAAAAAAAAAAAAAAQ"
_HEAD = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
_EPOCHS = r'"(?:brokerEpoch|replicaEpoch|currentMetadataOffset)":(\d+)'
_OFFSETS = r'"(?:fetchOffset|highWatermark|lastStableOffset|endOffset)":(\d+)'
_NUMBERS = r'"correlationId":(\d+)'
_FETCH = '"requestApiKey":1,'


@dataclass(frozen=True)
class _Line:
    """A line in pieces: between them stand a number or an id, with how each goes on from lap to lap."""

    time: int
    is_fetch: bool
    texts: tuple[str, ...]
    between: tuple[tuple[Callable[[Any, int], str], Any], ...]

    def of(self, lap: int, length_ms: int) -> str:
        ms = self.time + lap * length_ms
        at = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        parts = [f"[{at},{ms % 1000:03}]", self.texts[0]]
        for (how, value), text in zip(self.between, self.texts[1:], strict=True):
            parts += how(value, lap), text
        return "".join(parts)


class Repeated:
    """A recording that can be written any number of times; ``lines`` and ``fetches`` are of one lap."""

    def __init__(self, recording: Path) -> None:
        log = open_metadata_log(recording / "__cluster_metadata-0")
        assert log.start is None
        self._batches: list[tuple[int, list[MetadataRecord | None]]] = []
        for found in log.batches():
            assert not isinstance(found, Gap)
            batch = found[1]
            known = [None if batch.control or value is None else decode(value) for value in batch.values]
            self._batches.append((batch.times[0], known))
        self._records = [record for _, records in self._batches for record in records]
        ends = [
            n for n, r in enumerate(self._records) if r is not None and r.type == "END_TRANSACTION_RECORD"
        ]
        self._bootstrap = ends[0] + 1
        """So many records set a cluster up; NO_OP_RECORD stands in their place in later laps."""
        topics = [r.data for r in self._records if r is not None and r.type == "TOPIC_RECORD"]
        self._topics: dict[str, str] = {t["topicId"]: t["name"] for t in topics}
        self._ends = self._end()
        self._length = len(self._records) + len(self._ends)
        self._logs = {
            path.parent.name: path for path in sorted(recording.glob("logs/*/kafka-request.log.gz"))
        }
        self._lines = {
            node: [self._parsed(text) for text in _texts(path)] for node, path in self._logs.items()
        }
        times = [line.time for lines in self._lines.values() for line in lines]
        self._start = self._batches[0][0]
        self._length_ms = max(times) - self._start + PAUSE_MS
        self._numbers = 1 + max(
            value for lines in self._lines.values() for line in lines for how, value in line.between
            if how == self._number
        )  # fmt: skip
        self.lines = sum(map(len, self._lines.values()))
        self.fetches = sum(line.is_fetch for lines in self._lines.values() for line in lines)

    # --- what goes on ---------------------------------------------------------------------------------

    def _epoch(self, value: int, lap: int) -> str:
        return str(value + lap * self._length)

    def _number(self, value: int, lap: int) -> str:
        return str(value + lap * self._numbers)

    @staticmethod
    def _id(value: str, lap: int) -> str:
        """Another id in each lap."""
        return uuid_text((int.from_bytes(uuid_bytes(value)) ^ (lap << 64)).to_bytes(16))

    # --- request logs ---------------------------------------------------------------------------------

    def _parsed(self, text: str) -> _Line:
        head = _HEAD.match(text)
        assert head is not None
        at = datetime.fromisoformat(head[1]).replace(tzinfo=UTC)
        is_quorums = QUORUM in text
        pattern = "|".join([_EPOCHS, _NUMBERS, *(map(_quoted, self._ids(text))), *([_OFFSETS] * is_quorums)])
        texts: list[str] = []
        between: list[tuple[Callable[[Any, int], str], Any]] = []
        last = head.end()
        for found in re.finditer(pattern, text):
            group = next(i for i, value in enumerate(found.groups(), start=1) if value is not None)
            texts.append(text[last : found.start(group)])
            last = found.end(group)
            value = found[group]
            if not value.isdigit():
                between.append((self._id, value))
            else:
                is_number = found[0].startswith('"correlationId"')
                between.append((self._number if is_number else self._epoch, int(value)))
        ms = round(at.timestamp()) * 1000 + int(head[2])
        return _Line(ms, _FETCH in text, (*texts, text[last:]), tuple(between))

    def _ids(self, text: str) -> list[str]:
        """Ids of topics and of incarnations that stand in a line."""
        return [i for i in (*self._topics, *re.findall(r'"incarnationId":"([\w-]{22})"', text)) if i in text]

    # --- the metadata log -----------------------------------------------------------------------------

    def _end(self) -> list[MetadataRecord]:
        """The topics are deleted, and the brokers fenced, where that is not so yet."""
        fenced: dict[int, bool] = {}
        epochs: dict[int, int] = {}
        for record in self._records:
            data: dict[str, Any] = {} if record is None else record.data
            if record is not None and record.type == "REGISTER_BROKER_RECORD":
                fenced[data["brokerId"]], epochs[data["brokerId"]] = data["fenced"], data["brokerEpoch"]
            elif (
                record is not None
                and record.type == "BROKER_REGISTRATION_CHANGE_RECORD"
                and data.get("fenced")
            ):
                fenced[data["brokerId"]] = data["fenced"] > 0
        gone = [MetadataRecord("REMOVE_TOPIC_RECORD", 0, {"topicId": topic}) for topic in self._topics]
        return gone + [
            MetadataRecord(
                "BROKER_REGISTRATION_CHANGE_RECORD", 0, {"brokerId": b, "brokerEpoch": epochs[b], "fenced": 1}
            )
            for b, is_fenced in fenced.items()
            if not is_fenced
        ]  # fmt: skip

    def _value(self, record: MetadataRecord | None, lap: int, number: int) -> bytes:
        if record is None or (lap and number < self._bootstrap):
            return encode("NO_OP_RECORD", 0, {})
        data = dict(record.data)
        if "brokerEpoch" in data:
            data["brokerEpoch"] += lap * self._length
        for name in ("topicId", "incarnationId"):
            if name in data:
                data[name] = self._id(data[name], lap)
        return encode(record.type, record.version, data)

    def _metadata(self, made: LogWriter, lap: int) -> None:
        number = 0
        for time, records in self._batches:
            values = [self._value(record, lap, number + i) for i, record in enumerate(records)]
            made.append(values, time + lap * self._length_ms)
            made.flush()
            number += len(records)
        ended = self._start + (lap + 1) * self._length_ms - PAUSE_MS // 2
        for after, record in enumerate(self._ends):
            made.append([self._value(record, lap, number + after)], ended + 100 * after)
            made.flush()

    # --- files ----------------------------------------------------------------------------------------

    def write(self, directory: Path, laps: int) -> int:
        """Write so many laps; the number of lines of the request logs."""
        metadata = directory / "__cluster_metadata-0"
        metadata.mkdir(parents=True)
        with LogWriter(metadata, SEGMENT) as made:
            made.epoch = 1
            for lap in range(laps):
                self._metadata(made, lap)
        for node, lines in self._lines.items():
            folder = directory / "logs" / node
            folder.mkdir(parents=True)
            with (folder / "kafka-request.log").open("w", encoding="utf-8") as file:
                for lap in range(laps):
                    file.writelines(line.of(lap, self._length_ms) + "\n" for line in lines)
        return laps * self.lines


def _texts(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if _HEAD.match(line):
                yield line.rstrip("\n")


def _quoted(text: str) -> str:
    return f'"({re.escape(text)})"'
