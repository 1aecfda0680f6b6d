"""Lines of brokers' logs: their events, and time and message in the layouts that clusters really have."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from highwater.traces.kafka import broker_log
from highwater.traces.kafka.broker_log import (
    BecameFollower,
    BecameLeader,
    BrokerEvent,
    BrokerLog,
    ControllerResigned,
    EndShown,
    FetcherRemoved,
    HwmLowered,
    HwmMoved,
    InitialHwm,
    IsrShrinking,
    IsrSubmitted,
    IsrUpdated,
    LeoRecorded,
    LogDeleted,
    LogLoaded,
    LogSetAside,
    RegistrationFailed,
    StillFollower,
    StillLeader,
    TopicConfigured,
    Truncating,
    UtcOffset,
    is_broker_log,
    read_broker_log,
)
from highwater.traces.kafka.log_lines import LogLines
from highwater.traces.reading import INT32, INT64, TraceError
from tests.traces.broker_lines import ID, members
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2

PARTITION, STATE = "kafka.cluster.Partition", "state.change.logger"
FETCHERS, REGISTERS = "kafka.server.ReplicaFetcherManager", "kafka.server.BrokerLifecycleManager"
P, B = "[Partition t1-0 broker=0]", "[Broker id=0]"
EXPAND = f"{P} Submitting ISR state change PendingExpandIsr(newInSyncReplicaId=2, "
SHRINK = f"{P} Submitting ISR state change PendingShrinkIsr(outOfSyncReplicaIds="
SENT = (
    f"sentLeaderAndIsr=LeaderAndIsr(leader=0, leaderEpoch=4, isrWithBrokerEpoch=[{members((0, 2))}], "
    "leaderRecoveryState=RECOVERED, partitionEpoch=7), leaderRecoveryState=RECOVERED, "
    "lastCommittedState=CommittedPartitionState(isr=Set({}), leaderRecoveryState=RECOVERED))"
)
IN_STATE = (
    f"state change for t1-0 with topic id Some({ID}) and partition state LeaderAndIsrPartitionState(topicName='t1', "
    "partitionIndex=0, controllerEpoch=-1, leader=0, leaderEpoch=4, isr=[0, 2], partitionEpoch=7, replicas=[0, 1, 2], "
    "addingReplicas=[], removingReplicas=[], isNew=false, leaderRecoveryState=0) since "
)
# Both texts in the format of Kafka 4.2.
SENT_4_2 = SENT.replace("(isr=Set({})", "[isr=[{}]").removesuffix("))") + "])"
IN_STATE_4_2 = (
    f"state change for t1-0 with topic id Some({ID}), partition registration PartitionRegistration(replicas=[0, 1, 2], "
    f"directories=[{ID}, {ID}, {ID}], isr=[0, 2], removingReplicas=[], addingReplicas=[], elr=[1], lastKnownElr=[], "
    "leader=0, leaderRecoveryState=RECOVERED, leaderEpoch=4, partitionEpoch=7) and isNew=false since "
)
LEADS = (
    f"{B} Leader t1-0 with topic id Some({ID}) starts at leader epoch 3 from offset 85 with partition epoch 6, "
    "high watermark 80, ISR [0,2], adding replicas [] and removing replicas [1] "
)
IS_LEADER = (
    "it is already the leader with leader epoch 4. Current high watermark 144, ISR [0,2], adding replicas [] and "
    "removing replicas []."
)
IS_FOLLOWER = "it is already a follower with leader epoch 4."
LOWERED = (
    "[UnifiedLog partition=t1-0, dir=work/x/node0] Non-monotonic update of high watermark from (offset=133, "
    "segment=[-1:-1]) to (offset=59, segment=[0:5654])"
)
LOG = "org.apache.kafka.storage.internals.log.UnifiedLog"
ASIDE = "/a b/t1-0.5ead9c6df1a54d5bac44249d4d497cdb"
LINES: list[tuple[str, str, str, type[BrokerEvent], tuple[object, ...]]] = [
    ("DEBUG", PARTITION, f"{P} High watermark updated from (offset=5, segment=[0:10]) to (offset=6, segment=[-1:-1])",
     HwmMoved, (5, 6)),
    ("DEBUG", PARTITION, f"{P} High watermark updated from (offset=5 segment=[0:10]) to (offset=6 segment=[0:20])",
     HwmMoved, (5, 6)),
    ("DEBUG", PARTITION, f"{P} Recorded replica 2 log end offset (LEO) position 14 and log start offset 3.",
     LeoRecorded, (2, 14)),
    ("INFO", PARTITION, f"{P} ISR updated to 2,1,0  and version updated to 6", IsrUpdated, ((2, 1, 0), 6, False)),
    ("INFO", PARTITION, f"{P} ISR updated to 0 (under-min-isr) and version updated to 2", IsrUpdated, ((0,), 2, True)),
    ("INFO", PARTITION, f"{P} Shrinking ISR from 2,3,0 to 2. Leader: (highWatermark: 19, endOffset: 20). Out of sync "
     "replicas: (brokerId: 3, endOffset: 19, lastCaughtUpTimeMs: 1795176009032) (brokerId: 0, endOffset: -1, "
     "lastCaughtUpTimeMs: 1795176009030).", IsrShrinking, ((2, 3, 0), (2,), 19, 20, ((3, 19), (0, -1)))),
    ("DEBUG", PARTITION, EXPAND + SENT.format("0"), IsrSubmitted, (4, 7, (0, 2), (0,), 2, ())),
    ("DEBUG", PARTITION, EXPAND + SENT_4_2.format("0"), IsrSubmitted, (4, 7, (0, 2), (0,), 2, ())),
    ("DEBUG", PARTITION, f"{SHRINK}Set(1, 3), {SENT.format('0, 1, 2, 3')}", IsrSubmitted,
     (4, 7, (0, 2), (0, 1, 2, 3), None, (1, 3))),
    ("DEBUG", PARTITION, f"{SHRINK}[1, 3], {SENT_4_2.format('0, 1, 2, 3')}", IsrSubmitted,
     (4, 7, (0, 2), (0, 1, 2, 3), None, (1, 3))),
    ("INFO", PARTITION, f"{P} Log loaded for partition t1-0 with initial high watermark 39", InitialHwm, (39,)),
    ("INFO", STATE, LEADS + ". Previous leader Some(1) and previous leader epoch was 2.", BecameLeader,
     (3, 85, 6, 80, (0, 2), False)),
    ("INFO", STATE, LEADS + "(under-min-isr). Previous leader None and previous leader epoch was -1.", BecameLeader,
     (3, 85, 6, 80, (0, 2), True)),
    ("INFO", STATE, f"{B} Skipped the become-leader {IN_STATE}{IS_LEADER}", StillLeader, (4, 7, 144, (0, 2))),
    ("INFO", STATE, f"{B} Skipped the become-leader {IN_STATE_4_2}{IS_LEADER}", StillLeader, (4, 7, 144, (0, 2))),
    ("INFO", STATE, f"{B} Skipped the become-leader {IN_STATE}the leader is already at a newer partition epoch 9.",
     StillLeader, (4, 7, -1, (0, 2))),
    ("INFO", STATE, f"{B} Skipped the become-follower {IN_STATE}{IS_FOLLOWER}", StillFollower, (4, 7, (0, 2))),
    ("INFO", STATE, f"{B} Skipped the become-follower {IN_STATE_4_2}{IS_FOLLOWER}", StillFollower, (4, 7, (0, 2))),
    ("INFO", STATE, f"{B} Follower t1-0 starts at leader epoch 2 from offset 145 with partition epoch 5 and high "
     "watermark 144. Current leader is 2. Previous leader Some(2) and previous leader epoch was 2.", BecameFollower,
     (2, 145, 5, 144, 2)),
    ("INFO", STATE, f"{B} Follower t1-0 starts at leader epoch 6 from offset 299 with partition epoch 10 and high "
     "watermark 298. Current leader is -1. Previous leader Some(-1) and previous leader epoch was 6.", BecameFollower,
     (6, 299, 10, 298, None)),
    ("INFO", "kafka.server.ReplicaFetcherThread", "[ReplicaFetcher replicaId=0, leaderId=2, fetcherId=0] Truncating "
     "partition t1-0 with TruncationState(offset=59, completed=true) due to leader epoch and offset EpochEndOffset("
     "errorCode=0, partition=0, leaderEpoch=0, endOffset=59)", Truncating, (2, 59)),
    ("WARN", "kafka.log.UnifiedLog", LOWERED, HwmLowered, (133, 59)),
    ("WARN", "org.apache.kafka.storage.internals.log.UnifiedLog", LOWERED, HwmLowered, (133, 59)),
    ("INFO", "kafka.log.LogManager", "Completed load of Log(dir=work/x/node0/t1-0, topicId=BHjwkdgcRZK4YgaEP-5NYQ, "
     "topic=t1, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=2, logEndOffset=59) with 1 segments, "
     "local-log-start-offset 2 and log-end-offset 59 in 6ms (1/1 completed in work/x/node0)", LogLoaded, (59,)),
    ("INFO", LOG, "[LogLoader partition=t1-0, dir=x/node0] Loading producer state till offset 59", LogLoaded, (59,)),
    ("INFO", LOG, "[UnifiedLog partition=t1-0, dir=x/node0] Loading producer state till offset 59", EndShown, (59,)),
    ("INFO", LOG, "[UnifiedLog partition=t1-0, dir=x/node0] Truncating to 60 has no effect as the largest offset in "
     "the log is 58", EndShown, (59,)),
    ("INFO", PARTITION, f"{P} Shrinking ISR from 2,3 to 2. Leader: (highWatermark: 19, endOffset: 20). Out of sync "
     "replicas: (brokerId: 3, endOffset: 19).", IsrShrinking, ((2, 3), (2,), 19, 20, ((3, 19),))),
    ("INFO", FETCHERS, "[ReplicaFetcherManager on broker 0] Removed fetcher for partitions Set(t1-0)",
     FetcherRemoved, ()),
    ("ERROR", "org.apache.kafka.server.fault.LoggingFaultHandler", "Encountered fault: registerBroker: event failed "
     "with IllegalArgumentException (treated as UnknownServerException) at epoch 7 in 40 microseconds. Renouncing "
     "leadership and reverting to the last committed offset 456.", ControllerResigned,
     ("registerBroker", "IllegalArgumentException")),
    ("INFO", "kafka.log.LogManager", f"Log for partition t1-0 is renamed to {ASIDE}-delete and is scheduled for "
     "deletion", LogSetAside, (f"{ASIDE}-delete",)),
    ("WARN", "kafka.log.LogManager", f"Log for partition t1-0 is marked as stray and renamed to {ASIDE}-stray",
     LogSetAside, (f"{ASIDE}-stray",)),
    ("WARN", "org.apache.kafka.storage.internals.log.LogManager", f"Log in /a b/t1-0 marked stray and renamed to "
     f"{ASIDE}-stray", LogSetAside, (f"{ASIDE}-stray",)),
    ("INFO", "kafka.log.LogManager", f"Deleted log for partition t1-0 in {ASIDE}-delete.", LogDeleted,
     (f"{ASIDE}-delete",)),
    ("INFO", REGISTERS, "[BrokerLifecycleManager id=0] Unable to register broker 0 because the controller returned "
     "error UNKNOWN_SERVER_ERROR", RegistrationFailed, ()),
    # Loggers of 4.3 and 4.4.
    ("INFO", f"org.apache.{REGISTERS}", "[BrokerLifecycleManager id=0] Unable to register broker 0 because the "
     "controller returned error UNKNOWN_SERVER_ERROR", RegistrationFailed, ()),
    ("INFO", "org.apache.kafka.storage.internals.log.LogManager", "Completed load of Log(dir=work/x/node0/t1-0, "
     "topicId=BHjwkdgcRZK4YgaEP-5NYQ, topic=t1, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=2, "
     "logEndOffset=59) with 1 segments, local-log-start-offset 2 and log-end-offset 59 in 6ms (1/1 completed in "
     "work/x/node0)", LogLoaded, (59,)),
]  # fmt: skip

HEADER = "[2026-11-20 11:58:05,144] INFO [BrokerServer id=0] Starting broker (kafka.server.BrokerServer)"
TIME = 1_795_175_885_144


def as_line(level: str, logger: str, message: str) -> str:
    return f"[2026-11-20 11:58:05,144] {level} {message} ({logger})"


def events(tmp_path: Path, *lines: str) -> list[BrokerEvent]:
    path = tmp_path / "server.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return list(read_broker_log(path))


@pytest.mark.parametrize(("level", "logger", "message", "kind", "fields"), LINES)
def test_each_kind_of_line(
    tmp_path: Path, level: str, logger: str, message: str, kind: type[BrokerEvent], fields: tuple[object, ...]
) -> None:
    path = tmp_path / "server.log"
    of = ("", -1) if kind in (ControllerResigned, RegistrationFailed) else ("t1", 0)
    topic_id = ID if ID in message and kind is not FetcherRemoved else ""
    expected = kind(path, 2, TIME, 0, *of, *fields, topic_id=topic_id)
    assert events(tmp_path, HEADER, as_line(level, logger, message)) == [expected]


@pytest.mark.parametrize(("later", "broker"), [("", 5), (HEADER.replace("id=0", "id=3"), 3)])
def test_the_broker_of_a_line_without_a_number(tmp_path: Path, later: str, broker: int) -> None:
    """It is the number that a later line of the file shows, else the one in the path."""
    (tmp_path / "node5").mkdir()
    line = as_line("INFO", LOG, "[LogLoader partition=t1-0, dir=x] Loading producer state till offset 59")
    assert [event.broker for event in events(tmp_path / "node5", line, later)] == [broker]


def test_settings_of_a_topic(tmp_path: Path) -> None:
    text = as_line(
        "INFO", "kafka.server.metadata.DynamicConfigPublisher",
        "[DynamicConfigPublisher broker id=3] Updating topic a.b-1 with new configuration : {}",
    )  # fmt: skip
    lines = (
        text.format("min.insync.replicas -> 2,unclean.leader.election.enable -> false"),
        text.format("x -> 2"),
    )
    path = tmp_path / "server.log"
    assert events(tmp_path, *lines) == [
        TopicConfigured(path, 1, TIME, 3, "a.b-1", -1, 2),
        TopicConfigured(path, 2, TIME, 3, "a.b-1", -1, None),
    ]


def test_several_partitions_in_one_line(tmp_path: Path) -> None:
    line = as_line(
        "INFO", "kafka.server.ReplicaFetcherManager",
        "[ReplicaFetcherManager on broker 4] Removed fetcher for partitions Set(t1-0, my.topic-x-12)",
    )  # fmt: skip
    assert [(e.broker, e.topic, e.partition) for e in events(tmp_path, line)] == [
        (4, "t1", 0),
        (4, "my.topic-x", 12),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\tat kafka.server.ReplicaFetcherThread.doWork(ReplicaFetcherThread.scala:1)",
        "java.io.IOException: [Partition t1-0 broker=0] High watermark updated from",
        "[2026-11-20 11:58:05,144] DEBUG [Partition t1-0 broker=0] Recorded replica 2 log end offset (LEO) posi",
        as_line("DEBUG", PARTITION, "[Partition t1-0 broker=0] Recorded replica two"),
        as_line("INFO", PARTITION, "[Partition t1-0 broker=0] Something that is said in a later version"),
        as_line("INFO", "kafka.log.LogManager", "Completed load of Log(dir=a/t1-0.abc-delete, topicId=x, topic=t1, "
                "partition=0, highWatermark=0, logStartOffset=0, logEndOffset=9)"),
    ],
)  # fmt: skip
def test_lines_that_are_no_event_are_skipped(tmp_path: Path, line: str) -> None:
    good = as_line(*LINES[0][:2], LINES[0][2])
    assert [e.line for e in events(tmp_path, HEADER, line, good)] == [3]


@pytest.mark.parametrize(
    ("index", "old", "new", "field"),
    [
        (0, "offset=5,", f"offset={INT64 + 1},", "before"),
        (0, "offset=6,", f"offset={'9' * 5000},", "after"),
        (0, "offset=6,", "offset=-2,", "after"),
        (2, "replica 2", f"replica {INT32 + 1}", "replica"),
        (2, "t1-0", f"t1-{INT32 + 1}", "partition"),
        (2, "broker=0", f"broker={INT32 + 1}", "broker"),
        (3, "2,1,0", "2,1,1", "isr"),
        (3, "updated to 6", "updated to -6", "pe"),
        (5, "brokerId: 3", "brokerId: 99999999999", "brokerId"),
        (5, "endOffset: 19,", "endOffset: -5,", "endOffset"),
        (6, "brokerId=2", f"brokerId={INT32 + 1}", "isr"),
        (11, "[0,2]", f"[{','.join(map(str, range(2000)))}]", "isr"),
    ],
)
def test_numbers_out_of_range_are_refused(tmp_path: Path, index: int, old: str, new: str, field: str) -> None:
    line = as_line(*LINES[index][:2], LINES[index][2])
    assert old in line
    with pytest.raises(TraceError) as error:
        events(tmp_path, HEADER, line.replace(old, new))
    assert (error.value.line, error.value.field) == (2, field)


@pytest.mark.parametrize(
    "time", ["2026-13-20 11:58:05,144", "0000-11-20 11:58:05,144", "2026-11-20 24:58:05,144"]
)
def test_a_line_whose_time_cannot_be_is_not_read(tmp_path: Path, time: str) -> None:
    good = as_line(*LINES[0][:2], LINES[0][2])
    (tmp_path / "server.log").write_text(f"{good}\n{good.replace('2026-11-20 11:58:05,144', time)}\n")
    log = BrokerLog(tmp_path / "server.log")
    assert [event.line for event in log.events()] == [1]
    assert (log.unread, log.first_unread[:3]) == (1, "2: ")


def test_broker_logs_are_recognised() -> None:
    text = (HEADER + "\n").encode()
    assert is_broker_log(text)
    assert is_broker_log(b"\tat a stack trace\n" + text + b"[2026-11-20 11:58")
    for other in (b"", b'{"meta": {}}', b"[2026-11-20 11:58:05,144] INFO hello (org.example)\n", text[:40]):
        assert not is_broker_log(other)


def test_the_offset_from_utc_is_that_of_most_pairs() -> None:
    offset = UtcOffset()
    assert offset.offset_ms is None
    offset.add(10**15, 0)
    assert offset.offset_ms is None, "no zone is so far away"
    hour = 3_600_000
    for lag in (3, 40, 90_000, 5 * hour, 9 * hour):
        offset.add(1_000_000_000 + 2 * hour + lag, 1_000_000_000)
    assert offset.offset_ms == 2 * hour
    offset = UtcOffset()
    offset.add(-hour - 20, 0)
    assert offset.offset_ms == -hour
    offset.add(hour, 0)
    assert offset.offset_ms == -hour, "a broker can be late, and not early"


# --- recorded clusters ----------------------------------------------------------------------------------------

WORDS = {
    HwmMoved: r"\] High watermark updated from ",
    LeoRecorded: r"\] Recorded replica ",
    IsrUpdated: r"\] ISR updated to ",
    IsrShrinking: r"\] Shrinking ISR from ",
    IsrSubmitted: r"\] Submitting ISR state change ",
    BecameLeader: r"\] Leader \S+ with topic",
    StillLeader: "Skipped the become-leader",
    BecameFollower: r"\] Follower \S+ starts",
    StillFollower: "Skipped the become-follower",
    Truncating: r"\] Truncating partition ",
    InitialHwm: "Log loaded for partition",
    TopicConfigured: "Updating topic ",
}


@needs_clusters_4_2
@pytest.mark.parametrize("name", ["down-elr-unclean-210", "reassigns-elr", "raft3-elr"])
def test_every_recorded_line_of_a_kind_is_read(name: str) -> None:
    for path in (CLUSTERS_4_2 / name).glob("logs/node[0-9]/s*.log.gz"):
        content = gzip.decompress(path.read_bytes())
        assert is_broker_log(content[: 1 << 14])
        found = Counter(map(type, read_broker_log(path)))
        assert {kind: found[kind] for kind in WORDS} == {
            kind: len(re.findall(words.encode(), content)) for kind, words in WORDS.items()
        }


def test_every_kind_of_event_has_a_line_here() -> None:
    tested = {kind.__name__ for *_, kind, _ in LINES} | {"TopicConfigured", "BrokerEvent"}
    kinds = [k for k in vars(broker_log).values() if isinstance(k, type) and issubclass(k, BrokerEvent)]
    assert tested == {kind.__name__ for kind in kinds}


# --- layouts ------------------------------------------------------------------------------------------


MESSAGE = (
    "[Broker id=1] Follower t1-0 starts at leader epoch 6 from offset 299 with partition epoch 10 and high watermark "
    "298. Current leader is 0. Previous leader Some(2) and previous leader epoch was 5."
)
LOGGER = " (state.change.logger)"
AT = 1_795_304_427_032  # 2026-11-21 23:40:27.032 UTC
SECOND = AT - 32
LAYOUTS = {
    "Kafka": (f"[2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}", AT),
    "Strimzi": (f"2026-11-21 23:40:27,032 INFO {MESSAGE} (state.change.logger) [metadata-loader-event-handler]", AT),
    "thread in front": (f"[2026-11-21 23:40:27,032] INFO [kafka-0-metadata-loader] {MESSAGE}{LOGGER}", AT),
    "logger in front": (f"2026-11-21T23:40:27.032Z  INFO 1 --- [main] state.change.logger : {MESSAGE}", AT),
    "kubectl": (f"2025-07-03T12:03:09.123456789Z [2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}", AT),
    "compose": (f"kafka1           | [2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}", AT),
    "journald": (f"Nov 22 00:40:27 host kafka[123]: [2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}", AT),
    "colours": (f"\x1b[32m[2026-11-21 23:40:27.032]\x1b[0m \x1b[1;34mINFO\x1b[0m {MESSAGE}", AT),
    "offset from UTC": (f"2026-11-22T00:40:27.032+0100 INFO {MESSAGE}", AT),
    "microseconds": (f"2026-11-21 23:40:27.032999 INFO {MESSAGE}", AT),
    "no ms": (f"2026/11/21 23:40:27 INFO {MESSAGE}", SECOND),
    "log4j DATE": (f"21 Nov 2026 23:40:27,032 INFO {MESSAGE}", AT),
    "log4j COMPACT": (f"20261121234027032 INFO {MESSAGE}", AT),
    "log4j ISO8601_BASIC": (f"20261121T234027,032 INFO {MESSAGE}", AT),
    "American": (f"Nov 21, 2026 23:40:27 INFO {MESSAGE}", SECOND),
    "day first": (f"21/11/2026 23:40:27.032 INFO {MESSAGE}", AT),
    "month first": (f"11/21/2026 23:40:27.032 INFO {MESSAGE}", AT),
    "logstash": (json.dumps({"@timestamp": "2026-11-21T23:40:27.032Z", "level": "INFO", "message": MESSAGE}), AT),
    "log4j JSON": (
        json.dumps({"instant": {"epochSecond": SECOND // 1000, "nanoOfSecond": 32_000_000}, "message": MESSAGE}), AT,
    ),
    "epoch": (json.dumps({"timeMillis": AT, "loggerName": "state.change.logger", "message": MESSAGE}), AT),
    "docker": (
        json.dumps({"log": f"[2026-11-21 23:40:27,032] INFO {MESSAGE}\n", "time": "2025-01-01T00:00:00Z"}), AT,
    ),
    "CRLF": (f"[2026-11-21 23:40:27,032] INFO {MESSAGE}{LOGGER}\r", AT),
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
