from __future__ import annotations

import gzip
import re
import tracemalloc
from pathlib import Path

import pytest

from highwater.traces.kafka.batches import RecordBatch
from highwater.traces.kafka.dumps import read_dump
from highwater.traces.kafka.metadata_log import recognise
from highwater.traces.kafka.values import UnknownRecord, decode
from highwater.traces.reading import Source, TraceError
from tests.generation.batches import encode_batch
from tests.traces.kafka.made import TIME, batches_of, change, dump_of, segment, snapshot

LOG = b"".join(segment())
TEXT = dump_of(LOG)
LINES = TEXT.splitlines(keepends=True)


def read(
    path: Path, content: str | bytes, notes: list[str] | None = None, *, last: bool = True
) -> list[RecordBatch]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with Source(path) as source:
        return list(read_dump(source, notes, last=last))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dump.txt"


def error_of(path: Path, content: str | bytes) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(path, content)
    assert str(caught.value).isprintable()
    assert str(path) in str(caught.value)
    return caught.value


def test_a_dump_gives_the_batches_of_the_file(path: Path) -> None:
    for content in (TEXT, gzip.compress(TEXT.encode()), TEXT.replace("\n", "\r\n")):
        found = read(path, content)
        for a, b in zip(found, batches_of(LOG), strict=True):
            values: list[bytes | None] = b.values if not b.control else [None]
            assert a._replace(position=0) == b._replace(position=0, values=values)
    assert [b.position for b in found] == [3, 5, 7, 11, 13]


def test_a_dump_of_4_2_shows_a_leader_change_with_its_fields(path: Path) -> None:
    found = read(path, dump_of(LOG, shows_leader_change=True))
    assert recognise(path) == "metadata dump"
    assert [b.values for b in found] == [b.values for b in batches_of(LOG)]
    assert found[0].control


def test_record_lines_without_their_metadata(path: Path) -> None:
    """The format of ``kafka-dump-log --skip-record-metadata``."""
    short = [
        "| " + line[line.index("payload:") :] if line.startswith("| ") and "payload:" in line else line
        for line in LINES
    ]
    found, whole = read(path, "".join(short)), read(path, TEXT)
    assert [(b.values, list(b.offsets)) for b in found] == [(b.values, list(b.offsets)) for b in whole]


def test_several_segments_in_one_dump(path: Path) -> None:
    more = b"".join(segment(base=8))
    both = TEXT + dump_of(more, "Log starting offset: 8")
    assert [b.base_offset for b in read(path, both)] == [
        b.base_offset for b in batches_of(LOG) + batches_of(more)
    ]


def test_records_that_are_not_known(path: Path) -> None:
    text = TEXT.replace(
        '"type":"PARTITION_CHANGE_RECORD","version":2', '"type":"PARTITION_CHANGE_RECORD","version":7', 1
    )
    text = text.replace(
        '"type":"PARTITION_CHANGE_RECORD","version":2', '"type":"COMING_RECORD","version":1', 1
    )
    start, _, rest = text.partition('payload: {"type":"PARTITION_CHANGE_RECORD","version":2')
    text = start + "payload: Error at 3, skipping. Unknown metadata id 99\n" + rest.partition("\n")[2]
    notes: list[str] = []
    found = [v for b in read(path, text, notes) for v in b.values if v is not None]
    unknown = []
    for value in found:
        try:
            decode(value)
        except UnknownRecord as wrong:
            unknown.append((wrong.key, wrong.version, wrong.type))
    assert unknown == [
        (None, 1, "COMING_RECORD"),
        (None, 0, "Error at 3, skipping. Unknown metadata id 99"),
    ]
    assert decode(found[0]) == decode(change(1))._replace(version=7), (
        "of a known type the known fields are read"
    )
    assert len(found) == 7
    assert notes == []


def test_fields_that_are_not_known_are_counted(path: Path) -> None:
    notes: list[str] = []
    text = TEXT.replace('"isr":', '"later":5,"isr":')
    assert [b.values for b in read(path, text, notes)] == [b.values for b in read(path, TEXT)]
    assert len(notes) == 1
    assert "7 records have unknown fields" in notes[0]


def test_a_line_about_invalid_bytes_at_the_end_is_a_note(path: Path) -> None:
    notes: list[str] = []
    assert len(read(path, TEXT + "Found 17 invalid bytes at the end of 00.log\n", notes)) == 5
    assert "17 bytes" in notes[0]


def test_a_dump_that_breaks_off(path: Path) -> None:
    """A dump cut anywhere gives its complete batches, and a note if one is incomplete."""
    whole = read(path, TEXT)
    start = TEXT.index("\n", TEXT.index("baseOffset: 5")) + 1
    for end in range(start, len(TEXT), 11):
        notes: list[str] = []
        found = read(path, TEXT[:end], notes)
        assert found == whole[: len(found)]
        assert len(notes) <= 1
        if TEXT[:end].count("baseOffset: ") > len(found):
            assert notes, end


def test_few_records_over_many_offsets_take_little_memory(path: Path) -> None:
    """Compaction leaves batches with few records and a far ``lastOffset``."""
    batch = TEXT[TEXT.rindex("baseOffset: ") :]
    far = re.sub(r"lastOffset: \d+", "lastOffset: 20000000", batch)
    tracemalloc.start()
    try:
        *_, found = read(path, TEXT.replace(batch, far))
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    assert (found.last_offset, len(found.offsets)) == (20_000_000, len(found.values))


def test_a_batch_that_is_not_valid(path: Path) -> None:
    broken = "".join(LINES).replace("isvalid: true", "isvalid: false", 1)
    assert error_of(path, broken).line == 3
    at = TEXT.rindex("isvalid: true")
    broken = TEXT[:at] + "isvalid: false" + TEXT[at + len("isvalid: true") :]
    notes: list[str] = []
    assert len(read(path, broken, notes)) == 4
    assert "not valid" in notes[0]
    with pytest.raises(TraceError, match="checksum"):
        read(path, broken, last=False)


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [
        ("magic: 2", "magic: 1", 3, "magic"),
        ("count: 1 ", "count: 2 ", 3, "count"),
        ("count: 3 ", "count: 2 ", 10, None),
        ("count: 3 ", "count: 99999999999999 ", 7, "count"),
        ("baseOffset: 2 lastOffset: 4", "baseOffset: 1" + "0" * 5000 + " lastOffset: 4", 7, "baseOffset"),
        ("partitionLeaderEpoch: 1", "partitionLeaderEpoch: x", 3, "partitionLeaderEpoch"),
        ("partitionLeaderEpoch: 1", "", 3, "partitionLeaderEpoch"),
        ("isControl: true", "isControl: 1", 3, "isControl"),
        ("offset: 3 ", "offset: 2 ", 9, "offset"),
        ("offset: 3 ", "offset: 9 ", 9, "offset"),
        ("lastOffset: 4", "lastOffset: 9223372036854775807", 7, "count"),
        ('"isr":[1]', '"isr":[true]', 10, "payload.data.isr[0]"),
        ('"partitionId":1', '"partition":1', 6, "payload.data.partitionId"),
        ('"version":2', '"version":-1', 6, "payload.version"),
        ('"version":2', '"version":true', 6, "payload.version"),
        ('"type":"PARTITION_CHANGE_RECORD"', '"type":5', 6, "payload.type"),
        ('"data":{', '"data":[{', 6, None),
        ("payload: {", "payload: x{", 6, "payload"),
        ("payload: {", "key: {", 6, None),
        ("controlType: LEADER_CHANGE(2)", "controlType: LEADER_CHANGE", 4, None),
    ],
)
def test_bad_lines_are_named(path: Path, old: str, new: str, line: int, field: str | None) -> None:
    assert old in TEXT
    wrong = error_of(path, TEXT.replace(old, new, 1))
    if old == '"isr":[1]':
        line = next(i for i, text in enumerate(LINES, start=1) if old in text)
    assert wrong.line == line
    assert field is None or wrong.field == field


def test_bytes_that_are_no_text(path: Path) -> None:
    assert "UTF-8" in error_of(path, TEXT.encode().replace(b"AAEC", b"\xff\xfeEC", 1)).message


@pytest.mark.parametrize(
    "line", ["baseOffset: {}", "| offset: 1 {}", "| payload: {}", "baseOffset: 0 lastOffset: 0 count: {}"]
)
@pytest.mark.parametrize(
    "text", ["a" * 3_000_000, "a: " * 1_000_000, " isControl: true" * 200_000, "[" * 3_000_000]
)
def test_long_lines_take_no_long_time(path: Path, line: str, text: str) -> None:
    """A quadratic search would not end within this suite's time."""
    bad = line.format(text) + "\n"
    error_of(path, "".join(LINES[:5]) + bad + LINES[5])
    path.write_text(bad)
    assert recognise(path) is None


def test_a_batch_has_a_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.traces.kafka.dumps.MAX_BATCH", 100)
    assert "more than 100 bytes" in error_of(path, TEXT).message


def test_dumps_are_recognised(path: Path) -> None:
    path.write_text(TEXT)
    assert recognise(path) == "metadata dump"
    path.write_text(dump_of(snapshot([change(1)]), "Snapshot end offset: 7, epoch: 2"))
    assert recognise(path) == "snapshot dump"
    # A segment without a control record at its start.
    path.write_bytes(gzip.compress(dump_of(encode_batch(9, 1, TIME, [change(1)])).encode()))
    assert recognise(path) == "metadata dump"
    # The dump of an ordinary topic.
    path.write_text(
        TEXT.replace('payload: {"type":"PARTITION_CHANGE_RECORD"', 'payload: {"kind":"x"').replace(
            "LEADER_CHANGE", "ABORT"
        )
    )
    assert recognise(path) is None
    path.write_text("Dumping 0.log\nLog starting offset: 0\n")
    assert recognise(path) is None
