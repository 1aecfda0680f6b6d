"""Requests and answers between raft nodes, out of what a line prints of them."""

from __future__ import annotations

import re

from highwater.traces.raft.events import (
    Begin,
    BeginAnswer,
    Fetch,
    FetchAnswer,
    Message,
    Other,
    Vote,
    VoteAnswer,
)
from highwater.traces.raft.text import Part
from highwater.traces.reading.fields import INT64

_ID = re.compile(r"id: (-?\d{1,10})\b")


def message(data: Part) -> Message:
    """What an object such as FetchRequestData says. Raises TraceError where a field that is needed is not there."""
    reader = _READERS.get(data.name)
    if reader is not None:
        return reader(data)
    error = data.small("errorCode") if "errorCode" in data.fields else 0
    return Other(data.name.removesuffix("Data"), error)


def node_of(part: Part, name: str) -> int:
    """The number of the node in a text such as ``127.0.0.1:9093 (id: 3 rack: null isFenced: false)``."""
    found = part.at(name)
    number = _ID.match(found.items[0]) if found.items and isinstance(found.items[0], str) else None
    if number is None:
        raise found.place.wrong("no node's id")
    return int(number[1])


def _fetch(data: Part) -> Message:
    partition = data.at("topics", "0", "partitions", "0")
    sender = data.small("replicaId")
    if "replicaState" in data.fields:
        sender = max(sender, data.at("replicaState").small("replicaId"))
    hwm = partition.number("highWatermark") if "highWatermark" in partition.fields else INT64
    return Fetch(
        sender,
        partition.small("currentLeaderEpoch"),
        partition.number("fetchOffset"),
        partition.small("lastFetchedEpoch"),
        None if hwm == INT64 else hwm,
        data.small("maxWaitMs"),
    )


def _fetch_answer(data: Part) -> Message:
    error = data.small("errorCode")
    if error:
        return FetchAnswer(error, -1, -1, -1, 0, None, None)
    partition = data.at("responses", "0", "partitions", "0")
    leader = partition.at("currentLeader")
    records = partition.fields.get("records")
    return FetchAnswer(
        partition.small("errorCode"),
        leader.small("leaderId"),
        leader.small("leaderEpoch"),
        partition.number("highWatermark"),
        records.number("size", 0) if isinstance(records, Part) else 0,
        _end(partition.at("divergingEpoch")),
        _end(partition.at("snapshotId")),
    )


def _end(of: Part) -> tuple[int, int] | None:
    """An epoch and its end offset; None where it names none."""
    found = of.small("epoch"), of.number("endOffset")
    return None if found == (-1, -1) else found


def _vote(data: Part) -> Message:
    partition = data.at("topics", "0", "partitions", "0")
    return Vote(
        partition.small("replicaId"),
        data.small("voterId"),
        partition.small("replicaEpoch"),
        partition.small("lastOffsetEpoch"),
        partition.number("lastOffset"),
        partition.flag("preVote"),
    )


def _vote_answer(data: Part) -> Message:
    error = data.small("errorCode")
    if error:
        return VoteAnswer(error, -1, -1, False)
    partition = data.at("topics", "0", "partitions", "0")
    return VoteAnswer(
        partition.small("errorCode"),
        partition.small("leaderId"),
        partition.small("leaderEpoch"),
        partition.flag("voteGranted"),
    )


def _begin(data: Part) -> Message:
    partition = data.at("topics", "0", "partitions", "0")
    return Begin(partition.small("leaderId"), data.small("voterId"), partition.small("leaderEpoch"))


def _begin_answer(data: Part) -> Message:
    error = data.small("errorCode")
    if error:
        return BeginAnswer(error, -1, -1)
    partition = data.at("topics", "0", "partitions", "0")
    return BeginAnswer(
        partition.small("errorCode"), partition.small("leaderId"), partition.small("leaderEpoch")
    )


_READERS = {
    "FetchRequestData": _fetch,
    "FetchResponseData": _fetch_answer,
    "VoteRequestData": _vote,
    "VoteResponseData": _vote_answer,
    "BeginQuorumEpochRequestData": _begin,
    "BeginQuorumEpochResponseData": _begin_answer,
}
