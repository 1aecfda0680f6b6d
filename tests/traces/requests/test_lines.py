from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from highwater.traces.inputs import BROKER_LOG, inputs, kind_of
from highwater.traces.messages.request_lines import (
    FETCH,
    Counted,
    Sessions,
    read_fetch,
    read_request_log,
)
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from tests.generation.requests import NODES, write_fetches
from tests.traces.json_changes import put

START, END = "Completed request:", " (kafka.request.logger)"


def log_of(directory: Path, fetches: int = 6) -> Path:
    write_fetches(directory, fetches)
    return directory / "logs" / "node1" / "kafka-request.log"


def lines_of(path: Path, **kept: Any) -> list[Any]:
    return list(read_request_log(path, Counted(), **kept))


def test_a_line_has_the_times_of_each_step_of_a_request(tmp_path: Path) -> None:
    path = log_of(tmp_path)
    first = lines_of(path)[0]
    assert (first.api, first.line, first.listener) == (FETCH, 1, f"127.0.0.1:{NODES + 1}")
    assert first.ended - first.arrived == 2.0
    assert first.arrived <= first.taken <= first.answered <= first.ended
    later = lines_of(path, utc_offset_ms=3_600_000)[0]
    assert later.ended == first.ended - 3_600_000


def test_below_a_directory_request_logs_go_with_the_metadata_log(tmp_path: Path) -> None:
    path = log_of(tmp_path)
    found = inputs([tmp_path]).found
    assert [i.request_logs for i in found] == [(path,)]
    with pytest.raises(
        TraceError, match="a request log alone cannot be replayed: name the cluster's metadata log"
    ):
        inputs([path])


def test_lines_that_are_cut_off_are_counted(tmp_path: Path) -> None:
    """A killed process leaves a partial line, and the next process continues in it."""
    path = log_of(tmp_path)
    first, second, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first[:400] + second, *rest[:-1], rest[-1][:300]]))
    counted = Counted()
    found = list(read_request_log(path, counted))
    assert len(found) == len(rest)
    assert (counted.cut, counted.first_cut) == (2, (path, 1))
    report = replay(tmp_path)
    assert any("2 lines of request logs are cut off" in note for note in report.notes)


def changed(path: Path, change: Callable[[dict[str, Any]], object], number: int = 0) -> Path:
    texts = path.read_text().splitlines()
    head, body = texts[number].split(START)
    content = json.loads(body[: -len(END)])
    change(content)
    texts[number] = head + START + json.dumps(content, separators=(",", ":")) + END
    path.write_text("\n".join(texts) + "\n")
    return path


ASKED, ANSWERED = "request/topics/0/partitions/0/", "response/responses/0/partitions/0/"
WRONG: list[tuple[str, object, str]] = [
    ("response", [], "response: expected `object`"),
    ("totalTimeMs", 90_000_000, "totalTimeMs: expected `float` <= 86400000"),
    ("sendTimeMs", -5.0, "sendTimeMs: expected `float` >= 0"),
    ("requestQueueTimeMs", 5.0, "requestQueueTimeMs: longer than totalTimeMs"),
    ("requestHeader/requestApiKey", "1", "requestHeader.requestApiKey: no number"),
    (ASKED + "fetchOffset", 7.0, r"topics\[0\].partitions\[0\].fetchOffset: expected `int`, got"),
    (ASKED + "fetchOffset", 2**63, r"partitions\[0\].fetchOffset: "),
    (ASKED + "currentLeaderEpoch", 2**31, "currentLeaderEpoch: expected `int` <= 2147483647"),
    (ASKED + "lastFetchedEpoch", -2, "lastFetchedEpoch: expected `int` >= -1"),
    (ANSWERED + "highWatermark", None, r"partitions\[0\].highWatermark: expected `int`, got `null`"),
    ("request/topics/0", {"partitions": []}, "request.topics.topicId: missing"),
]


@pytest.mark.parametrize(("field", "value", "message"), WRONG, ids=[message[:60] for *_, message in WRONG])
def test_an_error_says_file_line_and_field(field: str, value: object, message: str, tmp_path: Path) -> None:
    path = changed(log_of(tmp_path), partial(put, path=field, new=value), 1)
    with pytest.raises(TraceError, match=message) as wrong:
        replay(tmp_path)
    assert (wrong.value.path, wrong.value.line) == (str(path), 2)


CHANGES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda body: body["request"].pop("replicaState"), "request.replicaState: missing"),
    (lambda body: body.pop("request"), "2: request: missing"),
    (lambda b: b.update(principal="\N{NO-BREAK SPACE}", clientInformation=None, totalTimeMs=None), "totalTimeMs: "),
]  # fmt: skip


def test_a_missing_field_is_an_error(tmp_path: Path) -> None:
    path = log_of(tmp_path)
    for change, message in CHANGES:
        changed(path, change, 1)
        with pytest.raises(TraceError, match=message):
            replay(tmp_path)


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (b'"x":', "not JSON"),
        (b'"x":"\xff"', "not JSON"),
        (b'"x":' + b"[" * 3000 + b"]" * 3000, "nested too deeply"),
        (b'"x":[' + b"1," * 600_000 + b"1]", "more than 500,000 values"),
        (b'"requestHeader":{"requestApiKey":0,"requestApiVersion":1}', "requestApiKey: stands twice"),
    ],
)
def test_a_line_that_is_no_request_is_an_error(added: bytes, message: str, tmp_path: Path) -> None:
    path = log_of(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"connection":', added + b',"connection":', 1))
    with pytest.raises(TraceError, match=rf"kafka-request\.log:1: .*{message}"):
        lines_of(path)


def test_text_that_is_no_ascii_is_read(tmp_path: Path) -> None:
    path = log_of(tmp_path)
    lines = len(lines_of(path))
    path.write_text(path.read_text().replace("User:ANONYMOUS", "User:é"), "utf-8")
    assert len(lines_of(path)) == lines


def test_older_versions_name_topics_and_the_sender_otherwise(tmp_path: Path) -> None:
    def older(body: dict[str, Any]) -> None:
        request = body["request"]
        request["replicaId"] = request.pop("replicaState")["replicaId"]
        for topic in (*request["topics"], *body["response"]["responses"]):
            topic["topic"] = "t1"
            del topic["topicId"]

    path = changed(log_of(tmp_path), older)
    found = read_fetch(lines_of(path)[0])
    assert (found.replica, found.epoch) == (2, -1)
    assert list(found.requested) == list(found.answers) == [("t1", 0)]


def test_a_write_without_an_answer_is_read(tmp_path: Path) -> None:
    """With acks=0, Kafka logs an empty string as the response."""
    path = log_of(tmp_path)
    number = next(i for i, text in enumerate(path.read_text().splitlines()) if '"PRODUCE"' in text)

    def unanswered(body: dict[str, Any]) -> None:
        body["request"]["acks"], body["response"] = 0, ""

    changed(path, unanswered, number)
    report = replay(tmp_path)
    assert report.unexplained_count == 0


def test_a_fetch_session_keeps_partitions_that_a_fetch_omits(tmp_path: Path) -> None:
    """KIP-227: an incremental fetch keeps the partitions that it does not name."""
    fetches = [
        f for line in lines_of(log_of(tmp_path, 8), wanted=frozenset({FETCH}))
        if (f := read_fetch(line)).replica == 2
    ]  # fmt: skip
    sessions = Sessions()
    key = next(iter(fetches[0].requested))
    assert sessions.take(fetches[0]) == fetches[0].requested
    silent = structs.replace(fetches[1], requested={}, answers={})
    was = fetches[0].requested[key]
    assert (sessions.take(silent), sessions.gaps) == ({key: was}, 0)
    gone_on = sessions.take(fetches[3])  # one is missing
    assert (gone_on, sessions.gaps) == (fetches[3].requested, 1)
    gone = structs.replace(fetches[3], session_epoch=4, requested={}, forgotten=(key,))
    assert (sessions.take(gone), sessions.gaps) == ({}, 1)


def test_a_broker_log_beside_it_is_read_as_before(tmp_path: Path) -> None:
    log_of(tmp_path)
    server = tmp_path / "logs" / "node1" / "server.log"
    server.write_text(
        "[2026-11-21 23:37:36,867] DEBUG [Partition t1-0 broker=1] High watermark updated from "
        "(offset=0, segment=[0:0]) to (offset=1, segment=[0:70]) (kafka.cluster.Partition)\n"
    )
    assert kind_of(server) == BROKER_LOG
    [found] = inputs([tmp_path]).found
    assert (found.broker_logs, len(found.request_logs)) == ((server,), 1)
