"""Limits on what the replay keeps and reports, and interruptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.messages import request_lines
from highwater.traces.messages.context import Context
from highwater.traces.messages.metadata_index import MetadataIndex, Registration
from highwater.traces.messages.request_replay import Around, Requests
from highwater.traces.replay import replay
from highwater.traces.reports.report import Report
from tests.generation.requests import write_fetches


@pytest.mark.parametrize("ends", [Requests, Around])
def test_an_interruption_is_reported(ends: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: object) -> None:
        raise KeyboardInterrupt

    write_fetches(tmp_path, 4)
    monkeypatch.setattr(ends, "replay" if ends is Requests else "collect", interrupt)
    report = replay(tmp_path, timelines=True)
    assert report.interrupted
    assert "messages explained" in report.figures


@pytest.mark.parametrize(("kept", "gaps"), [(2, 0), (1, 4)])
def test_the_number_of_kept_sessions_is_bounded(
    kept: int, gaps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_lines, "MAX_SESSIONS", kept)
    write_fetches(tmp_path, 6)
    name = "messages guessed: fetch sessions that go on after lines that are missing"
    assert replay(tmp_path).figures.get(name, 0) == gaps


def test_the_receiver_is_found_by_address_port_or_file() -> None:
    """Brokers 1 and 2 have the same port on two machines; a line may use another host name."""
    index = MetadataIndex()
    index.listeners = {"a:9092": 1, "b:9092": 2, "c:9093": 3}
    index.brokers = dict.fromkeys((1, 2, 3), Registration(0, 0, 0, False, False))
    requests = Requests(Context(index, Report("", "", "kafka_4_2")), [])
    found = {
        (listener, file): requests._found_broker(listener, Path(file))
        for listener in ("a:9092", "b:9092", "x:9093", "x:9092", "x:9094")
        for file in ("node2/kafka-request.log", "node7/kafka-request.log")
    }
    in_2, in_7 = "node2/kafka-request.log", "node7/kafka-request.log"
    assert found == {
        ("a:9092", in_2): 1, ("a:9092", in_7): 1, ("b:9092", in_2): 2, ("b:9092", in_7): 2,
        ("x:9093", in_2): 3, ("x:9093", in_7): 3, ("x:9092", in_2): 2, ("x:9092", in_7): None,
        ("x:9094", in_2): 2, ("x:9094", in_7): None,
    }  # fmt: skip
