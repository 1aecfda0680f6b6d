"""A file that is no recording gives one error that names file, line and field."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater.model.language.errors import LanguageError
from highwater.traces import reading
from highwater.traces.operations.replay import replay_recording as replay
from highwater.traces.reading import TraceError
from tests.traces.recorded import another, fields_of, get, made, put, write

LINES = made().lines


def error_of(path: Path) -> TraceError:
    with pytest.raises(TraceError) as caught:
        replay(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return caught.value


def trouble(path: Path) -> TraceError | None:
    try:
        replay(path)
    except TraceError as wrong:
        found = wrong
    else:
        return None
    assert str(found).isprintable()
    return found


def text(lines: list[dict[str, Any]] = LINES) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n", "the file is empty"),
        (b"hello\n", "not JSON"),
        (b"[1]\n", "not a JSON object"),
        (b'{"meta": 3}\n', "expected an object"),
        (b'{"meta": {}}\n', "missing"),
        (b'{"meta": {"format": "other"}}\n', "none of controller-oracle-1"),
        (b"\xff\xfe\n", "not UTF-8"),
        (b'{"a": NaN}\n', "no JSON number"),
        (b'{"a": 1, "a": 2}\n', "twice"),
        (b"[" * 100_000, "nested too deeply|not JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}\n", "not JSON"),
        (b"\x1f\x8b" + b"nonsense" * 9, "damaged"),
    ],
)
def test_files_that_are_no_recordings(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.ndjson"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message):
        replay(path)


def test_a_compressed_recording_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "made.txt"
    path.write_bytes(gzip.compress(text()))
    assert replay(path).operations == len(LINES) - 1
    path.write_bytes(gzip.compress(text(LINES[:5])) + gzip.compress(text(LINES[5:])))
    assert replay(path).operations == len(LINES) - 1, "two members make one file"


def test_a_plain_recording_that_is_cut_off_names_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.ndjson"
    path.write_bytes(text(LINES[:7])[:-20])
    assert error_of(path).line == 7


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.ndjson.gz"
    path.write_bytes(gzip.compress(b'{"meta": "' + b"x" * (reading.MAX_LINE + 10) + b'"}\n'))
    assert "longer than" in error_of(path).message
    monkeypatch.setattr(reading, "MAX_BYTES", 10_000)
    path.write_bytes(gzip.compress(text()))
    assert "more than 10000 bytes" in error_of(path).message


def test_a_directory_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "not a file" in error_of(tmp_path).message
    assert "cannot be read" in error_of(tmp_path / "none").message


@pytest.mark.parametrize(
    ("line", "path", "value", "field"),
    [
        (1, ("op", "name"), 3, "op.name"),
        (1, ("op", "broker"), 2**70, "op.broker"),
        (1, ("op", "broker"), 7, "op.broker"),
        (1, ("op", "incarnation"), None, "op.incarnation"),
        (1, ("op", "more"), 1, "op"),
        (1, ("timeMs",), 1.5, "timeMs"),
        (1, ("records",), {}, "records"),
        (1, ("records", 0, "type"), "SECRET_RECORD", "records[0].type"),
        (1, ("records", 0, "data", "fenced"), 1, "records[0].data.fenced"),
        (7, ("partitions", 0, "isr"), [0, True], "partitions[0].isr[1]"),
        (7, ("partitions", 0, "leaderRecoveryState"), "LOST", "partitions[0].leaderRecoveryState"),
        (8, ("op", "newIsr"), [{"id": 0}], "op.newIsr[0].epoch"),
        (8, ("op", "requestVersion"), 9, "op.requestVersion"),
        (0, ("meta", "brokers"), 10**6, "meta.brokers"),
        (0, ("meta", "metadataVersion"), "latest", "meta.metadataVersion"),
    ],
)
def test_fields_of_another_kind(tmp_path: Path, line: int, path: Any, value: Any, field: str) -> None:
    lines = json.loads(json.dumps(LINES))
    put(lines[line], path, value)
    wrong = error_of(write(tmp_path / "bad.ndjson", lines))
    assert (wrong.line, wrong.field) == (line + 1, field)


def test_unknown_profiles_and_rules(tmp_path: Path) -> None:
    path = write(tmp_path / "made.ndjson", LINES)
    with pytest.raises(LanguageError, match=r"unknown profile of replication\.controller 'kafka_9'"):
        replay(path, profile="kafka_9")
    with pytest.raises(LanguageError, match=r"unknown rule of .* 'gravity'"):
        replay(path, rules={"gravity": True})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def test_creation_with_an_invalid_min_isr_is_skipped(tmp_path: Path) -> None:
    """The replay skips this operation and continues from the recorded state."""
    lines = json.loads(json.dumps(LINES))
    creation = next(i for i, line in enumerate(lines) if line.get("op", {}).get("name") == "createTopic")
    put(lines[creation], ("op", "configs", "min.insync.replicas"), "two")
    report = replay(write(tmp_path / "two.ndjson", lines))
    assert list(report.skipped) == ["createTopic with a value that min.insync.replicas cannot have"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), value=json_values)
def test_any_value_in_any_field_is_at_most_one_error(tmp_path: Path, seed: int, value: Any) -> None:
    rng = random.Random(seed)
    lines = json.loads(json.dumps(LINES))
    line = rng.randrange(len(lines))
    path = rng.choice(list(fields_of(lines[line])))
    put(lines[line], path, rng.choice([value, another(rng, get(lines[line], path))]))
    wrong = trouble(write(tmp_path / "fuzzed.ndjson", lines))
    assert wrong is None or wrong.line is not None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(content=st.binary(max_size=200), gz=st.booleans(), at=st.integers(0, 3000))
def test_any_bytes_are_at_most_one_error(tmp_path: Path, content: bytes, gz: bool, at: int) -> None:
    whole = gzip.compress(text()) if gz else text()
    path = tmp_path / "bytes"
    path.write_bytes(whole[:at] + content + whole[at + len(content) :])
    trouble(path)
