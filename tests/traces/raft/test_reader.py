from __future__ import annotations

from pathlib import Path

import pytest

from highwater.traces.inputs import BROKER_LOG, RAFT_LOG, kind_of
from highwater.traces.messages import raft_events as e
from highwater.traces.messages.raft_lines import MAX_DEPTH, RaftLog, parse
from highwater.traces.messages.raft_replay import replay_raft
from highwater.traces.reading import Place, TraceError

HEAD = "[2026-11-21 10:00:00,005] TRACE [RaftManager id=3] "
TAIL = " (org.apache.kafka.raft.KafkaRaftClient)"
FETCH = (
    "Sent outbound request: OutboundRequest(correlationId=1, data=FetchRequestData(clusterId='a,)b', replicaId=-1, "
    "replicaState=ReplicaState(replicaId=3, replicaEpoch=-1), maxWaitMs=500, news=Later(x=1), topics=[FetchTopic("
    "topic='', partitions=[FetchPartition(partition=0, currentLeaderEpoch=2, fetchOffset=7, lastFetchedEpoch=1, "
    "highWatermark={})])], rackId=''), createdTimeMs=1, destination=127.0.0.1:9093 (id: 4 rack: null isFenced: false))"
)


def log(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "raft.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def events(tmp_path: Path, *lines: str) -> list[e.What]:
    return [event.what for event in RaftLog(log(tmp_path, *lines))]


@pytest.mark.parametrize(("field", "hwm"), [("5", 5), ("-1", -1), ("9223372036854775807", None)])
def test_a_fetch_is_read_with_unknown_fields(tmp_path: Path, field: str, hwm: int | None) -> None:
    assert events(tmp_path, HEAD + FETCH.format(field) + TAIL) == [
        e.Sent(e.Fetch(3, 2, 7, 1, hwm, 500), 1, 4)
    ]


def test_other_lines_are_skipped_and_truncated_lines_are_counted(tmp_path: Path) -> None:
    whole = HEAD + FETCH.format(5) + TAIL
    again = whole[: len(whole) // 2] + whole
    path = log(
        tmp_path, "at java.lang.Thread.run", HEAD + "Beginning graceful shutdown" + TAIL, again, whole[:300]
    )
    read = RaftLog(path)
    assert [event.place.line for event in read] == [3]
    assert read.cut == 2


def test_lines_of_other_loggers_are_skipped_and_not_counted_as_cut_off(tmp_path: Path) -> None:
    """One file can have all loggers' lines, and a message can have several lines with its logger after the last one."""
    time = "[2026-11-21 10:00:00,005] "
    path = log(
        tmp_path,
        HEAD + FETCH.format(5) + TAIL,
        time + "INFO Initialized snapshots with IDs SortedSet() (kafka.raft.KafkaMetadataLog$)",
        time + "INFO KafkaConfig values: ",
        "\tnode.id = 3",
        " (kafka.server.KafkaConfig)",
        time + "ERROR Found problem (state.change.logger)",
        time + "ERROR to" + time + "INFO Registered (kafka.utils.Log4jControllerRegistration$)",
        HEAD + "Received inbound message InboundRequest(listenerName=ListenerName(CONTROLLER)",
    )
    read = RaftLog(path)
    assert [event.place.line for event in read] == [1]
    assert read.cut == 2


def test_lines_cut_off_before_the_voters_are_counted_once(tmp_path: Path) -> None:
    """The replay reads each log's first lines twice, at first for the voters."""
    voters = "Starting voters are VoterSet(voters={3=VoterNode()})"
    path = log(tmp_path, HEAD + "x", HEAD + "y" + HEAD + "Shutdown" + TAIL, HEAD + voters + TAIL)
    assert replay_raft([path]).notes == ["skipped 2 lines that are cut off: a process died"]


def test_a_file_with_lines_of_other_loggers_is_no_raft_log(tmp_path: Path) -> None:
    """Every server.log has some raft client lines, so these alone do not make it a raft log."""
    raft = HEAD.replace("TRACE", "INFO") + "Starting request manager with static voters: []" + TAIL
    other = "[2026-11-21 10:00:00,005] INFO Initialized snapshots with IDs SortedSet() (kafka.raft.KafkaMetadataLog$)"
    broken = other[:60]
    unnamed = raft.replace("[RaftManager id=3] ", "")
    assert kind_of(log(tmp_path, unnamed)) != RAFT_LOG
    assert kind_of(log(tmp_path, other, raft)) == BROKER_LOG
    assert kind_of(log(tmp_path, *[raft] * 100, HEAD + FETCH.format(5) + TAIL, other)) == BROKER_LOG
    reaper = (
        HEAD.replace("[RaftManager id=3]", "[reaper]:") + "Starting (org.apache.kafka.raft.Reaper$Thread)"
    )
    assert kind_of(log(tmp_path, broken, reaper)) == BROKER_LOG
    assert kind_of(log(tmp_path, broken, reaper, raft, "\tat java.lang.Thread.run")) == RAFT_LOG


ROLE = (
    "Completed transition to FollowerState(epoch=2, leader={}, votedKey=Optional.empty, highWatermark=Optional.empty) "
    "from X() (org.apache.kafka.raft.QuorumState)"
)
UNATTACHED = (
    "Completed transition to UnattachedState(epoch=2, leaderId={}, votedKey=Optional.empty, highWatermark="
    "Optional.empty) from X() (org.apache.kafka.raft.QuorumState)"
)


@pytest.mark.parametrize(
    ("text", "leader"),
    [
        (ROLE.format(4), 4),
        (UNATTACHED.format("OptionalInt[4]"), 4),
        (UNATTACHED.format("OptionalInt.empty"), None),
    ],
)
def test_a_role_says_who_leads(text: str, leader: int | None, tmp_path: Path) -> None:
    name = "Follower" if "Follower" in text else "Unattached"
    assert events(tmp_path, HEAD + text) == [e.Role(name, 2, leader, None, None, None, first=False)]


LINE = HEAD + FETCH.format(5) + TAIL
UNNAMED = "OutboundRequest.data.topics.FetchTopic.partitions.FetchPartition."
"""The path to a field of ``FETCH``: unnamed list items and objects have the name of their type."""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (LINE.replace("fetchOffset=7", "fetchOffset=x"), f"{UNNAMED}fetchOffset: expected a whole number, not x"),
        (LINE.replace("fetchOffset=7, ", ""), "fetchOffset: missing"),
        (LINE.replace("fetchOffset=7", "fetchOffset=-2"), "fetchOffset: -2 is outside -1..9223372036854775807"),
        (LINE.replace("LeaderEpoch=2", "LeaderEpoch=4294967296"), "4294967296 is outside -1..2147483647"),
        (LINE.replace("Id=1", f"Id={9**21}"), "correlationId: expected a whole number"),
        (LINE.replace("(id: 4", "(no: 4"), "no node's id"),
        (LINE.replace("FetchRequestData(", "FetchRequestData["), "where ] was expected"),
        (LINE.replace("isFenced: false))", "isFenced: false"), "breaks off"),
        (LINE.replace("11-21", "13-41"), "no such time"),
        (f"{HEAD}Follower end offset updated to [offset=x]{TAIL}", "log:2: offset: expected a whole number, not x"),
        (HEAD + UNATTACHED.format("OptionalInt[4.5]"), "UnattachedState.leaderId: expected a whole number"),
        (HEAD + UNATTACHED.format("OptionalInt[ReplicaKey(id=4)]"), "leaderId: expected a whole number"),
        (f"{HEAD}Starting voters are VoterSet(voters={{{2**31}=VoterNode()}}){TAIL}", "voterStates: no node's id"),
        (f"{HEAD}Vote request VoteRequestDataOfLater(errorCode=0) with epoch 1 is granted{TAIL}",
         "neither granted nor rejected"),
        (f"{HEAD}Leader appended records at base offset {2**63}, new end offset is X(){TAIL}", "offset: is outside"),
    ],
)  # fmt: skip
def test_an_error_names_its_line_and_field(line: str, said: str, tmp_path: Path) -> None:
    assert line != LINE
    with pytest.raises(TraceError) as wrong:
        events(tmp_path, "x", line)
    assert wrong.value.line == 2
    assert said in str(wrong.value)


@pytest.mark.parametrize("before", ["{}", "Optional[{}]"])
def test_an_hwm_is_read_with_the_previous_one(before: str, tmp_path: Path) -> None:
    def at(offset: int) -> str:
        return f"LogOffsetMetadata(offset={offset}, metadata=Optional.empty)"

    text = f"High watermark set to Optional[{at(7)}] from {before.format(at(5))} for epoch 2"
    assert events(tmp_path, HEAD + text + TAIL) == [e.Hwm(7, False, 5, None, final=False)]


ANSWER = (
    "Received inbound message InboundResponse(correlationId=1, data={}, source=127.0.0.1:9093 (id: 4 rack: null "
    "isFenced: false))"
)
FETCHED = (
    "FetchResponseData(throttleTimeMs=0, errorCode=0, responses=[FetchableTopicResponse(topic='', partitions=["
    "PartitionData(partitionIndex=0, errorCode={}, highWatermark=3, divergingEpoch=EpochEndOffset(epoch={}, "
    "endOffset={}), currentLeader=LeaderIdAndEpoch(leaderId=4, leaderEpoch=2), snapshotId=SnapshotId(endOffset={}, "
    "epoch={}), records=MemoryRecords(size=72, buffer=x))])])"
)


@pytest.mark.parametrize(
    ("end", "start", "diverging", "snapshot"),
    [((-1, -1), (-1, -1), None, None), ((0, 0), (9, 0), (0, 0), (0, 9)), ((1, 5), (0, 0), (1, 5), (0, 0))],
)
def test_an_answer_has_a_diverging_epoch_and_a_snapshot(
    end: tuple[int, int], start: tuple[int, int], diverging: object, snapshot: object, tmp_path: Path
) -> None:
    (got,) = events(tmp_path, HEAD + ANSWER.format(FETCHED.format(0, *end, *start)) + TAIL)
    assert got == e.GotAnswer(e.FetchAnswer(0, 4, 2, 3, 72, diverging, snapshot), 1, 4, False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "failed"),
    [
        ("FetchResponseData(throttleTimeMs=0, errorCode=8, responses=[])", True),
        (FETCHED.format(8, -1, -1, -1, -1), False),
        ("FetchSnapshotResponseData(errorCode=8)", True),
        ("FetchSnapshotResponseData(topics=[])", False),
    ],
)
def test_an_answer_with_a_top_level_error_has_failed(data: str, failed: bool, tmp_path: Path) -> None:
    (got,) = events(tmp_path, HEAD + ANSWER.format(data) + TAIL)
    assert isinstance(got, e.GotAnswer)
    assert got.failed == failed


def test_nesting_is_bounded() -> None:
    with pytest.raises(TraceError, match="nested too deeply"):
        parse(Place(Path("x"), 1), "(" * (MAX_DEPTH + 2))


@pytest.mark.parametrize("end", ["x" * (1 << 21), "'" + "x" * (1 << 21), " " * (1 << 21), "x " * (1 << 20)])
def test_a_long_text_that_breaks_off_is_read_once(end: str) -> None:
    """The parser reads each character once; a quadratic parser would take hours."""
    with pytest.raises(TraceError, match="breaks off"):
        parse(Place(Path("x"), 1), f"A(b={end}")


def test_names_and_quoted_texts() -> None:
    """A name ends at the first equals sign; a quoted text is one value, whatever it contains."""
    text = "A(b=1, c='d=(e,', f, g h=i, =j, k=, b=2, l=M(n = o), 'p=q') rest"
    found, end = parse(Place(Path("x"), 1), text)
    assert text[end:] == " rest"
    inner = found.at("l")
    assert found.fields == {"b": "1", "c": "d=(e,", "k": "", "l": inner}
    assert (inner.name, inner.items, found.items) == ("M", ["n = o"], ["f", "g h=i", "=j", "'p=q'"])


def test_a_log_without_voters_says_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="names the voters"):
        replay_raft([log(tmp_path, HEAD + FETCH.format(5) + TAIL)])
