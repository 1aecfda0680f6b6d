"""Reads dumps of ``kafka-dump-log --cluster-metadata-decoder`` into the same batches as the binary files.

A dump has a line for each batch and for each record. A record's JSON is encoded to bytes again, so that later code
handles one format only.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError

from highwater.traces.kafka.batches import MAX_BATCH, MAX_RECORDS, RecordBatch
from highwater.traces.kafka.values import (
    CONTROL_KEYS,
    UnknownRecord,
    control_key,
    encode,
    encode_control,
    encode_unknown,
)
from highwater.traces.reading import Place, Source, TraceError, converted, mismatch, parse, printable, split

LOG_HEAD = re.compile(rb"Log starting offset: (\d{1,19})$")
SNAPSHOT_HEAD = re.compile(rb"Snapshot end offset: (\d{1,19}), epoch: (\d{1,10})\r?$", re.MULTILINE)
_NUMBER = re.compile(r"-?\d{1,19}$")
_RECORD = re.compile(
    r"\| (?:offset: (\d{1,19}) (?:CreateTime|LogAppendTime): -?\d{1,19} keySize: -?\d{1,10} "
    r"valueSize: (-?\d{1,10})(?: sequence: -?\d{1,10})?(?: headerKeys: \[[^\]]*\])? ?)?(.*)",
    re.DOTALL,
)
_CONTROL = re.compile(r"(\w+):? (\{.*\})$")
"""A control record's type and JSON. Newer Kafka versions print a colon after the type LeaderChange."""
_CONTROL_TYPE = re.compile(r"controlType: \w+\((\d{1,4})\)$")
_TRANSACTION_ENDS = ("ABORT", "COMMIT")
_TRANSACTION_END = re.compile(r"endTxnMarker: (ABORT|COMMIT) coordinatorEpoch: -?\d{1,10}$")
_CONTROL_NAMES = {
    "SnapshotHeader": "SNAPSHOT_HEADER",
    "SnapshotFooter": "SNAPSHOT_FOOTER",
    "KRaftVersion": "KRAFT_VERSION",
    "KRaftVoters": "KRAFT_VOTERS",
    "LeaderChange": "LEADER_CHANGE",
}
_LARGEST = (1 << 63) - 1
_PAYLOAD = "payload: "
_TRAILING = re.compile(rb"Found (\d{1,19}) invalid bytes at the end of ")


_BARE = re.compile(
    rb"baseOffset: \d|\| offset: \d|\| (?=payload: |\w+:? \{|controlType: |endTxnMarker: )|payload: [{E]"
)
_BEGUN = re.compile(rb"\| offset: (\d{1,19}) (?:CreateTime|LogAppendTime): (\d{1,19}) ")


def bare(line: bytes) -> bytes:
    """A line of a dump without what may stand before it: blanks, a time, the name of a container.

    A record of ``--skip-record-metadata`` gets the sign ``|`` of other records.
    """
    found = _BARE.search(line, 0, _MOST_BEFORE)
    if found is None:
        return line.strip()
    line = line[found.start() :].removesuffix(b"\r")
    return b"| " + line if line.startswith(b"payload: ") else line


_MOST_BEFORE = 200
"""The most bytes before what is a line of a dump."""


class _Payload(Struct):
    type: str
    version: Annotated[int, Meta(ge=0, lt=1 << 15)]
    data: dict[str, Any]


@dataclass(slots=True)
class _Batch:
    line: int
    base: int
    last: int
    count: int
    epoch: int
    timestamp: int
    control: bool
    valid: bool
    size: int = 0
    is_made: bool = False
    """True if the dump has no line for the batch."""
    offsets: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, bool]:
        """The values that the records of one made batch share."""
        return self.timestamp, self.control

    def finished(self) -> RecordBatch:
        # Offsets ascend: if there are enough of them, there is no gap.
        whole = len(self.offsets) == self.last - self.base + 1
        return RecordBatch(
            self.line,
            self.base,
            self.last,
            self.epoch,
            self.timestamp,
            self.control,
            range(self.base, self.last + 1) if whole else self.offsets,
            self.values,
            self.keys if self.control else (),
        )


def read_dump(source: Source, notes: list[str] | None = None, *, last: bool = True) -> Iterator[RecordBatch]:
    """Read the batches of a dump; the ``position`` of each is its line. ``last``: no other dump of the log follows.

    If the schema tables lack a record's type or version, ``decode`` raises UnknownRecord for its value. If a dump ends
    within its last batch, or if the last batch of the last dump is invalid, the iterator ends and adds a line to
    ``notes``. Unknown fields are ignored, with a line in ``notes``. Raises TraceError if a line does not belong to a
    dump, or its JSON does not fit its record.
    """
    return _Dump(source, [] if notes is None else notes, last).batches()


class _Dump:
    def __init__(self, source: Source, notes: list[str], last: bool) -> None:
        self.path: Path = source.path
        self.source = source
        self.lines = split(source)
        self.notes, self.last = notes, last
        self.number = 0
        self.strays = self.left_out = 0
        """The number of records with fields that the schema tables lack."""

    def batches(self) -> Iterator[RecordBatch]:
        batch: _Batch | None = None
        started = False
        line = b""
        try:
            for number, line in enumerate(self.lines, start=1):
                self.number, line = number, bare(line)
                if line.startswith(b"| "):
                    made = self._made(line)
                    if made is not None and (batch is None or (batch.is_made and batch.key != made.key)):
                        if batch is not None:
                            yield self._whole(batch)
                        batch, started = made, True
                        self._note(
                            f"{self.path}: no lines of batches: the records of one time count as one batch"
                        )
                    if batch is not None:
                        self._record(batch, line)
                elif line.startswith(b"baseOffset: "):
                    if batch is not None:
                        yield self._whole(batch)
                    batch, started = None, True
                    batch = self._batch(line)
                elif started and not self._between(line):
                    self._stray(line)
        except TraceError as wrong:
            # The last line may be cut off.
            if wrong.line != self.number or next(self.lines, None) is not None or self.source.terminated:
                raise
            self._note(f"{self.path}:{self.number}: the dump ends within a line")
            if batch is not None and len(batch.values) < batch.count:
                batch = None
        if batch is not None:
            if len(batch.values) < batch.count and not (batch.control and not batch.values):
                self._note(f"{self.path}:{batch.line}: the dump ends within a batch, which is skipped")
            elif self.last and not batch.valid:
                self._note(f"{self.path}:{batch.line}: the last batch is not valid and is skipped")
            else:
                yield self._whole(batch)
        if self.left_out:
            self._note(f"{self.path}: {self.left_out} records have unknown fields, which are ignored")

    def _made(self, line: bytes) -> _Batch | None:
        """A batch for a record without one, as ``grep '^|'`` leaves it; None if the line lacks offset and time."""
        found = _BEGUN.match(line)
        if found is None:
            return None
        offset, time = int(found[1]), int(found[2])
        return _Batch(self.number, offset, offset, 0, -1, time, b" payload: " not in line, True, is_made=True)

    def _stray(self, line: bytes) -> None:
        """Note a line that is no part of a dump. If it was one of a record, the batch then lacks that record."""
        self.strays += 1
        if self.strays == 1:
            shown = printable(line.decode("utf-8", "replace"), 60)
            self._note(f"{self.path}:{self.number}: not a line of a dump, ignored: {shown}")

    def _between(self, line: bytes) -> bool:
        """True if a line is allowed between batches: the start of another segment, or Kafka's closing lines."""
        if line.startswith((b"Dumping ", b"Starting offset: ")) or LOG_HEAD.match(line) or not line:
            return True
        if found := _TRAILING.match(line):
            left = found[1].decode()
            self._note(
                f"{self.path}:{self.number}: the dumped file ends with {left} bytes that are not a batch"
            )
            return True
        return False

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _error(self, name: str | None, message: str, line: int | None = None) -> TraceError:
        return TraceError(self.path, self.number if line is None else line, name, message)

    def _text(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            raise self._error(None, "not UTF-8") from None

    def _batch(self, line: bytes) -> _Batch:
        words = self._text(line).split(" ")
        pairs = {name[:-1]: word for name, word in itertools.pairwise(words) if name.endswith(":")}

        def number(name: str, least: int = 0) -> int:
            text = pairs.get(name, "")
            value = int(text) if _NUMBER.match(text) else None
            if value is None or not least <= value <= _LARGEST:
                raise self._error(name, f"not a whole number from {least} on" if text else "is missing")
            return value

        def flag(name: str) -> bool:
            if pairs.get(name) not in ("true", "false"):
                raise self._error(name, "not true or false" if name in pairs else "is missing")
            return bool(pairs[name] == "true")

        if number("magic") != 2:
            raise self._error("magic", "only message format 2 is read")
        timestamp = number("CreateTime" if "CreateTime" in pairs else "LogAppendTime", -1)
        base, last_offset, count = number("baseOffset"), number("lastOffset"), number("count")
        if not 0 <= last_offset - base < 1 << 31 or count > min(last_offset - base + 1, MAX_RECORDS):
            raise self._error("count", f"{count} records from offset {base} to {last_offset}")
        epoch = number("partitionLeaderEpoch", -1)
        control, valid = flag("isControl"), flag("isvalid")
        return _Batch(self.number, base, last_offset, count, epoch, timestamp, control, valid)

    def _whole(self, batch: _Batch) -> RecordBatch:
        if not batch.valid:
            raise self._error("isvalid", "the batch has a wrong checksum", batch.line)
        if batch.control and not batch.values:  # --skip-record-metadata prints no control records
            batch.offsets = list(range(batch.last - batch.count + 1, batch.last + 1))
            batch.values = [None] * batch.count
            batch.keys = [control_key(CONTROL_KEYS["LEADER_CHANGE"])] * batch.count
        if len(batch.values) != batch.count:
            message = f"a batch of {batch.count} records with {len(batch.values)} lines"
            raise self._error("count", message, batch.line)
        return batch.finished()

    def _record(self, batch: _Batch, line: bytes) -> None:
        found = _RECORD.match(self._text(line))
        if found is None:
            raise self._error(None, "not a line of a record")
        offset, value_size, rest = found.groups()
        if batch.is_made:
            batch.count, batch.last = batch.count + 1, max(batch.last, int(offset or 0))
        if len(batch.values) == batch.count:
            raise self._error(None, f"more than the {batch.count} records of the batch")
        at = batch.base + len(batch.values) if offset is None else int(offset)
        if at > batch.last or (batch.offsets and at <= batch.offsets[-1]) or at < batch.base:
            raise self._error("offset", f"{at} is not within the batch, or not above the record before")
        key: bytes | None = None
        value: bytes | None
        if batch.control:
            key, value = self._control(rest)
        elif value_size == "-1" and not rest:
            value = None
        else:
            value = self._value(rest)
        batch.size += len(value or b"")
        if batch.size > MAX_BATCH:
            raise self._error(None, f"a batch of more than {MAX_BATCH} bytes")
        batch.offsets.append(at)
        batch.values.append(value)
        batch.keys.append(key)

    def _control(self, rest: str) -> tuple[bytes | None, bytes | None]:
        """The key and value of a control record. The value is None if the dump lacks it."""
        if found := _CONTROL_TYPE.match(rest):
            return control_key(int(found[1])), None
        if found := _TRANSACTION_END.match(rest):
            return control_key(_TRANSACTION_ENDS.index(found[1])), None
        found = _CONTROL.match(rest)
        if found is None or found[1] not in _CONTROL_NAMES:
            raise self._error(None, "not a line of a control record")
        data = parse(self.path, self.number, found[2].encode("utf-8"))
        try:
            return encode_control(_CONTROL_NAMES[found[1]], data, lenient=True)
        except UnknownRecord:
            return control_key(CONTROL_KEYS[_CONTROL_NAMES[found[1]]]), None
        except ValidationError as wrong:
            raise TraceError(self.path, self.number, *mismatch(wrong)) from None

    def _value(self, rest: str) -> bytes:
        if not rest.startswith(_PAYLOAD):
            raise self._error(
                None, "a record without its payload: was the dump made with --cluster-metadata-decoder?"
            )
        payload = rest[len(_PAYLOAD) :]
        if not payload.startswith("{"):
            # Kafka's own decoder failed on this record: "Error at 17, skipping. ..."
            if payload.startswith("Error at "):
                return encode_unknown(None, 0, printable(payload))
            raise self._error("payload", "not JSON: was the dump made with --cluster-metadata-decoder?")
        parsed = parse(self.path, self.number, payload.encode("utf-8"))
        found = converted(Place(self.path, self.number, "payload"), parsed, _Payload)
        return self._encoded(found.type, found.version, found.data)

    def _encoded(self, kind: str, version: int, data: dict[str, Any]) -> bytes:
        try:
            return encode(kind, version, data)
        except UnknownRecord as unknown:
            with contextlib.suppress(UnknownRecord, ValidationError):
                return encode(kind, version, data, lenient=True)
            return encode_unknown(unknown.key, version, printable(kind), data)
        except ValidationError:
            pass
        try:
            value = encode(kind, version, data, lenient=True)
        except ValidationError as wrong:
            raise TraceError(self.path, self.number, *mismatch(wrong, "payload.data")) from None
        self.left_out += 1
        return value
