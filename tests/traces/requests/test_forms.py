"""A line that has a form says what its JSON says, and what is wrong with it is told in the same words."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from highwater.traces.messages import request_lines
from highwater.traces.messages.request_lines import (
    FETCH,
    HEARTBEAT,
    PRODUCE,
    Counted,
    Plain,
    RequestLine,
    read_request_log,
)
from highwater.traces.messages.request_messages import read_fetch, read_heartbeat, read_produce
from highwater.traces.reading import INT32, INT64, TraceError
from tests.generation.requests import RequestLogs, write_fetches
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2

_WANTED = frozenset({FETCH, PRODUCE, HEARTBEAT})


def made(directory: Path) -> bytes:
    """A log with fetches, writes and heartbeats."""
    write_fetches(directory, 12)
    with RequestLogs(directory / "other") as other:
        other.heartbeat(2, 7, 4)
    logs = (directory / "logs" / "node1", directory / "other" / "logs" / "node100")
    return b"".join((log / "kafka-request.log").read_bytes() for log in logs)


def said(line: RequestLine) -> Any:
    """All that is made of a line, but for how it was read."""
    found = structs.astuple(structs.replace(line, said=None))
    if line.api == HEARTBEAT:
        return found, read_heartbeat(line)[1:]
    if line.api == FETCH:
        return found, structs.astuple(structs.replace(read_fetch(line), line=None))
    return found, [structs.astuple(p) for p in read_produce(line)]


def outcome(path: Path) -> Any:
    try:
        return [said(line) for line in read_request_log(path, Counted(), _WANTED)]
    except TraceError as wrong:
        return str(wrong)


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What is made of a log with forms, and without them."""
    formed = outcome(path)
    with monkeypatch.context() as without:
        without.setattr(request_lines, "form_of", lambda api, text: None)
        return formed, outcome(path)


@needs_clusters_4_2
def test_a_recorded_log_says_the_same_with_forms_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = CLUSTERS_4_2 / "unclean-requests-elr" / "logs"
    types = set()
    for node in ("node0", "node100"):
        path = logs / node / "kafka-request.log.gz"
        types |= {type(line.said) for line in read_request_log(path, Counted(), _WANTED)}
        formed, plain = both(path, monkeypatch)
        assert len(formed) > 40
        assert formed == plain
    assert types == {request_lines.FetchForm, request_lines.ProduceForm, request_lines.HeartbeatForm}


def test_changed_bytes_say_the_same_with_forms_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes put in the place of others: what can be read is the same, and so is what is told of the rest."""
    whole, chosen, path = made(tmp_path).splitlines(keepends=True), random.Random(20), tmp_path / "one.log"
    told = 0
    for number in range(250):
        line = bytearray(whole[number % len(whole)])
        for _ in range(chosen.randint(1, 2)):
            at = chosen.randrange(40, len(line) - 30)
            line[at] = chosen.choice(b'0123456789-.eE"{}[],:tfn\\ \xc3\xa9\x00x')
        path.write_bytes(line)
        formed, plain = both(path, monkeypatch)
        assert formed == plain, bytes(line)
        told += isinstance(formed, str)
    assert 25 < told < 225


CHANGES = [
    (b'"acks":-1', b'"acks":-1.0'),
    (b'"fetchOffset":0', b'"fetchOffset":0.0'),
    (b'"fetchOffset":0', b'"fetchOffset":0,"fetchOffset":5'),
    (b'"highWatermark":0', b'"highWatermark":null'),
    (b'"errorCode":0', b'"errorCode":4294967296'),
    (b'"remoteTimeMs":0.0', b'"remoteTimeMs":"long"'),
    (b'"remoteTimeMs":0.0', b'"remoteTimeMs":NaN'),
    (b'"totalTimeMs":2.0', b'"totalTimeMs":2'),
    (b'"totalTimeMs":2.0', b'"totalTimeMs":90000000'),
    (b'"sendTimeMs":0.0', b'"sendTimeMs":-5.0'),
    (b'"isFenced":false', b'"isFenced":0'),
    (b'"currentMetadataOffset":4', b'"currentMetadataOffset":-2'),
    (b'"brokerEpoch":7,', b""),
    (b'"requestQueueTimeMs":0.0', b'"requestQueueTimeMs":5.0'),
    (b'"requestApiKey":1,', b'"requestApiKey":1,"requestApiKey":0,'),
    (b'"principal":"User:ANONYMOUS"', b'"principal":"User:\xc3\xa9"'),
    (b'"principal":"User:ANONYMOUS"', b'"principal":"User:\xff"'),
    (b'"principal":"User:ANONYMOUS"', b'"principal":' + b"[" * 3000 + b"]" * 3000),
    (b'"topicId"', b'"topic"'),
    (b'"replicaState":{"replicaId":2,', b'"replicaId":2,"replicaState":null,"x":{'),
    (b'"lastFetchedEpoch":-1', b'"lastFetchedEpoch":"x"'),
    (b'"forgottenTopicsData":[]', b'"forgottenTopicsData":[{"topicId":"t","partitions":[0,1]}]'),
    (b'"forgottenTopicsData":[]', b'"forgottenTopicsData":null'),
    (b'"preferredReadReplica":-1', b'"divergingEpoch":{"epoch":1,"endOffset":2}'),
]


@pytest.mark.parametrize(("before", "after"), CHANGES, ids=[repr(after)[:50] for _, after in CHANGES])
def test_changed_fields_say_the_same_with_forms_and_without(
    before: bytes, after: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, path = made(tmp_path), tmp_path / "one.log"
    assert before in text
    path.write_bytes(text.replace(before, after))
    formed, plain = both(path, monkeypatch)
    assert formed == plain


LARGEST = (("epoch", INT64), ("leader_epoch", INT32), ("offset", INT64), ("last_epoch", INT32), ("hwm", INT64),
           ("parted", INT64), ("end", INT64))  # fmt: skip


@pytest.mark.parametrize(("field", "largest"), LARGEST)
def test_numbers_go_up_to_the_largest_that_kafka_has(field: str, largest: int) -> None:
    """In a line without a form, too: −1 to the largest of its type, and no further."""

    def fetch(value: object) -> Any:
        said = dict.fromkeys((name for name, _ in LARGEST), 0) | {field: value}
        asked = {
            "partition": 0, "currentLeaderEpoch": said["leader_epoch"], "fetchOffset": said["offset"],
            "lastFetchedEpoch": said["last_epoch"],
        }  # fmt: skip
        answer = {
            "partitionIndex": 0, "errorCode": 0, "highWatermark": said["hwm"], "recordsSizeInBytes": 0,
            "divergingEpoch": {"epoch": said["parted"], "endOffset": said["end"]},
        }  # fmt: skip
        request = {
            "replicaState": {"replicaId": 1, "replicaEpoch": said["epoch"]}, "sessionId": 0, "sessionEpoch": 0,
            "topics": [{"topicId": "t", "partitions": [asked]}], "forgottenTopicsData": [],
        }  # fmt: skip
        response = {"errorCode": 0, "sessionId": 0, "responses": [{"topicId": "t", "partitions": [answer]}]}
        plain = Plain({"requestApiKey": FETCH}, request, response)
        return read_fetch(RequestLine(Path("x"), 1, FETCH, 0, 0, 0, 0, False, "", "", plain))

    assert all(fetch(value).asked for value in (-1, 0, largest))
    wrong: tuple[object, ...] = (-2, largest + 1, True, 1.0, "1")
    for value in wrong:
        with pytest.raises(TraceError):
            fetch(value)
