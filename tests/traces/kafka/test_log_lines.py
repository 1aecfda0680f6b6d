"""Time and message of a line, in the layouts that clusters really have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.traces.kafka.broker_log import BecameFollower, BrokerLog, is_broker_log
from highwater.traces.kafka.log_lines import LogLines

MESSAGE = (
    "[Broker id=1] Follower t1-0 starts at leader epoch 6 from offset 299 with partition epoch 10 and high watermark "
    "298. Current leader is 0. Previous leader Some(2) and previous leader epoch was 5."
)
LOGGER = " (state.change.logger)"
TIME = 1_795_304_427_032  # 2026-11-21 23:40:27.032 UTC
SECOND = TIME - 32
LAYOUTS = {
    "Kafka": (f"[2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}", TIME),
    "Strimzi": (f"2026-11-21 23:40:27,032 INFO {MESSAGE} (state.change.logger) [metadata-loader-event-handler]", TIME),
    "thread in front": (f"[2026-11-21 23:40:27,032] INFO [kafka-0-metadata-loader] {MESSAGE}{LOGGER}", TIME),
    "logger in front": (f"2026-11-21T23:40:27.032Z  INFO 1 --- [main] state.change.logger : {MESSAGE}", TIME),
    "kubectl": (f"2025-07-03T12:03:09.123456789Z [2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}", TIME),
    "compose": (f"kafka1           | [2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}", TIME),
    "journald": (f"Nov 22 00:40:27 host kafka[123]: [2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}", TIME),
    "colours": (f"\x1b[32m[2026-11-21 23:40:27.032]\x1b[0m \x1b[1;34mINFO\x1b[0m {MESSAGE}", TIME),
    "offset from UTC": (f"2026-11-22T00:40:27.032+0100 INFO {MESSAGE}", TIME),
    "microseconds": (f"2026-11-21 23:40:27.032999 INFO {MESSAGE}", TIME),
    "no ms": (f"2026/11/21 23:40:27 INFO {MESSAGE}", SECOND),
    "log4j DATE": (f"21 Nov 2026 23:40:27,032 INFO {MESSAGE}", TIME),
    "log4j COMPACT": (f"20261121234027032 INFO {MESSAGE}", TIME),
    "log4j ISO8601_BASIC": (f"20261121T234027,032 INFO {MESSAGE}", TIME),
    "American": (f"Nov 21, 2026 23:40:27 INFO {MESSAGE}", SECOND),
    "day first": (f"21/11/2026 23:40:27.032 INFO {MESSAGE}", TIME),
    "month first": (f"11/21/2026 23:40:27.032 INFO {MESSAGE}", TIME),
    "logstash": (json.dumps({"@timestamp": "2026-11-21T23:40:27.032Z", "level": "INFO", "message": MESSAGE}), TIME),
    "log4j JSON": (
        json.dumps({"instant": {"epochSecond": SECOND // 1000, "nanoOfSecond": 32_000_000}, "message": MESSAGE}), TIME,
    ),
    "epoch": (json.dumps({"timeMillis": TIME, "loggerName": "state.change.logger", "message": MESSAGE}), TIME),
    "docker": (
        json.dumps({"log": f"[2026-11-21 23:40:27,032] INFO {MESSAGE}\n", "time": "2025-01-01T00:00:00Z"}), TIME,
    ),
    "CRLF": (f"[2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}\r", TIME),
}  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout(tmp_path: Path, layout: str, encoding: str) -> None:
    """Twice, so that the second line is read by the form of the first one."""
    line, time = LAYOUTS[layout]
    assert is_broker_log(line.encode())
    path = tmp_path / "state-change.log"
    path.write_text(f"{line}\n{line}\n", encoding=encoding, newline="")
    log = BrokerLog(path)
    found = [BecameFollower(path, number, time, 1, "t1", 0, 6, 299, 10, 298, 0) for number in (1, 2)]
    assert (list(log.events()), log.unread) == (found, 0)


@pytest.mark.parametrize(
    "line",
    [
        f"INFO {MESSAGE}{LOGGER}",
        f"23:40:27,032 INFO {MESSAGE}",
        f"2026-13-21 23:40:27,032 INFO {MESSAGE}",
        f"[2026-11-21 23:40:27,032] INFO {MESSAGE.replace('from offset', 'at offset')}",
        f"[2026-11-21 23:40:27,032] INFO {MESSAGE[:60]}",
        json.dumps({"message": MESSAGE}),
    ],
)
def test_a_line_that_cannot_be_read_is_counted(tmp_path: Path, line: str) -> None:
    path = tmp_path / "state-change.log"
    path.write_text(f"\n{line}\n")
    log = BrokerLog(path)
    assert list(log.events()) == []
    assert (log.unread, log.first_unread) == (1, f"2: {line[:199]}…" if len(line) > 200 else f"2: {line}")


def test_the_last_line_may_be_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "state-change.log"
    path.write_text(f"[2026-11-21 23:40:27,032] INFO {MESSAGE[:60]}")
    log = BrokerLog(path)
    assert (list(log.events()), log.unread) == ([], 0)


def test_the_order_of_day_and_month_is_known_once_a_line_shows_it() -> None:
    """Before that, a guess could move an event by months."""
    import re

    lines, message = LogLines(), re.compile("message")
    times = [
        lines.read(f"{day} 00:00:00 message".encode(), b"message", message)
        for day in ("05/11/2026", "11/21/2026", "05/11/2026")
    ]
    assert [None if found is None else found.time_ms for found in times] == [
        None,
        1_795_219_200_000,
        1_778_457_600_000,
    ]
